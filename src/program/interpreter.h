/*
 * The interpreter walks the program of one worker. It executes each instruction through the environment, or reports what the
 * instruction waits for. The runtime's environment computes and transfers blocks, the simulator's advances a clock, and the
 * verifier's records what each block holds. All run the same programs through this one loop.
 */
#ifndef PENSTOCK_PROGRAM_INTERPRETER_H
#define PENSTOCK_PROGRAM_INTERPRETER_H

#include "program/program.h"

enum step {
    STEP_DONE,    /* the instruction was executed */
    STEP_WAITING, /* it waits for a block: see interpreter.waiting_kind and waiting_slot */
    STEP_FINISHED,
    STEP_FAILED,
};

struct environment {
    void *context;
    /* Returns true if the last transfer that was started on this block is complete, or none was started.
     * BLOCK_WEIGHT_GRADIENTS, slot 0: the sum over the replicas. BLOCK_WEIGHTS: by weight slot. Never blocks. */
    bool (*settled)(void *context, int worker, int stage, enum block_kind kind, int slot);
    /* Executes an instruction; by ACTION_*. May take time. On return the next instruction can rely on its effects. */
    enum ps_status (*execute[ACTION_COUNT])(void *context, int worker, const struct instruction *instruction,
                                            struct ps_error *error);
    /* Called before and after each instruction; may be NULL. */
    void (*before)(void *context, int worker, const struct instruction *instruction);
    void (*after)(void *context, int worker, const struct instruction *instruction);
};

struct interpreter {
    const struct program *program;
    const struct environment *environment;
    int worker, next; /* next instruction */
    enum block_kind waiting_kind;
    int waiting_slot;
};

void interpreter_start(struct interpreter *interpreter, const struct program *program, const struct environment *environment,
                       int worker);
enum step interpreter_step(struct interpreter *interpreter, struct ps_error *error);

#endif
