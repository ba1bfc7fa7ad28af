/*
 * Normalisation of each sample by itself, with weight and bias for each channel (whether it has them); reads epsilon (0: 1e-5).
 *
 *   - layer_norm (Ba, Kiros and Hinton, 2016): over the features of a vector, or of each vector of a sequence, or of each
 * position of another value.
 *   - rms_norm (Zhang and Sennrich, "Root mean square layer normalization", 2019): the same, but does not subtract the mean,
 * and has no bias.
 *   - group_norm (Wu and He, 2018): the channels in groups (0: 1), each over all its positions, as PyTorch's GroupNorm; with as
 * many groups as channels its InstanceNorm.
 */
#include "graph/operators.h"

static enum ps_status infer(struct attributes *attributes, const struct shape *inputs, int input_count, struct shape *output,
                            struct ps_error *error) {
    (void)input_count;
    if (shape_permuted(inputs))
        return error_set(error, PS_USAGE, "its input is a flattened image: normalise before flattening");
    if (attributes->epsilon == 0) attributes->epsilon = 1e-5f;
    if (!(attributes->epsilon > 0))
        return error_set(error, PS_USAGE, "epsilon %g must be positive", (double)attributes->epsilon);
    if (attributes->bias && !attributes->weight) return error_set(error, PS_USAGE, "it has a bias, but no weight");
    *output = inputs[0];
    return PS_OK;
}

static enum ps_status group_infer(struct attributes *attributes, const struct shape *inputs, int input_count,
                                  struct shape *output, struct ps_error *error) {
    if (attributes->groups == 0) attributes->groups = 1;
    if (attributes->groups < 1 || inputs->dim[0] % attributes->groups != 0)
        return error_set(error, PS_USAGE, "%d groups do not share %lld channels equally", attributes->groups,
                         (long long)inputs->dim[0]);
    return infer(attributes, inputs, input_count, output, error);
}

static int parameters(const struct attributes *attributes, const struct shape *inputs,
                      struct parameter parameters[GRAPH_PARAMETERS_MAX]) {
    struct shape shape = {.rank = 1, .dim = {inputs->dim[0]}};
    parameters[0] = (struct parameter){.name = "weight", .shape = shape, .initial = {INITIAL_CONSTANT, 1}};
    parameters[1] = (struct parameter){.name = "bias", .shape = shape, .initial = {INITIAL_CONSTANT, 0}};
    return attributes->weight + attributes->bias;
}

static double flops(const struct attributes *attributes, const struct shape *inputs, const struct shape *output) {
    (void)attributes, (void)inputs;
    return 7.0 * (double)shape_elements(output); /* mean 1, variance 3, normalisation and scale 3 */
}

static double rms_flops(const struct attributes *attributes, const struct shape *inputs, const struct shape *output) {
    (void)attributes, (void)inputs;
    return 4.0 * (double)shape_elements(output); /* squares 2, normalisation and scale 2 */
}

const struct operator_type operator_layer_norm = {
    .name = "layer_norm",
    .attributes = {NUMBER(epsilon, 0, 1, 1e-5), BOOLEAN(weight, 1), BOOLEAN(bias, 1)},
    .flags = OPERATOR_STARTS_LAYER | OPERATOR_USES_INPUT,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
    .parameters = parameters,
    .flops = flops,
};

const struct operator_type operator_rms_norm = {
    .name = "rms_norm",
    .attributes = {NUMBER(epsilon, 0, 1, 1e-5), BOOLEAN(weight, 1)},
    .flags = OPERATOR_STARTS_LAYER | OPERATOR_USES_INPUT,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
    .parameters = parameters,
    .flops = rms_flops,
};

const struct operator_type operator_group_norm = {
    .name = "group_norm",
    .attributes = {INTEGER(groups, 1, FEATURES_MAX, 1), NUMBER(epsilon, 0, 1, 1e-5), BOOLEAN(weight, 1), BOOLEAN(bias, 1)},
    .flags = OPERATOR_STARTS_LAYER | OPERATOR_USES_INPUT,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = group_infer,
    .parameters = parameters,
    .flops = flops,
};
