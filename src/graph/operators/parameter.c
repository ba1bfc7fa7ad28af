/*
 * A parameter as a value, the same for every sample: reads sides, trained, and type (i32 only where it is not trained; the
 * parameter itself is of f32). The gradient is the sum over the samples.
 */
#include "graph/operators.h"

static enum ps_status infer(struct attributes *attributes, const struct shape *inputs, int input_count, struct shape *output,
                            struct ps_error *error) {
    (void)inputs, (void)input_count;
    if (attributes->sides.count == 0) return error_set(error, PS_USAGE, "a parameter without sides");
    if (attributes->type == TYPE_BF16 || (attributes->type == TYPE_I32 && attributes->trained))
        return error_set(error, PS_USAGE, "type %s: f32, and with trained=false i32, is accepted",
                         number_types[attributes->type].name);
    TRY(check_own_parameter(attributes, error));
    return shape_of_sides(&attributes->sides, attributes->type, output, error);
}

static int parameters(const struct attributes *attributes, const struct shape *inputs,
                      struct parameter parameters[GRAPH_PARAMETERS_MAX]) {
    (void)inputs;
    return own_parameter(attributes, 0, parameters);
}

const struct operator_type operator_parameter = {
    .name = "parameter",
    .attributes = {LIST(sides, 1, FEATURES_MAX, REQUIRED), LIST(shape, 1, FEATURES_MAX, 0), BOOLEAN(trained, 1),
                   ATTRIBUTE("type", TYPE, type, 0, TYPE_COUNT - 1, TYPE_F32)},
    .infer = infer,
    .parameters = parameters,
    .flops = no_flops,
};
