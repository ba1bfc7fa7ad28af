/*
 * A function of two elements (graph/functions.def): reads kind. Each side of the two values is the same, or 1 for one of them,
 * which is then repeated along it; its gradient is the sum over what it was repeated for.
 *
 * With one value the other one is a parameter of its own, of the shape `sides`, not larger than the value: reads trained and
 * swapped (it is the first argument).
 */
#include "graph/operators.h"

static const char *const names[] = {
#define BINARY(NAME, name, value, slope_a, slope_b, reads, flops) #name,
#include "graph/functions.def"
};

static const struct {
    unsigned flags;
    double flops;
} kinds[] = {
#define BINARY(NAME, name, value, slope_a, slope_b, reads, flops) {reads, flops},
#include "graph/functions.def"
};

static enum ps_status infer(struct attributes *attributes, const struct shape *inputs, int input_count, struct shape *output,
                            struct ps_error *error) {
    struct shape both[2] = {inputs[0]};
    if (input_count == 2 && attributes->sides.count > 0)
        return error_set(error, PS_USAGE, "sides: of a parameter, beside one input; there are two");
    if (input_count == 2) return shape_broadcast(inputs, input_count, output, error);
    TRY(check_own_parameter(attributes, error));
    TRY(shape_of_sides(&attributes->sides, TYPE_F32, &both[1], error));
    TRY(shape_broadcast(both, 2, output, error));
    if (!shape_equal(output, &inputs[0])) {
        char text[96];
        return error_set(error, PS_USAGE, "its parameter may not be larger than its input of %s", shape_text(inputs, text));
    }
    return PS_OK;
}

static int parameters(const struct attributes *attributes, const struct shape *inputs,
                      struct parameter parameters[GRAPH_PARAMETERS_MAX]) {
    (void)inputs;
    const bool factor = attributes->kind == BINARY_MUL || attributes->kind == BINARY_DIV || attributes->kind == BINARY_POWER;
    return attributes->sides.count > 0 ? own_parameter(attributes, factor ? 1 : 0, parameters) : 0;
}

/* The gradient of x p and x / p is made of p alone. */
static unsigned more_flags(const struct attributes *attributes, int input_count) {
    const bool scales = attributes->kind == BINARY_MUL || (attributes->kind == BINARY_DIV && !attributes->swapped);
    unsigned flags = kinds[attributes->kind].flags;
    if (input_count == 1 && !attributes->trained && scales) flags = 0;
    return flags & OPERATOR_USES_INPUT ? flags : flags | OPERATOR_IN_PLACE;
}

static double flops(const struct attributes *attributes, const struct shape *inputs, const struct shape *output) {
    (void)inputs;
    return kinds[attributes->kind].flops * (double)shape_elements(output);
}

const struct operator_type operator_binary = {
    .name = "binary",
    .attributes = {CHOICE(kind, names, REQUIRED), LIST(sides, 1, FEATURES_MAX, 0), LIST(shape, 1, FEATURES_MAX, 0),
                   BOOLEAN(trained, 1), BOOLEAN(swapped, 0)},
    .more_flags = more_flags,
    .inputs_min = 1,
    .inputs_max = 2,
    .infer = infer,
    .parameters = parameters,
    .flops = flops,
};
