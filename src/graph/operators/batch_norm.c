/*
 * Batch normalisation over each channel (Ioffe and Szegedy, 2015): reads epsilon, momentum (the share of the new statistics,
 * as in PyTorch; 0: the running ones stay as they are), weight and bias (whether it has them; else they are 1 and 0) and
 * double_precision (sums, and what follows from them, on devices that compute in single precision; networks of earlier versions
 * keep their bits). Training normalises with the biased variance of the micro-batch; the running variance gathers the unbiased
 * one.
 */
#include "graph/operators.h"

static enum ps_status infer(struct operation *op) {
    if (!(op->attributes->epsilon >= 0) || !(op->attributes->momentum >= 0 && op->attributes->momentum <= 1)) {
        return error_set(op->error, PS_USAGE, "epsilon %g must not be negative, momentum %g be from 0 to 1",
                         (double)op->attributes->epsilon, (double)op->attributes->momentum);
    }
    if (shape_permuted(op->inputs)) {
        return error_set(op->error, PS_USAGE, "its input is a flattened image: normalise before flattening");
    }
    op->output = op->inputs[0];
    return PS_OK;
}

/* What it does not have is a constant. */
static enum parameter_role own_role(bool has) { return has ? PARAMETER_TRAINED : PARAMETER_FIXED; }

static int parameters(const struct operation *op, struct parameter parameters[GRAPH_PARAMETERS_MAX]) {
    struct shape shape = {.rank = 1, .dim = {op->inputs->dim[0]}};
    struct initial zero = {INITIAL_CONSTANT, 0}, one = {INITIAL_CONSTANT, 1};
    const struct attributes *a = op->attributes;
    parameters[0] = (struct parameter){.name = "weight", .shape = shape, .initial = one, .role = own_role(a->weight)};
    parameters[1] = (struct parameter){.name = "bias", .shape = shape, .initial = zero, .role = own_role(a->bias)};
    parameters[2] = (struct parameter){.name = "running_mean", .shape = shape, .initial = zero, .role = PARAMETER_STATISTIC};
    parameters[3] = (struct parameter){.name = "running_var", .shape = shape, .initial = one, .role = PARAMETER_STATISTIC};
    return 4;
}

static double flops(const struct operation *op) {
    return 7.0 * (double)shape_elements(&op->output); /* mean 1, variance 3, normalisation and scale 3 */
}

const struct operator_type operator_batch_norm = {
    .name = "batch_norm",
    .attributes = {NUMBER(epsilon, 0, 1e6, 1e-5), NUMBER(momentum, 0, 1, 0.1), BOOLEAN(weight, 1), BOOLEAN(bias, 1),
                   BOOLEAN(double_precision, 0)},
    .flags = OPERATOR_USES_INPUT,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
    .parameters = parameters,
    .flops = flops,
};
