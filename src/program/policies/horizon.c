/*
 * Penstock's own variant of PipeOptim. On every stage the forward is predicted as many updates ahead as on the first stage:
 * past its own backward, to that of the micro-batch which is `stage` later. The backward reads the newest weights. SpecTrain
 * and XPipe look half as far past it, in both passes. docs/beyond.md has the measured gain.
 */
#include "program/lower.h"

static struct reading forward(const struct reading_context *context) {
    return (struct reading){.version = context->forward_version, .ahead = context->horizon_version - context->forward_version};
}

static struct reading backward(const struct reading_context *context) {
    return (struct reading){.version = context->backward_version};
}

const struct weight_policy policy_horizon = {
    .name = "horizon",
    .summary = "as pipeoptim, but all stages look as far ahead as the first (docs/beyond.md)",
    .prediction = PREDICT_OWN_RULE,
    .forward = forward,
    .backward = backward,
};
