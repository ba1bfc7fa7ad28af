/*
 * Where to cut a chain into stages whose numbers of replicas are given: what planners/pipedream.c decides together with the
 * replicas, for one choice of them. Knowing who runs a stage, it counts each worker's own type of device, memory and links,
 * which the sweeps over all choices cannot.
 */
#ifndef PENSTOCK_PLAN_REPLICAS_H
#define PENSTOCK_PLAN_REPLICAS_H

#include "plan/planner.h"

/* Stage s has replicas[s] workers, those that follow the workers of the stages before. */
struct replica_shape {
    const struct planner_problem *problem; /* its slots are not read */
    int stages;
    const int *replicas;
    const struct stage_slots *slots; /* per worker; NULL: memory does not count */
};

enum replica_goal {
    REPLICAS_LEAST_TIME,  /* seconds for a micro-batch: planners/pipedream.c says what is counted; INFINITY: nothing fits */
    REPLICAS_LEAST_MEMORY /* the largest share of its memory that a worker needs */
};

/* The best cut: fills last[stages] where there is one. */
enum ps_status replicas_cut(const struct replica_shape *shape, enum replica_goal goal, int *last, double *value,
                            struct ps_error *error);

#endif
