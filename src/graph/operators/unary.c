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

static enum ps_status infer(struct operation *op) {
    struct attributes *a = op->attributes;
    if (a->kind == UNARY_CLIP && !(a->alpha <= a->beta))
        return error_set(op->error, PS_USAGE, "clip: the least, alpha=%g, is more than the largest, beta=%g", (double)a->alpha,
                         (double)a->beta);
    if (a->kind == UNARY_CELU && a->alpha == 0) return error_set(op->error, PS_USAGE, "celu: alpha is 0");
    op->output = op->inputs[0];
    return PS_OK;
}

/* What does not read its input may write over it. */
static unsigned more_flags(const struct operation *op) {
    const unsigned flags = kinds[op->attributes->kind].flags;
    return flags & OPERATOR_USES_INPUT ? flags : flags | OPERATOR_IN_PLACE;
}

static double flops(const struct operation *op) {
    return kinds[op->attributes->kind].flops * (double)shape_elements(&op->output);
}

const struct operator_type operator_unary = {
    .name = "unary",
    .attributes = {CHOICE(kind, names, REQUIRED), NUMBER(alpha, -LARGEST, LARGEST, 1), NUMBER(beta, -LARGEST, LARGEST, 0)},
    .more_flags = more_flags,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
    .flops = flops,
};
