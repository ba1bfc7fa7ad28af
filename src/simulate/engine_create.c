/* Lays out the simulator's state: one look through the programs tells how many of everything there are, and how long at most. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "simulate/engine.h"

/* What one look through all programs finds. */
struct survey {
    int events, sends;
    double seconds; /* of all computations and transfers one after the other: no run lasts longer */
};

struct stage_seconds {
    double action[ACTION_COUNT], update_and_predict;
};

static struct stage_seconds stage_seconds(const struct simulation_work *work, int stage) {
    const struct layer_times *time = &work->costs[stage].time;
    double speed = work->cluster->devices[work->programs->stage_worker[stage]].speed;
    struct stage_seconds seconds = {
        .action = {[ACTION_FORWARD] = time->forward_s / speed,
                   [ACTION_BACKWARD] = (time->backward_input_s + time->backward_weight_s) / speed,
                   [ACTION_RECOMPUTE] = time->forward_s / speed,
                   [ACTION_UPDATE] = time->update_s / speed,
                   [ACTION_PREDICT] = time->update_s / speed * SIMULATE_PREDICT_COST},
        .update_and_predict = time->update_s / speed * SIMULATE_UPDATE_PREDICT_COST,
    };
    return seconds;
}

static bool computes(const struct instruction *instruction) {
    enum action action = opcode_table[instruction->op].action;
    return action != ACTION_SEND && action != ACTION_RECEIVE;
}

/* Activations cross the boundary after stage `channel / 2` forwards, gradients backwards. */
static void channel_ends(const struct ps_programs *programs, int channel, int *from, int *to) {
    int boundary = channel / 2, gradient = channel % 2;
    *from = programs->stage_worker[boundary + gradient];
    *to = programs->stage_worker[boundary + !gradient];
}

static int64_t channel_bytes(const struct simulation_work *work, int channel) {
    int boundary = channel / 2;
    return channel % 2 == 1 ? work->costs[boundary + 1].size.input_bytes : work->costs[boundary].size.output_bytes;
}

static double channel_seconds(const struct simulation_work *work, int channel) {
    int from, to;
    channel_ends(work->programs, channel, &from, &to);
    return cluster_transfer_s(work->cluster, from, to, channel_bytes(work, channel));
}

static void survey_program(struct engine *engine, int index, struct survey *survey) {
    const struct simulation_work *work = engine->work;
    const struct program *program = &work->programs->worker[index];
    struct engine_worker *worker = &engine->workers[index];
    int forwards = 0;
    worker->event_first = survey->events;
    for (int i = 0; i < program->count; i++) {
        const struct instruction *instruction = &program->code[i];
        int *slots = engine->stages[instruction->stage].slots;
        for (int kind = 0; kind < BLOCK_KINDS; kind++)
            if (instruction->block[kind] >= slots[kind]) slots[kind] = instruction->block[kind] + 1;
        survey->events += computes(instruction);
        survey->sends += opcode_table[instruction->op].action == ACTION_SEND;
        forwards += instruction->op == OP_F;
    }
    worker->window = engine->flush ? forwards / work->programs->batches : forwards;
    worker->waiting = NOBODY;
}

/* An upper bound, from counts and the dearest of each: exactness does not matter. */
static double longest_run(const struct simulation_work *work, const struct survey *survey) {
    double computation = 0, transfer = 0;
    for (int s = 0; s < work->programs->stages; s++) {
        struct stage_seconds seconds = stage_seconds(work, s);
        for (int action = 0; action < ACTION_COUNT; action++) computation = fmax(computation, seconds.action[action]);
        computation = fmax(computation, seconds.update_and_predict);
    }
    for (int c = 0; c < 2 * (work->programs->stages - 1); c++) transfer = fmax(transfer, channel_seconds(work, c));
    return survey->events * computation + 2.0 * survey->sends * transfer;
}

/* A power of two of a second, the finest of which 2^52 cover the longest run: sums of ticks fit a double. */
static double choose_tick(double longest_s) {
    int exponent;
    frexp(longest_s, &exponent);
    return ldexp(1, exponent - 52);
}

static int64_t ticks(const struct engine *engine, double seconds) { return llround(seconds / engine->tick_s); }

static void lay_out_stage(struct engine *engine, int index) {
    struct engine_stage *stage = &engine->stages[index];
    struct stage_seconds seconds = stage_seconds(engine->work, index);
    for (int action = 0; action < ACTION_COUNT; action++) stage->duration[action] = ticks(engine, seconds.action[action]);
    stage->update_and_predict = ticks(engine, seconds.update_and_predict);
    for (int kind = 0; kind < BLOCK_KINDS; kind++) {
        stage->first_block[kind] = engine->block_count;
        engine->block_count += stage->slots[kind];
    }
}

/* Do two channels take turns? Those between the same two workers in the same direction do, in both directions where either is
 * half duplex, and all whose links name the same medium. */
