/*
 * Programs: for each worker a list of instructions, made from a plan by the passes (program/lower.h) and executed by every back
 * end through one interpreter (program/interpreter.h).
 *
 * Blocks. A stage works on numbered slots of ten kinds of blocks, each kind of one size: stashes, deltas (which a backward of
 * the input leaves for that of the weights), the four boundary blocks, and the same four encoded for the wire where the plan
 * gives the cut a codec (ENCODE makes them, DECODE reads them). Sends and receives only start a transfer: RECEIVE
 * posts an empty block to be filled, SEND posts a full one. When both ends have posted, the two blocks are swapped (or the
 * contents are copied). An instruction that reads a block being received, or writes one being sent, waits until the transfer is
 * complete. An update waits in the same way for the sum of its gradients over a stage's replicas, which REDUCE starts
 * (BLOCK_WEIGHT_GRADIENTS: the one gradient block of an instance; no instruction names it). Nothing else ever waits.
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
    ACTION_ENCODE,
    ACTION_DECODE,
    ACTION_ROUND,
    ACTION_COUNT
};

/* Blocks from BLOCK_INPUT on are transferred in every pipeline; stashes only in a split stage. */
enum block_kind {
    BLOCK_STASH,
    BLOCK_DELTA,
    BLOCK_INPUT,
    BLOCK_OUTPUT,
    BLOCK_OUTPUT_GRADIENT,
    BLOCK_INPUT_GRADIENT,
    BLOCK_WIRE, /* the first of those that are encoded, in the order of enum wire_block */
    BLOCK_KINDS = BLOCK_WIRE + WIRE_BLOCKS,
    /* Not operands that instructions name as blocks: the one gradient block of an instance; weight slots, by their numbers. */
    BLOCK_WEIGHT_GRADIENTS,
    BLOCK_WEIGHTS,
    BLOCK_PLACES
};

/* Kinds of blocks that are transferred between instances (program/routes.h). */
enum traffic {
    TRAFFIC_ACTIVATION,
    TRAFFIC_GRADIENT,
    TRAFFIC_STASH,
    TRAFFIC_KEPT_INPUT,
    TRAFFIC_WEIGHTS,
    TRAFFIC_ENCODED_ACTIVATION,
    TRAFFIC_ENCODED_GRADIENT,
    TRAFFICS
};

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
                          * first that reads the weights, one past the last: the final ones of the segment */
    int16_t slot;        /* weight slot read */
    int16_t to;          /* U: weight slot of the updated weights */
    int16_t predict_to;  /* U, P: weight slot of the prediction; NO_SLOT: none */
    int16_t ahead;       /* updates that the prediction looks ahead */
    int16_t peer;        /* worker at the other end */
    int16_t block[BLOCK_KINDS]; /* slot numbers; NO_SLOT: not used */
};

struct program {
    struct instruction *code;
    int count;
    size_t capacity;
};

/*
 * A stage instance is what one worker holds of a stage: all of it, one of several replicas, or of a split stage the half that
 * runs the forwards or the backwards. A worker may hold instances of several stages, but only one of each stage. Blocks, weight
 * slots and all other stage resources belong to an instance.
 */
struct instance {
    int stage, worker;
    bool forward, backward; /* which of the two it runs */
    int replica, replicas;  /* numbered from 0; replicas share the micro-batches */
};

struct sum_group;

