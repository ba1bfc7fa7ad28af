/* Values side by side along the channels (images of one height and width) or the features (vectors). */
#include "graph/operators.h"

static enum ps_status infer(struct attributes *attributes, const struct shape *inputs, int input_count, struct shape *output,
                            struct ps_error *error) {
    (void)attributes;
    struct shape sum = inputs[0];
    memset(sum.image, 0, sizeof sum.image);
    for (int i = 0; i < input_count; i++) {
        struct shape aligned = inputs[i];
        aligned.dim[0] = inputs[0].dim[0];
        if (inputs[i].type != inputs[0].type) {
            return error_set(error, PS_USAGE, "its inputs must have one type, and are %s and %s",
                             number_types[inputs[0].type].name, number_types[inputs[i].type].name);
        }
        if (!shape_equal(&inputs[0], &aligned)) {
            char first[96], other[96];
            return error_set(error, PS_USAGE, "its inputs may differ in their channels only, and are %s and %s",
                             shape_text(&inputs[0], first), shape_text(&inputs[i], other));
        }
        if (shape_permuted(&inputs[i])) {
            return error_set(error, PS_USAGE, "an input is a flattened image: concatenate before flattening");
        }
        if (i > 0) sum.dim[0] += inputs[i].dim[0];
    }
    *output = sum;
    return PS_OK;
}

const struct operator_type operator_concat = {
    .name = "concat",
    .flags = OPERATOR_STARTS_LAYER,
    .inputs_min = 1,
    .inputs_max = GRAPH_INPUTS_MAX,
    .types = any_type,
    .infer = infer,
    .flops = no_flops,
};
