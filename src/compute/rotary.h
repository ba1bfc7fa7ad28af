/* Where the pairs of a rotary position embedding lie (graph/operators/rotary.c). */
#ifndef PENSTOCK_COMPUTE_ROTARY_H
#define PENSTOCK_COMPUTE_ROTARY_H

#include <math.h>

#include "compute/kernel.h"

/* Pair j has the features j * step and j * step + other of a head, and in the tables j * table_step and j * table_step +
 * table_other. */
struct rotary {
    size_t heads, each, pairs, step, other;
    size_t width, table_step, table_other; /* numbers that a table has for a position */
};

static inline struct rotary rotary_of(const struct kernel *kernel) {
    const struct attributes *a = &kernel->node->attributes;
    size_t heads = (size_t)a->heads, each = kernel_features(kernel) / heads;
    size_t turned = a->features > 0 ? (size_t)a->features : each, step = a->interleaved ? 2 : 1;
    size_t other = a->interleaved ? 1 : turned / 2;
    size_t width = kernel->node->input_count > 1 ? (size_t)kernel_input(kernel, 1)->dim[0] : turned / 2;
    bool whole = width == turned;
    return (struct rotary){heads, each, turned / 2, step, other, width, whole ? step : 1, whole ? other : 0};
}

/* The angle of a pair at a position, counted from the first vector. */
static inline double rotary_angle(const struct kernel *kernel, size_t pairs, size_t position, size_t pair) {
    const struct attributes *a = &kernel->node->attributes;
    return (double)(position + (size_t)a->first) * pow((double)a->base, -(double)pair / (double)pairs);
}

#endif
