/* `softmax` along dim 0, and its logarithm, `log_softmax`. */
#include "graph/operators.h"

static enum ps_status infer(struct operation *op) {
    op->output = op->inputs[0];
    return PS_OK;
}

static double flops(const struct operation *op) {
    return 12.0 * (double)shape_elements(&op->output); /* an exponential of about 8, the largest, the sum and the share */
}

#define SOFTMAX(text)                                                                                                          \
    {                                                                                                                          \
        .name = text, .flags = OPERATOR_IN_PLACE | OPERATOR_USES_OUTPUT, .inputs_min = 1, .inputs_max = 1, .infer = infer,     \
        .flops = flops                                                                                                         \
    }

const struct operator_type operator_softmax = SOFTMAX("softmax");
const struct operator_type operator_log_softmax = SOFTMAX("log_softmax");
