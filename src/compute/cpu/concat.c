/* Concatenation: in each row (a pixel, or a sample of vectors) the channels of each input follow those of the input before.
 * Elements may have any type: lengths are in bytes. */
#include <string.h>

#include "compute/cpu/cpu.h"

static size_t row_bytes(const struct shape *shape) { return shape_channels(shape) * number_types[shape->type].bytes; }

static void forward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    size_t all = row_bytes(&kernel->node->shape), before = 0;
    for (int i = 0; i < kernel->node->input_count; i++) {
        size_t own = row_bytes(kernel_input(kernel, i));
        const char *x = (const char *)call->input[i];
        char *y = (char *)call->output + before;
        for (size_t row = first; row < end; row++) memcpy(y + row * all, x + row * own, own);
        before += own;
    }
}

static void backward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    size_t all = row_bytes(&kernel->node->shape), before = 0;
    for (int i = 0; i < kernel->node->input_count; i++) {
        size_t own = row_bytes(kernel_input(kernel, i));
        char *dx = (char *)call->input_gradient[i];
        const char *dy = (const char *)call->output_gradient + before;
        for (size_t row = first; row < end && dx != NULL; row++) memcpy(dx + row * own, dy + row * all, own);
        before += own;
    }
}

const struct kernel_class cpu_concat = {
    .forward_loop = {OVER_ROWS, forward, 16},
    .backward_input_loop = {OVER_ROWS, backward, 16},
};
