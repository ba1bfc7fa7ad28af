/*
 * Stages with replicas, one choice of their numbers after the other. The memory of a worker depends on the replicas of its own
 * stage and of all later ones, and is counted in the programs. So each choice is lowered, and then cut exactly with the memory
 * of each worker (cut_stages). Choices are tried in the order of their objective without memory limits, until no further one
 * can be better than the best.
 *
 * W workers have 2^W - 1 choices. If these are too many, only choices with few stages, choices with equal numbers of replicas,
 * and the one without replicas are tried.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/number.h"
#include "base/text.h"
#include "plan/planner.h"
#include "search/search.h"

/*
 * Cuts a chain into stages with given numbers of replicas: what planners/pipedream.c decides together with the replicas, for
 * one choice of them. Since the workers of a stage are known, it counts each worker's own device type, memory and links, which
 * the sweeps over all choices cannot.
 */

/* Stage s has replicas[s] workers, after the workers of the previous stages. */
struct replica_shape {
    const struct planner_problem *problem; /* its slots are not used */
    int stages;
    const int *replicas;
    const struct stage_slots *slots; /* per worker; NULL: memory is not limited */
};

enum replica_goal {
    REPLICAS_LEAST_TIME,  /* seconds per micro-batch, with the costs of planners/pipedream.c; INFINITY: nothing fits */
    REPLICAS_LEAST_MEMORY /* the largest share of its memory that a worker needs */
};

/*
 * Cutting a chain for given replicas, exactly: best[s][l] is the least figure of the stages 0..s that hold the layers 0..l, as
 * in partitioners/pipedream.c. A stage's workers may be of several types, so it is walked on each type's costs.
 */

/* A worker of a stage, and all others that compute as long and need as much. */
struct replica {
    int worker, type; /* the type is an index in the stage's `costs` */
    double share;     /* of the micro-batches */
};

struct stage {
    const struct replica_shape *shape;
    int first_worker, replicas, types, kinds;
    double updates; /* per micro-batch */
    struct planner_ring ring;
    const struct cost_table **costs; /* of each type among its workers */
    struct replica *kind;            /* of its workers, one of each kind */
    struct stage_walk *walks;        /* on each type */
};

struct cuts {
    const struct replica_shape *shape;
    enum replica_goal goal;
    int layers;
    struct stage *stages;
    double *link_s;       /* [stage][layer]: the busiest link across the cut after the stage, per micro-batch */
    double *own_s;        /* without overlap, [stage][layer]: the least time that each worker of the stage spends on the cut */
    double *own_before_s; /* likewise, of each worker of the next stage */
    double *best;         /* [stage][layer] */
    int *first;           /* likewise */
};

/* The share of micro-batches that go from replica a of r to replica b of q. */
static double meetings(const struct planner_problem *problem, int a, int r, int b, int q) {
    int divisor = number_common_divisor(r, q), together = r / divisor * q, met = 0;
    if ((a - b) % divisor != 0) return 0;
    if (!problem->flush) return 1.0 / together;
    for (int k = a; k < problem->micro_batches; k += r) met += k % q == b;
    return (double)met / problem->micro_batches;
}

/* ------------------------------------------------------------------- what is counted */

static bool same_kind(const struct replica_shape *shape, const struct replica *a, const struct replica *b) {
    const struct cluster_device *devices = shape->problem->cluster->devices;
    const struct stage_slots *slots = shape->slots;
    return a->type == b->type && a->share == b->share && devices[a->worker].speed == devices[b->worker].speed &&
           devices[a->worker].memory_bytes == devices[b->worker].memory_bytes &&
           (!slots || memcmp(&slots[a->worker], &slots[b->worker], sizeof *slots) == 0);
}

static void open_stage(struct stage *stage) {
    const struct replica_shape *shape = stage->shape;
    stage->updates = planner_updates(shape->problem, stage->replicas);
    stage->ring = planner_ring(shape->problem, stage->first_worker, stage->replicas);
    for (int r = 0; r < stage->replicas; r++) {
        const int worker = stage->first_worker + r;
        const struct cost_table *costs = cost_table_on(shape->problem->costs, shape->problem->cluster->devices[worker].type);
        int t = 0, k = 0;
        while (t < stage->types && stage->costs[t] != costs) t++;
        stage->costs[t] = costs;
        if (t == stage->types) stage->types++;
        const struct replica replica = {worker, t, meetings(shape->problem, r, stage->replicas, 0, 1)};
        while (k < stage->kinds && !same_kind(shape, &stage->kind[k], &replica)) k++;
        if (k == stage->kinds) stage->kind[stage->kinds++] = replica;
    }
}

