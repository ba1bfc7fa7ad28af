/*
 * An input of the network. Reads `type` and `sides`; with value_bytes alone it is the data of a network of opaque nodes.
 */
#include "graph/operators.h"

static enum ps_status infer(struct operation *op) {
    const struct attributes *a = op->attributes;
    if (a->sides.count == 0 && a->value_bytes >= 0) {
        op->output = (struct shape){.rank = 1, .dim = {(a->value_bytes + 3) / 4}};
        return PS_OK;
    }
    if (a->type != TYPE_F32 && a->type != TYPE_I32)
        return error_set(op->error, PS_USAGE, "data of the type %s: f32 and i32 are accepted", number_types[a->type].name);
    if (a->sides.count == 0) return error_set(op->error, PS_USAGE, "data without sides");
    return shape_of_sides(&a->sides, a->type, &op->output, op->error);
}

const struct operator_type operator_input = {.name = "input", .infer = infer, .flops = no_flops};
