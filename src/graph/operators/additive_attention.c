/*
 * Attention by a sum, normalised (Bahdanau, Cho and Bengio, "Neural machine translation by jointly learning to align and
 * translate", 2015; the normalisation after Salimans and Kingma, as GNMT's implementation in MLPerf and PipeDream has it).
 * Inputs: queries (U features at Tq positions) and keys (U at Tk), both projected before; values (V at Tk); and, if given, the
 * tokens of the keys: those of padding (token 0) get no weight. Output: V features at Tq positions.
 *
 *     score(q, k) = sum over u of v_u tanh(query_qu + key_ku + normalize_bias_u),
 *     v = normalize_scalar linear_att / |linear_att|
 *     output_q = sum over k of softmax_k(score(q, k)) value_k                      (0 where all keys are padding)
 */
#include <math.h>

#include "graph/operators.h"

static enum ps_status infer(struct operation *op) {
    for (int i = 0; i < 3; i++) TRY(require_sequence(&op->inputs[i], op->error));
    const int64_t *query = op->inputs[0].dim, *key = op->inputs[1].dim, *value = op->inputs[2].dim;
    if (query[0] != key[0] || key[1] != value[1]) {
        char a[96], b[96], c[96];
        return error_set(op->error, PS_USAGE,
                         "queries of %s, keys of %s and values of %s: queries and keys must have the same "
                         "features, keys and values the same positions",
                         shape_text(&op->inputs[0], a), shape_text(&op->inputs[1], b), shape_text(&op->inputs[2], c));
    }
    if (op->input_count > 3) TRY(require_tokens_of(&op->inputs[2], &op->inputs[3], op->error));
    op->output = (struct shape){.rank = 3, .dim = {value[0], query[1], 1}};
    return PS_OK;
}

/* The reference implementation's: linear_att uniform, the normalisation begins as 1/sqrt(U) and 0. */
static int parameters(const struct operation *op, struct parameter parameters[GRAPH_PARAMETERS_MAX]) {
    int64_t units = op->inputs->dim[0];
    struct initial scale = {INITIAL_CONSTANT, (float)(1 / sqrt((double)units))};
    struct shape vector = {.rank = 1, .dim = {units}}, one = {.rank = 1, .dim = {1}};
    parameters[0] = (struct parameter){.name = "linear_att", .shape = vector, .initial = initial_fan_in(units)};
    parameters[1] = (struct parameter){.name = "normalize_scalar", .shape = one, .initial = scale};
    parameters[2] = (struct parameter){.name = "normalize_bias", .shape = vector, .initial = {INITIAL_CONSTANT, 0}};
    return 3;
}

/* A hyperbolic tangent counts as ten. */
static double flops(const struct operation *op) {
    double pairs = (double)op->output.dim[1] * (double)op->inputs[1].dim[1];
    return pairs * (14.0 * (double)op->inputs->dim[0] + 2.0 * (double)op->output.dim[0]);
}

static unsigned types(int input, int input_count) {
    (void)input_count;
    return input == 3 ? 1u << TYPE_I32 : 1u << TYPE_F32;
}

const struct operator_type operator_additive_attention = {
    .name = "additive_attention",
    .flags = OPERATOR_STARTS_LAYER | OPERATOR_USES_INPUT | OPERATOR_NARROW | OPERATOR_ROUNDS,
    .inputs_min = 3,
    .inputs_max = 4,
    .types_of = types,
    .infer = infer,
    .parameters = parameters,
    .flops = flops,
};
