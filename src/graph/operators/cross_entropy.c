/*
 * Softmax and cross-entropy over the input's features against one label a sample, or of a sequence against one a position:
 * reads smoothing (of the labels, PyTorch's meaning). Its output is the softmax, which is also all that its backward reads.
 */
#include "graph/operators.h"

static enum ps_status infer(struct attributes *attributes, const struct shape *inputs, int input_count, struct shape *output,
                            struct ps_error *error) {
    (void)input_count;
    TRY(require_features(inputs, error));
    if (shape_permuted(inputs)) {
        return error_set(error, PS_USAGE, "its input is a flattened image: put a linear layer between");
    }
    if (!(attributes->smoothing >= 0 && attributes->smoothing < 1)) {
        return error_set(error, PS_USAGE, "label smoothing %g must be at least 0 and below 1", (double)attributes->smoothing);
    }
    *output = inputs[0];
    return PS_OK;
}

static double flops(const struct attributes *attributes, const struct shape *inputs, const struct shape *output) {
    (void)attributes, (void)inputs;
    return 5.0 * (double)shape_elements(output); /* largest, difference, exponential, sum, division */
}

const struct operator_type operator_cross_entropy = {
    .name = "cross_entropy",
    .attributes = {NUMBER(smoothing, 0, 1, 0)},
    .flags = OPERATOR_USES_OUTPUT | OPERATOR_LOSS,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
    .flops = flops,
};
