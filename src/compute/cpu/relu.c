/* max(x, 0), where the kernel before has not applied it. The backward passes the gradient on where the output is positive; in
 * place it overwrites the output's gradient with the input's. In bf16 nothing is computed: the bits decide. */
#include "compute/cpu/cpu.h"

/* Written so that a NaN stays a NaN. */
ELEMENTWISE(forward, y[i] = x[i] < 0 ? 0 : x[i])
/* The gradient is always read: a conditional read would not be vectorised. */
ELEMENTWISE(backward, float gradient = dy[i]; dx[i] = y[i] > 0 ? gradient : 0)

enum { INFINITE = 0x7f80, MINUS_ZERO = 0x8000, MINUS_INFINITE = 0xff80 }; /* bits; larger ones of a sign are NaN */

static VECTOR_CLONES void narrow_forward(const struct kernel *kernel, const struct kernel_call *call, size_t first,
                                         size_t end) {
    const uint16_t *x = (const uint16_t *)(const void *)call->input[0];
    uint16_t *y = (uint16_t *)(void *)call->output;
    (void)kernel;
#pragma omp simd
    for (size_t i = first; i < end; i++) y[i] = x[i] > MINUS_ZERO && x[i] <= MINUS_INFINITE ? 0 : x[i];
}

static VECTOR_CLONES void narrow_backward(const struct kernel *kernel, const struct kernel_call *call, size_t first,
                                          size_t end) {
    const uint16_t *y = (const uint16_t *)(const void *)call->output,
                   *dy = (const uint16_t *)(const void *)call->output_gradient;
    uint16_t *dx = (uint16_t *)(void *)call->input_gradient[0];
    (void)kernel;
#pragma omp simd
    for (size_t i = first; i < end; i++) {
        const uint16_t gradient = dy[i];
        dx[i] = y[i] > 0 && y[i] <= INFINITE ? gradient : 0;
    }
}

static void forward_any(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    (kernel->node->shape.type == TYPE_BF16 ? narrow_forward : forward)(kernel, call, first, end);
}

static void backward_any(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    (kernel->node->shape.type == TYPE_BF16 ? narrow_backward : backward)(kernel, call, first, end);
}

const struct kernel_class cpu_relu = {
    .native = kernel_one_type,
    .forward_loop = {OVER_ELEMENTS, forward_any, 4096},
    .backward_input_loop = {OVER_ELEMENTS, backward_any, 4096},
};
