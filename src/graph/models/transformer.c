/* See transformer.h. */
#include "graph/models/transformer.h"

#include <stdio.h>

enum ps_status transformer_read(struct spec *options, const struct model_options *sizes, struct transformer *given,
                                struct ps_error *error) {
    double dropout = (double)given->dropout;
    if (given->positions == 0) given->positions = sizes->positions;
    TRY(spec_int(options, "layers", 1, 10000, &given->layers, error));
    TRY(spec_int(options, "width", 1, 1 << 20, &given->width, error));
    TRY(spec_int(options, "heads", 1, 1 << 12, &given->heads, error));
    TRY(spec_int(options, "positions", 1, 1 << 20, &given->positions, error));
    TRY(spec_number(options, "dropout", 0, 0.99, &dropout, error));
    given->dropout = (float)dropout;
    TRY(spec_int(options, "tied", 0, 1, &given->tied, error));
    return PS_OK;
}

int transformer_initial(struct transformer *t, int node, float deviation) {
    if (node >= 0) graph_set_initial(t->builder.graph, node, 0, (struct initial){INITIAL_NORMAL, deviation});
    return node;
}

int transformer_linear(struct transformer *t, int input, const char *name, int features, bool bias, float deviation) {
    struct attributes attributes = {.channels = features, .bias = bias};
    struct builder *b = &t->builder;
    int node = transformer_initial(t, graph_add(b->graph, OPERATOR_LINEAR, name, &attributes, &input, 1, b->error), deviation);
    if (node >= 0 && bias) graph_set_initial(b->graph, node, 1, (struct initial){INITIAL_CONSTANT, 0});
    return node;
}

int transformer_head(struct transformer *t, int input, const char *name, bool bias, float deviation, int embedding) {
    struct graph *graph = t->builder.graph;
    int vocabulary = embedding >= 0 ? graph->nodes[embedding].attributes.vocabulary : 0;
    int head = transformer_linear(t, input, name, vocabulary, bias, deviation);
    if (t->tied && head >= 0) graph_tie(graph, head, 0, embedding, 0);
    return head;
}

const char *transformer_name(char name[64], const char *before, int layer, const char *after) {
    snprintf(name, 64, "%s.%d.%s", before, layer, after);
    return name;
}
