/*
 * Running text for language models: "FILE[,tokens=characters|words|bytes][,test=SHARE][,vocab=FILE][,tokenizer=FILE]".
 *
 * The file is one sequence of tokens. The last SHARE of them (0.1) are the test set, the others the training set. Each set is
 * cut into consecutive sequences of T tokens, which the network determines; a remainder at the end is not used. The labels of a
 * sequence are each position's next token or, for a network that predicts masked tokens, these (data/vocabulary.h), masked
 * differently in each epoch of training.
 *
 * Words are separated by blanks, and the end of a line is the token </s>. The vocabulary is that of the training set: all its
 * characters or its most frequent words; for bytes, all 256 byte values ("<0x41>"). A tokenizer
 * (data/tokenizer.h) numbers the whole file as one text, by its own numbers.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "data/corpus.h"
#include "data/tokenizer.h"
#include "data/vocabulary.h"

#define FILE_LIMIT ((size_t)1 << 34)

enum level { CHARACTERS, WORDS, BYTES, TOKENIZER, LEVELS };
static const char *const levels[LEVELS] = {
    [CHARACTERS] = "characters", [WORDS] = "words", [BYTES] = "bytes", [TOKENIZER] = TOKENS_OF_TOKENIZER};

struct running_text {
    struct dataset dataset; /* first */
    struct text_vocabularies vocabularies;
    int32_t *tokens; /* of the training or test set */
    bool masked;
    struct masking masking;
};

/* The file and its options. */
struct source {
    const char *path;
    int level;
    char data_kind[VOCABULARY_DATA]; /* what the vocabulary is made from */
    double test;
    char *data;
    size_t size;
    struct token_list list;   /* a tokenizer's numbers of the whole file */
    int64_t tokens, training; /* in the file; in the training set, which comes first */
};

/* ------------------------------------------------------------------- tokens */

static const char *byte_token(unsigned char byte, char text[8]) {
    snprintf(text, 8, "<0x%02X>", byte);
    return text;
}

/* Returns the token at *position and moves *position past it; *length is 0 at the end. `text` has room for a byte's name. */
static const char *next_token(const struct source *source, size_t *position, char text[8], size_t *length) {
    const char *data = source->data;
    *length = 0;
    if (source->level == WORDS) {
        while (*position < source->size && memchr(" \t\r", data[*position], 3)) ++*position;
    }
    if (*position == source->size) return data;
    size_t start = (*position)++;
    unsigned char first = (unsigned char)data[start];
    if (source->level == BYTES) {
        *length = strlen(byte_token(first, text));
        return text;
    }
    if (source->level == WORDS && first == '\n') {
        *length = strlen("</s>");
        return "</s>";
    }
    if (source->level == CHARACTERS) *position += first >= 0xf0 ? 3u : first >= 0xe0 ? 2u : first >= 0xc0 ? 1u : 0u;
    while (source->level == WORDS && *position < source->size && !memchr(" \t\r\n", data[*position], 4)) ++*position;
    *length = *position - start;
    return data + start;
}

static int64_t count_tokens(const struct source *source) {
    char text[8];
    size_t position = 0, length;
    int64_t count = 0;
    while (next_token(source, &position, text, &length), length > 0) count++;
    return count;
}

static enum ps_status count_words(const struct source *source, struct vocabulary *vocabulary, struct ps_error *error) {
    char text[8];
    size_t position = 0, length;
    for (int byte = 0; byte < 256 && source->level == BYTES; byte++) {
        TRY(vocabulary_count(vocabulary, byte_token((unsigned char)byte, text), strlen("<0x00>"), error));
    }
    for (int64_t i = 0; i < source->training && source->level != BYTES; i++) {
        const char *token = next_token(source, &position, text, &length);
        TRY(vocabulary_count(vocabulary, token, length, error));
    }
    return PS_OK;
}

/* ---------------------------------------------------------- texts by themselves */

static enum ps_status level_of(const struct vocabulary *vocabulary, int *level, struct ps_error *error) {
    static const char kind[] = "text,tokens=";
    const char *data = vocabulary_data(vocabulary);
    const bool ours = strncmp(data, kind, sizeof kind - 1) == 0;
    *level = vocabulary_tokenizer(vocabulary) ? TOKENIZER : 0;
    while (*level < TOKENIZER && !(ours && strcmp(data + sizeof kind - 1, levels[*level]) == 0)) ++*level;
    if (*level < TOKENIZER || vocabulary_tokenizer(vocabulary)) return PS_OK;
    return error_set(error, PS_USAGE, "the vocabulary was made from '%s', not from running text", data);
}