static void walk_start(struct stage *stage, int last) {
    for (int t = 0; t < stage->types; t++) stage->walks[t] = stage_walk_start(stage->costs[t], last);
}

static void walk_grow(struct stage *stage) {
    for (int t = 0; t < stage->types; t++) stage_walk_grow(&stage->walks[t]);
}

/* Computations, updates and sums of the slowest worker per micro-batch; never falls as the stage grows. */
static double walk_s(const struct stage *stage) {
    double most_s = 0, bytes = (double)(stage->walks[0].parameter_bytes + stage->walks[0].statistics_bytes);
    const struct ps_cluster *cluster = stage->shape->problem->cluster;
    for (int k = 0; k < stage->kinds; k++) {
        const struct replica *replica = &stage->kind[k];
        struct layer_times time = stage_walk_times(&stage->walks[replica->type]);
        double work_s = replica->share * (time.forward_s + time.backward_input_s + time.backward_weight_s);
        most_s = fmax(most_s, (work_s + stage->updates * time.update_s) / cluster->devices[replica->worker].speed);
    }
    double sum_s = stage->ring.fixed_s + stage->ring.byte_s * bytes; /* with equal links; otherwise it is not linear */
    if (cluster->link_count > 1) sum_s = cluster_ring_s(cluster, stage->first_worker, stage->replicas, (int64_t)bytes);
    return most_s + (bytes > 0 ? stage->updates * sum_s : 0);
}

/* The largest share of its memory that a worker needs; above 1 if the stage does not fit. */
static double walk_share(const struct stage *stage) {
    const struct replica_shape *shape = stage->shape;
    double most = 0;
    for (int k = 0; k < stage->kinds && shape->slots; k++) {
        const struct replica *replica = &stage->kind[k];
        const struct cluster_device *device = &shape->problem->cluster->devices[replica->worker];
        if (device->memory_bytes == 0) continue;
        struct stage_cost cost = stage_walk_cost(&stage->walks[replica->type]);
        struct worker_memory memory = stage_memory(&cost.size, &shape->slots[replica->worker], shape->problem->moments);
        most = fmax(most, (double)worker_memory_total(&memory) / (double)device->memory_bytes);
    }
    return most;
}

/* Costs of the cut after `layer`, at the end of `stage`. */
static void count_cut(struct cuts *cuts, int stage, int layer) {
    const struct planner_problem *problem = cuts->shape->problem;
    const struct stage *low = &cuts->stages[stage], *high = &cuts->stages[stage + 1];
    int64_t bytes = problem->costs->layers[layer].size.output_bytes;
    size_t place = (size_t)stage * (size_t)cuts->layers + (size_t)layer;
    const int divisor = number_common_divisor(low->replicas, high->replicas); /* only pairs with the same rest meet */
    const bool alike = cluster_links_alike(problem->cluster) && !problem->flush;
    for (int side = 0; side < 2 && problem->cluster->link_count > 0; side++) {
        const struct stage *here = side ? high : low, *there = side ? low : high;
        for (int a = 0; a < (alike ? 1 : here->replicas); a++) {
            double own_s = 0;
            for (int b = a % divisor; b < there->replicas; b += divisor) {
                int from = here->first_worker + a, to = there->first_worker + b;
                double share = meetings(problem, a, here->replicas, b, there->replicas);
                double onward_s = share * cluster_transfer_s(problem->cluster, from, to, bytes);
                double back_s = share * cluster_transfer_s(problem->cluster, to, from, bytes);
                const struct cluster_link *link = cluster_link_between(problem->cluster, from, to);
                own_s += onward_s + back_s;
                cuts->link_s[place] = fmax(cuts->link_s[place], link && link->half_duplex ? onward_s + back_s : onward_s);
            }
            double *own = side ? &cuts->own_before_s[place] : &cuts->own_s[place];
            *own = a > 0 ? fmin(*own, own_s) : own_s;
        }
    }
}

/* ------------------------------------------------------------------- the best cut */

