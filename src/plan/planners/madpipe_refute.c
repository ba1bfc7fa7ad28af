/*
 * All allocations that a period leaves, one by one, each scheduled: a better plan, or the proof that there is none. The bound
 * of the class (madpipe_special.c) lets pass what no schedule can keep, since it knows loads and stays but not whether the
 * operations of the special worker get out of each other's way. What passes is often so little that all of it can be tried.
 *
 * Stages are placed from the last layer back, depth first, and a branch ends where the rest cannot be placed any more
 * (madpipe_rest.c), or where it is no better in anything than a branch that had no allocation at all. Nothing is dropped
 * because something that is possible dominates it: that may be the one that cannot be scheduled.
 */
#include <stdlib.h>
#include <string.h>

#include "plan/planners/madpipe_schedule.h"

enum { COMPARED_PER_STEP = 64 };

/* What is placed: from layer `first` on. */
struct placed {
    int first, count, workers; /* normal workers left */
    bool special;              /* is the first of its stages? */
    int64_t delay, link;       /* link: what the one behind the first stage carries of a special neighbour */
    int64_t load, memory, copy, average;
};

/* With the same layers, workers and kind of stage left: what could not be completed. */
struct dead {
    struct placed *all;
    int count, capacity;
};

struct walk {
    const struct madpipe *data;
    struct madpipe_rest rest;
    struct madpipe_effort *effort;
    struct madpipe_stage *stages; /* from the end of this room on, in order */
    struct dead *dead;
    struct periodic_operation *operations;
    struct madpipe_found *best;
    int plans; /* that came to the scheduler */
    bool improved, decided;
};

static struct dead *dead_of(struct walk *walk, const struct placed *placed) {
    return &walk->dead[2 * (placed->first * walk->data->workers + placed->workers) + placed->special];
}

static bool no_better(const struct placed *a, const struct placed *b) {
    return a->delay >= b->delay && a->load >= b->load && a->memory >= b->memory && a->copy >= b->copy &&
           a->average >= b->average && a->link >= b->link;
}

/* What has been of use moves up, so that it is soon looked at again. */
static bool is_dead(struct walk *walk, const struct placed *placed) {
    struct dead *dead = dead_of(walk, placed);
    for (int d = dead->count - 1; d >= 0; d--) {
        if (!no_better(placed, &dead->all[d])) continue;
        int up = d + (dead->count - d) / 2;
        struct placed moved = dead->all[d];
        dead->all[d] = dead->all[up];
        dead->all[up] = moved;
        return true;
    }
    walk->effort->steps -= dead->count / COMPARED_PER_STEP;
    return false;
}

static enum ps_status bury(struct walk *walk, const struct placed *placed, struct ps_error *error) {
    struct dead *dead = dead_of(walk, placed);
    if (dead->count == dead->capacity) {
        int capacity = dead->capacity > 0 ? 2 * dead->capacity : 4;
        struct placed *larger = realloc(dead->all, (size_t)capacity * sizeof *larger);
        if (!larger) return error_memory(error, "the plans ruled out", (size_t)capacity * sizeof *larger);
        dead->all = larger;
        dead->capacity = capacity;
    }
    dead->all[dead->count++] = *placed;
    return PS_OK;
}

/* Is there a schedule? Then its least period is the best; a schedule that the effort does not suffice to find leaves it
 * open. */
static enum ps_status schedule_plan(struct walk *walk, const struct madpipe_stage *stages, int count, struct ps_error *error) {
    struct madpipe_effort *effort = walk->effort;
    walk->plans++;
    int given = effort->nodes_per_plan < effort->nodes ? effort->nodes_per_plan : effort->nodes, nodes = given, operation_count;
    bool found;
    TRY(madpipe_schedule(walk->data, stages, count, walk->rest.period, &nodes, walk->operations, &operation_count, &found,
                         error));
    effort->nodes -= given - nodes > 0 ? given - nodes : 1;
    if (!found) {
        walk->decided &= nodes > 0;
        return PS_OK;
    }
    TRY(madpipe_schedule_least(walk->data, stages, count, effort->bound - 1, effort->nodes_per_plan, &effort->nodes,
                               walk->operations, walk->best, error));
    walk->improved = true;
    return PS_OK;
}

