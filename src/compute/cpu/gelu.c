/*
 * GELU, see compute/reference/gelu.c. The error function is formula 7.1.26 of Abramowitz and Stegun (1964), whose error is
 * below 1.5e-7; its exponential is also the density that the backward needs.
 */
#include "base/vector.h"
#include "compute/cpu/activation.h"
#include "compute/cpu/cpu.h"

struct gelu {
    const float *x, *dy;
    float *result;
};

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

static VECTOR_CLONES void exact(size_t count, float *y, const float *x) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float bell;
        y[i] = x[i] * share(x[i], &bell);
    }
}

static VECTOR_CLONES void exact_slope(size_t count, float *dx, const float *x, const float *dy) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float bell, p = share(x[i], &bell);
        dx[i] = dy[i] * (p + x[i] * bell * (0.5f * SQRT_2_OVER_PI));
    }
}

static VECTOR_CLONES void tanh_form(size_t count, float *y, const float *x) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float t = activation_tanh(SQRT_2_OVER_PI * (x[i] + CUBIC * x[i] * x[i] * x[i]));
        y[i] = 0.5f * x[i] * (1.0f + t);
    }
}

static VECTOR_CLONES void tanh_slope(size_t count, float *dx, const float *x, const float *dy) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float square = x[i] * x[i], t = activation_tanh(SQRT_2_OVER_PI * x[i] * (1.0f + CUBIC * square));
        float slope = 0.5f * (1.0f - t * t) * SQRT_2_OVER_PI * (1.0f + 3.0f * CUBIC * square);
        dx[i] = dy[i] * (0.5f * (1.0f + t) + x[i] * slope);
    }
}

static void forward_exact(const void *context, int part, size_t first, size_t end) {
    (void)part;
    const struct gelu *g = context;
    exact(end - first, g->result + first, g->x + first);
}

static void forward_tanh(const void *context, int part, size_t first, size_t end) {
    (void)part;
    const struct gelu *g = context;
    tanh_form(end - first, g->result + first, g->x + first);
}

static void backward_exact(const void *context, int part, size_t first, size_t end) {
    (void)part;
    const struct gelu *g = context;
    exact_slope(end - first, g->result + first, g->x + first, g->dy + first);
}

static void backward_tanh(const void *context, int part, size_t first, size_t end) {
    (void)part;
    const struct gelu *g = context;
    tanh_slope(end - first, g->result + first, g->x + first, g->dy + first);
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    const struct plain_kernel *plain = plain_of(kernel);
    struct gelu gelu = {.x = call->input[0], .result = call->output};
    cpu_body *body = plain->node->attributes.tanh_form ? forward_tanh : forward_exact;
    cpu_parallel(plain->device, plain_elements(kernel), 1024, body, &gelu);
    return PS_OK;
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    const struct plain_kernel *plain = plain_of(kernel);
    struct gelu gelu = {.x = call->input[0], .dy = call->output_gradient, .result = call->input_gradient[0]};
    cpu_body *body = plain->node->attributes.tanh_form ? backward_tanh : backward_exact;
    cpu_parallel(plain->device, plain_elements(kernel), 1024, body, &gelu);
    return PS_OK;
}

const struct kernel_class cpu_gelu = {
    .create = plain_create,
    .destroy = plain_destroy,
    .forward = forward,
    .backward_input = backward_input,
};
