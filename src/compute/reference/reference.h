/*
 * The reference device: every operator as plain loops over its definition, summed in double; other devices are compared with
 * it. Parameters lie in canonical (PyTorch) order, activations N, H, W, C.
 */
#ifndef PENSTOCK_COMPUTE_REFERENCE_REFERENCE_H
#define PENSTOCK_COMPUTE_REFERENCE_REFERENCE_H

#include <assert.h>

#include "compute/device.h"
#include "compute/token.h"

/* A loop over the elements of the output (struct kernel_loop in compute/kernel.h): STATEMENT computes element `i` of the output
 * `y`, or of `dx`, the gradient of the first input `x`, from `dy`; `a` are the node's attributes. */
#define ELEMENTWISE(name, STATEMENT)                                                                                           \
    static void name(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {                  \
        const struct attributes *a = &kernel->node->attributes;                                                                \
        const float *x = call->input[0], *dy = call->output_gradient;                                                          \
        float *y = call->output, *dx = call->input_gradient[0];                                                                \
        (void)a, (void)x, (void)dy, (void)y, (void)dx;                                                                         \
        for (size_t i = first; i < end; i++) {                                                                                 \
            STATEMENT;                                                                                                         \
        }                                                                                                                      \
    }

/* A window that slides over images: convolution and pooling. */
struct window {
    int64_t samples, channels, height, width; /* of the input */
    int64_t out_channels, out_height, out_width;
    int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
};

struct window reference_window(const struct kernel *kernel);

/* Elements of (n, h, w, 0) of the input and of the output. */
static inline int64_t window_input(const struct window *w, int64_t n, int64_t row, int64_t column) {
    return ((n * w->height + row) * w->width + column) * w->channels;
}

static inline int64_t window_output(const struct window *w, int64_t n, int64_t row, int64_t column) {
    return ((n * w->out_height + row) * w->out_width + column) * w->out_channels;
}

#endif
