/*
 * Losses against numbers, element by element, means over all of them as PyTorch's: the target is an f32 value of the input's
 * shape.
 *
 *     mse  (x - t)^2
 *     l1   |x - t|
 *     bce  cross-entropy of the logistic function of x against t from 0 to 1: independent classes, each of which may apply
 *
 * The output is the prediction: x, of bce the probability. It is also what the backward reads.
 */
#include "graph/operators.h"

static enum ps_status infer(struct operation *op) {
    if (shape_permuted(op->inputs))
        return error_set(op->error, PS_USAGE, "its input is a flattened image: put a linear layer between");
    op->output = op->inputs[0];
    return PS_OK;
}

/* Numbers of data, which are f32 whatever the precision of what they are compared with. */
static void target(const struct shape *input, struct shape *target) {
    *target = *input;
    if (target->type == TYPE_BF16) target->type = TYPE_F32;
}

static double flops(const struct operation *op) { return 3.0 * (double)shape_elements(&op->output); }

#define LOSS(NAME)                                                                                                             \
    const struct operator_type operator_##NAME = {.name = #NAME,                                                               \
                                                  .flags = OPERATOR_USES_OUTPUT | OPERATOR_LOSS,                               \
                                                  .inputs_min = 1,                                                             \
                                                  .inputs_max = 1,                                                             \
                                                  .infer = infer,                                                              \
                                                  .flops = flops,                                                              \
                                                  .target = target}
LOSS(mse);
LOSS(l1);
LOSS(bce);
