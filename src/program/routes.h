/*
 * Routes: the ways that blocks take from one instance to another, one per pair of instances and kind of traffic. Activations
 * and gradients go between the instances of neighbouring stages that work on the same micro-batch; stashes with their inputs,
 * and weights, between the two instances of a split stage.
 */
#ifndef PENSTOCK_PROGRAM_ROUTES_H
#define PENSTOCK_PROGRAM_ROUTES_H

#include "program/program.h"

/* What it is called, between which instances it goes, and the kinds of block at its two ends. */
struct traffic_info {
    const char *name;
    int step;                      /* from a stage to the one so many further */
    bool from_forward, to_forward; /* from (to) the instance that runs the forward; else the one that runs the backward */
    enum block_kind sent, received;
};
extern const struct traffic_info traffic_table[TRAFFICS];
/* Bytes of one block of it; `from` are the sizes of the stage that sends. */
int64_t traffic_bytes(enum traffic traffic, const struct stage_sizes *from);

struct route {
    int from, to; /* instances */
    enum traffic traffic;
};

struct routes {
    struct route *list; /* by `from` */
    int count;
    int *first; /* per instance and one more at the end: the routes that leave it */
};

enum { NO_ROUTE = -1 };

enum ps_status routes_create(const struct ps_programs *programs, struct routes *routes, struct ps_error *error);
/* A zeroed one is fine. */
void routes_free(struct routes *routes);
/* The number of a route, or NO_ROUTE. */
int routes_find(const struct routes *routes, int from, int to, enum traffic traffic);
/* The route over which an instance sends a block of `kind` to another instance, or receives one from it (`sends` says which),
 * or NO_ROUTE. */
int routes_between(const struct routes *routes, int instance, int other, enum block_kind kind, bool *sends);
/* The route of a block of a send or a receive of `worker`. */
int routes_of(const struct routes *routes, const struct ps_programs *programs, int worker,
              const struct instruction *instruction, enum block_kind kind);

#endif
