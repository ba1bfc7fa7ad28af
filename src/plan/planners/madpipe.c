/*
 * MadPipe, complete: the optimal contiguous plan under 1F1B* and, if one worker with several stages promises a shorter period,
 * a periodic schedule of such an allocation.
 *
 * With memory limits few allocations are possible at a period, and all of them are tried (madpipe_refute). The search is
 * between the least time of the work and the best plan, for a period that has a schedule while a slightly shorter one has none.
 * That is the proven optimum of the class. If there are too many allocations to try, or memory is not limited, the bound of the
 * class (madpipe_bounds.c) gives the remaining gap. Schedules are then searched for several allocations at several periods, and
 * the best of them is improved by small changes (madpipe_local_search). If no schedule is found within a budget the contiguous
 * plan remains, so the answer is never worse than it. Budgets count steps, not time: the answer does not depend on the machine.
 */
#include "plan/planners/madpipe.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

/*
 * From a plan with a schedule to a better one near it: stages change their ends, and stages of the special worker are inserted,
 * moved to other workers or merged, as long as the result has a schedule of a shorter period. The bound of the class
 * (madpipe_bounds.c) limits the remaining gain. This search finds plans that the scheduler can schedule, which the bound's own
 * plans often are not.
 */

struct local_search {
    const struct madpipe *data;
    struct madpipe_found *best;
    struct madpipe_stage *tried; /* one more than there are layers */
    struct periodic_operation *operations;
    int64_t bound; /* no plan has a shorter period */
    int nodes;     /* nodes that the scheduler may still use */
    int special;   /* the stage whose worker becomes the special one, if there is none yet; -1: there is one */
    bool moved;
};

/* Removes empty stages and joins adjacent ones on the special worker; false if the result is no plan. */
static bool tidy(const struct local_search *local, struct madpipe_stage *stages, int *count) {
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
    return normal + special <= local->data->workers;
}

/* Replaces the best plan by the plan of `count` stages in `tried` if it is better. */
static enum ps_status try_plan(struct local_search *local, int count, struct ps_error *error) {
    enum { NODES = 400 };
    struct madpipe_found *best = local->best;
    int64_t known = best->period_ns, period = known - 1 - known / 10000;
    int nodes = local->nodes < NODES ? local->nodes : NODES, operation_count, given = nodes;
    bool found;
    if (nodes == 0 || period < local->bound || !tidy(local, local->tried, &count)) return PS_OK;
    TRY(madpipe_schedule(local->data, local->tried, count, period, &nodes, local->operations, &operation_count, &found, error));
    local->nodes -= given - nodes > 0 ? given - nodes : 1;
    if (!found) return PS_OK;
    TRY(madpipe_schedule_least(local->data, local->tried, count, local->bound - 1, NODES, &local->nodes, local->operations,
                               best, error));
    local->moved = best->period_ns < known;
    return PS_OK;
}

static void start_move(struct local_search *local) {
    memcpy(local->tried, local->best->stages, (size_t)local->best->stage_count * sizeof *local->tried);
    if (local->special >= 0) local->tried[local->special].special = true;
}

/* Moves the cut between stage s and the next one by `layers`. */
static enum ps_status move_cut(struct local_search *local, int s, int layers, struct ps_error *error) {
    if (local->moved) return PS_OK;
    start_move(local);
    local->tried[s].end = local->tried[s + 1].first += layers;
    return try_plan(local, local->best->stage_count, error);
}

/* Moves the layers first..end-1, which are at an end of stage s, to the special worker. */
static enum ps_status give_to_special(struct local_search *local, int s, int first, int end, struct ps_error *error) {
    if (local->moved) return PS_OK;
    start_move(local);
    struct madpipe_stage *stage = &local->tried[s];
    if (stage->special || first < stage->first || end > stage->end) return PS_OK;
    struct madpipe_stage given = {first, end, true}, rest = {stage->first, first, false};
    int place = s + 1;
    if (first == stage->first) {
        rest = (struct madpipe_stage){end, stage->end, false};
        place = s;
    }
    *stage = rest;
    memmove(&local->tried[place + 1], &local->tried[place], (size_t)(local->best->stage_count - place) * sizeof *local->tried);
    local->tried[place] = given;
    return try_plan(local, local->best->stage_count + 1, error);
}

