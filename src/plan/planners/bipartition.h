/*
 * Bi-Partition's problem (separate cuts for forward and backward): what the exact planner and the paper's own share.
 *
 * Workers stand in a row. Before worker k, `i` layers of the forward and `j` of the backward are done by others: its forward
 * range is i_k..i_{k+1}-1, its backward range j_k..j_{k+1}-1; either may be empty, and an idle worker has neither.
 */
#ifndef PENSTOCK_PLAN_PLANNERS_BIPARTITION_H
#define PENSTOCK_PLAN_PLANNERS_BIPARTITION_H

#include "plan/planner.h"

/* Of one type of device: sums over the first i layers, layers + 1 values each. */
struct bipartition_sums {
    const struct cost_table *costs;
    int64_t *forward_ns, *backward_ns;
    int64_t *parameter_bytes, *statistics_bytes, *stash_bytes;
    int64_t *moved_bytes;     /* stash and weights: what crosses when forward and backward are apart */
    int64_t *cut_bytes;       /* no sum: across the cut after i layers; 0 at both ends */
    int64_t *workspace_bytes; /* [first][last] of a stage, where memory counts; else NULL */
};

struct bipartition {
    struct arena arena; /* of its tables, and of what is as long needed */
    const struct planner_problem *problem;
    int layers, workers;
    struct bipartition_sums *types;
    int type_count;
    const struct bipartition_sums **worker; /* the sums of each worker's type */
    int64_t *forward_ns, *backward_ns;      /* sums of what each layer takes where it is fastest: no type has a smaller one */
};

enum ps_status bipartition_open(const struct planner_problem *problem, struct bipartition *data, struct ps_error *error);
void bipartition_close(struct bipartition *data);

/* Nanoseconds that the boundary between workers k and k + 1 is busy per micro-batch: the activations and gradients of both
 * cuts, and (unless the paper's cost is asked for) the stashes and weights of the layers between them, which travel to the
 * worker that runs their backward and back. */
double bipartition_boundary_ns(const struct bipartition *data, int k, int i, int j);
double bipartition_load_ns(const struct bipartition *data, int k, int i, int i2, int j, int j2);
/* Memory of worker k: of the layers of its backward as in any stage; of those that it only runs forward one copy of the weights
 * and the stash that is being made and sent. Equal ranges give the memory of the stage. `rising` leaves out what need not grow
 * with i2 and j2: no larger i2 and j2 take less than that. */
int64_t bipartition_memory(const struct bipartition *data, int k, int i, int i2, int j, int j2, bool rising);
/* What the planned ranges of worker k may take; INT64_MAX: there is no limit. */
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
