/*
 * Some positions along an axis: reads axis, first, count and step. Usually those of a sequence: T x D to count x D. A network
 * that reads two sequences may get them behind each other in one sample, and takes each with a slice.
 */
#include "graph/operators.h"

static enum ps_status infer(struct operation *op) {
    struct attributes *a = op->attributes;
    TRY(require_axis(op->inputs, a->axis, op->error));
    TRY(require_plain(op->inputs, op->input_count, op->error));
    if (a->step == 0) a->step = 1;
    int64_t first = a->first, count = a->count, all = op->inputs->dim[a->axis];
    int64_t last = first + (count - 1) * a->step;
    if (first < 0 || count < 1 || first >= all || last < 0 || last >= all)
        return error_set(op->error, PS_USAGE, "%lld positions from position %lld on in steps of %d: its input has %lld",
                         (long long)count, (long long)first, a->step, (long long)all);
    op->output = op->inputs[0];
    op->output.dim[a->axis] = count;
    memset(op->output.image, 0, sizeof op->output.image);
    return PS_OK;
}

const struct operator_type operator_slice = {
    .name = "slice",
    .attributes = {INTEGER(first, 0, FEATURES_MAX, 0), INTEGER(count, 1, FEATURES_MAX, REQUIRED),
                   INTEGER(axis, 0, SHAPE_RANK_MAX - 1, 1), INTEGER(step, -FEATURES_MAX, FEATURES_MAX, 1)},
    .flags = OPERATOR_MOVES,
    .inputs_min = 1,
    .inputs_max = 1,
    .types = ANY_TYPE,
    .infer = infer,
    .flops = no_flops,
};
