/* One number of all elements along some dims (`axes`; none given: all), which become 1: reads kind and axes. */
#include "graph/operators.h"

static const char *const names[] = {[REDUCE_SUM] = "sum",         [REDUCE_MEAN] = "mean",
                                    [REDUCE_MAX] = "max",         [REDUCE_MIN] = "min",
                                    [REDUCE_PROD] = "prod",       [REDUCE_L1] = "l1",
                                    [REDUCE_L2] = "l2",           [REDUCE_SUM_SQUARE] = "sum_square",
                                    [REDUCE_LOG_SUM] = "log_sum", [REDUCE_LOG_SUM_EXP] = "log_sum_exp"};

static enum ps_status infer(struct operation *op) {
    struct integers *axes = &op->attributes->axes;
    op->output = op->inputs[0];
    memset(op->output.image, 0, sizeof op->output.image);
    if (axes->count > 0) TRY(require_plain(op->inputs, op->input_count, op->error));
    for (int d = 0; d < op->inputs->rank && axes->count == 0; d++) op->output.dim[d] = 1;
    for (int i = 0; i < axes->count; i++) {
        TRY(require_axis(op->inputs, axes->at[i], op->error));
        op->output.dim[axes->at[i]] = 1;
    }
    return PS_OK;
}

static unsigned more_flags(const struct operation *op) {
    static const unsigned flags[] = {
        [REDUCE_SUM] = 0,
        [REDUCE_MEAN] = 0,
        [REDUCE_MAX] = OPERATOR_USES_INPUT | OPERATOR_USES_OUTPUT,
        [REDUCE_MIN] = OPERATOR_USES_INPUT | OPERATOR_USES_OUTPUT,
        [REDUCE_PROD] = OPERATOR_USES_INPUT,
        [REDUCE_L1] = OPERATOR_USES_INPUT,
        [REDUCE_L2] = OPERATOR_USES_INPUT | OPERATOR_USES_OUTPUT,
        [REDUCE_SUM_SQUARE] = OPERATOR_USES_INPUT,
        [REDUCE_LOG_SUM] = OPERATOR_USES_OUTPUT,
        [REDUCE_LOG_SUM_EXP] = OPERATOR_USES_INPUT | OPERATOR_USES_OUTPUT,
    };
    return flags[op->attributes->kind];
}

static double flops(const struct operation *op) {
    return (op->attributes->kind == REDUCE_LOG_SUM_EXP ? 10.0 : 2.0) * (double)shape_elements(op->inputs);
}

const struct operator_type operator_reduce = {
    .name = "reduce",
    .attributes = {CHOICE(kind, names, REQUIRED), LIST(axes, 0, SHAPE_RANK_MAX - 1, 0)},
    .more_flags = more_flags,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
    .flops = flops,
};
