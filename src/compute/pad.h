/* Which element of the input stands where in a padded value (graph/operators/pad.c). */
#ifndef PENSTOCK_COMPUTE_PAD_H
#define PENSTOCK_COMPUTE_PAD_H

#include "compute/kernel.h"

/* Along one dimension of `size` elements; -1: none. */
static inline int64_t pad_source(const struct attributes *a, int dim, int64_t size, int64_t index) {
    int64_t i = index - a->before.at[dim], mirrored = i < 0 ? -i : 2 * (size - 1) - i;
    if (i >= 0 && i < size) return i;
    switch ((enum pad_mode)a->mode) {
    case PAD_CONSTANT:
        return -1;
    case PAD_REFLECT:
        return mirrored;
    case PAD_EDGE:
        return i < 0 ? 0 : size - 1;
    case PAD_WRAP:
        break;
    }
    return i < 0 ? i + size : i - size;
}

/* The row of the input (a row is what lies along dimension 0) that stands in a row of the output; -1: none. */
static inline int64_t pad_row(const struct kernel *kernel, size_t row) {
    const struct attributes *a = &kernel->node->attributes;
    const struct shape *in = kernel_input(kernel, 0), *out = &kernel->node->shape;
    int64_t left = (int64_t)row, found = 0, stride = 1;
    for (int d = out->rank - 1; d >= 1; d--) {
        int64_t from = pad_source(a, d, in->dim[d], left % out->dim[d]);
        if (from < 0) return -1;
        found += from * stride;
        stride *= in->dim[d];
        left /= out->dim[d];
    }
    return found + left * stride; /* `left` is the sample */
}

#endif
