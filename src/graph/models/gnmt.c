/*
 * GNMT, translation by stacked LSTM layers (Wu et al., "Google's neural machine translation system", 2016), as PipeDream,
 * BaPipe and PipeOptim train it: the implementation of MLPerf (NVIDIA's seq2seq) in PipeDream's form, which has an embedding of
 * its own for each language. L/2 layers encode, L/2 decode; all have `hidden` features:
 *
 *     encoder   embedding; layer 0 in both directions; layer 1 reads both; layers 2.. add their input to their output
 *     decoder   embedding; layer 0, whose outputs are the queries of additive attention to the encoder's; the other layers read
 * the one before and the attention's output, and from layer 2 on add their input to their output; linear layer to tokens
 *
 * with dropout on the input that a layer gets from the one before (not on embeddings, nor on the attention's output). With
 * hidden 1024 and 32,320 tokens 193,766,977 parameters of 8 layers, 277,718,593 of 16, 445,621,825 of 32 (BaPipe: 445.6
 * million).
 *
 * A sample has `seq` tokens of the source, with padding at the end, then `target` tokens that the decoder reads; its labels are
 * the next token of each. The outputs of encoder and attention cross all cuts up to their last reader.
 */
#include <stdio.h>

#include "graph/model.h"

struct gnmt {
    struct builder builder;
    int layers, hidden, target, target_vocabulary; /* target: its positions */
    float dropout, smoothing;
    int source_tokens, encoded, answer; /* nodes */
};

static const char *layer_name(char out[64], const char *format, int layer) {
    snprintf(out, 64, format, layer);
    return out;
}

static int add_embedding(struct gnmt *g, int tokens, const char *name, int vocabulary) {
    struct attributes attributes = {.channels = g->hidden, .vocabulary = vocabulary, .padded = true, .padding = 0};
    return graph_add(g->builder.graph, OPERATOR_EMBEDDING, name, &attributes, &tokens, 1, g->builder.error);
}

static void add_encoder(struct gnmt *g, int vocabulary) {
    struct builder *b = &g->builder;
    char name[64];
    int x = add_embedding(g, g->source_tokens, "encoder.embedder", vocabulary);
    if (x < 0) return;
    int both[] = {build_lstm_padded(b, x, g->source_tokens, "encoder.rnn_layers.0", g->hidden, false),
                  build_lstm_padded(b, x, g->source_tokens, "encoder.rnn_layers.0/reverse", g->hidden, true)};
    if (both[1] < 0) return;
    x = build_concat(b, both, 2, "encoder.both");
    x = build_dropout(b, x, "encoder.dropout.1", g->dropout);
    x = build_lstm(b, x, "encoder.rnn_layers.1", g->hidden);
    for (int l = 2; l < g->layers / 2; l++) {
        int residual = x;
        x = build_dropout(b, x, layer_name(name, "encoder.dropout.%d", l), g->dropout);
        x = build_lstm(b, x, layer_name(name, "encoder.rnn_layers.%d", l), g->hidden);
        x = build_add(b, x, residual, layer_name(name, "encoder.add.%d", l));
    }
    g->encoded = x;
}

/* The input of a layer of the decoder: the output of the layer before, and that of the attention. */
static int add_context(struct gnmt *g, int x, int layer) {
    char name[64];
    x = build_dropout(&g->builder, x, layer_name(name, "decoder.dropout.%d", layer), g->dropout);
    if (x < 0) return -1;
    return build_concat(&g->builder, (const int[]){x, g->answer}, 2, layer_name(name, "decoder.context.%d", layer));
}

