/*
 * Vectors of tokens, see compute/reference/embedding.c. In the backward each thread has a part of the vocabulary and goes
 * through all positions in order, so that sums do not depend on the number of threads.
 */
#include <string.h>

#include "base/vector.h"
#include "compute/cpu/cpu.h"

struct lookup {
    const struct plain_kernel *kernel;
    const struct kernel_call *call;
    const int32_t *tokens;
    int64_t count, features;
};

static struct lookup start(struct kernel *kernel, const struct kernel_call *call) {
    const struct shape *shape = &plain_of(kernel)->node->shape;
    return (struct lookup){plain_of(kernel), call, token_numbers(call->input[0]), kernel->samples * shape->dim[1],
                           shape->dim[0]};
}

static void copy_part(const void *context, int part, size_t first, size_t end) {
    (void)part;
    const struct lookup *l = context;
    size_t features = (size_t)l->features;
    for (size_t i = first; i < end; i++) {
        const float *vector = l->call->weights[0] + (size_t)l->tokens[i] * features;
        memcpy(l->call->output + i * features, vector, features * sizeof *vector);
    }
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    struct lookup lookup = start(kernel, call);
    const struct node *node = plain_of(kernel)->node;
    for (int64_t i = 0; i < lookup.count; i++) {
        TRY(token_check(lookup.tokens[i], i, node->shape.dim[1], node->attributes.vocabulary, error));
    }
    cpu_parallel(plain_of(kernel)->device, (size_t)lookup.count, 64, copy_part, &lookup);
    return PS_OK;
}

static void add_part(const void *context, int part, size_t first, size_t end) {
    (void)part;
    const struct lookup *l = context;
    const struct attributes *attributes = &l->kernel->node->attributes;
    size_t features = (size_t)l->features;
    float *gradient = l->call->gradients[0];
    memset(gradient + first * features, 0, (end - first) * features * sizeof *gradient);
    for (int64_t i = 0; i < l->count; i++) {
        size_t token = (size_t)l->tokens[i];
        if (token < first || token >= end || (attributes->padded && token == (size_t)attributes->padding)) continue;
        vector_add(features, gradient + token * features, l->call->output_gradient + (size_t)i * features);
    }
}

static enum ps_status backward_weight(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    struct lookup lookup = start(kernel, call);
    const struct plain_kernel *plain = plain_of(kernel);
    cpu_parallel(plain->device, (size_t)plain->node->attributes.vocabulary, 1, add_part, &lookup);
    return PS_OK;
}

const struct kernel_class cpu_embedding = {
    .create = plain_create,
    .destroy = plain_destroy,
    .forward = forward,
    .backward_weight = backward_weight,
};
