/* Costs of a network as a graph: the contents of PipeDream's profiles. Planners that cut along any topological order use the
 * graph, others the chain made from it. */
#ifndef PENSTOCK_PROFILE_COSTGRAPH_H
#define PENSTOCK_PROFILE_COSTGRAPH_H

#include <stddef.h>

#include "profile/profile.h"

struct costgraph_node {
    char name[64];  /* its id in the file */
    char kind[32];  /* the text before the first bracket of its description */
    int64_t number; /* the number in its id, which decides between nodes that may both come next */
    double forward_s, backward_s;
    int64_t activation_bytes, parameter_bytes;
    bool input; /* the description starts with "Input": the data, which has no cost */
    int layer;  /* of the chain, from 0; -1: an input */
    int line;   /* of the file; 0: not known */
};

struct costgraph_edge {
    int from, to;
    int line; /* of the file; 0: not known */
};

struct costgraph {
    struct arena arena;           /* holds the graph itself */
    struct costgraph_node *nodes; /* in topological order, ties by `number` */
    int node_count;
    struct costgraph_edge *edges; /* each once, by `from`, then `to` */
    int edge_count;
    int *edge_first; /* node_count + 1 offsets into edges, by `from` */
    int layer_count; /* of the chain */
};

/* From nodes and edges in any order, which it copies: sorts them and forms the layers, one per node that takes time, together
 * with nodes without time before it. PS_BAD_INPUT: there is a cycle, or no node takes time. */
enum ps_status costgraph_create(const struct costgraph_node *nodes, int node_count, const struct costgraph_edge *edges,
                                int edge_count, struct costgraph **graph, struct ps_error *error);
void costgraph_destroy(struct costgraph *graph);

/* Bytes that cross the cut after layer `layer` of the chain, each value once. */
int64_t costgraph_cut_bytes(const struct costgraph *graph, int layer);

/* Makes a profile with the chain's table; takes the graph (also on failure). */
enum ps_status costgraph_profile(struct costgraph *graph, struct ps_profile **profile, struct ps_error *error);

/* Costs of the chain's layers in another order, which has other cuts: place[layer] is the position of each. A node without time
 * belongs to the layer of the last of the nodes that it reads. PS_USAGE if a layer precedes one that it reads. The profile has
 * no graph. */
enum ps_status costgraph_reorder(const struct costgraph *graph, const int *place, struct ps_profile **profile,
                                 struct ps_error *error);

#endif
