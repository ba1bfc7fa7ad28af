/*
 * Means over windows of different sizes, in loops along the channels: x (N, H, W, C), y (N, OH, OW, C). pool_window gives the
 * elements of a window and its divisor. Windows may overlap, so the backward adds, and each thread has its own samples.
 */
#include "compute/cpu/average_windows.h"

#include <string.h>

#include "base/vector.h"
#include "compute/cpu/cpu.h"

struct run {
    const struct average_windows *windows;
    const struct kernel_call *call;
};

static VECTOR_CLONES void add_pixel(size_t channels, float factor, const float *restrict from, float *restrict to) {
    for (size_t c = 0; c < channels; c++) to[c] += factor * from[c];
}

/* Window `index` of a sample: y is its mean, or dx gets its share of dy. */
static void pass_window(const struct average_windows *w, int64_t index, const float *from, float *to, bool backward) {
    int64_t channels = w->in[0], height = w->in[1], width = w->in[2];
    struct pool_window rows = pool_window(w->attributes, POOL_ROWS, height, index / w->out[2]);
    struct pool_window columns = pool_window(w->attributes, POOL_COLUMNS, width, index % w->out[2]);
    float factor = 1 / (float)(rows.counted * columns.counted);
    for (int64_t row = rows.first; row < rows.end; row += rows.step) {
        for (int64_t column = columns.first; column < columns.end; column += columns.step) {
            int64_t pixel = (row * width + column) * channels, value = index * channels;
            add_pixel((size_t)channels, factor, from + (backward ? value : pixel), to + (backward ? pixel : value));
        }
    }
}

static void pass_sample(const struct average_windows *w, const float *from, float *to, bool backward) {
    int64_t filled = w->in[0] * (backward ? w->in[1] * w->in[2] : w->out[1] * w->out[2]);
    memset(to, 0, (size_t)filled * sizeof *to);
    for (int64_t index = 0; index < w->out[1] * w->out[2]; index++) pass_window(w, index, from, to, backward);
}

static void forward_part(const void *context, int part, size_t first, size_t end) {
    (void)part;
    const struct run *run = context;
    const int64_t *in = run->windows->in, *out = run->windows->out;
    for (int64_t n = (int64_t)first; n < (int64_t)end; n++) {
        const float *x = run->call->input[0] + n * in[0] * in[1] * in[2];
        pass_sample(run->windows, x, run->call->output + n * out[0] * out[1] * out[2], false);
    }
}

static void backward_part(const void *context, int part, size_t first, size_t end) {
    (void)part;
    const struct run *run = context;
    const int64_t *in = run->windows->in, *out = run->windows->out;
    for (int64_t n = (int64_t)first; n < (int64_t)end; n++) {
        const float *dy = run->call->output_gradient + n * out[0] * out[1] * out[2];
        pass_sample(run->windows, dy, run->call->input_gradient[0] + n * in[0] * in[1] * in[2], true);
    }
}

void average_windows_forward(const struct average_windows *windows, const struct kernel_call *call) {
    struct run run = {windows, call};
    cpu_parallel(windows->device, (size_t)windows->samples, 1, forward_part, &run);
}

void average_windows_backward(const struct average_windows *windows, const struct kernel_call *call) {
    struct run run = {windows, call};
    cpu_parallel(windows->device, (size_t)windows->samples, 1, backward_part, &run);
}
