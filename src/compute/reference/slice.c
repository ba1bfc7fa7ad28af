/* Positions first .. first + count - 1 of a sequence. x (N, T, D), y (N, count, D); dx is dy there and 0 elsewhere. */
#include <string.h>

#include "compute/reference/reference.h"

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    const struct reference_kernel *k = reference_of(kernel);
    int64_t positions = k->input[0].dim[1], features = k->input[0].dim[0], count = k->output.dim[1] * features;
    for (int64_t n = 0; n < kernel->samples; n++) {
        const float *from = call->input[0] + (n * positions + k->attributes->first) * features;
        for (int64_t i = 0; i < count; i++) call->output[n * count + i] = from[i];
    }
    return PS_OK;
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    const struct reference_kernel *k = reference_of(kernel);
    int64_t positions = k->input[0].dim[1], features = k->input[0].dim[0], count = k->output.dim[1] * features;
    memset(call->input_gradient[0], 0, (size_t)(kernel->samples * positions * features) * sizeof(float));
    for (int64_t n = 0; n < kernel->samples; n++) {
        float *to = call->input_gradient[0] + (n * positions + k->attributes->first) * features;
        for (int64_t i = 0; i < count; i++) to[i] = call->output_gradient[n * count + i];
    }
    return PS_OK;
}

const struct kernel_class reference_slice = {
    .create = reference_create, .destroy = reference_destroy, .forward = forward, .backward_input = backward_input};
