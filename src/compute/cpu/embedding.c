/*
 * Vectors of tokens, see compute/reference/embedding.c. In the backward each thread has a part of the vocabulary and goes
 * through all positions in order, so that sums do not depend on the number of threads.
 */
#include <string.h>

#include "compute/cpu/cpu.h"

static enum number_type copy_type(const struct kernel *kernel) {
    return kernel->graph->parameters[kernel->node->parameter_first].copy;
}

static void copy_rows(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    const int32_t *tokens = token_numbers(call->input[0]);
    const enum number_type type = kernel->node->shape.type, own = copy_type(kernel);
    const size_t features = kernel_features(kernel), row = features * number_types[type].bytes,
                 own_row = features * number_types[own].bytes;
    for (size_t i = first; i < end; i++)
        numbers_convert(features, type, (char *)call->output + i * row, own,
                        (const char *)call->weights[0] + (size_t)tokens[i] * own_row);
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    const int32_t *tokens = token_numbers(call->input[0]);
    const struct node *node = kernel->node;
    size_t count = kernel_rows(kernel);
    for (size_t i = 0; i < count; i++) {
        TRY(token_check(tokens[i], (int64_t)i, node->shape.dim[1], node->attributes.vocabulary, call->error));
    }
    kernel_parallel(kernel, call, count, 64, copy_rows);
    return PS_OK;
}

/* Adds a row of gradients of the node's type. */
static void add_row(const struct kernel *kernel, const struct kernel_call *call, size_t row, float *sum) {
    enum { PIECE = 512 };
    const size_t features = kernel_features(kernel), at = row * features;
    float piece[PIECE];
    if (kernel->node->shape.type == TYPE_F32) vector_add(features, sum, call->output_gradient + at);
    for (size_t i = 0; i < features && kernel->node->shape.type == TYPE_BF16; i += PIECE) {
        const size_t count = features - i < PIECE ? features - i : PIECE;
        numbers_convert(count, TYPE_F32, piece, TYPE_BF16, (const uint16_t *)(const void *)call->output_gradient + at + i);
        vector_add(count, sum + i, piece);
    }
}

/* Of the tokens [first, end). */
static void sum_gradients(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    const struct attributes *attributes = &kernel->node->attributes;
    const int32_t *tokens = token_numbers(call->input[0]);
    size_t features = kernel_features(kernel), count = kernel_rows(kernel);
    float *gradient = call->gradients[0];
    memset(gradient + first * features, 0, (end - first) * features * sizeof *gradient);
    for (size_t i = 0; i < count; i++) {
        size_t token = (size_t)tokens[i];
        if (token < first || token >= end || (attributes->padded && token == (size_t)attributes->padding)) continue;
        add_row(kernel, call, i, gradient + token * features);
    }
}

static enum ps_status backward_weight(struct kernel *kernel, const struct kernel_call *call) {
    kernel_parallel(kernel, call, (size_t)kernel->node->attributes.vocabulary, 1, sum_gradients);
    return PS_OK;
}

static bool native(const struct kernel *kernel) { return (void)kernel, true; }

const struct kernel_class cpu_embedding = {.native = native, .forward = forward, .backward_weight = backward_weight};
