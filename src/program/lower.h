/*
 * From a plan to programs: a row of passes, each of which does one thing (passes/table.c lists them in order).
 *
 *   schedule         order of computations: F and B, nothing else (schedules/)
 *   updates          U after each mini-batch's last B, and AR before it where the stage has replicas
 *   weight transfer  SW and RW of stages whose forwards and backwards run on different workers
 *   weights          which weights each F and B reads (policies/): slots, and P
 *   recompute        R before each B of a stage that keeps only its input
 *   communicate      SEND and RECEIVE of activations and gradients, posted so early that nothing can stand still
 *   allocate         numbers of the blocks, like registers
 * and verify (program/verify.c) proves the result.
 */
#ifndef PENSTOCK_PROGRAM_LOWER_H
#define PENSTOCK_PROGRAM_LOWER_H

#include "plan/plan.h"
#include "program/program.h"

/* Schedules without a placement hold one stage on each worker, stage s on worker s. */
struct placement {
    int usual;     /* stages per worker, where nobody says how many */
    bool anywhere; /* worker_of is only what is usual */
    int (*worker_of)(int stage, int stages, int workers);
    bool (*accepts)(int stages, int workers);
    const char *accepted;                                                   /* how many stages, in words, for messages */
    int replicas;                                                           /* that every stage has; 0: one */
    int (*replica_worker)(int stage, int replica, int stages, int workers); /* where they are; of replica 0 as worker_of says */
};

struct schedule {
    const char *name, *summary;
    bool flush;     /* synchronous: the pipeline drains before each update, so no update falls between an F and its B */
    bool replicas;  /* stages may have several workers that share the micro-batches */
    bool split;     /* the two directions of a stage may run on different workers */
    bool streaming; /* its workers send a result from its first part on: every transfer is streamed */
    bool lanes;     /* its workers run a forward and a backward beside each other, each with a share of the device */
    bool in_flight; /* reads from the plan how many micro-batches each stage holds */
    const struct placement *placement; /* NULL: see struct placement */
    /* Default number of micro-batches per mini-batch for `workers`. */
    int (*micro_batches)(int workers);
    /* Appends the computations of all stages of `worker` in order; NULL where write_all does it. */
    enum ps_status (*write)(const struct ps_programs *programs, int worker, struct program *program, struct ps_error *error);
    /* The same for all workers at once, for orders that are found by looking at all together. */
    enum ps_status (*write_all)(struct ps_programs *programs, struct ps_error *error);
};
extern const struct schedule *const schedule_table[]; /* NULL-terminated */
enum ps_status schedule_find(const char *name, const struct schedule **schedule, struct ps_error *error);
/* How many stages a schedule has on `workers` workers where nobody says, and which worker holds a stage. */
int schedule_stages(const struct schedule *schedule, int workers);
int schedule_worker_of(const struct schedule *schedule, int stage, int stages, int workers);
/* Replicas that a schedule gives every stage, and who holds one of them. */
int schedule_replicas(const struct schedule *schedule);
int schedule_replica_worker(const struct schedule *schedule, int stage, int replica, int stages, int workers);
/* PS_USAGE where the programs' schedule cannot run so many stages on so many workers, has no replicas, or places the stages
 * otherwise than the programs' instances do (workers may be renamed). */
enum ps_status schedule_check_placement(const struct ps_programs *programs, struct ps_error *error);

/* The workers behind that of an instance: those whose forwards, or else whose backwards, begin with a later stage. */
int schedule_workers_behind(const struct ps_programs *programs, int instance);

/* The moment of each instruction if each took one unit of time and transfers none: an order in which all can run. Computations
 * of a plan's pattern do not begin before their moment in it. */
struct program_levels {
    struct arena arena;
    int **worker; /* by worker and instruction */
};
/* PS_USAGE names the instructions that wait for each other in a circle. */
enum ps_status program_levels_count(const struct ps_programs *programs, struct program_levels *levels, struct ps_error *error);
void program_levels_free(struct program_levels *levels);
/* Of a pattern: how many moments a period has. */
int program_levels_period(const struct ps_programs *programs);
/* The first instruction of a worker that does not run before `level`; their count where there is none. */
int program_levels_first(const struct program_levels *levels, const struct ps_programs *programs, int worker, int level);

/* Which weights a computation reads: a version (updates of the stage since the segment began) and how many updates ahead of it
 * are predicted. */
struct reading {
    int version, ahead;
};

/* What a policy knows of one F or B. Versions are counted in the worker's program. */
struct reading_context {
    int stage, stages;
    int micro_batch, batch; /* batch: its mini-batch in the segment, or round of them (programs_round) */
    int forward_version;    /* updates before the forward of this micro-batch */
    int backward_version;   /* updates before its backward */
    /* Updates before the backward of the micro-batch that is floor(stage/2) later: about when the first worker runs this one's
     * backward (SpecTrain); never past the segment's end. */
    int first_worker_version;
    int horizon_version; /* the same of the micro-batch that is `stage` later: as far ahead on every stage as on the first */
    bool flush;          /* the schedule is synchronous */
};

