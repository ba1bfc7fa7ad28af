/* Average pooling. x (N, H, W, C), y (N, OH, OW, C); pool_window gives the windows and the number of elements that count. */
#include <string.h>

#include "compute/reference/reference.h"

/* The window of output i: its rows and columns in sample n, and one over its number of counted elements. */
struct place {
    int64_t n;
    struct pool_window rows, columns;
    double factor;
};

static struct place place_of(const struct kernel *kernel, const struct window *s, int64_t i) {
    const struct attributes *a = &kernel->node->attributes;
    struct pool_window rows = pool_window(a, POOL_ROWS, s->height, i / s->out_width % s->out_height);
    struct pool_window columns = pool_window(a, POOL_COLUMNS, s->width, i % s->out_width);
    double factor = 1.0 / (double)(rows.counted * columns.counted);
    return (struct place){i / (s->out_height * s->out_width), rows, columns, factor};
}

static void forward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    struct window s = reference_window(kernel);
    int64_t pixels = s.out_height * s.out_width;
    for (int64_t i = (int64_t)first * pixels; i < (int64_t)end * pixels; i++) {
        struct place at = place_of(kernel, &s, i);
        for (int64_t c = 0; c < s.channels; c++) {
            double sum = 0;
            for (int64_t row = at.rows.first; row < at.rows.end; row += at.rows.step) {
                for (int64_t column = at.columns.first; column < at.columns.end; column += at.columns.step) {
                    sum += (double)call->input[0][window_input(&s, at.n, row, column) + c];
                }
            }
            call->output[i * s.channels + c] = (float)(sum * at.factor);
        }
    }
}

static void backward_input(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    struct window s = reference_window(kernel);
    int64_t pixels = s.out_height * s.out_width;
    float *dx = call->input_gradient[0];
    memset(dx + window_input(&s, (int64_t)first, 0, 0), 0, (end - first) * (size_t)window_input(&s, 1, 0, 0) * sizeof(float));
    for (int64_t i = (int64_t)first * pixels; i < (int64_t)end * pixels; i++) {
        struct place at = place_of(kernel, &s, i);
        for (int64_t row = at.rows.first; row < at.rows.end; row += at.rows.step) {
            for (int64_t column = at.columns.first; column < at.columns.end; column += at.columns.step) {
                for (int64_t c = 0; c < s.channels; c++) {
                    float share = (float)((double)call->output_gradient[i * s.channels + c] * at.factor);
                    dx[window_input(&s, at.n, row, column) + c] += share;
                }
            }
        }
    }
}

const struct kernel_class reference_average_pool = {
    .forward_loop = {OVER_SAMPLES, forward},
    .backward_input_loop = {OVER_SAMPLES, backward_input},
};
