/*
 * Routes: the ways that blocks take from one part to another, one per pair of parts and kind of traffic. Activations and gradients go
 * between the parts of neighbouring stages that work on the same micro-batch.
 */
#ifndef PENSTOCK_PROGRAM_ROUTES_H
#define PENSTOCK_PROGRAM_ROUTES_H

#include "program/program.h"

enum traffic { TRAFFIC_ACTIVATION, TRAFFIC_GRADIENT };

struct route {
    int from, to; /* parts */
    enum traffic traffic;
};

struct routes {
    struct route *list; /* by `from` */
    int count;
    int *first; /* per part and one more at the end: the routes that leave it */
};

enum { NO_ROUTE = -1 };

enum ps_status routes_create(const struct ps_programs *programs, struct routes *routes, struct ps_error *error);
/* A zeroed one is fine. */
void routes_free(struct routes *routes);
/* The number of a route, or NO_ROUTE. */
int routes_find(const struct routes *routes, int from, int to, enum traffic traffic);
/* The route of a send or a receive of `worker`. */
int routes_of(const struct routes *routes, const struct ps_programs *programs, int worker, const struct instruction *instruction);
/* Which slots of a part a route fills or empties. */
static inline enum block_kind route_sent(enum traffic traffic) {
    return traffic == TRAFFIC_ACTIVATION ? BLOCK_OUTPUT : BLOCK_INPUT_GRADIENT;
}
static inline enum block_kind route_received(enum traffic traffic) {
    return traffic == TRAFFIC_ACTIVATION ? BLOCK_INPUT : BLOCK_OUTPUT_GRADIENT;
}

#endif
