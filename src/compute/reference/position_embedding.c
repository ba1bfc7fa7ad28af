/*
 * A vector added at each position. x, y (N, T, D), w (count, D); w row of position t is t, or 0 with `everywhere`.
 *
 *     y[n, t] = x[n, t] + w[row(t)],   dx = dy,   dw[r] = sum of dy[n, t] over all n, t with row(t) = r
 */
#include "compute/reference/reference.h"

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    const struct reference_kernel *k = reference_of(kernel);
    int64_t features = k->output.dim[0], positions = k->output.dim[1];
    for (int64_t i = 0; i < kernel->samples * positions * features; i++) {
        int64_t row = k->attributes->everywhere ? 0 : i / features % positions;
        call->output[i] = call->input[0][i] + call->weights[0][row * features + i % features];
    }
    return PS_OK;
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    for (int64_t i = 0; i < kernel->samples * shape_elements(&reference_of(kernel)->output); i++) {
        call->input_gradient[0][i] = call->output_gradient[i];
    }
    return PS_OK;
}

static enum ps_status backward_weight(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    const struct reference_kernel *k = reference_of(kernel);
    int64_t features = k->output.dim[0], positions = k->output.dim[1];
    for (int64_t e = 0; e < k->attributes->count * features; e++) {
        double sum = 0;
        for (int64_t i = e % features; i < kernel->samples * positions * features; i += features) {
            int64_t row = k->attributes->everywhere ? 0 : i / features % positions;
            if (row == e / features) sum += (double)call->output_gradient[i];
        }
        call->gradients[0][e] = (float)sum;
    }
    return PS_OK;
}

const struct kernel_class reference_position_embedding = {
    .create = reference_create,
    .destroy = reference_destroy,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};
