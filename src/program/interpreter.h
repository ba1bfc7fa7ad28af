/*
 * The interpreter: walks one worker's program and executes each instruction through the environment, or says what it waits
 * for. The runtime's environment computes and moves blocks, the simulator's moves a clock, the verifier's keeps account: all
 * run the same program through this one loop.
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
    /* Is the transfer over that was last started on this block (or none was)? BLOCK_WEIGHT_GRADIENTS, slot 0: the sum over the
     * replicas. BLOCK_WEIGHTS: by weight slot. Never blocks. */
    bool (*settled)(void *context, int worker, int stage, enum block_kind kind, int slot);
    /* Executes; by ACTION_*. May take time; returns when the instruction's effects may be relied on by the next one. */
    enum ps_status (*execute[ACTION_COUNT])(void *context, int worker, const struct instruction *instruction,
                                            struct ps_error *error);
    /* Told about each instruction before and after; NULL: nobody watches. */
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
