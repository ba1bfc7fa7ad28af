/* A plan is data: which layers form a stage, who runs its forward and its backward, in which order, with which weights. */
#ifndef PENSTOCK_PLAN_PLAN_H
#define PENSTOCK_PLAN_PLAN_H

#include "plan/cluster.h"
#include "profile/profile.h"

enum { PLAN_SHIFT_MAX = 1 << 16 };
enum { PLAN_WORKERS_MAX = 4096, PLAN_MICRO_BATCHES_MAX = 1 << 20 };

struct plan_stage {
    int first, last; /* layers from 0, inclusive (files count from 1) */
    int *forward;    /* workers that run the forward; more than one: replicas */
    int forward_count;
    int *backward; /* workers that run the backward and update */
    int backward_count;
    bool recompute;
    int in_flight; /* micro-batches held at most, where the schedule asks for it (1f1b-star); 0: not said */
};

/* What a worker's memory is for, in bytes; also what programs are counted to take (stage_memory). */
struct worker_memory {
    int64_t weights, gradients, optimizer, stash, buffers, workspace;
};
int64_t worker_memory_total(const struct worker_memory *memory);

struct plan_prediction {
    bool known;
    bool simulated; /* else there are neither period_s, throughput, bubble nor memory: nothing can run programs of this class */
    char limit[256]; /* what keeps the plan from being faster, for people; may be empty */
    double objective_s, period_s, throughput_samples_per_s, bubble, lower_bound_s, gap, solve_s;
    double *load_s;               /* per worker */
    struct worker_memory *memory; /* per worker */
};

/* One computation of a periodic pattern, on its stage's worker: in period k it works on micro-batch k - shift. */
struct plan_operation {
    bool backward;
    int stage, shift;
};

struct ps_plan {
    char network[17]; /* the hash of what it is for; "": not known */
    char model[128], method[32], schedule[32], weights[32], optimizer[32];
    int workers, micro_batch, micro_batches;
    struct plan_stage *stages;
    int stage_count;
    bool paper_prediction;
    bool tied; /* the first and the last layer share a parameter, whose gradients are added up over their stages */
    struct plan_prediction predicted;
    char **order; /* layer names, where the plan cuts the graph along another topological order than the profile's; else NULL */
    int order_count;
    struct plan_operation *pattern; /* in each worker's order; NULL: none */
    int pattern_count;
    struct arena arena; /* of all that it points to */
};

/* Stages without layers or workers, which plan_stage_set or plan_stage_workers give them; the prediction has room for every
 * worker but is not known. The optimizer is sgdm, micro_batches 1. */
enum ps_status plan_create(int workers, int stage_count, struct ps_plan **plan, struct ps_error *error);
/* Gives stage `stage` one worker for both directions. */
enum ps_status plan_stage_set(struct ps_plan *plan, int stage, int first, int last, int worker, struct ps_error *error);
/* Gives a stage its workers (copied). */
enum ps_status plan_stage_workers(struct ps_plan *plan, int stage, const int *forward, int forward_count, const int *backward,
                                  int backward_count, struct ps_error *error);
/* Gives the plan a pattern (copied), in place of what it has. */
enum ps_status plan_pattern_set(struct ps_plan *plan, const struct plan_operation *pattern, int count, struct ps_error *error);
/* Gives the plan an order of its layers by their names (copied). */
enum ps_status plan_order_set(struct ps_plan *plan, const char *const *names, int count, struct ps_error *error);
enum ps_status plan_copy(const struct ps_plan *plan, struct ps_plan **copy, struct ps_error *error);
/* Stages cover layers 0..layer_count-1 in order without gaps, workers exist, numbers fit together; PS_BAD_INPUT and the path of
 * the field. layer_count 0: how many layers there are is not known yet. That the schedule, the policy and the optimizer exist
 * is for those to check who have their tables. */
enum ps_status plan_check(const struct ps_plan *plan, int layer_count, struct ps_error *error);
/* Has a stage several workers in one direction? */
bool plan_has_replicas(const struct ps_plan *plan);
/* Does some stage run its two directions on different workers? */
bool plan_is_split(const struct ps_plan *plan);
/* Does a worker run forwards of the stage? Forwards or backwards? */
bool plan_stage_forwards_on(const struct plan_stage *stage, int worker);
bool plan_stage_is_on(const struct plan_stage *stage, int worker);
/* A plan from the text of its file, as another process sends it. */
enum ps_status plan_parse(const char *text, size_t size, struct ps_plan **plan, struct ps_error *error);
/* PS_USAGE where the plan cuts the graph along another order than the table's layers: such plans can be simulated with
 * the graph's costs (simulate/simulate.h), but not trained. */
enum ps_status plan_check_order(const struct ps_plan *plan, const struct cost_table *costs, struct ps_error *error);

/* What a stage takes of its worker's memory, from its sizes and the number of slots that its program uses. */

/* How many copies of each kind of block a stage's program has alive at once: read off the program by the allocate pass
 * (program/passes/allocate.c). They depend on schedule, policy and the stage's place, not on its layers. */
struct stage_slots {
    int weights;         /* copies of the weights: versions alive and predictions */
    int stash;           /* micro-batches whose stash is alive */
    int input;           /* input blocks: those kept for the backward and the one on its way */
    int output;          /* output blocks: being made or on their way out */
    int output_gradient; /* gradients that arrive */
    int input_gradient;  /* gradients that leave */
    int delta;           /* micro-batches between the two halves of their backward */
    bool forward_only;   /* the weights are updated elsewhere: no gradients, no optimizer state */
};

/* weights: copies and statistics; gradients: one; optimizer: `moments` blocks; stash: stashes, deltas and input blocks;
 * buffers: the other boundary blocks; workspace. Workspace is shared by a worker's stages: of several, the largest counts. */
struct worker_memory stage_memory(const struct stage_sizes *sizes, const struct stage_slots *slots, int moments);
/* Adds a further stage of the same worker. */
void worker_memory_add(struct worker_memory *total, const struct worker_memory *stage);

#endif