enum ps_status running_text_number(const struct vocabulary *vocabulary, const char *text, size_t length,
                                   struct token_list *list, struct ps_error *error) {
    struct source source = {.data = (char *)text, .size = length};
    size_t position = 0, size;
    char name[8];
    TRY(level_of(vocabulary, &source.level, error));
    if (source.level != BYTES && utf8_invalid(text, length)) return error_set(error, PS_USAGE, "the text is not UTF-8");
    if (source.level == TOKENIZER) return tokenizer_encode(vocabulary_tokenizer(vocabulary), text, length, list, error);
    for (const char *token; token = next_token(&source, &position, name, &size), size > 0;)
        TRY(token_list_add(list, vocabulary_find(vocabulary, token, size), error));
    return PS_OK;
}

enum ps_status running_text_spell(const struct vocabulary *vocabulary, const int32_t *tokens, int64_t count, struct text *text,
                                  struct ps_error *error) {
    int level;
    TRY(level_of(vocabulary, &level, error));
    if (level == TOKENIZER) return tokenizer_decode(vocabulary_tokenizer(vocabulary), tokens, count, text, error);
    for (int64_t i = 0, line = 0; i < count; i++, line++) {
        const bool known = tokens[i] >= 0 && tokens[i] < vocabulary_size(vocabulary);
        const char *token = vocabulary_token(vocabulary, known ? tokens[i] : VOCABULARY_UNKNOWN);
        unsigned byte;
        if (level == BYTES && sscanf(token, "<0x%2X>", &byte) == 1) {
            text_add_raw(text, &(char){(char)byte}, 1);
        } else if (level == WORDS && tokens[i] == VOCABULARY_END) {
            text_add_raw(text, "\n", 1);
            line = -1;
        } else {
            if (level == WORDS && line > 0) text_add_raw(text, " ", 1);
            text_add_raw(text, token, strlen(token));
        }
    }
    return PS_OK;
}

/* ----------------------------------------------------------------- the file */

static enum ps_status read_options(struct spec *options, const struct dataset_shape *required,
                                   struct text_vocabularies *vocabularies, struct source *source, struct ps_error *error) {
    static const char *const keys[] = {"tokens", "test", "vocab", "tokenizer"};
    source->path = options->name;
    source->test = 0.1;
    TRY(text_vocabularies_find("text", options, required, 1, 0, vocabularies, error));
    TRY(text_tokens_find("text", options, vocabularies, levels, LEVELS, &source->level, source->data_kind, error));
    TRY(spec_number(options, "test", 0, 1, &source->test, error));
    TRY(spec_finish(options, "data", keys, 4, error));
    /* The file always contains the training set, so the vocabulary can also be made when the test set is opened. That of bytes
     * is fixed. */
    if (vocabularies->used[0] || !required->words_needed || source->level == BYTES) return PS_OK;
    return text_vocabulary_missing("text", error);
}

static enum ps_status read_file(struct source *source, const struct vocabulary *vocabulary, struct ps_error *error) {
    TRY(file_read(source->path, FILE_LIMIT, &source->data, &source->size, error));
    if (source->level != BYTES) source->size = utf8_drop_mark(source->data, source->size);
    const char *wrong = source->level == BYTES ? NULL : utf8_invalid(source->data, source->size);
    if (wrong) {
        return error_set(error, PS_BAD_INPUT, "%s: byte %zu (0x%02x) is not UTF-8 text; ,tokens=bytes takes any file",
                         source->path, (size_t)(wrong - source->data) + 1, (unsigned)(unsigned char)*wrong);
    }
    if (source->level == TOKENIZER)
        TRY(tokenizer_encode(vocabulary_tokenizer(vocabulary), source->data, source->size, &source->list, error));
    source->tokens = source->level == TOKENIZER ? (int64_t)source->list.count : count_tokens(source);
    source->training = source->tokens - (int64_t)(source->test * (double)source->tokens);
    return PS_OK;
}

/* Makes the vocabulary from the training set unless the spec or the run has one. */
static enum ps_status make_vocabulary(struct running_text *text, const struct source *source, int size,
                                      struct ps_error *error) {
    struct text_vocabularies *vocabularies = &text->vocabularies;
    if (vocabularies->used[0]) return PS_OK;
    struct vocabulary *made = vocabulary_create(error);
    if (!made) return PS_OUT_OF_MEMORY;
    text_vocabularies_take(vocabularies, 0, made, source->data_kind);
    TRY(count_words(source, made, error));
    return vocabulary_finish(made, source->level == WORDS ? size : INT_MAX, error);
}

