/*
 * Vectors of tokens. x (N, T) numbers of tokens, w (V, D), y (N, T, D).
 *
 *     y[n, t] = w[x[n, t]],   dw[v] = sum of dy[n, t] over all n, t with x[n, t] = v; of the padding token 0
 */
#include <string.h>

#include "compute/reference/reference.h"

static int64_t token_count(const struct kernel *kernel) { return kernel->samples * reference_of(kernel)->input[0].dim[1]; }

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    const struct reference_kernel *k = reference_of(kernel);
    int64_t features = k->output.dim[0];
    const int32_t *tokens = token_numbers(call->input[0]);
    for (int64_t i = 0; i < token_count(kernel); i++) {
        TRY(token_check(tokens[i], i, k->output.dim[1], k->attributes->vocabulary, error));
        const float *vector = call->weights[0] + (int64_t)tokens[i] * features;
        memcpy(call->output + i * features, vector, (size_t)features * sizeof *vector);
    }
    return PS_OK;
}

static enum ps_status backward_weight(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    const struct attributes *attributes = reference_of(kernel)->attributes;
    int64_t features = reference_of(kernel)->output.dim[0];
    const int32_t *tokens = token_numbers(call->input[0]);
    for (int64_t v = 0; v < attributes->vocabulary; v++) {
        for (int64_t d = 0; d < features; d++) {
            double sum = 0;
            for (int64_t i = 0; i < token_count(kernel); i++) {
                if (tokens[i] == v) sum += (double)call->output_gradient[i * features + d];
            }
            call->gradients[0][v * features + d] = attributes->padded && v == attributes->padding ? 0 : (float)sum;
        }
    }
    return PS_OK;
}

const struct kernel_class reference_embedding = {
    .create = reference_create, .destroy = reference_destroy, .forward = forward, .backward_weight = backward_weight};
