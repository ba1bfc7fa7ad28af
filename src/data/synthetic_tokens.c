/*
 * Sequences made on the fly: "tokens[,samples=N,noise=X,seed=S]", as long and of as many tokens as the network takes.
 *
 * Tokens follow each other by a rule: each has one successor (a random permutation), which comes with the probability 1 -
 * noise, and any token otherwise. What a sample's labels are follows from the network: of one label a sample the number of the
 * rule that made it, there being one for each class; of one a position the next token, or the hidden ones; and where a sample
 * holds two sequences, the second is the first translated token by token, <s> before it, and its labels end in </s>.
 */
#include <stdlib.h>

#include "data/masking.h"
#include "data/synthetic.h"

enum { TRAIN_SAMPLES = 4096, TEST_SAMPLES = 512, SAMPLES_MAX = 1000000000 };

/* What a key is for. */
enum { RULE = 16, SEQUENCES };

struct synthetic_tokens {
    struct dataset dataset; /* first */
    uint64_t seed;
    enum dataset_part part;
    double noise;
    uint32_t successor[]; /* of token VOCABULARY_SPECIALS + i; as many as there are beside the special ones */
};

static int plain_tokens(int vocabulary) { return vocabulary - VOCABULARY_SPECIALS; }

/* A row of tokens by rule `rule`. */
static void write_row(const struct synthetic_tokens *s, struct random_key key, int rule, int64_t count, int32_t *tokens) {
    uint64_t size = (uint64_t)plain_tokens(s->dataset.shape.vocabulary), token = 0;
    for (int64_t t = 0; t < count; t++) {
        bool any = t == 0 || (double)random_uniform(key, (uint64_t)(2 * t)) < s->noise;
        token = any ? (uint64_t)(random_uniform(key, (uint64_t)(2 * t + 1)) * (float)size)
                    : (s->successor[token] + (uint64_t)rule) % size;
        tokens[t] = (int32_t)(VOCABULARY_SPECIALS + token);
    }
}

/* The second sequence: what the first one's tokens become. */
static void translate(const struct dataset_shape *shape, int64_t source, int32_t *tokens, int32_t *labels) {
    int target_size = plain_tokens(shape->classes);
    for (int t = 0; t < shape->labels; t++) {
        bool word = t < shape->labels - 1 && t < source;
        int token = word ? VOCABULARY_SPECIALS + (tokens[t] * 3 + 1) % target_size : VOCABULARY_END;
        bool over = t > 0 && labels[t - 1] <= VOCABULARY_END; /* only one </s>, then padding */
        labels[t] = over ? -1 : token;
        tokens[source + t] = t == 0 ? VOCABULARY_START : over ? VOCABULARY_PADDING : labels[t - 1];
    }
}

static enum ps_status read_tokens(const struct dataset *dataset, int64_t index, void *input, int32_t *labels,
                                  struct ps_error *error) {
    (void)error;
    int32_t *tokens = input;
    const struct synthetic_tokens *s = (const struct synthetic_tokens *)dataset;
    const struct dataset_shape *shape = &dataset->shape;
    struct random_key key = random_key(s->seed, RANDOM_SYNTHETIC, SEQUENCES + (uint64_t)s->part, (uint64_t)index);
    int64_t length = shape->height;
    int count = dataset_labels(shape);
    int rule = shape->gives_tokens ? 0 : (int)(index % shape->classes);
    bool next = count == length && !shape->masked;
    int64_t source = count == length || !shape->gives_tokens ? length : length - count;
    write_row(s, key, rule, source, tokens);
    if (!shape->gives_tokens) {
        labels[0] = rule;
    } else if (next) {
        for (int64_t t = 0; t + 1 < length; t++) labels[t] = tokens[t + 1];
        labels[length - 1] = -1;
    } else if (count == length) {
        masking_apply(random_key(s->seed, RANDOM_SYNTHETIC, SEQUENCES + 2 + (uint64_t)s->part, (uint64_t)index), length,
                      shape->vocabulary, tokens, labels);
    } else {
        translate(shape, source, tokens, labels);
    }
    return PS_OK;
}

static void close_tokens(struct dataset *dataset) { free(dataset); }

static const struct dataset_class tokens_class = {.name = "synthetic", .close = close_tokens, .read = read_tokens};

static enum ps_status check_wanted(const struct dataset_shape *wanted, struct ps_error *error) {
    int least = VOCABULARY_SPECIALS + 2;
    if (wanted->vocabulary == 0)
        return error_set(error, PS_USAGE, "data 'synthetic:tokens' are sequences of tokens, but the network reads images");
    if (wanted->vocabulary < least || (wanted->gives_tokens && wanted->classes < least)) {
        const bool source = wanted->vocabulary < least;
        error_set(error, PS_USAGE, "data 'synthetic:tokens' need a vocabulary of %d tokens or more, the network's is %d", least,
                  source ? wanted->vocabulary : wanted->classes);
        error_hint(error, "give the network the option %s=%d", source ? "vocab" : "target_vocab", least);
        return PS_USAGE;
    }
    if (wanted->gives_tokens && wanted->height < 2)
        return error_set(error, PS_USAGE, "data 'synthetic:tokens' need sequences of 2 tokens or more, the network's are 1");
    return PS_OK;
}

enum ps_status synthetic_tokens_open(struct options *options, enum dataset_part part, const struct dataset_shape *wanted,
                                     struct dataset **dataset, struct ps_error *error) {
    static const char *const keys[] = {"samples", "noise", "seed"};
    int samples = part == DATASET_TRAIN ? TRAIN_SAMPLES : TEST_SAMPLES, seed = 0;
    double noise = 0.1;
    TRY(options_int(options, "samples", 1, SAMPLES_MAX, &samples, error));
    TRY(options_number(options, "noise", 0, 1, &noise, error));
    TRY(options_int(options, "seed", 0, INT32_MAX, &seed, error));
    TRY(options_finish(options, "synthetic", keys, 3, error));
    TRY(check_wanted(wanted, error));
    size_t size = (size_t)plain_tokens(wanted->vocabulary);
    struct synthetic_tokens *made = calloc(1, sizeof *made + size * sizeof *made->successor);
    if (!made) return error_memory(error, "synthetic data", size * sizeof *made->successor);
    made->dataset = (struct dataset){.class = &tokens_class, .samples = samples, .shape = *wanted};
    made->dataset.shape.words[0] = made->dataset.shape.words[1] = NULL;
    made->seed = (uint64_t)seed;
    made->part = part;
    made->noise = noise;
    random_permutation(random_key(made->seed, RANDOM_SYNTHETIC, RULE, 0), made->successor, size);
    *dataset = &made->dataset;
    return PS_OK;
}
