/* A function of each element (graph/functions.def): reads kind, alpha, beta. */
#include "graph/operators.h"

static const char *const names[] = {
#define UNARY(NAME, name, value, slope, reads, flops) #name,
#include "graph/functions.def"
};

static const struct {
    unsigned flags;
    double flops;
} kinds[] = {
#define UNARY(NAME, name, value, slope, reads, flops) {reads, flops},
#include "graph/functions.def"
};

static enum ps_status infer(struct attributes *attributes, const struct shape *inputs, int input_count, struct shape *output,
                            struct ps_error *error) {
    (void)input_count;
    if (attributes->kind == UNARY_CLIP && !(attributes->alpha <= attributes->beta))
        return error_set(error, PS_USAGE, "clip: the least, alpha=%g, is more than the largest, beta=%g",
                         (double)attributes->alpha, (double)attributes->beta);
    if (attributes->kind == UNARY_CELU && attributes->alpha == 0) return error_set(error, PS_USAGE, "celu: alpha is 0");
    *output = inputs[0];
    return PS_OK;
}

/* What does not read its input may write over it. */
static unsigned more_flags(const struct attributes *attributes, int input_count) {
    (void)input_count;
    const unsigned flags = kinds[attributes->kind].flags;
    return flags & OPERATOR_USES_INPUT ? flags : flags | OPERATOR_IN_PLACE;
}

static double flops(const struct attributes *attributes, const struct shape *inputs, const struct shape *output) {
    (void)inputs;
    return kinds[attributes->kind].flops * (double)shape_elements(output);
}

const struct operator_type operator_unary = {
    .name = "unary",
    .attributes = {CHOICE(kind, names, REQUIRED), NUMBER(alpha, -FLT_MAX, FLT_MAX, 1), NUMBER(beta, -FLT_MAX, FLT_MAX, 0)},
    .more_flags = more_flags,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
    .flops = flops,
};
