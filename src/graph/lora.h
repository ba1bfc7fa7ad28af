/*
 * Low-rank adapters (Hu et al., "LoRA: low-rank adaptation of large language models", 2021) as a rewrite of the graph. The
 * weights W of a linear layer or convolution are fixed, and a product of two small matrices is trained in addition to them:
 *
 *     x -> layer ------------------------------------------> layer/lora (add) -> ...
 *     x -> [dropout] -> lora_A -> times alpha / rank -> lora_B --^
 *
 * Parameters are named as the PEFT library names them: layer.lora_A.weight (rank x inputs, PyTorch's default initial values)
 * and layer.lora_B.weight (outputs x rank, zeros). Of a convolution, lora_A has its window and lora_B a window of 1. Nothing
 * else needs to know: the adapters are ordinary nodes. They are found again by their names and places.
 */
#ifndef PENSTOCK_GRAPH_LORA_H
#define PENSTOCK_GRAPH_LORA_H

#include "graph/graph.h"

/* What PEFT puts before the names of all parameters in its files. */
#define LORA_PREFIX "base_model.model."

/* One adapter. */
struct lora {
    const struct node *base, *dropout, *a, *b; /* dropout: NULL where there is none */
    double scale;                              /* alpha / rank */
    int rank;
};
/* Does the node end an adapter: is it the sum of a layer's output and its adapter's? */
bool lora_at(const struct graph *graph, int node, struct lora *lora);
/* How many adapters there are; `first` (may be NULL): the first of them. */
int lora_count(const struct graph *graph, struct lora *first);
/* "layer.weight" to "layer"; also "layer.in_proj_weight", as PEFT does. Returns the length of what is left. */
int lora_module_length(const char *parameter);

/* weight += scale * b a: the layer's weight as if it had learned alone. All in canonical order. */
void lora_merge(const struct lora *lora, const struct graph *graph, const float *a, const float *b, float *weight);

#endif
