/* Every computation reads the newest weights. `sync` needs a schedule in which no update falls between a forward and its
 * backward. `latest` (vanilla 1F1B in PipeOptim, section II) permits such updates and does not correct for them. */
#include "program/lower.h"

static struct reading forward(const struct reading_context *context) {
    return (struct reading){.version = context->forward_version};
}

static struct reading backward(const struct reading_context *context) {
    return (struct reading){.version = context->backward_version};
}

const struct weight_policy policy_sync = {
    .name = "sync",
    .summary = "newest weights; needs a schedule with a flush",
    .needs_flush = true,
    .forward = forward,
    .backward = backward,
};

const struct weight_policy policy_latest = {
    .name = "latest",
    .summary = "newest weights in forward and backward, regardless of updates in between (vanilla 1F1B)",
    .forward = forward,
    .backward = backward,
};
