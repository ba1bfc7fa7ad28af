/* A plan is data: which layers form a stage, which workers run its forward and its backward, in which order, with which
 * weights. */
#ifndef PENSTOCK_PLAN_PLAN_H
#define PENSTOCK_PLAN_PLAN_H

#include "plan/cluster.h"
#include "profile/profile.h"

enum { PLAN_SHIFT_MAX = 1 << 16, PLAN_SLACK_MAX = 1 << 10, PLAN_SLACKS_MAX = 1 << 14 /* of all stages */ };
enum { PLAN_WORKERS_MAX = 4096, PLAN_MICRO_BATCHES_MAX = 1 << 16, PLAN_OPERATIONS_MAX = 1 << 18 };

struct plan_stage {
    int first, last; /* layers from 0, inclusive (files count from 1) */
    int *forward;    /* workers that run the forward; more than one: replicas */
    int forward_count;
    int *backward; /* workers that run the backward and update */
    int backward_count;
    bool recompute;
    int in_flight;        /* micro-batches held at most, for a schedule that needs it (1f1b-star); 0: not specified */
    struct cut_wire wire; /* codecs of the cut after the stage */
    struct wire sum_wire; /* and of the gradients that its replicas sum */
};

/* The uses of a worker's memory, in bytes; also for the memory of programs (stage_memory). */
struct worker_memory {
    int64_t weights, gradients, optimizer, stash, buffers, workspace;
};
int64_t worker_memory_total(const struct worker_memory *memory);

struct plan_prediction {
    bool known;
    bool simulated;  /* false: there are neither period_s, throughput, bubble nor memory, because no programs exist for this
                      * class of plans */
    char limit[256]; /* the reason why the plan is not faster, for people; may be empty */
    double objective_s, period_s, throughput_samples_per_s, bubble, lower_bound_s, gap, solve_s;
    double *load_s;               /* per worker */
    struct worker_memory *memory; /* per worker */
};

/* One computation of a periodic pattern, on its stage's worker: in period k it works on micro-batch k - shift. */
struct plan_operation {
    bool backward;
    int stage, shift;
};

/* Of a plan that does not say otherwise. */
#define OPTIMIZER_DEFAULT "sgdm"

struct ps_plan {
    char network[17]; /* hash of the network that the plan is for; "": not known */
    char model[SPEC_SIZE], method[32], schedule[32], weights[32], optimizer[32];
    int workers, micro_batch, micro_batches;
    /* Without a flush: micro-batches that are under way between neighbouring workers beyond what the schedule needs, so that one
     * that is late for a moment does not hold up the other. */
    int slack;
    struct plan_stage *stages;
    int stage_count;
    bool paper_prediction;
    bool tied;        /* the first and the last layer share a parameter, whose gradients are summed over their stages */
    struct ties ties; /* or others do, maybe beside these: the layers of each shared parameter; count 0: no others */
    struct plan_prediction predicted;
    char **order; /* layer names, if the plan cuts the graph along another topological order than the profile's; else NULL */
    int order_count;
    struct plan_operation *pattern; /* in each worker's order; NULL: none */
    int pattern_count;
    struct arena arena; /* of everything it points to */
};

/* Stages without layers or workers, which plan_stage_set or plan_stage_workers set; the prediction has room for every worker
 * but is not known. The optimizer is sgdm, micro_batches 1. */
enum ps_status plan_create(int workers, int stage_count, struct ps_plan **plan, struct ps_error *error);
/* Gives stage `stage` its layers and one worker for both directions. */
enum ps_status plan_stage_set(struct ps_plan *plan, int stage, int first, int last, int worker, struct ps_error *error);
/* Gives a stage its workers (copied). */
enum ps_status plan_stage_workers(struct ps_plan *plan, int stage, const int *forward, int forward_count, const int *backward,
                                  int backward_count, struct ps_error *error);
/* The shift of one of the pattern's operations with slack: what a worker gets from one with a smaller number is `slack` periods
 * older, and so every circle of workers that wait for each other has slack. */
