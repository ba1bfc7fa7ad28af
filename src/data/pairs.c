/*
 * Pairs of sentences for translation: "PREFIX:SRC:TGT[,tokens=words|given|pieces][,vocab=FILE]
 * [,tokenizer=FILE[,target_tokenizer=FILE]]". Line n of PREFIX.TGT is the
 * translation of line n of PREFIX.SRC. Tokens are words and punctuation (words_13a) or, for files that hold subwords, separated
 * by blanks. With tokens=given "@@" at the end of a token joins it to the next one; with tokens=pieces all tokens are joined,
 * and U+2581 at the beginning of one is a blank. Translations and references are spelled by these rules. A
 * tokenizer's numbers follow the four of every vocabulary, and it spells its tokens itself.
 *
 * A sample is S tokens of the source, </s> at its end included, and T tokens of the target as the decoder reads it, beginning
 * with <s>. Its labels are the T next tokens, ending with </s>. Longer sentences are cut off, shorter ones padded; the network
 * determines S and T.
 */
#include "data/pairs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/corpus.h"
#include "data/tokenizer.h"

struct pairs {
    struct dataset dataset; /* first */
    struct corpus corpus[2];
    struct text_vocabularies vocabularies;
    int tokens; /* a tokenisation below */
};

/* Tokenisations of a sentence. */
enum { WORDS, GIVEN, PIECES, TOKENIZER, TOKENISATIONS };
static const char *const tokenisations[TOKENISATIONS] = {
    [WORDS] = "words", [GIVEN] = "given", [PIECES] = "pieces", [TOKENIZER] = TOKENS_OF_TOKENIZER};
static corpus_split *const splits[TOKENISATIONS] = {[WORDS] = words_13a, [GIVEN] = words_given, [PIECES] = words_given};

static void close_pairs(struct dataset *dataset) {
    struct pairs *pairs = (struct pairs *)dataset;
    for (int v = 0; v < 2; v++) corpus_free(&pairs->corpus[v]);
    text_vocabularies_free(&pairs->vocabularies);
    free(pairs);
}

/* "PREFIX:SRC:TGT" to the two files. */
static enum ps_status make_paths(const char *name, char paths[2][4096], struct ps_error *error) {
    const char *target = strrchr(name, ':'), *source = target;
    while (source && source > name && *--source != ':') {
    }
    if (!target || source == name || *source != ':' || source + 1 == target || !target[1]) {
        return error_set(error, PS_USAGE, "data 'pairs:%s': a prefix and two endings are needed, as in pairs:data/train:en:de",
                         name);
    }
    int prefix = (int)(source - name);
    snprintf(paths[0], 4096, "%.*s.%.*s", prefix, name, (int)(target - source - 1), source + 1);
    snprintf(paths[1], 4096, "%.*s.%s", prefix, name, target + 1);
    return PS_OK;
}

static enum ps_status load(struct pairs *pairs, struct spec *options, enum dataset_part part,
                           const struct dataset_shape *required, struct ps_error *error) {
    static const char *const keys[] = {"tokens", "vocab", "tokenizer", "target_tokenizer"};
    struct text_vocabularies *vocabularies = &pairs->vocabularies;
    char paths[2][4096], data[VOCABULARY_DATA];
    TRY(make_paths(options->name, paths, error));
    TRY(text_vocabularies_find("pairs", options, required, 2, VOCABULARY_SPECIALS, vocabularies, error));
    TRY(text_tokens_find("pairs", options, vocabularies, tokenisations, TOKENISATIONS, &pairs->tokens, data, error));
    TRY(spec_finish(options, "data", keys, 4, error));
    if (!vocabularies->used[0] && (part != DATASET_TRAIN || required->words_needed))
        return text_vocabulary_missing("pairs", error);
    for (int v = 0; v < 2; v++) {
        struct corpus *corpus = &pairs->corpus[v];
        TRY(corpus_read(paths[v], corpus, error));
        if (!vocabularies->used[v]) {
            int size = v == 0 ? required->vocabulary : required->classes;
            struct vocabulary *made;
            TRY(corpus_vocabulary(corpus, splits[pairs->tokens], size, &made, error));
            text_vocabularies_take(vocabularies, v, made, data);
        }
        TRY(corpus_number(corpus, splits[pairs->tokens], vocabularies->used[v], error));
        pairs->dataset.shape.words[v] = vocabularies->used[v];
    }
    if (vocabularies->used[1] == vocabularies->used[0]) pairs->dataset.shape.words[1] = NULL; /* one tokenizer */
    pairs->dataset.samples = pairs->corpus[0].count;
    if (pairs->corpus[0].count == pairs->corpus[1].count) return PS_OK;
    return error_set(error, PS_BAD_INPUT,
                     "%s has %lld lines and %s %lld: line n of one must be the translation of line n of the "
                     "other",
                     paths[0], (long long)pairs->corpus[0].count, paths[1], (long long)pairs->corpus[1].count);
}

static enum ps_status open_pairs(const char *rest, enum dataset_part part, const struct dataset_shape *required,
                                 struct dataset **dataset, struct ps_error *error) {
    struct spec options;
    TRY(spec_parse(rest, "data", &options, error));
    struct pairs *pairs;
    TRY(memory_new(&pairs, 1, "a dataset", error));
    pairs->dataset.shape = *required;
    enum ps_status status = load(pairs, &options, part, required, error);
    if (status == PS_OK)
        *dataset = &pairs->dataset;
    else
        close_pairs(&pairs->dataset);
    return status;
}

/* ------------------------------------------------------------------ samples */