static void add_decoder(struct gnmt *g, int tokens) {
    struct builder *b = &g->builder;
    char name[64];
    int x = add_embedding(g, tokens, "decoder.embedder", g->target_vocabulary);
    x = build_lstm(b, x, "decoder.att_rnn.rnn", g->hidden);
    int query = build_projection(b, x, "decoder.att_rnn.attn.linear_q", g->hidden);
    int key = build_projection(b, g->encoded, "decoder.att_rnn.attn.linear_k", g->hidden);
    if (key < 0) return;
    g->answer = build_additive_attention(b, query, key, g->encoded, g->source_tokens, "decoder.att_rnn.attn");
    for (int l = 0; l < g->layers / 2 - 1; l++) {
        int residual = x;
        x = build_lstm(b, add_context(g, x, l), layer_name(name, "decoder.rnn_layers.%d", l), g->hidden);
        if (l > 0) x = build_add(b, x, residual, layer_name(name, "decoder.add.%d", l));
    }
    x = build_linear(b, x, "decoder.classifier.classifier", g->target_vocabulary);
    struct attributes loss = {.smoothing = g->smoothing};
    graph_add(b->graph, OPERATOR_CROSS_ENTROPY, "loss", &loss, &x, 1, b->error);
}

static enum ps_status read_options(struct gnmt *g, const struct model_options *sizes, struct spec *options,
                                   struct ps_error *error) {
    double dropout = 0.2, smoothing = 0;
    g->hidden = 1024;
    g->target = sizes->positions;
    g->target_vocabulary = sizes->vocabulary;
    TRY(spec_int(options, "hidden", 1, 1 << 16, &g->hidden, error));
    TRY(spec_int(options, "target", 1, 1 << 20, &g->target, error));
    TRY(spec_int(options, "target_vocab", 2, 1 << 30, &g->target_vocabulary, error));
    TRY(spec_number(options, "dropout", 0, 0.99, &dropout, error));
    TRY(spec_number(options, "smoothing", 0, 0.99, &smoothing, error));
    g->dropout = (float)dropout;
    g->smoothing = (float)smoothing;
    if (g->layers % 2 == 0) return PS_OK;
    return error_set(error, PS_USAGE, "%s: layers=%d: must be even: encoder and decoder have equally many", options->name,
                     g->layers);
}

static enum ps_status build_layers(struct graph *graph, int layers, const struct model_options *sizes, struct spec *options,
                                   struct ps_error *error) {
    struct gnmt g = {.builder = {graph, error}, .layers = layers};
    TRY(read_options(&g, sizes, options, error));
    int tokens = build_tokens(&g.builder, sizes->positions + g.target);
    g.source_tokens = build_slice(&g.builder, tokens, "source", 0, sizes->positions);
    int target = build_slice(&g.builder, tokens, "target", sizes->positions, g.target);
    add_encoder(&g, sizes->vocabulary);
    add_decoder(&g, target);
    return graph->status;
}

static enum ps_status build_8(struct graph *graph, const struct model_options *sizes, struct spec *options,
                              struct ps_error *error) {
    return build_layers(graph, 8, sizes, options, error);
}

static enum ps_status build_16(struct graph *graph, const struct model_options *sizes, struct spec *options,
                               struct ps_error *error) {
    return build_layers(graph, 16, sizes, options, error);
}

static enum ps_status build_any(struct graph *graph, const struct model_options *sizes, struct spec *options,
                                struct ps_error *error) {
    int layers = 32;
    TRY(spec_int(options, "layers", 4, 10000, &layers, error));
    return build_layers(graph, layers, sizes, options, error);
}

#define SIZES                                                                                                                  \
    { .positions = 50, .vocabulary = 32320 }
#define KEYS "hidden", "target", "target_vocab", "dropout", "smoothing"

const struct model model_gnmt8 = {
    .name = "gnmt8",
    .summary = "GNMT-8: translation by four LSTM layers in the encoder and four in the decoder, with attention",
    .defaults = SIZES,
    .training = {.optimizer = "adam", .lr = 1e-3},
    .keys = {KEYS},
    .build = build_8,
};

const struct model model_gnmt16 = {
    .name = "gnmt16",
    .summary = "GNMT-16: eight LSTM layers in the encoder and eight in the decoder",
    .defaults = SIZES,
    .training = {.optimizer = "adam", .lr = 1e-3},
    .keys = {KEYS},
    .build = build_16,
};

const struct model model_gnmt_l = {
    .name = "gnmt-l",
    .summary = "GNMT-L: any even number of LSTM layers (layers, 32), half of them in the encoder",
    .defaults = SIZES,
    .training = {.optimizer = "adam", .lr = 1e-3},
    .keys = {KEYS, "layers"},
    .build = build_any,
};
