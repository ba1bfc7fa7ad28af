/* Padding (graph/operators/pad.c) row by row, a row being what lies along dimension 0. Threads share the rows; in the backward,
 * which adds, the samples. */
#include <string.h>

#include "compute/cpu/cpu.h"
#include "compute/pad.h"

/* The elements of a row of y that are elements of x one after the other, and where these begin in x. */
struct copied {
    int64_t first, count, from;
};

static struct copied copied_of(const struct kernel *kernel) {
    int64_t before = kernel->node->attributes.before.at[0], after = kernel->node->attributes.after.at[0];
    int64_t size = kernel_input(kernel, 0)->dim[0], lost = (before < 0 ? -before : 0) + (after < 0 ? -after : 0);
    return (struct copied){before > 0 ? before : 0, size > lost ? size - lost : 0, before < 0 ? -before : 0};
}

static void forward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    const struct attributes *a = &kernel->node->attributes;
    int64_t features = (int64_t)kernel_features(kernel), size = kernel_input(kernel, 0)->dim[0];
    struct copied whole = copied_of(kernel);
    for (size_t row = first; row < end; row++) {
        int64_t from = pad_row(kernel, row);
        float *y = call->output + (int64_t)row * features;
        const float *x = call->input[0] + from * size;
        for (int64_t i = 0; i < features && from < 0; i++) y[i] = a->value;
        if (from < 0) continue;
        memcpy(y + whole.first, x + whole.from, (size_t)whole.count * sizeof *y);
        for (int64_t i = 0; i < features; i++) {
            if (i == whole.first) i += whole.count;
            if (i == features) break;
            int64_t at = pad_source(a, 0, size, i);
            y[i] = at < 0 ? a->value : x[at];
        }
    }
}

static void backward_input(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    const struct attributes *a = &kernel->node->attributes;
    int64_t features = (int64_t)kernel_features(kernel), size = kernel_input(kernel, 0)->dim[0];
    size_t sample = (size_t)shape_elements(kernel_input(kernel, 0)), rows = kernel_rows(kernel) / (size_t)kernel->samples;
    struct copied whole = copied_of(kernel);
    memset(call->input_gradient[0] + first * sample, 0, (end - first) * sample * sizeof(float));
    for (size_t row = first * rows; row < end * rows; row++) {
        int64_t from = pad_row(kernel, row);
        if (from < 0) continue;
        const float *dy = call->output_gradient + (int64_t)row * features;
        float *dx = call->input_gradient[0] + from * size;
        vector_add((size_t)whole.count, dx + whole.from, dy + whole.first);
        for (int64_t i = 0; i < features; i++) {
            if (i == whole.first) i += whole.count;
            if (i == features) break;
            int64_t at = pad_source(a, 0, size, i);
            if (at >= 0) dx[at] += dy[i];
        }
    }
}

const struct kernel_class cpu_pad = {
    .forward_loop = {OVER_ROWS, forward, 16},
    .backward_input_loop = {OVER_SAMPLES, backward_input},
};
