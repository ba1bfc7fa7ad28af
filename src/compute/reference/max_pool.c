/* Max pooling. x (N, H, W, C), y (N, OH, OW, C); pool_window gives the windows. Inner memory holds for each output the pixel (h
 * * W + w) that won, the first of equal ones. */
#include <string.h>

#include "compute/reference/reference.h"

static void set_sizes(struct kernel *kernel) {
    kernel->inner_bytes = (int64_t)kernel_elements(kernel) * (int64_t)sizeof(int32_t);
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    struct window s = reference_window(kernel);
    int32_t *winners = (int32_t *)call->inner;
    for (int64_t i = 0; i < s.samples * s.out_height * s.out_width; i++) {
        int64_t n = i / (s.out_height * s.out_width), row = i / s.out_width % s.out_height, column = i % s.out_width;
        const struct attributes *a = &kernel->node->attributes;
        struct pool_window rows = pool_window(a, POOL_ROWS, s.height, row);
        struct pool_window columns = pool_window(a, POOL_COLUMNS, s.width, column);
        for (int64_t c = 0; c < s.channels; c++) {
            int64_t winner = rows.first * s.width + columns.first;
            for (int64_t h = rows.first; h < rows.end; h += rows.step) {
                for (int64_t w = columns.first; w < columns.end; w += columns.step) {
                    const float *image = call->input[0] + window_input(&s, n, 0, 0) + c;
                    int64_t pixel = h * s.width + w;
                    if (image[pixel * s.channels] > image[winner * s.channels]) winner = pixel;
                }
            }
            winners[i * s.channels + c] = (int32_t)winner;
            call->output[i * s.channels + c] = call->input[0][window_input(&s, n, 0, winner) + c];
        }
    }
    return PS_OK;
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call) {
    struct window s = reference_window(kernel);
    const int32_t *winners = (const int32_t *)call->inner;
    memset(call->input_gradient[0], 0, (size_t)window_input(&s, s.samples, 0, 0) * sizeof(float));
    for (int64_t i = 0; i < s.samples * s.out_height * s.out_width * s.channels; i++) {
        int64_t n = i / (s.out_height * s.out_width * s.channels), c = i % s.channels;
        call->input_gradient[0][window_input(&s, n, 0, winners[i]) + c] += call->output_gradient[i];
    }
    return PS_OK;
}

const struct kernel_class reference_max_pool = {
    .set_sizes = set_sizes,
    .forward = forward,
    .backward_input = backward_input,
};
