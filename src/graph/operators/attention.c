/*
 * Scaled dot-product attention with several heads (Vaswani et al., "Attention is all you need", 2017). Reads heads, causal (no
 * position sees those after it) and rate (dropout of the weights). Inputs: queries (D at Tq positions), keys and values (D at
 * Tk); or one input that has all three side by side (3 D features); and, as the last one if given, the keys' tokens: those of
 * padding (token 0) get no weight. A head has D / heads neighbouring features of each. Output: D features at Tq positions.
 *
 *     weights of a query = softmax over the keys k of  query . k / sqrt(D / heads);   output = sum of weights times values
 *
 * The output of a query all of whose keys are padding is 0.
 */
#include "graph/operators.h"

/* One input, or one with tokens, has the three in one. */
static bool packed(int input_count) { return input_count < 3; }

static enum ps_status infer(struct attributes *attributes, const struct shape *inputs, int input_count, struct shape *output,
                            struct ps_error *error) {
    bool tokens = input_count == 2 || input_count == 4;
    char a[96], b[96], c[96];
    for (int i = 0; i < input_count; i++) TRY(require_sequence(&inputs[i], error));
    const struct shape *query = &inputs[0], *key = packed(input_count) ? query : &inputs[1];
    if (!packed(input_count) && (query->dim[0] != key->dim[0] || !shape_equal(key, &inputs[2]))) {
        return error_set(error, PS_USAGE,
                         "queries of %s, keys of %s and values of %s: features must be the same, and the "
                         "positions of keys and values",
                         shape_text(query, a), shape_text(key, b), shape_text(&inputs[2], c));
    }
    if (tokens) TRY(require_tokens_of(key, &inputs[input_count - 1], error));
    int64_t features = packed(input_count) ? query->dim[0] / 3 : query->dim[0];
    if (packed(input_count) && query->dim[0] % 3 != 0) {
        return error_set(error, PS_USAGE, "its one input of %s must have queries, keys and values of equal size side by side",
                         shape_text(query, a));
    }
    if (attributes->heads < 1 || features % attributes->heads != 0) {
        return error_set(error, PS_USAGE, "%d heads do not share %lld features equally", attributes->heads,
                         (long long)features);
    }
    if (attributes->causal && query->dim[1] != key->dim[1]) {
        return error_set(error, PS_USAGE, "causal attention needs as many keys as queries, and has %lld and %lld",
                         (long long)key->dim[1], (long long)query->dim[1]);
    }
    if (!(attributes->rate >= 0 && attributes->rate < 1)) {
        return error_set(error, PS_USAGE, "rate %g must be at least 0 and below 1", (double)attributes->rate);
    }
    *output = (struct shape){.rank = 3, .dim = {features, query->dim[1], 1}};
    return PS_OK;
}

static double flops(const struct attributes *attributes, const struct shape *inputs, const struct shape *output) {
    /* Inputs behind the first are not looked at, so that it holds for both forms: one key for each query. */
    (void)inputs;
    double scores = (double)attributes->heads * (double)output->dim[1] * (double)output->dim[1];
    return 4.0 * (double)output->dim[0] * (double)output->dim[1] * (double)output->dim[1] + 5.0 * scores;
}

static unsigned types(int input, int input_count) {
    bool tokens = input_count % 2 == 0 && input == input_count - 1;
    return tokens ? 1u << TYPE_I32 : 1u << TYPE_F32;
}

const struct operator_type operator_attention = {
    .name = "attention",
    .attributes = {INTEGER(heads, 1, 1 << 12, REQUIRED), BOOLEAN(causal, 0), NUMBER(rate, 0, 1, 0)},
    .flags = OPERATOR_STARTS_LAYER | OPERATOR_USES_INPUT | OPERATOR_RANDOM,
    .inputs_min = 1,
    .inputs_max = 4,
    .types = types,
    .infer = infer,
    .flops = flops,
};