static bool share_link(const struct simulation_work *work, int channel, int other) {
    int from, to, other_from, other_to;
    channel_ends(work->programs, channel, &from, &to);
    channel_ends(work->programs, other, &other_from, &other_to);
    if (from == other_from && to == other_to) return true;
    const struct cluster_link *link = cluster_link_between(work->cluster, from, to);
    const struct cluster_link *other_link = cluster_link_between(work->cluster, other_from, other_to);
    if (!link || !other_link) return false;
    if (from == other_to && to == other_from && (link->half_duplex || other_link->half_duplex)) return true;
    return link->medium[0] && strcmp(link->medium, other_link->medium) == 0;
}

static void lay_out_channel(struct engine *engine, int index) {
    int link = 0;
    while (link < index && !share_link(engine->work, index, link)) link++;
    engine->channels[index] = (struct engine_channel){
        .offered = {NOBODY, NOBODY},
        .link = link < index ? engine->channels[link].link : index,
        .duration = ticks(engine, channel_seconds(engine->work, index)),
        .bytes = channel_bytes(engine->work, index),
    };
}

static void lay_out_blocks(struct engine *engine) {
    for (int s = 0; s < engine->work->programs->stages; s++)
        for (int kind = 0; kind < BLOCK_KINDS; kind++)
            for (int slot = 0; slot < engine->stages[s].slots[kind]; slot++)
                engine->blocks[engine->stages[s].first_block[kind] + slot] =
                    (struct engine_block){.worker = engine->work->programs->stage_worker[s], .partner = NOBODY, .next = NOBODY};
}

/* Zeroed; at least one element, so that NULL always means failure. */
static void *take(int count, size_t size) { return calloc((size_t)(count > 0 ? count : 1), size); }

static bool take_fixed(struct engine *engine) {
    int workers = engine->work->programs->workers, stages = engine->work->programs->stages, channels = 2 * (stages - 1);
    engine->workers = take(workers, sizeof *engine->workers);
    engine->stages = take(stages, sizeof *engine->stages);
    engine->channels = take(channels, sizeof *engine->channels);
    engine->link_free = take(channels, sizeof *engine->link_free);
    engine->queue = take(workers, sizeof *engine->queue);
    engine->completed = take(engine->work->programs->batches, sizeof *engine->completed);
    return engine->workers && engine->stages && engine->channels && engine->link_free && engine->queue && engine->completed;
}

static bool take_surveyed(struct engine *engine, const struct survey *survey) {
    struct timeline *timeline = &engine->timeline;
    engine->blocks = take(engine->block_count, sizeof *engine->blocks);
    timeline->workers = engine->work->programs->workers;
    timeline->batches = engine->work->programs->batches;
    timeline->micro_batches = engine->work->programs->micro_batches;
    timeline->events = take(survey->events, sizeof *timeline->events);
    timeline->event_count = timeline->event_capacity = survey->events;
    timeline->transfers = take(survey->sends, sizeof *timeline->transfers);
    timeline->transfer_capacity = survey->sends;
    return engine->blocks && timeline->events && timeline->transfers;
}

static enum ps_status create(struct engine *engine, struct ps_error *error) {
    const struct ps_programs *programs = engine->work->programs;
    const struct schedule *schedule;
    TRY(schedule_find(programs->schedule, &schedule, error));
    engine->flush = schedule->flush;
    engine->free_cores = engine->work->cluster->cores > 0 ? engine->work->cluster->cores : programs->workers;
    if (!take_fixed(engine))
        return error_memory(error, "simulated workers", (size_t)programs->workers * sizeof *engine->workers);
    struct survey survey = {0};
    for (int w = 0; w < programs->workers; w++) survey_program(engine, w, &survey);
    engine->tick_s = choose_tick(longest_run(engine->work, &survey));
    for (int s = 0; s < programs->stages; s++) lay_out_stage(engine, s);
    for (int c = 0; c < 2 * (programs->stages - 1); c++) lay_out_channel(engine, c);
    if (!take_surveyed(engine, &survey)) {
        size_t bytes = (size_t)survey.events * sizeof *engine->timeline.events;
        return error_memory(error, "a simulated timeline", bytes + (size_t)survey.sends * sizeof *engine->timeline.transfers);
    }
    lay_out_blocks(engine);
    return event_heap_create(&engine->heap, programs->workers + engine->block_count, error);
}

enum ps_status engine_create(struct engine *engine, const struct simulation_work *work, struct ps_error *error) {
    *engine = (struct engine){.work = work};
    enum ps_status status = create(engine, error);
    if (status != PS_OK) engine_free(engine);
    return status;
}

void engine_free(struct engine *engine) {
    event_heap_free(&engine->heap);
    timeline_free(&engine->timeline);
    free(engine->workers);
    free(engine->stages);
    free(engine->channels);
    free(engine->link_free);
    free(engine->blocks);
    free(engine->queue);
    free(engine->completed);
    *engine = (struct engine){0};
}
