/* Conditions are values of i32, 0 or not 0, without gradient: `compare` and `logical` make them (0 or 1), `where` reads one. */
#include "graph/operators.h"

/* ----------------------------------------------------------------- compare */

static const char *const comparisons[] = {
    [COMPARE_EQUAL] = "equal",           [COMPARE_NOT_EQUAL] = "not_equal", [COMPARE_LESS] = "less",
    [COMPARE_LESS_EQUAL] = "less_equal", [COMPARE_GREATER] = "greater",     [COMPARE_GREATER_EQUAL] = "greater_equal",
    [COMPARE_ISNAN] = "isnan",           [COMPARE_ISINF] = "isinf",
};

static enum ps_status require_one_type(const struct shape *a, const struct shape *b, struct ps_error *error) {
    if (a->type == b->type) return PS_OK;
    return error_set(error, PS_USAGE, "values of %s and %s: two of one type are accepted", number_types[a->type].name,
                     number_types[b->type].name);
}

/* Two values, or one with the number alpha; isnan and isinf are of one alone. */
static enum ps_status compare_infer(struct operation *op) {
    if (op->attributes->kind >= COMPARE_ISNAN && op->input_count > 1)
        return error_set(op->error, PS_USAGE, "%s: of one value", comparisons[op->attributes->kind]);
    if (op->input_count == 1 && op->inputs->type == TYPE_I32 && op->attributes->alpha != floorf(op->attributes->alpha))
        return error_set(op->error, PS_USAGE, "alpha %g: whole numbers are compared with a whole number",
                         (double)op->attributes->alpha);
    TRY(require_one_type(&op->inputs[0], &op->inputs[op->input_count - 1], op->error));
    TRY(shape_broadcast(op->inputs, op->input_count, &op->output, op->error));
    op->output.type = TYPE_I32;
    return PS_OK;
}

const struct operator_type operator_compare = {
    .name = "compare",
    .attributes = {CHOICE(kind, comparisons, REQUIRED), NUMBER(alpha, -LARGEST, LARGEST, 0)},
    .inputs_min = 1,
    .inputs_max = 2,
    .types = NUMBER_TYPES,
    .infer = compare_infer,
};

/* ----------------------------------------------------------------- logical */

static const char *const connections[] = {
    [LOGICAL_AND] = "and", [LOGICAL_OR] = "or", [LOGICAL_XOR] = "xor", [LOGICAL_NOT] = "not"};

static enum ps_status logical_infer(struct operation *op) {
    const int wanted = op->attributes->kind == LOGICAL_NOT ? 1 : 2;
    if (op->input_count != wanted)
        return error_set(op->error, PS_USAGE, "%s: %d inputs; %d is accepted", connections[op->attributes->kind],
                         op->input_count, wanted);
    return shape_broadcast(op->inputs, op->input_count, &op->output, op->error);
}

const struct operator_type operator_logical = {
    .name = "logical",
    .attributes = {CHOICE(kind, connections, REQUIRED)},
    .inputs_min = 1,
    .inputs_max = 2,
    .types = 1u << TYPE_I32,
    .infer = logical_infer,
};

/* ------------------------------------------------------------------- where */

static unsigned where_types(int input, int input_count) {
    (void)input_count;
    return input == 0 ? 1u << TYPE_I32 : NUMBER_TYPES;
}

/* The second value where the condition holds, else the third. */
static enum ps_status where_infer(struct operation *op) {
    TRY(require_one_type(&op->inputs[1], &op->inputs[2], op->error));
    TRY(shape_broadcast(op->inputs, op->input_count, &op->output, op->error));
    op->output.type = op->inputs[1].type;
    return PS_OK;
}

const struct operator_type operator_where = {
    .name = "where",
    .flags = OPERATOR_USES_INTEGERS,
    .inputs_min = 3,
    .inputs_max = 3,
    .types_of = where_types,
    .infer = where_infer,
};
