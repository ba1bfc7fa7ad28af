/* Concatenation: in each row (a pixel, or a sample of vectors) the channels of each input follow those of the input before.
 * Elements may have any type: lengths are in bytes. */
#include <string.h>

#include "compute/cpu/cpu.h"

struct rows {
    const struct kernel *kernel;
    const struct kernel_call *call;
};

static size_t row_bytes(const struct shape *shape) { return shape_channels(shape) * number_types[shape->type].bytes; }

static size_t input_bytes(const struct plain_kernel *k, int input) {
    return row_bytes(&k->graph->nodes[k->node->inputs[input]].shape);
}

static void gather_part(const void *context, int part, size_t first, size_t end) {
    (void)part;
    const struct rows *rows = context;
    const struct plain_kernel *k = plain_of(rows->kernel);
    size_t all = row_bytes(&k->node->shape), before = 0;
    for (int i = 0; i < k->node->input_count; i++) {
        size_t own = input_bytes(k, i);
        const char *x = (const char *)rows->call->input[i];
        char *y = (char *)rows->call->output + before;
        for (size_t row = first; row < end; row++) memcpy(y + row * all, x + row * own, own);
        before += own;
    }
}

static void scatter_part(const void *context, int part, size_t first, size_t end) {
    (void)part;
    const struct rows *rows = context;
    const struct plain_kernel *k = plain_of(rows->kernel);
    size_t all = row_bytes(&k->node->shape), before = 0;
    for (int i = 0; i < k->node->input_count; i++) {
        size_t own = input_bytes(k, i);
        char *dx = (char *)rows->call->input_gradient[i];
        const char *dy = (const char *)rows->call->output_gradient + before;
        for (size_t row = first; row < end && dx != NULL; row++) memcpy(dx + row * own, dy + row * all, own);
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
