/*
 * Programs: for each worker a list of instructions, made from a plan by the passes (program/lower.h) and executed by every
 * back end through one interpreter (program/interpreter.h).
 *
 * Blocks. A stage works on numbered slots of six kinds of blocks, each kind of one size: stashes, deltas (what a backward of
 * the input leaves for that of the weights) and the four boundary blocks. Sends and receives only start a transfer: RECEIVE
 * gives an empty block to be filled, SEND offers a full one; when both ends have come the two blocks change places (or the
 * contents travel). An instruction that reads a block being received, or writes one being sent, waits until that is over. So
 * does an update for the sum of its gradients over a stage's replicas, which REDUCE starts (BLOCK_WEIGHT_GRADIENTS: the one
 * block of them that an instance has; no instruction names it). Nothing else ever waits.
 */
#ifndef PENSTOCK_PROGRAM_PROGRAM_H
#define PENSTOCK_PROGRAM_PROGRAM_H

#include "plan/plan.h"

struct schedule;
struct weight_policy;

enum opcode {
#define OPCODE(NAME, text, action, operands, summary) OP_##NAME,
#include "program/opcodes.def"
#undef OPCODE
    OPCODE_COUNT
};

enum action {
    ACTION_FORWARD,
    ACTION_BACKWARD,
    ACTION_BACKWARD_INPUT,
    ACTION_BACKWARD_WEIGHT,
    ACTION_RECOMPUTE,
    ACTION_UPDATE,
    ACTION_PREDICT,
    ACTION_SEND,
    ACTION_RECEIVE,
    ACTION_REDUCE,
    ACTION_COUNT
};

/* Those from BLOCK_INPUT on travel in every pipeline; stashes where a stage is split. */
enum block_kind {
    BLOCK_STASH,
    BLOCK_DELTA,
    BLOCK_INPUT,
    BLOCK_OUTPUT,
    BLOCK_OUTPUT_GRADIENT,
    BLOCK_INPUT_GRADIENT,
    BLOCK_KINDS,
    /* What instructions do not name as blocks: the one block of gradients that an instance has; weight slots, by their numbers.
     */
    BLOCK_WEIGHT_GRADIENTS,
    BLOCK_WEIGHTS,
    BLOCK_PLACES
};

/* What travels from instance to instance (program/routes.h). */
enum traffic { TRAFFIC_ACTIVATION, TRAFFIC_GRADIENT, TRAFFIC_STASH, TRAFFIC_KEPT_INPUT, TRAFFIC_WEIGHTS, TRAFFICS };

struct opcode_info {
    const char *text, *operands, *summary;
    enum action action;
};
extern const struct opcode_info opcode_table[OPCODE_COUNT];

#define NO_SLOT (-1)

struct instruction {
    uint8_t op;
    int16_t stage;
    int32_t micro_batch; /* counted through the segment from 0; U, AR: the update; P: the micro-batch it is for; SW, RW: the
                            first that reads the weights, one past the last: those that remain at the end */
    int16_t slot;        /* weight slot read */
    int16_t to;          /* U: weight slot of the updated weights */
    int16_t predict_to;  /* U, P: weight slot of the prediction; NO_SLOT: none */
    int16_t ahead;       /* updates the prediction looks ahead */
    int16_t peer;        /* worker at the other end */
    int16_t block[BLOCK_KINDS]; /* slot numbers; NO_SLOT where not touched */
};

struct program {
    struct instruction *code;
    int count;
    size_t capacity;
};

/*
 * What one worker holds of a stage: all of it, one of several replicas, or of a replica the half that runs its forwards or its
 * backwards. A worker may hold instances of several stages, but of one stage only one. Blocks, weight slots and all else that
 * is counted by stage belong to an instance.
 */
struct instance {
    int stage, worker;
    bool forward, backward; /* what it runs */
    int replica, replicas;  /* the first of them is 0; they share the micro-batches */
};

struct ps_programs {
    struct arena arena;              /* of all that it points to but the code */
    const struct schedule *schedule; /* whose traits hold: how they were lowered (program/lower.h) */
    const struct weight_policy *policy;
    int workers, stages;
    int micro_batches;          /* per mini-batch */
    int batches;                /* mini-batches in the segment */
    bool flush;                 /* the schedule is synchronous; false in evaluation, whose mini-batches are micro-batches */
    struct instance *instances; /* by stage, then in the order of the plan's forward and backward workers; where every stage has
                           one instance, instance s is stage s */
    int instance_count;
    int *first_instance;        /* per stage and one more at the end: its instances begin there */
    const struct ps_plan *plan; /* borrowed, while it is lowered; else NULL */
    bool tied;                  /* the first and the last stage share a parameter */
    bool evaluation;            /* forwards only, one block of each kind: no update, no look-ahead */
    bool *recompute;            /* per stage */
    struct stage_slots *slots;  /* per instance; filled by allocate */
    struct program *worker;     /* per worker */
};

/* Every stage has one instance, on worker 0. */
enum ps_status programs_create(int workers, int stages, struct ps_programs **programs, struct ps_error *error);
/* Other instances (copied; in the order that struct ps_programs says, at least one per stage), without slots. */
enum ps_status programs_set_instances(struct ps_programs *programs, const struct instance *instances, int count,
                                      struct ps_error *error);
enum ps_status program_append(struct program *program, const struct instruction *instruction, struct ps_error *error);
/* An instruction with no operands set. */
struct instruction instruction_make(enum opcode op, int stage, int micro_batch);
/* "2F0@0,s1,i0,o0" into `out`, returned. */
const char *instruction_text(const struct instruction *instruction, char out[96]);

