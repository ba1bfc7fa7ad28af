/* The common code of the transformers: their options, and linear layers with their initial values. */
#ifndef PENSTOCK_GRAPH_MODELS_TRANSFORMER_H
#define PENSTOCK_GRAPH_MODELS_TRANSFORMER_H

#include "graph/model.h"

struct transformer {
    struct builder builder;
    int layers, width, heads;
    int positions; /* vectors in the position embedding's table */
    float dropout; /* of values and of attention weights */
    int tied;      /* the head's weights are the embedding's */
};

/* Those of `given` that options say otherwise (layers, width, heads, positions, dropout, tied). `positions` 0: as many as the
 * sequence is long. */
enum ps_status transformer_read(struct spec *options, const struct model_options *sizes, struct transformer *given,
                                struct ps_error *error);

/* Weights normal with this standard deviation, biases 0. */
int transformer_linear(struct transformer *t, int input, const char *name, int features, bool bias, float deviation);
/* An embedding's vectors (of tokens or of positions) get initial values in the same way. */
int transformer_initial(struct transformer *t, int node, float deviation);
/* The head: a linear layer to the tokens of the vocabulary that the node `embedding` has vectors for, with its weights where
 * they are tied. */
int transformer_head(struct transformer *t, int input, const char *name, bool bias, float deviation, int embedding);
/* "transformer.h.3.ln_1" of ("transformer.h.%d.%s", 3, "ln_1"); the result is overwritten by the next call on this `name`. */
const char *transformer_name(char name[64], const char *before, int layer, const char *after);

#endif
