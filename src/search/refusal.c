/*
 * What a refusal says. Exact planners prove that nothing fits without finding out what is too large; the user is told of a
 * layer that no worker can hold, or of the stage that is furthest from fitting where each worker gets one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "search/search.h"

extern const struct partitioner partitioner_pipedream;

/* What stands in the way of cutting the chain once, a stage for each worker: the stage, what it needs and the limit. */
static bool name_stage(const struct planner_problem *problem, struct ps_error *refusal) {
    struct partition_problem once = {.costs = problem->costs,
                                     .cluster = problem->cluster,
                                     .stages = problem->workers,
                                     .slots = problem->slots,
                                     .moments = problem->moments};
    struct partition partition = {.last = calloc((size_t)problem->workers, sizeof *partition.last)};
    bool named = partition.last && partitioner_pipedream.solve(&once, &partition, refusal) == PS_NO_PLAN &&
                 strstr(refusal->message, "needs ");
    free(partition.last);
    return named;
}

void search_name_need(const struct planner_problem *problem, struct ps_error *error) {
    const struct ps_cluster *cluster = problem->cluster;
    int64_t limit = 0, most = 0, needed = 0, all = 0;
    int layer = 0;
    struct ps_error once = {0};
    char needs[32], has[32], said[sizeof error->message];
    if (!error || !problem->slots || strstr(error->message, "needs ")) return;
    for (int w = 0; w < problem->workers; w++) {
        if (cluster->devices[w].memory_bytes == 0) return;
        if (cluster->devices[w].memory_bytes > limit) limit = cluster->devices[w].memory_bytes;
        all += cluster->devices[w].memory_bytes;
    }
    for (int l = 0; l < problem->costs->layer_count; l++) {
        struct stage_cost cost = stage_cost(problem->costs, l, l);
        struct worker_memory memory = stage_memory(&cost.size, &problem->slots[problem->workers - 1], problem->moments);
        int64_t total = worker_memory_total(&memory);
        if (total > most) most = total, layer = l;
        needed += total;
    }
    snprintf(said, sizeof said, "%s", error->message);
    if (most > limit)
        snprintf(error->message, sizeof error->message,
                 "%.600s: layer %d ('%s') alone needs %s, but no worker has more than %s", said, layer + 1,
                 problem->costs->layers[layer].name, text_bytes(most, needs), text_bytes(limit, has));
    else if (name_stage(problem, &once))
        snprintf(error->message, sizeof error->message, "%.500s: with one stage each, %.400s", said, once.message);
    else
        snprintf(error->message, sizeof error->message, "%.600s: its layers need some %s, and all workers have %s", said,
                 text_bytes(needed, needs), text_bytes(all, has));
}
