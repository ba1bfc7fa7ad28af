/*
 * Stages with replicas, one choice of their numbers after the other. What a worker holds depends on the replicas of its own
 * stage and of all behind it, and is read off the programs; so each choice is lowered, and then cut exactly with the memory of
 * each worker (plan/replicas.h). Choices are looked at in the order of what they would take with memory enough, and no further
 * than that can be better than what was found.
 *
 * Of W workers there are 2^W - 1 choices. Where these are too many, only those with few stages are looked at, those with equal
 * numbers of replicas, and the one without.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "plan/replicas.h"
#include "search/search.h"

enum { SHAPES_MAX = 4096 };

struct replica_choice {
    int first, stages;         /* its replicas stand from `first` on */
    double bound_s;            /* with memory enough */
    struct stage_slots *slots; /* per worker, once it has been lowered */
};

struct choices {
    const struct search *search;
    const struct planner_problem *problem;
    const struct search_choice *choice;
    struct replica_choice list[SHAPES_MAX];
    int count;
    int *replicas; /* of all shapes, one after the other */
    int stages_max;
    bool all; /* every choice is in the list */
    int *last, *best_last;
};

/* ------------------------------------------------------------------- which there are */

static double choose(int n, int k) { return k == 0 ? 1 : choose(n - 1, k - 1) * n / k; }

/* How many stages a choice may have so that there are few enough of them. */
static int find_stages(int workers) {
    double sum = 0;
    for (int stages = 1; stages <= workers; stages++) {
        for (int used = stages; used <= workers; used++) sum += choose(used - 1, stages - 1);
        if (sum > SHAPES_MAX / 2) return stages - 1;
    }
    return workers;
}

static void add(struct choices *shapes, const int *replicas, int stages) {
    if (shapes->count == SHAPES_MAX || stages > shapes->problem->costs->layer_count) return;
    int first = shapes->count * shapes->problem->workers;
    memcpy(shapes->replicas + first, replicas, (size_t)stages * sizeof *replicas);
    shapes->list[shapes->count++] = (struct replica_choice){.first = first, .stages = stages};
}

/* All ways to go on behind the stages that are there. */
static void list(struct choices *shapes, int *replicas, int stages, int used) {
    int workers = shapes->problem->workers, most = shapes->problem->replicas_max > 0 ? shapes->problem->replicas_max : workers;
    if (stages > 0) add(shapes, replicas, stages);
    if (stages == shapes->stages_max) return;
    for (int r = 1; r <= most && used + r <= workers; r++) {
        replicas[stages] = r;
        list(shapes, replicas, stages + 1, used + r);
    }
}

static void list_even(struct choices *shapes, int *replicas) {
    int workers = shapes->problem->workers, most = shapes->problem->replicas_max > 0 ? shapes->problem->replicas_max : workers;
    for (int r = 1; r <= most; r++) {
        int stages = workers / r;
        for (int s = 0; s < stages; s++) replicas[s] = r;
        if (stages > shapes->stages_max) add(shapes, replicas, stages);
    }
}

static struct replica_shape open_shape(const struct choices *shapes, const struct replica_choice *shape, bool memory) {
    return (struct replica_shape){.problem = shapes->problem,
                                  .stages = shape->stages,
                                  .replicas = shapes->replicas + shape->first,
                                  .slots = memory ? shape->slots : NULL};
}

static int compare_bounds(const void *a, const void *b) {
    double x = ((const struct replica_choice *)a)->bound_s, y = ((const struct replica_choice *)b)->bound_s;
    return (x > y) - (x < y);
}

static enum ps_status list_shapes(struct choices *shapes, struct ps_error *error) {
    shapes->stages_max = find_stages(shapes->problem->workers);
    shapes->all = shapes->stages_max == shapes->problem->workers;
    list(shapes, shapes->last, 0, 0);
    list_even(shapes, shapes->last);
    for (int s = 0; s < shapes->count; s++) {
        struct replica_shape open = open_shape(shapes, &shapes->list[s], false);
        TRY(replicas_cut(&open, REPLICAS_LEAST_TIME, shapes->last, &shapes->list[s].bound_s, error));
    }
    qsort(shapes->list, (size_t)shapes->count, sizeof *shapes->list, compare_bounds);
    return PS_OK;
}

