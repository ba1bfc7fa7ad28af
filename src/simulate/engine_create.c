/* Creates the simulator's state. One pass over the programs counts blocks, events and so on, and bounds the simulated time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"
#include "simulate/engine.h"

/* Instructions that are unrolled at a time. */
enum { PAGE = 64 };

/* What one look through all programs finds. */
struct survey {
    int64_t events, sends, sums;
};

struct stage_seconds {
    double action[ACTION_COUNT], update_and_predict, update_out_of_place, accumulate, wire[WIRE_BLOCKS];
};

static const struct stage_cost *cost_of(const struct simulation_work *work, const struct instance *instance) {
    return work->instance_costs ? &work->instance_costs[instance - work->programs->instances] : &work->costs[instance->stage];
}

/* Of all stages on the instance's worker. */
static int64_t parameters_beside(const struct simulation_work *work, const struct instance *instance) {
    int64_t bytes = 0;
    for (int p = 0; p < work->programs->instance_count; p++) {
        const struct instance *other = &work->programs->instances[p];
        if (other->worker == instance->worker) bytes += cost_of(work, other)->size.parameter_bytes;
    }
    return bytes;
}

/* Whether the stage `other`, if there is one, is on another worker; only the first worker of each is compared. */
static bool elsewhere(const struct ps_programs *programs, int stage, int other) {
    if (other < 0 || other >= programs->stages) return false;
    return programs->instances[programs->first_instance[stage]].worker !=
           programs->instances[programs->first_instance[other]].worker;
}

static struct stage_seconds instance_seconds(const struct simulation_work *work, const struct instance *instance) {
    const struct stage_cost *cost = cost_of(work, instance);
    struct layer_times times = stage_cost_times(cost, cost->fast_memory_bytes > 0 ? parameters_beside(work, instance) : 0);
    layer_times_complete(&times);
    const struct layer_times *time = &times;
    double speed = work->cluster->devices[instance->worker].speed;
    const struct ps_programs *programs = work->programs;
    struct cut_times more = stage_core_transfer(cost, elsewhere(programs, instance->stage, instance->stage - 1),
                                                elsewhere(programs, instance->stage, instance->stage + 1));
    struct stage_seconds seconds = {
        .action = {[ACTION_FORWARD] = (time->forward_s + more.forward_s) / speed,
                   [ACTION_BACKWARD] = (time->backward_input_s + time->backward_weight_s + more.backward_s) / speed,
                   [ACTION_BACKWARD_INPUT] = (time->backward_input_s + time->split_input_s + more.backward_s) / speed,
                   [ACTION_BACKWARD_WEIGHT] = (time->backward_weight_s + time->split_s) / speed,
                   [ACTION_RECOMPUTE] = (time->forward_s + more.forward_s) / speed,
                   [ACTION_UPDATE] = time->update_s / speed,
                   [ACTION_PREDICT] = time->predict_s / speed,
                   [ACTION_ROUND] = cost->wire_s[WIRE_SUM] / speed},
        .update_and_predict = time->update_predict_s / speed,
        .update_out_of_place = time->update_out_of_place_s / speed,
        .accumulate = time->accumulate_s / speed,
    };
    for (int b = 0; b < WIRE_BLOCKS; b++) seconds.wire[b] = cost->wire_s[b] / speed;
    return seconds;
}

int64_t engine_links_free(const struct engine *engine, int channel) {
    const int *link = engine->pairs[channel].link;
    return number_larger(engine->link_free[link[0]], engine->link_free[link[1]]);
}

int64_t engine_links_busy(const struct engine *engine, int channel) {
    const int *link = engine->pairs[channel].link;
    return number_larger(engine->link_busy[link[0]], engine->link_busy[link[1]]);
}

double engine_channel_s(const struct engine *engine, const struct engine_channel *channel) {
    return cluster_transfer_s(engine->work->cluster, channel->from, channel->to, channel->bytes);
}

/* Counts an instruction that runs `times` times. */
static void survey_instruction(enum opcode op, int64_t times, struct survey *survey, int64_t *forwards) {
    enum action action = opcode_table[op].action;
    survey->sends += action == ACTION_SEND ? times * (op == OP_SS ? 2 : 1) : 0;
    survey->sums += action == ACTION_REDUCE ? times : 0;
    survey->events += action != ACTION_SEND && action != ACTION_RECEIVE && action != ACTION_REDUCE ? times : 0;
    *forwards += action == ACTION_FORWARD ? times : 0;
}

