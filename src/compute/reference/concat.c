/* Concatenation along the last dimension of memory: x_j (N, H, W, C_j), y (N, H, W, sum of C_j); the same for vectors. */
#include <string.h>

#include "compute/reference/reference.h"

/* Walks over the pieces: `channels` elements at y + offset belong to input j at x_j + position * channels. */
static void each_piece(struct kernel *kernel, const struct kernel_call *call, bool backward) {
    const struct reference_kernel *k = reference_of(kernel);
    int64_t positions = kernel->samples * shape_elements(&k->output) / k->output.dim[0], offset = 0;
    for (int64_t p = 0; p < positions; p++) {
        for (int j = 0; j < k->input_count; j++) {
            int64_t channels = k->input[j].dim[0];
            size_t bytes = (size_t)channels * sizeof(float);
            if (!backward) {
                memcpy(call->output + offset, call->input[j] + p * channels, bytes);
            } else if (call->input_gradient[j] != NULL) {
                memcpy(call->input_gradient[j] + p * channels, call->output_gradient + offset, bytes);
            }
            offset += channels;
        }
    }
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    each_piece(kernel, call, false);
    return PS_OK;
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    each_piece(kernel, call, true);
    return PS_OK;
}

const struct kernel_class reference_concat = {
    .create = reference_create, .destroy = reference_destroy, .forward = forward, .backward_input = backward_input};
