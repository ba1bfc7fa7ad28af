/*
 * PipeDream's partition (Narayanan et al., "PipeDream: generalized pipeline parallelism for DNN training", SOSP 2019) without
 * replicas: contiguous stages whose slowest worker or link is as fast as possible, here with memory and heterogeneous workers,
 * counted exactly.
 *
 * best[s][l] is the least objective of the stages 0..s that hold the layers 0..l. A stage's cost and memory depend on its
 * number and its two ends alone, so
 *
 *     best[s][l] = min over first of max(best[s-1][first-1], cost of stage s with layers first..l)      where it fits
 *
 * The load of a stage grows with every layer at its front, so the search for `first` ends when the load alone is no better than
 * the best solution. Solutions are first looked for below a limit not far above an even share of the load, which ends the
 * search early for stages with far too many layers; only if there are none the limit grows. Exact for every memory limit: sizes
 * need not grow with the stage.
 */
#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "plan/partitioner.h"

/* What is minimised: time, or (to explain why nothing fits) the largest share of its memory that a worker needs. */
enum goal { LEAST_TIME, LEAST_MEMORY };

struct search {
    const struct partition_problem *problem;
    enum goal goal;
    int layers, stages;
    double limit; /* of the objective */
    struct place {
        const struct cost_table *costs;
        double speed;
        int64_t memory_bytes; /* 0: no limit */
        double onward_s;      /* transfers across the current cut */
    } * places;               /* per stage */
    double *best;             /* [stage][layer]; the limit: no solution below it */
    int *first;               /* [stage][layer]: where the stage begins in the best solution */
};

/* The share of its memory that the stage needs; above 1 exactly if it does not fit, 0 without a limit. */
static double memory_share(const struct search *search, int stage, const struct stage_walk *walk) {
    const struct partition_problem *problem = search->problem;
    int64_t limit = search->places[stage].memory_bytes;
    if (!problem->slots || limit == 0) return 0;
    struct stage_cost cost = stage_walk_cost(walk);
    struct worker_memory memory = stage_memory(&cost.size, &problem->slots[stage], problem->moments);
    int64_t total = worker_memory_total(&memory);
    double share = (double)total / (double)limit;
    return total <= limit ? fmin(share, 1) : fmax(share, nextafter(1, 2));
}

/* The load of the walk's layers on a worker of speed 1. */
static double walk_load_s(const struct partition_problem *problem, const struct stage_walk *walk) {
    struct layer_times time = stage_walk_times(walk);
    double forward_s = problem->recompute ? 2 * time.forward_s : time.forward_s;
    return forward_s + time.backward_input_s + time.backward_weight_s;
}

/* Tries the walk's layers as stage `stage`; false if stages that begin earlier cannot be better. */
static bool try_stage(struct search *search, int stage, const struct stage_walk *walk, double load_s) {
    const struct partition_problem *problem = search->problem;
    int place = stage * search->layers + walk->last;
    double value = 0;
    if (search->goal == LEAST_TIME) {
        load_s /= search->places[stage].speed;
        if (load_s >= search->best[place]) return false;
        double onward_s = search->places[stage].onward_s;
        double arriving_s =
            stage > 0 && !problem->cluster->overlap ? partition_transfer_s(problem, stage - 1, walk->first - 1) : 0;
        value = problem->cluster->overlap ? fmax(load_s, onward_s) : load_s + onward_s + arriving_s;
    }
    if (stage > 0) value = fmax(value, search->best[(stage - 1) * search->layers + walk->first - 1]);
    if (value >= search->best[place]) return true;
    double share = memory_share(search, stage, walk);
    if (search->goal == LEAST_TIME && share > 1) return true;
    value = search->goal == LEAST_MEMORY ? fmax(value, share) : value;
    if (value >= search->best[place]) return true;
    search->best[place] = value;
    search->first[place] = walk->first;
    return true;
}

