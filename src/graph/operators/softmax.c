/* `softmax` along dim 0, and its logarithm, `log_softmax`. */
#include "graph/operators.h"

static enum ps_status infer(struct attributes *attributes, const struct shape *inputs, int input_count, struct shape *output,
                            struct ps_error *error) {
    (void)attributes, (void)input_count, (void)error;
    *output = inputs[0];
    return PS_OK;
}

static double flops(const struct attributes *attributes, const struct shape *inputs, const struct shape *output) {
    (void)attributes, (void)inputs;
    return 12.0 * (double)shape_elements(output); /* an exponential of about 8, the largest, the sum and the share */
}

#define SOFTMAX(text)                                                                                                          \
    {                                                                                                                          \
        .name = text, .flags = OPERATOR_IN_PLACE | OPERATOR_USES_OUTPUT, .inputs_min = 1, .inputs_max = 1, .infer = infer,     \
        .flops = flops                                                                                                         \
    }

const struct operator_type operator_softmax = SOFTMAX("softmax");
const struct operator_type operator_log_softmax = SOFTMAX("log_softmax");