/* Does it read the gradient that comes from the next stage, and make the one that goes to the stage before? */
static inline bool instruction_takes_gradient(const struct instruction *instruction) {
    return instruction->op == OP_B || instruction->op == OP_I;
}
/* Does it add to the gradients of the weights? */
static inline bool instruction_adds_gradients(const struct instruction *instruction) {
    return instruction->op == OP_B || instruction->op == OP_W;
}

/* Does it take a worker's time, and is no transfer? */
bool instruction_computes(const struct instruction *instruction);
/* Does it send or receive weights (SW, RW)? */
bool instruction_moves_weights(const struct instruction *instruction);

/* The block kind of an operand letter (s w i o g d), or BLOCK_KINDS. */
enum block_kind operand_block(char letter);
/* The weight slot of an instruction on which a transfer may be under way: what F reads, what U or P predict into; or
 * NO_SLOT. */
int instruction_transfer_slot(const struct instruction *instruction);
/* How many blocks of a kind a stage has. */
int stage_slots_of(const struct stage_slots *slots, enum block_kind kind);
/* Bytes of one such block. */
int64_t stage_block_bytes(const struct stage_sizes *sizes, enum block_kind kind);
/* Where that number stands; NULL for BLOCK_WEIGHT_GRADIENTS, which are not counted. */
int *stage_slots_place(struct stage_slots *slots, enum block_kind kind);

/* While a plan with a pattern of its own is lowered (schedules/pattern.c). */
bool programs_has_pattern(const struct ps_programs *programs);

enum { NO_INSTANCE = -1 };
/* The instance of a stage that a worker holds, or NO_INSTANCE. */
int programs_instance(const struct ps_programs *programs, int worker, int stage);
/* The instance that runs the forward, the backward of a micro-batch. Of a stage with r replicas replica k mod r takes
 * mini-batch k, or where the schedule flushes micro-batch k of each mini-batch. */
int programs_forward_instance(const struct ps_programs *programs, int stage, int micro_batch);
int programs_backward_instance(const struct ps_programs *programs, int stage, int micro_batch);
/* Does the instance's replica work on this micro-batch? */
bool programs_takes(const struct ps_programs *programs, int instance, int micro_batch);
/* Updates that a stage makes in the segment: one for each mini-batch or, where its replicas take whole mini-batches, for each
 * round of them; and which of them a micro-batch's gradient goes into. */
int programs_updates(const struct ps_programs *programs, int stage);
int programs_update_of(const struct ps_programs *programs, int stage, int micro_batch);
/* Mini-batches that an update takes together: 1, or as many as there are replicas (fewer at the segment's end). */
int programs_round(const struct ps_programs *programs, int stage);
/* Micro-batches of an update that the instance's replica takes. */
int programs_share(const struct ps_programs *programs, int instance, int update);
/* Micro-batches that the instance's replica takes in the segment, and the n-th of them, from 0. */
int programs_taken(const struct ps_programs *programs, int instance);
int programs_nth(const struct ps_programs *programs, int instance, int n);
/* Replicas of a stage. */
static inline int programs_replicas(const struct ps_programs *programs, int stage) {
    return programs->instances[programs->first_instance[stage]].replicas;
}
/* Does another worker run the stage's backwards than its forwards? */
static inline bool programs_split(const struct ps_programs *programs, int stage) {
    return programs->instances[programs->first_instance[stage]].forward !=
           programs->instances[programs->first_instance[stage]].backward;
}
/*
 * Whose gradients an AR adds up: those of a stage's replicas or, where the first and the last stage share a parameter, of the
 * instances of both, each stage's own and then what they share. Stages that share have one group, of the lower number; its
 * members are the instances that run backwards, in their order; `size`: how many, 1 where there is nothing to add up.
 */
struct sum_group {
    int number, stages[2], stage_count, size;
};
struct sum_group programs_sum_group(const struct ps_programs *programs, int stage);
/* What such a sum consists of: those over the replicas of each of the group's stages, side by side, and behind them that of
 * what two stages share (the one of two stages). */
struct sum_passes {
    struct sum_group pass[3];
    int count;
};
struct sum_passes programs_sum_passes(const struct ps_programs *programs, const struct sum_group *group);
/* Of a stage's gradients and statistics the share that a pass adds up. */
double sum_pass_share(const struct sum_group *pass, const struct stage_sizes *size);
bool sum_pass_has(const struct sum_group *pass, int stage);
/* Does the stage add gradients up before it updates? */
static inline bool programs_sums(const struct ps_programs *programs, int stage) {
    return programs_sum_group(programs, stage).size > 1;
}
/* The worker of a stage that has one instance. */
static inline int programs_worker(const struct ps_programs *programs, int stage) {
    return programs->instances[programs->first_instance[stage]].worker;
}
/* The stage at the other end of a transfer. */
int instruction_other_stage(const struct instruction *instruction);

/* Micro-batches in the segment. */
static inline int programs_micro_batches(const struct ps_programs *programs) {
    return programs->micro_batches * programs->batches;
}
/* The mini-batch of a micro-batch. */
static inline int programs_batch(const struct ps_programs *programs, int micro_batch) {
    return micro_batch / programs->micro_batches;
}

/* What the verifier finds beside right or wrong (ps_programs_verify). */

/* The largest number of the stage's updates that fall between a forward and its own backward. */
enum ps_status programs_staleness(const struct ps_programs *programs, int stage, int *staleness, struct ps_error *error);

#endif
