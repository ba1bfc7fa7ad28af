/*
 * From a plan to programs: a sequence of passes, each of which does one thing (passes/table.c lists them in order).
 *
 *   schedule         order of computations: F and B, nothing else (schedules/)
 *   updates          U after each mini-batch's last B, and AR before it where the stage has replicas
 *   weight transfer  SW and RW of stages whose forwards and backwards run on different workers
 *   weights          which weights each F and B reads (policies/): slots, and P
 *   recompute        R before each B of a stage that keeps only its input
 *   communicate      SEND and RECEIVE of activations and gradients, posted early enough that no worker can deadlock
 *   wire             where the plan gives a cut a codec: encoding before each send, decoding before what needs the result
 *   allocate         numbers of the blocks, like registers
 * Then verify (program/verify.c) proves the result.
 */
#ifndef PENSTOCK_PROGRAM_LOWER_H
#define PENSTOCK_PROGRAM_LOWER_H

#include "plan/plan.h"
#include "program/program.h"

/* Schedules without a placement hold one stage on each worker, stage s on worker s. */
struct placement {
    int usual;     /* default number of stages per worker */
    bool anywhere; /* worker_of is only the default */
    int (*worker_of)(int stage, int stages, int workers);
    bool (*accepts)(int stages, int workers);
    const char *accepted;                                                   /* accepted numbers of stages, in words, for
                                                                             * messages */
    int replicas;                                                           /* replicas of every stage; 0: one */
    int (*replica_worker)(int stage, int replica, int stages, int workers); /* the workers of the replicas; replica 0 is on
                                                                             * worker_of */
};

struct schedule {
    const char *name, *summary;
    bool flush;     /* synchronous: the pipeline drains before each update, so no update falls between an F and its B */
    bool replicas;  /* stages may have several workers that share the micro-batches */
    bool split;     /* the forwards and backwards of a stage may run on different workers */
    bool streaming; /* its workers stream a result while they compute it: every transfer is streamed */
    bool bapipe;    /* one of those that BaPipe chooses among */
    bool lanes;     /* its workers run a forward and a backward concurrently, each with a share of the device */
    bool in_flight; /* the plan specifies how many micro-batches each stage holds */
    bool slack;     /* it can have slack (struct ps_plan.slack) */
    const struct placement *placement; /* NULL: see struct placement */
    /* Default number of micro-batches per mini-batch for `workers`. */
    int (*micro_batches)(int workers);
    /* Appends the computations of all stages of `worker` in order; NULL if write_all does it. */
    enum ps_status (*write)(const struct ps_programs *programs, int worker, struct program *program, struct ps_error *error);
    /* The same for all workers together, for orders that depend on all of them. */
    enum ps_status (*write_all)(struct ps_programs *programs, struct ps_error *error);
};
extern const struct schedule *const schedule_table[]; /* NULL-terminated */
enum ps_status schedule_find(const char *name, const struct schedule **schedule, struct ps_error *error);
/* The default number of stages of a schedule on `workers` workers, and the worker that holds a stage. */
int schedule_stages(const struct schedule *schedule, int workers);
int schedule_worker_of(const struct schedule *schedule, int stage, int stages, int workers);
/* Replicas that a schedule gives every stage, and the worker that holds one of them. */
int schedule_replicas(const struct schedule *schedule);
int schedule_replica_worker(const struct schedule *schedule, int stage, int replica, int stages, int workers);
/* PS_USAGE if the programs' schedule does not support this many stages on this many workers, does not support replicas, or
 * places stages differently from the programs' instances (workers may be renumbered). */
enum ps_status schedule_check_placement(const struct ps_programs *programs, struct ps_error *error);

/* The number of workers after that of an instance: those whose forwards, or if equal whose backwards, begin with a later
 * stage. */
int schedule_workers_behind(const struct ps_programs *programs, int instance);

/* The level of each instruction: when it would run if every instruction took one unit of time and transfers took none. In the
 * order of their levels all instructions can run. Computations of a plan's pattern do not begin before their level in it. */
struct program_levels {
    struct arena arena;
    int **worker; /* by worker and instruction */
};
/* PS_USAGE names the instructions that wait for each other in a cycle. */
enum ps_status program_levels_count(const struct ps_programs *programs, struct program_levels *levels, struct ps_error *error);
void program_levels_free(struct program_levels *levels);
/* With a pattern: levels per period. */
int program_levels_period(const struct ps_programs *programs);
/* With a pattern: periods between the updates of a split stage and the forward that reads them. */
int program_weights_periods(const struct ps_programs *programs, int stage);
/* The first instruction of a worker whose level is not below `level`; the number of instructions if there is none. */
int program_levels_first(const struct program_levels *levels, const struct ps_programs *programs, int worker, int level);

/* Which weights a computation reads: a version (updates of the stage since the segment began) and how many updates ahead of it
 * the weights are predicted. */
struct reading {
    int version, ahead;
};

/* A policy's input for one F or B. Versions are counted in the worker's program. */
struct reading_context {
    int stage, stages;
    int micro_batch, batch; /* batch: its mini-batch in the segment, or the round of mini-batches (programs_round) */
    int forward_version;    /* updates before the forward of this micro-batch */
    int backward_version;   /* updates before its backward */
    /* Updates before the backward of the micro-batch that is floor(stage/2) later: approximately when the first worker runs the
     * backward of this one (SpecTrain). Never past the segment's end. */
    int first_worker_version;
    int horizon_version; /* likewise of the micro-batch that is `stage` later: every stage looks as far ahead as the first */
    bool flush;          /* the schedule is synchronous */
};

