/*
 * GPT-2 (Radford, Wu, Child, Luan, Amodei and Sutskever, "Language models are unsupervised multitask learners", 2019): a
 * transformer's decoder with the normalisations before each half of a block. Names and initial values are those of Hugging
 * Face's GPT2LMHeadModel (whose Conv1D layers keep their weights transposed). Its small form is the default: 12 layers of 768
 * features.
 *
 *     x = wte[token] + wpe[position]                                                         dropout
 *     layers times:  x = x + c_proj(attention(c_attn(ln_1 x), causal))                       dropout
 *                    x = x + mlp.c_proj(gelu(mlp.c_fc(ln_2 x))),  4 times as wide inside     dropout
 *     lm_head(ln_f x)
 *
 * With tied=1 the head's weights are wte, as in the released network: 124,439,808 parameters of GPT-2 small. Otherwise it has
 * 38,597,376 of its own, as with tie_word_embeddings=False: in a pipeline the embedding and the head are on different workers.
 */
#include <math.h>

#include "graph/models/transformer.h"

#define DEVIATION 0.02f
#define EPSILON 1e-5f

static int build_attention(struct transformer *t, int x, int layer) {
    struct builder *b = &t->builder;
    struct attributes attention = {.heads = t->heads, .causal = true, .rate = t->dropout};
    const char *block = "transformer.h";
    char n[64];
    int y = build_layer_norm(b, x, transformer_name(n, block, layer, "ln_1"), EPSILON);
    y = transformer_linear(t, y, transformer_name(n, block, layer, "attn.c_attn"), 3 * t->width, true, DEVIATION);
    y = graph_add(b->graph, OPERATOR_ATTENTION, transformer_name(n, block, layer, "attn"), &attention, &y, 1, b->error);
    float deviation = DEVIATION / sqrtf(2 * (float)t->layers);
    y = transformer_linear(t, y, transformer_name(n, block, layer, "attn.c_proj"), t->width, true, deviation);
    y = build_dropout(b, y, transformer_name(n, block, layer, "attn.resid_dropout"), t->dropout);
    return build_add(b, x, y, transformer_name(n, block, layer, "add_1"));
}

static int build_mlp(struct transformer *t, int x, int layer) {
    struct builder *b = &t->builder;
    const char *block = "transformer.h";
    char n[64];
    int y = build_layer_norm(b, x, transformer_name(n, block, layer, "ln_2"), EPSILON);
    y = transformer_linear(t, y, transformer_name(n, block, layer, "mlp.c_fc"), 4 * t->width, true, DEVIATION);
    y = build_gelu(b, y, transformer_name(n, block, layer, "mlp.act"), true);
    float deviation = DEVIATION / sqrtf(2 * (float)t->layers);
    y = transformer_linear(t, y, transformer_name(n, block, layer, "mlp.c_proj"), t->width, true, deviation);
    y = build_dropout(b, y, transformer_name(n, block, layer, "mlp.dropout"), t->dropout);
    return build_add(b, x, y, transformer_name(n, block, layer, "add_2"));
}

static enum ps_status build(struct graph *graph, const struct model_options *sizes, struct spec *options,
                            struct ps_error *error) {
    struct transformer t = {.builder = {graph, error}, .layers = 12, .width = 768, .heads = 12, .dropout = 0.1f};
    TRY(transformer_read(options, sizes, &t, error));
    struct builder *b = &t.builder;
    int x = build_tokens(b, sizes->positions);
    int embedding = build_embedding(b, x, "transformer.wte", sizes->vocabulary, t.width);
    x = transformer_initial(&t, embedding, DEVIATION);
    x = transformer_initial(&t, build_position_embedding(b, x, "transformer.wpe", t.positions), DEVIATION);
    x = build_dropout(b, x, "transformer.drop", t.dropout);
    for (int layer = 0; layer < t.layers; layer++) x = build_mlp(&t, build_attention(&t, x, layer), layer);
    x = build_layer_norm(b, x, "transformer.ln_f", EPSILON);
    x = transformer_head(&t, x, "lm_head", false, DEVIATION, embedding);
    build_cross_entropy(b, x, "loss");
    return graph->status;
}

const struct model model_gpt2 = {
    .name = "gpt2",
    .summary = "GPT-2: a language model that predicts the next token; tied=1: its head has the embedding's weights",
    .defaults = {.positions = 1024, .vocabulary = 50257},
    .training = {.optimizer = "adam", .lr = 3e-4, .batch = 8},
    .keys = {"layers", "width", "heads", "positions", "dropout", "tied", NULL},
    .build = build,
};