/* Tries the walk's layers; false if a stage that begins earlier cannot be better. */
static bool try_stage(struct cuts *cuts, int number, int last) {
    struct stage *stage = &cuts->stages[number];
    int first = stage->walks[0].first, stages = cuts->shape->stages;
    size_t row = (size_t)number * (size_t)cuts->layers, place = row + (size_t)last;
    double value = 0;
    if (cuts->goal == REPLICAS_LEAST_TIME) {
        value = walk_s(stage);
        if (value >= cuts->best[place]) return false;
        bool overlap = cuts->shape->problem->cluster->overlap;
        if (number < stages - 1) value = overlap ? fmax(value, cuts->link_s[place]) : value + cuts->own_s[place];
        if (number > 0 && !overlap) value += cuts->own_before_s[row - (size_t)cuts->layers + (size_t)first - 1];
    }
    if (number > 0) value = fmax(value, cuts->best[row - (size_t)cuts->layers + (size_t)first - 1]);
    if (value >= cuts->best[place]) return true;
    double share = walk_share(stage);
    if (cuts->goal == REPLICAS_LEAST_TIME && share > 1) return true;
    if (cuts->goal == REPLICAS_LEAST_MEMORY) value = fmax(value, share);
    if (value >= cuts->best[place]) return true;
    cuts->best[place] = value;
    cuts->first[place] = first;
    return true;
}

static void sweep(struct cuts *cuts) {
    int stages = cuts->shape->stages;
    for (int s = 0; s < stages; s++) {
        int low = s == stages - 1 ? cuts->layers - 1 : s, high = cuts->layers - stages + s;
        for (int last = low; last <= high; last++) {
            int end = s == 0 ? 0 : s;
            walk_start(&cuts->stages[s], last);
            while (cuts->stages[s].walks[0].first > 0 && s == 0) walk_grow(&cuts->stages[s]);
            while (try_stage(cuts, s, last) && cuts->stages[s].walks[0].first > end) walk_grow(&cuts->stages[s]);
        }
    }
}

static void read_cut(const struct cuts *cuts, int *last, double *value) {
    size_t places = (size_t)cuts->shape->stages * (size_t)cuts->layers;
    *value = cuts->best[places - 1];
    for (int s = cuts->shape->stages - 1, l = cuts->layers - 1; s >= 0 && *value < INFINITY; s--) {
        last[s] = l;
        l = cuts->first[(size_t)s * (size_t)cuts->layers + (size_t)l] - 1;
    }
}

static enum ps_status cuts_open(struct cuts *cuts, struct arena *arena, struct ps_error *error) {
    const struct replica_shape *shape = cuts->shape;
    size_t places = (size_t)shape->stages * (size_t)cuts->layers;
    cuts->stages = arena_take(arena, (size_t)shape->stages, sizeof *cuts->stages);
    cuts->best = arena_take(arena, places, sizeof *cuts->best);
    cuts->link_s = arena_take(arena, places, sizeof *cuts->link_s);
    cuts->own_s = arena_take(arena, places, sizeof *cuts->own_s);
    cuts->own_before_s = arena_take(arena, places, sizeof *cuts->own_before_s);
    cuts->first = arena_take(arena, places, sizeof *cuts->first);
    for (int s = 0, worker = 0; cuts->stages && s < shape->stages; worker += shape->replicas[s], s++) {
        size_t replicas = (size_t)shape->replicas[s];
        cuts->stages[s] = (struct stage){.shape = shape,
                                         .first_worker = worker,
                                         .replicas = shape->replicas[s],
                                         .costs = arena_take(arena, replicas, sizeof *cuts->stages->costs),
                                         .kind = arena_take(arena, replicas, sizeof *cuts->stages->kind),
                                         .walks = arena_take(arena, replicas, sizeof *cuts->stages->walks)};
    }
    TRY(arena_check(arena, "the tables of the planner", error));
    for (int s = 0; s < shape->stages; s++) open_stage(&cuts->stages[s]);
    return PS_OK;
}

/* The best cut: fills last[stages] if there is one; else the value is INFINITY. */
static enum ps_status cut_stages(const struct replica_shape *shape, enum replica_goal goal, int *last, double *value,
                                 struct ps_error *error) {
    struct cuts cuts = {.shape = shape, .goal = goal, .layers = shape->problem->costs->layer_count};
    struct arena arena = {0};
    *value = INFINITY;
    if (shape->stages > cuts.layers) return PS_OK;
    TRY(cuts_open(&cuts, &arena, error));
    for (size_t p = 0; p < (size_t)shape->stages * (size_t)cuts.layers; p++) cuts.best[p] = INFINITY;
    for (int s = 0; s + 1 < shape->stages; s++)
        for (int l = 0; l < cuts.layers; l++) count_cut(&cuts, s, l);
    sweep(&cuts);
    read_cut(&cuts, last, value);
    arena_release(&arena);
    return PS_OK;
}

enum { SHAPES_MAX = 4096 };

