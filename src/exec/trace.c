/*
 * Each worker records its last computations in a ring buffer. The rings of workers with fewer computations reach further back:
 * the window begins where the shortest ring does, so that no worker's row is empty at its start only because its ring was full.
 */
#include "exec/trace.h"

#include <stdlib.h>

#include "base/memory.h"

/* Computations in a worker's ring, at most `most`. */
static int64_t remembered(const struct recorder *recorder, int most) {
    int64_t count = recorder->count < recorder->capacity ? recorder->count : recorder->capacity;
    return count < most ? count : most;
}

static const struct timeline_event *event_at(const struct recorder *recorder, int64_t index) {
    return &recorder->events[index % recorder->capacity];
}

static double window_start(const struct executor *executor, int most) {
    double start_s = 0;
    for (int number = 0; number < executor->worker_count; number++) {
        const struct recorder *recorder = &executor->workers[number].recorder;
        int64_t count = remembered(recorder, most);
        if (count == recorder->count) continue; /* the ring has the segment from its beginning */
        double first_s = event_at(recorder, recorder->count - count)->start_s;
        if (first_s > start_s) start_s = first_s;
    }
    return start_s;
}

/* The memory of each worker's blocks. */
static enum ps_status note_memory(const struct executor *executor, const struct ps_run_worker *figures,
                                  struct timeline *timeline, struct ps_error *error) {
    TRY(memory_new(&timeline->memory_bytes, executor->worker_count, "a trace", error));
    for (int number = 0; number < executor->worker_count; number++)
        timeline->memory_bytes[number] = figures[number].measured_bytes;
    return PS_OK;
}

/* The worker of the instance that a ring all-reduce would send to: the group's next that updates, or its first. */
static int next_in_group(const struct ps_programs *programs, const struct sum_group *group, int instance) {
    int first = NO_INSTANCE;
    bool passed = false;
    for (int s = 0; s < group->stage_count; s++)
        for (int p = programs->first_instance[group->stages[s]]; p < programs->first_instance[group->stages[s] + 1]; p++) {
            if (!programs->instances[p].backward) continue;
            if (passed) return programs->instances[p].worker;
            if (first == NO_INSTANCE) first = p;
            passed = p == instance;
        }
    return programs->instances[first].worker;
}

/* A sum, drawn as for simulated runs: from each instance to the next, the transfers of a ring all-reduce. */
static enum ps_status add_sum(const struct executor *executor, const struct ps_programs *programs,
                              const struct timeline_event *event, struct timeline *timeline, struct ps_error *error) {
    int stage = event->instruction.stage;
    const struct sum_group group = programs_sum_group(programs, stage);
    double bytes;
    programs_sum_shares(programs, stage, &executor->sizes[stage], &bytes);
    return timeline_add_transfer(
        timeline,
        &(struct timeline_transfer){.from = event->worker,
                                    .to = next_in_group(programs, &group, programs_instance(programs, event->worker, stage)),
                                    .stage = stage,
                                    .micro_batch = event->instruction.micro_batch,
                                    .traffic = TRAFFIC_SUM,
                                    .bytes = (int64_t)bytes,
                                    .start_s = event->start_s,
                                    .end_s = event->end_s},
        error);
}

enum ps_status trace_collect(const struct executor *executor, const struct ps_programs *programs,
                             const struct ps_run_worker *figures, int most, struct timeline *out, struct ps_error *error) {
    struct timeline timeline = {.workers = executor->worker_count,
                                .batches = executor->recorded_batches,
                                .micro_batches = executor->recorded_micro_batches};
    double start_s = window_start(executor, most);
    enum ps_status status = note_memory(executor, figures, &timeline, error);
    for (int number = 0; number < executor->worker_count; number++) {
        const struct recorder *recorder = &executor->workers[number].recorder;
        for (int64_t i = recorder->count - remembered(recorder, recorder->capacity); status == PS_OK && i < recorder->count;
             i++) {
            struct timeline_event event = *event_at(recorder, i);
            if (event.start_s < start_s) continue;
            event.start_s -= start_s;
            event.end_s -= start_s;
            status = event.instruction.op == OP_AR ? add_sum(executor, programs, &event, &timeline, error)
                                                   : timeline_add(&timeline, &event, error);
        }
    }
    if (status != PS_OK) {
        timeline_free(&timeline);
        return status;
    }
    *out = timeline;
    return PS_OK;
}