enum prediction_rule { PREDICT_NEVER, PREDICT_OWN_RULE, PREDICT_MOMENTUM, PREDICT_ADAM };

/* A policy is two rules; slots, predictions and their liveness follow from them. */
struct weight_policy {
    const char *name, *summary;
    bool needs_flush;                /* refused on schedules without */
    enum prediction_rule prediction; /* by which rule weights are predicted */
    bool group_of_workers;           /* a mini-batch must have at least as many micro-batches as there are stages (2BW) */
    struct reading (*forward)(const struct reading_context *context);
    struct reading (*backward)(const struct reading_context *context);
};
extern const struct weight_policy *const policy_table[]; /* NULL-terminated */
enum ps_status policy_find(const char *name, const struct weight_policy **policy, struct ps_error *error);

struct pass {
    const char *name;
    bool evaluation; /* runs on evaluation programs too */
    enum ps_status (*run)(struct ps_programs *programs, struct ps_error *error);
};
extern const struct pass *const pass_table[]; /* NULL-terminated */

/* Are schedule, policy, stages and micro-batches possible together? PS_USAGE says what would be. */
enum ps_status lower_check(const char *schedule, const char *policy, int stages, int micro_batches, struct ps_error *error);

/* A pipeline without a plan, the schedule's usual number of stages on each worker: for tests and for counting slots before
 * layers are known. */
struct straight {
    const char *schedule, *policy;
    int workers, micro_batches, batches;
    bool recompute; /* in every stage */
    bool tied;      /* the network's first and last layer share a parameter */
};
enum ps_status lower_straight(const struct straight *wanted, struct ps_programs **programs, struct ps_error *error);
/* The plan's programs for a segment of `batches` mini-batches. */
enum ps_status lower_plan(const struct ps_plan *plan, int batches, struct ps_programs **programs, struct ps_error *error);

/* Forwards only, for evaluation: the same stages on the same workers, newest weights, no look-ahead; its slots never exceed
 * those of the training programs. `micro_batches` in one segment. */
enum ps_status lower_evaluation(const struct ps_programs *training, int micro_batches, struct ps_programs **programs,
                                struct ps_error *error);

/* What worker `worker` takes: `sizes` per stage, `moments` optimizer blocks. */
struct worker_memory programs_memory(const struct ps_programs *programs, int worker, const struct stage_sizes *sizes,
                                     int moments);

/* How many updates of its stage stand before each forward and backward, counted in the programs; by stage and micro-batch. */
struct version_table {
    int micro_batches;
    int *forward, *backward; /* stages x micro_batches */
};
enum ps_status version_table_count(const struct ps_programs *programs, struct version_table *table, struct ps_error *error);
void version_table_free(struct version_table *table);
/* The largest number of the stage's updates that fall between a forward and its own backward. */
int version_table_staleness(const struct version_table *table, int stage);
/* What a policy is told about one micro-batch on one stage. */
struct reading_context version_table_context(const struct version_table *table, const struct ps_programs *programs, int stage,
                                             int micro_batch, bool flush);

/* How many blocks of optimizer state, each as large as the weights, a run needs. */

/* The optimizer's own and, where the weight policy predicts by another rule, that rule's beside them. PS_USAGE: a name is not
 * known, or the policy cannot work with the optimizer. */
enum ps_status plan_moments(const struct ps_plan *plan, int *moments, struct ps_error *error);
/* The same by names. */
enum ps_status policy_moments(const char *policy, const char *optimizer, int *moments, struct ps_error *error);

/* Numbers for blocks, instruction by instruction: what the allocate pass does with whole programs (program/passes/allocate.c).
 */

struct allocation;

/* Of programs whose blocks are all free. */
enum ps_status allocation_create(const struct ps_programs *programs, struct allocation **allocation, struct ps_error *error);
/* Numbers the blocks of the worker's next instruction. PS_USAGE: more are held at once than numbers go. */
enum ps_status allocation_next(struct allocation *allocation, const struct ps_programs *programs, int worker,
                               struct instruction *instruction, struct ps_error *error);
void allocation_destroy(struct allocation *allocation);

/* What the passes share: rewriting each worker's list into a new one. */

/* Calls `visit` for every instruction of every worker in order; what it appends to `out` becomes the worker's new program. */
enum ps_status pass_rewrite(struct ps_programs *programs,
                            enum ps_status (*visit)(void *context, const struct ps_programs *programs, int worker, int index,
                                                    struct program *out, struct ps_error *error),
                            void *context, struct ps_error *error);

#endif
