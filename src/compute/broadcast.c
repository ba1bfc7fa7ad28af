/* See broadcast.h. */
#include "compute/broadcast.h"

#include <assert.h>

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
