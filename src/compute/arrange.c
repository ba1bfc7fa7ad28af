/* See arrange.h. */
#include "compute/arrange.h"

/* The strides of a value beside its sides in memory order. */
static int strides_of(const struct shape *shape, int64_t samples, int64_t sides[BROADCAST_RANK],
                      int64_t strides[BROADCAST_RANK]) {
    const int rank = shape_memory(shape, samples, sides);
    int64_t stride = 1;
    for (int d = rank - 1; d >= 0; d--) {
        strides[d] = stride;
        stride *= sides[d];
    }
    return rank;
}

/* Where a dim stands in memory order. */
static int place_of(const struct shape *shape, int dim) { return dim == 0 ? shape->rank : dim; }

struct arrangement arrangement_of(const struct kernel *kernel, int input) {
    const struct attributes *a = &kernel->node->attributes;
    const struct shape *x = kernel_input(kernel, input), *y = &kernel->node->shape;
    int64_t x_sides[BROADCAST_RANK], x_strides[BROADCAST_RANK], y_sides[BROADCAST_RANK], y_strides[BROADCAST_RANK];
    int64_t from[BROADCAST_RANK];
    struct arrangement made = {.from = 0};
    const int rank = strides_of(x, kernel->samples, x_sides, x_strides), axis = place_of(x, a->axis);
    strides_of(y, kernel->samples, y_sides, y_strides);
    switch (kernel->node->id) {
    case OPERATOR_PERMUTE:
        from[0] = x_strides[0];
        for (int d = 0; d < y->rank; d++) from[place_of(y, d)] = x_strides[place_of(x, a->order.at[d])];
        made.all = broadcast_strided(rank, y_sides, from, y_strides);
        break;
    case OPERATOR_SLICE:
        made.from = a->first * x_strides[axis];
        x_strides[axis] *= a->step;
        made.all = broadcast_strided(rank, y_sides, x_strides, y_strides);
        break;
    default: /* concat */
        for (int i = 0; i < input; i++) made.to += kernel_input(kernel, i)->dim[a->axis] * y_strides[axis];
        made.all = broadcast_strided(rank, x_sides, x_strides, y_strides);
    }
    return made;
}
