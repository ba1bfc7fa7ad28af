/* Concatenation along the last dimension of memory: x_j (N, H, W, C_j), y (N, H, W, sum of C_j); the same for vectors. */
#include <string.h>

#include "compute/reference/reference.h"

/* Copies piece by piece, with elements of any type: `bytes` at y + offset belong to input j at x_j + row * bytes. */
static void each_piece(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end, bool backward) {
    size_t each = number_types[kernel->node->shape.type].bytes, offset = first * kernel_features(kernel) * each;
    for (size_t row = first; row < end; row++) {
        for (int j = 0; j < kernel->node->input_count; j++) {
            size_t bytes = shape_channels(kernel_input(kernel, j)) * each;
            if (!backward)
                memcpy((char *)call->output + offset, (const char *)call->input[j] + row * bytes, bytes);
            else if (call->input_gradient[j] != NULL)
                memcpy((char *)call->input_gradient[j] + row * bytes, (const char *)call->output_gradient + offset, bytes);
            offset += bytes;
        }
    }
}

static void forward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    each_piece(kernel, call, first, end, false);
}

static void backward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    each_piece(kernel, call, first, end, true);
}

const struct kernel_class reference_concat = {.forward_loop = {OVER_ROWS, forward},
                                              .backward_input_loop = {OVER_ROWS, backward}};
