/* The recorded computations of an executor as a timeline: the last that all workers have recorded of the last segment. */
#ifndef PENSTOCK_EXEC_TRACE_H
#define PENSTOCK_EXEC_TRACE_H

#include "exec/executor.h"

/* At most `most` computations and sums per worker, times from the beginning of the window. `programs`: any of training;
 * `figures`: the memory of the workers' blocks. The caller frees it (timeline_free). */
enum ps_status trace_collect(const struct executor *executor, const struct ps_programs *programs,
                             const struct ps_run_worker *figures, int most, struct timeline *timeline, struct ps_error *error);

#endif
