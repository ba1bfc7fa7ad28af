/* Programs held against the memory of the devices that they are for. */
#ifndef PENSTOCK_SIMULATE_LIMITS_H
#define PENSTOCK_SIMULATE_LIMITS_H

#include "plan/cluster.h"
#include "program/lower.h"

/* PS_NO_PLAN where a worker takes more than its device has (cluster.devices[].memory_bytes; 0: no limit): names the worker, its
 * first instruction that does not fit any more, what is needed for it and the limit. `sizes` per stage, `moments` optimizer
 * blocks. */
enum ps_status limits_check(const struct ps_programs *programs, const struct stage_sizes *sizes, int moments,
                            const struct ps_cluster *cluster, struct ps_error *error);

#endif