/* ------------------------------------------------------------------- what they hold */

static enum ps_status lower_shape(const struct choices *shapes, const struct replica_choice *shape,
                                  struct ps_programs **programs, struct ps_error *error) {
    struct ps_plan *plan;
    int *workers = shapes->last; /* scratch */
    TRY(plan_create(shapes->problem->workers, shape->stages, &plan, error));
    snprintf(plan->schedule, sizeof plan->schedule, "%s", shapes->choice->schedule->name);
    snprintf(plan->weights, sizeof plan->weights, "%s", shapes->choice->policy->name);
    plan->micro_batches = shapes->choice->micro_batches;
    plan->tied = cost_table_tied(shapes->problem->costs);
    enum ps_status status = PS_OK;
    for (int s = 0, worker = 0; s < shape->stages && status == PS_OK; s++) {
        int count = shapes->replicas[shape->first + s];
        for (int r = 0; r < count; r++) workers[r] = worker++;
        status = plan_stage_workers(plan, s, workers, count, workers, count, error);
        plan->stages[s].first = plan->stages[s].last = s;
    }
    if (status == PS_OK) status = lower_plan(plan, simulate_plan_batches(plan), programs, error);
    ps_plan_destroy(plan);
    return status;
}

/* Fills the shape's slots; *runs is false where the schedule or the policy has no programs for it. */
static enum ps_status find_slots(const struct choices *shapes, struct replica_choice *shape, bool *runs,
                                 struct ps_error *error) {
    struct ps_programs *programs;
    struct ps_error refusal = {0};
    *runs = true;
    if (!shapes->problem->slots || shape->slots) return PS_OK;
    enum ps_status status = lower_shape(shapes, shape, &programs, &refusal);
    *runs = status == PS_OK;
    if (status == PS_USAGE) return PS_OK;
    if (status != PS_OK) {
        if (error) *error = refusal;
        return status;
    }
    shape->slots = calloc((size_t)shapes->problem->workers, sizeof *shape->slots);
    for (int p = 0; shape->slots && p < programs->instance_count; p++)
        shape->slots[programs->instances[p].worker] = programs->slots[p];
    ps_programs_destroy(programs);
    return shape->slots ? PS_OK : error_memory(error, "a search", sizeof *shape->slots);
}

/* The best shape for a goal; NULL: none has a cut. */
static enum ps_status find_best(struct choices *shapes, enum replica_goal goal, const struct replica_choice **best,
                                double *value, struct ps_error *error) {
    *best = NULL;
    *value = INFINITY;
    for (int s = 0; s < shapes->count; s++) {
        struct replica_choice *shape = &shapes->list[s];
        double found;
        bool runs;
        if (goal == REPLICAS_LEAST_TIME && shape->bound_s >= *value) break;
        TRY(find_slots(shapes, shape, &runs, error));
        if (!runs) continue;
        struct replica_shape open = open_shape(shapes, shape, true);
        TRY(replicas_cut(&open, goal, shapes->last, &found, error));
        if (found >= *value) continue;
        *value = found;
        *best = shape;
        memcpy(shapes->best_last, shapes->last, (size_t)shape->stages * sizeof *shapes->last);
    }
    return PS_OK;
}

/* ------------------------------------------------------------------- the answer */

