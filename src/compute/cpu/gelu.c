/*
 * GELU, see compute/reference/gelu.c. The error function is formula 7.1.26 of Abramowitz and Stegun (1964), whose error is
 * below 1.5e-7; its exponential is also the density that the backward needs.
 */
#include "compute/cpu/activation.h"
#include "compute/cpu/cpu.h"

#define SQRT_2_OVER_PI 0.797884561f
#define CUBIC 0.044715f

/* P(x); `bell` becomes exp(-x^2 / 2). */
static inline float share(float x, float *bell) {
    float size = (x < 0 ? -x : x) * 0.707106781f, t = 1.0f / (1.0f + 0.3275911f * size);
    float p = 1.061405429f;
    p = p * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    *bell = activation_exp(-size * size);
    float rest = 0.5f * p * t * *bell; /* P(-|x|) */
    return x < 0 ? rest : 1.0f - rest;
}

ELEMENTWISE(forward_exact, float bell; y[i] = x[i] * share(x[i], &bell))
ELEMENTWISE(backward_exact, float bell; float p = share(x[i], &bell);
            dx[i] = dy[i] * (p + x[i] * bell * (0.5f * SQRT_2_OVER_PI)))

static inline float tanh_form(float x) {
    float t = activation_tanh(SQRT_2_OVER_PI * (x + CUBIC * x * x * x));
    return 0.5f * x * (1.0f + t);
}

static inline float tanh_form_slope(float x) {
    float square = x * x, t = activation_tanh(SQRT_2_OVER_PI * x * (1.0f + CUBIC * square));
    float slope = 0.5f * (1.0f - t * t) * SQRT_2_OVER_PI * (1.0f + 3.0f * CUBIC * square);
    return 0.5f * (1.0f + t) + x * slope;
}

ELEMENTWISE(forward_tanh, y[i] = tanh_form(x[i]))
ELEMENTWISE(backward_tanh, dx[i] = dy[i] * tanh_form_slope(x[i]))

static void forward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    kernel_body *body = kernel->node->attributes.tanh_form ? forward_tanh : forward_exact;
    body(kernel, call, first, end);
}

static void backward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    kernel_body *body = kernel->node->attributes.tanh_form ? backward_tanh : backward_exact;
    body(kernel, call, first, end);
}

const struct kernel_class cpu_gelu = {
    .piecewise = true,
    .forward_loop = {OVER_ELEMENTS, forward, 1024},
    .backward_input_loop = {OVER_ELEMENTS, backward, 1024},
};
