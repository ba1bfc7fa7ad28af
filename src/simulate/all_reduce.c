/* All-reduces over stage instances: which channels they use, and how long they take. */
#include <math.h>

#include "base/number.h"
#include "simulate/engine.h"

/* Bytes of one step of a pass: an equal share of a stage's block, or of the parameters that stages share. */
static int64_t step_bytes(const struct engine *engine, const struct sum_group *pass) {
    int64_t all = 0;
    for (int s = 0; s < pass->stage_count; s++) {
        const struct stage_sizes *size = &engine->work->costs[pass->stages[s]].size;
        const int64_t own = pass->stage_count > 1 ? size->tied_bytes : stage_sum_bytes(size);
        all = number_larger(all, own);
    }
    return (all + pass->size - 1) / pass->size;
}

/* From each instance of the pass that updates to the next, the last to the first. */
static void add_pass(struct engine *engine, struct engine_pass *made) {
    const struct ps_programs *programs = engine->work->programs;
    const struct sum_group *pass = &made->group;
    const struct instance *first = NULL, *before = NULL;
    int64_t bytes = step_bytes(engine, pass);
    made->channel = engine->channel_count;
    made->instances = pass->size;
    made->bytes = 2 * (pass->size - 1) * bytes;
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

enum ps_status rings_create(struct engine *engine, struct ps_error *error) {
    const struct ps_programs *programs = engine->work->programs;
    engine->rings = arena_take(&engine->arena, (size_t)programs->stages, sizeof *engine->rings);
    struct sum_group *groups = arena_take(&engine->arena, (size_t)programs->stages + 1, sizeof *groups);
    for (int stage = 0; stage < programs->stages && groups; stage++) {
        const struct sum_group group = programs_sum_group(programs, stage);
        if (group.number != stage || group.size == 1) continue; /* of a group the first stage has the ring */
        struct engine_ring *ring = &engine->rings[stage];
        ring->pass_count = programs_sum_passes(programs, &group, groups);
        ring->pass = arena_take(&engine->arena, (size_t)ring->pass_count, sizeof *ring->pass);
        for (int p = 0; p < ring->pass_count && ring->pass; p++) ring->pass[p].group = groups[p];
    }
    return arena_status(&engine->arena, "a simulation", error);
}

void rings_add_channels(struct engine *engine) {
    for (int stage = 0; stage < engine->work->programs->stages; stage++)
        for (int p = 0; p < engine->rings[stage].pass_count; p++) add_pass(engine, &engine->rings[stage].pass[p]);
}

/* A ring of n instances makes 2 (n - 1) steps, in each of which every instance sends an n-th to the next; channels that share a
 * link use it one after the other. */
static double ring_s(const struct engine *engine, const struct engine_pass *pass) {
    const struct cluster_pair *pairs = &engine->pairs[pass->channel];
    double step_s = 0;
    for (int a = 0; a < pass->instances; a++) {
        double link_s[2] = {0};
        for (int b = 0; b < pass->instances; b++)
            for (int l = 0; l < 2; l++)
                if (pairs[b].link[l] == pairs[a].link[l])
                    link_s[l] += engine_channel_s(engine, &engine->channels[pass->channel + b]);
        step_s = fmax(step_s, fmax(link_s[0], link_s[1]));
    }
    return 2 * (pass->instances - 1) * step_s;
}

/* Rounding of the sum of replicas' gradients, and encoding and decoding on the way, take about as long as rounding all of it.
 */
static double coding_s(const struct engine *engine, const struct sum_group *pass) {
    return pass->stage_count > 1 ? 0 : engine->work->costs[pass->stages[0]].wire_s[WIRE_SUM];
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
            if (engine->pairs[a].link[0] == engine->pairs[b].link[0] || engine->pairs[a].link[1] == engine->pairs[b].link[1])
                return true;
    return false;
}

/* When each pass of the stage's sum begins, and how long it takes; returns when the last one ends. Without links the passes run
 * one after the other; else passes over replicas run concurrently if they use different links. */
double rings_sum_s(struct engine *engine, int stage) {
    struct engine_ring *ring = &engine->rings[stage];
    double end_s = 0;
    ring->in_place = true;
    for (int p = 0; p < ring->pass_count; p++) {
        ring->pass[p].lasts_s = ring_s(engine, &ring->pass[p]);
        if (ring->pass[p].lasts_s > 0) ring->in_place = false;
    }
    for (int p = 0; p < ring->pass_count; p++) {
        struct engine_pass *pass = &ring->pass[p];
        if (ring->in_place) pass->lasts_s = in_place_s(engine, &pass->group);
        pass->lasts_s += coding_s(engine, &pass->group);
        pass->begins_s = 0;
        for (const struct engine_pass *before = ring->pass; before < pass; before++)
            if (ring->in_place || pass->group.stage_count > 1 || share_link(engine, pass, before))
                pass->begins_s = fmax(pass->begins_s, before->begins_s + before->lasts_s);
        end_s = fmax(end_s, pass->begins_s + pass->lasts_s);
    }
    return end_s;
}

void rings_set_times(struct engine *engine) {
    for (int stage = 0; stage < engine->work->programs->stages; stage++) {
        struct engine_ring *ring = &engine->rings[stage];
        ring->duration = engine_ticks(engine, rings_sum_s(engine, stage));
        for (int p = 0; p < ring->pass_count; p++) {
            ring->pass[p].begins = engine_ticks(engine, ring->pass[p].begins_s);
            ring->pass[p].duration = engine_ticks(engine, ring->pass[p].lasts_s);
        }
    }
}
