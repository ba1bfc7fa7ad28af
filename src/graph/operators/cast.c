/*
 * The same numbers in another type: reads `type`. f32 is rounded to bf16 to nearest even; bf16 becomes f32 without loss. The
 * gradient is cast back. i32 are whole numbers: f32 loses its fraction, and there is no gradient. It is a layer of its own, so
 * that a cut can carry the narrower type.
 */
#include "graph/operators.h"

static enum ps_status infer(struct operation *op) {
    if (op->attributes->type != TYPE_F32 && op->inputs->type != TYPE_F32 && op->attributes->type != op->inputs->type)
        return error_set(op->error, PS_USAGE, "a cast from %s to %s: one of them must be f32",
                         number_types[op->inputs->type].name, number_types[op->attributes->type].name);
    op->output = op->inputs[0];
    op->output.type = op->attributes->type;
    return PS_OK;
}

const struct operator_type operator_cast = {
    .name = "cast",
    .attributes = {TYPE(type)},
    .flags = OPERATOR_STARTS_LAYER,
    .inputs_min = 1,
    .inputs_max = 1,
    .types = ANY_TYPE,
    .infer = infer,
};
