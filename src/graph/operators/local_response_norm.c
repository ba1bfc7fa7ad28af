/*
 * Local response normalisation (Krizhevsky, Sutskever and Hinton, "ImageNet classification with deep convolutional neural
 * networks", 2012, section 3.3), with PyTorch's meaning of the parameters: reads window (0: 5), alpha (0: 1e-4), beta (0:
 * 0.75), shift (0: 1; the paper takes 2). With the window's channels around c, floor(window / 2) of them before it,
 *
 *     y[c] = x[c] (shift + alpha / window sum of x^2 over the window)^-beta
 *
 * so the paper's alpha is PyTorch's divided by the window.
 */
#include "graph/operators.h"

static enum ps_status infer(struct attributes *attributes, const struct shape *inputs, int input_count, struct shape *output,
                            struct ps_error *error) {
    (void)input_count;
    TRY(require_image(inputs, error));
    if (attributes->window == 0) attributes->window = 5;
    if (attributes->alpha == 0) attributes->alpha = 1e-4f;
    if (attributes->beta == 0) attributes->beta = 0.75f;
    if (attributes->shift == 0) attributes->shift = 1;
    bool positive = attributes->alpha > 0 && attributes->beta > 0 && attributes->shift > 0;
    if (attributes->window < 1 || !positive) {
        return error_set(error, PS_USAGE, "window %d, alpha %g, beta %g, shift %g: all must be positive", attributes->window,
                         (double)attributes->alpha, (double)attributes->beta, (double)attributes->shift);
    }
    *output = inputs[0];
    return PS_OK;
}

static double flops(const struct attributes *attributes, const struct shape *inputs, const struct shape *output) {
    (void)inputs;
    return (double)shape_elements(output) * (attributes->window + 5.0); /* squares, their sum, scale, power, product */
}

const struct operator_type operator_local_response_norm = {
    .name = "local_response_norm",
    .attributes = {INTEGER(window, 1, FEATURES_MAX, 5), NUMBER(alpha, 0, 1e6, 1e-4), NUMBER(beta, 0, 1e6, 0.75),
                   NUMBER(shift, 0, 1e6, 1)},
    .flags = OPERATOR_USES_INPUT,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
    .flops = flops,
};
