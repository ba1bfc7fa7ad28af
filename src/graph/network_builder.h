/* Writing a network node by node, for callers of the library and for network files. */
#ifndef PENSTOCK_GRAPH_NETWORK_BUILDER_H
#define PENSTOCK_GRAPH_NETWORK_BUILDER_H

#include "graph/network.h"

struct ps_network_builder {
    char name[2 * NETWORK_NAME_SIZE]; /* cut: a name so long is refused in the end */
    struct graph *graph;
    enum network_predicts predicts;
    struct shape target;   /* as was said; rank 0: nothing was */
    enum ps_status status; /* of the first call that failed, which left `error` */
    struct ps_error error;
};

/* Adds a node whose attributes are known; the rest is as ps_network_builder_node has it. */
int network_builder_add(struct ps_network_builder *builder, const char *name, enum operator_id id,
                        const struct attributes *attributes, const int *inputs, int input_count);
/* The node holds rows (output channels) `first`.. of the node `of` with `rows` of them, which was split (graph/split.h). */
void network_builder_slice(struct ps_network_builder *builder, int node, const char *of, int64_t first, int64_t rows);

/* Gives the node's parameter `own` ("weight") a name of the caller's. */
void network_builder_name(struct ps_network_builder *builder, int node, const char *own, const char *name);
/* The node's parameter of that name is frozen. */
void network_builder_freeze(struct ps_network_builder *builder, int node, const char *name);

/* What files call the kinds of initial values, by enum initial_kind. */
extern const char *const initial_names[3];

#endif
