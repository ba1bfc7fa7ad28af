/* Shared by the schedules with one stage per worker. */
#include "program/schedules/orders.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

int straight_stage(const struct ps_programs *programs, int worker) {
    for (int stage = 0; stage < programs->stages; stage++)
        if (programs_worker(programs, stage) == worker) return stage;
    return -1;
}

int straight_instance(const struct ps_programs *programs, int worker) {
    int instance = 0;
    while (instance < programs->instance_count && programs->instances[instance].worker != worker) instance++;
    return instance < programs->instance_count ? instance : NO_INSTANCE;
}

static bool any_split(const struct ps_programs *programs) {
    for (int stage = 0; stage < programs->stages && programs->instance_count > programs->stages; stage++)
        if (programs_split(programs, stage)) return true;
    return false;
}

/* `under_way`: micro-batches that the later stages hold. If whole mini-batches go to replicas round robin, the unit is
 * mini-batches from the last stage with replicas backwards. */
int straight_ahead(const struct ps_programs *programs, int instance) {
    int stage = programs->instances[instance].stage, under_way = 0, held = 0, unit = 1;
    if (any_split(programs)) return (1 + programs->slack) * schedule_workers_behind(programs, instance);
    for (int s = programs->stages - 1; s >= stage; s--) {
        int replicas = programs_replicas(programs, s);
        if (replicas > 1 && unit == 1 && !programs->flush) {
            unit = programs->micro_batches;
            under_way = (under_way + unit - 1) / unit;
        }
        held = 1 + (s < programs->stages - 1 ? programs->slack : 0) + (under_way + replicas - 1) / replicas;
        under_way = held * replicas;
    }
    return unit * held - 1;
}

enum ps_status straight_append(const struct ps_programs *programs, int instance, enum opcode op, int n, struct program *program,
                               struct ps_error *error) {
    int micro_batch = programs_nth(programs, instance, n), stages = programs->stages;
    bool forward = op == OP_F;
    if (!any_split(programs)) return straight_compute(program, op, programs->instances[instance].stage, micro_batch, error);
    for (int i = 0; i < stages; i++) {
        int stage = forward ? i : stages - 1 - i,
            own = programs_instance(programs, programs->instances[instance].worker, stage);
        if (own == NO_INSTANCE || !(forward ? programs->instances[own].forward : programs->instances[own].backward)) continue;
        TRY(straight_compute(program, op, stage, micro_batch, error));
    }
    return PS_OK;
}

enum ps_status straight_compute(struct program *program, enum opcode op, int stage, int micro_batch, struct ps_error *error) {
    struct instruction instruction = instruction_make(op, stage, micro_batch);
    return program_append(program, &instruction, error);
}

enum ps_status straight_one_forward_one_backward(const struct ps_programs *programs, int instance, struct program *program,
                                                 int first, int count, int warm_up, struct ps_error *error) {
    if (warm_up > count) warm_up = count;
    for (int n = 0; n < count + warm_up; n++) {
        if (n < count) TRY(straight_append(programs, instance, OP_F, first + n, program, error));
        if (n >= warm_up) TRY(straight_append(programs, instance, OP_B, first + n - warm_up, program, error));
    }
    return PS_OK;
}

int straight_one_micro_batch(int workers) {
    (void)workers;
    return 1;
}

int straight_micro_batches(int workers) {
    if (workers == 1) return 1;
    int micro_batches = 1;
    while (micro_batches < 2 * workers) micro_batches *= 2;
    return micro_batches;
}

/*
 * Greedy list scheduling. The oldest micro-batch goes first. For this comparison a backward counts as `patience` micro-batches
 * younger (with a negative patience, as older than any forward). In a tie a backward precedes a forward. Micro-batches enter
 * only while fewer than the limit are in flight, which bounds the memory. Nothing else waits for anything but its inputs, so
 * the order can always run.
 */

int wave_worker(int stage, int stages, int workers) {
    (void)stages;
    int place = stage % workers;
    return stage / workers % 2 == 0 ? place : workers - 1 - place;
}

enum { FORWARD, BACKWARD, DIRECTIONS };

struct greedy {
    struct ps_programs *programs;
    const struct greedy_rules *rules;
    int micro_batches;
    int *done[DIRECTIONS];     /* by stage: computations begun */
    int *ready_at[DIRECTIONS]; /* by stage and micro-batch: when its result is available, INT_MAX: not begun */
    int *free_at;              /* by worker */
};

struct choice {
    int stage, direction, micro_batch;
};

static bool available(const struct greedy *greedy, int direction, int stage, int micro_batch, int now) {
    return greedy->ready_at[direction][(size_t)stage * (size_t)greedy->micro_batches + (size_t)micro_batch] <= now;
}

/* Returns true if the stage's next forward (backward) can begin now. */
static bool can_begin(const struct greedy *greedy, int stage, int direction, int now) {
    int k = greedy->done[direction][stage], last = greedy->programs->stages - 1;
    if (k == greedy->micro_batches) return false;
    if (direction == BACKWARD)
        return available(greedy, FORWARD, stage, k, now) && (stage == last || available(greedy, BACKWARD, stage + 1, k, now));
    if (stage == 0) return k - greedy->done[BACKWARD][0] < greedy->rules->under_way;
    return available(greedy, FORWARD, stage - 1, k, now);
}

