/*
 * Deconvolution, or transposed convolution, as PyTorch's ConvTranspose2d and ConvTranspose1d: the map from the output to the
 * input of a convolution. Reads what a convolution reads (kernel, stride, pad, pad_extra, dilation, groups, bias, dims), the
 * output's channels, and output_pad, rows and columns more after a side. Along a side of s elements the output has
 *
 *     (s - 1) stride + (kernel - 1) dilation + 1 - pad before - pad after + output_pad
 *
 * Weights (C, channels / groups, kernel_h, kernel_w), without kernel_w where `dims` is 1, and bias (channels).
 */
#include "graph/operators.h"

static int64_t output_side(int64_t size, int64_t kernel, int64_t stride, int64_t dilation, int64_t padding, int64_t more) {
    return (size - 1) * stride + (kernel - 1) * dilation + 1 - padding + more;
}

static enum ps_status check_output(const struct attributes *a, const struct shape *output, struct ps_error *error) {
    if (a->output_pad_h < 0 || a->output_pad_w < 0 || a->output_pad_h >= a->stride_h || a->output_pad_w >= a->stride_w) {
        return error_set(error, PS_USAGE, "output_pad %dx%d: it must be below the stride of %dx%d", a->output_pad_h,
                         a->output_pad_w, a->stride_h, a->stride_w);
    }
    if (output->dim[1] > 0 && output->dim[2] > 0) return PS_OK;
    return error_set(error, PS_USAGE, "padding %dx%d leaves nothing of its output", a->pad_h, a->pad_w);
}

static enum ps_status infer(struct operation *op) {
    struct attributes *a = op->attributes;
    TRY(require_image(op->inputs, op->error));
    convolution_complete(a);
    TRY(convolution_check(a, op->inputs, op->error));
    TRY(window_check(a, op->error));
    int64_t height = output_side(op->inputs->dim[1], a->kernel_h, a->stride_h, a->dilation_h,
                                 2 * (int64_t)a->pad_h + a->pad_extra_h, a->output_pad_h);
    int64_t width = output_side(op->inputs->dim[2], a->kernel_w, a->stride_w, a->dilation_w,
                                2 * (int64_t)a->pad_w + a->pad_extra_w, a->output_pad_w);
    op->output = (struct shape){.rank = 3, .dim = {a->channels, height, width}};
    return check_output(a, &op->output, op->error);
}

/* Uniform as PyTorch has them, which takes the weights' second side for the fan in. */
static int parameters(const struct operation *op, struct parameter parameters[GRAPH_PARAMETERS_MAX]) {
    const struct attributes *a = op->attributes;
    int64_t out = a->channels / a->groups;
    struct initial initial = initial_fan_in(out * a->kernel_h * a->kernel_w);
    parameters[0] =
        (struct parameter){.name = "weight",
                           .shape = {.rank = 2 + a->dims, .dim = {op->inputs->dim[0], out, a->kernel_h, a->kernel_w}},
                           .initial = initial};
    parameters[1] = (struct parameter){.name = "bias", .shape = {.rank = 1, .dim = {a->channels}}, .initial = initial};
    return a->bias ? 2 : 1;
}

static double flops(const struct operation *op) {
    const struct attributes *a = op->attributes;
    return 2.0 * (double)shape_elements(op->inputs) * (double)(a->channels / a->groups) * a->kernel_h * a->kernel_w;
}

const struct operator_type operator_deconvolution = {
    .name = "deconvolution",
    .attributes = {INTEGER(channels, 1, FEATURES_MAX, REQUIRED), SIDES("kernel", kernel_h, 1, WINDOW_MAX, REQUIRED),
                   SIDES("stride", stride_h, 1, WINDOW_MAX, 1), SIDES("pad", pad_h, 0, WINDOW_MAX, 0),
                   SIDES("pad_extra", pad_extra_h, -WINDOW_MAX, WINDOW_MAX, 0),
                   SIDES("output_pad", output_pad_h, 0, WINDOW_MAX, 0), SIDES("dilation", dilation_h, 1, WINDOW_MAX, 1),
                   INTEGER(groups, 1, FEATURES_MAX, 1), BOOLEAN(bias, 1), INTEGER(dims, 1, 2, 2)},
    .flags = OPERATOR_IMAGES | OPERATOR_STARTS_LAYER | OPERATOR_USES_INPUT | OPERATOR_NARROW | OPERATOR_ROUNDS,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
    .parameters = parameters,
    .flops = flops,
};
