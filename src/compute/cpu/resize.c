/* Resizing, see compute/reference/resize.c: loops along the channels, the taps of both sides computed once. Threads share the
 * output's rows of pixels; in the backward, which adds, the samples. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compute/cpu/cpu.h"
#include "compute/resize.h"

struct resize {
    struct kernel kernel;
    struct resize_taps *rows, *columns; /* of each row, of each column of the output: one block */
};

static void release(struct kernel *kernel) { free(((struct resize *)kernel)->rows); }

static enum ps_status prepare(struct kernel *kernel, struct ps_error *error) {
    struct resize *resize = (struct resize *)kernel;
    const int64_t *in = kernel_input(kernel, 0)->dim, *out = kernel->node->shape.dim;
    size_t count = (size_t)(out[1] + out[2]);
    TRY(memory_new(&resize->rows, count, "the pixels of a resized image", error));
    resize->columns = resize->rows + out[1];
    for (int64_t i = 0; i < out[1]; i++) resize->rows[i] = resize_taps(&kernel->node->attributes, POOL_ROWS, in[1], out[1], i);
    for (int64_t i = 0; i < out[2]; i++)
        resize->columns[i] = resize_taps(&kernel->node->attributes, POOL_COLUMNS, in[2], out[2], i);
    return PS_OK;
}

static void pass_pixel(const struct resize *resize, size_t pixel, const float *from, float *to, bool backward) {
    const int64_t *in = kernel_input(&resize->kernel, 0)->dim, *out = resize->kernel.node->shape.dim;
    int64_t at = (int64_t)pixel * in[0], n = (int64_t)pixel / (out[1] * out[2]);
    const struct resize_taps *rows = &resize->rows[(int64_t)pixel / out[2] % out[1]];
    const struct resize_taps *columns = &resize->columns[(int64_t)pixel % out[2]];
    for (int r = 0; r < rows->count; r++) {
        for (int k = 0; k < columns->count; k++) {
            int64_t input = ((n * in[1] + rows->at[r]) * in[2] + columns->at[k]) * in[0];
            float weight = (float)(rows->weight[r] * columns->weight[k]);
            vector_axpy((size_t)in[0], to + (backward ? input : at), weight, from + (backward ? at : input));
        }
    }
}

static void forward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    size_t channels = kernel_features(kernel);
    memset(call->output + first * channels, 0, (end - first) * channels * sizeof(float));
    for (size_t pixel = first; pixel < end; pixel++)
        pass_pixel((const struct resize *)kernel, pixel, call->input[0], call->output, false);
}

static void backward_input(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    size_t sample = (size_t)shape_elements(kernel_input(kernel, 0)), pixels = kernel_rows(kernel) / (size_t)kernel->samples;
    memset(call->input_gradient[0] + first * sample, 0, (end - first) * sample * sizeof(float));
    for (size_t pixel = first * pixels; pixel < end * pixels; pixel++)
        pass_pixel((const struct resize *)kernel, pixel, call->output_gradient, call->input_gradient[0], true);
}

const struct kernel_class cpu_resize = {
    .size = sizeof(struct resize),
    .prepare = prepare,
    .release = release,
    .forward_loop = {OVER_ROWS, forward, 16},
    .backward_input_loop = {OVER_SAMPLES, backward_input},
};