static enum ps_status number_tokens(struct running_text *text, const struct source *source, enum dataset_part part,
                                    struct ps_error *error) {
    int64_t first = part == DATASET_TRAIN ? 0 : source->training,
            end = part == DATASET_TRAIN ? source->training : source->tokens;
    int64_t length = text->dataset.shape.height,
            following = text->masked ? 0 : 1; /* the last position needs a next token, too */
    text->dataset.samples = (end - first - following) / length;
    if (end - first < length + following) {
        error_set(error, PS_USAGE, "%s: its %s set has %lld tokens, fewer than the %lld of one sequence", source->path,
                  part == DATASET_TRAIN ? "training" : "test", (long long)(end - first), (long long)(length + following));
        error_hint(error, "the share of its %lld tokens that are the test set is the option test=, here %g",
                   (long long)source->tokens, source->test);
        return PS_USAGE;
    }
    TRY(memory_new(&text->tokens, end - first, source->path, error));
    size_t position = 0, size;
    char name[8];
    if (source->level == TOKENIZER)
        memcpy(text->tokens, source->list.tokens + first, (size_t)(end - first) * sizeof *text->tokens);
    for (int64_t i = 0; i < end && source->level != TOKENIZER; i++) {
        const char *token = next_token(source, &position, name, &size);
        if (i >= first) text->tokens[i - first] = vocabulary_find(text->vocabularies.used[0], token, size);
    }
    return PS_OK;
}

/* ------------------------------------------------------------------ dataset */

static void close_text(struct dataset *dataset) {
    struct running_text *text = (struct running_text *)dataset;
    text_vocabularies_free(&text->vocabularies);
    free(text->tokens);
    free(text);
}

/* A tokenizer's own token for what is masked. */
static enum ps_status find_mask(struct running_text *text, const struct source *source, int size, struct ps_error *error) {
    static const char *const names[] = {"[MASK]", "<mask>"};
    const struct tokenizer *tokenizer = vocabulary_tokenizer(text->vocabularies.used[0]);
    text->masking = (struct masking){-1, 0, size};
    for (int n = 0; n < 2 && text->masking.mask < 0; n++) text->masking.mask = tokenizer_find(tokenizer, names[n]);
    if (text->masking.mask >= 0) return PS_OK;
    return error_set(error, PS_USAGE, "%s: the network predicts masked tokens, but its tokenizer has no token [MASK] or <mask>",
                     source->path);
}

static enum ps_status load(struct running_text *text, struct spec *options, enum dataset_part part,
                           const struct dataset_shape *required, struct source *source, struct ps_error *error) {
    TRY(read_options(options, required, &text->vocabularies, source, error));
    TRY(read_file(source, text->vocabularies.used[0], error));
    TRY(make_vocabulary(text, source, required->vocabulary, error));
    int size = vocabulary_size(text->vocabularies.used[0]);
    text->masked = required->masked;
    text->masking = (struct masking){MASKING_TOKEN, VOCABULARY_SPECIALS, size};
    if (source->level == TOKENIZER) {
        if (text->masked) TRY(find_mask(text, source, size, error));
        size = required->vocabulary; /* networks round the number of tokens up */
    }
    text->dataset.shape = (struct dataset_shape){.channels = 1,
                                                 .height = required->height,
                                                 .width = 1,
                                                 .classes = size,
                                                 .labels = (int)required->height,
                                                 .vocabulary = size,
                                                 .masked = required->masked,
                                                 .words = {text->vocabularies.used[0]}};
    return number_tokens(text, source, part, error);
}

static enum ps_status open_text(const char *rest, enum dataset_part part, const struct dataset_shape *required,
                                struct dataset **dataset, struct ps_error *error) {
    struct spec options;
    TRY(spec_parse(rest, "data", &options, error));
    struct running_text *text;
    TRY(memory_new(&text, 1, "a dataset", error));
    struct source source = {0};
    enum ps_status status = load(text, &options, part, required, &source, error);
    free(source.data);
    free(source.list.tokens);
    if (status == PS_OK)
        *dataset = &text->dataset;
    else
        close_text(&text->dataset);
    return status;
}

static enum ps_status read_augmented(const struct dataset *dataset, int64_t index, struct random_key key, void *input,
                                     void *target, struct ps_error *error) {
    int32_t *labels = target;
    (void)error;
    int32_t *tokens = input;
    const struct running_text *text = (const struct running_text *)dataset;
    int64_t length = dataset->shape.height;
    const int32_t *from = text->tokens + index * length;
    memcpy(tokens, from, (size_t)length * sizeof *tokens);
    if (text->masked)
        masking_apply(key, length, &text->masking, tokens, labels);
    else
        memcpy(labels, from + 1, (size_t)length * sizeof *labels);
    return PS_OK;
}

static enum ps_status read_text(const struct dataset *dataset, int64_t index, void *input, void *target,
                                struct ps_error *error) {
    return read_augmented(dataset, index, random_key(0, RANDOM_AUGMENT, UINT64_MAX, (uint64_t)index), input, target, error);
}

const struct dataset_class dataset_text = {
    .name = "text",
    .summary = "FILE[,tokens=characters|words|bytes,tokenizer=FILE,test=0.1]: running text for language models",
    .example = "FILE.txt",
    .task = DATASET_RUNNING_TEXT,
    .open = open_text,
    .close = close_text,
    .read = read_text,
    .read_augmented = read_augmented,
};
