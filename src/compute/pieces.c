/*
 * Loops that compute in f32 on values in bf16, piece by piece: the shares of some thousand elements are widened into a buffer,
 * the loop's body works on the buffer as on the value itself, and what it wrote is rounded into the value. So one body serves
 * both types, memory sees two bytes for an element, and the conversions stay in the cache. Each thread has its own buffers, in
 * the kernel's workspace behind what the kernel uses itself.
 */
#include <assert.h>
#include <omp.h>

#include "base/memory.h"
#include "base/number.h"
#include "base/number_type.h"
#include "compute/device.h"

enum { PIECE_FLOATS = 2048, VALUES_MAX = 2 * GRAPH_INPUTS_MAX + 2 };

/* A value of a call, and its part in a piece. */
struct value {
    const void *from; /* NULL: it is not read */
    void *to;         /* NULL: it is not written */
    float *buffer;
    size_t each; /* elements for an index */
};

struct values {
    struct value of[VALUES_MAX];
    int count;
};

static bool is_narrow(const struct shape *shape) { return shape->type == TYPE_BF16; }

/* Values of the node that are bf16, the output first. */
static int narrow_values(const struct kernel *kernel) {
    int count = is_narrow(&kernel->node->shape);
    for (int i = 0; i < kernel->node->input_count; i++) count += is_narrow(kernel_input(kernel, i));
    return count;
}

bool pieces_serve(const struct kernel *kernel) {
    bool serve = kernel->type->piecewise;
    for (int p = 0; p < kernel->node->parameter_count; p++)
        serve = serve && kernel->graph->parameters[kernel->node->parameter_first + p].copy == TYPE_F32;
    return serve;
}

/* Floats of a value that belong to one index of a loop. */
static int64_t share_of(const struct kernel *kernel, const struct shape *shape, const struct kernel_loop *loop) {
    const int64_t elements = kernel->samples * shape_elements(shape);
    if (loop->body == NULL || loop->over == OVER_ELEMENTS) return 1;
    return elements / (loop->over == OVER_SAMPLES ? kernel->samples : (int64_t)kernel_rows(kernel));
}

/* A backward has the values, and the gradients of all. No buffer holds more than a value. */
void pieces_end(struct kernel *kernel) {
    const struct kernel_class *type = kernel->type;
    const struct kernel_loop *loops[] = {&type->forward_loop, &type->backward_input_loop, &type->backward_weight_loop};
    int64_t floats = number_larger(kernel->piece_floats, PIECE_FLOATS),
            most = kernel->samples * shape_elements(&kernel->node->shape);
    for (int i = 0; i < kernel->node->input_count; i++)
        most = number_larger(most, kernel->samples * shape_elements(kernel_input(kernel, i)));
    for (int l = 0; l < 3; l++) {
        floats = number_larger(floats, share_of(kernel, &kernel->node->shape, loops[l]));
        for (int i = 0; i < kernel->node->input_count; i++)
            floats = number_larger(floats, share_of(kernel, kernel_input(kernel, i), loops[l]));
    }
    floats = number_smaller(floats, most);
    kernel->piece_floats = (int64_t)memory_align((size_t)floats * sizeof(float)) / (int64_t)sizeof(float);
    kernel->piece_offset = (int64_t)memory_align((size_t)kernel->workspace_bytes);
    const int64_t buffers = (int64_t)kernel->device->threads * 2 * narrow_values(kernel);
    kernel->workspace_bytes = kernel->piece_offset + buffers * kernel->piece_floats * (int64_t)sizeof(float);
}

/* Adds a value, unless the call does not have it. */
static void add_value(struct values *values, const struct kernel *kernel, const struct kernel_call *call, size_t count,
                      const struct shape *shape, const void *from, void *to) {
    if (!is_narrow(shape) || (from == NULL && to == NULL)) return;
    const int64_t elements = kernel->samples * shape_elements(shape);
    const size_t buffer = (size_t)omp_get_thread_num() * 2 * (size_t)narrow_values(kernel) + (size_t)values->count;
    float *buffers = (float *)(void *)((char *)call->workspace + kernel->piece_offset);
    assert(values->count < VALUES_MAX && elements % (int64_t)count == 0);
    values->of[values->count++] =
        (struct value){from, to, buffers + buffer * (size_t)kernel->piece_floats, (size_t)elements / count};
}

