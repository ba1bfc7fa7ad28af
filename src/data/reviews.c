/*
 * Texts with one label each: "FILE[,vocab=FILE]", lines "label<TAB>text". Words are those of words_plain. A sample is the first
 * T words, followed by padding; the network determines T.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/corpus.h"

struct reviews {
    struct dataset dataset; /* first */
    struct corpus corpus;
    int32_t *labels;
    struct text_vocabularies vocabularies;
};

static void close_reviews(struct dataset *dataset) {
    struct reviews *reviews = (struct reviews *)dataset;
    corpus_free(&reviews->corpus);
    text_vocabularies_free(&reviews->vocabularies);
    free(reviews->labels);
    free(reviews);
}

/* Reads a line's label and moves the line's beginning past the TAB. */
static enum ps_status read_label(struct reviews *reviews, const char *path, int64_t line, struct ps_error *error) {
    const char *text = reviews->corpus.lines[line];
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
    reviews->corpus.lines[line] = tab + 1;
    return PS_OK;
}

static enum ps_status load(struct reviews *reviews, struct spec *options, enum dataset_part part,
                           const struct dataset_shape *required, struct ps_error *error) {
    static const char *const keys[] = {"vocab"};
    struct text_vocabularies *vocabularies = &reviews->vocabularies;
    char data[VOCABULARY_DATA];
    int kind;
    TRY(text_vocabularies_find("reviews", options, required, 1, -1, vocabularies, error));
    TRY(text_tokens_find("reviews", options, vocabularies, NULL, 0, &kind, data, error));
    if (!vocabularies->used[0] && (part != DATASET_TRAIN || required->words_needed))
        return text_vocabulary_missing("reviews", error);
    TRY(spec_finish(options, "data", keys, 1, error));
    TRY(corpus_read(options->name, &reviews->corpus, error));
    int64_t count = reviews->corpus.count;
    TRY(memory_new(&reviews->labels, count, options->name, error));
    for (int64_t l = 0; l < count; l++) TRY(read_label(reviews, options->name, l, error));
    if (!vocabularies->used[0]) {
        struct vocabulary *made;
        TRY(corpus_vocabulary(&reviews->corpus, words_plain, required->vocabulary, &made, error));
        text_vocabularies_take(vocabularies, 0, made, data);
    }
    TRY(corpus_number(&reviews->corpus, words_plain, vocabularies->used[0], error));
    reviews->dataset.samples = count;
    reviews->dataset.shape.words[0] = vocabularies->used[0];
    return PS_OK;
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

static enum ps_status read_label_of(const struct dataset *dataset, int64_t index, void *target, struct ps_error *error) {
    int32_t *label = target;
    (void)error;
    *label = ((const struct reviews *)dataset)->labels[index];
    return PS_OK;
}

static enum ps_status read_review(const struct dataset *dataset, int64_t index, void *input, void *target,
                                  struct ps_error *error) {
    int32_t *tokens = input;
    int64_t count;
    const int32_t *words = corpus_tokens(&((const struct reviews *)dataset)->corpus, index, &count);
    for (int64_t t = 0; t < dataset->shape.height; t++) tokens[t] = t < count ? words[t] : VOCABULARY_PADDING;
    return read_label_of(dataset, index, target, error);
}

const struct dataset_class dataset_reviews = {
    .name = "reviews",
    .summary = "FILE with a line label<TAB>text for each text; its most frequent words are the vocabulary",
    .example = "FILE.tsv",
    .task = DATASET_LABELLED_TEXTS,
    .open = open_reviews,
    .close = close_reviews,
    .read = read_review,
    .target = read_label_of,
};
