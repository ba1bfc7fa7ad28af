/*
 * Local response normalisation (Krizhevsky, Sutskever and Hinton, "ImageNet classification with deep convolutional neural
 * networks", 2012, section 3.3), with PyTorch's meaning of the parameters: reads window, alpha, beta, shift (the paper takes
 * 2). With the window's channels around c, floor(window / 2) of them before it,
 *
 *     y[c] = x[c] (shift + alpha / window sum of x^2 over the window)^-beta
 *
 * so the paper's alpha is PyTorch's divided by the window.
 */
#include "graph/operators.h"

static enum ps_status infer(struct operation *op) {
    struct attributes *a = op->attributes;
    TRY(require_image(op->inputs, op->error));
    if (a->window < 1 || !(a->alpha >= 0 && a->beta >= 0 && a->shift >= 0)) {
        return error_set(op->error, PS_USAGE, "window %d, alpha %g, beta %g, shift %g: a window from 1, and none negative",
                         a->window, (double)a->alpha, (double)a->beta, (double)a->shift);
    }
    op->output = op->inputs[0];
    return PS_OK;
}

static double flops(const struct operation *op) {
    return (double)shape_elements(&op->output) * (op->attributes->window + 5.0); /* squares, their sum, scale, power, product */
}

const struct operator_type operator_local_response_norm = {
    .name = "local_response_norm",
    .attributes = {INTEGER(window, 1, FEATURES_MAX, 5), NUMBER(alpha, 0, 1e6, 1e-4), NUMBER(beta, 0, 1e6, 0.75),
                   NUMBER(shift, 0, 1e6, 1)},
    .flags = OPERATOR_IMAGES | OPERATOR_USES_INPUT,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
    .flops = flops,
};