enum prediction_rule { PREDICT_NEVER, PREDICT_OWN_RULE, PREDICT_MOMENTUM, PREDICT_ADAM };

/* A policy is two rules; slots, predictions and their liveness follow from them. */
struct weight_policy {
    const char *name, *summary;
    bool needs_flush;                /* refused with a schedule without a flush */
    enum prediction_rule prediction; /* by which rule weights are predicted */
    bool group_of_workers;           /* a mini-batch needs at least as many micro-batches as there are stages (2BW) */
    struct reading (*forward)(const struct reading_context *context);
    struct reading (*backward)(const struct reading_context *context);
};
extern const struct weight_policy *const policy_table[]; /* NULL-terminated */
/* The policy of schedules that flush. */
#define POLICY_SYNCHRONOUS "sync"
enum ps_status policy_find(const char *name, const struct weight_policy **policy, struct ps_error *error);

struct pass {
    bool evaluation; /* runs on evaluation programs too */
    enum ps_status (*run)(struct ps_programs *programs, struct ps_error *error);
};
extern const struct pass *const pass_table[]; /* NULL-terminated */

/* The names of the schedules of which the flag at this offset of struct schedule is set, with commas; returns `names`. */
const char *schedule_names(size_t flag, char names[128]);
/* PS_USAGE if the schedule cannot have that slack on so many stages. */
enum ps_status schedule_check_slack(const struct schedule *schedule, int stages, int slack, struct ps_error *error);

/* Checks that schedule, policy, stages and micro-batches are possible together. PS_USAGE says what would be accepted. */
enum ps_status lower_check(const char *schedule, const char *policy, int stages, int micro_batches, struct ps_error *error);

/* A pipeline without a plan, with the schedule's default number of stages on each worker: for tests, and to count slots before
 * layers are known. */
struct straight {
    const char *schedule, *policy;
    int workers, micro_batches, batches;
    int slack;      /* struct ps_plan.slack */
    bool recompute; /* in every stage */
    bool tied;      /* the network's first and last layer share a parameter */
};
enum ps_status lower_straight(const struct straight *wanted, struct ps_programs **programs, struct ps_error *error);
/* The plan's programs for a segment of `batches` mini-batches. */
enum ps_status lower_plan(const struct ps_plan *plan, int batches, struct ps_programs **programs, struct ps_error *error);

/* Forwards only, for evaluation: the same stages on the same workers, newest weights, no prediction. It never uses more slots
 * than the training programs. `micro_batches` in one segment. */
enum ps_status lower_evaluation(const struct ps_programs *training, int micro_batches, struct ps_programs **programs,
                                struct ps_error *error);

/* Memory that worker `worker` needs: `sizes` per stage, `moments` blocks of optimizer state per block of weights. */
struct worker_memory programs_memory(const struct ps_programs *programs, int worker, const struct stage_sizes *sizes,
                                     int moments);

/* The number of updates of its stage before each forward and backward, counted in the programs; by stage and micro-batch. */
struct version_table {
    int micro_batches;
    int *forward, *backward; /* stages x micro_batches */
};
enum ps_status version_table_count(const struct ps_programs *programs, struct version_table *table, struct ps_error *error);
void version_table_free(struct version_table *table);
/* The largest number of the stage's updates that fall between a forward and its own backward. */
int version_table_staleness(const struct version_table *table, int stage);
/* A policy's input for one micro-batch on one stage. */
struct reading_context version_table_context(const struct version_table *table, const struct ps_programs *programs, int stage,
                                             int micro_batch, bool flush);

/* How many blocks of optimizer state, each as large as the weights, a run needs. */

/* Those of the optimizer and, if the weight policy predicts by another rule, those of that rule. PS_USAGE: a name is unknown,
 * or the policy does not support the optimizer. */
enum ps_status plan_moments(const struct ps_plan *plan, int *moments, struct ps_error *error);
/* The same by names. */
enum ps_status policy_moments(const char *policy, const char *optimizer, int *moments, struct ps_error *error);

/* Assigns slot numbers to blocks, instruction by instruction, as the allocate pass does for whole programs
 * (program/passes/allocate.c). */

struct allocation;

/* All blocks are free at first. */
enum ps_status allocation_create(const struct ps_programs *programs, struct allocation **allocation, struct ps_error *error);
/* Numbers the blocks of the worker's next instruction. PS_USAGE: more are in use at once than there are numbers. */
enum ps_status allocation_next(struct allocation *allocation, const struct ps_programs *programs, int worker,
                               struct instruction *instruction, struct ps_error *error);
void allocation_destroy(struct allocation *allocation);

/* Shared by the passes: rewriting each worker's program. */

/* Calls `visit` for every instruction of every worker in order; what it appends to `out` becomes the worker's new program. */
enum ps_status pass_rewrite(struct ps_programs *programs,
                            enum ps_status (*visit)(void *context, const struct ps_programs *programs, int worker, int index,
                                                    struct program *out, struct ps_error *error),
                            void *context, struct ps_error *error);

#endif
