/* Programs as data: making, growing and freeing them. */
#include "program/program.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

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
    static const int steps[OPCODE_COUNT] = {
        [OP_SA] = 1, [OP_RG] = 1, [OP_EA] = 1, [OP_DG] = 1, [OP_SG] = -1, [OP_RA] = -1, [OP_EG] = -1, [OP_DA] = -1};
    return instruction->stage + steps[instruction->op];
}

int instruction_transfer_slot(const struct instruction *instruction) {
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
                                       [BLOCK_WIRE + WIRE_ACTIVATION_SENT] = &slots->wire[WIRE_ACTIVATION_SENT],
                                       [BLOCK_WIRE + WIRE_ACTIVATION_RECEIVED] = &slots->wire[WIRE_ACTIVATION_RECEIVED],
                                       [BLOCK_WIRE + WIRE_GRADIENT_SENT] = &slots->wire[WIRE_GRADIENT_SENT],
                                       [BLOCK_WIRE + WIRE_GRADIENT_RECEIVED] = &slots->wire[WIRE_GRADIENT_RECEIVED],
                                       [BLOCK_WEIGHTS] = &slots->weights};
    return places[kind];
}

int64_t stage_block_bytes(const struct stage_sizes *sizes, enum block_kind kind) {
    if (kind >= BLOCK_WIRE && kind < BLOCK_KINDS) return sizes->wire_bytes[kind - BLOCK_WIRE];
    const int64_t bytes[BLOCK_PLACES] = {
        [BLOCK_STASH] = sizes->stash_bytes,
        [BLOCK_DELTA] = sizes->delta_bytes,
        [BLOCK_INPUT] = sizes->input_bytes,
        [BLOCK_OUTPUT] = sizes->output_bytes,
        [BLOCK_OUTPUT_GRADIENT] = sizes->output_bytes,
        [BLOCK_INPUT_GRADIENT] = sizes->input_bytes,
        [BLOCK_WEIGHT_GRADIENTS] = stage_gradient_bytes(sizes),
        [BLOCK_WEIGHTS] = stage_copy_bytes(sizes),
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
    TRY(memory_grow(&program->code, &program->capacity, program->count + 1, "program", error));
    program->code[program->count++] = *instruction;
    return PS_OK;
}

enum ps_status programs_create(int workers, int stages, struct ps_programs **out, struct ps_error *error) {
    struct ps_programs *programs;
    TRY(memory_new(&programs, 1, "programs", error));
    struct arena *arena = &programs->arena;
    programs->workers = workers;
    programs->stages = programs->instance_count = stages;
    programs->first_instance = arena_take(arena, (size_t)stages + 1, sizeof *programs->first_instance);
    programs->recompute = arena_take(arena, (size_t)stages, sizeof *programs->recompute);
    programs->wire = arena_take(arena, (size_t)stages, sizeof *programs->wire);
    programs->sum_wire = arena_take(arena, (size_t)stages, sizeof *programs->sum_wire);
    programs->worker = arena_take(arena, (size_t)workers, sizeof *programs->worker);
    programs->instances = arena_take(arena, (size_t)stages, sizeof *programs->instances);
    programs->slots = arena_take(arena, (size_t)stages, sizeof *programs->slots);
    enum ps_status status = arena_check(arena, "programs", error);
    if (status != PS_OK) {
        free(programs);
        return status;
    }
    for (int stage = 0; stage < stages; stage++)
        programs->instances[stage] = (struct instance){.stage = stage, .forward = true, .backward = true, .replicas = 1};
    for (int stage = 0; stage <= stages; stage++) programs->first_instance[stage] = stage;
    /* One after the other, as the instances are: each stage alone. */
    status = programs_set_groups(programs, programs->first_instance, error);
    if (status == PS_OK)
        *out = programs;
    else
        ps_programs_destroy(programs);
    return status;
}

void ps_programs_destroy(struct ps_programs *programs) {
    if (!programs) return;
    for (int worker = 0; worker < programs->workers; worker++) free(programs->worker[worker].code);
    arena_release(&programs->arena);
    free(programs);
}

/* The table of instructions, from opcodes.def; the printer, the parser, the verifier and the interpreter all work from it. */

const struct opcode_info opcode_table[OPCODE_COUNT] = {
#define OPCODE(NAME, word, kind, letters, what)                                                                                \
    [OP_##NAME] = {.text = word, .operands = letters, .summary = what, .action = ACTION_##kind},
#include "program/opcodes.def"
#undef OPCODE
};

bool instruction_computes(const struct instruction *instruction) {
    enum action action = opcode_table[instruction->op].action;
    return action != ACTION_SEND && action != ACTION_RECEIVE && action != ACTION_REDUCE;
}

bool instruction_moves_weights(const struct instruction *instruction) {
    return instruction->op == OP_SW || instruction->op == OP_RW;
}

const struct wire *programs_wire(const struct ps_programs *programs, int worker, const struct instruction *instruction) {
    static const struct wire none;
    const int step = instruction_other_stage(instruction) - instruction->stage;
    const int cut = instruction->stage - (step < 0);
    const enum opcode op = (enum opcode)instruction->op;
    if (programs->evaluation || step == 0 || cut < 0 || cut >= programs->stages - 1 || instruction->peer == worker)
        return &none;
    return op == OP_SG || op == OP_RG || op == OP_EG || op == OP_DG ? &programs->wire[cut].gradient
                                                                    : &programs->wire[cut].activation;
}

enum block_kind operand_block(char letter) {
    static const char letters[] = "swiogdxyuv";
    const char *found = letter ? strchr(letters, letter) : NULL;
    return found ? (enum block_kind)(found - letters) : BLOCK_KINDS;
}

/* Instances: which worker holds which instance of a stage, and which of a stage's replicas a micro-batch goes to. */

enum ps_status programs_set_instances(struct ps_programs *programs, const struct instance *instances, int count,
                                      struct ps_error *error) {
    struct arena *arena = &programs->arena;
    struct instance *copy = arena_copy(arena, instances, (size_t)count, sizeof *copy);
    struct stage_slots *slots = arena_take(arena, (size_t)count, sizeof *slots);
    TRY(arena_status(arena, "stage instances", error)); /* the programs do not change */
    programs->instances = copy;
    programs->slots = slots;
    programs->instance_count = count;
    for (int stage = 0, instance = 0; stage <= programs->stages; stage++) {
        while (instance < count && copy[instance].stage < stage) instance++;
        programs->first_instance[stage] = instance;
    }
    return PS_OK;
}

bool programs_has_pattern(const struct ps_programs *programs) { return programs->plan && programs->plan->pattern_count > 0; }

int programs_instance(const struct ps_programs *programs, int worker, int stage) {
    const int first = programs->first_instance[stage], end = programs->first_instance[stage + 1];
    /* Most stages have workers that follow one another. */
    const int guess = first + worker - programs->instances[first].worker;
    if (guess >= first && guess < end && programs->instances[guess].worker == worker) return guess;
    for (int instance = first; instance < end; instance++)
        if (programs->instances[instance].worker == worker) return instance;
    return NO_INSTANCE;
}

static int replica_of(const struct ps_programs *programs, int replicas, int micro_batch) {
    if (replicas == 1) return 0;
    return (programs->flush ? micro_batch % programs->micro_batches : programs_batch(programs, micro_batch)) % replicas;
}

bool programs_takes(const struct ps_programs *programs, int instance, int micro_batch) {
    const struct instance *p = &programs->instances[instance];
    return replica_of(programs, p->replicas, micro_batch) == p->replica;
}

int programs_forward_instance(const struct ps_programs *programs, int stage, int micro_batch) {
    int instance = programs->first_instance[stage];
    while (!programs->instances[instance].forward || !programs_takes(programs, instance, micro_batch)) instance++;
    assert(instance < programs->first_instance[stage + 1]);
    return instance;
}

int programs_backward_instance(const struct ps_programs *programs, int stage, int micro_batch) {
    int instance = programs->first_instance[stage];
    while (!programs->instances[instance].backward || !programs_takes(programs, instance, micro_batch)) instance++;
    assert(instance < programs->first_instance[stage + 1]);
    return instance;
}

struct sum_group programs_sum_group(const struct ps_programs *programs, int stage) {
    struct sum_group group = programs->groups[stage];
    group.size = 0;
    for (int s = 0; s < group.stage_count; s++) group.size += programs_replicas(programs, group.stages[s]);
    return group;
}

enum ps_status programs_set_groups(struct ps_programs *programs, const int *head, struct ps_error *error) {
    const int count = programs->stages;
    int *stages = arena_take(&programs->arena, (size_t)count, sizeof *stages), *next;
    struct sum_group *groups = arena_take(&programs->arena, (size_t)count, sizeof *groups);
    TRY(arena_status(&programs->arena, "programs", error));
    TRY(memory_new(&next, count, "programs", error));
    for (int s = 0; s < count; s++) groups[head[s]].stage_count++;
    for (int s = 0, placed = 0; s < count; placed += groups[s++].stage_count) {
        groups[s].number = s;
        groups[s].stages = &stages[next[s] = placed];
    }
    for (int s = 0; s < count; s++) stages[next[head[s]]++] = s;
    for (int s = 0; s < count; s++) groups[s] = groups[head[s]];
    free(next);
    programs->groups = groups;
    return PS_OK;
}

bool programs_tied(const struct ps_programs *programs) {
    for (int stage = 0; stage < programs->stages; stage++)
        if (programs->groups[stage].stage_count > 1) return true;
    return false;
}

int programs_sum_passes(const struct ps_programs *programs, const struct sum_group *group, struct sum_group *passes) {
    int count = 0;
    for (int s = 0; s < group->stage_count && group->stage_count > 1; s++) {
        const int replicas = programs_replicas(programs, group->stages[s]);
        if (replicas > 1)
            passes[count++] =
                (struct sum_group){.number = group->number, .stages = &group->stages[s], .stage_count = 1, .size = replicas};
    }
    passes[count++] = *group;
    return count;
}

static double add_pass(const struct sum_group *pass, const struct stage_sizes *size, double *bytes) {
    const int64_t all = pass->stage_count > 1 ? size->tied_bytes : stage_sum_bytes(size);
    if (bytes) *bytes += 2.0 * (pass->size - 1) / pass->size * (double)all;
    return pass->size * sum_pass_share(pass, size);
}

double programs_sum_shares(const struct ps_programs *programs, int stage, const struct stage_sizes *size, double *bytes) {
    const struct sum_group group = programs_sum_group(programs, stage);
    const struct sum_group replicas = {.stages = &stage, .stage_count = 1, .size = programs_replicas(programs, stage)};
    double shares = 0;
    if (bytes) *bytes = 0;
    if (group.stage_count > 1 && replicas.size > 1) shares += add_pass(&replicas, size, bytes);
    return shares + add_pass(&group, size, bytes);
}

double sum_pass_share(const struct sum_group *pass, const struct stage_sizes *size) {
    int64_t all = stage_gradient_bytes(size) + size->statistics_bytes;
    return pass->stage_count > 1 && all > 0 ? (double)size->tied_bytes / (double)all : 1;
}

int programs_round(const struct ps_programs *programs, int stage) {
    return programs->flush ? 1 : programs_replicas(programs, stage);
}

int programs_updates(const struct ps_programs *programs, int stage) {
    int round = programs_round(programs, stage);
    return (programs->batches + round - 1) / round;
}

int programs_update_of(const struct ps_programs *programs, int stage, int micro_batch) {
    return programs_batch(programs, micro_batch) / programs_round(programs, stage);
}

int programs_share(const struct ps_programs *programs, int instance, int update) {
    const struct instance *of = &programs->instances[instance];
    if (programs->flush) return (programs->micro_batches - of->replica + of->replicas - 1) / of->replicas;
    return update * of->replicas + of->replica < programs->batches ? programs->micro_batches : 0;
}

int programs_nth(const struct ps_programs *programs, int instance, int n) {
    const struct instance *of = &programs->instances[instance];
    if (programs->flush) {
        int share = programs_share(programs, instance, 0);
        return n / share * programs->micro_batches + n % share * of->replicas + of->replica;
    }
    int batch = n / programs->micro_batches * of->replicas + of->replica;
    return batch * programs->micro_batches + n % programs->micro_batches;
}

int programs_taken(const struct ps_programs *programs, int instance) {
    const struct instance *of = &programs->instances[instance];
    if (programs->flush) return programs_share(programs, instance, 0) * programs->batches;
    return (programs->batches - of->replica + of->replicas - 1) / of->replicas * programs->micro_batches;
}
