/*
 * Bi-Partition over the best order of heterogeneous workers, for few kinds of devices. Every distinct order is planned exactly
 * (bipartition.c) and the shortest period wins. Links must be equal, so that only the order of the kinds counts: n workers of
 * two kinds have at most n over n/2 orders, 70 for eight. Workers of one kind keep their order, also where a search
 * leaves memory of some of them free.
 */
#include <math.h>
#include <string.h>

#include "plan/planner.h"

enum { ORDERS_MAX = 5000 };

extern const struct planner planner_bipartition;

struct orders {
    const struct planner_problem *problem;
    struct planner_answer *best;
    int *kind;   /* per worker: the first like it */
    int *chosen; /* per position: a worker */
    bool *used;
    struct ps_error *refusal; /* the first of an order */
};

static bool alike(const struct cluster_device *a, const struct cluster_device *b) {
    return a->speed == b->speed && a->memory_bytes == b->memory_bytes && strcmp(a->type, b->type) == 0;
}

/* Plans for the chosen order, and keeps its answer if it is the best. */
static enum ps_status try_order(struct orders *orders, struct cluster_device *devices, struct ps_error *error) {
    struct planner_problem problem = *orders->problem;
    struct ps_cluster cluster = *problem.cluster;
    struct planner_answer answer = {0};
    struct ps_error said = {0};
    for (int k = 0; k < problem.workers; k++) devices[k] = problem.cluster->devices[orders->chosen[k]];
    cluster.devices = devices;
    problem.cluster = &cluster;
    enum ps_status status = planner_bipartition.solve(&problem, &answer, &said);
    if (orders->refusal->status == PS_OK) *orders->refusal = said;
    if (status == PS_OK && (!orders->best->stages || answer.objective_s < orders->best->objective_s)) {
        for (int s = 0; s < answer.stage_count; s++) {
            answer.stages[s].forward = orders->chosen[answer.stages[s].forward];
            answer.stages[s].backward = orders->chosen[answer.stages[s].backward];
        }
        planner_answer_free(orders->best);
        *orders->best = answer;
        answer = (struct planner_answer){0};
    }
    planner_answer_free(&answer);
    if (status == PS_OK || status == PS_NO_PLAN) return PS_OK;
    if (error) *error = said;
    return status;
}

/* Among equal workers only the first free one is tried. */
static enum ps_status try_orders(struct orders *orders, int place, struct cluster_device *devices, struct ps_error *error) {
    int workers = orders->problem->workers;
    if (place == workers) return try_order(orders, devices, error);
    for (int w = 0; w < workers; w++) {
        bool first = !orders->used[w];
        for (int v = orders->kind[w]; first && v < w; v++) first = orders->kind[v] != orders->kind[w] || orders->used[v];
        if (!first) continue;
        orders->used[w] = true;
        orders->chosen[place] = w;
        TRY(try_orders(orders, place + 1, devices, error));
        orders->used[w] = false;
    }
    return PS_OK;
}

/* Finds the kinds of workers. Returns how many orders they have: the ways to place each worker among those before it, over
 * those to place it among its like. */
static double find_kinds(struct orders *orders, const struct ps_cluster *cluster) {
    double count = 1;
    for (int w = 0; w < orders->problem->workers; w++) {
        int like = 0;
        orders->kind[w] = 0;
        while (!alike(&cluster->devices[orders->kind[w]], &cluster->devices[w])) orders->kind[w]++;
        for (int v = 0; v <= w; v++) like += orders->kind[v] == orders->kind[w];
        count *= (double)(w + 1) / like;
    }
    return round(count);
}

static enum ps_status solve(const struct planner_problem *problem, struct planner_answer *answer, struct ps_error *error) {
    size_t workers = (size_t)problem->workers;
    struct ps_error refusal = {0};
    if (!cluster_links_alike(problem->cluster))
        return error_set(error, PS_USAGE, "bipartition-order requires equal links: one entry from '*' to '*'");
    struct arena arena = {0};
    struct cluster_device *devices = arena_take(&arena, workers, sizeof *devices);
    struct orders orders = {.problem = problem,
                            .best = answer,
                            .kind = arena_take(&arena, workers, sizeof *orders.kind),
                            .chosen = arena_take(&arena, workers, sizeof *orders.chosen),
                            .used = arena_take(&arena, workers, sizeof *orders.used),
                            .refusal = &refusal};
    TRY(arena_check(&arena, "orders of workers", error));
    enum ps_status status = PS_OK;
    if (find_kinds(&orders, problem->described ? problem->described : problem->cluster) > ORDERS_MAX)
        status = error_set(error, PS_USAGE,
                           "bipartition-order: more than %d orders of the workers; it is for few kinds of devices", ORDERS_MAX);
    if (status == PS_OK) status = try_orders(&orders, 0, devices, error);
    arena_release(&arena);
    if (status == PS_OK && !answer->stages) {
        if (error) *error = refusal;
        return PS_NO_PLAN;
    }
    if (status != PS_OK) planner_answer_free(answer);
    return status;
}

extern const struct planner planner_bipartition_order;
const struct planner planner_bipartition_order = {
    .name = "bipartition-order",
    .summary = "bipartition over the best order of few kinds of workers (exact)",
    .several_types = true,
    .contains_chain = true,
    .orders_workers = true,
    .includes_updates = true,
    .solve = solve,
};
