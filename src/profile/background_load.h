/* Background load for a measurement: threads that run the same network at the same time, as other workers of a pipeline do.
 * Cores share memory, caches and power, so a layer takes longer while other cores work. */
#ifndef PENSTOCK_PROFILE_BACKGROUND_LOAD_H
#define PENSTOCK_PROFILE_BACKGROUND_LOAD_H

#include "profile/bench.h"

struct background_load;

/* Starts `count` threads (0: none), each with a device of its own like that of `like`, which need not be open. */
enum ps_status background_load_start(const struct bench *like, int count, struct background_load **background_load,
                                     struct ps_error *error);
/* Waits until all have run forward and backward once, so that what they do from then on is steady. May be NULL. */
void background_load_wait(struct background_load *background_load);
/* Ends the threads and frees everything. Returns the error of a thread that failed. May be NULL. */
enum ps_status background_load_end(struct background_load *background_load, struct ps_error *error);

#endif
