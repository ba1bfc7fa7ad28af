/*
 * PipeDream-2BW (Narayanan et al., 2021): mini-batch (group) g reads version g-1 in forward and backward. The first two read
 * the initial weights of the segment. Two versions suffice if a group has at least as many micro-batches as there are stages.
 */
#include "program/lower.h"

static struct reading previous(const struct reading_context *context) {
    return (struct reading){.version = context->batch > 0 ? context->batch - 1 : 0};
}

const struct weight_policy policy_2bw = {
    .name = "2bw",
    .summary = "double-buffered weights, one group of micro-batches behind (PipeDream-2BW)",
    .group_of_workers = true,
    .forward = previous,
    .backward = previous,
};
