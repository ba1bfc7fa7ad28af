/*
 * The sizes of an attention and where its rows lie, in both forms that the operator takes: queries, keys and values as three
 * inputs, or concatenated in one (graph/operators/attention.c).
 */
#ifndef PENSTOCK_COMPUTE_ATTENTION_H
#define PENSTOCK_COMPUTE_ATTENTION_H

#include "compute/kernel.h"
#include "compute/token.h"

enum attention_part { ATTENTION_QUERY, ATTENTION_KEY, ATTENTION_VALUE };

struct attention_shape {
    int64_t samples, heads, queries, keys; /* N, heads, Tq, Tk */
    int64_t features, each;                /* D, D / heads */
    int64_t stride;                        /* floats from one position of an input to the next: D, or 3 D */
    bool packed, causal;
    int tokens; /* the input with the keys' tokens; -1: none */
};

static inline struct attention_shape attention_shape(const struct kernel *kernel) {
    const struct attributes *attributes = &kernel->node->attributes;
    const int64_t *query = kernel_input(kernel, 0)->dim;
    int inputs = kernel->node->input_count;
    bool packed = inputs < 3;
    int64_t features = packed ? query[0] / 3 : query[0];
    return (struct attention_shape){.samples = kernel->samples,
                                    .heads = attributes->heads,
                                    .queries = query[1],
                                    .keys = packed ? query[1] : kernel_input(kernel, 1)->dim[1],
                                    .features = features,
                                    .each = features / attributes->heads,
                                    .stride = query[0],
                                    .packed = packed,
                                    .causal = attributes->causal,
                                    .tokens = inputs % 2 == 0 ? inputs - 1 : -1};
}

/* Scores of all samples and heads. */
static inline int64_t attention_scores(const struct attention_shape *s) { return s->samples * s->heads * s->queries * s->keys; }

/* Which input the part is in. */
static inline int attention_input(const struct attention_shape *s, enum attention_part part) {
    return s->packed ? 0 : (int)part;
}

/* Elements from the start of that input to the part's row of a position and head. */
static inline int64_t attention_offset(const struct attention_shape *s, enum attention_part part, int64_t n, int64_t position,
                                       int64_t head) {
    int64_t positions = part == ATTENTION_QUERY ? s->queries : s->keys;
    return (n * positions + position) * s->stride + head * s->each + (s->packed ? (int64_t)part * s->features : 0);
}

/* That row itself. */
static inline const float *attention_row(const struct attention_shape *s, const float *const *inputs, enum attention_part part,
                                         int64_t n, int64_t position, int64_t head) {
    return inputs[attention_input(s, part)] + attention_offset(s, part, n, position, head);
}

/* The row of the part's gradient; NULL where it is not needed. */
static inline float *attention_gradient(const struct attention_shape *s, float *const *gradients, enum attention_part part,
                                        int64_t n, int64_t position, int64_t head) {
    float *gradient = gradients[attention_input(s, part)];
    return gradient != NULL ? gradient + attention_offset(s, part, n, position, head) : NULL;
}

/* Whether the query attends to the key: in causal attention not after itself, and never to padding. */
static inline bool attention_sees(const struct attention_shape *s, const float *const *inputs, int64_t n, int64_t query,
                                  int64_t key) {
    if (s->causal && key > query) return false;
    return s->tokens < 0 || token_numbers(inputs[s->tokens])[n * s->keys + key] != 0;
}

#endif
