/* max(x, 0), where the kernel before has not applied it. The backward passes the gradient on where the output is positive; in
 * place it overwrites the output's gradient with the input's. */
#include "base/vector.h"
#include "compute/cpu/cpu.h"

struct relu {
    const float *x; /* the input; in the backward the output */
    const float *dy;
    float *result;
};

/* Written so that a NaN stays a NaN. */
static VECTOR_CLONES void rectify(size_t count, float *y, const float *x) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) y[i] = x[i] < 0 ? 0 : x[i];
}

/* The gradient is always read: a conditional read would not be vectorised. */
static VECTOR_CLONES void mask(size_t count, float *dx, const float *y, const float *dy) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float gradient = dy[i];
        dx[i] = y[i] > 0 ? gradient : 0;
    }
}

static void forward_part(const void *context, int part, size_t first, size_t end) {
    (void)part;
    const struct relu *r = context;
    rectify(end - first, r->result + first, r->x + first);
}

static void backward_part(const void *context, int part, size_t first, size_t end) {
    (void)part;
    const struct relu *r = context;
    mask(end - first, r->result + first, r->x + first, r->dy + first);
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    struct relu relu = {.x = call->input[0], .result = call->output};
    cpu_parallel(plain_of(kernel)->device, plain_elements(kernel), 4096, forward_part, &relu);
    return PS_OK;
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    struct relu relu = {.x = call->output, .dy = call->output_gradient, .result = call->input_gradient[0]};
    cpu_parallel(plain_of(kernel)->device, plain_elements(kernel), 4096, backward_part, &relu);
    return PS_OK;
}

const struct kernel_class cpu_relu = {
    .create = plain_create,
    .destroy = plain_destroy,
    .forward = forward,
    .backward_input = backward_input,
};
