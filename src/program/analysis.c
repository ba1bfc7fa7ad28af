/* Counting updates: weight versions and staleness are counted in the programs. No formula is assumed. */
#include <stdlib.h>

#include "base/memory.h"
#include "program/lower.h"

/* If a stage's forwards and updates run on different workers, a forward has only the updates that precede the last SW for it or
 * for an earlier forward. `forward` holds one more than their number if available is an SW, else 0. */
static void fill_transferred(int *forward, int count) {
    for (int k = 0, known = 0; k < count; k++) {
        if (forward[k] > 0) known = forward[k] - 1;
        forward[k] = known;
    }
}

enum ps_status version_table_count(const struct ps_programs *programs, struct version_table *table, struct ps_error *error) {
    int micro_batches = programs_micro_batches(programs);
    size_t cells = (size_t)programs->stages * (size_t)micro_batches;
    int *block;
    TRY(memory_new(&block, 2 * cells + (size_t)programs->instance_count, "version table", error));
    int *forward = block, *backward = block + cells, *newest = block + 2 * cells; /* newest: by instance */
    for (int worker = 0; worker < programs->workers; worker++) {
        const struct program *program = &programs->worker[worker];
        for (int i = 0; i < program->count; i++) {
            const struct instruction *instruction = &program->code[i];
            int *updates = &newest[programs_instance(programs, worker, instruction->stage)];
            size_t cell = (size_t)instruction->stage * (size_t)micro_batches + (size_t)instruction->micro_batch;
            if (instruction->op == OP_F && !programs_split(programs, instruction->stage)) forward[cell] = *updates;
            if (instruction->op == OP_SW && instruction->micro_batch < micro_batches) forward[cell] = 1 + *updates;
            if (instruction_takes_gradient(instruction)) backward[cell] = *updates;
            if (instruction->op == OP_U) ++*updates;
        }
    }
    for (int stage = 0; stage < programs->stages; stage++)
        if (programs_split(programs, stage)) fill_transferred(forward + (size_t)stage * (size_t)micro_batches, micro_batches);
    *table = (struct version_table){.micro_batches = micro_batches, .forward = forward, .backward = backward};
    return PS_OK;
}

void version_table_free(struct version_table *table) {
    free(table->forward); /* one block holds both */
    *table = (struct version_table){0};
}

int version_table_staleness(const struct version_table *versions, int stage) {
    int staleness = 0;
    for (int k = 0; k < versions->micro_batches; k++) {
        size_t cell = (size_t)stage * (size_t)versions->micro_batches + (size_t)k;
        int s = versions->backward[cell] - versions->forward[cell];
        if (s > staleness) staleness = s;
    }
    return staleness;
}

struct reading_context version_table_context(const struct version_table *table, const struct ps_programs *programs, int stage,
                                             int micro_batch, bool flush) {
    const int *forward = table->forward + (size_t)stage * (size_t)table->micro_batches;
    const int *backward = table->backward + (size_t)stage * (size_t)table->micro_batches;
    int updates = programs_updates(programs, stage), last = table->micro_batches;
    int first_worker = micro_batch + stage / 2, horizon = micro_batch + stage;
    struct reading_context context = {
        .stage = stage,
        .stages = programs->stages,
        .micro_batch = micro_batch,
        .batch = programs_update_of(programs, stage, micro_batch),
        .forward_version = forward[micro_batch],
        .backward_version = backward[micro_batch],
        .first_worker_version = first_worker < last ? backward[first_worker] : updates,
        .horizon_version = horizon < last ? backward[horizon] : updates,
        .flush = flush,
    };
    if (flush) context.first_worker_version = context.horizon_version = context.backward_version;
    return context;
}

/*
 * The level of each instruction: when it would run if every instruction took one unit of time. It is one more than the later of
 * two levels: that of the instruction before it in its program, and that of the instruction that computes what it reads. A pass
 * that lets an instruction wait only for lower levels cannot create a cycle.
 *
 * Weights for forwards on another worker are sent from two blocks alternately. An instruction that fills one of them waits
 * until the weights sent from it before have been received. They have been received when the forward that precedes their own
 * forward has finished (passes/communicate.c).
 */

enum { NOT_YET = 0 };

