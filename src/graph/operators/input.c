/*
 * An input of the network. Reads `type` and `sides`; with value_bytes alone it is the data of a network of opaque nodes.
 */
#include "graph/operators.h"

static enum ps_status infer(struct attributes *attributes, const struct shape *inputs, int input_count, struct shape *output,
                            struct ps_error *error) {
    (void)inputs, (void)input_count;
    const struct attributes *a = attributes;
    if (a->sides.count == 0 && a->value_bytes >= 0) {
        *output = (struct shape){.rank = 1, .dim = {(a->value_bytes + 3) / 4}};
        return PS_OK;
    }
    if (a->type != TYPE_F32 && a->type != TYPE_I32)
        return error_set(error, PS_USAGE, "data of the type %s: f32 and i32 are accepted", number_types[a->type].name);
    if (a->sides.count == 0) return error_set(error, PS_USAGE, "data without sides");
    return shape_of_sides(&a->sides, a->type, output, error);
}

const struct operator_type operator_input = {.name = "input", .infer = infer, .flops = no_flops};
