/*
 * Rotary position embedding (Su et al., "RoFormer", 2021): turns pairs of features of each head by an angle that grows with the
 * position. Input: heads E features at T positions. Reads heads, features (R, how many of a head's first features are turned;
 * 0: all), interleaved, base (0: 10000) and first (the position of the first vector). Pair j has the features j and j + R / 2,
 * or if interleaved 2 j and 2 j + 1; a and b in
 *
 *     y_a = x_a cos_a - x_b sin_a,   y_b = x_b cos_b + x_a sin_b;   the angle of pair j at position t: t base^(-2 j / R)
 *
 * Two more inputs, if given, are the cosines and sines of the angles: one for each pair (R / 2 x T x 1) or feature (R x T x 1).
 */
#include "graph/operators.h"

static enum ps_status infer(struct operation *op) {
    struct attributes *a = op->attributes;
    char text[96];
    TRY(require_sequence(op->inputs, op->error));
    if (a->base == 0) a->base = 10000;
    if (a->heads < 1 || op->inputs->dim[0] % a->heads != 0) {
        return error_set(op->error, PS_USAGE, "%d heads do not share %lld features equally", a->heads,
                         (long long)op->inputs->dim[0]);
    }
    int64_t each = op->inputs->dim[0] / a->heads, turned = a->features > 0 ? a->features : each;
    if (turned % 2 != 0 || turned > each) {
        return error_set(op->error, PS_USAGE,
                         "%lld features of a head to be turned in pairs: an even number up to %lld is needed",
                         (long long)turned, (long long)each);
    }
    if (op->input_count == 2) return error_set(op->error, PS_USAGE, "2 inputs: cosines need sines, too");
    for (int i = 1; i < op->input_count; i++) {
        const struct shape *table = &op->inputs[i];
        bool fits = table->rank == 3 && (table->dim[0] == turned || table->dim[0] == turned / 2) && table->dim[2] == 1;
        if (fits && table->dim[1] == op->inputs->dim[1] && table->dim[0] == op->inputs[1].dim[0]) continue;
        return error_set(op->error, PS_USAGE, "cosines and sines must be %lldx%lldx1 or %lldx%lldx1, and are %s",
                         (long long)turned / 2, (long long)op->inputs->dim[1], (long long)turned, (long long)op->inputs->dim[1],
                         shape_text(table, text));
    }
    op->output = op->inputs[0];
    return PS_OK;
}

static unsigned more_flags(const struct operation *op) { return op->input_count > 1 ? OPERATOR_USES_INPUT : OPERATOR_IN_PLACE; }

static double flops(const struct operation *op) { return 3.0 * (double)shape_elements(&op->output); }

const struct operator_type operator_rotary = {
    .name = "rotary",
    .attributes = {INTEGER(heads, 1, 1 << 12, REQUIRED), NUMBER(base, 0, 1e9, 10000), INTEGER(features, 0, FEATURES_MAX, 0),
                   BOOLEAN(interleaved, 0), INTEGER(first, 0, 1 << 30, 0)},
    .more_flags = more_flags,
    .inputs_min = 1,
    .inputs_max = 3,
    .infer = infer,
    .flops = flops,
};
