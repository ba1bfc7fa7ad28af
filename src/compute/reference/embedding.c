/*
 * Vectors of tokens. x (N, T) numbers of tokens, w (V, D), y (N, T, D).
 *
 *     y[n, t] = w[x[n, t]],   dw[v] = sum of dy[n, t] over all n, t with x[n, t] = v; of the padding token 0
 */
#include <string.h>

#include "compute/reference/reference.h"

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    const struct node *node = kernel->node;
    size_t features = kernel_features(kernel);
    const int32_t *tokens = token_numbers(call->input[0]);
    for (size_t i = 0; i < kernel_rows(kernel); i++) {
        TRY(token_check(tokens[i], (int64_t)i, node->shape.dim[1], node->attributes.vocabulary, call->error));
        memcpy(call->output + i * features, call->weights[0] + (size_t)tokens[i] * features, features * sizeof(float));
    }
    return PS_OK;
}

static void backward_weight(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    const struct attributes *a = &kernel->node->attributes;
    size_t features = kernel_features(kernel), rows = kernel_rows(kernel);
    const int32_t *tokens = token_numbers(call->input[0]);
    for (int v = 0; v < a->vocabulary; v++) {
        for (size_t d = first; d < end; d++) {
            double sum = 0;
            for (size_t i = 0; i < rows; i++) {
                if (tokens[i] == v) sum += (double)call->output_gradient[i * features + d];
            }
            call->gradients[0][(size_t)v * features + d] = a->padded && v == a->padding ? 0 : (float)sum;
        }
    }
}

const struct kernel_class reference_embedding = {.forward = forward, .backward_weight_loop = {OVER_FEATURES, backward_weight}};
