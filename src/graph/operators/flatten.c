/*
 * An image, or another value, as a vector. The memory stays as it is (H, W, C); the shape remembers the image, so that a linear
 * layer can keep its weights in PyTorch's order (C, H, W).
 */
#include "graph/operators.h"

static enum ps_status infer(struct operation *op) {
    op->output = op->inputs[0];
    if (op->inputs->rank > 1) {
        const int64_t elements = shape_elements(op->inputs), channels = op->inputs->dim[0];
        op->output =
            (struct shape){.rank = 1, .type = op->inputs->type, .dim = {elements}, .image = {channels, elements / channels, 1}};
    }
    if (op->inputs->rank == 3) memcpy(op->output.image, op->inputs->dim, sizeof op->output.image);
    return PS_OK;
}

const struct operator_type operator_flatten = {
    .name = "flatten",
    .flags = OPERATOR_SHARES_MEMORY,
    .inputs_min = 1,
    .inputs_max = 1,
    .types = ANY_TYPE,
    .infer = infer,
    .flops = no_flops,
};