/* Tries all stages that end with layer `last` on workers of the device type of `costs`. */
static void try_last(struct search *search, const struct cost_table *costs, int last) {
    const struct partition_problem *problem = search->problem;
    int after = search->layers - 1 - last, low = search->stages - 1 - after, high = last;
    if (low < 0) low = 0;
    if (high > search->stages - 1) high = search->stages - 1;
    if (after > 0 && high == search->stages - 1) high--;
    for (int s = low; s <= high; s++) search->places[s].onward_s = partition_transfer_s(problem, s, last);
    bool open = true;
    for (struct stage_walk walk = stage_walk_start(costs, last);; stage_walk_grow(&walk)) {
        bool still = false;
        double load_s = walk_load_s(problem, &walk);
        for (int s = low > 1 ? low : 1; open && s <= high && s <= walk.first; s++)
            if (search->places[s].costs == costs) still |= try_stage(search, s, &walk, load_s);
        open = still;
        if (walk.first == 0) {
            if (low == 0 && high >= 0 && search->places[0].costs == costs) try_stage(search, 0, &walk, load_s);
            return;
        }
        if (!open && (low > 0 || load_s / search->places[0].speed >= search->limit)) return;
    }
}

/* Returns whether there is a solution below the limit. */
static bool run(struct search *search, enum goal goal, double limit, struct partition *partition) {
    const int places = search->layers * search->stages;
    search->goal = goal;
    search->limit = limit;
    for (int p = 0; p < places; p++) search->best[p] = limit;
    for (int last = 0; last < search->layers; last++)
        for (const struct cost_table *costs = search->problem->costs; costs; costs = costs->other_device)
            try_last(search, costs, last);
    if (search->best[places - 1] >= limit) return false;
    for (int s = search->stages - 1, last = search->layers - 1; s >= 0; s--) {
        partition->last[s] = last;
        last = search->first[s * search->layers + last] - 1;
    }
    return true;
}

/* The largest layer's load and an even share of all layers', on the slowest worker. */
static double usual_load_s(const struct search *search) {
    double largest_s = 0, all_s = 0, speed = INFINITY;
    for (const struct cost_table *costs = search->problem->costs; costs; costs = costs->other_device)
        for (int l = 0; l < search->layers; l++) {
            const struct stage_walk walk = stage_walk_start(costs, l);
            const double load_s = walk_load_s(search->problem, &walk);
            largest_s = fmax(largest_s, load_s);
            all_s += load_s;
        }
    for (int s = 0; s < search->stages; s++) speed = fmin(speed, search->places[s].speed);
    return fmax(largest_s, all_s / search->stages) / speed;
}

static enum ps_status solve(const struct partition_problem *problem, struct partition *partition, struct ps_error *error) {
    struct search search = {.problem = problem, .layers = problem->costs->layer_count, .stages = problem->stages};
    struct arena arena = {0};
    TRY(partition_check_layers(problem, error));
    const size_t stages = (size_t)search.stages, places = (size_t)search.layers * stages;
    search.best = arena_take(&arena, places, sizeof *search.best);
    search.first = arena_take(&arena, places, sizeof *search.first);
    search.places = arena_take(&arena, stages, sizeof *search.places);
    TRY(arena_check(&arena, "the tables of the partition", error));
    for (int s = 0; s < search.stages; s++)
        search.places[s] = (struct place){.costs = partition_costs(problem, s),
                                          .speed = problem->cluster->devices[partition_worker(problem, s)].speed,
                                          .memory_bytes = partition_memory_limit(problem, s)};
    const double usual_s = usual_load_s(&search);
    bool found = false;
    for (double share = 1.1; !found && share < search.stages; share *= 4)
        found = run(&search, LEAST_TIME, share * usual_s, partition);
    if (!found) found = run(&search, LEAST_TIME, INFINITY, partition);
    if (!found) run(&search, LEAST_MEMORY, INFINITY, partition);
    arena_release(&arena);
    if (!found) TRY(partition_check_memory(problem, partition->last, error));
    partition->objective_s = partition->lower_bound_s = partition_objective_s(problem, partition->last);
    return PS_OK;
}

extern const struct partitioner partitioner_pipedream;
const struct partitioner partitioner_pipedream = {
    .name = "pipedream",
    .summary = "contiguous stages whose slowest worker or link is as fast as possible (exact)",
    .leaves_idle = true,
    .solve = solve,
};