static enum ps_status read_labels(const struct dataset *dataset, int64_t index, void *target, struct ps_error *error) {
    int32_t *labels = target;
    (void)error;
    int64_t count, length = dataset_labels(&dataset->shape);
    const int32_t *words = corpus_tokens(&((const struct pairs *)dataset)->corpus[1], index, &count);
    for (int64_t t = 0; t < length; t++) labels[t] = t < count ? words[t] : t == count ? VOCABULARY_END : -1;
    return PS_OK;
}

static enum ps_status read_pair(const struct dataset *dataset, int64_t index, void *input, void *target,
                                struct ps_error *error) {
    int32_t *tokens = input;
    const struct pairs *pairs = (const struct pairs *)dataset;
    int64_t count, length = dataset_labels(&dataset->shape), source = dataset->shape.height - length;
    const int32_t *words = corpus_tokens(&pairs->corpus[0], index, &count);
    if (count > source - 1) count = source - 1;
    for (int64_t t = 0; t < source; t++) {
        tokens[t] = t < count ? words[t] : t == count ? VOCABULARY_END : VOCABULARY_PADDING;
    }
    words = corpus_tokens(&pairs->corpus[1], index, &count);
    for (int64_t t = 0; t < length; t++) {
        tokens[source + t] = t == 0 ? VOCABULARY_START : t <= count ? words[t - 1] : VOCABULARY_PADDING;
    }
    return read_labels(dataset, index, target, error);
}

/* Counts </s> of the source, and <s> of the target. */
static struct sequence_length length_of(const struct dataset *dataset, int64_t index) {
    const struct pairs *pairs = (const struct pairs *)dataset;
    int64_t count[2];
    for (int side = 0; side < 2; side++) {
        corpus_tokens(&pairs->corpus[side], index, &count[side]);
        if (count[side] >= INT32_MAX) count[side] = INT32_MAX - 1;
    }
    return (struct sequence_length){(int)count[0] + 1, (int)count[1] + 1};
}

const struct dataset_class dataset_pairs = {
    .name = "pairs",
    .summary = "PREFIX:SRC:TGT, files PREFIX.SRC and PREFIX.TGT whose lines are translations of each other",
    .example = "data/train:en:de",
    .task = DATASET_TRANSLATIONS,
    .open = open_pairs,
    .close = close_pairs,
    .read = read_pair,
    .target = read_labels,
    .length = length_of,
};

bool dataset_has_pairs(const struct dataset *dataset) { return dataset->class == &dataset_pairs; }

/* Appends a token to a sentence, with a blank before it unless subwords are joined. *joined: the next token needs no blank
 * before it; true at the beginning. */
static void spell_token(int tokens, const char *token, size_t length, bool *joined, struct text *sentence) {
    static const char mark[] = "\xe2\x96\x81"; /* U+2581, SentencePiece's blank */
    const size_t size = sizeof mark - 1;
    const bool begins = tokens == PIECES && length >= size && memcmp(token, mark, size) == 0;
    const bool joins = tokens == GIVEN && length > 2 && memcmp(token + length - 2, "@@", 2) == 0;
    if (begins) {
        token += size;
        length -= size;
    }
    if (!*joined && (begins || tokens != PIECES)) text_add_raw(sentence, " ", 1);
    text_add_raw(sentence, token, length - (joins ? 2 : 0));
    *joined = joins || (begins && length == 0);
}

void pairs_reference(const struct dataset *dataset, int64_t index, struct text *sentence) {
    const struct pairs *pairs = (const struct pairs *)dataset;
    const char *line = pairs->corpus[1].lines[index], *word;
    text_add_raw(sentence, "", 0);
    if (pairs->tokens == WORDS || pairs->tokens == TOKENIZER) {
        text_add_raw(sentence, line, strlen(line));
        return;
    }
    struct text words = {0};
    bool joined = true;
    splits[pairs->tokens](line, strlen(line), &words);
    const char *position = words.data ? words.data : "";
    for (size_t length; (length = words_next(&position, &word)) > 0;) {
        spell_token(pairs->tokens, word, length, &joined, sentence);
    }
    if (words.failed) sentence->failed = true;
    text_free(&words);
}

/* The tokens up to the first </s> or padding, spelled by their tokenizer. */
static void spell_by_tokenizer(const struct vocabulary *vocabulary, const int32_t *tokens, int64_t count,
                               struct text *sentence) {
    int32_t *own = calloc((size_t)count + 1, sizeof *own);
    int64_t used = 0;
    for (int64_t t = 0; own && t < count && tokens[t] != VOCABULARY_END && tokens[t] != VOCABULARY_PADDING; t++)
        own[used++] = tokens[t] - vocabulary_first(vocabulary);
    if (!own || tokenizer_decode(vocabulary_tokenizer(vocabulary), own, used, sentence, NULL) != PS_OK) sentence->failed = true;
    free(own);
}

void pairs_spell(const struct dataset *dataset, const int32_t *tokens, int64_t count, struct text *sentence) {
    const struct pairs *pairs = (const struct pairs *)dataset;
    bool joined = true;
    if (pairs->tokens == TOKENIZER) {
        spell_by_tokenizer(pairs->vocabularies.used[1], tokens, count, sentence);
        return;
    }
    for (int64_t t = 0; t < count && tokens[t] != VOCABULARY_END && tokens[t] != VOCABULARY_PADDING; t++) {
        bool known = tokens[t] < vocabulary_size(pairs->vocabularies.used[1]);
        const char *word = vocabulary_token(pairs->vocabularies.used[1], known ? tokens[t] : VOCABULARY_UNKNOWN);
        spell_token(pairs->tokens, word, strlen(word), &joined, sentence);
    }
}
