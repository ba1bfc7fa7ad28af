/*
 * Ghosts: at rank 0, what stands for the workers of other processes when weights are written or read: their stages with weights,
 * statistics and moments, and nothing to run them with. Whoever writes a checkpoint finds all stages in the crew, wherever they
 * were trained. They are made on the `reference` device, whose parameters lie in canonical order: what travels is independent
 * of the layout that each host's kernels like.
 */
#ifndef PENSTOCK_RUN_GHOSTS_H
#define PENSTOCK_RUN_GHOSTS_H

#include "run/crew.h"

/* All processes call these, between segments, with the same options; where the crew is all in one process they do nothing. */

/* Makes the ghosts at rank 0, where there are none yet. Only rank 0 need call it. */
enum ps_status ghosts_make(struct crew *crew, const struct worker_options *options, struct ps_error *error);
/* Brings every ghost up to date, making it where there is none yet. */
enum ps_status ghosts_fetch(struct crew *crew, const struct worker_options *options, struct ps_error *error);
/* The other way round: what the ghosts hold becomes what the workers go on with. */
enum ps_status ghosts_give_back(struct crew *crew, const struct worker_options *options, struct ps_error *error);

#endif