struct ps_programs {
    struct arena arena;              /* of everything it points to except the code */
    const struct schedule *schedule; /* the schedule that they were lowered with (program/lower.h) */
    const struct weight_policy *policy;
    int workers, stages;
    int micro_batches;          /* per mini-batch */
    int batches;                /* mini-batches in the segment */
    int slack;                  /* struct ps_plan.slack */
    bool flush;                 /* the schedule is synchronous; false in evaluation, where each micro-batch counts as a
                                 * mini-batch */
    struct instance *instances; /* by stage, then in the order of the plan's forward and backward workers; if every stage has
                                 * one instance, instance s is stage s */
    int instance_count;
    int *first_instance;        /* per stage, and one more at the end: the number of its first instance */
    const struct ps_plan *plan; /* borrowed during lowering; else NULL */
    struct sum_group *groups;   /* per stage: its reduce group, but for the size (programs_sum_group) */
    bool parsed;                /* from a text, which nobody has verified */
    bool evaluation;            /* forwards only, one block of each kind: no update, no prediction */
    bool *recompute;            /* per stage */
    struct cut_wire *wire;      /* per stage: codecs of the cut after it */
    struct sum_wire *sum_wire;  /* per stage: codecs of the sum over its replicas */
    struct stage_slots *slots;  /* per instance; filled by allocate */
    struct program *worker;     /* per worker */
};

/* Every stage has one instance, on worker 0, and shares no parameter. */
enum ps_status programs_create(int workers, int stages, struct ps_programs **programs, struct ps_error *error);
/* Replaces the instances (copied; in the order of struct ps_programs.instances, at least one per stage); they have no slots
 * yet. */
enum ps_status programs_set_instances(struct ps_programs *programs, const struct instance *instances, int count,
                                      struct ps_error *error);
enum ps_status program_append(struct program *program, const struct instruction *instruction, struct ps_error *error);
/* An instruction with no operands set. */
struct instruction instruction_make(enum opcode op, int stage, int micro_batch);
/* Writes the text of an instruction, such as "2F0@0,s1,i0,o0", into `out` and returns it. */
const char *instruction_text(const struct instruction *instruction, char out[96]);

/* Returns true if the instruction reads the gradient from the next stage and makes the one for the previous stage. */
static inline bool instruction_takes_gradient(const struct instruction *instruction) {
    return instruction->op == OP_B || instruction->op == OP_I;
}
/* Returns true if the instruction adds to the gradients of the weights. */
static inline bool instruction_adds_gradients(const struct instruction *instruction) {
    return instruction->op == OP_B || instruction->op == OP_W;
}

/* Returns true if the instruction's number is that of an update, not of a micro-batch. */
static inline bool instruction_is_of_update(const struct instruction *instruction) {
    return instruction->op == OP_U || instruction->op == OP_AR || instruction->op == OP_ES;
}

/* Of an encoding or a decoding: the encoded block. */
static inline enum wire_block instruction_wire_block(const struct instruction *instruction) {
    return instruction->op == OP_EA   ? WIRE_ACTIVATION_SENT
           : instruction->op == OP_DA ? WIRE_ACTIVATION_RECEIVED
           : instruction->op == OP_EG ? WIRE_GRADIENT_SENT
                                      : WIRE_GRADIENT_RECEIVED;
}

/* Returns true if the instruction takes a worker's time and is not a transfer. */
bool instruction_computes(const struct instruction *instruction);
/* Returns true if the instruction sends or receives weights (SW, RW). */
bool instruction_moves_weights(const struct instruction *instruction);

/* The codec of a send, receive, encoding or decoding by `worker`: what evaluation sends, and what stays on one worker, is not
 * encoded. */
const struct wire *programs_wire(const struct ps_programs *programs, int worker, const struct instruction *instruction);
/* The block kind of an operand letter (s w i o g d x y u v), or BLOCK_KINDS. */
enum block_kind operand_block(char letter);
/* The weight slot of an instruction whose transfer may be in progress: the one that F reads, or that U or P predict into; or
 * NO_SLOT. */
int instruction_transfer_slot(const struct instruction *instruction);
/* How many blocks of a kind a stage has. */
int stage_slots_of(const struct stage_slots *slots, enum block_kind kind);
/* Bytes of one such block. */
int64_t stage_block_bytes(const struct stage_sizes *sizes, enum block_kind kind);
/* Address of that number; NULL for BLOCK_WEIGHT_GRADIENTS, which are not counted. */
int *stage_slots_place(struct stage_slots *slots, enum block_kind kind);

