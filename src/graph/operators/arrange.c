/* Values in another arrangement: `view`, `permute`, `expand`. (slice.c and concat.c are beside.) */
#include "graph/operators.h"

/* -------------------------------------------------------------------- view */

/* The same memory with other sides, `sides`. */
static enum ps_status view_infer(struct operation *op) {
    char from[96], to[96];
    TRY(shape_of_sides(&op->attributes->sides, op->inputs->type, &op->output, op->error));
    if (shape_elements(&op->output) == shape_elements(op->inputs)) return PS_OK;
    return error_set(op->error, PS_USAGE, "%s is no view of its input of %s", shape_text(&op->output, to),
                     shape_text(op->inputs, from));
}

const struct operator_type operator_view = {
    .name = "view",
    .attributes = {LIST(sides, 1, FEATURES_MAX, REQUIRED)},
    .flags = OPERATOR_SHARES_MEMORY | OPERATOR_MOVES,
    .inputs_min = 1,
    .inputs_max = 1,
    .types = ANY_TYPE,
    .infer = view_infer,
    .flops = no_flops,
};

/* ----------------------------------------------------------------- permute */

/* Dims in another order: output dim i is input dim order[i]. */
static enum ps_status permute_infer(struct operation *op) {
    const struct integers *order = &op->attributes->order;
    unsigned seen = 0;
    TRY(require_plain(op->inputs, op->input_count, op->error));
    op->output = (struct shape){.rank = op->inputs->rank, .type = op->inputs->type};
    for (int d = 0; d < order->count && d < op->inputs->rank; d++) {
        seen |= 1u << order->at[d];
        if (order->at[d] < op->inputs->rank) op->output.dim[d] = op->inputs->dim[order->at[d]];
    }
    if (order->count == op->inputs->rank && seen == (1u << op->inputs->rank) - 1) return PS_OK;
    return error_set(op->error, PS_USAGE, "order: must have each of 0 to %d once", op->inputs->rank - 1);
}

const struct operator_type operator_permute = {
    .name = "permute",
    .attributes = {LIST(order, 0, SHAPE_RANK_MAX - 1, REQUIRED)},
    .flags = OPERATOR_MOVES,
    .inputs_min = 1,
    .inputs_max = 1,
    .types = ANY_TYPE,
    .infer = permute_infer,
    .flops = no_flops,
};

/* ------------------------------------------------------------------ expand */

/* Repeated along sides of 1, to the shape `sides`. */
static enum ps_status expand_infer(struct operation *op) {
    struct shape both[2] = {op->inputs[0]};
    TRY(shape_of_sides(&op->attributes->sides, op->inputs->type, &both[1], op->error));
    TRY(shape_broadcast(both, 2, &op->output, op->error));
    if (shape_equal(&op->output, &both[1])) return PS_OK;
    char from[96], to[96];
    return error_set(op->error, PS_USAGE, "sides of %s are less than those of its input, %s", shape_text(&both[1], to),
                     shape_text(op->inputs, from));
}

const struct operator_type operator_expand = {
    .name = "expand",
    .attributes = {LIST(sides, 1, FEATURES_MAX, REQUIRED)},
    .flags = OPERATOR_MOVES,
    .inputs_min = 1,
    .inputs_max = 1,
    .types = NUMBER_TYPES,
    .infer = expand_infer,
    .flops = no_flops,
};
