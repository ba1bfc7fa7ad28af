/*
 * Emulated links, for trying a cluster on one machine: each transfer takes as long as the cluster file says. The rule is the
 * simulator's: a transfer starts when both ends have posted and its links are free, and occupies them for latency plus size
 * over bandwidth. Emulated devices are slowed down by their workers (exec/worker.h); memory limits apply as always.
 */
#ifndef PENSTOCK_COMM_EMULATION_H
#define PENSTOCK_COMM_EMULATION_H

#include "compute/sizes.h"
#include "plan/cluster.h"
#include "program/routes.h"

struct emulation;

/* `sizes` per stage; for stages of other processes only the sizes of blocks that are transferred here are used. All arguments
 * are borrowed for the call. */
enum ps_status emulation_create(const struct ps_cluster *cluster, const struct ps_programs *programs,
                                const struct routes *routes, const struct stage_sizes *sizes, struct emulation **emulation,
                                struct ps_error *error);
void emulation_destroy(struct emulation *emulation); /* NULL is fine */
/* The time at which a transfer ends if both ends have posted at `when`. From any thread. `emulation` NULL: returns `when`. */
double emulation_carry(struct emulation *emulation, int route, double when);

#endif
