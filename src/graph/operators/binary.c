/*
 * A function of two elements (graph/functions.def): reads kind. Each side of the two values is the same, or 1 for one of them,
 * which is then repeated along it; its gradient is the sum over what it was repeated for.
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
    (void)attributes;
    return shape_broadcast(inputs, input_count, output, error);
}

static unsigned more_flags(const struct attributes *attributes, int input_count) {
    (void)input_count;
    const unsigned flags = kinds[attributes->kind].flags;
    return flags & OPERATOR_USES_INPUT ? flags : flags | OPERATOR_IN_PLACE;
}

static double flops(const struct attributes *attributes, const struct shape *inputs, const struct shape *output) {
    (void)inputs;
    return kinds[attributes->kind].flops * (double)shape_elements(output);
}

const struct operator_type operator_binary = {
    .name = "binary",
    .attributes = {CHOICE(kind, names, REQUIRED)},
    .flags = OPERATOR_MOVES,
    .more_flags = more_flags,
    .inputs_min = 2,
    .inputs_max = 2,
    .infer = infer,
    .flops = flops,
};
