/* Values one after the other along an axis: usually the channels (images of one height and width) or the features (vectors). */
#include "graph/operators.h"

static enum ps_status infer(struct operation *op) {
    const int axis = op->attributes->axis;
    TRY(require_axis(op->inputs, axis, op->error));
    struct shape sum = op->inputs[0];
    memset(sum.image, 0, sizeof sum.image);
    for (int i = 0; i < op->input_count; i++) {
        struct shape aligned = op->inputs[i];
        if (op->inputs[i].rank > axis) aligned.dim[axis] = op->inputs[0].dim[axis];
        if (op->inputs[i].type != op->inputs[0].type) {
            return error_set(op->error, PS_USAGE, "its inputs must have one type, and are %s and %s",
                             number_types[op->inputs[0].type].name, number_types[op->inputs[i].type].name);
        }
        if (!shape_equal(&op->inputs[0], &aligned)) {
            char first[96], other[96];
            return error_set(op->error, PS_USAGE, "its inputs may differ in %s only, and are %s and %s",
                             axis == 0 ? "their channels" : "the sides along the axis", shape_text(&op->inputs[0], first),
                             shape_text(&op->inputs[i], other));
        }
        if (shape_permuted(&op->inputs[i])) {
            return error_set(op->error, PS_USAGE, "an input is a flattened image: concatenate before flattening");
        }
        if (i > 0) sum.dim[axis] += op->inputs[i].dim[axis];
    }
    op->output = sum;
    return PS_OK;
}

const struct operator_type operator_concat = {
    .name = "concat",
    .attributes = {INTEGER(axis, 0, SHAPE_RANK_MAX - 1, 0)},
    .flags = OPERATOR_STARTS_LAYER,
    .inputs_min = 1,
    .inputs_max = GRAPH_INPUTS_MAX,
    .types = ANY_TYPE,
    .infer = infer,
    .flops = no_flops,
};
