/*
 * Emulated links: for trying a cluster on one machine, each transfer takes as long as the cluster's description says. The rule
 * is the simulator's: a transfer starts when both ends have come and its link is free, and keeps the link for latency plus size
 * over bandwidth. Emulated devices are slowed down where they compute (worker.h), limits of memory are kept as always.
 */
#ifndef PENSTOCK_COMM_EMULATION_H
#define PENSTOCK_COMM_EMULATION_H

#include "compute/sizes.h"
#include "plan/cluster.h"
#include "program/routes.h"

struct emulation;

/* `sizes` per stage; of stages that are elsewhere only what travels here counts. Everything is borrowed for the call. */
enum ps_status emulation_create(const struct ps_cluster *cluster, const struct ps_programs *programs,
                                const struct routes *routes, const struct stage_sizes *sizes, struct emulation **emulation,
                                struct ps_error *error);
void emulation_destroy(struct emulation *emulation); /* NULL is fine */
/* When a transfer is over whose ends had both come at `when`. From any thread. NULL: at once. */
double emulation_carry(struct emulation *emulation, int route, double when);

#endif
