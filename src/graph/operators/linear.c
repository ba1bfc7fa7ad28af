/*
 * Fully connected, on a vector or on each vector of a sequence: reads channels (output features), bias. Weights (features, D),
 * or with `transposed` (D, features), as GPT-2 has them; bias (features). Where the input was flattened from an image the
 * weights' columns are in PyTorch's order C, H, W (shape.image), not in memory's H, W, C.
 */
#include "graph/operators.h"

static enum ps_status infer(struct attributes *attributes, const struct shape *inputs, int input_count, struct shape *output,
                            struct ps_error *error) {
    (void)input_count;
    TRY(require_features(inputs, error));
    if (attributes->channels < 1) {
        return error_set(error, PS_USAGE, "%d output features: at least 1 is needed", attributes->channels);
    }
    if (attributes->transposed && shape_permuted(inputs)) {
        return error_set(error, PS_USAGE,
                         "its input is a flattened image, and its weights are transposed: only one of both is accepted");
    }
    *output = inputs[0];
    output->dim[0] = attributes->channels;
    memset(output->image, 0, sizeof output->image);
    return PS_OK;
}

static int parameters(const struct attributes *attributes, const struct shape *inputs,
                      struct parameter parameters[GRAPH_PARAMETERS_MAX]) {
    struct initial initial = initial_fan_in(inputs->dim[0]);
    const int64_t rows = attributes->channels, columns = inputs->dim[0];
    parameters[0] = (struct parameter){.name = "weight", .shape = {.rank = 2, .dim = {rows, columns}}, .initial = initial};
    if (attributes->transposed) parameters[0].shape = (struct shape){.rank = 2, .dim = {columns, rows}};
    parameters[1] = (struct parameter){.name = "bias", .shape = {.rank = 1, .dim = {attributes->channels}}, .initial = initial};
    return attributes->bias ? 2 : 1;
}

static double flops(const struct attributes *attributes, const struct shape *inputs, const struct shape *output) {
    (void)attributes;
    return 2.0 * (double)inputs->dim[0] * (double)shape_elements(output);
}

const struct operator_type operator_linear = {
    .name = "linear",
    .attributes = {INTEGER(channels, 1, FEATURES_MAX, REQUIRED), BOOLEAN(bias, 1), BOOLEAN(transposed, 0)},
    .flags = OPERATOR_STARTS_LAYER | OPERATOR_USES_INPUT,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
    .parameters = parameters,
    .flops = flops,
};
