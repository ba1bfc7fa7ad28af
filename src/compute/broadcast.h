/*
 * Values that are repeated along some sides (graph/operators.h, shape_broadcast): where the elements of each operand lie. An
 * operand's stride is 0 along a side on which it is repeated.
 */
#ifndef PENSTOCK_COMPUTE_BROADCAST_H
#define PENSTOCK_COMPUTE_BROADCAST_H

#include "compute/kernel.h"

enum { BROADCAST_OPERANDS = 4, BROADCAST_RANK = SHAPE_RANK_MAX + 1 };

/* The sides of the result in memory order, outermost first, samples included; of several that lie behind each other in every
 * operand one is made, and sides of 1 are left out. At least one is left, and the last stride of an operand is 0 or 1. The last
 * operand is the result itself. */
struct broadcast {
    int rank, operands;
    int64_t side[BROADCAST_RANK];
    int64_t stride[BROADCAST_OPERANDS][BROADCAST_RANK]; /* in elements */
};

/* An operand, of so many samples; a parameter has 1, which is repeated. */
struct broadcast_operand {
    const struct shape *shape;
    int64_t samples;
};

struct broadcast broadcast_make(const struct shape *output, int64_t samples, const struct broadcast_operand *operands,
                                int count);

/* The same of two operands whose strides are given. */
struct broadcast broadcast_strided(int rank, const int64_t *side, const int64_t *from, const int64_t *to);

/* Goes through some of the sides, the last fastest. */
struct cursor {
    int64_t index[BROADCAST_RANK], offset[BROADCAST_OPERANDS];
};

/* Elements of the first `rank` sides. */
int64_t broadcast_count(const struct broadcast *b, int rank);
/* At number `position` of the elements of the first `rank` sides, and from there to the next. */
struct cursor cursor_at(const struct broadcast *b, int rank, int64_t position);
void cursor_next(const struct broadcast *b, int rank, struct cursor *cursor);

/* The sides along which an operand is not repeated (kept), and those along which it is: an element of its gradient is a sum
 * over the latter. Each is a broadcast of the same operands. */
void broadcast_split(const struct broadcast *b, int operand, struct broadcast *kept, struct broadcast *repeated);

/* `binary` has two arguments; with one input one of them is its own parameter: which (-1: none), and the input that another one
 * is. */
int binary_parameter(const struct kernel *kernel);
int binary_input(const struct kernel *kernel, int argument);
struct broadcast binary_shape(const struct kernel *kernel);
/* All inputs of the node. */
struct broadcast inputs_shape(const struct kernel *kernel);
/* The output of `reduce`, repeated to the sides of its input (the last operand). */
struct broadcast reduce_shape(const struct kernel *kernel);
/* The matrices of `matmul`: strides count matrices. */
struct broadcast matmul_batch(const struct kernel *kernel);

#endif
