/*
 * Routes: one per ordered pair of instances and kind of traffic. Activations and gradients go between the instances of adjacent
 * stages that run the same micro-batch. Stashes with their inputs, and weights, go between the two instances of a split stage.
 */
#ifndef PENSTOCK_PROGRAM_ROUTES_H
#define PENSTOCK_PROGRAM_ROUTES_H

#include "program/program.h"

/* The name of a kind of traffic, the instances that it connects, and the kinds of block at its two ends. */
struct traffic_info {
    const char *name;
    int step;                      /* stage of the receiver minus stage of the sender */
    bool from_forward, to_forward; /* the sender (receiver) is the instance that runs the forward; else the one that runs the
                                    * backward */
    enum block_kind sent, received;
};
extern const struct traffic_info traffic_table[TRAFFICS];
/* What the transfer of one block weighs, from the sizes of the stage at either end: the one place that says it, for links of
 * simulations and emulations and for what workers count as sent and received. */
int64_t transfer_bytes(const struct stage_sizes *size, enum block_kind kind);
/* The same by kind of traffic; `from` are the sizes of the sending stage. */
int64_t traffic_bytes(enum traffic traffic, const struct stage_sizes *from);

/* Bytes that a worker has exchanged with other workers. */
struct traffic_count {
    int64_t sent, received;
};
/* Counts an instruction of `worker`: the blocks of a send or a receive, unless its peer is the worker itself; and of a sum (AR)
 * what a ring sends and receives, however it is carried out. `size`: of the instruction's stage. */
void traffic_count_add(struct traffic_count *count, const struct ps_programs *programs, int worker,
                       const struct instruction *instruction, const struct stage_sizes *size);

struct route {
    int from, to; /* instances */
    enum traffic traffic;
};

struct routes {
    struct route *list; /* in the order of `from` */
    int count;
    int *first; /* per instance, and one more at the end: its first route in `list` */
};

enum { NO_ROUTE = -1 };

enum ps_status routes_create(const struct ps_programs *programs, struct routes *routes, struct ps_error *error);
/* May be called on a zeroed struct. */
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
