/*
 * Cutting a chain for given replicas, exactly: best[s][l] is the least figure of the stages 0..s that hold the layers 0..l, as
 * in partitioners/pipedream.c. A stage's workers may be of several types, so it is walked on each type's costs.
 */
#include "plan/replicas.h"

#include <math.h>
#include <stdlib.h>

#include "base/number.h"

struct stage {
    const struct replica_shape *shape;
    int first_worker, replicas, types;
    double updates; /* for each micro-batch */
    struct planner_ring ring;
    const struct cost_table **costs; /* of each type that is among its workers */
    double *share;                   /* of the micro-batches, per worker */
    int *type;                       /* of each worker, a place in `costs` */
    struct stage_walk *walks;        /* on each type */
};

struct cuts {
    const struct replica_shape *shape;
    enum replica_goal goal;
    int layers;
    struct stage *stages;
    double *link_s;       /* [stage][layer]: the busiest link across the cut after the stage, for each micro-batch */
    double *own_s;        /* without overlap, [stage][layer]: what each worker of the stage spends at least on the cut */
    double *own_before_s; /* behind it, and each of the stage after on the same cut */
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

static void open_stage(struct stage *stage) {
    const struct ps_cluster *cluster = stage->shape->problem->cluster;
    stage->updates = planner_updates(stage->shape->problem, stage->replicas);
    stage->ring = planner_ring(stage->shape->problem, stage->first_worker, stage->replicas);
    for (int r = 0; r < stage->replicas; r++) {
        const struct cluster_device *device = &cluster->devices[stage->first_worker + r];
        const struct cost_table *costs = cost_table_on(stage->shape->problem->costs, device->type);
        int t = 0;
        while (t < stage->types && stage->costs[t] != costs) t++;
        stage->costs[t] = costs;
        stage->type[r] = t;
        stage->share[r] = meetings(stage->shape->problem, r, stage->replicas, 0, 1);
        if (t == stage->types) stage->types++;
    }
}

static void walk_start(struct stage *stage, int last) {
    for (int t = 0; t < stage->types; t++) stage->walks[t] = stage_walk_start(stage->costs[t], last);
}

static void walk_grow(struct stage *stage) {
    for (int t = 0; t < stage->types; t++) stage_walk_grow(&stage->walks[t]);
}

/* Computations, updates and sums of the slowest worker for a micro-batch; never falls as the stage grows. */
static double walk_s(const struct stage *stage) {
    double most_s = 0, bytes = (double)(stage->walks[0].parameter_bytes + stage->walks[0].statistics_bytes);
    const struct ps_cluster *cluster = stage->shape->problem->cluster;
    for (int r = 0; r < stage->replicas; r++) {
        struct layer_times time = stage_walk_times(&stage->walks[stage->type[r]]);
        double work_s = stage->share[r] * (time.forward_s + time.backward_input_s + time.backward_weight_s);
        most_s = fmax(most_s, (work_s + stage->updates * time.update_s) / cluster->devices[stage->first_worker + r].speed);
    }
    double sum_s = stage->ring.fixed_s + stage->ring.byte_s * bytes; /* of links that are alike; else it is no line */
    if (cluster->link_count > 1) sum_s = cluster_ring_s(cluster, stage->first_worker, stage->replicas, (int64_t)bytes);
    return most_s + (bytes > 0 ? stage->updates * sum_s : 0);
}

/* The largest share of its memory that a worker needs; above 1 exactly where the stage does not fit. */
static double walk_share(const struct stage *stage) {
    const struct replica_shape *shape = stage->shape;
    double most = 0;
    for (int r = 0; r < stage->replicas && shape->slots; r++) {
        int worker = stage->first_worker + r;
        const struct cluster_device *device = &shape->problem->cluster->devices[worker];
        if (device->memory_bytes == 0) continue;
        struct stage_cost cost = stage_walk_cost(&stage->walks[stage->type[r]]);
        struct worker_memory memory = stage_memory(&cost.size, &shape->slots[worker], shape->problem->moments);
        int64_t needed = worker_memory_total(&memory);
        double share = (double)needed / (double)device->memory_bytes;
        most = fmax(most, needed <= device->memory_bytes ? fmin(share, 1) : fmax(share, nextafter(1, 2)));
    }
    return most;
}

/* The cut behind `stage` after `layer`. */
static void count_cut(struct cuts *cuts, int stage, int layer) {
    const struct planner_problem *problem = cuts->shape->problem;
    const struct stage *low = &cuts->stages[stage], *high = &cuts->stages[stage + 1];
    int64_t bytes = problem->costs->layers[layer].size.output_bytes;
    size_t place = (size_t)stage * (size_t)cuts->layers + (size_t)layer;
    for (int side = 0; side < 2; side++) {
        const struct stage *here = side ? high : low, *there = side ? low : high;
        for (int a = 0; a < here->replicas; a++) {
            double own_s = 0;
            for (int b = 0; b < there->replicas; b++) {
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

/* Tries the walk's layers; false where a stage that begins still earlier cannot be better. */
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

/* One block for the figures, one for the workers of all stages. */
static enum ps_status cuts_open(struct cuts *cuts, struct ps_error *error) {
    const struct replica_shape *shape = cuts->shape;
    size_t places = (size_t)shape->stages * (size_t)cuts->layers, workers = 0;
    for (int s = 0; s < shape->stages; s++) workers += (size_t)shape->replicas[s];
    cuts->stages = calloc((size_t)shape->stages, sizeof *cuts->stages);
    cuts->best = calloc(4 * places, sizeof *cuts->best);
    cuts->first = calloc(places, sizeof *cuts->first);
    const struct cost_table **costs = calloc(workers, sizeof *costs);
    double *share = calloc(workers, sizeof *share);
    int *type = calloc(workers, sizeof *type);
    struct stage_walk *walks = calloc(workers, sizeof *walks);
    if (cuts->stages) cuts->stages[0] = (struct stage){.costs = costs, .share = share, .type = type, .walks = walks};
    if (!cuts->stages || !cuts->best || !cuts->first || !costs || !share || !type || !walks) {
        if (!cuts->stages) {
            free(costs);
            free(share);
            free(type);
            free(walks);
        }
        return error_memory(error, "the tables of the planner", 4 * places * sizeof *cuts->best);
    }
    cuts->link_s = cuts->best + places;
    cuts->own_s = cuts->best + 2 * places;
    cuts->own_before_s = cuts->best + 3 * places;
    for (int s = 0, worker = 0; s < shape->stages; worker += shape->replicas[s], s++) {
        cuts->stages[s] = (struct stage){.shape = shape,
                                         .first_worker = worker,
                                         .replicas = shape->replicas[s],
                                         .costs = costs + worker,
                                         .share = share + worker,
                                         .type = type + worker,
                                         .walks = walks + worker};
        open_stage(&cuts->stages[s]);
    }
    return PS_OK;
}

static void cuts_close(struct cuts *cuts) {
    if (cuts->stages) {
        free(cuts->stages[0].costs);
        free(cuts->stages[0].share);
        free(cuts->stages[0].type);
        free(cuts->stages[0].walks);
    }
    free(cuts->stages);
    free(cuts->best);
    free(cuts->first);
}

enum ps_status replicas_cut(const struct replica_shape *shape, enum replica_goal goal, int *last, double *value,
                            struct ps_error *error) {
    struct cuts cuts = {.shape = shape, .goal = goal, .layers = shape->problem->costs->layer_count};
    double found = INFINITY;
    enum ps_status status = PS_OK;
    if (shape->stages <= cuts.layers) {
        status = cuts_open(&cuts, error);
        for (size_t p = 0; status == PS_OK && p < (size_t)shape->stages * (size_t)cuts.layers; p++) cuts.best[p] = INFINITY;
        for (int s = 0; status == PS_OK && s + 1 < shape->stages; s++)
            for (int l = 0; l < cuts.layers; l++) count_cut(&cuts, s, l);
        if (status == PS_OK) {
            sweep(&cuts);
            read_cut(&cuts, last, &found);
        }
        cuts_close(&cuts);
    }
    if (status == PS_OK) *value = found;
    return status;
}
