/*
 * Pairs of sentences for translation: "PREFIX:SRC:TGT[,tokens=words|given][,vocab=FILE]". Line n of PREFIX.TGT is the
 * translation of line n of PREFIX.SRC. Tokens are words and punctuation (words_13a), or what blanks part (tokens=given), for
 * files that hold subwords already: there "@@" at the end of a token joins it to the next.
 *
 * A sample is S tokens of the source, its end </s> included, and T of the target as the decoder reads it, beginning with <s>;
 * its labels are the T tokens that should come next, ending with </s>. What is longer is cut off, what is shorter padded: S and
 * T are the network's, one for all samples.
 */
#include "data/pairs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/corpus.h"
#include "data/text_spec.h"
#include "data/words.h"

struct pairs {
    struct dataset dataset; /* first */
    struct corpus corpus[2];
    struct text_vocabularies vocabularies;
    corpus_split *split;
};

static void close_pairs(struct dataset *dataset) {
    struct pairs *pairs = (struct pairs *)dataset;
    for (int v = 0; v < 2; v++) corpus_free(&pairs->corpus[v]);
    text_vocabularies_free(&pairs->vocabularies);
    free(pairs);
}

static enum ps_status choose_split(struct pairs *pairs, struct options *options, struct ps_error *error) {
    static const char *const names[] = {"words", "given"};
    const char *tokens = "words";
    TRY(options_string(options, "tokens", &tokens, error));
    for (int i = 0; i < 2; i++) {
        if (strcmp(tokens, names[i]) != 0) continue;
        pairs->split = i == 0 ? words_13a : words_given;
        return PS_OK;
    }
    return error_unknown(error, PS_USAGE, "data 'pairs': tokens", tokens, names, 2);
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

static enum ps_status load(struct pairs *pairs, struct options *options, enum dataset_part part,
                           const struct dataset_shape *wanted, struct ps_error *error) {
    static const char *const keys[] = {"tokens", "vocab"};
    struct text_vocabularies *vocabularies = &pairs->vocabularies;
    char paths[2][4096];
    TRY(choose_split(pairs, options, error));
    TRY(make_paths(options->name, paths, error));
    TRY(text_vocabularies_find("pairs", options, part, wanted, 2, vocabularies, error));
    TRY(options_finish(options, "data", keys, 2, error));
    for (int v = 0; v < 2; v++) {
        struct corpus *corpus = &pairs->corpus[v];
        TRY(corpus_read(paths[v], corpus, error));
        if (!vocabularies->used[v]) {
            int size = v == 0 ? wanted->vocabulary : wanted->classes;
            TRY(corpus_vocabulary(corpus, pairs->split, size, &vocabularies->own[v], error));
            vocabularies->used[v] = vocabularies->own[v];
        }
        TRY(corpus_number(corpus, pairs->split, vocabularies->used[v], error));
        pairs->dataset.shape.words[v] = vocabularies->used[v];
    }
    pairs->dataset.samples = pairs->corpus[0].count;
    if (pairs->corpus[0].count == pairs->corpus[1].count) return PS_OK;
    return error_set(error, PS_BAD_INPUT,
                     "%s has %lld lines and %s %lld: line n of one must be the translation of line n of the "
                     "other",
                     paths[0], (long long)pairs->corpus[0].count, paths[1], (long long)pairs->corpus[1].count);
}

static enum ps_status open_pairs(const char *rest, enum dataset_part part, const struct dataset_shape *wanted,
                                 struct dataset **dataset, struct ps_error *error) {
    struct options options;
    TRY(options_parse(rest, "data", &options, error));
    int labels = dataset_labels(wanted);
    if (wanted->vocabulary == 0 || labels == 1 || labels >= wanted->height) {
        return error_set(error, PS_USAGE, "data 'pairs:%s' are translations, but the network reads %s", rest,
                         wanted->vocabulary == 0 ? "images" : "one text");
    }
    struct pairs *pairs = calloc(1, sizeof *pairs);
    if (!pairs) return error_memory(error, "a dataset", sizeof *pairs);
    pairs->dataset.shape = *wanted;
    enum ps_status status = load(pairs, &options, part, wanted, error);
    if (status == PS_OK)
        *dataset = &pairs->dataset;
    else
        close_pairs(&pairs->dataset);
    return status;
}

/* -------------------------------------------------------------------- samples */

static enum ps_status read_labels(const struct dataset *dataset, int64_t index, int32_t *labels, struct ps_error *error) {
    (void)error;
    int64_t count, length = dataset_labels(&dataset->shape);
    const int32_t *words = corpus_tokens(&((const struct pairs *)dataset)->corpus[1], index, &count);
    for (int64_t t = 0; t < length; t++) labels[t] = t < count ? words[t] : t == count ? VOCABULARY_END : -1;
    return PS_OK;
}

static enum ps_status read_pair(const struct dataset *dataset, int64_t index, float *tokens, int32_t *labels,
                                struct ps_error *error) {
    const struct pairs *pairs = (const struct pairs *)dataset;
    int64_t count, target = dataset_labels(&dataset->shape), source = dataset->shape.height - target;
    const int32_t *words = corpus_tokens(&pairs->corpus[0], index, &count);
    if (count > source - 1) count = source - 1;
    for (int64_t t = 0; t < source; t++) {
        tokens[t] = (float)(t < count ? words[t] : t == count ? VOCABULARY_END : VOCABULARY_PADDING);
    }
    words = corpus_tokens(&pairs->corpus[1], index, &count);
    for (int64_t t = 0; t < target; t++) {
        tokens[source + t] = (float)(t == 0 ? VOCABULARY_START : t <= count ? words[t - 1] : VOCABULARY_PADDING);
    }
    return read_labels(dataset, index, labels, error);
}

/* With the source's end and the target's start, or its labels' end. */
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
    .open = open_pairs,
    .close = close_pairs,
    .read = read_pair,
    .label = read_labels,
    .length = length_of,
};

bool dataset_has_pairs(const struct dataset *dataset) { return dataset->class == &dataset_pairs; }

const char *pairs_reference(const struct dataset *dataset, int64_t index) {
    return ((const struct pairs *)dataset)->corpus[1].lines[index];
}

void pairs_spell(const struct dataset *dataset, const int32_t *tokens, int64_t count, struct text *sentence) {
    const struct pairs *pairs = (const struct pairs *)dataset;
    bool joined = true; /* no blank before the next */
    for (int64_t t = 0; t < count && tokens[t] != VOCABULARY_END && tokens[t] != VOCABULARY_PADDING; t++) {
        bool known = tokens[t] < vocabulary_size(pairs->vocabularies.used[1]);
        const char *word = vocabulary_token(pairs->vocabularies.used[1], known ? tokens[t] : VOCABULARY_UNKNOWN);
        size_t length = strlen(word);
        bool joins = pairs->split == words_given && length > 2 && strcmp(word + length - 2, "@@") == 0;
        if (!joined) text_add_raw(sentence, " ", 1);
        text_add_raw(sentence, word, length - (joins ? 2 : 0));
        joined = joins;
    }
}
