/*
 * One layer of long short-term memory, or of gated recurrent units: reads channels (hidden size H), reverse, layer (its number
 * in its parameters' names). Input: a sequence of D features at T positions; output: H features at each. As PyTorch's LSTM,
 * with its order of gates (i, f, g, o) and its parameters:
 *
 *     i, f, o = sigmoid, g = tanh of (weight_ih x_t + bias_ih + weight_hh h_{t-1} + bias_hh)
 *     c_t = f c_{t-1} + i g,  h_t = o tanh(c_t)
 *
 * and as PyTorch's GRU (Cho et al., 2014), with its gates r, z, n; r multiplies the state after weight_hh:
 *
 *     r, z = sigmoid of the same sum;  n = tanh(weight_ih x_t + bias_ih + r (weight_hh h_{t-1} + bias_hh))
 *     h_t = (1 - z) n + z h_{t-1}
 *
 * `reverse` goes from the last position to the first. A second input, the token at each position, says where a sequence is
 * padding (token 0): there state and output are 0. So a padded sequence gives what PyTorch makes of a packed one, in both
 * directions: going backwards, the first real token meets a fresh state.
 */
#include "graph/operators.h"

enum { LSTM_GATES = 4, GRU_GATES = 3 };

static enum ps_status infer(struct operation *op) {
    TRY(require_sequence(op->inputs, op->error));
    if (op->input_count > 1) TRY(require_tokens_of(op->inputs, op->inputs + 1, op->error));
    if (op->attributes->channels < 1) {
        return error_set(op->error, PS_USAGE, "a hidden size of %d: at least 1 is needed", op->attributes->channels);
    }
    op->output = (struct shape){.rank = 3, .dim = {op->attributes->channels, op->inputs->dim[1], 1}};
    return PS_OK;
}

/* All uniform in +-1/sqrt(H), as PyTorch has them. */
static int gate_parameters(int gates, const struct attributes *attributes, const struct shape *inputs,
                           struct parameter parameters[GRAPH_PARAMETERS_MAX]) {
    static const char *const names[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
    int64_t hidden = attributes->channels;
    for (int p = 0; p < 4; p++) {
        struct shape shape = {.rank = p < 2 ? 2 : 1, .dim = {gates * hidden, p == 0 ? inputs->dim[0] : p == 1 ? hidden : 0}};
        parameters[p] = (struct parameter){.shape = shape, .initial = initial_fan_in(hidden)};
        snprintf(parameters[p].name, sizeof parameters[p].name, "%s_l%d%s", names[p], attributes->layer,
                 attributes->reverse ? "_reverse" : "");
    }
    return 4;
}

static int parameters(const struct operation *op, struct parameter parameters[GRAPH_PARAMETERS_MAX]) {
    return gate_parameters(LSTM_GATES, op->attributes, op->inputs, parameters);
}

static int gru_parameters(const struct operation *op, struct parameter parameters[GRAPH_PARAMETERS_MAX]) {
    return gate_parameters(GRU_GATES, op->attributes, op->inputs, parameters);
}

static double gru_flops(const struct operation *op) {
    return 2.0 * GRU_GATES * (double)shape_elements(&op->output) * (double)(op->inputs->dim[0] + op->attributes->channels);
}

static double flops(const struct operation *op) {
    return 8.0 * (double)shape_elements(&op->output) * (double)(op->inputs->dim[0] + op->attributes->channels);
}

static unsigned types(int input, int input_count) {
    (void)input_count;
    return input == 1 ? 1u << TYPE_I32 : 1u << TYPE_F32;
}

#define RECURRENT(kind, parameters_of, flops_of)                                                                               \
    {                                                                                                                          \
        .name = kind,                                                                                                          \
        .attributes = {INTEGER(channels, 1, FEATURES_MAX, REQUIRED), BOOLEAN(reverse, 0), INTEGER(layer, 0, 1 << 16, 0)},      \
        .flags = OPERATOR_IMAGES | OPERATOR_STARTS_LAYER | OPERATOR_USES_INPUT | OPERATOR_USES_OUTPUT | OPERATOR_NARROW |       \
                 OPERATOR_ROUNDS,                                                                                              \
        .inputs_min = 1, .inputs_max = 2, .types_of = types, .infer = infer, .parameters = parameters_of, .flops = flops_of    \
    }
const struct operator_type operator_lstm = RECURRENT("lstm", parameters, flops);
const struct operator_type operator_gru = RECURRENT("gru", gru_parameters, gru_flops);
