/*
 * MadPipe, whole: the optimal contiguous plan under 1F1B*, and where one worker with several stages promises a shorter period,
 * a periodic schedule of that allocation, which is searched for between the bound of the class and the contiguous period: of
 * several allocations at several periods, and from the best of them on by small changes (madpipe_climb.c). What cannot be
 * scheduled within a budget falls back on the contiguous plan, so the answer is never worse than it.
 */
#include <stdlib.h>

#include "plan/planners/madpipe_schedule.h"

enum { NODES_PER_TEST = 300, PROMISING = 8, PLANS = 32, CLIMB_NODES = 100000 };

struct scratch {
    struct madpipe_stage *stages;
    struct periodic_operation *operations;
    int counts[PLANS];
};

/* The plans that a period allows, each scheduled where that beats what is known. */
static enum ps_status improve_at(const struct madpipe *data, struct scratch *scratch, int64_t period, int64_t bound,
                                 struct madpipe_found *best, struct ps_error *error) {
    int plans;
    bool complete;
    TRY(madpipe_special_some(data, period, PLANS, scratch->stages, scratch->counts, &plans, &complete, error));
    for (int p = 0; p < plans && bound < best->period_ns; p++)
        TRY(madpipe_schedule_least(data, scratch->stages + (size_t)p * (size_t)data->layers, scratch->counts[p], bound - 1,
                                   NODES_PER_TEST, scratch->operations, best, error));
    return PS_OK;
}

/* The stages of the bound, then those that longer periods allow; and again with more and more memory to spare on the special
 * worker: they may be easier to schedule. */
static enum ps_status improve(struct madpipe *data, struct scratch *scratch, int64_t bound, struct madpipe_found *best,
                              struct ps_error *error) {
    int64_t known = best->period_ns, least = bound;
    enum ps_status status = PS_OK;
    int count;
    for (data->caution = 0; data->caution <= CAUTION_MAX && status == PS_OK; data->caution++) {
        if (data->caution > 0) status = madpipe_special(data, best->period_ns, scratch->stages, &count, &least, error);
        for (int share = 0; share < PROMISING && status == PS_OK; share++) {
            int64_t period = least + (known - least) * share / PROMISING;
            if (period >= best->period_ns) break;
            status = improve_at(data, scratch, period, bound, best, error);
        }
    }
    data->caution = 0;
    if (status != PS_OK && status != PS_NO_PLAN) return status;
    return best->stage_count > 0 ? madpipe_climb(data, bound, CLIMB_NODES, scratch->operations, best, error) : PS_OK;
}

static enum ps_status solve_data(struct madpipe *data, struct scratch *scratch, struct madpipe_found *best,
                                 struct planner_answer *answer, struct ps_error *error) {
    int count;
    int64_t bound_ns;
    enum ps_status status = madpipe_contiguous(data, best->stages, &best->stage_count, &best->period_ns, error);
    if (status != PS_OK && status != PS_NO_PLAN) return status;
    TRY(madpipe_special(data, status == PS_OK ? best->period_ns : 0, scratch->stages, &count, &bound_ns, error));
    if (status == PS_NO_PLAN) best->period_ns = 2 * data->time_ns[data->layers] + 2;
    for (int l = 0; status == PS_NO_PLAN && l <= data->layers; l++) best->period_ns += 2 * data->transfer_ns[l];
    if (bound_ns < best->period_ns) TRY(improve(data, scratch, bound_ns, best, error));
    if (status == PS_NO_PLAN && best->operation_count == 0)
        return error_set(error, PS_NO_PLAN,
                         "no contiguous plan for %d workers fits their memory, and no schedule was found for another",
                         data->workers);
    TRY(madpipe_answer(best, answer, error));
    answer->lower_bound_s = (double)(bound_ns < best->period_ns ? bound_ns : best->period_ns) / 1e9;
    return PS_OK;
}

static enum ps_status solve(const struct planner_problem *problem, struct planner_answer *answer, struct ps_error *error) {
    struct madpipe data;
    TRY(madpipe_open(problem, &data, error));
    size_t layers = (size_t)data.layers;
    struct scratch scratch = {.stages = malloc(PLANS * layers * sizeof *scratch.stages),
                              .operations = malloc(4 * (layers + 1) * sizeof *scratch.operations)};
    struct madpipe_found best = {.stages = malloc(layers * sizeof *best.stages),
                                 .operations = malloc(4 * layers * sizeof *best.operations)};
    enum ps_status status;
    if (scratch.stages && scratch.operations && best.stages && best.operations)
        status = solve_data(&data, &scratch, &best, answer, error);
    else
        status = error_memory(error, "a plan", 4 * layers * sizeof *best.operations);
    free(scratch.stages);
    free(scratch.operations);
    free(best.stages);
    free(best.operations);
    madpipe_close(&data);
    return status;
}

extern const struct planner planner_madpipe;
const struct planner planner_madpipe = {
    .name = "madpipe",
    .summary = "exact memory; contiguous stages, or one worker with several, scheduled periodically",
    .solve = solve,
};
