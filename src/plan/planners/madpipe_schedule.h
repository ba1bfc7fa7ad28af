/*
 * A valid periodic schedule of given stages: when in the period each computation and transfer starts, and for which
 * micro-batch.
 */
#ifndef PENSTOCK_PLAN_PLANNERS_MADPIPE_SCHEDULE_H
#define PENSTOCK_PLAN_PLANNERS_MADPIPE_SCHEDULE_H

#include "plan/planners/madpipe.h"

/* Room for 4 operations per stage in `operations`. `found` is false where there is none, `nodes` falls by the steps taken, and
 * when it reaches 0 the search gives up (found false). */
enum ps_status madpipe_schedule(const struct madpipe *data, const struct madpipe_stage *stages, int count, int64_t period_ns,
                                int *nodes, struct periodic_operation *operations, int *operation_count, bool *found,
                                struct ps_error *error);

/* Gives the operations, which stand in the order of a batch's way, their starts by packing them on their resources; false where
 * that is no valid schedule. */
bool madpipe_pack(const struct madpipe *data, const struct madpipe_stage *stages, int stage_count, int64_t period_ns,
                  struct periodic_operation *operations, const int *resource, int count);

/* A plan with a schedule. */
struct madpipe_found {
    struct madpipe_stage *stages;
    int stage_count;
    struct periodic_operation *operations; /* none: 1F1B* */
    int operation_count;
    int64_t period_ns;
};

/* Searches the least period above `low` and below best->period_ns for which the given stages can be scheduled, to 0.001%, and
 * puts what it finds (verified) into `best`. Takes no more than `nodes`, which falls. `operations` is scratch. */
enum ps_status madpipe_schedule_least(const struct madpipe *data, const struct madpipe_stage *stages, int count, int64_t low,
                                      int nodes_per_test, int *nodes, struct periodic_operation *operations,
                                      struct madpipe_found *best, struct ps_error *error);

/* Improves `best` (a plan; without operations: contiguous stages under 1F1B*) by small changes of its stages, until none helps,
 * the period is `bound`, or the scheduler has taken `nodes`. `operations` is scratch: room for 4 per layer, and 4 more. */
enum ps_status madpipe_climb(const struct madpipe *data, int64_t bound, int nodes, struct periodic_operation *operations,
                             struct madpipe_found *best, struct ps_error *error);

/* How much may be tried; falls as it is. */
struct madpipe_effort {
    int64_t bound;      /* no plan has a shorter period */
    int64_t steps;      /* stages placed */
    int nodes;          /* of the scheduler */
    int nodes_per_plan; /* and of these for one plan and period */
};

/* Tries every allocation that may have a schedule of the period, which is below that of `best`. `refuted`: there is none.
 * Otherwise `best` has become better, or the effort did not suffice. `operations` is scratch: room for 4 per layer. */
enum ps_status madpipe_refute(const struct madpipe *data, int64_t period_ns, struct madpipe_effort *effort,
                              struct periodic_operation *operations, struct madpipe_found *best, bool *refuted,
                              struct ps_error *error);

/* Normal stages get the workers from 1 on in order, the special ones worker 0; without special stages the first is 0. */
enum ps_status madpipe_answer(const struct madpipe *data, const struct madpipe_found *best, struct planner_answer *answer,
                              struct ps_error *error);

/* Is it valid? Dependencies, no overlap on any worker or link, and memory at every moment; counted from the times alone. */
bool madpipe_schedule_valid(const struct madpipe *data, const struct madpipe_stage *stages, int count, int64_t period_ns,
                            const struct periodic_operation *operations, int operation_count);

#endif
