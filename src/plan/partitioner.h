/*
 * Partitioners decide which layers each stage gets. Each has a file in partitioners/ and a line in partitioners/table.c. They
 * use the cost model only: costs, cluster, and the number of slots that the schedule and policy will use. The search (search/)
 * evaluates plans with the simulator and chooses among methods and schedules.
 */
#ifndef PENSTOCK_PLAN_PARTITIONER_H
#define PENSTOCK_PLAN_PARTITIONER_H

#include "plan/plan.h"

struct partition_problem {
    const struct cost_table *costs;
    const struct ps_cluster *cluster;
    const int *worker;               /* per stage: the worker that runs it; NULL: stage s on worker s */
    const double *share;             /* per stage: how much of its worker's memory it may use; NULL: all of it */
    int stages;                      /* exactly this many, each with at least one layer */
    const struct stage_slots *slots; /* per stage; NULL: memory is not limited */
    int moments;                     /* optimizer state, in blocks of the weights */
    bool recompute;                  /* every stage recomputes its forward */
};

struct partition {
    int *last;            /* per stage: its last layer, from 0 (caller's array of `stages`) */
    double objective_s;   /* what the method minimised */
    double lower_bound_s; /* no plan of the method's class has a smaller objective */
};

struct partitioner {
    const char *name, *summary;
    bool leaves_idle; /* by its name it is also tried on fewer workers, and the others are idle if that is faster */
    /* PS_NO_PLAN names the stage or layer, what it needs and the limit. */
    enum ps_status (*solve)(const struct partition_problem *problem, struct partition *partition, struct ps_error *error);
};

extern const struct partitioner *const partitioner_table[]; /* NULL-terminated */

/* Finds an entry; PS_USAGE and the nearest name if there is none. */
enum ps_status partitioner_find(const char *name, const struct partitioner **partitioner, struct ps_error *error);

/* PS_NO_PLAN if there are fewer layers than stages. */
enum ps_status partition_check_layers(const struct partition_problem *problem, struct ps_error *error);
/* PS_NO_PLAN if a stage does not fit its worker: names the worst one; the hint is a table of what each needs. */
enum ps_status partition_check_memory(const struct partition_problem *problem, const int *last, struct ps_error *error);

/* The first layer of a stage; `last`: the last layer of every stage. */
static inline int partition_first(const int *last, int stage) { return stage > 0 ? last[stage - 1] + 1 : 0; }
static inline int partition_worker(const struct partition_problem *problem, int stage) {
    return problem->worker ? problem->worker[stage] : stage;
}
/* The costs on the worker's type of device. */
static inline const struct cost_table *partition_costs(const struct partition_problem *problem, int stage) {
    return cost_table_on(problem->costs, problem->cluster->devices[partition_worker(problem, stage)].type);
}
/* The memory limit of the stage: its share of its worker's memory; 0: no limit. */
int64_t partition_memory_limit(const struct partition_problem *problem, int stage);

/* Compute load of a stage (forward, backward, recomputation; without the update) on its worker, in seconds. */
double partition_load_s(const struct partition_problem *problem, int stage, int first, int last);
/* Transfers across the cut after layer `last` between stage and stage + 1, forward and backward, in seconds. */
double partition_transfer_s(const struct partition_problem *problem, int stage, int last);
struct worker_memory partition_memory(const struct partition_problem *problem, int stage, int first, int last);
/* Seconds per micro-batch of the busiest of a stage's worker and its links: the larger of load and outgoing transfers; without
 * overlap the sum of the load and the transfers across both cuts. */
double partition_stage_s(const struct partition_problem *problem, int stage, int first, int last);
/* The largest of partition_stage_s. */
double partition_objective_s(const struct partition_problem *problem, const int *last);

#endif
