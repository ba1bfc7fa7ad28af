/*
 * Texts with one label each: "FILE[,texts=2][,vocab=FILE][,tokenizer=FILE]", lines "label<TAB>text" or, with two texts each,
 * "label<TAB>text<TAB>text". Words are those of words_plain, or the tokens of a tokenizer (data/tokenizer.h), by its own
 * numbers and with the special tokens of its template. A sample is the first T tokens, followed by padding; the network
 * determines T.
 *
 * A network may have several inputs of T numbers each, told apart by their names: tokens, a mask ("mask": 1 for a token, 0 for
 * padding) and segments ("type" or "segment": 0 for tokens of the first text, 1 for those of the second). Two inputs of tokens
 * take one text each, each followed by its own mask and segments; one takes both texts, one behind the other.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/corpus.h"
#include "data/tokenizer.h"
#include "graph/operator.h"

enum role { TOKENS, MASK, SEGMENTS };

struct reviews {
    struct dataset dataset;  /* first */
    struct corpus corpus[2]; /* the first one owns the file's text */
    int32_t *labels;
    struct text_vocabularies vocabularies;
    int texts, token_inputs;
    struct ps_input inputs[GRAPH_INPUTS_MAX]; /* the dataset's, where it lists them; with names of our own */
    enum role role[GRAPH_INPUTS_MAX];
    int text[GRAPH_INPUTS_MAX]; /* that an input shows; -1: both */
    struct template_item separated[3];
    const struct template_item *items[2]; /* of one text, of both */
    int item_count[2], padding;
};

static void close_reviews(struct dataset *dataset) {
    struct reviews *reviews = (struct reviews *)dataset;
    for (int t = 0; t < 2; t++) corpus_free(&reviews->corpus[t]);
    for (int i = 0; i < GRAPH_INPUTS_MAX; i++) free((char *)reviews->inputs[i].name);
    text_vocabularies_free(&reviews->vocabularies);
    free(reviews->labels);
    free(reviews);
}

/* ------------------------------------------------------------------- inputs */

static enum role role_of(const char *name) {
    if (strstr(name, "mask")) return MASK;
    return strstr(name, "type") || strstr(name, "segment") ? SEGMENTS : TOKENS;
}

/* All sides but one are 1. */
static bool is_list(const struct ps_input *input) {
    int sides = 0;
    for (int d = 0; d < input->rank; d++) sides += input->shape[d] > 1;
    return sides <= 1;
}

/* Lists the inputs of a network that has several. */
static enum ps_status list_inputs(struct reviews *reviews, const char *path, const struct dataset_shape *required,
                                  struct ps_error *error) {
    for (int i = 0; i < required->input_count; i++) {
        const struct ps_input *input = &required->inputs[i];
        reviews->role[i] = role_of(input->name);
        if (!is_list(input) || (reviews->role[i] == TOKENS && input->vocabulary == 0))
            return error_set(error, PS_USAGE,
                             "data 'reviews:%s' give tokens, masks and segments of one side, not the network's '%s'", path,
                             input->name);
        if (reviews->role[i] == TOKENS) reviews->token_inputs++;
        reviews->text[i] = reviews->token_inputs > 0 ? reviews->token_inputs - 1 : 0;
        if (input->vocabulary != required->vocabulary && reviews->role[i] == TOKENS)
            return error_set(error, PS_USAGE,
                             "data 'reviews:%s' have one vocabulary, but the network reads %d tokens and, by '%s', %d", path,
                             required->vocabulary, input->name, input->vocabulary);
        reviews->inputs[i] = *input;
        reviews->inputs[i].name = strdup(input->name);
        if (!reviews->inputs[i].name) return error_memory(error, "a dataset", strlen(input->name));
    }
    if (reviews->token_inputs > 2)
        return error_set(error, PS_USAGE, "data 'reviews:%s' have two texts at most, but the network reads %d", path,
                         reviews->token_inputs);
    reviews->dataset.shape.inputs = reviews->inputs;
    reviews->dataset.shape.input_count = required->input_count;
    return PS_OK;
}

/* ------------------------------------------------------------------ reading */

