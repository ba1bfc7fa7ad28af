/*
 * Adds a trained vector to that of each position: reads count (vectors there are, at least as many as positions; weights
 * (count, D)) and everywhere (the first of them at every position: BERT's type of sentence, where there is one sentence).
 */
#include "graph/operators.h"

static enum ps_status infer(struct operation *op) {
    struct attributes *a = op->attributes;
    TRY(require_sequence(op->inputs, op->error));
    if (a->count < 1 || (!a->everywhere && a->count < op->inputs->dim[1])) {
        return error_set(op->error, PS_USAGE, "%d vectors for %lld positions: at least one each is needed", a->count,
                         (long long)op->inputs->dim[1]);
    }
    op->output = op->inputs[0];
    return PS_OK;
}

static int parameters(const struct operation *op, struct parameter parameters[GRAPH_PARAMETERS_MAX]) {
    parameters[0] = (struct parameter){.name = "weight",
                                       .shape = {.rank = 2, .dim = {op->attributes->count, op->inputs->dim[0]}},
                                       .initial = {INITIAL_NORMAL, 1}};
    return 1;
}

const struct operator_type operator_position_embedding = {
    .name = "position_embedding",
    .attributes = {INTEGER(count, 1, FEATURES_MAX, REQUIRED), BOOLEAN(everywhere, 0)},
    .flags = OPERATOR_IN_PLACE,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
    .parameters = parameters,
};