static enum ps_status place_all(struct walk *walk, const struct placed *placed, struct ps_error *error);

static enum ps_status place(struct walk *walk, const struct placed *placed, int first, bool special, struct ps_error *error) {
    const struct madpipe *data = walk->data;
    struct placed next = *placed;
    int end = placed->first;
    int64_t time = madpipe_time_ns(data, first, end), period = walk->rest.period, stay = placed->delay + time;
    int64_t copies = madpipe_periods(stay, period), limit = data->limit_bytes;
    if (special) {
        next.load += time;
        if (placed->link > 0 && placed->link + madpipe_link_ns(data, end) > period) return PS_OK;
        madpipe_special_memory(data, first, end, stay, period, &next.memory, &next.copy, &next.average);
        if (next.load > period || next.memory + next.copy > limit || next.average > limit) return PS_OK;
        next.link = 0;
    } else {
        if (madpipe_memory(data, first, end, copies) > limit) return PS_OK;
        next.link = placed->special ? madpipe_link_ns(data, end) : 0;
        next.workers--;
    }
    next.special = special;
    next.first = first;
    next.delay = madpipe_cross(data, madpipe_lengthen(placed->delay, time, period), first, period);
    next.count++;
    if (!madpipe_rest_fits(&walk->rest, first, next.workers, special, next.delay, next.load,
                           data->fixed ? next.memory : next.average))
        return PS_OK;
    walk->stages[data->layers - next.count] = (struct madpipe_stage){first, end, special};
    return place_all(walk, &next, error);
}

static bool goes_on(const struct walk *walk) { return walk->decided && !walk->improved; }

static enum ps_status place_all(struct walk *walk, const struct placed *placed, struct ps_error *error) {
    const struct madpipe *data = walk->data;
    int plans = walk->plans;
    if (placed->first == 0) return schedule_plan(walk, walk->stages + data->layers - placed->count, placed->count, error);
    if (is_dead(walk, placed)) return PS_OK;
    if (--walk->effort->steps <= 0 || walk->effort->nodes <= 0) walk->decided = false;
    for (int first = placed->first - 1; first >= 0 && goes_on(walk); first--) {
        if (madpipe_time_ns(data, first, placed->first) > walk->rest.period) break;
        if (madpipe_link_ns(data, first) > walk->rest.period) continue;
        if (placed->workers > 0) TRY(place(walk, placed, first, false, error));
        if (!placed->special && goes_on(walk)) TRY(place(walk, placed, first, true, error));
    }
    return goes_on(walk) && walk->plans == plans ? bury(walk, placed, error) : PS_OK;
}

enum ps_status madpipe_refute(const struct madpipe *data, int64_t period_ns, struct madpipe_effort *effort,
                              struct periodic_operation *operations, struct madpipe_found *best, bool *refuted,
                              struct ps_error *error) {
    size_t layers = (size_t)data->layers, lists = 2 * (layers + 1) * (size_t)data->workers;
    struct walk walk = {.data = data,
                        .effort = effort,
                        .operations = operations,
                        .best = best,
                        .decided = true,
                        .stages = malloc(layers * sizeof *walk.stages),
                        .dead = calloc(lists, sizeof *walk.dead)};
    struct placed none = {.first = data->layers, .workers = data->workers - 1};
    enum ps_status status = walk.stages && walk.dead ? madpipe_rest_open(data, period_ns, &walk.rest, error)
                                                     : error_memory(error, "the plans ruled out", lists * sizeof *walk.dead);
    if (status == PS_OK) status = place_all(&walk, &none, error);
    *refuted = goes_on(&walk);
    for (size_t l = 0; walk.dead && l < lists; l++) free(walk.dead[l].all);
    madpipe_rest_close(&walk.rest);
    free(walk.stages);
    free(walk.dead);
    return status;
}
