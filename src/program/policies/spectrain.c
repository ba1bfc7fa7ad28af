/*
 * Prediction in both passes, towards the version at the time when the first worker runs this micro-batch's backward.
 *
 * SpecTrain (Chen et al., 2018) predicts with the momentum: on worker p of P floor(p/2) + P-1-p updates ahead in the forward
 * and floor(p/2) in the backward. XPipe (Guan et al., 2019) does the same by Adam's rule. The numbers here are differences of
 * versions counted in the program: those formulas in the steady state, less while the pipeline fills and drains.
 */
#include "program/lower.h"

static struct reading forward(const struct reading_context *context) {
    return (struct reading){.version = context->forward_version,
                            .ahead = context->first_worker_version - context->forward_version};
}

static struct reading backward(const struct reading_context *context) {
    return (struct reading){.version = context->backward_version,
                            .ahead = context->first_worker_version - context->backward_version};
}

const struct weight_policy policy_spectrain = {
    .name = "spectrain",
    .summary = "both passes read weights predicted by momentum (SpecTrain; sgdm only)",
    .prediction = PREDICT_MOMENTUM,
    .forward = forward,
    .backward = backward,
};

const struct weight_policy policy_xpipe = {
    .name = "xpipe",
    .summary = "both passes read weights predicted by Adam's rule (XPipe)",
    .prediction = PREDICT_ADAM,
    .forward = forward,
    .backward = backward,
};