/* Reads a line's label and moves the line's beginning past the TAB; cuts off the second text, if lines have two. */
static enum ps_status read_line(struct reviews *reviews, const char *path, int64_t line, struct ps_error *error) {
    const char *text = reviews->corpus[0].lines[line];
    int classes = reviews->dataset.shape.classes;
    const char *tab = strchr(text, '\t');
    if (!tab)
        return error_set(error, PS_BAD_INPUT, "%s: line %lld: no TAB; a line is label<TAB>text", path, (long long)line + 1);
    char *end;
    errno = 0;
    long label = strtol(text, &end, 10);
    if (end != tab || end == text || errno || *text < '0' || *text > '9' || label >= classes) {
        error_set(error, PS_BAD_INPUT, "%s: line %lld: label '%.*s': a number from 0 to %d is needed", path,
                  (long long)line + 1, (int)(tab - text < 40 ? tab - text : 40), text, classes - 1);
        error_hint(error, "the network's option classes= sets the number of classes, here %d", classes);
        return PS_BAD_INPUT;
    }
    reviews->labels[line] = (int32_t)label;
    reviews->corpus[0].lines[line] = tab + 1;
    if (reviews->texts == 1) return PS_OK;
    tab = strchr(tab + 1, '\t');
    if (!tab)
        return error_set(error, PS_BAD_INPUT, "%s: line %lld: one text; a line is label<TAB>text<TAB>text here", path,
                         (long long)line + 1);
    reviews->corpus[0].data[tab - reviews->corpus[0].data] = '\0';
    reviews->corpus[1].lines[line] = tab + 1;
    return PS_OK;
}

/* The special tokens around texts, and the token of padding. */
static enum ps_status take_template(struct reviews *reviews, const char *path, struct ps_error *error) {
    const struct tokenizer *tokenizer = vocabulary_tokenizer(reviews->vocabularies.used[0]);
    static const struct template_item one = {.text = 0};
    reviews->separated[1] = (struct template_item){-1, VOCABULARY_END, 0};
    reviews->separated[2] = (struct template_item){.text = 1, .segment = 1};
    for (int pair = 0; pair < 2; pair++) {
        reviews->items[pair] = pair ? reviews->separated : &one;
        reviews->item_count[pair] = pair ? 3 : 1;
        if (tokenizer) reviews->item_count[pair] = tokenizer_template(tokenizer, pair, &reviews->items[pair]);
    }
    reviews->padding = tokenizer ? tokenizer_padding(tokenizer) : VOCABULARY_PADDING;
    if (reviews->padding < 0)
        return error_set(error, PS_USAGE, "data 'reviews:%s': the tokenizer has no token for padding", path);
    const int pair = reviews->texts == 2 && reviews->token_inputs < 2;
    int special = 0;
    for (int i = 0; i < reviews->item_count[pair]; i++) special += reviews->items[pair][i].text < 0;
    if (special < reviews->dataset.shape.height) return PS_OK;
    return error_set(error, PS_USAGE, "data 'reviews:%s': a template with %d special tokens has no room in the network's %lld",
                     path, special, (long long)reviews->dataset.shape.height);
}

/* The most frequent words of all texts. */
static enum ps_status make_vocabulary(struct reviews *reviews, const char *data, int size, struct ps_error *error) {
    struct vocabulary *made;
    struct corpus all = reviews->corpus[0];
    if (reviews->texts == 1) {
        TRY(corpus_vocabulary(&all, words_plain, size, &made, error));
    } else {
        TRY(memory_new(&all.lines, 2 * all.count, "texts", error));
        for (int t = 0; t < 2; t++)
            memcpy(all.lines + t * all.count, reviews->corpus[t].lines, (size_t)all.count * sizeof *all.lines);
        all.count *= 2;
        enum ps_status status = corpus_vocabulary(&all, words_plain, size, &made, error);
        free(all.lines);
        TRY(status);
    }
    text_vocabularies_take(&reviews->vocabularies, 0, made, data);
    return PS_OK;
}

static enum ps_status read_texts(struct reviews *reviews, const char *path, struct ps_error *error) {
    TRY(corpus_read(path, &reviews->corpus[0], error));
    int64_t count = reviews->corpus[0].count;
    TRY(memory_new(&reviews->labels, count, path, error));
    if (reviews->texts == 2) TRY(memory_new(&reviews->corpus[1].lines, count, path, error));
    reviews->corpus[1].count = reviews->texts == 2 ? count : 0;
    for (int64_t l = 0; l < count; l++) TRY(read_line(reviews, path, l, error));
    reviews->dataset.samples = count;
    return PS_OK;
}

static enum ps_status load(struct reviews *reviews, struct spec *options, enum dataset_part part,
                           const struct dataset_shape *required, struct ps_error *error) {
    static const char *const keys[] = {"vocab", "tokenizer", "texts"}, *const by_tokenizer[] = {TOKENS_OF_TOKENIZER};
    struct text_vocabularies *vocabularies = &reviews->vocabularies;
    char data[VOCABULARY_DATA];
    int kind;
    if (required->input_count > 1) TRY(list_inputs(reviews, options->name, required, error));
    reviews->texts = reviews->token_inputs > 1 ? 2 : 1;
    TRY(spec_int(options, "texts", reviews->texts, 2, &reviews->texts, error));
    TRY(text_vocabularies_find("reviews", options, required, 1, 0, vocabularies, error));
    const bool named = vocabularies->used[0] && vocabulary_tokenizer(vocabularies->used[0]);
    TRY(text_tokens_find("reviews", options, vocabularies, named ? by_tokenizer : NULL, named, &kind, data, error));
    if (!vocabularies->used[0] && (part != DATASET_TRAIN || required->words_needed))
        return text_vocabulary_missing("reviews", error);
    TRY(spec_finish(options, "data", keys, 3, error));
    TRY(read_texts(reviews, options->name, error));
    if (!vocabularies->used[0]) TRY(make_vocabulary(reviews, data, required->vocabulary, error));
    for (int t = 0; t < reviews->texts; t++) TRY(corpus_number(&reviews->corpus[t], words_plain, vocabularies->used[0], error));
    reviews->dataset.shape.words[0] = vocabularies->used[0];
    return take_template(reviews, options->name, error);
}

