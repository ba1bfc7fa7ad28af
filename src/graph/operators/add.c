/* Sum of values of one shape: where a skip connection ends. */
#include "graph/operators.h"

static enum ps_status infer(struct attributes *attributes, const struct shape *inputs, int input_count, struct shape *output,
                            struct ps_error *error) {
    (void)attributes;
    for (int i = 1; i < input_count; i++) {
        char first[96], other[96];
        if (!shape_equal(&inputs[0], &inputs[i])) {
            return error_set(error, PS_USAGE, "its inputs must have one shape, and have %s and %s",
                             shape_text(&inputs[0], first), shape_text(&inputs[i], other));
        }
        bool one_order = memcmp(inputs[0].image, inputs[i].image, sizeof inputs[0].image) == 0;
        if (!one_order && (shape_permuted(&inputs[0]) || shape_permuted(&inputs[i]))) {
            return error_set(error, PS_USAGE, "its inputs are vectors flattened from unlike images: add before flattening");
        }
    }
    *output = inputs[0];
    return PS_OK;
}

const struct operator_type operator_add = {
    .name = "add",
    .flags = OPERATOR_STARTS_LAYER,
    .inputs_min = 2,
    .inputs_max = GRAPH_INPUTS_MAX,
    .infer = infer,
};
