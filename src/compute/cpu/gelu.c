/*
 * GELU, see compute/reference/gelu.c. The error function is formula 7.1.26 of Abramowitz and Stegun (1964), whose error is
 * below 1.5e-7; its exponential is also the density that the backward needs.
 *
 * In bf16 oneDNN computes it where it has code for that: in half the time of these loops on pieces in f32, since it may
 * contract multiplications and additions.
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

enum { FORWARD, BACKWARD, PRIMITIVES };

struct gelu {
    struct kernel kernel;
    struct primitive primitives[PRIMITIVES]; /* in bf16 */
};

static void release(struct kernel *kernel) {
    for (int p = 0; p < PRIMITIVES; p++) primitive_release(&((struct gelu *)kernel)->primitives[p]);
}

static enum ps_status prepare(struct kernel *kernel, struct ps_error *error) {
    if (!cpu_multiplies_narrow(kernel) || kernel_input(kernel, 0)->type != TYPE_BF16) return PS_OK;
    struct gelu *gelu = (struct gelu *)kernel;
    const dnnl_alg_kind_t algorithm = kernel->node->attributes.tanh_form ? dnnl_eltwise_gelu_tanh : dnnl_eltwise_gelu_erf;
    struct draft draft;
    draft_start(&draft, kernel->device, kernel->node);
    draft.type = TYPE_BF16;
    const struct layout *values = draft_layout(&draft, 1, (int64_t[]){(int64_t)kernel_elements(kernel)}, dnnl_a);
    dnnl_primitive_desc_t forward = draft_elementwise(&draft, PASS_FORWARD, algorithm, values, NULL);
    dnnl_primitive_desc_t backward = draft_elementwise(&draft, PASS_INPUT, algorithm, values, forward);
    draft_primitive(&draft, forward, "forward", (int[]){DNNL_ARG_SRC, DNNL_ARG_DST, 0}, &gelu->primitives[FORWARD]);
    draft_primitive(&draft, backward, "backward", (int[]){DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC, 0},
                    &gelu->primitives[BACKWARD]);
    kernel->workspace_bytes = largest_scratchpad(gelu->primitives, PRIMITIVES);
    return draft_finish(&draft, error);
}

static enum ps_status run(struct kernel *kernel, int which, const struct kernel_call *call, const void *const *addresses,
                          kernel_body *body) {
    struct primitive *primitive = &((struct gelu *)kernel)->primitives[which];
    if (primitive->handle != NULL) return primitive_run(primitive, cpu_of(kernel), addresses, call->workspace, call->error);
    kernel_parallel(kernel, call, kernel_elements(kernel), 1024, body);
    return PS_OK;
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    return run(kernel, FORWARD, call, (const void *[]){call->input[0], call->output},
               kernel->node->attributes.tanh_form ? forward_tanh : forward_exact);
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call) {
    return run(kernel, BACKWARD, call, (const void *[]){call->input[0], call->output_gradient, call->input_gradient[0]},
               kernel->node->attributes.tanh_form ? backward_tanh : backward_exact);
}

const struct kernel_class cpu_gelu = {
    .size = sizeof(struct gelu),
    .piecewise = true,
    .prepare = prepare,
    .release = release,
    .forward = forward,
    .backward_input = backward_input,
};
