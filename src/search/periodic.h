/* Plans with a periodic schedule of their own: those of madpipe, and cuts that hold more micro-batches than 1F1B does. */
#ifndef PENSTOCK_SEARCH_PERIODIC_H
#define PENSTOCK_SEARCH_PERIODIC_H

#include "plan/planner.h"
#include "program/lower.h"

/* Gives the plan, whose stages are the answer's, its schedule: a pattern, or 1f1b-star. */
enum ps_status periodic_schedule(const struct planner_answer *answer, struct ps_plan *plan, struct ps_error *error);
/* A pattern for the plan's cut (periodic_cut.c), as many micro-batches under way as keep its busiest worker or link busy. No
 * stage has replicas. A backward takes `update_share` of its stage's update along. PS_NO_PLAN: there is none. */
enum ps_status periodic_schedule_cut(const struct ps_profile *profile, const struct ps_cluster *cluster, double update_share,
                                     struct ps_plan *plan, struct ps_error *error);
/* Makes the operations that compute the plan's pattern. */
enum ps_status periodic_set_pattern(const struct periodic_operation *operations, int operation_count, int64_t period_ns,
                                    struct ps_plan *plan, struct ps_error *error);

/* Per worker what MadPipe's published formula counts for these programs of the plan (with a limit of memory only): two versions
 * of the weights and a gradient, two buffers at each cut, and the inputs that are held when a forward starts, where that is
 * most. */
enum ps_status periodic_paper_memory(const struct planner_problem *problem, const struct ps_plan *plan,
                                     const struct ps_programs *programs, struct worker_memory *memory, struct ps_error *error);

#endif
