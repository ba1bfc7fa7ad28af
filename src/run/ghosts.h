/*
 * Ghosts: at rank 0, what stands for the workers of other processes when weights are written or read: their stages with
 * weights, statistics and moments, and nothing to run them with. Whoever reads or writes a checkpoint finds all stages in the
 * crew, wherever they are trained. They are made on the `reference` device, whose parameters lie in canonical order: what
 * travels is independent of the layout that each host's kernels like.
 */
#ifndef PENSTOCK_RUN_GHOSTS_H
#define PENSTOCK_RUN_GHOSTS_H

#include "run/crew.h"

/* All processes call these, between segments, with the same options; where the crew is all in one process they do nothing. */

/* Makes the ghosts at rank 0, where there are none yet. Only rank 0 need call it. */
enum ps_status ghosts_make(struct crew *crew, const struct worker_options *options, struct ps_error *error);
/* What a checkpoint takes of the stages of this process, which is not rank 0, goes there; their updates with it. Rank 0 calls
 * for each of these stages, in their order, ghosts_receive: weights with running statistics, and moments, in canonical order,
 * to where it says; what the ghost has none of is left out. */
enum ps_status ghosts_send(struct crew *crew, const struct worker_options *options, struct ps_error *error);
enum ps_status ghosts_receive(struct crew *crew, struct worker_stage *stage, int rank, void *weights, size_t weights_bytes,
                              void *moments, size_t moments_bytes, struct ps_error *error);
/* What the ghosts hold, having been loaded, becomes what the workers go on with; the ghosts give back their memory, which
 * nobody asks for again. */
enum ps_status ghosts_give_back(struct crew *crew, const struct worker_options *options, struct ps_error *error);

#endif
