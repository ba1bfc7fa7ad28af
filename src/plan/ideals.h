/*
 * The places where a network can be cut. An ideal is a set of nodes that holds with each node all that it reads: what may be
 * done before a cut. On a chain the ideals are its prefixes; a graph with branches has more. A stage is what lies between two
 * ideals, one inside the other.
 */
#ifndef PENSTOCK_PLAN_IDEALS_H
#define PENSTOCK_PLAN_IDEALS_H

#include "base/arena.h"
#include "profile/costgraph.h"

struct ideals {
    struct arena arena;    /* of all that it points to */
    int count;             /* in an order in which each stands behind those inside it: 0 is empty, count - 1 all nodes */
    int64_t *time_ns;      /* forward and backward of its nodes */
    int64_t *weight_bytes; /* of its nodes */
    int64_t *cut_bytes;    /* made in it and used outside, each value once */
    int *cover_first;      /* count + 1 offsets into covers */
    int *covers;           /* for each ideal those with one node less, or one group */
    int node_count, words; /* nodes that count (neither inputs nor ends without cost); words of a set of nodes */
    int *nodes;            /* their numbers in the graph, or layers of the chain */
    uint64_t *members;     /* [count][words]: bit n is nodes[n] */
    bool of_graph;         /* else of a chain */
    bool joined;           /* of groups of nodes, so that others are left out */
};

/* All ideals of a graph. Nodes at the end of the graph that cost neither time nor memory are left out: where they run makes no
 * difference. More than `limit` ideals: PS_NO_PLAN. */
enum ps_status ideals_of_graph(const struct costgraph *graph, int limit, struct ideals **ideals, struct ps_error *error);
/* The same; where they are more than `limit`, a sixteenth as many at most: those that part none of some groups of nodes. */
enum ps_status ideals_of_joined_graph(const struct costgraph *graph, int limit, struct ideals **ideals, struct ps_error *error);
/* The prefixes of a chain. */
enum ps_status ideals_of_chain(const struct cost_table *table, struct ideals **ideals, struct ps_error *error);
void ideals_destroy(struct ideals *ideals);

static inline bool ideal_holds(const struct ideals *ideals, int ideal, int node) {
    return ideals->members[(size_t)ideal * (size_t)ideals->words + (size_t)node / 64] >> (node % 64) & 1;
}

#endif
