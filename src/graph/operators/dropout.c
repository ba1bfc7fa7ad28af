/*
 * Dropout (Srivastava et al., 2014): in training sets an element to zero with probability `rate` and divides the others by
 * 1 - rate. The backward makes the same random numbers again, so nothing is kept; in place over a ReLU what it zeroes has no
 * gradient anyway.
 */
#include "graph/operators.h"

static enum ps_status infer(struct operation *op) {
    if (!(op->attributes->rate >= 0 && op->attributes->rate < 1)) {
        return error_set(op->error, PS_USAGE, "rate %g must be at least 0 and below 1", (double)op->attributes->rate);
    }
    op->output = op->inputs[0];
    return PS_OK;
}

const struct operator_type operator_dropout = {
    .name = "dropout",
    .attributes = {NUMBER(rate, 0, 1, REQUIRED)},
    .flags = OPERATOR_IN_PLACE | OPERATOR_KEEPS_ZEROS | OPERATOR_RANDOM,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
};
