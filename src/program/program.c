/* Programs as data: making, growing and freeing them. */
#include "program/program.h"

#include <stdlib.h>

struct instruction instruction_make(enum opcode op, int stage, int micro_batch) {
    struct instruction instruction = {
        .op = (uint8_t)op,
        .stage = (int16_t)stage,
        .micro_batch = micro_batch,
        .slot = NO_SLOT,
        .to = NO_SLOT,
        .predict_to = NO_SLOT,
        .peer = -1,
    };
    for (int kind = 0; kind < BLOCK_KINDS; kind++) instruction.block[kind] = NO_SLOT;
    return instruction;
}

int instruction_other_stage(const struct instruction *instruction) {
    static const int steps[OPCODE_COUNT] = {[OP_SA] = 1, [OP_RG] = 1, [OP_SG] = -1, [OP_RA] = -1};
    return instruction->stage + steps[instruction->op];
}

int instruction_handed_slot(const struct instruction *instruction) {
    switch (opcode_table[instruction->op].action) {
    case ACTION_FORWARD:
        return instruction->slot;
    case ACTION_UPDATE:
    case ACTION_PREDICT:
        return instruction->predict_to;
    default:
        return NO_SLOT;
    }
}

int *stage_slots_place(struct stage_slots *slots, enum block_kind kind) {
    int *const places[BLOCK_PLACES] = {[BLOCK_STASH] = &slots->stash,
                                       [BLOCK_DELTA] = &slots->delta,
                                       [BLOCK_INPUT] = &slots->input,
                                       [BLOCK_OUTPUT] = &slots->output,
                                       [BLOCK_OUTPUT_GRADIENT] = &slots->output_gradient,
                                       [BLOCK_INPUT_GRADIENT] = &slots->input_gradient,
                                       [BLOCK_WEIGHTS] = &slots->weights};
    return places[kind];
}

int64_t stage_block_bytes(const struct stage_sizes *sizes, enum block_kind kind) {
    const int64_t bytes[BLOCK_PLACES] = {
        [BLOCK_STASH] = sizes->stash_bytes,
        [BLOCK_DELTA] = sizes->delta_bytes,
        [BLOCK_INPUT] = sizes->input_bytes,
        [BLOCK_OUTPUT] = sizes->output_bytes,
        [BLOCK_OUTPUT_GRADIENT] = sizes->output_bytes,
        [BLOCK_INPUT_GRADIENT] = sizes->input_bytes,
        [BLOCK_WEIGHT_GRADIENTS] = stage_gradient_bytes(sizes),
        [BLOCK_WEIGHTS] = sizes->parameter_bytes,
    };
    return bytes[kind];
}

int stage_slots_of(const struct stage_slots *slots, enum block_kind kind) {
    struct stage_slots own = *slots;
    const int *count = stage_slots_place(&own, kind);
    if (kind == BLOCK_WEIGHT_GRADIENTS) return !own.forward_only;
    return count ? *count : 0;
}

enum ps_status program_append(struct program *program, const struct instruction *instruction, struct ps_error *error) {
    if (program->count == program->capacity) {
        int capacity = program->capacity ? 2 * program->capacity : 64;
        struct instruction *code = realloc(program->code, (size_t)capacity * sizeof *code);
        if (!code) return error_memory(error, "program", (size_t)capacity * sizeof *code);
        program->code = code;
        program->capacity = capacity;
    }
    program->code[program->count++] = *instruction;
    return PS_OK;
}

enum ps_status programs_create(int workers, int stages, struct ps_programs **out, struct ps_error *error) {
    struct ps_programs *programs = calloc(1, sizeof *programs);
    if (!programs) return error_memory(error, "programs", sizeof *programs);
    programs->workers = workers;
    programs->stages = stages;
    programs->first_instance = calloc((size_t)stages + 1, sizeof *programs->first_instance);
    programs->recompute = calloc((size_t)stages, sizeof *programs->recompute);
    programs->worker = calloc((size_t)workers, sizeof *programs->worker);
    struct instance *instances = calloc((size_t)stages, sizeof *instances);
    enum ps_status status = PS_OK;
    if (!programs->first_instance || !programs->recompute || !programs->worker || !instances)
        status = error_memory(error, "programs", (size_t)workers * sizeof *programs->worker);
    for (int stage = 0; status == PS_OK && stage < stages; stage++)
        instances[stage] = (struct instance){.stage = stage, .forward = true, .backward = true, .replicas = 1};
    if (status == PS_OK) status = programs_set_instances(programs, instances, stages, error);
    free(instances);
    if (status != PS_OK) {
        ps_programs_destroy(programs);
        return status;
    }
    *out = programs;
    return PS_OK;
}

void ps_programs_destroy(struct ps_programs *programs) {
    if (!programs) return;
    if (programs->worker)
        for (int worker = 0; worker < programs->workers; worker++) free(programs->worker[worker].code);
    free(programs->worker);
    free(programs->slots);
    free(programs->recompute);
    free(programs->instances);
    free(programs->first_instance);
    free(programs);
}
