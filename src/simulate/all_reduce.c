/* All-reduces over stage instances: which channels they use, and how long they take. */
#include <math.h>

#include "simulate/engine.h"

/* The reduce group whose first stage this is, if it has several instances. */
static bool heads_group(const struct ps_programs *programs, int stage, struct sum_group *group) {
    *group = programs_sum_group(programs, stage);
    return group->number == stage && group->size > 1;
}

/* Bytes of one step of a pass: an equal share of a stage's block, or of the parameter that two stages share. */
static int64_t step_bytes(const struct engine *engine, const struct sum_group *pass) {
    const struct stage_sizes *size = &engine->work->costs[pass->stages[0]].size;
    const int64_t all = pass->stage_count == 2 ? size->tied_bytes : stage_gradient_bytes(size) + size->statistics_bytes;
    return (all + pass->size - 1) / pass->size;
}

/* From each instance of the pass that updates to the next, the last to the first. */
static void add_pass(struct engine *engine, const struct sum_group *pass, struct engine_pass *made) {
    const struct ps_programs *programs = engine->work->programs;
    const struct instance *first = NULL, *before = NULL;
    int64_t bytes = step_bytes(engine, pass);
    *made =
        (struct engine_pass){.channel = engine->channel_count, .instances = pass->size, .bytes = 2 * (pass->size - 1) * bytes};
    for (int s = 0; s < pass->stage_count; s++)
        for (int p = programs->first_instance[pass->stages[s]]; p < programs->first_instance[pass->stages[s] + 1]; p++) {
            const struct instance *instance = &programs->instances[p];
            if (!instance->backward) continue;
            if (before)
                engine_add_channel(engine, before->worker, instance->worker, bytes)->stage = instance->stage;
            else
                first = instance;
            before = instance;
        }
    engine_add_channel(engine, before->worker, first->worker, bytes)->stage = first->stage;
}

void rings_add_channels(struct engine *engine) {
    struct sum_group group;
    for (int stage = 0; stage < engine->work->programs->stages; stage++) {
        if (!heads_group(engine->work->programs, stage, &group)) continue;
        const struct sum_passes passes = programs_sum_passes(engine->work->programs, &group);
        struct engine_ring *ring = &engine->rings[stage];
        for (int p = 0; p < passes.count; p++) add_pass(engine, &passes.pass[p], &ring->pass[p]);
        ring->pass_count = passes.count;
    }
}

/* A ring of n instances makes 2 (n - 1) steps, in each of which every instance sends an n-th to the next; channels that share a
 * link use it one after the other. */
static double ring_s(const struct engine *engine, const struct engine_pass *pass) {
    const struct engine_channel *channels = &engine->channels[pass->channel];
    double step_s = 0;
    for (int a = 0; a < pass->instances; a++) {
        double link_s = 0;
        for (int b = 0; b < pass->instances; b++)
            if (channels[b].link == channels[a].link) link_s += engine_channel_s(engine, &channels[b]);
        step_s = fmax(step_s, link_s);
    }
    return 2 * (pass->instances - 1) * step_s;
}

/* The last to arrive sums all blocks and writes the result into all. */
static double in_place_s(const struct engine *engine, const struct sum_group *pass) {
    double each_s = 0;
    for (int s = 0; s < pass->stage_count; s++) {
        const struct stage_cost *cost = &engine->work->costs[pass->stages[s]];
        each_s = fmax(each_s, cost->sum_s * sum_pass_share(pass, &cost->size));
    }
    return pass->size * each_s;
}

static bool share_link(const struct engine *engine, const struct engine_pass *one, const struct engine_pass *other) {
    for (int a = one->channel; a < one->channel + one->instances; a++)
        for (int b = other->channel; b < other->channel + other->instances; b++)
            if (engine->channels[a].link == engine->channels[b].link) return true;
    return false;
}

/* When each pass of the stage's sum begins, and how long it takes; returns when the last one ends. *in_place: there are no
 * links, and the passes run one after the other; else passes over replicas run concurrently if they use different links. */
static double plan_passes(const struct engine *engine, int stage, double begins[3], double lasts[3], bool *in_place) {
    struct sum_group group;
    double end_s = 0;
    *in_place = true;
    if (!heads_group(engine->work->programs, stage, &group)) return 0;
    const struct engine_ring *ring = &engine->rings[stage];
    const struct sum_passes passes = programs_sum_passes(engine->work->programs, &group);
    for (int p = 0; p < passes.count; p++) {
        lasts[p] = ring_s(engine, &ring->pass[p]);
        if (lasts[p] > 0) *in_place = false;
    }
    for (int p = 0; p < passes.count; p++) {
        if (*in_place) lasts[p] = in_place_s(engine, &passes.pass[p]);
        begins[p] = 0;
        for (int before = 0; before < p; before++)
            if (*in_place || passes.pass[p].stage_count == 2 || share_link(engine, &ring->pass[p], &ring->pass[before]))
                begins[p] = fmax(begins[p], begins[before] + lasts[before]);
        end_s = fmax(end_s, begins[p] + lasts[p]);
    }
    return end_s;
}

double rings_sum_s(const struct engine *engine, int stage) {
    double begins[3], lasts[3];
    bool in_place;
    return plan_passes(engine, stage, begins, lasts, &in_place);
}

void rings_set_times(struct engine *engine) {
    for (int stage = 0; stage < engine->work->programs->stages; stage++) {
        struct engine_ring *ring = &engine->rings[stage];
        double begins[3], lasts[3];
        ring->duration = engine_ticks(engine, plan_passes(engine, stage, begins, lasts, &ring->in_place));
        for (int p = 0; p < ring->pass_count; p++) {
            ring->pass[p].begins = engine_ticks(engine, begins[p]);
            ring->pass[p].duration = engine_ticks(engine, lasts[p]);
        }
    }
}
