/*
 * Weight stashing (PipeDream, Narayanan et al. 2019, section 3.3): the backward reads the version that its forward read; the
 * gradient is applied to the newest.
 */
#include "program/lower.h"

static struct reading forward_version(const struct reading_context *context) {
    return (struct reading){.version = context->forward_version};
}

const struct weight_policy policy_stash = {
    .name = "stash",
    .summary = "backward reads the version its forward read (PipeDream)",
    .forward = forward_version,
    .backward = forward_version,
};