/* All moves of one stage by up to its number of layers, doubled each time; none after one that helped. */
static enum ps_status move_stage(struct local_search *local, int s, struct ps_error *error) {
    int first = local->best->stages[s].first, end = local->best->stages[s].end;
    for (int layers = 1; layers < 2 * (end - first); layers *= 2) {
        int many = layers < end - first ? layers : end - first;
        if (s + 1 < local->best->stage_count) TRY(move_cut(local, s, -many, error));
        if (s > 0) TRY(move_cut(local, s - 1, many, error));
        TRY(give_to_special(local, s, first, first + many, error));
        TRY(give_to_special(local, s, end - many, end, error));
    }
    return PS_OK;
}

/* One move of any stage. */
static enum ps_status move_any(struct local_search *local, struct ps_error *error) {
    local->moved = false;
    for (int s = 0; s < local->best->stage_count; s++) TRY(move_stage(local, s, error));
    return PS_OK;
}

/* As long as there is no special worker, each worker is tried as the special one. */
static enum ps_status move_best(struct local_search *local, struct ps_error *error) {
    const struct madpipe_found *best = local->best;
    bool special = false;
    for (int s = 0; s < best->stage_count; s++) special |= best->stages[s].special;
    local->special = -1;
    if (special) return move_any(local, error);
    for (int s = 0; s < best->stage_count; s++) {
        local->special = s;
        TRY(move_any(local, error));
        if (local->moved) break;
    }
    return PS_OK;
}

enum ps_status madpipe_local_search(const struct madpipe *data, int64_t bound, int nodes, struct periodic_operation *operations,
                                    struct madpipe_found *best, struct ps_error *error) {
    struct local_search local = {
        .data = data, .best = best, .operations = operations, .bound = bound, .nodes = nodes, .moved = true};
    enum ps_status status = memory_new(&local.tried, data->layers + 1, "a plan", error);
    while (status == PS_OK && local.moved && local.nodes > 0 && best->period_ns > bound) status = move_best(&local, error);
    free(local.tried);
    return status;
}

/*
 * All allocations that a period permits, one by one, each scheduled: a better plan, or the proof that there is none. The bound
 * of the class (madpipe_bounds.c) permits some allocations without a schedule, since it includes loads and the time that
 * batches stay, but not whether the operations of the special worker overlap. There are often so few of them that all can be
 * tried.
 *
 * Stages are placed from the last layer back, depth first. A branch ends if the rest cannot be placed (madpipe_bounds.c), or if
 * it is in no respect better than a branch without any allocation. A branch is not dropped because a possible one dominates it:
 * the dominating one may have no schedule.
 */

enum { COMPARED_PER_STEP = 64 };

/* What has been placed: from layer `first` on. */
struct placed {
    int first, count, workers; /* normal workers left */
    bool special;              /* is the first of its stages? */
    int64_t delay, link;       /* link: load by the transfer of a special adjacent stage on the link after the first stage */
    int64_t load, memory, copy, average;
};

/* A state with the same remaining layers, workers and kind of stage that could not be completed. */
struct refuted {
    struct placed *all;
    int count;
    size_t capacity;
};

struct walk {
    const struct madpipe *data;
    struct madpipe_completion rest;
    struct madpipe_effort *effort;
    struct madpipe_stage *stages; /* in order, at the end of this array */
    struct refuted *refuted;
    struct periodic_operation *operations;
    struct madpipe_found *best;
    int plans; /* number of plans that were scheduled */
    bool improved, decided;
};

static struct refuted *refuted_like(struct walk *walk, const struct placed *placed) {
    return &walk->refuted[2 * (placed->first * walk->data->workers + placed->workers) + placed->special];
}

static bool no_better(const struct placed *a, const struct placed *b) {
    return a->delay >= b->delay && a->load >= b->load && a->memory >= b->memory && a->copy >= b->copy &&
           a->average >= b->average && a->link >= b->link;
}

/* An entry that matched moves up, so that it is compared early the next time. */
static bool is_refuted(struct walk *walk, const struct placed *placed) {
    struct refuted *refuted = refuted_like(walk, placed);
    for (int d = refuted->count - 1; d >= 0; d--) {
        if (!no_better(placed, &refuted->all[d])) continue;
        int up = d + (refuted->count - d) / 2;
        struct placed moved = refuted->all[d];
        refuted->all[d] = refuted->all[up];
        refuted->all[up] = moved;
        return true;
    }
    walk->effort->steps -= refuted->count / COMPARED_PER_STEP;
    return false;
}

