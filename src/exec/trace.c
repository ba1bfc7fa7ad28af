/*
 * Each worker records its last computations in a ring buffer. The rings of workers with fewer computations reach further back:
 * the window begins where the shortest ring does, so that no worker's row is empty at its start only because its ring was full.
 */
#include "exec/trace.h"

#include <math.h>
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
                                    .bytes = llround(bytes),
                                    .start_s = event->start_s,
                                    .end_s = event->end_s},
        error);
}

static int by_block(const void *a, const void *b) {
    const struct timeline_transfer *one = a, *other = b;
    const int of[][2] = {{one->from, other->from},
                         {one->to, other->to},
                         {one->stage, other->stage},
                         {one->traffic, other->traffic},
                         {one->micro_batch, other->micro_batch}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (of[i][0] != of[i][1]) return of[i][0] < of[i][1] ? -1 : 1;
    return 0;
}

static int by_link_and_end(const void *a, const void *b) {
    const struct timeline_transfer *one = a, *other = b;
    if (one->from != other->from) return one->from < other->from ? -1 : 1;
    if (one->to != other->to) return one->to < other->to ? -1 : 1;
    return one->end_s < other->end_s ? -1 : one->end_s > other->end_s;
}

/* Adds what workers recorded of one end of the blocks. */
static enum ps_status take_ends(const struct executor *executor, bool sent, double start_s, struct timeline *timeline,
                                struct ps_error *error) {
    for (int number = 0; number < executor->worker_count; number++) {
        const struct recorder *recorder = &executor->workers[number].recorder;
        const int64_t first =
            recorder->transfer_count > recorder->transfer_capacity ? recorder->transfer_count - recorder->transfer_capacity : 0;
        for (int64_t i = first; i < recorder->transfer_count; i++) {
            const struct recorded_transfer *one = &recorder->transfers[i % recorder->transfer_capacity];
            struct timeline_transfer transfer = one->transfer;
            if (one->sent != sent || !(transfer.end_s >= start_s || sent)) continue;
            transfer.start_s -= start_s;
            transfer.end_s -= start_s;
            TRY(timeline_add_transfer(timeline, &transfer, error));
        }
    }
    return PS_OK;
}

/* A transfer lasts from the moment at which both ends had posted the block, and the block before it on the link had arrived,
 * until it has. */
static enum ps_status add_transfers(const struct executor *executor, double start_s, struct timeline *timeline,
                                    struct ps_error *error) {
    struct timeline sent = {0};
    enum ps_status status = take_ends(executor, true, start_s, &sent, error);
    if (status == PS_OK) status = take_ends(executor, false, start_s, timeline, error);
    const size_t count = (size_t)timeline->transfer_count;
    if (sent.transfer_count > 0) qsort(sent.transfers, (size_t)sent.transfer_count, sizeof *sent.transfers, by_block);
    if (count > 0) qsort(timeline->transfers, count, sizeof *timeline->transfers, by_link_and_end);
    for (size_t i = 0; i < count; i++) {
        struct timeline_transfer *one = &timeline->transfers[i];
        const struct timeline_transfer *before = i > 0 ? one - 1 : NULL, *posted = NULL;
        if (sent.transfer_count > 0)
            posted = bsearch(one, sent.transfers, (size_t)sent.transfer_count, sizeof *sent.transfers, by_block);
        if (posted) one->start_s = fmax(one->start_s, posted->start_s);
        if (before && before->from == one->from && before->to == one->to) one->start_s = fmax(one->start_s, before->end_s);
        /* Clocks of two hosts differ, and what began before the window begins with it. */
        one->start_s = fmax(0, fmin(one->start_s, one->end_s));
    }
    timeline_free(&sent);
    return status;
}

enum ps_status trace_collect(const struct executor *executor, const struct ps_programs *programs,
                             const struct ps_run_worker *figures, int most, struct timeline *out, struct ps_error *error) {
    struct timeline timeline = {.workers = executor->worker_count,
                                .batches = executor->recorded_batches,
                                .micro_batches = executor->recorded_micro_batches};
    double start_s = window_start(executor, most);
    enum ps_status status = note_memory(executor, figures, &timeline, error);
    if (status == PS_OK) status = add_transfers(executor, start_s, &timeline, error);
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