struct leveler {
    const struct ps_programs *programs;
    struct program_levels *levels;
    int *next;               /* by worker: the next instruction */
    int *forward, *backward; /* by stage and micro-batch: level of its result, or NOT_YET */
    int *weights;            /* by stage and micro-batch: level at which its weights were sent, if they come from another
                              * worker */
    int *sent;               /* by stage: the micro-batches of the last weights that were sent and of those before; -1: none */
    /* By group and mini-batch: instances that have posted their gradients for this update, and the highest level of these. */
    int *posted, *posted_at;
    int micro_batches;
};

static size_t update_cell(const struct leveler *leveler, const struct instruction *instruction) {
    int group = programs_sum_group(leveler->programs, instruction->stage).number;
    return (size_t)group * (size_t)leveler->programs->batches + (size_t)instruction->micro_batch;
}

/* Weights may be sent for a micro-batch that is one past the last. */
static size_t weights_cell(const struct leveler *leveler, const struct instruction *instruction) {
    return (size_t)instruction->stage * ((size_t)leveler->micro_batches + 1) + (size_t)instruction->micro_batch;
}

/* Does the instruction fill the block from which the weights after it are sent? */
static bool fills_weights(const struct program *program, int at) {
    const struct instruction *instruction = &program->code[at], *next = instruction + 1;
    if ((instruction->op != OP_P && instruction->op != OP_U) || at + 1 == program->count) return false;
    return next->op == OP_SW && next->stage == instruction->stage && next->slot == instruction->predict_to;
}

/* The level at which that block is free again: NOT_YET, or -1 if it was never in use. */
static int emptied(const struct leveler *leveler, int stage) {
    int before = leveler->sent[2 * stage + 1] - 1;
    return before < 0 ? -1 : leveler->forward[(size_t)stage * (size_t)leveler->micro_batches + (size_t)before];
}

/* The level at which the operands of the instruction are available; NOT_YET, or -1 if no other instruction computes them. */
static int ready(const struct leveler *leveler, const struct instruction *instruction) {
    int stage = instruction->stage;
    size_t cell = (size_t)stage * (size_t)leveler->micro_batches + (size_t)instruction->micro_batch;
    if (instruction->op == OP_U && programs_sums(leveler->programs, stage)) {
        size_t update = update_cell(leveler, instruction);
        bool all = leveler->posted[update] == programs_sum_group(leveler->programs, stage).size;
        return all ? leveler->posted_at[update] : NOT_YET;
    }
    if (instruction->op == OP_F && stage > 0) return leveler->forward[cell - (size_t)leveler->micro_batches];
    if (instruction->op == OP_RW) return leveler->weights[weights_cell(leveler, instruction)];
    if (!instruction_takes_gradient(instruction)) return -1;
    int forward = leveler->forward[cell];
    if (forward == NOT_YET || stage == leveler->programs->stages - 1) return forward;
    int behind = leveler->backward[cell + (size_t)leveler->micro_batches];
    return behind != NOT_YET && behind < forward ? forward : behind;
}

/* With a pattern: levels from one computation to the next, for the updates and all other instructions in between. */
enum { LEVELS_EACH = 16 };

int program_levels_period(const struct ps_programs *programs) { return LEVELS_EACH * programs->plan->pattern_count; }

int program_weights_periods(const struct ps_programs *programs, int stage) {
    const struct plan_stage *from = &programs->plan->stages[stage];
    return 1 + (from->backward[0] < from->forward[0] ? programs->slack : 0);
}

/* The level that the plan's pattern gives the computation, or so many periods before the forward that weights are sent for; 0
 * if the pattern specifies none. */
static int level_in_pattern(const struct ps_programs *programs, const struct instruction *instruction) {
    bool computes = instruction->op == OP_F || instruction->op == OP_B;
    if (!programs_has_pattern(programs) || (!computes && instruction->op != OP_SW)) return 0;
    const struct plan_operation *pattern = programs->plan->pattern;
    int i = 0, micro_batch = instruction->micro_batch - (computes ? 0 : program_weights_periods(programs, instruction->stage));
    while (pattern[i].stage != instruction->stage || pattern[i].backward != (instruction->op == OP_B)) i++;
    return (micro_batch + plan_shift(programs->plan, &pattern[i])) * program_levels_period(programs) + LEVELS_EACH * i;
}

static int later(int a, int b) { return a > b ? a : b; }

static void record_weights(struct leveler *leveler, const struct instruction *instruction, int level) {
    int *sent = &leveler->sent[2 * instruction->stage];
    leveler->weights[weights_cell(leveler, instruction)] = level;
    sent[1] = sent[0];
    sent[0] = instruction->micro_batch;
}

