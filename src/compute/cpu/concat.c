/* Values side by side: row by row (a pixel, or a sample of vectors) the channels of each input after those of the one
 * before. */
#include <string.h>

#include "compute/cpu/cpu.h"

struct rows {
    const struct kernel *kernel;
    const struct kernel_call *call;
};

static size_t input_channels(const struct plain_kernel *k, int input) {
    return shape_channels(&k->graph->nodes[k->node->inputs[input]].shape);
}

static void gather_part(const void *context, int part, size_t first, size_t end) {
    (void)part;
    const struct rows *rows = context;
    const struct plain_kernel *k = plain_of(rows->kernel);
    size_t channels = shape_channels(&k->node->shape), before = 0;
    for (int i = 0; i < k->node->input_count; i++) {
        size_t own = input_channels(k, i);
        const float *x = rows->call->input[i];
        float *y = rows->call->output + before;
        for (size_t row = first; row < end; row++) memcpy(y + row * channels, x + row * own, own * sizeof *y);
        before += own;
    }
}

static void scatter_part(const void *context, int part, size_t first, size_t end) {
    (void)part;
    const struct rows *rows = context;
    const struct plain_kernel *k = plain_of(rows->kernel);
    size_t channels = shape_channels(&k->node->shape), before = 0;
    for (int i = 0; i < k->node->input_count; i++) {
        size_t own = input_channels(k, i);
        float *dx = rows->call->input_gradient[i];
        const float *dy = rows->call->output_gradient + before;
        for (size_t row = first; row < end && dx != NULL; row++) memcpy(dx + row * own, dy + row * channels, own * sizeof *dx);
        before += own;
    }
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    struct rows rows = {kernel, call};
    cpu_parallel(plain_of(kernel)->device, shape_rows(&plain_of(kernel)->node->shape, kernel->samples), 16, gather_part, &rows);
    return PS_OK;
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    struct rows rows = {kernel, call};
    cpu_parallel(plain_of(kernel)->device, shape_rows(&plain_of(kernel)->node->shape, kernel->samples), 16, scatter_part,
                 &rows);
    return PS_OK;
}

const struct kernel_class cpu_concat = {
    .create = plain_create,
    .destroy = plain_destroy,
    .forward = forward,
    .backward_input = backward_input,
};
