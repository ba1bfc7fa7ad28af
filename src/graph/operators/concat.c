/* Values one after the other along an axis: usually the channels (images of one height and width) or the features (vectors). */
#include "graph/operators.h"

static enum ps_status infer(struct attributes *attributes, const struct shape *inputs, int input_count, struct shape *output,
                            struct ps_error *error) {
    const int axis = attributes->axis;
    TRY(require_axis(inputs, axis, error));
    struct shape sum = inputs[0];
    memset(sum.image, 0, sizeof sum.image);
    for (int i = 0; i < input_count; i++) {
        struct shape aligned = inputs[i];
        if (inputs[i].rank > axis) aligned.dim[axis] = inputs[0].dim[axis];
        if (inputs[i].type != inputs[0].type) {
            return error_set(error, PS_USAGE, "its inputs must have one type, and are %s and %s",
                             number_types[inputs[0].type].name, number_types[inputs[i].type].name);
        }
        if (!shape_equal(&inputs[0], &aligned)) {
            char first[96], other[96];
            return error_set(error, PS_USAGE, "its inputs may differ in %s only, and are %s and %s",
                             axis == 0 ? "their channels" : "the sides along the axis", shape_text(&inputs[0], first),
                             shape_text(&inputs[i], other));
        }
        if (shape_permuted(&inputs[i])) {
            return error_set(error, PS_USAGE, "an input is a flattened image: concatenate before flattening");
        }
        if (i > 0) sum.dim[axis] += inputs[i].dim[axis];
    }
    *output = sum;
    return PS_OK;
}

const struct operator_type operator_concat = {
    .name = "concat",
    .attributes = {INTEGER(axis, 0, SHAPE_RANK_MAX - 1, 0)},
    .flags = OPERATOR_STARTS_LAYER,
    .inputs_min = 1,
    .inputs_max = GRAPH_INPUTS_MAX,
    .types = any_type,
    .infer = infer,
    .flops = no_flops,
};
