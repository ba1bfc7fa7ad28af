/*
 * A vector for each token: reads channels (the vector's features), vocabulary (tokens there are), padded and padding (a token
 * whose vector begins as 0 and has no gradient, as PyTorch's padding_idx). Tokens T to vectors T x D; weights (vocabulary, D).
 */
#include "graph/operators.h"

static enum ps_status infer(struct attributes *attributes, const struct shape *inputs, int input_count, struct shape *output,
                            struct ps_error *error) {
    (void)input_count;
    TRY(require_sequence(inputs, error));
    char text[96];
    if (inputs->dim[0] != 1) {
        return error_set(error, PS_USAGE, "its input must be tokens (1 x positions x 1), and is %s", shape_text(inputs, text));
    }
    if (attributes->channels < 1 || attributes->vocabulary < 1) {
        return error_set(error, PS_USAGE, "%d features for %d tokens: at least 1 of each is needed", attributes->channels,
                         attributes->vocabulary);
    }
    if (attributes->padded && (attributes->padding < 0 || attributes->padding >= attributes->vocabulary)) {
        return error_set(error, PS_USAGE, "padding token %d: the tokens are 0 to %d", attributes->padding,
                         attributes->vocabulary - 1);
    }
    *output = (struct shape){.rank = 3, .dim = {attributes->channels, inputs->dim[1], 1}};
    return PS_OK;
}

static int parameters(const struct attributes *attributes, const struct shape *inputs,
                      struct parameter parameters[GRAPH_PARAMETERS_MAX]) {
    (void)inputs;
    parameters[0] = (struct parameter){.name = "weight",
                                       .shape = {.rank = 2, .dim = {attributes->vocabulary, attributes->channels}},
                                       .initial = {INITIAL_NORMAL, 1},
                                       .zero_row = attributes->padded ? attributes->padding + 1 : 0};
    return 1;
}

static unsigned types(int input, int input_count) {
    (void)input, (void)input_count;
    return 1u << TYPE_I32;
}

const struct operator_type operator_embedding = {
    .name = "embedding",
    .attributes = {INTEGER(channels, 1, FEATURES_MAX, REQUIRED), INTEGER(vocabulary, 1, FEATURES_MAX, REQUIRED),
                   BOOLEAN(padded, 0), INTEGER(padding, 0, FEATURES_MAX, 0)},
    .flags = OPERATOR_STARTS_LAYER | OPERATOR_USES_INPUT,
    .inputs_min = 1,
    .inputs_max = 1,
    .types = types,
    .infer = infer,
    .parameters = parameters,
    .flops = no_flops,
};
