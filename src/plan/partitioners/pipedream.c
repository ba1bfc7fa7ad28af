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
 * the best solution. Exact for every memory limit: sizes need not grow with the stage.
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
    double *best;     /* [stage][layer] */
    double *onward_s; /* per stage: transfers across the current cut */
    int *first;       /* [stage][layer]: where the stage begins in the best solution */
};

/* The share of its memory that the stage needs; above 1 exactly if it does not fit, 0 without a limit. */
static double memory_share(const struct partition_problem *problem, int stage, const struct stage_walk *walk) {
    int64_t limit = partition_memory_limit(problem, stage);
    if (!problem->slots || limit == 0) return 0;
    struct stage_cost cost = stage_walk_cost(walk);
    struct worker_memory memory = stage_memory(&cost.size, &problem->slots[stage], problem->moments);
    int64_t total = worker_memory_total(&memory);
    double share = (double)total / (double)limit;
    return total <= limit ? fmin(share, 1) : fmax(share, nextafter(1, 2));
}

static double walk_load_s(const struct partition_problem *problem, int stage, const struct layer_times *time) {
    double forward_s = problem->recompute ? 2 * time->forward_s : time->forward_s;
    return (forward_s + time->backward_input_s + time->backward_weight_s) /
           problem->cluster->devices[partition_worker(problem, stage)].speed;
}

/* Tries the walk's layers as stage `stage`; false if stages that begin earlier cannot be better. */
static bool try_stage(struct search *search, int stage, const struct stage_walk *walk) {
    const struct partition_problem *problem = search->problem;
    int place = stage * search->layers + walk->last;
    struct layer_times times = stage_walk_times(walk);
    double value = 0, load_s = walk_load_s(problem, stage, &times);
    if (search->goal == LEAST_TIME) {
        if (load_s >= search->best[place]) return false;
        double onward_s = search->onward_s[stage];
        double arriving_s =
            stage > 0 && !problem->cluster->overlap ? partition_transfer_s(problem, stage - 1, walk->first - 1) : 0;
        value = problem->cluster->overlap ? fmax(load_s, onward_s) : load_s + onward_s + arriving_s;
    }
    if (stage > 0) value = fmax(value, search->best[(stage - 1) * search->layers + walk->first - 1]);
    if (value >= search->best[place]) return true;
    double share = memory_share(problem, stage, walk);
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
    for (int s = low; s <= high; s++) search->onward_s[s] = partition_transfer_s(problem, s, last);
    bool open = true;
    for (struct stage_walk walk = stage_walk_start(costs, last);; stage_walk_grow(&walk)) {
        bool still = false;
        for (int s = low > 1 ? low : 1; open && s <= high && s <= walk.first; s++)
            if (partition_costs(problem, s) == costs) still |= try_stage(search, s, &walk);
        open = still;
        if (walk.first == 0) {
            if (low == 0 && high >= 0 && partition_costs(problem, 0) == costs) try_stage(search, 0, &walk);
            return;
        }
        if (!open && low > 0) return;
    }
}

static enum ps_status run(struct search *search, enum goal goal, struct partition *partition, bool *found,
                          struct ps_error *error) {
    size_t places = (size_t)search->layers * (size_t)search->stages;
    struct arena arena = {0};
    search->goal = goal;
    search->best = arena_take(&arena, places, sizeof *search->best);
    search->first = arena_take(&arena, places, sizeof *search->first);
    search->onward_s = arena_take(&arena, (size_t)search->stages, sizeof *search->onward_s);
    TRY(arena_check(&arena, "the tables of the partition", error));
    for (size_t p = 0; p < places; p++) search->best[p] = INFINITY;
    for (int last = 0; last < search->layers; last++)
        for (const struct cost_table *costs = search->problem->costs; costs; costs = costs->other_device)
            try_last(search, costs, last);
    *found = search->best[places - 1] < INFINITY;
    for (int s = search->stages - 1, last = search->layers - 1; *found && s >= 0; s--) {
        partition->last[s] = last;
        last = search->first[s * search->layers + last] - 1;
    }
    arena_release(&arena);
    return PS_OK;
}

static enum ps_status solve(const struct partition_problem *problem, struct partition *partition, struct ps_error *error) {
    struct search search = {.problem = problem, .layers = problem->costs->layer_count, .stages = problem->stages};
    bool found;
    TRY(partition_check_layers(problem, error));
    TRY(run(&search, LEAST_TIME, partition, &found, error));
    if (!found) {
        TRY(run(&search, LEAST_MEMORY, partition, &found, error));
        TRY(partition_check_memory(problem, partition->last, error));
    }
    partition->objective_s = partition->lower_bound_s = partition_objective_s(problem, partition->last);
    return PS_OK;
}

extern const struct partitioner partitioner_pipedream;
const struct partitioner partitioner_pipedream = {
    .name = "pipedream",
    .summary = "contiguous stages whose slowest worker or link is as fast as possible (exact)",
    .solve = solve,
};
