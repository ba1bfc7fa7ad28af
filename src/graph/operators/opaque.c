/*
 * A layer known only by what it costs: the times, value_bytes (of its output), parameter_bytes and inner_bytes of its
 * attributes. Only the clock device runs it. Without an input it is the data.
 */
#include "graph/operators.h"

static enum ps_status infer(struct operation *op) {
    const struct attributes *a = op->attributes;
    if (!layer_times_valid(&a->time) || !(a->sum_s >= 0)) {
        return error_set(op->error, PS_USAGE, "times of %g, %g, %g and %g s must not be negative", a->time.forward_s,
                         a->time.backward_input_s, a->time.backward_weight_s, a->time.update_s);
    }
    if (a->value_bytes < 0 || a->parameter_bytes < 0 || a->inner_bytes < 0) {
        return error_set(op->error, PS_USAGE, "sizes of %lld, %lld and %lld bytes must not be negative",
                         (long long)a->value_bytes, (long long)a->parameter_bytes, (long long)a->inner_bytes);
    }
    op->output = (struct shape){.rank = 1, .dim = {(a->value_bytes + 3) / 4}};
    return PS_OK;
}

static int parameters(const struct operation *op, struct parameter parameters[GRAPH_PARAMETERS_MAX]) {
    parameters[0] =
        (struct parameter){.name = "weight", .shape = {.rank = 1, .dim = {(op->attributes->parameter_bytes + 3) / 4}}};
    return op->attributes->parameter_bytes > 0 ? 1 : 0;
}

const struct operator_type operator_opaque = {
    .name = "opaque",
    .flags = OPERATOR_STARTS_LAYER | OPERATOR_USES_INPUT,
    .inputs_min = 1,
    .inputs_max = GRAPH_INPUTS_MAX,
    .infer = infer,
    .parameters = parameters,
    .flops = no_flops,
};
