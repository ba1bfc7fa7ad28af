/*
 * Convolution (cross-correlation, as everywhere): reads channels, kernel, stride (0: 1), pad, groups (0: 1), bias.
 * Weights (channels, C / groups, kernel_h, kernel_w) and bias (channels).
 */
#include "graph/operators.h"

static enum ps_status infer(struct attributes *attributes, const struct shape *inputs, int input_count, struct shape *output,
                            struct ps_error *error) {
    (void)input_count;
    TRY(require_image(inputs, error));
    if (attributes->stride_h == 0) attributes->stride_h = 1;
    if (attributes->stride_w == 0) attributes->stride_w = 1;
    if (attributes->groups == 0) attributes->groups = 1;
    int groups = attributes->groups, channels = attributes->channels;
    if (channels < 1) return error_set(error, PS_USAGE, "%d output channels: at least 1 is needed", channels);
    if (groups < 1 || channels % groups != 0 || inputs->dim[0] % groups != 0) {
        return error_set(error, PS_USAGE, "%d groups do not divide %lld input and %d output channels", groups,
                         (long long)inputs->dim[0], channels);
    }
    return window_output(attributes, inputs, channels, output, error);
}

static int64_t fan_in(const struct attributes *attributes, const struct shape *input) {
    return input->dim[0] / attributes->groups * attributes->kernel_h * attributes->kernel_w;
}

static int parameters(const struct attributes *attributes, const struct shape *inputs,
                      struct parameter parameters[GRAPH_PARAMETERS_MAX]) {
    struct initial initial = initial_fan_in(fan_in(attributes, inputs));
    parameters[0] = (struct parameter){.name = "weight",
                                       .shape = {.rank = 4,
                                                 .dim = {attributes->channels, inputs->dim[0] / attributes->groups,
                                                         attributes->kernel_h, attributes->kernel_w}},
                                       .initial = initial};
    parameters[1] = (struct parameter){.name = "bias", .shape = {.rank = 1, .dim = {attributes->channels}}, .initial = initial};
    return attributes->bias ? 2 : 1;
}

static double flops(const struct attributes *attributes, const struct shape *inputs, const struct shape *output) {
    return 2.0 * (double)shape_elements(output) * (double)fan_in(attributes, inputs);
}

const struct operator_type operator_convolution = {
    .name = "convolution",
    .attributes = {INTEGER(channels, 1, FEATURES_MAX, REQUIRED), SIDES("kernel", kernel_h, 1, WINDOW_MAX, REQUIRED),
                   SIDES("stride", stride_h, 1, WINDOW_MAX, 1), SIDES("pad", pad_h, 0, WINDOW_MAX, 0),
                   INTEGER(groups, 1, FEATURES_MAX, 1), BOOLEAN(bias, 1)},
    .flags = OPERATOR_STARTS_LAYER | OPERATOR_USES_INPUT,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
    .parameters = parameters,
    .flops = flops,
};
