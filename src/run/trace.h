/* The recorded computations of a crew as a timeline: the last that all workers remember of the last segment. */
#ifndef PENSTOCK_RUN_TRACE_H
#define PENSTOCK_RUN_TRACE_H

#include "run/crew.h"

/* At most `most` computations and sums per worker, times from the beginning of the window. `programs`: any of training;
 * `figures`: what the workers' blocks take. The caller frees it (timeline_free). */
enum ps_status trace_collect(const struct crew *crew, const struct ps_programs *programs, const struct ps_run_worker *figures,
                             int most, struct timeline *timeline, struct ps_error *error);

#endif
