/*
 * A parameter as a value, the same for every sample: reads sides, shape or scalar, trained, and type (i32 only where it is not
 * trained; the parameter itself is of f32). The gradient is the sum over the samples.
 */
#include "graph/operators.h"

static enum ps_status infer(struct operation *op) {
    if (op->attributes->sides.count == 0) return error_set(op->error, PS_USAGE, "a parameter without sides");
    if (op->attributes->type == TYPE_BF16 || (op->attributes->type == TYPE_I32 && op->attributes->trained))
        return error_set(op->error, PS_USAGE, "type %s: f32, and with trained=false i32, is accepted",
                         number_types[op->attributes->type].name);
    TRY(check_own_parameter(op->attributes, op->error));
    return shape_of_sides(&op->attributes->sides, op->attributes->type, &op->output, op->error);
}

static int parameters(const struct operation *op, struct parameter parameters[GRAPH_PARAMETERS_MAX]) {
    return own_parameter(op->attributes, 0, parameters);
}

const struct operator_type operator_parameter = {
    .name = "parameter",
    .attributes = {LIST(sides, 1, FEATURES_MAX, REQUIRED), LIST(shape, 1, FEATURES_MAX, 0), BOOLEAN(scalar, 0),
                   BOOLEAN(trained, 1), ATTRIBUTE("type", TYPE, type, 0, TYPE_COUNT - 1, TYPE_F32)},
    .infer = infer,
    .parameters = parameters,
    .flops = no_flops,
};