struct replica_choice {
    int first, stages;         /* its replicas begin at `first` */
    double bound_s;            /* without memory limits */
    struct stage_slots *slots; /* per worker, once it has been lowered */
};

struct choices {
    struct arena arena; /* of the slots of each */
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

/* The largest number of stages for which there are few enough choices. */
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

/* Lists all continuations after the given stages. */
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
        TRY(cut_stages(&open, REPLICAS_LEAST_TIME, shapes->last, &shapes->list[s].bound_s, error));
    }
    qsort(shapes->list, (size_t)shapes->count, sizeof *shapes->list, compare_bounds);
    return PS_OK;
}

/* ------------------------------------------------------------------- what they hold */

static enum ps_status lower_shape(const struct choices *shapes, const struct replica_choice *shape,
                                  struct ps_programs **programs, struct ps_error *error) {
    struct ps_plan *plan;
    int *workers = shapes->last; /* scratch */
    TRY(search_plan_create(shapes->search, shapes->choice, shapes->problem->costs, "", shapes->problem->workers, shape->stages,
                           &plan, error));
    enum ps_status status = PS_OK;
    plan->ties.count = 0; /* no layers are cut yet */
    for (int s = 0, worker = 0; s < shape->stages && status == PS_OK; s++) {
        int count = shapes->replicas[shape->first + s];
        for (int r = 0; r < count; r++) workers[r] = worker++;
        status = plan_stage_workers(plan, s, workers, count, workers, count, error);
    }
    if (status == PS_OK) status = lower_plan(plan, simulate_plan_batches(plan), programs, error);
    ps_plan_destroy(plan);
    return status;
}

/* Fills the shape's slots; *runs is false if the schedule or the policy does not support it. */
static enum ps_status find_slots(struct choices *shapes, struct replica_choice *shape, bool *runs, struct ps_error *error) {
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
    shape->slots = arena_take(&shapes->arena, (size_t)shapes->problem->workers, sizeof *shape->slots);
    status = arena_check(&shapes->arena, "a search", error);
    for (int p = 0; status == PS_OK && p < programs->instance_count; p++)
        shape->slots[programs->instances[p].worker] = programs->slots[p];
    ps_programs_destroy(programs);
    return status;
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
        log_progress("planning", s, shapes->count, "%d stage%s on %d workers", shape->stages, text_plural(shape->stages),
                     shapes->problem->workers);
        TRY(find_slots(shapes, shape, &runs, error));
        if (!runs) continue;
        struct replica_shape open = open_shape(shapes, shape, true);
        TRY(cut_stages(&open, goal, shapes->last, &found, error));
        if (found >= *value) continue;
        *value = found;
        *best = shape;
        memcpy(shapes->best_last, shapes->last, (size_t)shape->stages * sizeof *shapes->last);
    }
    log_progress("planning", 1, 1, "%s", "");
    return PS_OK;
}

/* ------------------------------------------------------------------- the answer */

static enum ps_status write_answer(const struct choices *shapes, const struct replica_choice *best,
                                   struct planner_answer *answer, struct ps_error *error) {
    answer->stages = arena_take(&answer->arena, (size_t)best->stages, sizeof *answer->stages);
    TRY(arena_check(&answer->arena, "a plan", error));
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

/* Names the worker that needs too much, of the choice and the cut that come closest to fitting. */
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
                     worst_stage, cost_table_first(problem->costs, first + 1) + 1, cost_table_last(problem->costs, last) + 1,
                     cost_table_first_name(problem->costs, first + 1), cost_table_last_name(problem->costs, last), more,
                     text_bytes(needed, needs), worst, text_bytes(problem->cluster->devices[worst].memory_bytes, has));
}

enum ps_status search_replica_shapes(const struct search *search, const struct planner_problem *problem,
                                     const struct search_choice *choice, struct planner_answer *answer,
                                     struct ps_error *error) {
    size_t workers = (size_t)problem->workers;
    struct arena arena = {0};
    struct choices *shapes = arena_take(&arena, 1, sizeof *shapes);
    int *last = arena_take(&arena, workers, sizeof *last), *best_last = arena_take(&arena, workers, sizeof *best_last);
    int *replicas = arena_take(&arena, SHAPES_MAX * workers, sizeof *replicas);
    const struct replica_choice *best;
    double value;
    TRY(arena_check(&arena, "a search", error));
    enum ps_status status;
    *shapes = (struct choices){
        .search = search, .problem = problem, .choice = choice, .last = last, .best_last = best_last, .replicas = replicas};
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
    arena_release(&shapes->arena);
    arena_release(&arena);
    return status;
}