static void survey_rolled(const struct rolled_programs *rolled, int index, struct survey *survey, int64_t *forwards) {
    const struct rolled_program *program = &rolled->worker[index];
    int once = program->head + program->tail;
    for (int i = 0; i < once + program->period; i++)
        survey_instruction((enum opcode)program->code[i].op, (int64_t)rolled->repeats * (i < once ? 1 : rolled->periods),
                           survey, forwards);
}

static void survey_program(struct engine *engine, int index, struct survey *survey) {
    const struct simulation_work *work = engine->work;
    const struct program *program = &work->programs->worker[index];
    struct engine_worker *worker = &engine->workers[index * engine->lanes];
    int64_t forwards = 0;
    worker->event_first = survey->events;
    if (work->rolled) survey_rolled(work->rolled, index, survey, &forwards);
    for (int i = 0; i < program->count; i++) {
        const struct instruction *instruction = &program->code[i];
        int *slots = engine_instance_of(engine, index * engine->lanes, instruction->stage)->slots;
        for (int kind = programs_split(work->programs, instruction->stage) ? BLOCK_STASH : BLOCK_INPUT; kind < BLOCK_KINDS;
             kind++)
            if (instruction->block[kind] >= slots[kind]) slots[kind] = instruction->block[kind] + 1;
        if (programs_split(work->programs, instruction->stage) && instruction->slot >= slots[BLOCK_WEIGHTS])
            slots[BLOCK_WEIGHTS] = instruction->slot + 1;
        if (programs_split(work->programs, instruction->stage) && instruction->predict_to >= slots[BLOCK_WEIGHTS])
            slots[BLOCK_WEIGHTS] = instruction->predict_to + 1;
        survey_instruction((enum opcode)instruction->op, 1, survey, &forwards);
    }
    worker->window = (int)(engine->flush ? forwards / work->programs->batches : forwards);
    for (int lane = 0; lane < engine->lanes; lane++) {
        worker[lane].waiting = NOBODY;
        worker[lane].direction = ACTION_COUNT;
    }
}

/* Blocks of rolled programs are numbered by slots. */
static void survey_slots(struct engine *engine) {
    for (int p = 0; p < engine->work->programs->instance_count; p++) {
        const struct stage_slots *slots = &engine->work->programs->slots[p];
        int *counts = engine->instances[p].slots;
        bool split = programs_split(engine->work->programs, engine->work->programs->instances[p].stage);
        for (int kind = split ? BLOCK_STASH : BLOCK_INPUT; kind < BLOCK_KINDS; kind++)
            counts[kind] = stage_slots_of(slots, (enum block_kind)kind);
        if (split) counts[BLOCK_WEIGHTS] = slots->weights;
    }
}

/* Where links are not shared, only channels of the same pair have the same link. */
static void find_links(const struct engine *engine, int index) {
    const struct engine_channel *channels = engine->channels;
    struct cluster_pair *pair = &engine->pairs[index];
    if (cluster_shares_links(engine->work->cluster)) {
        cluster_pair_links(engine->work->cluster, engine->pairs, index);
        return;
    }
    int same = channels[index].before;
    while (same != NOBODY && channels[same].to != channels[index].to) same = channels[same].before;
    pair->link[0] = same != NOBODY ? engine->pairs[same].link[0] : 2 * index;
    pair->link[1] = 2 * index + 1;
}

struct engine_channel *engine_add_channel(struct engine *engine, int from, int to, int64_t bytes) {
    const int index = engine->channel_count++;
    struct engine_channel *channel = &engine->channels[index];
    *channel = (struct engine_channel){
        .from = from, .to = to, .bytes = bytes, .pending = {NOBODY, NOBODY}, .before = engine->last_channel[from]};
    engine->pairs[index] = (struct cluster_pair){.from = from, .to = to};
    find_links(engine, index);
    engine->last_channel[from] = index;
    return channel;
}

static void add_route(struct engine *engine, const struct route *route) {
    const struct instance *from = &engine->work->programs->instances[route->from],
                          *to = &engine->work->programs->instances[route->to];
    const struct stage_sizes *size = &engine->work->costs[from->stage].size;
    engine_add_channel(engine, from->worker, to->worker, traffic_bytes(route->traffic, size));
}

