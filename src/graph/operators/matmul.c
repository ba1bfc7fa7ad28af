/*
 * Products of matrices, times `scale`. A value's dim 0 counts the columns of its matrices and its last dim the rows; the dims
 * between count matrices, and may be 1 for one of the values, whose matrices are then repeated. (K, .., M) times (N, .., K) is
 * (N, .., M); transpose_a and transpose_b say that a value has its matrices transposed.
 */
#include "graph/operators.h"

static enum ps_status infer(struct operation *op) {
    const struct shape *a = &op->inputs[0], *b = &op->inputs[1];
    const int last = a->rank - 1;
    char first[96], second[96];
    TRY(require_plain(op->inputs, op->input_count, op->error));
    if (a->rank < 2 || a->rank != b->rank)
        return error_set(op->error, PS_USAGE, "values of %s and %s: two of one rank, at least 2, are accepted",
                         shape_text(a, first), shape_text(b, second));
    struct shape batch[2] = {*a, *b};
    for (int i = 0; i < 2; i++) batch[i].dim[0] = batch[i].dim[last] = 1;
    TRY(shape_broadcast(batch, 2, &op->output, op->error));
    if (a->dim[op->attributes->transpose_a ? last : 0] != b->dim[op->attributes->transpose_b ? 0 : last])
        return error_set(op->error, PS_USAGE, "the columns of %s are not as many as the rows of %s", shape_text(a, first),
                         shape_text(b, second));
    op->output.dim[0] = b->dim[op->attributes->transpose_b ? last : 0];
    op->output.dim[last] = a->dim[op->attributes->transpose_a ? 0 : last];
    return PS_OK;
}

static double flops(const struct operation *op) {
    return 2.0 * (double)op->inputs->dim[op->attributes->transpose_a ? op->inputs->rank - 1 : 0] *
           (double)shape_elements(&op->output);
}

const struct operator_type operator_matmul = {
    .name = "matmul",
    .attributes = {BOOLEAN(transpose_a, 0), BOOLEAN(transpose_b, 0), NUMBER(scale, -LARGEST, LARGEST, 1)},
    .flags = OPERATOR_STARTS_LAYER | OPERATOR_USES_INPUT | OPERATOR_ROUNDS,
    .inputs_min = 2,
    .inputs_max = 2,
    .infer = infer,
    .flops = flops,
};
