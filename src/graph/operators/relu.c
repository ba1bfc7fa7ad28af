/* max(x, 0). Its backward reads only where the output is positive. */
#include "graph/operators.h"

static enum ps_status infer(struct operation *op) {
    op->output = op->inputs[0];
    return PS_OK;
}

const struct operator_type operator_relu = {
    .name = "relu",
    .flags = OPERATOR_IN_PLACE | OPERATOR_USES_OUTPUT | OPERATOR_KEEPS_ZEROS,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
};