static double dearest_computation(const struct engine *engine) {
    const struct ps_programs *programs = engine->work->programs;
    const double *factors = engine->work->batch_factors;
    double computation = 0, factor = 1;
    for (int p = 0; p < programs->instance_count; p++) {
        struct stage_seconds seconds = instance_seconds(engine->work, &programs->instances[p]);
        double fill = cost_of(engine->work, &programs->instances[p])->fill;
        for (int action = 0; action < ACTION_COUNT; action++)
            computation = fmax(computation, (1 + fill) * seconds.action[action] + seconds.accumulate);
        computation = fmax(computation, fmax(seconds.update_and_predict, seconds.update_out_of_place));
        for (int b = 0; b < WIRE_BLOCKS; b++) computation = fmax(computation, seconds.wire[b]);
    }
    for (int b = 0; factors && b < programs->batches; b++) factor = fmax(factor, factors[b]);
    return factor * computation;
}

/* An upper bound, from the counts and the largest cost of each kind. */
static double longest_run(struct engine *engine, const struct survey *survey) {
    const struct ps_programs *programs = engine->work->programs;
    double transfer = 0, sum = 0;
    for (int c = 0; c < engine->channel_count; c++) transfer = fmax(transfer, engine_channel_s(engine, &engine->channels[c]));
    for (int stage = 0; stage < programs->stages; stage++) sum = fmax(sum, rings_sum_s(engine, stage));
    return (double)survey->events * dearest_computation(engine) + 2.0 * (double)survey->sends * transfer +
           (double)survey->sums * sum;
}

/* A power of two of a second, the smallest such that 2^52 ticks cover the longest run: a double holds their sums exactly. */
static double choose_tick(double longest_s) {
    int exponent;
    frexp(longest_s, &exponent);
    return ldexp(1, exponent - 52);
}

int64_t engine_ticks(const struct engine *engine, double seconds) { return llround(seconds / engine->tick_s); }

static void lay_out_instance(struct engine *engine, int index) {
    struct engine_instance *instance = &engine->instances[index];
    struct stage_seconds seconds = instance_seconds(engine->work, &engine->work->programs->instances[index]);
    for (int action = 0; action < ACTION_COUNT; action++)
        instance->duration[action] = engine_ticks(engine, seconds.action[action]);
    instance->update_and_predict = engine_ticks(engine, seconds.update_and_predict);
    instance->update_out_of_place = engine_ticks(engine, seconds.update_out_of_place);
    instance->accumulate = engine_ticks(engine, seconds.accumulate);
    for (int b = 0; b < WIRE_BLOCKS; b++) instance->wire[b] = engine_ticks(engine, seconds.wire[b]);
    instance->fill = cost_of(engine->work, &engine->work->programs->instances[index])->fill;
    for (int kind = 0; kind < BLOCK_PLACES; kind++) {
        instance->first_block[kind] = engine->block_count;
        engine->block_count += instance->slots[kind];
    }
    const struct instance *of = &engine->work->programs->instances[index];
    instance->sum_block = of->backward && programs_sums(engine->work->programs, of->stage) ? engine->block_count++ : NOBODY;
}

static void lay_out_blocks(struct engine *engine) {
    for (int p = 0; p < engine->work->programs->instance_count; p++)
        for (int kind = 0; kind < BLOCK_PLACES; kind++)
            for (int slot = 0; slot < engine->instances[p].slots[kind]; slot++)
                engine->blocks[engine->instances[p].first_block[kind] + slot] = (struct engine_block){
                    .worker = engine->work->programs->instances[p].worker, .partner = NOBODY, .next = NOBODY};
    for (int p = 0; p < engine->work->programs->instance_count; p++)
        if (engine->instances[p].sum_block != NOBODY)
            engine->blocks[engine->instances[p].sum_block] = (struct engine_block){
                .worker = engine->work->programs->instances[p].worker, .partner = NOBODY, .next = NOBODY, .sum = true};
}

