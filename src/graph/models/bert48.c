/*
 * BERT (Devlin, Chang, Lee and Toutanova, "BERT: pre-training of deep bidirectional transformers for language understanding",
 * 2019) for masked language modelling, 48 layers deep as pipelines train it: twice BERT-large. Names, initial values and
 * epsilons are those of Hugging Face's BertForMaskedLM; layers=24 is BERT-large, layers=12,width=768,heads=12 BERT-base.
 *
 *     x = norm(word[token] + position[position] + type[0])                                   dropout
 *     layers times:  x = norm(x + dense(attention(query x, key x, value x)))                 dropout
 *                    x = norm(x + dense(gelu(dense x))),  4 times as wide inside             dropout
 *     decoder(norm(gelu(dense x)))
 *
 * Padding (token 0) is masked in attention. With tied=1 the decoder's weights are the word embedding's, and the parameters
 * those of BertForMaskedLM, 637,483,834 at 48 layers. Otherwise it has weights of its own, as with tie_word_embeddings=False,
 * and there are vocabulary x width more, 668,738,362 in all: in a pipeline the embedding and the head are on different workers.
 */
#include <stdio.h>

#include "graph/models/transformer.h"

#define DEVIATION 0.02f
#define EPSILON 1e-12f

static const char block[] = "bert.encoder.layer";

static int build_sentence(struct transformer *t, int tokens, int vocabulary, int *embedding) {
    struct builder *b = &t->builder;
    struct attributes words = {.channels = t->width, .vocabulary = vocabulary, .padded = true};
    struct attributes types = {.count = 2, .everywhere = true};
    *embedding = graph_add(b->graph, OPERATOR_EMBEDDING, "bert.embeddings.word_embeddings", &words, &tokens, 1, b->error);
    int x = transformer_initial(t, *embedding, DEVIATION);
    x = build_position_embedding(b, x, "bert.embeddings.position_embeddings", t->positions);
    transformer_initial(t, x, DEVIATION);
    x = graph_add(b->graph, OPERATOR_POSITION_EMBEDDING, "bert.embeddings.token_type_embeddings", &types, &x, 1, b->error);
    transformer_initial(t, x, DEVIATION);
    x = build_layer_norm(b, x, "bert.embeddings.LayerNorm", EPSILON);
    return build_dropout(b, x, "bert.embeddings.dropout", t->dropout);
}

/* The end of each half of a block. */
static int build_end(struct transformer *t, int x, int y, int layer, const char *half) {
    struct builder *b = &t->builder;
    char n[64], part[40];
    snprintf(part, sizeof part, "%s.dense", half);
    y = transformer_linear(t, y, transformer_name(n, block, layer, part), t->width, true, DEVIATION);
    snprintf(part, sizeof part, "%s.dropout", half);
    y = build_dropout(b, y, transformer_name(n, block, layer, part), t->dropout);
    snprintf(part, sizeof part, "%s.add", half);
    y = build_add(b, y, x, transformer_name(n, block, layer, part));
    snprintf(part, sizeof part, "%s.LayerNorm", half);
    return build_layer_norm(b, y, transformer_name(n, block, layer, part), EPSILON);
}

static int build_block(struct transformer *t, int x, int tokens, int layer) {
    struct builder *b = &t->builder;
    struct attributes attention = {.heads = t->heads, .rate = t->dropout};
    char n[64];
    int query = transformer_linear(t, x, transformer_name(n, block, layer, "attention.self.query"), t->width, true, DEVIATION);
    int key = transformer_linear(t, x, transformer_name(n, block, layer, "attention.self.key"), t->width, true, DEVIATION);
    int value = transformer_linear(t, x, transformer_name(n, block, layer, "attention.self.value"), t->width, true, DEVIATION);
    if (value < 0) return -1;
    int y = graph_add(b->graph, OPERATOR_ATTENTION, transformer_name(n, block, layer, "attention.self"), &attention,
                      (const int[]){query, key, value, tokens}, 4, b->error);
    x = build_end(t, x, y, layer, "attention.output");
    y = transformer_linear(t, x, transformer_name(n, block, layer, "intermediate.dense"), 4 * t->width, true, DEVIATION);
    y = build_gelu(b, y, transformer_name(n, block, layer, "intermediate.gelu"), false);
    return build_end(t, x, y, layer, "output");
}

static enum ps_status build(struct graph *graph, const struct model_options *sizes, struct spec *options,
                            struct ps_error *error) {
    struct transformer t = {.builder = {graph, error}, .layers = 48, .width = 1024, .heads = 16, .dropout = 0.1f};
    TRY(transformer_read(options, sizes, &t, error));
    struct builder *b = &t.builder;
    int tokens = build_tokens(b, sizes->positions), embedding;
    int x = build_sentence(&t, tokens, sizes->vocabulary, &embedding);
    for (int layer = 0; layer < t.layers; layer++) x = build_block(&t, x, tokens, layer);
    x = transformer_linear(&t, x, "cls.predictions.transform.dense", t.width, true, DEVIATION);
    x = build_gelu(b, x, "cls.predictions.transform.gelu", false);
    x = build_layer_norm(b, x, "cls.predictions.transform.LayerNorm", EPSILON);
    x = transformer_head(&t, x, "cls.predictions.decoder", true, DEVIATION, embedding);
    build_cross_entropy(b, x, "loss");
    return graph->status;
}

const struct model model_bert48 = {
    .name = "bert48",
    .summary = "BERT of 48 layers (or any number) that fills in masked tokens; tied=1: its head has the embedding's weights",
    .defaults = {.positions = 512, .vocabulary = 30522},
    .training = {.optimizer = "adam", .lr = 1e-4, .batch = 8},
    .masked = true,
    .keys = {"layers", "width", "heads", "positions", "dropout", "tied", NULL},
    .build = build,
};
