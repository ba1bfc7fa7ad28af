/*
 * Operators that only move elements (compute/arrange.h): permute, slice, concat. Rows that are contiguous in both values are
 * copied whole. Where another side is contiguous in one of them, as in a transposition, tiles of both sides are copied, so that
 * each line of the cache is used while it is there.
 */
#include <string.h>

#include "compute/arrange.h"
#include "compute/cpu/cpu.h"

enum { TILE = 16, GRAIN = 16 };

/* Copies between two strided places; b.stride[0] is of the source or of the destination, `source` says which operand it is. */
struct copy {
    const struct broadcast *outer; /* the sides that are gone through one by one */
    char *to;
    const char *from;
    size_t size;
    int source;
    /* Of rows, or of tiles: `count` elements along the last side, `lines` along the other. */
    int64_t count, lines, to_step, from_step, to_line, from_line;
};

static inline void copy_elements(size_t size, const struct copy *c, char *to, const char *from, int64_t lines, int64_t count) {
    for (int64_t l = 0; l < lines; l++)
        for (int64_t i = 0; i < count; i++)
            memcpy(to + (l * c->to_line + i * c->to_step) * (int64_t)size,
                   from + (l * c->from_line + i * c->from_step) * (int64_t)size, size);
}

static void copy_tiles(const struct copy *c, char *to, const char *from) {
    const int64_t size = (int64_t)c->size;
    for (int64_t l = 0; l < c->lines; l += TILE)
        for (int64_t i = 0; i < c->count; i += TILE) {
            char *to_tile = to + (l * c->to_line + i * c->to_step) * size;
            const char *from_tile = from + (l * c->from_line + i * c->from_step) * size;
            const int64_t lines = c->lines - l < TILE ? c->lines - l : TILE, count = c->count - i < TILE ? c->count - i : TILE;
            if (size == 4)
                copy_elements(4, c, to_tile, from_tile, lines, count);
            else
                copy_elements(2, c, to_tile, from_tile, lines, count);
        }
}

static void copy_part(const void *context, size_t first, size_t end) {
    const struct copy *c = context;
    struct cursor at = cursor_at(c->outer, c->outer->rank, (int64_t)first);
    const int64_t size = (int64_t)c->size;
    for (size_t i = first; i < end; i++, cursor_next(c->outer, c->outer->rank, &at)) {
        char *to = c->to + at.offset[1 - c->source] * size;
        const char *from = c->from + at.offset[c->source] * size;
        if (c->lines == 1 && c->to_step == 1 && c->from_step == 1)
            memcpy(to, from, (size_t)(c->count * size));
        else
            copy_tiles(c, to, from);
    }
}

static void leave_out(struct broadcast *b, int side) {
    b->rank--;
    for (int d = side; d < b->rank; d++) {
        b->side[d] = b->side[d + 1];
        for (int o = 0; o < b->operands; o++) b->stride[o][d] = b->stride[o][d + 1];
    }
}

/* From operand `source` (0: the input, 1: the output) to the other. */
static void copy_all(const struct kernel *kernel, const struct arrangement *where, int source, const void *from, void *to) {
    struct broadcast outer = where->all;
    const int last = outer.rank - 1;
    const size_t size = number_types[kernel->node->shape.type].bytes;
    const int64_t offsets[2] = {where->from, where->to};
    struct copy c = {.outer = &outer,
                     .to = (char *)to + offsets[1 - source] * (int64_t)size,
                     .from = (const char *)from + offsets[source] * (int64_t)size,
                     .size = size,
                     .source = source,
                     .count = outer.side[last],
                     .lines = 1,
                     .to_step = outer.stride[1 - source][last],
                     .from_step = outer.stride[source][last]};
    int line = -1; /* the side along which the input is contiguous, where that is not the last */
    for (int d = 0; d < last && outer.stride[0][last] != 1; d++)
        if (outer.stride[0][d] == 1) line = d;
    leave_out(&outer, last);
    if (line >= 0) {
        c.lines = outer.side[line];
        c.to_line = outer.stride[1 - source][line];
        c.from_line = outer.stride[source][line];
        leave_out(&outer, line);
    }
    device_parallel(kernel->device, (size_t)broadcast_count(&outer, outer.rank), GRAIN, copy_part, &c);
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    for (int i = 0; i < kernel->node->input_count; i++) {
        const struct arrangement where = arrangement_of(kernel, i);
        copy_all(kernel, &where, 0, call->input[i], call->output);
    }
    return PS_OK;
}

/* What a slice leaves out has the gradient 0. */
static enum ps_status backward(struct kernel *kernel, const struct kernel_call *call) {
    for (int i = 0; i < kernel->node->input_count; i++) {
        const struct arrangement where = arrangement_of(kernel, i);
        if (call->input_gradient[i] == NULL) continue;
        if (kernel->node->id == OPERATOR_SLICE)
            memset(call->input_gradient[i], 0, (size_t)(kernel->samples * shape_bytes(kernel_input(kernel, i))));
        copy_all(kernel, &where, 1, call->output_gradient, call->input_gradient[i]);
    }
    return PS_OK;
}

const struct kernel_class cpu_permute = {.native = kernel_one_type, .forward = forward, .backward_input = backward};
const struct kernel_class cpu_slice = {.native = kernel_one_type, .forward = forward, .backward_input = backward};
const struct kernel_class cpu_concat = {.native = kernel_one_type, .forward = forward, .backward_input = backward};