static enum ps_status open_reviews(const char *rest, enum dataset_part part, const struct dataset_shape *required,
                                   struct dataset **dataset, struct ps_error *error) {
    struct spec options;
    TRY(spec_parse(rest, "data", &options, error));
    struct reviews *reviews;
    TRY(memory_new(&reviews, 1, "a dataset", error));
    reviews->dataset.shape = (struct dataset_shape){.channels = 1,
                                                    .height = required->height,
                                                    .width = 1,
                                                    .classes = required->classes,
                                                    .labels = 1,
                                                    .vocabulary = required->vocabulary};
    enum ps_status status = load(reviews, &options, part, required, error);
    if (status == PS_OK)
        *dataset = &reviews->dataset;
    else
        close_reviews(&reviews->dataset);
    return status;
}

/* ------------------------------------------------------------------ samples */

static enum ps_status read_label_of(const struct dataset *dataset, int64_t index, void *target, struct ps_error *error) {
    int32_t *label = target;
    (void)error;
    *label = ((const struct reviews *)dataset)->labels[index];
    return PS_OK;
}

/* How many tokens of both texts fit into `room`: the longer one is cut first, as Hugging Face's library does. */
static void fit_pair(int64_t room, int64_t count[2]) {
    if (count[0] + count[1] <= room) return;
    const int longer = count[0] > count[1] ? 0 : 1;
    int64_t small = count[1 - longer], large = room - small;
    if (small > room || large < small) {
        small = room / 2;
        large = room - small;
    }
    count[1 - longer] = small;
    count[longer] = large;
}

static void write_number(const struct ps_input *input, void *to, int64_t position, int32_t number) {
    if (input && strcmp(input->type, number_types[TYPE_F32].name) == 0)
        ((float *)to)[position] = (float)number;
    else
        ((int32_t *)to)[position] = number;
}

/* Writes what one input of T numbers shows; `input` NULL: tokens. */
static void write_input(const struct reviews *reviews, int64_t index, const struct ps_input *input, enum role role, int text,
                        int64_t length, void *to) {
    const bool pair = reviews->texts == 2 && reviews->token_inputs < 2;
    const int32_t *tokens[2];
    int64_t count[2] = {0, 0}, room = length, position = 0;
    for (int t = 0; t < (pair ? 2 : 1); t++) tokens[t] = corpus_tokens(&reviews->corpus[pair ? t : text], index, &count[t]);
    for (int i = 0; i < reviews->item_count[pair]; i++) room -= reviews->items[pair][i].text < 0;
    fit_pair(room, count);
    for (int i = 0; i < reviews->item_count[pair]; i++) {
        const struct template_item *item = &reviews->items[pair][i];
        const int64_t taken = item->text < 0 ? 1 : count[item->text];
        for (int64_t k = 0; k < taken && position < length; k++, position++) {
            const int32_t token = item->text < 0 ? item->number : tokens[item->text][k];
            write_number(input, to, position, role == TOKENS ? token : role == MASK ? 1 : item->segment);
        }
    }
    for (; position < length; position++) write_number(input, to, position, role == TOKENS ? reviews->padding : 0);
}

static enum ps_status read_review(const struct dataset *dataset, int64_t index, void *input, void *target,
                                  struct ps_error *error) {
    const struct reviews *reviews = (const struct reviews *)dataset;
    const struct dataset_shape *shape = &dataset->shape;
    int32_t *to = input;
    if (!shape->inputs) write_input(reviews, index, NULL, TOKENS, 0, shape->height, to);
    for (int i = 0; i < shape->input_count; i++) {
        const struct ps_input *listed = &shape->inputs[i];
        write_input(reviews, index, listed, reviews->role[i], reviews->text[i], input_elements(listed), to);
        to += input_elements(listed);
    }
    return read_label_of(dataset, index, target, error);
}

const struct dataset_class dataset_reviews = {
    .name = "reviews",
    .summary = "FILE[,tokenizer=FILE,texts=2] with a line label<TAB>text, or label<TAB>text<TAB>text, for each sample",
    .example = "FILE.tsv",
    .task = DATASET_LABELLED_TEXTS,
    .lists = true,
    .open = open_reviews,
    .close = close_reviews,
    .read = read_review,
    .target = read_label_of,
};
