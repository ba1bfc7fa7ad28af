/*
 * The cuts of a network. An ideal is a set of nodes that contains, with each node, everything that the node reads: the nodes
 * that may be computed before a cut. On a chain the ideals are its prefixes; a graph with branches has more. A stage is the
 * difference of two ideals, one inside the other.
 */
#ifndef PENSTOCK_PLAN_IDEALS_H
#define PENSTOCK_PLAN_IDEALS_H

#include "base/arena.h"
#include "profile/costgraph.h"

struct ideals {
    struct arena arena;    /* of everything it points to */
    int count;             /* each follows all ideals that it contains: 0 is empty, count - 1 all nodes */
    int64_t *time_ns;      /* forward and backward of its nodes */
    int64_t *weight_bytes; /* of its nodes */
    int64_t *cut_bytes;    /* of the values that its nodes make and other nodes use, each value once */
    int *cover_first;      /* count + 1 offsets into `covers` */
    int *covers;           /* for each ideal the ideals with one node, or one group, less */
    int node_count, words; /* nodes that count (neither inputs nor ends without cost); machine words of a set of nodes */
    int *nodes;            /* their numbers in the graph, or layers of the chain */
    uint64_t *members;     /* [count][words]: bit n is nodes[n] */
    bool of_graph;         /* else of a chain */
    bool joined;           /* made of groups of nodes, so some ideals are missing */
};

/* All ideals of a graph. Nodes at the end of the graph without time and memory are left out: it does not matter where they run.
 * PS_NO_PLAN: there are more than `limit`. */
enum ps_status ideals_of_graph(const struct costgraph *graph, int limit, struct ideals **ideals, struct ps_error *error);
/* The same, but if there are more than `limit`: at most a sixteenth of `limit`, with certain groups of nodes kept together.
 * `all_ends`: of the nodes at the end of the graph leaves out only what takes an element of a node's result, if nothing reads
 * it, as PipeDream's program does. */
enum ps_status ideals_of_joined_graph(const struct costgraph *graph, int limit, bool all_ends, struct ideals **ideals,
                                      struct ps_error *error);
/* The prefixes of a chain. */
enum ps_status ideals_of_chain(const struct cost_table *table, struct ideals **ideals, struct ps_error *error);
void ideals_destroy(struct ideals *ideals);

static inline bool ideal_holds(const struct ideals *ideals, int ideal, int node) {
    return ideals->members[(size_t)ideal * (size_t)ideals->words + (size_t)node / 64] >> (node % 64) & 1;
}

#endif
