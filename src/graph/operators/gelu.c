/*
 * Gaussian error linear unit (Hendrycks and Gimpel, 2016): x times the normal distribution's share below x. Reads tanh_form
 * (the approximation that GPT-2 uses instead).
 */
#include "graph/operators.h"

static enum ps_status infer(struct operation *op) {
    op->output = op->inputs[0];
    return PS_OK;
}

static double flops(const struct operation *op) {
    return 14.0 * (double)shape_elements(&op->output); /* an exponential of about 8, and what is around it */
}

const struct operator_type operator_gelu = {
    .name = "gelu",
    .attributes = {BOOLEAN(tanh_form, 0)},
    .flags = OPERATOR_USES_INPUT,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
    .flops = flops,
};
