/*
 * What travels, and when. A result is sent right after the computation that makes it. A receive is posted one computation of
 * its kind ahead: before the forward (backward) that precedes the one that needs it, so that the transfer runs beside that
 * computation; the first ones of a segment (of a mini-batch, where the schedule flushes) before the first forward. With
 * receives ahead no order of sends can deadlock, also where a send waits for its receive (the verifier proves it).
 */
#include <stdlib.h>

#include "program/passes/passes.h"

struct communicate_pass {
    bool flush;
    /* by stage and micro-batch: its neighbours of the same kind in the program, -1: none */
    int *previous_forward, *next_forward, *next_backward;
    int *first_backward; /* by stage and look-ahead group: its first backward */
};

static int group_of(const struct communicate_pass *pass, const struct ps_programs *programs, int micro_batch) {
    return pass->flush ? programs_batch(programs, micro_batch) : 0;
}

static bool group_starts(const struct communicate_pass *pass, const struct ps_programs *programs, int previous, int micro_batch) {
    return previous < 0 || group_of(pass, programs, previous) != group_of(pass, programs, micro_batch);
}

static enum ps_status transfer(const struct ps_programs *programs, enum opcode op, int stage, int other_stage, int micro_batch,
                               struct program *out, struct ps_error *error) {
    struct instruction instruction = instruction_make(op, stage, micro_batch);
    instruction.peer = (int16_t)programs->stage_worker[other_stage];
    return program_append(out, &instruction, error);
}

/* Posts the receive for the computation after `micro_batch`, unless it belongs to the next look-ahead group. */
static enum ps_status post_next(const struct communicate_pass *pass, const struct ps_programs *programs, enum opcode op, int stage,
                                int other_stage, int micro_batch, int next, struct program *out, struct ps_error *error) {
    if (next < 0 || group_starts(pass, programs, micro_batch, next)) return PS_OK;
    return transfer(programs, op, stage, other_stage, next, out, error);
}

static enum ps_status before_forward(const struct communicate_pass *pass, const struct ps_programs *programs, int stage, int k,
                                     struct program *out, struct ps_error *error) {
    size_t cell = (size_t)stage * (size_t)programs_micro_batches(programs) + (size_t)k;
    bool starts = programs->evaluation || group_starts(pass, programs, pass->previous_forward[cell], k);
    if (stage > 0) {
        if (starts) TRY(transfer(programs, OP_RA, stage, stage - 1, k, out, error));
        if (!programs->evaluation)
            TRY(post_next(pass, programs, OP_RA, stage, stage - 1, k, pass->next_forward[cell], out, error));
    }
    int first = pass->first_backward[stage * programs->batches + group_of(pass, programs, k)];
    if (starts && first >= 0 && stage < programs->stages - 1)
        TRY(transfer(programs, OP_RG, stage, stage + 1, first, out, error));
    return PS_OK;
}

static enum ps_status visit(void *context, const struct ps_programs *programs, int worker, int index, struct program *out,
                            struct ps_error *error) {
    const struct communicate_pass *pass = context;
    const struct instruction *instruction = &programs->worker[worker].code[index];
    int stage = instruction->stage, k = instruction->micro_batch, last = programs->stages - 1;
    size_t cell = (size_t)stage * (size_t)programs_micro_batches(programs) + (size_t)k;
    bool backward_starts = instruction->op == (programs->recompute[stage] ? OP_R : OP_B);
    if (instruction->op == OP_F) TRY(before_forward(pass, programs, stage, k, out, error));
    if (backward_starts && stage < last)
        TRY(post_next(pass, programs, OP_RG, stage, stage + 1, k, pass->next_backward[cell], out, error));
    TRY(program_append(out, instruction, error));
    if (instruction->op == OP_F && stage < last) TRY(transfer(programs, OP_SA, stage, stage + 1, k, out, error));
    if (instruction->op == OP_B && stage > 0) TRY(transfer(programs, OP_SG, stage, stage - 1, k, out, error));
    return PS_OK;
}

/* Links each computation to the ones of its kind and stage before and after it. `last` has room for two numbers per stage. */
static void link_computations(struct communicate_pass *pass, const struct ps_programs *programs, int *last) {
    int count = programs_micro_batches(programs);
    for (int worker = 0; worker < programs->workers; worker++) {
        const struct program *program = &programs->worker[worker];
        for (int i = 0; i < program->count; i++) {
            const struct instruction *instruction = &program->code[i];
            int stage = instruction->stage, k = instruction->micro_batch;
            if (instruction->op == OP_F) {
                int *previous = &last[2 * stage];
                pass->previous_forward[stage * count + k] = *previous;
                if (*previous >= 0) pass->next_forward[stage * count + *previous] = k;
                *previous = k;
            }
            if (instruction->op == OP_B) {
                int *previous = &last[2 * stage + 1], *first = &pass->first_backward[stage * programs->batches + group_of(pass, programs, k)];
                if (*previous >= 0) pass->next_backward[stage * count + *previous] = k;
                if (*first < 0) *first = k;
                *previous = k;
            }
        }
    }
}

static enum ps_status run(struct ps_programs *programs, struct ps_error *error) {
    const struct schedule *schedule;
    TRY(schedule_find(programs->schedule, &schedule, error));
    size_t stages = (size_t)programs->stages, cells = stages * (size_t)programs_micro_batches(programs);
    size_t size = 3 * cells + stages * (size_t)programs->batches + 2 * stages;
    int *block = malloc(size * sizeof *block);
    if (!block) return error_memory(error, "communicate pass", size * sizeof *block);
    for (size_t i = 0; i < size; i++) block[i] = -1;
    struct communicate_pass pass = {
        .flush = schedule->flush,
        .previous_forward = block,
        .next_forward = block + cells,
        .next_backward = block + 2 * cells,
        .first_backward = block + 3 * cells,
    };
    link_computations(&pass, programs, block + size - 2 * stages);
    enum ps_status status = pass_rewrite(programs, visit, &pass, error);
    free(block);
    return status;
}

const struct pass pass_communicate = {.name = "communicate", .evaluation = true, .run = run};
