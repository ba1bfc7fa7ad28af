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

static enum ps_status infer(struct operation *op) {
    struct shape both[2] = {op->inputs[0]};
    if (op->input_count == 2 && op->attributes->sides.count > 0)
        return error_set(op->error, PS_USAGE, "sides: of a parameter, beside one input; there are two");
    if (op->input_count == 2) return shape_broadcast(op->inputs, op->input_count, &op->output, op->error);
    TRY(check_own_parameter(op->attributes, op->error));
    TRY(shape_of_sides(&op->attributes->sides, TYPE_F32, &both[1], op->error));
    TRY(shape_broadcast(both, 2, &op->output, op->error));
    if (!shape_equal(&op->output, &op->inputs[0])) {
        char text[96];
        return error_set(op->error, PS_USAGE, "its parameter may not be larger than its input of %s",
                         shape_text(op->inputs, text));
    }
    return PS_OK;
}

static int parameters(const struct operation *op, struct parameter parameters[GRAPH_PARAMETERS_MAX]) {
    const struct attributes *a = op->attributes;
    const bool factor = a->kind == BINARY_MUL || a->kind == BINARY_DIV || a->kind == BINARY_POWER;
    return a->sides.count > 0 ? own_parameter(a, factor ? 1 : 0, parameters) : 0;
}

/* The gradient of x p and x / p is made of p alone. */
static unsigned more_flags(const struct operation *op) {
    const struct attributes *a = op->attributes;
    const bool scales = a->kind == BINARY_MUL || (a->kind == BINARY_DIV && !a->swapped);
    unsigned flags = kinds[a->kind].flags;
    if (op->input_count == 1 && !a->trained && scales) flags = 0;
    return flags & OPERATOR_USES_INPUT ? flags : flags | OPERATOR_IN_PLACE;
}

static double flops(const struct operation *op) {
    return kinds[op->attributes->kind].flops * (double)shape_elements(&op->output);
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
