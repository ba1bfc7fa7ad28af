/*
 * A vector for each token: reads channels (the vector's features), vocabulary (tokens there are), padded and padding (a token
 * whose vector begins as 0 and has no gradient, as PyTorch's padding_idx). Tokens T to vectors T x D; weights (vocabulary, D).
 */
#include "graph/operators.h"

static enum ps_status infer(struct operation *op) {
    struct attributes *a = op->attributes;
    TRY(require_sequence(op->inputs, op->error));
    char text[96];
    if (op->inputs->dim[0] != 1) {
        return error_set(op->error, PS_USAGE, "its input must be tokens (1 x positions x 1), and is %s",
                         shape_text(op->inputs, text));
    }
    if (a->channels < 1 || a->vocabulary < 1) {
        return error_set(op->error, PS_USAGE, "%d features for %d tokens: at least 1 of each is needed", a->channels,
                         a->vocabulary);
    }
    if (a->padded && (a->padding < 0 || a->padding >= a->vocabulary)) {
        return error_set(op->error, PS_USAGE, "padding token %d: the tokens are 0 to %d", a->padding, a->vocabulary - 1);
    }
    op->output = (struct shape){.rank = 3, .dim = {a->channels, op->inputs->dim[1], 1}};
    return PS_OK;
}

static int parameters(const struct operation *op, struct parameter parameters[GRAPH_PARAMETERS_MAX]) {
    const struct attributes *a = op->attributes;
    parameters[0] = (struct parameter){.name = "weight",
                                       .shape = {.rank = 2, .dim = {a->vocabulary, a->channels}},
                                       .initial = {INITIAL_NORMAL, 1},
                                       .zero_row = a->padded ? a->padding + 1 : 0};
    return 1;
}

const struct operator_type operator_embedding = {
    .name = "embedding",
    .attributes = {INTEGER(channels, 1, FEATURES_MAX, REQUIRED), INTEGER(vocabulary, 1, FEATURES_MAX, REQUIRED),
                   BOOLEAN(padded, 0), INTEGER(padding, 0, FEATURES_MAX, 0)},
    .flags = OPERATOR_STARTS_LAYER | OPERATOR_USES_INPUT | OPERATOR_NARROW,
    .inputs_min = 1,
    .inputs_max = 1,
    .types = 1u << TYPE_I32,
    .infer = infer,
    .parameters = parameters,
    .flops = no_flops,
};