/* The values in bf16 of a call, in the order in which `point` goes through them. */
static void find_values(const struct kernel *kernel, const struct kernel_call *call, size_t count, struct values *values) {
    const struct node *node = kernel->node;
    values->count = 0;
    if (kernel->piece_floats == 0) return;
    bool backward = call->output_gradient != NULL;
    for (int i = 0; i < node->input_count; i++) backward = backward || call->input_gradient[i] != NULL;
    for (int i = 0; i < node->input_count; i++) {
        add_value(values, kernel, call, count, kernel_input(kernel, i), call->input[i], NULL);
        add_value(values, kernel, call, count, kernel_input(kernel, i), NULL, call->input_gradient[i]);
    }
    add_value(values, kernel, call, count, &node->shape, backward ? call->output : NULL, backward ? NULL : call->output);
    add_value(values, kernel, call, count, &node->shape, call->output_gradient, NULL);
}

/* Where the value's first element would be if the buffer, which begins with element `offset`, held all of it. */
static float *whole(const struct value *value, size_t first) {
    return (float *)((uintptr_t)value->buffer - first * value->each * sizeof(float));
}

/* Lets the call's values in bf16 begin where bodies find index `first` at the start of the buffers. */
static void point(const struct kernel *kernel, struct kernel_call *call, const struct values *values, size_t first) {
    const struct value *value = values->of;
    for (int i = 0; i < kernel->node->input_count; i++) {
        if (!is_narrow(kernel_input(kernel, i))) continue;
        if (call->input[i] != NULL) call->input[i] = whole(value++, first);
        if (call->input_gradient[i] != NULL) call->input_gradient[i] = whole(value++, first);
    }
    if (!is_narrow(&kernel->node->shape)) return;
    if (call->output != NULL) call->output = whole(value++, first);
    if (call->output_gradient != NULL) call->output_gradient = whole(value++, first);
}

/* The shares of the indices [first, end), or columns of these rows. */
static void widen(const struct kernel *kernel, const struct value *value, size_t first, size_t end) {
    assert((int64_t)((end - first) * value->each) <= kernel->piece_floats);
    if (value->from == NULL) return;
    numbers_convert((end - first) * value->each, TYPE_F32, value->buffer, TYPE_BF16,
                    (const uint16_t *)value->from + first * value->each);
}

static void widen_columns(const struct value *value, size_t first_row, size_t end_row, size_t first, size_t end) {
    for (size_t row = first_row; row < end_row && value->from != NULL; row++)
        numbers_convert(end - first, TYPE_F32, value->buffer + (row - first_row) * value->each + first, TYPE_BF16,
                        (const uint16_t *)value->from + row * value->each + first);
}

static void narrow(const struct value *value, size_t first, size_t end) {
    if (value->to == NULL) return;
    numbers_convert((end - first) * value->each, TYPE_BF16, (uint16_t *)value->to + first * value->each, TYPE_F32,
                    value->buffer);
}

/* Indices of a piece: as many as the buffers hold, but for few, which stay in the first cache. */
static size_t piece_length(const struct values *values, size_t step) {
    size_t most = 1;
    for (int v = 0; v < values->count; v++) most = values->of[v].each > most ? values->of[v].each : most;
    const size_t length = PIECE_FLOATS / most / step * step;
    return length > 0 ? length : step;
}

void kernel_pieces(const struct kernel *kernel, const struct kernel_call *call, size_t count, size_t first, size_t end,
                   size_t step, piece_body *body, const void *context) {
    struct values values;
    find_values(kernel, call, count, &values);
    if (values.count == 0) {
        body(context, call, first, end);
        return;
    }
    const size_t length = piece_length(&values, step);
    for (size_t at = first; at < end; at += length) {
        const size_t until = end - at < length ? end : at + length;
        struct kernel_call piece = *call;
        for (int v = 0; v < values.count; v++) widen(kernel, &values.of[v], at, until);
        point(kernel, &piece, &values, at);
        body(context, &piece, at, until);
        for (int v = 0; v < values.count; v++) narrow(&values.of[v], at, until);
    }
}

void kernel_column_pieces(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end,
                          piece_body *body, const void *context) {
    const size_t rows = kernel_rows(kernel);
    struct values values;
    find_values(kernel, call, rows, &values);
    const size_t length = values.count > 0 ? piece_length(&values, 1) : rows;
    for (size_t row = 0; row < rows; row += length) {
        struct kernel_call piece = *call;
        piece.first_row = row;
        piece.end_row = rows - row < length ? rows : row + length;
        for (int v = 0; v < values.count; v++) widen_columns(&values.of[v], row, piece.end_row, first, end);
        point(kernel, &piece, &values, row);
        body(context, &piece, first, end);
    }
}
