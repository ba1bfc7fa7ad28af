/*
 * PipeOptim (section IV): the forward reads the weights predicted for the time of its own backward, by the rule of the
 * optimizer in use; the backward reads the newest. The number of updates ahead, s, is counted in the program: it is smaller
 * while the pipeline fills, and 0 on the last stage, which then needs no prediction.
 */
#include "program/lower.h"

static struct reading forward(const struct reading_context *context) {
    return (struct reading){.version = context->forward_version, .ahead = context->backward_version - context->forward_version};
}

static struct reading backward(const struct reading_context *context) {
    return (struct reading){.version = context->backward_version};
}

const struct weight_policy policy_pipeoptim = {
    .name = "pipeoptim",
    .summary = "forward reads weights predicted by the optimizer's own rule (PipeOptim)",
    .prediction = PREDICT_OWN_RULE,
    .forward = forward,
    .backward = backward,
};