static enum ps_status take_fixed(struct engine *engine, struct ps_error *error) {
    const struct ps_programs *programs = engine->work->programs;
    size_t workers = (size_t)engine->worker_count, instances = (size_t)programs->instance_count,
           channels = (size_t)engine->routes.count + 2 * instances;
    engine->workers = arena_take(&engine->arena, workers, sizeof *engine->workers);
    engine->instances = arena_take(&engine->arena, instances, sizeof *engine->instances);
    engine->channels = arena_take(&engine->arena, channels, sizeof *engine->channels);
    engine->pairs = arena_take(&engine->arena, channels, sizeof *engine->pairs);
    engine->link_free = arena_take(&engine->arena, 2 * channels, sizeof *engine->link_free);
    engine->link_busy = arena_take(&engine->arena, 2 * channels, sizeof *engine->link_busy);
    engine->last_channel = arena_take(&engine->arena, (size_t)programs->workers, sizeof *engine->last_channel);
    engine->queue = arena_take(&engine->arena, workers, sizeof *engine->queue);
    engine->completed = arena_take(&engine->arena, (size_t)programs->batches, sizeof *engine->completed);
    TRY(arena_check(&engine->arena, "simulated workers", error));
    for (int w = 0; w < programs->workers; w++) engine->last_channel[w] = NOBODY;
    return PS_OK;
}

static enum ps_status take_surveyed(struct engine *engine, const struct survey *survey, struct ps_error *error) {
    struct timeline *timeline = &engine->timeline;
    engine->blocks = arena_take(&engine->arena, (size_t)engine->block_count, sizeof *engine->blocks);
    engine->heap.capacity = engine->worker_count + engine->block_count;
    engine->heap.events = arena_take(&engine->arena, (size_t)engine->heap.capacity, sizeof *engine->heap.events);
    for (int w = 0; engine->work->rolled && w < engine->worker_count; w++) {
        struct program *window = &engine->workers[w].page;
        window->code = arena_take(&engine->arena, PAGE, sizeof *window->code);
        window->capacity = PAGE;
    }
    TRY(arena_check(&engine->arena, "a simulation", error));
    engine->recording = survey->events <= SIMULATE_EVENTS_MAX && !engine->work->summary_only;
    if (!engine->recording) return PS_OK;
    timeline->workers = engine->work->programs->workers;
    timeline->lanes = engine->lanes;
    timeline->batches = engine->work->programs->batches;
    timeline->micro_batches = engine->work->programs->micro_batches;
    timeline->event_capacity = (size_t)survey->events;
    timeline->event_count = (int)survey->events;
    timeline->transfer_capacity = (size_t)(survey->sends + survey->sums * (programs_tied(engine->work->programs) ? 2 : 1));
    TRY(memory_new(&timeline->events, timeline->event_capacity, "a simulation", error));
    return memory_new(&timeline->transfers, timeline->transfer_capacity, "a simulation", error);
}

static enum ps_status create(struct engine *engine, struct ps_error *error) {
    const struct ps_programs *programs = engine->work->programs;
    const struct schedule *schedule = programs->schedule;
    engine->flush = schedule->flush;
    engine->streaming = schedule->streaming || engine->work->cluster->streaming;
    engine->lanes = schedule->lanes ? LANES : 1;
    engine->worker_count = programs->workers * engine->lanes;
    engine->free_cores = engine->work->cluster->cores > 0 ? engine->work->cluster->cores : programs->workers;
    TRY(routes_create(programs, &engine->routes, error));
    TRY(take_fixed(engine, error));
    TRY(rings_create(engine, error));
    struct survey survey = {0};
    for (int w = 0; w < programs->workers; w++) survey_program(engine, w, &survey);
    if (engine->work->rolled) {
        survey_slots(engine);
        TRY(allocation_create(programs, &engine->allocation, error));
    }
    if (engine->lanes > 1) TRY(lanes_create(engine, error));
    for (int route = 0; route < engine->routes.count; route++) add_route(engine, &engine->routes.list[route]);
    rings_add_channels(engine);
    engine->tick_s = choose_tick(longest_run(engine, &survey));
    for (int p = 0; p < programs->instance_count; p++) lay_out_instance(engine, p);
    for (int c = 0; c < engine->channel_count; c++)
        engine->channels[c].duration = engine_ticks(engine, engine_channel_s(engine, &engine->channels[c]));
    rings_set_times(engine);
    TRY(take_surveyed(engine, &survey, error));
    lay_out_blocks(engine);
    return PS_OK;
}

enum ps_status engine_create(struct engine *engine, const struct simulation_work *work, struct ps_error *error) {
    *engine = (struct engine){.work = work};
    enum ps_status status = create(engine, error);
    if (status != PS_OK) engine_free(engine);
    return status;
}

void engine_free(struct engine *engine) {
    timeline_free(&engine->timeline);
    routes_free(&engine->routes);
    allocation_destroy(engine->allocation);
    arena_release(&engine->arena);
}
