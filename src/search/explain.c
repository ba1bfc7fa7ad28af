/*
 * Why a plan is not faster. Over a period the busiest worker and the busiest link are held against the period: what is busy
 * nearly all of it is the limit. Where neither is, the order of computations leaves gaps: it fills and drains, or waits along
 * the pipeline. Memory limits where the same method finds a smaller objective without the workers' limits.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "program/lower.h"
#include "search/search.h"

/* The share of the period from which on something is its limit. */
#define LIMITING 0.9

static int first_layer(const struct search_best *best, int stage) { return stage > 0 ? best->last[stage - 1] + 1 : 0; }

/* Of all its stages. */
static double worker_share(const struct search *search, const struct search_best *best, int worker) {
    double busy_s = 0;
    for (int s = 0; s < best->stages; s++) {
        if (best->worker[s] != worker) continue;
        struct partition_problem problem = search_case_problem(search, best, s);
        struct stage_cost cost = stage_cost(partition_costs(&problem, s), first_layer(best, s), best->last[s]);
        double load_s = partition_load_s(&problem, s, first_layer(best, s), best->last[s]);
        busy_s += best->chosen.choice.micro_batches * load_s + cost.time.update_s / problem.cluster->devices[worker].speed;
    }
    return busy_s / best->simulation->info.period_s;
}

/* The busier direction of the link after `stage`. */
static double link_share(const struct search *search, const struct search_best *best, int stage) {
    int64_t bytes = best->chosen.costs->layers[best->last[stage]].size.output_bytes;
    int from = best->worker[stage], to = best->worker[stage + 1];
    double onward_s = cluster_transfer_s(search->cluster, from, to, bytes);
    double back_s = cluster_transfer_s(search->cluster, to, from, bytes);
    return best->chosen.choice.micro_batches * (onward_s > back_s ? onward_s : back_s) / best->simulation->info.period_s;
}

/* How much smaller the objective would be without limits of memory; 0: not at all. */
static double memory_gain_s(const struct search *search, const struct search_best *best) {
    struct partition_problem problem = search_case_problem(search, best, 0);
    struct partition partition = {.last = calloc((size_t)problem.stages, sizeof(int))};
    double gain_s = 0;
    problem.slots = NULL;
    problem.recompute = false;
    if (partition.last && search_has_limit(search->cluster, best->chosen.workers) &&
        best->method->solve(&problem, &partition, NULL) == PS_OK)
        gain_s = best->objective_s - partition.objective_s;
    free(partition.last);
    return gain_s > 1e-3 * best->objective_s ? gain_s : 0;
}

void search_explain(const struct search *search, const struct search_best *best, char *text, size_t size) {
    int worker = 0, stage = 0, from = 0, to = 0;
    double most = 0, most_link = 0;
    for (int w = 0; w < best->chosen.workers; w++) {
        double share = worker_share(search, best, w);
        if (share > most) most = share, worker = w;
    }
    for (int s = 0; s + 1 < best->stages; s++) {
        double share = link_share(search, best, s);
        if (share > most_link) most_link = share, from = best->worker[s], to = best->worker[s + 1];
    }
    while (best->worker[stage] != worker) stage++;
    char less[32], now[32], memory[128] = "", busiest[96] = "";
    double gain_s = memory_gain_s(search, best);
    if (gain_s > 0)
        snprintf(memory, sizeof memory, "memory: without a limit the slowest stage would take %s, not %s; then ",
                 text_seconds(best->objective_s - gain_s, less), text_seconds(best->objective_s, now));
    if (most_link > 0)
        snprintf(busiest, sizeof busiest, "; the link between workers %d and %d is busy most, %.0f %%", from, to,
                 100 * most_link);
    if (most_link > most && most_link >= LIMITING)
        snprintf(text, size, "%sthe link between workers %d and %d, which is busy %.0f %% of the time", memory, from, to,
                 100 * most_link);
    else if (most >= LIMITING)
        snprintf(text, size, "%sworker %d (layers %d-%d), which computes %.0f %% of the time", memory, worker,
                 first_layer(best, stage) + 1, best->last[stage] + 1, 100 * most);
    else
        snprintf(text, size, "%s%s: worker %d computes most, %.0f %% of the time%s", memory,
                 best->chosen.choice.schedule->flush ? "the schedule, which fills and drains" : "waiting along the pipeline",
                 worker, 100 * most, busiest);
}
