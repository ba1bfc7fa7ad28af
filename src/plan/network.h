/* A graph of costs as the enumeration of its cuts needs it (plan/ideals.h): only nodes that count, numbered from 0, in groups
 * whose nodes are on the same side of every cut. */
#ifndef PENSTOCK_PLAN_NETWORK_H
#define PENSTOCK_PLAN_NETWORK_H

#include "profile/costgraph.h"

struct network {
    int count;
    int64_t *time_ns, *weight_bytes, *value_bytes;
    int *successor_first, *successors, *predecessor_first, *predecessors; /* each reader of a node once */
    int group_count, size;                                                /* size: nodes of a branch in one group at most */
    int *order;                                                           /* the nodes, each behind those that it reads */
    int *group_first;                                                     /* group_count + 1 offsets into order */
    int *group;                                                           /* of each node */
};

/* Each node in a group of its own; nodes[n] are their numbers in the graph (freed by the caller). Nodes at the end of the graph
 * that cost neither time nor memory are left out. On failure, too, network_free and free(nodes). */
enum ps_status network_make(const struct costgraph *graph, struct network *network, int **nodes, struct ps_error *error);
void network_free(struct network *network);

/* Fewer groups; PS_NO_PLAN: there is but one. */
enum ps_status network_join(struct network *network, struct ps_error *error);

#endif
