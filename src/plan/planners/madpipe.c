/*
 * MadPipe, whole: the optimal contiguous plan under 1F1B*, and where one worker with several stages promises a shorter period,
 * a periodic schedule of such an allocation.
 *
 * With limits of memory few allocations are possible at a period, and all of them are tried (madpipe_refute.c): between what
 * the work takes at least and the best plan known the period is searched that has a schedule while a slightly shorter one has
 * none. That is the optimum of the class, and proved. Where there is too much to try, and where memory does not count, the
 * bound of the class (madpipe_special.c) says how much is left, and schedules are searched for of several allocations at
 * several periods, and from the best of them on by small changes (madpipe_climb.c). What cannot be scheduled within a budget
 * falls back on the contiguous plan, so the answer is never worse than it. Budgets count steps, never time: the answer does not
 * depend on the machine.
 */
#include <stdlib.h>
#include <string.h>

#include "plan/planners/madpipe_schedule.h"

enum { NODES_PER_TEST = 1500, PROMISING = 32, PLANS = 512, PLAN_NODES = 20000, CLIMB_NODES = 20000 };
/* Without limits of memory nothing is refuted, and there is more to try. */
enum { FREE_PLAN_NODES = 400000 };

/* What the refutation of one period may take (stages placed), for chains of few layers and of longer ones; all of them four
 * times that. A gap of 1/CLOSE is none. */
enum { FEW_LAYERS = 64, STEPS = 40000, LONG_STEPS = 300000, REFUTE_NODES = 40000, CLOSE = 100000 };

/* Chains of more layers than this are searched for plans at so many of their cuts; the bound is
 * found to 1/SHARP; what is only a hint to 1/ROUGH. */
enum { MANY_LAYERS = 200, SHARP = 20000, ROUGH = 100, ROUGH_BUDGET = 5000000, LONG_BUDGET = 12000000 };

struct scratch {
    struct madpipe_stage *stages;
    struct periodic_operation *operations;
    bool *cuts;
    int counts[PLANS];
    int nodes; /* that schedules of the bound's plans may still take */
};

/* The plans that a period allows, each scheduled where that beats what is known. */
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

/* The stages of the bound, then those that longer periods allow; and again with more and more memory to spare on the special
 * worker: they may be easier to schedule. Blocks that are held for good leave nothing to spare. */
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
    return best->stage_count > 0 ? madpipe_climb(data, bound, CLIMB_NODES, scratch->operations, best, error) : PS_OK;
}

/* Of each of MANY_LAYERS spans of equal time the cut that least crosses, and those of the stages known. */
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

/* Raises the bound and betters the plan until they meet, by trying all allocations of periods in between: first just below the
 * best plan, then from the bound up by longer and longer steps, then by halves, below what could not be decided. */
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

/* Work and the largest layer. */
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
    enum ps_status status = madpipe_contiguous(data, best->stages, &best->stage_count, &best->period_ns, error);
    if (status != PS_OK && status != PS_NO_PLAN) return status;
    if (status == PS_NO_PLAN) best->period_ns = 2 * data->time_ns[data->layers] + 2;
    for (int l = 0; status == PS_NO_PLAN && l <= data->layers; l++) best->period_ns += 2 * data->transfer_ns[l];
    if (data->limit_bytes < INT64_MAX) TRY(close_gap(data, scratch, &bound_ns, best, error));
    if (best->period_ns - bound_ns > bound_ns / CLOSE) {
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
                         "no contiguous plan for %d workers fits their memory, and no schedule was found for another",
                         data->workers);
    TRY(madpipe_answer(data, best, answer, error));
    answer->lower_bound_s = (double)(bound_ns < best->period_ns ? bound_ns : best->period_ns) / 1e9;
    return PS_OK;
}

static enum ps_status solve(const struct planner_problem *problem, struct planner_answer *answer, struct ps_error *error) {
    struct madpipe data;
    TRY(madpipe_open(problem, &data, error));
    size_t layers = (size_t)data.layers;
    struct scratch scratch = {.nodes = data.limit_bytes < INT64_MAX ? PLAN_NODES : FREE_PLAN_NODES,
                              .stages = malloc(PLANS * layers * sizeof *scratch.stages),
                              .operations = malloc(4 * (layers + 1) * sizeof *scratch.operations),
                              .cuts = malloc((layers + 1) * sizeof *scratch.cuts)};
    struct madpipe_found best = {.stages = malloc(layers * sizeof *best.stages),
                                 .operations = malloc(4 * layers * sizeof *best.operations)};
    enum ps_status status;
    if (scratch.stages && scratch.operations && scratch.cuts && best.stages && best.operations)
        status = solve_data(&data, &scratch, &best, answer, error);
    else
        status = error_memory(error, "a plan", 4 * layers * sizeof *best.operations);
    free(scratch.stages);
    free(scratch.operations);
    free(scratch.cuts);
    free(best.stages);
    free(best.operations);
    madpipe_close(&data);
    return status;
}

extern const struct planner planner_madpipe;
const struct planner planner_madpipe = {
    .name = "madpipe",
    .summary = "exact memory; contiguous stages, or one worker with several, scheduled periodically",
    .own_schedule = true,
    .reckons = true,
    .solve = solve,
};