int plan_shift(const struct ps_plan *plan, const struct plan_operation *operation);
/* Sets the plan's pattern (copied). */
enum ps_status plan_pattern_set(struct ps_plan *plan, const struct plan_operation *pattern, int count, struct ps_error *error);
/* Sets the plan's order of layers by their names (copied). */
enum ps_status plan_order_set(struct ps_plan *plan, const char *const *names, int count, struct ps_error *error);
/* Sets which layers share parameters (copied, each set of layers once); `ties` NULL or empty: none but the first and the last,
 * if `ends`. */
enum ps_status plan_ties_set(struct ps_plan *plan, bool ends, const struct ties *ties, struct ps_error *error);
/* The stage of a layer. */
int plan_stage_of(const struct ps_plan *plan, int layer);
/* The stages that hold uses of parameters that others of these stages hold, too: head[s] becomes the first stage of the group
 * of stage s, s itself where it shares nothing. */
void plan_tied_stages(const struct ps_plan *plan, int *head);
enum ps_status plan_copy(const struct ps_plan *plan, struct ps_plan **copy, struct ps_error *error);
/* Checks that stages cover layers 0..layer_count-1 in order without gaps, that workers exist, and that numbers are consistent.
 * PS_BAD_INPUT and the path of the field. layer_count 0: not known yet. Schedule, policy and optimizer are checked by the
 * modules that have their tables. */
enum ps_status plan_check(const struct ps_plan *plan, int layer_count, struct ps_error *error);
/* The number of workers that have a stage. */
int plan_busy_workers(const struct ps_plan *plan);
/* Returns true if a stage has several workers in one direction. */
bool plan_has_replicas(const struct ps_plan *plan);
/* Returns true if a stage runs its two directions on different workers. */
bool plan_is_split(const struct ps_plan *plan);
/* Returns true if anything is encoded for the wire. */
bool plan_encodes(const struct ps_plan *plan);
/* The codecs of a stage; of the network's ends and of a stage without replicas: none. */
struct stage_wire plan_stage_wire(const struct ps_plan *plan, int stage);
/* Returns true if a worker runs forwards of the stage; forwards or backwards. */
bool plan_stage_forwards_on(const struct plan_stage *stage, int worker);
bool plan_stage_is_on(const struct plan_stage *stage, int worker);
/* The document of its file; NULL or incomplete where memory ran out (base/json.h). */
json_t *plan_document(const struct ps_plan *plan);
/* A plan from its file; whether its names are known is not this module's to say (ps_plan_read). */
enum ps_status plan_read(const char *path, struct ps_plan **plan, struct ps_error *error);
/* Likewise from the text of its file, as another process sends it. */
enum ps_status plan_parse(const char *text, size_t size, struct ps_plan **plan, struct ps_error *error);
/* PS_USAGE if the plan cuts the graph along another order than the table's layers: such plans can be simulated with the graph's
 * costs (simulate/simulate.h), but not trained. */
enum ps_status plan_check_order(const struct ps_plan *plan, const struct cost_table *costs, struct ps_error *error);

/* Memory of a stage on its worker, from its sizes and the number of slots that its program uses. */

/* The largest number of blocks of each kind that a stage's program uses at once, as the allocate pass counts them in the
 * program (program/passes/allocate.c). They depend on schedule, policy and the stage's number, not on its layers. */
struct stage_slots {
    int weights;           /* copies of the weights: versions in use and predictions */
    int stash;             /* micro-batches whose stash is in use */
    int input;             /* input blocks: those kept for the backward and the one being received */
    int output;            /* output blocks: being computed or sent */
    int output_gradient;   /* gradients being received */
    int input_gradient;    /* gradients being sent */
    int delta;             /* micro-batches between the two halves of their backward */
    int wire[WIRE_BLOCKS]; /* encoded blocks */
    bool forward_only;     /* the weights are updated elsewhere: no gradients, no optimizer state */
};

/* weights: copies and statistics; gradients: one; optimizer: `moments` blocks, and the master where copies are bf16; stash:
 * stashes, deltas and input blocks; buffers: the other boundary blocks, encoded ones and error feedback; workspace. Workspace
 * is shared by a worker's stages: of several, the largest counts. */
struct worker_memory stage_memory(const struct stage_sizes *sizes, const struct stage_slots *slots, int moments);
/* Adds another stage of the same worker. */
void worker_memory_add(struct worker_memory *total, const struct worker_memory *stage);

#endif
