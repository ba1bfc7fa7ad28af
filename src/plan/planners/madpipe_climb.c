/*
 * From a plan that has a schedule to a better one near it: stages change their ends, and stages of the special worker are
 * inserted, given away or merged, as long as that has a schedule of a shorter period. The bound of the class
 * (madpipe_special.c) says how much is left at most; this finds plans that are in reach of the scheduler, which the bound's own
 * often are not.
 */
#include <stdlib.h>
#include <string.h>

#include "plan/planners/madpipe_schedule.h"

struct climb {
    const struct madpipe *data;
    struct madpipe_found *best;
    struct madpipe_stage *tried; /* one more than there are layers */
    struct periodic_operation *operations;
    int64_t bound; /* no plan has a shorter period */
    int nodes;     /* of the scheduler that may still be taken */
    int special;   /* the stage whose worker becomes the special one, where there is none yet; -1: there is one */
    bool moved;
};

/* Leaves out empty stages and joins neighbours on the special worker; false where that makes no plan. */
static bool tidy(const struct climb *climb, struct madpipe_stage *stages, int *count) {
    int kept = 0, normal = 0;
    bool special = false;
    for (int s = 0; s < *count; s++) {
        struct madpipe_stage stage = stages[s];
        if (stage.first > stage.end) return false;
        if (stage.first == stage.end) continue;
        if (kept > 0 && stage.special && stages[kept - 1].special)
            stages[kept - 1].end = stage.end;
        else
            stages[kept++] = stage;
    }
    for (int s = 0; s < kept; s++) {
        normal += !stages[s].special;
        special |= stages[s].special;
    }
    *count = kept;
    return normal + special <= climb->data->workers;
}

/* Is the plan of `count` stages in `tried` better than the best? Then it takes its place. */
static enum ps_status try_plan(struct climb *climb, int count, struct ps_error *error) {
    enum { NODES = 400 };
    struct madpipe_found *best = climb->best;
    int64_t known = best->period_ns, period = known - 1 - known / 10000;
    int nodes = climb->nodes < NODES ? climb->nodes : NODES, operation_count, given = nodes;
    bool found;
    if (nodes == 0 || period < climb->bound || !tidy(climb, climb->tried, &count)) return PS_OK;
    TRY(madpipe_schedule(climb->data, climb->tried, count, period, &nodes, climb->operations, &operation_count, &found, error));
    climb->nodes -= given - nodes > 0 ? given - nodes : 1;
    if (!found) return PS_OK;
    TRY(madpipe_schedule_least(climb->data, climb->tried, count, climb->bound - 1, NODES, &climb->nodes, climb->operations,
                               best, error));
    climb->moved = best->period_ns < known;
    return PS_OK;
}

static void start_move(struct climb *climb) {
    memcpy(climb->tried, climb->best->stages, (size_t)climb->best->stage_count * sizeof *climb->tried);
    if (climb->special >= 0) climb->tried[climb->special].special = true;
}

/* The cut between stage s and the next one, `layers` further on. */
static enum ps_status move_cut(struct climb *climb, int s, int layers, struct ps_error *error) {
    if (climb->moved) return PS_OK;
    start_move(climb);
    climb->tried[s].end = climb->tried[s + 1].first += layers;
    return try_plan(climb, climb->best->stage_count, error);
}

/* The layers first..end-1, which stage s has at one of its ends, to the special worker. */
static enum ps_status hand_over(struct climb *climb, int s, int first, int end, struct ps_error *error) {
    if (climb->moved) return PS_OK;
    start_move(climb);
    struct madpipe_stage *stage = &climb->tried[s];
    if (stage->special || first < stage->first || end > stage->end) return PS_OK;
    struct madpipe_stage given = {first, end, true}, rest = {stage->first, first, false};
    int place = s + 1;
    if (first == stage->first) {
        rest = (struct madpipe_stage){end, stage->end, false};
        place = s;
    }
    *stage = rest;
    memmove(&climb->tried[place + 1], &climb->tried[place], (size_t)(climb->best->stage_count - place) * sizeof *climb->tried);
    climb->tried[place] = given;
    return try_plan(climb, climb->best->stage_count + 1, error);
}

/* All moves of one stage by up to its number of layers, doubled each time. */
static enum ps_status move_stage(struct climb *climb, int s, struct ps_error *error) {
    int first = climb->best->stages[s].first, end = climb->best->stages[s].end;
    for (int layers = 1; !climb->moved && layers < 2 * (end - first); layers *= 2) {
        int many = layers < end - first ? layers : end - first;
        if (s + 1 < climb->best->stage_count) TRY(move_cut(climb, s, -many, error));
        if (s > 0) TRY(move_cut(climb, s - 1, many, error));
        TRY(hand_over(climb, s, first, first + many, error));
        TRY(hand_over(climb, s, end - many, end, error));
    }
    return PS_OK;
}

/* One move of any stage. */
static enum ps_status move_any(struct climb *climb, struct ps_error *error) {
    climb->moved = false;
    for (int s = 0; s < climb->best->stage_count && !climb->moved; s++) TRY(move_stage(climb, s, error));
    return PS_OK;
}

/* While there is no special worker, each one is tried as that. */
static enum ps_status move_best(struct climb *climb, struct ps_error *error) {
    const struct madpipe_found *best = climb->best;
    bool special = false;
    for (int s = 0; s < best->stage_count; s++) special |= best->stages[s].special;
    climb->special = -1;
    if (special) return move_any(climb, error);
    for (int s = 0; s < best->stage_count; s++) {
        climb->special = s;
        TRY(move_any(climb, error));
        if (climb->moved) break;
    }
    return PS_OK;
}

enum ps_status madpipe_climb(const struct madpipe *data, int64_t bound, int nodes, struct periodic_operation *operations,
                             struct madpipe_found *best, struct ps_error *error) {
    struct climb climb = {.data = data, .best = best, .operations = operations, .bound = bound, .nodes = nodes, .moved = true};
    size_t bytes = ((size_t)data->layers + 1) * sizeof *climb.tried;
    enum ps_status status = PS_OK;
    climb.tried = malloc(bytes);
    if (!climb.tried) return error_memory(error, "a plan", bytes);
    while (status == PS_OK && climb.moved && climb.nodes > 0 && best->period_ns > bound) status = move_best(&climb, error);
    free(climb.tried);
    return status;
}