static enum ps_status add_refuted(struct walk *walk, const struct placed *placed, struct ps_error *error) {
    struct refuted *refuted = refuted_like(walk, placed);
    TRY(memory_grow(&refuted->all, &refuted->capacity, refuted->count + 1, "the plans ruled out", error));
    refuted->all[refuted->count++] = *placed;
    return PS_OK;
}

/* If there is a schedule, its least period becomes the best; if the effort does not suffice to find one, the result is open. */
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
    if (!madpipe_completion_fits(&walk->rest, first, next.workers, special, next.delay, next.load,
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
    if (is_refuted(walk, placed)) return PS_OK;
    if (--walk->effort->steps <= 0 || walk->effort->nodes <= 0) walk->decided = false;
    for (int first = placed->first - 1; first >= 0 && goes_on(walk); first--) {
        if (madpipe_time_ns(data, first, placed->first) > walk->rest.period) break;
        if (madpipe_link_ns(data, first) > walk->rest.period) continue;
        if (placed->workers > 0) TRY(place(walk, placed, first, false, error));
        if (!placed->special && goes_on(walk)) TRY(place(walk, placed, first, true, error));
    }
    return goes_on(walk) && walk->plans == plans ? add_refuted(walk, placed, error) : PS_OK;
}

enum ps_status madpipe_refute(const struct madpipe *data, int64_t period_ns, struct madpipe_effort *effort,
                              struct periodic_operation *operations, struct madpipe_found *best, bool *refuted,
                              struct ps_error *error) {
    size_t layers = (size_t)data->layers, lists = 2 * (layers + 1) * (size_t)data->workers;
    struct arena arena = {0};
    struct walk walk = {.data = data,
                        .effort = effort,
                        .operations = operations,
                        .best = best,
                        .decided = true,
                        .stages = arena_take(&arena, layers, sizeof *walk.stages),
                        .refuted = arena_take(&arena, lists, sizeof *walk.refuted)};
    struct placed none = {.first = data->layers, .workers = data->workers - 1};
    enum ps_status status;
    madpipe_completion_open(data, period_ns, &walk.rest, &arena);
    TRY_OUT(arena_check(&arena, "the plans ruled out", error));
    madpipe_completion_fill(&walk.rest);
    status = place_all(&walk, &none, error);
    for (size_t l = 0; l < lists; l++) free(walk.refuted[l].all);
out:
    *refuted = goes_on(&walk);
    arena_release(&arena);
    return status;
}

enum { NODES_PER_TEST = 1500, PROMISING = 32, PLANS = 512, PLAN_NODES = 20000, CLIMB_NODES = 20000 };
/* Of groups of layers nothing is proven, since the layers have more plans, and with more workers than these less is tried: a
 * schedule of so many stages takes long. */
enum { GROUPS_WORKERS = 8 };
/* Without memory limits nothing is refuted, and there is more to try. */
enum { FREE_PLAN_NODES = 400000 };

/* Limits for the refutation of one period (stages placed), for chains of few layers and of longer ones; for all of them
 * together four times that. A gap below 1/CLOSE counts as none. */
enum { FEW_LAYERS = 64, STEPS = 40000, LONG_STEPS = 300000, REFUTE_NODES = 40000, CLOSE = 100000 };

/* Chains of more layers than this are searched for plans at this many of their cuts only. The bound is found to 1/SHARP, and
 * values that are only hints to 1/ROUGH. */
enum { MANY_LAYERS = 200, SHARP = 20000, ROUGH = 100, ROUGH_BUDGET = 5000000, LONG_BUDGET = 12000000 };

struct scratch {
    struct madpipe_stage *stages;
    struct periodic_operation *operations;
    bool *cuts;
    int counts[PLANS];
    int nodes; /* that schedules of the bound's plans may still use */
};

/* Schedules the plans that a period permits, if they can beat the best one. */
static enum ps_status improve_at(const struct madpipe *data, struct scratch *scratch, int64_t period, int64_t bound,
                                 struct madpipe_found *best, struct ps_error *error) {
    int plans;
    bool complete;
    TRY(madpipe_special_some(data, period, PLANS, scratch->stages, scratch->counts, &plans, &complete, error));
    for (int p = 0; p < plans && bound < best->period_ns; p++)
        TRY(madpipe_schedule_least(data, scratch->stages + (size_t)p * (size_t)data->layers, scratch->counts[p], bound - 1,
                                   NODES_PER_TEST, &scratch->nodes, scratch->operations, best, error));
    return PS_OK;
}

/* Tries the stages of the bound, then those that longer periods permit; then again with more and more spare memory on the
 * special worker, which may make them easier to schedule. With permanently held blocks there is no spare memory. */
static enum ps_status improve(struct madpipe *data, struct scratch *scratch, int64_t bound, struct madpipe_found *best,
                              struct ps_error *error) {
    int64_t known = best->period_ns, least = bound;
    enum ps_status status = PS_OK;
    int count, step = data->cuts ? 2 : 1;
    data->tolerance_ns = 1 + bound / ROUGH;
    for (data->safety_factor = 0; data->safety_factor <= (data->fixed ? 0 : SAFETY_FACTOR_MAX) && status == PS_OK;
         data->safety_factor += step) {
        if (data->safety_factor > 0 || data->cuts)
            status = madpipe_special(data, best->period_ns, scratch->stages, &count, &least, error);
        for (int share = 0; share < PROMISING && status == PS_OK; share++) {
            int64_t period = least + (known - least) * share / PROMISING;
            if (period >= best->period_ns) break;
            status = improve_at(data, scratch, period, bound, best, error);
        }
    }
    data->safety_factor = 0;
    if (status != PS_OK && status != PS_NO_PLAN) return status;
    const bool many = data->problem->costs->group_last && data->workers > GROUPS_WORKERS;
    const int nodes = many ? CLIMB_NODES * GROUPS_WORKERS / data->workers : CLIMB_NODES;
    return best->stage_count > 0 ? madpipe_local_search(data, bound, nodes, scratch->operations, best, error) : PS_OK;
}

/* The cut with the least transfer in each of MANY_LAYERS spans of equal time, and the cuts of the known stages. */
static void choose_cuts(const struct madpipe *data, const struct madpipe_found *best, bool *cuts) {
    int64_t total = data->time_ns[data->layers];
    memset(cuts, 0, ((size_t)data->layers + 1) * sizeof *cuts);
    for (int span = 0, cut = 0; span < MANY_LAYERS; span++) {
        int least = cut;
        for (; cut <= data->layers && data->time_ns[cut] * MANY_LAYERS < (span + 1) * total; cut++)
            if (data->transfer_ns[cut] < data->transfer_ns[least]) least = cut;
        cuts[least] = true;
    }
    cuts[0] = true;
    for (int s = 0; s < best->stage_count; s++) cuts[best->stages[s].first] = true;
}

/* Raises the bound and improves the plan until they meet, by trying all allocations of periods in between: first just below
 * the best plan, then from the bound up by longer and longer steps, then by bisection, below the periods that could not be
 * decided. */
static enum ps_status close_gap(const struct madpipe *data, struct scratch *scratch, int64_t *bound, struct madpipe_found *best,
                                struct ps_error *error) {
    int64_t each = data->layers > FEW_LAYERS ? LONG_STEPS : STEPS, left = 4 * each, top = best->period_ns, step = 0;
    struct madpipe_effort effort = {.nodes = REFUTE_NODES, .nodes_per_plan = NODES_PER_TEST};
    while (left > 0 && effort.nodes > 0 && top - *bound > *bound / CLOSE) {
        int64_t known = best->period_ns, given = each < left ? each : left;
        int64_t period = step == 0 ? top - 1 - *bound / (2 * CLOSE) : *bound + (top - *bound) / 2;
        if (step > 0 && *bound + step < period) period = *bound + step;
        bool refuted;
        effort.steps = given;
        effort.bound = *bound;
        TRY(madpipe_refute(data, period, &effort, scratch->operations, best, &refuted, error));
        left -= given - effort.steps;
        if (refuted)
            *bound = period + 1;
        else
            top = best->period_ns < known ? best->period_ns : period;
        step = step == 0 ? (top - *bound) / 64 + 1 : 2 * step;
    }
    return PS_OK;
}

/* The larger of the average work per worker and the largest layer. */
static int64_t least_period(const struct madpipe *data) {
    int64_t least = (data->time_ns[data->layers] + data->workers - 1) / data->workers;
    for (int l = 0; l < data->layers; l++)
        if (madpipe_time_ns(data, l, l + 1) > least) least = madpipe_time_ns(data, l, l + 1);
    return least;
}

static enum ps_status find_bound(struct madpipe *data, int64_t known, struct madpipe_stage *stages, int64_t *bound_ns,
                                 struct ps_error *error) {
    int count;
    if (data->layers > MANY_LAYERS) {
        data->budget = LONG_BUDGET;
        data->tolerance_ns = 1 + data->time_ns[data->layers] / data->workers / SHARP;
    }
    return madpipe_special(data, known, stages, &count, bound_ns, error);
}

static enum ps_status solve_data(struct madpipe *data, struct scratch *scratch, struct madpipe_found *best,
                                 struct planner_answer *answer, struct ps_error *error) {
    int64_t bound_ns = least_period(data), special_ns;
    const bool proves = !data->problem->costs->group_last;
    enum ps_status status = madpipe_contiguous(data, best->stages, &best->stage_count, &best->period_ns, error);
    if (status != PS_OK && status != PS_NO_PLAN) return status;
    if (status == PS_NO_PLAN) best->period_ns = 2 * data->time_ns[data->layers] + 2;
    for (int l = 0; status == PS_NO_PLAN && l <= data->layers; l++) best->period_ns += 2 * data->transfer_ns[l];
    if (data->limit_bytes < INT64_MAX && proves) TRY(close_gap(data, scratch, &bound_ns, best, error));
    if (best->period_ns - bound_ns > bound_ns / CLOSE && proves) {
        TRY(find_bound(data, best->period_ns, scratch->stages, &special_ns, error));
        if (special_ns > bound_ns) bound_ns = special_ns;
    }
    if (data->layers > MANY_LAYERS) {
        choose_cuts(data, best, scratch->cuts);
        data->cuts = scratch->cuts;
        data->budget = ROUGH_BUDGET;
    }
    if (best->period_ns - bound_ns > bound_ns / CLOSE) TRY(improve(data, scratch, bound_ns, best, error));
    if (status == PS_NO_PLAN && bound_ns >= best->period_ns && best->operation_count == 0) return status;
    if (status == PS_NO_PLAN && best->operation_count == 0)
        return error_set(error, PS_NO_PLAN,
                         "no contiguous plan for %d worker%s fits their memory, and no schedule was found for another",
                         data->workers, text_plural(data->workers));
    TRY(madpipe_answer(data, best, answer, error));
    answer->lower_bound_s = (double)(bound_ns < best->period_ns ? bound_ns : best->period_ns) / 1e9;
    return PS_OK;
}

static enum ps_status solve(const struct planner_problem *problem, struct planner_answer *answer, struct ps_error *error) {
    struct madpipe data;
    TRY(madpipe_open(problem, &data, error));
    size_t layers = (size_t)data.layers;
    struct scratch scratch = {.nodes = data.limit_bytes < INT64_MAX ? PLAN_NODES : FREE_PLAN_NODES,
                              .stages = arena_take(&data.arena, PLANS * layers, sizeof *scratch.stages),
                              .operations = arena_take(&data.arena, 4 * (layers + 1), sizeof *scratch.operations),
                              .cuts = arena_take(&data.arena, layers + 1, sizeof *scratch.cuts)};
    struct madpipe_found best = {.stages = arena_take(&data.arena, layers, sizeof *best.stages),
                                 .operations = arena_take(&data.arena, 4 * layers, sizeof *best.operations)};
    enum ps_status status = arena_check(&data.arena, "a plan", error);
    if (status == PS_OK) status = solve_data(&data, &scratch, &best, answer, error);
    madpipe_close(&data);
    return status;
}

extern const struct planner planner_madpipe;
const struct planner planner_madpipe = {
    .name = "madpipe",
    .summary = "exact memory; contiguous stages, or one worker with several, scheduled periodically",
    .own_schedule = true,
    .contains_chain = true,
    .includes_updates = true,
    .solve = solve,
};
