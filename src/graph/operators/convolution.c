/*
 * Convolution (cross-correlation, as everywhere): reads channels, kernel, stride (0: 1), pad, pad_extra (more of it after a
 * side than before), dilation (0: 1), groups (0: 1), bias, dims. Weights (channels, C / groups, kernel_h, kernel_w) and bias
 * (channels). A sequence is an image 1 wide; with `dims` 1 its weights are those of PyTorch's Conv1d, (channels, C / groups,
 * kernel_h).
 */
#include "graph/operators.h"

static enum ps_status infer(struct operation *op) {
    struct attributes *a = op->attributes;
    TRY(require_image(op->inputs, op->error));
    convolution_complete(a);
    TRY(convolution_check(a, op->inputs, op->error));
    return window_output(a, op->inputs, a->channels, &op->output, op->error);
}

static int64_t fan_in(const struct attributes *attributes, const struct shape *input) {
    return input->dim[0] / attributes->groups * attributes->kernel_h * attributes->kernel_w;
}

static int parameters(const struct operation *op, struct parameter parameters[GRAPH_PARAMETERS_MAX]) {
    const struct attributes *a = op->attributes;
    struct initial initial = initial_fan_in(fan_in(a, op->inputs));
    parameters[0] = (struct parameter){
        .name = "weight",
        .shape = {.rank = 2 + a->dims, .dim = {a->channels, op->inputs->dim[0] / a->groups, a->kernel_h, a->kernel_w}},
        .initial = initial};
    parameters[1] = (struct parameter){.name = "bias", .shape = {.rank = 1, .dim = {a->channels}}, .initial = initial};
    return a->bias ? 2 : 1;
}

static double flops(const struct operation *op) {
    return 2.0 * (double)shape_elements(&op->output) * (double)fan_in(op->attributes, op->inputs);
}

const struct operator_type operator_convolution = {
    .name = "convolution",
    .attributes = {INTEGER(channels, 1, FEATURES_MAX, REQUIRED), SIDES("kernel", kernel_h, 1, WINDOW_MAX, REQUIRED),
                   SIDES("stride", stride_h, 1, WINDOW_MAX, 1), SIDES("pad", pad_h, 0, WINDOW_MAX, 0),
                   SIDES("pad_extra", pad_extra_h, -WINDOW_MAX, WINDOW_MAX, 0), SIDES("dilation", dilation_h, 1, WINDOW_MAX, 1),
                   INTEGER(groups, 1, FEATURES_MAX, 1), BOOLEAN(bias, 1), INTEGER(dims, 1, 2, 2)},
    .flags = OPERATOR_IMAGES | OPERATOR_STARTS_LAYER | OPERATOR_USES_INPUT | OPERATOR_NARROW | OPERATOR_ROUNDS,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
    .parameters = parameters,
    .flops = flops,
};
