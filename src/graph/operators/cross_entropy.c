/*
 * Softmax and cross-entropy over the input's first side against one label a sample, or of a sequence or image against one for
 * each position or pixel: reads smoothing (of the labels, PyTorch's meaning). Labels weigh what the graph's class weights say.
 * Its output is the softmax, which is also all that its backward reads.
 */
#include "graph/operators.h"

static enum ps_status infer(struct operation *op) {
    if (shape_permuted(op->inputs)) {
        return error_set(op->error, PS_USAGE, "its input is a flattened image: put a linear layer between");
    }
    if (!(op->attributes->smoothing >= 0 && op->attributes->smoothing < 1)) {
        return error_set(op->error, PS_USAGE, "label smoothing %g must be at least 0 and below 1",
                         (double)op->attributes->smoothing);
    }
    op->output = op->inputs[0];
    return PS_OK;
}

/* All sides but the first, without those of 1 at the end. */
static void target(const struct shape *input, struct shape *target) {
    int rank = input->rank;
    while (rank > 2 && input->dim[rank - 1] == 1) rank--;
    *target = (struct shape){.type = TYPE_I32, .rank = rank > 1 ? rank - 1 : 1, .dim = {1}};
    for (int d = 1; d < rank; d++) target->dim[d - 1] = input->dim[d];
}

static double flops(const struct operation *op) {
    return 5.0 * (double)shape_elements(&op->output); /* largest, difference, exponential, sum, division */
}

const struct operator_type operator_cross_entropy = {
    .name = "cross_entropy",
    .attributes = {NUMBER(smoothing, 0, 1, 0)},
    .flags = OPERATOR_USES_OUTPUT | OPERATOR_LOSS,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
    .flops = flops,
    .target = target,
};
