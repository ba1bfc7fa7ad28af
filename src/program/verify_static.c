/* Each instruction alone: numbers in range, on the worker that holds its stage, and every operand that its place demands. */
#include "program/verify_static.h"

#include <string.h>

enum ps_status verify_refuse(const struct instruction *instruction, int worker, struct ps_error *error, const char *reason) {
    char text[96];
    return error_set(error, PS_BAD_INPUT, "worker %d: %s: %s", worker, instruction_text(instruction, text), reason);
}

/* Blocks towards a neighbour exist where there is one. */
static bool block_belongs(const struct ps_programs *programs, int stage, enum block_kind kind) {
    if (kind == BLOCK_OUTPUT || kind == BLOCK_OUTPUT_GRADIENT) return stage < programs->stages - 1;
    if (kind == BLOCK_INPUT_GRADIENT) return stage > 0;
    return true;
}

/* What an instance does that runs both directions, only forwards, or only backwards. */
static const char *check_role(const struct instance *instance, const struct instruction *instruction) {
    bool moves_stash = instruction->op == OP_SS || instruction->op == OP_RS,
         moves_weights = instruction_moves_weights(instruction);
    bool of_forward = instruction->op == OP_F || instruction->op == OP_SA || instruction->op == OP_RA ||
                      instruction->op == OP_SS || instruction->op == OP_RW;
    if ((moves_stash || moves_weights) && instance->forward && instance->backward) return "hands over what stays on its worker";
    if (of_forward ? instance->forward : instance->backward) return NULL;
    return of_forward ? "is on a worker that runs only the stage's backwards"
                      : "is on a worker that runs only the stage's forwards";
}

static const char *check_weights(const struct instance *instance, const struct stage_slots *slots,
                                 const struct instruction *instruction) {
    const char *operands = opcode_table[instruction->op].operands;
    int weights = slots->weights;
    if (strchr(operands, '@') && (instruction->slot < 0 || instruction->slot >= weights))
        return "reads a weight slot that the stage does not have";
    if (strchr(operands, ':') && (instruction->to < 0 || instruction->to >= weights))
        return "writes a weight slot that the stage does not have";
    if (instruction->op == OP_P && instruction->predict_to == NO_SLOT) return "names no slot for the prediction";
    if (instruction->predict_to == NO_SLOT) return NULL;
    if (instruction->predict_to >= weights) return "predicts into a weight slot that the stage does not have";
    if (instruction->predict_to == (instruction->op == OP_U ? instruction->to : instruction->slot))
        return "predicts over the weights themselves";
    return instruction->ahead >= (instance->forward ? 1 : 0) ? NULL : "predicts fewer than one update ahead";
}

static const char *check_blocks(const struct ps_programs *programs, const struct stage_slots *slots,
                                const struct instruction *instruction) {
    for (const char *operand = opcode_table[instruction->op].operands; *operand; operand++) {
        enum block_kind kind = operand_block(*operand);
        if (kind == BLOCK_KINDS) continue;
        int slot = instruction->block[kind];
        bool stays = kind == BLOCK_STASH && programs->recompute[instruction->stage];
        if (stays && (instruction->op == OP_SS || instruction->op == OP_RS)) {
            if (slot != NO_SLOT) return "moves a stash that is made again";
        } else if (!block_belongs(programs, instruction->stage, kind)) {
            if (slot != NO_SLOT) return "names a block towards a stage that does not exist";
        } else if (slot < 0 || slot >= stage_slots_of(slots, kind)) {
            return "names a block that the stage does not have";
        }
    }
    return NULL;
}

static const char *check_peer(const struct ps_programs *programs, const struct instruction *instruction) {
    enum action action = opcode_table[instruction->op].action;
    if (action != ACTION_SEND && action != ACTION_RECEIVE) return NULL;
    int other = instruction_other_stage(instruction);
    if (other < 0 || other >= programs->stages) return "has no stage at the other end";
    bool held = programs_instance(programs, instruction->peer, other) != NO_INSTANCE;
    return held ? NULL : "names a worker that does not hold the stage at the other end";
}

static const char *check(const struct ps_programs *programs, int worker, const struct instruction *instruction) {
    if (instruction->stage < 0 || instruction->stage >= programs->stages) return "names a stage that does not exist";
    int instance = programs_instance(programs, worker, instruction->stage);
    if (instance == NO_INSTANCE) return "is on a worker that does not hold the stage";
    bool of_update = instruction->op == OP_U || instruction->op == OP_AR;
    bool of_weights = instruction_moves_weights(instruction) || instruction->op == OP_P;
    int limit = of_update ? programs_updates(programs, instruction->stage) : programs_micro_batches(programs) + of_weights;
    if (instruction->micro_batch < 0 || instruction->micro_batch >= limit) return "is outside the segment";
    const char *reason = check_role(&programs->instances[instance], instruction);
    if (!reason) reason = check_weights(&programs->instances[instance], &programs->slots[instance], instruction);
    if (!reason) reason = check_blocks(programs, &programs->slots[instance], instruction);
    return reason ? reason : check_peer(programs, instruction);
}

/* Of each stage every replica has one instance that runs its forwards and one that runs its backwards, each on a worker of its
 * own. */
static enum ps_status check_instances(const struct ps_programs *programs, int stage, struct ps_error *error) {
    int first = programs->first_instance[stage], end = programs->first_instance[stage + 1];
    int replicas = programs->instances[first].replicas, forwards = 0, backwards = 0;
    for (int a = first; a < end; a++) {
        const struct instance *instance = &programs->instances[a];
        forwards += instance->forward;
        backwards += instance->backward;
        if (instance->replicas != replicas)
            return error_set(error, PS_BAD_INPUT, "stage %d: is said to have %d replicas and %d", stage, replicas,
                             instance->replicas);
        for (int b = first; b < a; b++) {
            const struct instance *other = &programs->instances[b];
            if (instance->worker == other->worker)
                return error_set(error, PS_BAD_INPUT, "stage %d: worker %d holds two parts of it", stage, instance->worker);
            if (instance->replica == other->replica &&
                ((instance->forward && other->forward) || (instance->backward && other->backward)))
                return error_set(error, PS_BAD_INPUT, "stage %d: replica %d is on workers %d and %d", stage, instance->replica,
                                 other->worker, instance->worker);
        }
    }
    if (forwards == replicas && backwards == replicas) return PS_OK;
    return error_set(error, PS_BAD_INPUT, "stage %d: %d replicas, but parts for %d forwards and %d backwards", stage, replicas,
                     forwards, backwards);
}

enum ps_status verify_each(const struct ps_programs *programs, struct ps_error *error) {
    for (int stage = 0; stage < programs->stages; stage++) TRY(check_instances(programs, stage, error));
    for (int worker = 0; worker < programs->workers; worker++) {
        const struct program *program = &programs->worker[worker];
        for (int i = 0; i < program->count; i++) {
            const char *reason = check(programs, worker, &program->code[i]);
            if (reason) return verify_refuse(&program->code[i], worker, error, reason);
        }
    }
    return PS_OK;
}
