/*
 * Greedy list scheduling. The oldest micro-batch goes first, where a backward counts as so many micro-batches younger as the
 * rules have patience (with a negative one, as older than any forward); then a backward before a forward. Micro-batches enter
 * only while fewer than the limit are under way, which bounds the memory; nothing else waits for anything but its inputs, so
 * the order can always run.
 */
#include "program/schedules/greedy.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

int wave_worker(int stage, int stages, int workers) {
    (void)stages;
    int place = stage % workers;
    return stage / workers % 2 == 0 ? place : workers - 1 - place;
}

enum { FORWARD, BACKWARD, INSTANCES };

struct greedy {
    struct ps_programs *programs;
    const struct greedy_rules *rules;
    int micro_batches;
    int *done[INSTANCES];     /* by stage: computations begun */
    int *ready_at[INSTANCES]; /* by stage and micro-batch: when its result is there, INT_MAX: not begun */
    int *free_at;             /* by worker */
};

struct choice {
    int stage, instance, micro_batch;
};

static bool there(const struct greedy *greedy, int instance, int stage, int micro_batch, int now) {
    return greedy->ready_at[instance][(size_t)stage * (size_t)greedy->micro_batches + (size_t)micro_batch] <= now;
}

/* Could the stage's next computation of this part begin now? */
static bool can_begin(const struct greedy *greedy, int stage, int instance, int now) {
    int k = greedy->done[instance][stage], last = greedy->programs->stages - 1;
    if (k == greedy->micro_batches) return false;
    if (instance == BACKWARD)
        return there(greedy, FORWARD, stage, k, now) && (stage == last || there(greedy, BACKWARD, stage + 1, k, now));
    if (stage == 0) return k - greedy->done[BACKWARD][0] < greedy->rules->under_way;
    return there(greedy, FORWARD, stage - 1, k, now);
}

static bool better(const struct greedy *greedy, const struct choice *a, const struct choice *b) {
    int turn_a = a->micro_batch + (a->instance == BACKWARD ? greedy->rules->patience : 0);
    int turn_b = b->micro_batch + (b->instance == BACKWARD ? greedy->rules->patience : 0);
    if (turn_a != turn_b) return turn_a < turn_b;
    if (a->instance != b->instance) return a->instance == BACKWARD;
    return a->stage > b->stage;
}

static enum ps_status begin(struct greedy *greedy, int worker, const struct choice *choice, int now, struct ps_error *error) {
    int end = now + (choice->instance == FORWARD ? greedy->rules->forward : greedy->rules->backward);
    greedy->done[choice->instance][choice->stage]++;
    greedy->ready_at[choice->instance][(size_t)choice->stage * (size_t)greedy->micro_batches + (size_t)choice->micro_batch] =
        end;
    greedy->free_at[worker] = end;
    struct instruction instruction =
        instruction_make(choice->instance == FORWARD ? OP_F : OP_B, choice->stage, choice->micro_batch);
    return program_append(&greedy->programs->worker[worker], &instruction, error);
}

/* Every free worker takes its best at this moment; `left` counts the computations not begun. */
static enum ps_status run_slice(struct greedy *greedy, int now, struct choice *best, int *left, struct ps_error *error) {
    const struct ps_programs *programs = greedy->programs;
    for (int worker = 0; worker < programs->workers; worker++) best[worker].stage = -1;
    for (int stage = 0; stage < programs->stages; stage++) {
        int worker = programs_worker(programs, stage);
        if (greedy->free_at[worker] > now) continue;
        for (int instance = 0; instance < INSTANCES; instance++) {
            struct choice choice = {.stage = stage, .instance = instance, .micro_batch = greedy->done[instance][stage]};
            if (!can_begin(greedy, stage, instance, now)) continue;
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

/* The later mini-batches in the order of the first. */
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
    memset(block, 0, (INSTANCES * (stages + cells) + (size_t)greedy->programs->workers) * sizeof *block);
    for (int instance = 0; instance < INSTANCES; instance++) {
        greedy->done[instance] = block + (size_t)instance * (stages + cells);
        greedy->ready_at[instance] = greedy->done[instance] + stages;
        for (size_t cell = 0; cell < cells; cell++) greedy->ready_at[instance][cell] = INT_MAX;
    }
    greedy->free_at = block + INSTANCES * (stages + cells);
}

/* One mini-batch by one set of rules; *length: when the last computation begins. `block` and `best`: room for start and
 * run_slice. */
static enum ps_status try_rules(struct ps_programs *programs, const struct greedy_rules *rules, int *block, struct choice *best,
                                int *length, struct ps_error *error) {
    struct greedy greedy = {.programs = programs, .rules = rules, .micro_batches = programs->micro_batches};
    for (int worker = 0; worker < programs->workers; worker++) programs->worker[worker].count = 0;
    start(&greedy, block);
    int left = INSTANCES * programs->stages * programs->micro_batches, now = 0;
    for (; left > 0; now++) TRY(run_slice(&greedy, now, best, &left, error));
    *length = now;
    return PS_OK;
}

enum ps_status greedy_write(struct ps_programs *programs, const struct greedy_rules *rules, int count, struct ps_error *error) {
    size_t stages = (size_t)programs->stages, workers = (size_t)programs->workers;
    size_t cells = stages * (size_t)programs->micro_batches;
    int *block = malloc((INSTANCES * (stages + cells) + workers) * sizeof *block);
    struct choice *best = calloc(workers, sizeof *best);
    enum ps_status status = block && best ? PS_OK : error_memory(error, "schedule", INSTANCES * cells * sizeof *block);
    int shortest = 0, least = INT_MAX, length = 0;
    for (int i = 0; status == PS_OK && i < count; i++) {
        status = try_rules(programs, &rules[i], block, best, &length, error);
        if (status != PS_OK || length >= least) continue;
        least = length;
        shortest = i;
    }
    if (status == PS_OK && shortest < count - 1) status = try_rules(programs, &rules[shortest], block, best, &length, error);
    if (status == PS_OK) status = repeat(programs, error);
    free(best);
    free(block);
    return status;
}