/* Advances one worker as far as possible. */
static bool advance(struct leveler *leveler, int worker) {
    const struct program *program = &leveler->programs->worker[worker];
    int *level = leveler->levels->worker[worker], start = leveler->next[worker], at = start;
    for (; at < program->count; at++) {
        const struct instruction *instruction = &program->code[at];
        size_t cell = (size_t)instruction->stage * (size_t)leveler->micro_batches + (size_t)instruction->micro_batch;
        int before = at > 0 ? level[at - 1] : 0, available = ready(leveler, instruction);
        int room = fills_weights(program, at) ? emptied(leveler, instruction->stage) : -1;
        if (available == NOT_YET || room == NOT_YET) break;
        level[at] = later(1 + later(later(available, room), before), level_in_pattern(leveler->programs, instruction));
        if (instruction->op == OP_F) leveler->forward[cell] = level[at];
        if (instruction_takes_gradient(instruction)) leveler->backward[cell] = level[at];
        if (instruction->op == OP_SW) record_weights(leveler, instruction, level[at]);
        if (instruction->op == OP_AR) {
            size_t update = update_cell(leveler, instruction);
            leveler->posted[update]++;
            if (level[at] > leveler->posted_at[update]) leveler->posted_at[update] = level[at];
        }
    }
    leveler->next[worker] = at;
    return at > start;
}

static enum ps_status check_finished(const struct leveler *leveler, struct ps_error *error) {
    const struct ps_programs *programs = leveler->programs;
    for (int worker = 0; worker < programs->workers; worker++) {
        if (leveler->next[worker] == programs->worker[worker].count) continue;
        char text[96];
        return error_set(error, PS_USAGE, "schedule %s: its order deadlocks: worker %d waits at %s", programs->schedule->name,
                         worker, instruction_text(&programs->worker[worker].code[leveler->next[worker]], text));
    }
    return PS_OK;
}

/* Activations pass through the workers in one direction and gradients in the other: sweeping in both directions takes few
 * iterations. */
static enum ps_status run(struct leveler *leveler, struct ps_error *error) {
    int workers = leveler->programs->workers;
    for (bool moved = true; moved;) {
        moved = false;
        for (int worker = 0; worker < workers; worker++) moved = advance(leveler, worker) || moved;
        for (int worker = workers - 1; worker >= 0; worker--) moved = advance(leveler, worker) || moved;
    }
    return check_finished(leveler, error);
}

enum ps_status program_levels_count(const struct ps_programs *programs, struct program_levels *levels, struct ps_error *error) {
    size_t workers = (size_t)programs->workers, micro_batches = (size_t)programs_micro_batches(programs);
    size_t stages = (size_t)programs->stages, cells = stages * micro_batches, updates = stages * (size_t)programs->batches;
    struct program_levels made = {0};
    struct arena scratch = {0};
    struct leveler leveler = {.programs = programs,
                              .levels = &made,
                              .next = arena_take(&scratch, workers, sizeof(int)),
                              .forward = arena_take(&scratch, cells, sizeof(int)),
                              .backward = arena_take(&scratch, cells, sizeof(int)),
                              .posted = arena_take(&scratch, updates, sizeof(int)),
                              .posted_at = arena_take(&scratch, updates, sizeof(int)),
                              .sent = arena_take(&scratch, 2 * stages, sizeof(int)),
                              .weights = arena_take(&scratch, cells + stages, sizeof(int)),
                              .micro_batches = (int)micro_batches};
    enum ps_status status;
    made.worker = arena_take(&made.arena, workers, sizeof *made.worker);
    for (size_t worker = 0; made.worker && worker < workers; worker++)
        made.worker[worker] = arena_take(&made.arena, (size_t)programs->worker[worker].count + 1, sizeof **made.worker);
    TRY_OUT(arena_check(&made.arena, "levels", error));
    TRY_OUT(arena_check(&scratch, "levels", error));
    for (size_t i = 0; i < 2 * stages; i++) leveler.sent[i] = -1;
    status = run(&leveler, error);
out:
    arena_release(&scratch);
    if (status == PS_OK)
        *levels = made;
    else
        arena_release(&made.arena);
    return status;
}

void program_levels_free(struct program_levels *levels) {
    arena_release(&levels->arena);
    *levels = (struct program_levels){0};
}

int program_levels_first(const struct program_levels *levels, const struct ps_programs *programs, int worker, int level) {
    int low = 0, high = programs->worker[worker].count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (levels->worker[worker][middle] < level)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