static bool better(const struct greedy *greedy, const struct choice *a, const struct choice *b) {
    int age_a = a->micro_batch + (a->direction == BACKWARD ? greedy->rules->patience : 0);
    int age_b = b->micro_batch + (b->direction == BACKWARD ? greedy->rules->patience : 0);
    if (age_a != age_b) return age_a < age_b;
    if (a->direction != b->direction) return a->direction == BACKWARD;
    return a->stage > b->stage;
}

static enum ps_status begin(struct greedy *greedy, int worker, const struct choice *choice, int now, struct ps_error *error) {
    int end = now + (choice->direction == FORWARD ? greedy->rules->forward : greedy->rules->backward);
    greedy->done[choice->direction][choice->stage]++;
    greedy->ready_at[choice->direction][(size_t)choice->stage * (size_t)greedy->micro_batches + (size_t)choice->micro_batch] =
        end;
    greedy->free_at[worker] = end;
    struct instruction instruction =
        instruction_make(choice->direction == FORWARD ? OP_F : OP_B, choice->stage, choice->micro_batch);
    return program_append(&greedy->programs->worker[worker], &instruction, error);
}

/* Every free worker starts the best computation at this time; `left` counts those not begun. */
static enum ps_status run_slice(struct greedy *greedy, int now, struct choice *best, int *left, struct ps_error *error) {
    const struct ps_programs *programs = greedy->programs;
    for (int worker = 0; worker < programs->workers; worker++) best[worker].stage = -1;
    for (int stage = 0; stage < programs->stages; stage++) {
        int worker = programs_worker(programs, stage);
        if (greedy->free_at[worker] > now) continue;
        for (int direction = 0; direction < DIRECTIONS; direction++) {
            struct choice choice = {.stage = stage, .direction = direction, .micro_batch = greedy->done[direction][stage]};
            if (!can_begin(greedy, stage, direction, now)) continue;
            if (best[worker].stage < 0 || better(greedy, &choice, &best[worker])) best[worker] = choice;
        }
    }
    for (int worker = 0; worker < programs->workers; worker++) {
        if (best[worker].stage < 0) continue;
        TRY(begin(greedy, worker, &best[worker], now, error));
        (*left)--;
    }
    return PS_OK;
}

/* Repeats the order of the first mini-batch for the later ones. */
static enum ps_status repeat(struct ps_programs *programs, struct ps_error *error) {
    for (int worker = 0; worker < programs->workers; worker++) {
        struct program *program = &programs->worker[worker];
        int count = program->count;
        for (int batch = 1; batch < programs->batches; batch++)
            for (int i = 0; i < count; i++) {
                struct instruction instruction = program->code[i];
                instruction.micro_batch += batch * programs->micro_batches;
                TRY(program_append(program, &instruction, error));
            }
    }
    return PS_OK;
}

static void start(struct greedy *greedy, int *block) {
    size_t stages = (size_t)greedy->programs->stages, cells = stages * (size_t)greedy->micro_batches;
    memset(block, 0, (DIRECTIONS * (stages + cells) + (size_t)greedy->programs->workers) * sizeof *block);
    for (int direction = 0; direction < DIRECTIONS; direction++) {
        greedy->done[direction] = block + (size_t)direction * (stages + cells);
        greedy->ready_at[direction] = greedy->done[direction] + stages;
        for (size_t cell = 0; cell < cells; cell++) greedy->ready_at[direction][cell] = INT_MAX;
    }
    greedy->free_at = block + DIRECTIONS * (stages + cells);
}

/* Schedules one mini-batch by one set of rules; *length: when the last computation begins. `block` and `best`: scratch memory
 * for start and run_slice. */
static enum ps_status try_rules(struct ps_programs *programs, const struct greedy_rules *rules, int *block, struct choice *best,
                                int *length, struct ps_error *error) {
    struct greedy greedy = {.programs = programs, .rules = rules, .micro_batches = programs->micro_batches};
    for (int worker = 0; worker < programs->workers; worker++) programs->worker[worker].count = 0;
    start(&greedy, block);
    int left = DIRECTIONS * programs->stages * programs->micro_batches, now = 0;
    for (; left > 0; now++) TRY(run_slice(&greedy, now, best, &left, error));
    *length = now;
    return PS_OK;
}

enum ps_status greedy_write(struct ps_programs *programs, const struct greedy_rules *rules, int count, struct ps_error *error) {
    size_t stages = (size_t)programs->stages, workers = (size_t)programs->workers;
    size_t cells = stages * (size_t)programs->micro_batches;
    struct arena arena = {0};
    int *block = arena_take(&arena, DIRECTIONS * (stages + cells) + workers, sizeof *block);
    struct choice *best = arena_take(&arena, workers, sizeof *best);
    TRY(arena_check(&arena, "schedule", error));
    enum ps_status status = PS_OK;
    int shortest = 0, least = INT_MAX, length = 0;
    for (int i = 0; status == PS_OK && i < count; i++) {
        status = try_rules(programs, &rules[i], block, best, &length, error);
        if (status != PS_OK || length >= least) continue;
        least = length;
        shortest = i;
    }
    if (status == PS_OK && shortest < count - 1) status = try_rules(programs, &rules[shortest], block, best, &length, error);
    if (status == PS_OK) status = repeat(programs, error);
    arena_release(&arena);
    return status;
}
