/*
 * The sizes of an attention and where its rows lie, in both forms that the operator takes: queries, keys and values as three
 * inputs, or concatenated in one (graph/operators/attention.c).
 */
#ifndef PENSTOCK_COMPUTE_ATTENTION_H
#define PENSTOCK_COMPUTE_ATTENTION_H

#include <math.h>

#include "compute/kernel.h"
#include "compute/token.h"

enum attention_part { ATTENTION_QUERY, ATTENTION_KEY, ATTENTION_VALUE, ATTENTION_PARTS };

struct attention_shape {
    int64_t samples, heads, key_heads, queries, keys; /* N, heads of queries, of keys and values, Tq, Tk */
    int64_t first_head, all_heads;                    /* of the queries in the inputs: more than `heads` in a part of a layer */
    int64_t features;                                 /* of a position of the output */
    int64_t each[ATTENTION_PARTS];                    /* features of a head: E, E, V */
    int64_t stride[ATTENTION_PARTS];                  /* floats from one position of the part's input to the next */
    int64_t offset[ATTENTION_PARTS];                  /* from a position's first float to that of the part's first head here */
    bool packed, causal;
    int mask;                         /* the input with the mask; -1: none */
    bool added;                       /* it is of numbers that are added to the scores */
    int64_t mask_heads, mask_queries; /* 1: the same for all */
};

static inline struct attention_shape attention_shape(const struct kernel *kernel) {
    const struct attributes *attributes = &kernel->node->attributes;
    const int64_t *query = kernel_input(kernel, 0)->dim;
    int inputs = kernel->node->input_count;
    bool packed = inputs < 3;
    int64_t heads = attributes->heads, key_heads = attributes->key_heads > 0 ? attributes->key_heads : heads;
    int64_t all = attributes->count > 0 ? attributes->count : heads, all_keys = all * key_heads / heads;
    int64_t each = packed ? query[0] / (all + 2 * all_keys) : query[0] / all;
    int64_t value_each = packed ? each : kernel_input(kernel, 2)->dim[0] / all_keys;
    int64_t first = attributes->first, first_key = first * key_heads / heads;
    int mask = inputs % 2 == 0 ? inputs - 1 : -1;
    int64_t keys = packed ? query[1] : kernel_input(kernel, 1)->dim[1];
    const struct shape *of_mask = mask >= 0 ? kernel_input(kernel, mask) : NULL;
    bool whole = mask >= 0 && of_mask->dim[0] == keys; /* else 1 x Tk x 1, the same memory as Tk x 1 x 1 */
    return (struct attention_shape){
        .samples = kernel->samples,
        .heads = heads,
        .key_heads = key_heads,
        .queries = query[1],
        .keys = keys,
        .first_head = first,
        .all_heads = all,
        .features = heads * value_each,
        .each = {each, each, value_each},
        .stride = {query[0], kernel_input(kernel, packed ? 0 : 1)->dim[0], kernel_input(kernel, packed ? 0 : 2)->dim[0]},
        .offset = {first * each, (packed ? all * each : 0) + first_key * each,
                   (packed ? (all + all_keys) * each : 0) + first_key * value_each},
        .packed = packed,
        .causal = attributes->causal,
        .mask = mask,
        .added = mask >= 0 && of_mask->type == TYPE_F32,
        .mask_heads = whole ? of_mask->dim[1] : 1,
        .mask_queries = whole ? of_mask->dim[2] : 1,
    };
}

/* Scores of all samples and heads. */
static inline int64_t attention_scores(const struct attention_shape *s) { return s->samples * s->heads * s->queries * s->keys; }

/* The place of a row's first score among those of all heads, along which dropout's random numbers are counted. */
static inline int64_t attention_place(const struct attention_shape *s, int64_t row) {
    int64_t n = row / (s->heads * s->queries), within = row % (s->heads * s->queries);
    return ((n * s->all_heads + s->first_head) * s->queries + within) * s->keys;
}

/* Which input the part is in. */
static inline int attention_input(const struct attention_shape *s, enum attention_part part) {
    return s->packed ? 0 : (int)part;
}

/* The head of the part with which a head of the queries works. */
static inline int64_t attention_head(const struct attention_shape *s, enum attention_part part, int64_t head) {
    return part == ATTENTION_QUERY ? head : head / (s->heads / s->key_heads);
}

/* Elements from the start of that input to the part's row of a position, for a head of the queries. */
static inline int64_t attention_offset(const struct attention_shape *s, enum attention_part part, int64_t n, int64_t position,
                                       int64_t head) {
    int64_t positions = part == ATTENTION_QUERY ? s->queries : s->keys;
    return (n * positions + position) * s->stride[part] + s->offset[part] + attention_head(s, part, head) * s->each[part];
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

/* Elements from the start of the mask to a query's, which are as many as there are keys. `row` counts queries, then heads, then
 * samples. */
static inline int64_t attention_mask_offset(const struct attention_shape *s, int64_t row) {
    int64_t query = row % s->queries, head = row / s->queries % s->heads, n = row / s->queries / s->heads;
    int64_t mask_head = s->mask_heads > 1 ? s->first_head + head : 0, mask_query = s->mask_queries > 1 ? query : 0;
    return ((n * s->mask_heads + mask_head) * s->mask_queries + mask_query) * s->keys;
}

/* Whether the query of this row attends to the key: in causal attention not after itself, and never to what is masked. */
static inline bool attention_sees(const struct attention_shape *s, const float *const *inputs, int64_t row, int64_t key) {
    if (s->causal && key > row % s->queries) return false;
    if (s->mask < 0) return true;
    int64_t at = attention_mask_offset(s, row) + key;
    return s->added ? inputs[s->mask][at] > -INFINITY : token_numbers(inputs[s->mask])[at] != 0;
}

#endif
