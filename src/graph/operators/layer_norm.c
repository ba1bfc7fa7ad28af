/*
 * Layer normalisation (Ba, Kiros and Hinton, 2016) over the features of a vector, or of each vector of a sequence: reads
 * epsilon (0: 1e-5).
 */
#include "graph/operators.h"

static enum ps_status infer(struct attributes *attributes, const struct shape *inputs, int input_count, struct shape *output,
                            struct ps_error *error) {
    (void)input_count;
    TRY(require_features(inputs, error));
    if (shape_permuted(inputs)) {
        return error_set(error, PS_USAGE, "its input is a flattened image: put a linear layer between");
    }
    if (attributes->epsilon == 0) attributes->epsilon = 1e-5f;
    if (!(attributes->epsilon > 0)) {
        return error_set(error, PS_USAGE, "epsilon %g must be positive", (double)attributes->epsilon);
    }
    *output = inputs[0];
    return PS_OK;
}

static int parameters(const struct attributes *attributes, const struct shape *inputs,
                      struct parameter parameters[GRAPH_PARAMETERS_MAX]) {
    (void)attributes;
    struct shape shape = {.rank = 1, .dim = {inputs->dim[0]}};
    parameters[0] = (struct parameter){.name = "weight", .shape = shape, .initial = {INITIAL_CONSTANT, 1}};
    parameters[1] = (struct parameter){.name = "bias", .shape = shape, .initial = {INITIAL_CONSTANT, 0}};
    return 2;
}

static double flops(const struct attributes *attributes, const struct shape *inputs, const struct shape *output) {
    (void)attributes, (void)inputs;
    return 7.0 * (double)shape_elements(output); /* mean 1, variance 3, normalisation and scale 3 */
}

const struct operator_type operator_layer_norm = {
    .name = "layer_norm",
    .attributes = {NUMBER(epsilon, 0, 1, 1e-5)},
    .flags = OPERATOR_STARTS_LAYER | OPERATOR_USES_INPUT,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
    .parameters = parameters,
    .flops = flops,
};
