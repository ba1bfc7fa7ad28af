/*
 * Background load for a measurement: threads that run the same network meanwhile, as other workers of a pipeline do. Cores
 * share memory, caches and power, so that a layer takes longer while the others work.
 */
#ifndef PENSTOCK_PROFILE_BACKGROUND_LOAD_H
#define PENSTOCK_PROFILE_BACKGROUND_LOAD_H

#include "profile/bench.h"

struct background_load;

/* Starts `count` threads (0: none), each with a device of its own like that of `like`, which need not be open, and returns when
 * all have run a round. */
enum ps_status background_load_start(const struct bench *like, int count, struct background_load **background_load,
                                     struct ps_error *error);
/* Ends them and frees all. What one of them failed with is returned. NULL is fine. */
enum ps_status background_load_end(struct background_load *background_load, struct ps_error *error);

#endif
