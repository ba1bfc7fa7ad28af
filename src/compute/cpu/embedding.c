/*
 * Vectors of tokens, see compute/reference/embedding.c. In the backward each thread has a part of the vocabulary and goes
 * through all positions in order, so that sums do not depend on the number of threads.
 */
#include <string.h>

#include "compute/cpu/cpu.h"

static void copy_rows(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    const int32_t *tokens = token_numbers(call->input[0]);
    size_t features = kernel_features(kernel);
    for (size_t i = first; i < end; i++) {
        const float *vector = call->weights[0] + (size_t)tokens[i] * features;
        memcpy(call->output + i * features, vector, features * sizeof *vector);
    }
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
        vector_add(features, gradient + token * features, call->output_gradient + i * features);
    }
}

static enum ps_status backward_weight(struct kernel *kernel, const struct kernel_call *call) {
    kernel_parallel(kernel, call, (size_t)kernel->node->attributes.vocabulary, 1, sum_gradients);
    return PS_OK;
}

const struct kernel_class cpu_embedding = {.forward = forward, .backward_weight = backward_weight};
