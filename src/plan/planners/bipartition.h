/*
 * Bi-Partition's problem (separate cuts for forward and backward): shared by the exact planner and the paper's own algorithm.
 *
 * Workers are in a fixed order. The workers before worker k run `i` layers of the forward and `j` of the backward: worker k's
 * forward range is i_k..i_{k+1}-1, its backward range j_k..j_{k+1}-1; either may be empty, and an idle worker has neither.
 */
#ifndef PENSTOCK_PLAN_PLANNERS_BIPARTITION_H
#define PENSTOCK_PLAN_PLANNERS_BIPARTITION_H

#include "plan/planner.h"

/* Of layers first..last as a stage, with what they share (compute/sizes.h). */
struct bipartition_range {
    int64_t parameter_bytes, narrow_bytes, repeated_gradient_bytes, workspace_bytes;
};

/* Of one type of device: sums over the first i layers, layers + 1 values each. */
struct bipartition_sums {
    const struct cost_table *costs;
    int64_t *forward_ns, *backward_ns;
    int64_t *parameter_bytes, *narrow_bytes, *unchanged_bytes, *stash_bytes, *delta_bytes;
    int64_t *moved_bytes; /* stash and a copy of the weights: transferred if forward and backward are on different workers */
    int64_t *cut_bytes;   /* no sum: across the cut after i layers; 0 at both ends */
    struct bipartition_range *ranges; /* [first][last], if memory is limited; else NULL */
};

struct bipartition {
    struct arena arena; /* of its tables, and of other data with the same lifetime */
    const struct planner_problem *problem;
    bool paper_boundaries;  /* boundaries take the paper's time */
    double boundary_factor; /* and count so many times */
    int layers, workers;
    struct bipartition_sums *types;
    int type_count;
    const struct bipartition_sums **worker; /* the sums of each worker's type */
    int64_t *forward_ns, *backward_ns;      /* sums of each layer's time on its fastest type; no type has a smaller sum */
};

enum ps_status bipartition_open(const struct planner_problem *problem, struct bipartition *data, struct ps_error *error);
void bipartition_close(struct bipartition *data);

/* Nanoseconds that the boundary between workers k and k + 1 is busy per micro-batch: the activations and gradients of both
 * cuts, and (except by the paper's cost) the stashes and weights of the layers between them, which are sent to the worker that
 * runs their backward and back. */
double bipartition_boundary_ns(const struct bipartition *data, int k, int i, int j);
double bipartition_load_ns(const struct bipartition *data, int k, int i, int i2, int j, int j2);
/* Memory of worker k: for the layers of its backward as in any stage; for those that it only runs forward one copy of the
 * weights and the stash that is being computed and sent. Equal ranges give the memory of the stage. `rising` omits everything
 * that need not grow with i2 and j2: no larger i2 and j2 need less than that. */
int64_t bipartition_memory(const struct bipartition *data, int k, int i, int i2, int j, int j2, bool rising);
/* Memory limit of the planned ranges of worker k; INT64_MAX: no limit. */
static inline int64_t bipartition_limit(const struct bipartition *data, int k) {
    int64_t limit = data->problem->cluster->devices[k].memory_bytes;
    return limit > 0 ? limit : INT64_MAX;
}
/* The plan of the cuts i[0..workers], j[0..workers]. */
enum ps_status bipartition_answer(const struct bipartition *data, const int *i, const int *j, struct planner_answer *answer,
                                  struct ps_error *error);
/* The longest of all loads and boundaries. */
double bipartition_period_ns(const struct bipartition *data, const int *i, const int *j);

#endif
