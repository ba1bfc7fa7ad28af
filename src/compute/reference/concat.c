/* Concatenation along the last dimension of memory: x_j (N, H, W, C_j), y (N, H, W, sum of C_j); the same for vectors. */
#include <string.h>

#include "compute/reference/reference.h"

/* Copies piece by piece, with elements of any type: `bytes` at y + offset belong to input j at x_j + position * bytes.
 */
static void each_piece(struct kernel *kernel, const struct kernel_call *call, bool backward) {
    const struct reference_kernel *k = reference_of(kernel);
    int64_t positions = reference_rows(kernel, &k->output), offset = 0;
    for (int64_t p = 0; p < positions; p++) {
        for (int j = 0; j < k->input_count; j++) {
            int64_t bytes = k->input[j].dim[0] * (int64_t)number_types[k->output.type].bytes;
            if (!backward) {
                memcpy((char *)call->output + offset, (const char *)call->input[j] + p * bytes, (size_t)bytes);
            } else if (call->input_gradient[j] != NULL) {
                memcpy((char *)call->input_gradient[j] + p * bytes, (const char *)call->output_gradient + offset,
                       (size_t)bytes);
            }
            offset += bytes;
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
