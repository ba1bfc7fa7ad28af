/*
 * Normalisation of each sample by itself, with weight and bias for each channel (whether it has them); reads epsilon.
 *
 *   - layer_norm (Ba, Kiros and Hinton, 2016): over the features of a vector, or of each vector of a sequence, or of each
 * position of another value.
 *   - rms_norm (Zhang and Sennrich, "Root mean square layer normalization", 2019): the same, but does not subtract the mean,
 * and has no bias.
 *   - group_norm (Wu and He, 2018): the channels in groups (0: 1), each over all its positions, as PyTorch's GroupNorm; with as
 * many groups as channels its InstanceNorm. With `apart` several images of a sample (C, images, H, W) each over its own.
 */
#include "graph/operators.h"

static enum ps_status infer(struct operation *op) {
    if (shape_permuted(op->inputs))
        return error_set(op->error, PS_USAGE, "its input is a flattened image: normalise before flattening");
    if (!(op->attributes->epsilon >= 0))
        return error_set(op->error, PS_USAGE, "epsilon %g must not be negative", (double)op->attributes->epsilon);
    if (op->attributes->bias && !op->attributes->weight) return error_set(op->error, PS_USAGE, "it has a bias, but no weight");
    op->output = op->inputs[0];
    return PS_OK;
}

static enum ps_status group_infer(struct operation *op) {
    struct attributes *a = op->attributes;
    if (a->groups == 0) a->groups = 1;
    if (a->groups < 1 || op->inputs->dim[0] % a->groups != 0)
        return error_set(op->error, PS_USAGE, "%d groups do not share %lld channels equally", a->groups,
                         (long long)op->inputs->dim[0]);
    return infer(op);
}

static unsigned group_flags(const struct operation *op) { return op->attributes->apart ? OPERATOR_IMAGES : 0; }

static int parameters(const struct operation *op, struct parameter parameters[GRAPH_PARAMETERS_MAX]) {
    struct shape shape = {.rank = 1, .dim = {op->inputs->dim[0]}};
    parameters[0] = (struct parameter){.name = "weight", .shape = shape, .initial = {INITIAL_CONSTANT, 1}};
    parameters[1] = (struct parameter){.name = "bias", .shape = shape, .initial = {INITIAL_CONSTANT, 0}};
    return op->attributes->weight + op->attributes->bias;
}

static double flops(const struct operation *op) {
    return 7.0 * (double)shape_elements(&op->output); /* mean 1, variance 3, normalisation and scale 3 */
}

static double rms_flops(const struct operation *op) {
    return 4.0 * (double)shape_elements(&op->output); /* squares 2, normalisation and scale 2 */
}

const struct operator_type operator_layer_norm = {
    .name = "layer_norm",
    .attributes = {NUMBER(epsilon, 0, 1e6, 1e-5), BOOLEAN(weight, 1), BOOLEAN(bias, 1)},
    .flags = OPERATOR_STARTS_LAYER | OPERATOR_USES_INPUT,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
    .parameters = parameters,
    .flops = flops,
};

const struct operator_type operator_rms_norm = {
    .name = "rms_norm",
    .attributes = {NUMBER(epsilon, 0, 1e6, 1e-5), BOOLEAN(weight, 1)},
    .flags = OPERATOR_STARTS_LAYER | OPERATOR_USES_INPUT,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
    .parameters = parameters,
    .flops = rms_flops,
};

const struct operator_type operator_group_norm = {
    .name = "group_norm",
    .attributes = {INTEGER(groups, 1, FEATURES_MAX, 1), NUMBER(epsilon, 0, 1e6, 1e-5), BOOLEAN(weight, 1), BOOLEAN(bias, 1),
                   BOOLEAN(apart, 0)},
    .flags = OPERATOR_STARTS_LAYER | OPERATOR_USES_INPUT,
    .more_flags = group_flags,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = group_infer,
    .parameters = parameters,
    .flops = flops,
};
