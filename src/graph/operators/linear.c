/*
 * Fully connected, on a vector or on each vector of a sequence: reads channels (output features), bias. Weights (features, D),
 * or with `transposed` (D, features), as GPT-2 has them; bias (features). Where the input was flattened from an image the
 * weights' columns are in PyTorch's order C, H, W (shape.image), not in memory's H, W, C.
 */
#include "graph/operators.h"

static enum ps_status infer(struct operation *op) {
    TRY(require_features(op->inputs, op->error));
    if (op->attributes->channels < 1) {
        return error_set(op->error, PS_USAGE, "%d output features: at least 1 is needed", op->attributes->channels);
    }
    if (op->attributes->transposed && shape_permuted(op->inputs)) {
        return error_set(op->error, PS_USAGE,
                         "its input is a flattened image, and its weights are transposed: only one of both is accepted");
    }
    op->output = op->inputs[0];
    op->output.dim[0] = op->attributes->channels;
    memset(op->output.image, 0, sizeof op->output.image);
    return PS_OK;
}

static int parameters(const struct operation *op, struct parameter parameters[GRAPH_PARAMETERS_MAX]) {
    const struct attributes *a = op->attributes;
    struct initial initial = initial_fan_in(op->inputs->dim[0]);
    const int64_t rows = a->channels, columns = op->inputs->dim[0];
    parameters[0] = (struct parameter){.name = "weight", .shape = {.rank = 2, .dim = {rows, columns}}, .initial = initial};
    if (a->transposed) parameters[0].shape = (struct shape){.rank = 2, .dim = {columns, rows}};
    parameters[1] = (struct parameter){.name = "bias", .shape = {.rank = 1, .dim = {a->channels}}, .initial = initial};
    return a->bias ? 2 : 1;
}

static double flops(const struct operation *op) {
    return 2.0 * (double)op->inputs->dim[0] * (double)shape_elements(&op->output);
}

const struct operator_type operator_linear = {
    .name = "linear",
    .attributes = {INTEGER(channels, 1, FEATURES_MAX, REQUIRED), BOOLEAN(bias, 1), BOOLEAN(transposed, 0)},
    .flags = OPERATOR_STARTS_LAYER | OPERATOR_USES_INPUT | OPERATOR_NARROW | OPERATOR_ROUNDS,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
    .parameters = parameters,
    .flops = flops,
};
