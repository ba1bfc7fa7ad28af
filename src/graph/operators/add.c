/* Sum of values of one shape: where a skip connection ends. */
#include "graph/operators.h"

static enum ps_status infer(struct operation *op) {
    for (int i = 1; i < op->input_count; i++) {
        char first[96], other[96];
        if (!shape_equal(&op->inputs[0], &op->inputs[i])) {
            return error_set(op->error, PS_USAGE, "its inputs must have one shape, and have %s and %s",
                             shape_text(&op->inputs[0], first), shape_text(&op->inputs[i], other));
        }
        bool one_order = memcmp(op->inputs[0].image, op->inputs[i].image, sizeof op->inputs[0].image) == 0;
        if (!one_order && (shape_permuted(&op->inputs[0]) || shape_permuted(&op->inputs[i]))) {
            return error_set(op->error, PS_USAGE, "its inputs are vectors flattened from unlike images: add before flattening");
        }
    }
    op->output = op->inputs[0];
    return PS_OK;
}

const struct operator_type operator_add = {
    .name = "add",
    .flags = OPERATOR_STARTS_LAYER,
    .inputs_min = 2,
    .inputs_max = GRAPH_INPUTS_MAX,
    .infer = infer,
};
