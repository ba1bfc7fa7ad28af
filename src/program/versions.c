/* Counting updates: versions and staleness are read off the programs, never guessed by formula. */
#include <stdlib.h>

#include "program/lower.h"

/* A forward on another worker than the updates knows of those that stand before the last SW for it or a forward before it.
 * `forward` holds one more than these where there is an SW, else 0. */
static void fill_handed(int *forward, int count) {
    for (int k = 0, known = 0; k < count; k++) {
        if (forward[k] > 0) known = forward[k] - 1;
        forward[k] = known;
    }
}

enum ps_status version_table_count(const struct ps_programs *programs, struct version_table *table, struct ps_error *error) {
    int micro_batches = programs_micro_batches(programs);
    size_t cells = (size_t)programs->stages * (size_t)micro_batches;
    int *block = calloc(2 * cells + (size_t)programs->instance_count, sizeof *block);
    if (!block) return error_memory(error, "version table", 2 * cells * sizeof *block);
    int *forward = block, *backward = block + cells, *newest = block + 2 * cells; /* newest: by part */
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
        if (programs_split(programs, stage)) fill_handed(forward + (size_t)stage * (size_t)micro_batches, micro_batches);
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
