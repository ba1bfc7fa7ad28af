/* The same values in another type: y = x rounded to y's type, dx = dy rounded to x's. */
#include "compute/reference/reference.h"

static float load(enum number_type type, const void *from, int64_t i) {
    return type == TYPE_BF16 ? bf16_value(((const uint16_t *)from)[i]) : ((const float *)from)[i];
}

static void store(enum number_type type, void *to, int64_t i, float value) {
    if (type == TYPE_BF16)
        ((uint16_t *)to)[i] = bf16_of(value);
    else
        ((float *)to)[i] = value;
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    const struct reference_kernel *k = reference_of(kernel);
    for (int64_t i = 0; i < kernel->samples * shape_elements(&k->output); i++)
        store(k->output.type, call->output, i, load(k->input[0].type, call->input[0], i));
    return PS_OK;
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    const struct reference_kernel *k = reference_of(kernel);
    for (int64_t i = 0; i < kernel->samples * shape_elements(&k->output); i++)
        store(k->input[0].type, call->input_gradient[0], i, load(k->output.type, call->output_gradient, i));
    return PS_OK;
}

const struct kernel_class reference_cast = {
    .create = reference_create, .destroy = reference_destroy, .forward = forward, .backward_input = backward_input};
