/*
 * One loop for every back end. These instructions wait:
 *   a computation, for a block that is still being received, or that is still being sent and that it will write;
 *   a receive, for the end of a send from the same block, if the forwards and backwards of a stage run on different workers;
 *   an update, for the sum of its gradients;
 *   an instruction that reads or writes weights, for the end of their transfer.
 * Sends and all-reduces never wait: they only start a transfer.
 */
#include "program/interpreter.h"

void interpreter_start(struct interpreter *interpreter, const struct program *program, const struct environment *environment,
                       int worker) {
    *interpreter = (struct interpreter){
        .program = program, .environment = environment, .worker = worker, .waiting_kind = BLOCK_KINDS, .waiting_slot = NO_SLOT};
}

/* Is a transfer of the block under way? */
static bool in_transfer(struct interpreter *interpreter, int stage, enum block_kind kind, int slot) {
    const struct environment *environment = interpreter->environment;
    if (environment->settled(environment->context, interpreter->worker, stage, kind, slot)) return false;
    interpreter->waiting_kind = kind;
    interpreter->waiting_slot = slot;
    return true;
}

/* Finds the first block of the instruction whose transfer is under way. */
static bool must_wait(struct interpreter *interpreter, const struct instruction *instruction) {
    enum action action = opcode_table[instruction->op].action;
    if (action == ACTION_SEND || action == ACTION_REDUCE) return false;
    if (action == ACTION_UPDATE && in_transfer(interpreter, instruction->stage, BLOCK_WEIGHT_GRADIENTS, 0)) return true;
    int weights = instruction_transfer_slot(instruction);
    if (weights != NO_SLOT && in_transfer(interpreter, instruction->stage, BLOCK_WEIGHTS, weights)) return true;
    for (int kind = 0; kind < BLOCK_KINDS; kind++)
        if (instruction->block[kind] != NO_SLOT &&
            in_transfer(interpreter, instruction->stage, (enum block_kind)kind, instruction->block[kind]))
            return true;
    return false;
}

enum step interpreter_step(struct interpreter *interpreter, struct ps_error *error) {
    if (interpreter->next == interpreter->program->count) return STEP_FINISHED;
    const struct instruction *instruction = &interpreter->program->code[interpreter->next];
    const struct environment *environment = interpreter->environment;
    if (must_wait(interpreter, instruction)) return STEP_WAITING;
    interpreter->waiting_kind = BLOCK_KINDS;
    interpreter->waiting_slot = NO_SLOT;
    if (environment->before) environment->before(environment->context, interpreter->worker, instruction);
    enum action action = opcode_table[instruction->op].action;
    if (environment->execute[action](environment->context, interpreter->worker, instruction, error) != PS_OK)
        return STEP_FAILED;
    if (environment->after) environment->after(environment->context, interpreter->worker, instruction);
    interpreter->next++;
    return STEP_DONE;
}
