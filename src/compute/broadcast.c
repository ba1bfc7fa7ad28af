/* See broadcast.h. */
#include "compute/broadcast.h"

#include <assert.h>
#include <string.h>

/* The strides of an operand beside the sides of the result. */
static void set_strides(struct broadcast *b, int operand, const struct broadcast_operand *from) {
    int64_t own[BROADCAST_RANK], stride = 1;
    int rank = shape_memory(from->shape, from->samples, own);
    assert(rank == b->rank);
    for (int d = rank - 1; d >= 0; d--) {
        assert(own[d] == b->side[d] || own[d] == 1);
        b->stride[operand][d] = own[d] == 1 ? 0 : stride;
        stride *= own[d];
    }
}

/* Appends a side; one that continues the side before it in every operand makes that one longer. */
static void append(struct broadcast *b, int64_t side, const struct broadcast *from, int d) {
    bool follows = b->rank > 0;
    for (int o = 0; o < from->operands && follows; o++) follows = b->stride[o][b->rank - 1] == from->stride[o][d] * side;
    if (!follows) b->side[b->rank++] = 1;
    b->side[b->rank - 1] *= side;
    for (int o = 0; o < from->operands; o++) b->stride[o][b->rank - 1] = from->stride[o][d];
}

struct broadcast broadcast_make(const struct shape *output, int64_t samples, const struct broadcast_operand *operands,
                                int count) {
    struct broadcast whole = {.operands = count + 1}, made = {.operands = count + 1};
    assert(count < BROADCAST_OPERANDS);
    whole.rank = shape_memory(output, samples, whole.side);
    for (int o = 0; o < count; o++) set_strides(&whole, o, &operands[o]);
    set_strides(&whole, count, &(struct broadcast_operand){output, samples});
    for (int d = 0; d < whole.rank; d++)
        if (whole.side[d] > 1) append(&made, whole.side[d], &whole, d);
    if (made.rank == 0) append(&made, 1, &whole, whole.rank - 1);
    return made;
}

struct broadcast broadcast_strided(int rank, const int64_t *side, const int64_t *from, const int64_t *to) {
    struct broadcast whole = {.operands = 2}, made = {.operands = 2};
    memcpy(whole.stride[0], from, (size_t)rank * sizeof *from);
    memcpy(whole.stride[1], to, (size_t)rank * sizeof *to);
    for (int d = 0; d < rank; d++)
        if (side[d] > 1) append(&made, side[d], &whole, d);
    if (made.rank == 0) append(&made, 1, &(struct broadcast){.operands = 2}, 0);
    return made;
}

int64_t broadcast_count(const struct broadcast *b, int rank) {
    int64_t count = 1;
    for (int d = 0; d < rank; d++) count *= b->side[d];
    return count;
}

struct cursor cursor_at(const struct broadcast *b, int rank, int64_t position) {
    struct cursor cursor = {0};
    for (int d = rank - 1; d >= 0; d--) {
        cursor.index[d] = position % b->side[d];
        position /= b->side[d];
        for (int o = 0; o < b->operands; o++) cursor.offset[o] += cursor.index[d] * b->stride[o][d];
    }
    return cursor;
}

void cursor_next(const struct broadcast *b, int rank, struct cursor *cursor) {
    for (int d = rank - 1; d >= 0; d--) {
        for (int o = 0; o < b->operands; o++) cursor->offset[o] += b->stride[o][d];
        if (++cursor->index[d] < b->side[d]) return;
        for (int o = 0; o < b->operands; o++) cursor->offset[o] -= b->side[d] * b->stride[o][d];
        cursor->index[d] = 0;
    }
}

void broadcast_split(const struct broadcast *b, int operand, struct broadcast *kept, struct broadcast *repeated) {
    *kept = *repeated = (struct broadcast){.operands = b->operands};
    for (int d = 0; d < b->rank; d++) append(b->stride[operand][d] != 0 ? kept : repeated, b->side[d], b, d);
}

int binary_parameter(const struct kernel *kernel) {
    if (kernel->node->input_count == 2) return -1;
    return kernel->node->attributes.swapped ? 0 : 1;
}

int binary_input(const struct kernel *kernel, int argument) { return kernel->node->input_count == 2 ? argument : 0; }

struct broadcast binary_shape(const struct kernel *kernel) {
    const struct integers *sides = &kernel->node->attributes.sides;
    struct shape own = {.rank = sides->count};
    struct broadcast_operand operands[2];
    for (int d = 0; d < sides->count; d++) own.dim[d] = sides->at[d];
    for (int i = 0; i < 2; i++) {
        operands[i] = (struct broadcast_operand){kernel_input(kernel, binary_input(kernel, i)), kernel->samples};
        if (i == binary_parameter(kernel)) operands[i] = (struct broadcast_operand){&own, 1};
    }
    return broadcast_make(&kernel->node->shape, kernel->samples, operands, 2);
}

struct broadcast reduce_shape(const struct kernel *kernel) {
    const struct broadcast_operand output = {&kernel->node->shape, kernel->samples};
    return broadcast_make(kernel_input(kernel, 0), kernel->samples, &output, 1);
}

/* Matrices as elements. */
static struct shape without_matrix(const struct shape *shape) {
    struct shape matrices = *shape;
    matrices.rank--;
    matrices.dim[0] = 1;
    return matrices;
}

struct broadcast matmul_batch(const struct kernel *kernel) {
    const struct shape a = without_matrix(kernel_input(kernel, 0)), b = without_matrix(kernel_input(kernel, 1)),
                       y = without_matrix(&kernel->node->shape);
    const struct broadcast_operand operands[] = {{&a, kernel->samples}, {&b, kernel->samples}};
    return broadcast_make(&y, kernel->samples, operands, 2);
}

struct broadcast inputs_shape(const struct kernel *kernel) {
    struct broadcast_operand operands[BROADCAST_OPERANDS];
    for (int i = 0; i < kernel->node->input_count; i++)
        operands[i] = (struct broadcast_operand){kernel_input(kernel, i), kernel->samples};
    return broadcast_make(&kernel->node->shape, kernel->samples, operands, kernel->node->input_count);
}