static enum ps_status write_answer(const struct choices *shapes, const struct replica_choice *best,
                                   struct planner_answer *answer, struct ps_error *error) {
    answer->stages = calloc((size_t)best->stages, sizeof *answer->stages);
    if (!answer->stages) return error_memory(error, "a plan", (size_t)best->stages * sizeof *answer->stages);
    for (int worker = 0; answer->stage_count < best->stages; answer->stage_count++) {
        int s = answer->stage_count, replicas = shapes->replicas[best->first + s];
        answer->stages[s] = (struct planned_stage){.first = partition_first(shapes->best_last, s),
                                                   .last = shapes->best_last[s],
                                                   .forward = worker,
                                                   .backward = worker,
                                                   .replicas = replicas};
        worker += replicas;
    }
    return PS_OK;
}

/* Of the choice and the cut that come closest to what there is, the worker that needs too much. */
static enum ps_status refuse(struct choices *shapes, struct ps_error *error) {
    const struct replica_choice *best;
    const struct planner_problem *problem = shapes->problem;
    double value, most = 0;
    int worst = 0, worst_stage = 0, worker = 0;
    int64_t needed = 0;
    TRY(find_best(shapes, REPLICAS_LEAST_MEMORY, &best, &value, error));
    if (!best) return error_set(error, PS_NO_PLAN, "no choice of replicas has programs on %d workers", problem->workers);
    for (int s = 0; s < best->stages; s++)
        for (int r = 0; r < shapes->replicas[best->first + s]; r++, worker++) {
            const struct cluster_device *device = &problem->cluster->devices[worker];
            int first = partition_first(shapes->best_last, s);
            struct stage_cost cost = stage_cost(cost_table_on(problem->costs, device->type), first, shapes->best_last[s]);
            struct worker_memory memory = stage_memory(&cost.size, &best->slots[worker], problem->moments);
            int64_t total = worker_memory_total(&memory);
            if (device->memory_bytes == 0 || (double)total / (double)device->memory_bytes <= most) continue;
            most = (double)total / (double)device->memory_bytes;
            needed = total;
            worst = worker;
            worst_stage = s;
        }
    char needs[32], has[32], more[32] = "";
    int first = worst_stage > 0 ? shapes->best_last[worst_stage - 1] : -1, last = shapes->best_last[worst_stage];
    int replicas = shapes->replicas[best->first + worst_stage];
    if (replicas > 1) snprintf(more, sizeof more, " with %d replicas", replicas);
    return error_set(error, PS_NO_PLAN, "stage %d (layers %d to %d, '%s' to '%s')%s needs %s, but worker %d has %s",
                     worst_stage, first + 2, last + 1, problem->costs->layers[first + 1].name,
                     problem->costs->layers[last].name, more, text_bytes(needed, needs), worst,
                     text_bytes(problem->cluster->devices[worst].memory_bytes, has));
}

enum ps_status search_replica_shapes(const struct search *search, const struct planner_problem *problem,
                                     const struct search_choice *choice, struct planner_answer *answer,
                                     struct ps_error *error) {
    size_t workers = (size_t)problem->workers;
    struct choices *shapes = calloc(1, sizeof *shapes);
    int *scratch = calloc((SHAPES_MAX + 2) * workers, sizeof *scratch);
    const struct replica_choice *best;
    double value;
    enum ps_status status = PS_OK;
    if (!shapes || !scratch) {
        status = error_memory(error, "a search", (SHAPES_MAX + 2) * workers * sizeof *scratch);
        goto out;
    }
    *shapes = (struct choices){.search = search,
                               .problem = problem,
                               .choice = choice,
                               .last = scratch,
                               .best_last = scratch + workers,
                               .replicas = scratch + 2 * workers};
    TRY_OUT(list_shapes(shapes, error));
    TRY_OUT(find_best(shapes, REPLICAS_LEAST_TIME, &best, &value, error));
    if (!best) {
        status = refuse(shapes, error);
        goto out;
    }
    TRY_OUT(write_answer(shapes, best, answer, error));
    answer->objective_s = value;
    if (shapes->all && !problem->graph) answer->lower_bound_s = value;
out:
    for (int s = 0; shapes && s < shapes->count; s++) free(shapes->list[s].slots);
    free(scratch);
    free(shapes);
    return status;
}
