/*
 * Scaled dot-product attention with several heads (Vaswani et al., "Attention is all you need", 2017). Reads heads, causal (no
 * position sees those after it), rate (dropout of the weights), scale (0: 1 / sqrt(E)), cap (0: none) and key_heads (0: heads).
 * Inputs: queries (heads E features at Tq positions), keys (key_heads E at Tk) and values (key_heads V at Tk); or one input
 * that has all three side by side (E = V); and, as the last one if given, a mask. A head has neighbouring features. Output:
 * heads V features at Tq positions.
 *
 *     score = scale query . key;  with a cap (Gemma 2, 2024): cap tanh(score / cap);  plus the mask, if it is of numbers
 *     weights of a query = softmax of its scores over the keys;  output = sum of weights times values
 *
 * `count` and `first` make it a part of such a layer (graph/split.h): the inputs and the mask are those of `count` heads, of
 * which it computes `heads` from number `first` on, with the dropout that they have in the whole.
 *
 * With fewer heads of keys and values, heads / key_heads neighbouring heads of queries share one (Ainslie et al., "GQA", 2023).
 *
 * The mask is the keys' tokens (1 x Tk x 1: those of padding, token 0, are not seen); or Tk x (1 or heads) x (1 or Tq), for the
 * keys that each head's queries see: of integers, those with 0 are not; of numbers, they are added to the scores, and those
 * with -infinity are not. What is not seen has the weight 0; the output of a query that sees nothing is 0.
 */
#include "graph/operators.h"

/* One input, or one with a mask, has the three in one. */
static bool packed(int input_count) { return input_count < 3; }

/* Of the queries in the inputs. */
static int all_heads(const struct attributes *a) { return a->count > 0 ? a->count : a->heads; }

static enum ps_status check_mask(const struct attributes *a, const struct shape *mask, int64_t queries, int64_t keys,
                                 struct ps_error *error) {
    const int64_t *dim = mask->dim;
    char text[96];
    bool tokens = mask->rank == 3 && mask->type == TYPE_I32 && dim[0] == 1 && dim[1] == keys && dim[2] == 1;
    const int heads = all_heads(a);
    bool whole = mask->rank == 3 && dim[0] == keys && (dim[1] == 1 || dim[1] == heads) && (dim[2] == 1 || dim[2] == queries);
    if (tokens || whole) return PS_OK;
    return error_set(
        error, PS_USAGE,
        "the mask must be the keys' tokens, 1x%lldx1, or %lldx%dx%lld or with 1 in place of the last sides, and is %s",
        (long long)keys, (long long)keys, heads, (long long)queries, shape_text(mask, text));
}

static enum ps_status check_heads(const struct attributes *a, const struct shape *inputs, int input_count,
                                  struct ps_error *error) {
    int64_t features = inputs[0].dim[0], key_heads = a->key_heads > 0 ? a->key_heads : a->heads;
    const int heads = all_heads(a);
    char text[96], other[96], third[96];
    if (a->heads < 1 || a->heads % key_heads != 0) {
        return error_set(error, PS_USAGE, "%d heads of queries cannot share %lld of keys equally", a->heads,
                         (long long)key_heads);
    }
    const int group = a->heads / (int)key_heads;
    if (a->first + a->heads > heads || heads % group != 0 || a->first % group != 0) {
        return error_set(error, PS_USAGE, "of %d heads, %d of which share those of keys, it cannot have %d from %d on", heads,
                         group, a->heads, a->first);
    }
    key_heads = heads / group;
    if (packed(input_count)) {
        if (features % (heads + 2 * key_heads) == 0) return PS_OK;
        if (key_heads == heads && features % 3 == 0) {
            return error_set(error, PS_USAGE, "%d heads do not share %lld features equally", heads, (long long)features / 3);
        }
        return error_set(error, PS_USAGE,
                         "its one input of %s must have queries, keys and values of %d, %lld and %lld heads side by side",
                         shape_text(inputs, text), heads, (long long)key_heads, (long long)key_heads);
    }
    if (features % heads != 0) {
        return error_set(error, PS_USAGE, "%d heads do not share %lld features equally", heads, (long long)features);
    }
    bool keys = inputs[1].dim[0] == features / heads * key_heads, values = inputs[2].dim[0] % key_heads == 0;
    if (keys && values && inputs[1].dim[1] == inputs[2].dim[1]) return PS_OK;
    return error_set(error, PS_USAGE,
                     "queries of %s, keys of %s and values of %s: heads of queries and keys must have the same number of "
                     "features, and keys and values the same positions",
                     shape_text(&inputs[0], text), shape_text(&inputs[1], other), shape_text(&inputs[2], third));
}

static enum ps_status infer(struct operation *op) {
    struct attributes *a = op->attributes;
    int parts = packed(op->input_count) ? 1 : 3;
    for (int i = 0; i < parts; i++) TRY(require_sequence(&op->inputs[i], op->error));
    if (a->key_heads == a->heads) a->key_heads = 0;
    TRY(check_heads(a, op->inputs, op->input_count, op->error));
    int64_t queries = op->inputs[0].dim[1], keys = op->inputs[parts > 1].dim[1];
    if (op->input_count > parts) TRY(check_mask(a, &op->inputs[parts], queries, keys, op->error));
    if (a->causal && queries != keys) {
        return error_set(op->error, PS_USAGE, "causal attention needs as many keys as queries, and has %lld and %lld",
                         (long long)keys, (long long)queries);
    }
    if (!(a->rate >= 0 && a->rate < 1)) {
        return error_set(op->error, PS_USAGE, "rate %g must be at least 0 and below 1", (double)a->rate);
    }
    if (!(a->scale >= 0 && a->cap >= 0)) {
        return error_set(op->error, PS_USAGE, "scale %g and cap %g must not be negative", (double)a->scale, (double)a->cap);
    }
    int64_t heads = all_heads(a), key_heads = a->key_heads > 0 ? heads * a->key_heads / a->heads : heads;
    int64_t each = packed(op->input_count) ? op->inputs->dim[0] / (heads + 2 * key_heads) : op->inputs[2].dim[0] / key_heads;
    op->output = (struct shape){.rank = 3, .dim = {a->heads * each, queries, 1}};
    return PS_OK;
}

static double flops(const struct operation *op) {
    /* Inputs behind the first are not looked at, so that it holds for both forms: one key for each query. */
    double scores = (double)op->attributes->heads * (double)op->output.dim[1] * (double)op->output.dim[1];
    return 4.0 * (double)op->output.dim[0] * (double)op->output.dim[1] * (double)op->output.dim[1] + 5.0 * scores;
}

static unsigned types(int input, int input_count) {
    bool mask = input_count % 2 == 0 && input == input_count - 1;
    return mask ? 1u << TYPE_I32 | 1u << TYPE_F32 : 1u << TYPE_F32;
}

const struct operator_type operator_attention = {
    .name = "attention",
    .attributes = {INTEGER(heads, 1, 1 << 12, REQUIRED), BOOLEAN(causal, 0), NUMBER(rate, 0, 1, 0),
                   INTEGER(key_heads, 0, 1 << 12, 0), NUMBER(scale, 0, 1e6, 0), NUMBER(cap, 0, 1e6, 0),
                   INTEGER(first, 0, 1 << 12, 0), INTEGER(count, 0, 1 << 12, 0)},
    .flags = OPERATOR_STARTS_LAYER | OPERATOR_USES_INPUT | OPERATOR_RANDOM | OPERATOR_ROUNDS,
    .inputs_min = 1,
    .inputs_max = 4,
    .types_of = types,
    .infer = infer,
    .flops = flops,
};
