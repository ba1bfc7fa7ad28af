/* Operators that only move elements: permute, slice, concat. Where the elements of an input lie in the output. */
#ifndef PENSTOCK_COMPUTE_ARRANGE_H
#define PENSTOCK_COMPUTE_ARRANGE_H

#include "compute/broadcast.h"

/* Element i of `all` is the input's at from + offset[0] and the output's at to + offset[1] of a cursor over it. */
struct arrangement {
    struct broadcast all;
    int64_t from, to;
};

struct arrangement arrangement_of(const struct kernel *kernel, int input);

#endif