/* Returns true while a plan with a pattern of its own is lowered (schedules/pattern.c). */
bool programs_has_pattern(const struct ps_programs *programs);

enum { NO_INSTANCE = -1 };
/* The instance of a stage that a worker holds, or NO_INSTANCE. */
int programs_instance(const struct ps_programs *programs, int worker, int stage);
/* The instance that runs the forward, or the backward, of a micro-batch. With r replicas replica k mod r runs mini-batch k or,
 * with a flush, micro-batch k of each mini-batch. */
int programs_forward_instance(const struct ps_programs *programs, int stage, int micro_batch);
int programs_backward_instance(const struct ps_programs *programs, int stage, int micro_batch);
/* Returns true if the instance's replica runs this micro-batch. */
bool programs_takes(const struct ps_programs *programs, int instance, int micro_batch);
/* The number of updates of a stage in the segment: one per mini-batch or, if each replica runs whole mini-batches, one per
 * round; and the update that a micro-batch's gradient belongs to. */
int programs_updates(const struct ps_programs *programs, int stage);
int programs_update_of(const struct ps_programs *programs, int stage, int micro_batch);
/* The size of a round: how many mini-batches one update takes together. It is 1, or the number of replicas (fewer at the
 * segment's end) if each replica runs whole mini-batches. */
int programs_round(const struct ps_programs *programs, int stage);
/* Micro-batches of an update that the instance's replica runs. */
int programs_share(const struct ps_programs *programs, int instance, int update);
/* Micro-batches that the instance's replica runs in the segment, and the n-th of them, from 0. */
int programs_taken(const struct ps_programs *programs, int instance);
int programs_nth(const struct ps_programs *programs, int instance, int n);
/* Replicas of a stage. */
static inline int programs_replicas(const struct ps_programs *programs, int stage) {
    return programs->instances[programs->first_instance[stage]].replicas;
}
/* Returns true if a stage's forwards and backwards run on different workers. */
static inline bool programs_split(const struct ps_programs *programs, int stage) {
    return programs->instances[programs->first_instance[stage]].forward !=
           programs->instances[programs->first_instance[stage]].backward;
}
/*
 * The reduce group of an AR: the replicas of a stage or, if stages share parameters, the instances of all of these stages. A
 * group of several stages has the lowest of their numbers. It sums first the gradients of each stage over its replicas, then
 * those of the shared parameters. Members are the instances that run backwards, in their order; `size` is their number, 1 if
 * there is nothing to sum.
 */
struct sum_group {
    int number;
    const int *stages; /* ascending */
    int stage_count, size;
};
struct sum_group programs_sum_group(const struct ps_programs *programs, int stage);
/* head[s] is the group of stage s: its lowest stage. */
enum ps_status programs_set_groups(struct ps_programs *programs, const int *head, struct ps_error *error);
/* Do any stages share parameters? */
bool programs_tied(const struct ps_programs *programs);
/* The passes of such a sum, in order; `passes` has room for one more than the group's stages. Those over the replicas of each
 * stage, independent of each other, and then one for the parameters that the stages share (the only one with several). */
int programs_sum_passes(const struct ps_programs *programs, const struct sum_group *group, struct sum_group *passes);
/* How many blocks of the stage's size a sum reads: in each pass those of all of its instances. Into *bytes (NULL is fine) what
 * an instance of the stage sends in all passes, each around a ring. */
double programs_sum_shares(const struct ps_programs *programs, int stage, const struct stage_sizes *size, double *bytes);
/* The share of a stage's gradients and statistics that a pass sums. */
double sum_pass_share(const struct sum_group *pass, const struct stage_sizes *size);
/* Returns true if the stage sums gradients before it updates. */
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

/* Further results of the verifier (ps_programs_verify). */

/* The largest number of the stage's updates that fall between a forward and its own backward. */
enum ps_status programs_staleness(const struct ps_programs *programs, int stage, int *staleness, struct ps_error *error);

#endif
