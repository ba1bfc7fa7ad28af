/*
 * Costs of a network as a graph: what PipeDream's profiles hold. Planners that cut along any topological order work on it;
 * the others on the chain made from it.
 */
#ifndef PENSTOCK_PROFILE_COSTGRAPH_H
#define PENSTOCK_PROFILE_COSTGRAPH_H

#include <stddef.h>

#include "profile/profile.h"

struct costgraph_node {
    char name[64];  /* its id in the file */
    char kind[32];  /* what stands before the first bracket of its description */
    int64_t number; /* the number in its id, which decides between nodes that could both come next */
    double forward_s, backward_s;
    int64_t activation_bytes, parameter_bytes;
    bool input; /* the description starts with "Input": the data, which counts nothing */
    int layer;  /* of the chain, from 0; -1: an input */
    int line;   /* of the file; 0: not known */
};

struct costgraph_edge {
    int from, to;
    int line; /* of the file; 0: not known */
};

struct costgraph {
    struct costgraph_node *nodes; /* in topological order, ties by `number` */
    int node_count;
    struct costgraph_edge *edges; /* each once, by `from`, then `to` */
    int edge_count;
    int *edge_first; /* node_count + 1 offsets into edges, by `from` */
    int layer_count; /* of the chain */
};

/* Takes nodes and edges (malloc'ed, in any order; freed on failure too), sorts them and forms the layers: one per node that
 * takes time, nodes without time going with the next one. PS_BAD_INPUT for a cycle and where no node takes time. */
enum ps_status costgraph_create(struct costgraph_node *nodes, int node_count, struct costgraph_edge *edges, int edge_count,
                                struct costgraph **graph, struct ps_error *error);
void costgraph_destroy(struct costgraph *graph);

/* Bytes that cross the cut after layer `layer` of the chain, each value once. */
int64_t costgraph_cut_bytes(const struct costgraph *graph, int layer);

/* A profile with the chain's table; takes the graph (also on failure). */
enum ps_status costgraph_profile(struct costgraph *graph, struct ps_profile **profile, struct ps_error *error);

/* Costs of the chain's layers in another order, place[layer] being where each stands: what crosses a cut is another then. A
 * node without time goes with the last of those that it reads. PS_USAGE where a layer stands before one that it reads from. The
 * profile has no graph. */
enum ps_status costgraph_reorder(const struct costgraph *graph, const int *place, struct ps_profile **profile,
                                 struct ps_error *error);

#endif
