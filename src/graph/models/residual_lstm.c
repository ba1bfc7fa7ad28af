/*
 * Residual LSTM for classifying texts, as PipeOptim and SpecTrain train it on IMDb; the layers are those of SpecTrain's
 * published implementation (ntueclab/SpecTrain-PyTorch, sentiment_analysis), whose names and initial values the parameters
 * have:
 *
 *     x = embedding of the tokens
 *     layers times: x = x + projection(LSTM(x))
 *     mean over the positions, linear layer, softmax
 *
 * 1,874,690 parameters as published: 10,000 tokens, 128 features, 4 layers, 2 classes. Padding is a token like the others.
 */
#include <stdio.h>

#include "graph/model.h"

/* SpecTrain's: weights normal with deviation 0.01, bias 0. */
static int add_linear(struct builder *b, int input, const char *name, int features) {
    int node = build_linear(b, input, name, features);
    graph_set_initial(b->graph, node, 0, (struct initial){INITIAL_NORMAL, 0.01f});
    graph_set_initial(b->graph, node, 1, (struct initial){INITIAL_CONSTANT, 0});
    return node;
}

static const char *stage_name(char out[64], int stage, const char *part) {
    snprintf(out, 64, "stage%d.%s", stage, part);
    return out;
}

static enum ps_status build(struct graph *graph, const struct model_options *sizes, struct spec *options,
                            struct ps_error *error) {
    struct builder b = {graph, error};
    int layers = 4, hidden = 128;
    char name[64];
    TRY(spec_int(options, "layers", 1, 1000, &layers, error));
    TRY(spec_int(options, "hidden", 1, 1 << 16, &hidden, error));
    int x = build_embedding(&b, build_tokens(&b, sizes->positions), "stage0.embeddings", sizes->vocabulary, hidden);
    for (int l = 0; l < layers; l++) {
        int shortcut = x;
        x = build_lstm(&b, x, stage_name(name, l, "LSTM"), hidden);
        x = add_linear(&b, x, stage_name(name, l, "projection_matrix"), hidden);
        x = build_add(&b, x, shortcut, stage_name(name, l, "add"));
    }
    x = build_global_pool(&b, x, "mean");
    x = build_flatten(&b, x, "flatten");
    x = add_linear(&b, x, stage_name(name, layers - 1, "output"), sizes->classes);
    build_cross_entropy(&b, x, "loss");
    return graph->status;
}

const struct model model_residual_lstm = {
    .name = "residual_lstm",
    .summary = "Residual LSTM: four LSTM layers with shortcuts, for classifying texts",
    .defaults = {.positions = 200, .vocabulary = 10000, .classes = 2},
    .training = {.optimizer = "adam", .lr = 1e-3},
    .keys = {"layers", "hidden"},
    .build = build,
};
