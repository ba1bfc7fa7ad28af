/*
 * Group normalisation (Wu and He, 2018): each sample's channels in so many groups, each over all its positions, as PyTorch's
 * GroupNorm; with as many groups as channels its InstanceNorm. Reads groups (0: 1), epsilon (0: 1e-5), weight and bias (whether
 * it has them: one number for each channel).
 */
#include "graph/operators.h"

static enum ps_status infer(struct attributes *attributes, const struct shape *inputs, int input_count, struct shape *output,
                            struct ps_error *error) {
    (void)input_count;
    if (shape_permuted(inputs))
        return error_set(error, PS_USAGE, "its input is a flattened image: normalise before flattening");
    if (attributes->groups == 0) attributes->groups = 1;
    if (attributes->epsilon == 0) attributes->epsilon = 1e-5f;
    if (!(attributes->epsilon > 0))
        return error_set(error, PS_USAGE, "epsilon %g must be positive", (double)attributes->epsilon);
    if (attributes->groups < 1 || inputs->dim[0] % attributes->groups != 0) {
        return error_set(error, PS_USAGE, "%d groups do not share %lld channels equally", attributes->groups,
                         (long long)inputs->dim[0]);
    }
    if (attributes->bias && !attributes->weight) return error_set(error, PS_USAGE, "it has a bias, but no weight");
    *output = inputs[0];
    return PS_OK;
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

const struct operator_type operator_group_norm = {
    .name = "group_norm",
    .attributes = {INTEGER(groups, 1, FEATURES_MAX, 1), NUMBER(epsilon, 0, 1, 1e-5), BOOLEAN(weight, 1), BOOLEAN(bias, 1)},
    .flags = OPERATOR_STARTS_LAYER | OPERATOR_USES_INPUT,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
    .parameters = parameters,
    .flops = flops,
};
