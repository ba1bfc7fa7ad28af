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

static double worker_share(const struct search *search, const struct search_best *best, int stage) {
    struct partition_problem part = search_case_problem(search, best, stage), *problem = &part;
    struct stage_cost cost = stage_cost(problem->costs, first_layer(best, stage), best->last[stage]);
    double load_s = partition_load_s(problem, stage, first_layer(best, stage), best->last[stage]);
    double update_s = cost.time.update_s / problem->cluster->devices[stage].speed;
    return (best->chosen.choice.micro_batches * load_s + update_s) / best->simulation->info.period_s;
}

/* The busier direction of the link after `stage`. */
static double link_share(const struct search_best *best, const struct partition_problem *problem, int stage) {
    int64_t bytes = problem->costs->layers[best->last[stage]].size.output_bytes;
    double onward_s = cluster_transfer_s(problem->cluster, stage, stage + 1, bytes);
    double back_s = cluster_transfer_s(problem->cluster, stage + 1, stage, bytes);
    return best->chosen.choice.micro_batches * (onward_s > back_s ? onward_s : back_s) / best->simulation->info.period_s;
}

/* How much smaller the objective would be without limits of memory; 0: not at all. */
static double memory_gain_s(const struct search *search, const struct search_best *best) {
    struct partition_problem problem = search_case_problem(search, best, 0);
    struct partition partition = {.last = calloc((size_t)problem.stages, sizeof(int))};
    double gain_s = 0;
    problem.slots = NULL;
    problem.recompute = false;
    if (partition.last && search_has_limit(search->cluster, problem.stages) &&
        best->method->solve(&problem, &partition, NULL) == PS_OK)
        gain_s = best->objective_s - partition.objective_s;
    free(partition.last);
    return gain_s > 1e-3 * best->objective_s ? gain_s : 0;
}

void search_explain(const struct search *search, const struct search_best *best, char *text, size_t size) {
    struct partition_problem problem = search_case_problem(search, best, 0);
    int worker = 0, link = -1;
    double most = 0, most_link = 0;
    for (int s = 0; s < problem.stages; s++) {
        double share = worker_share(search, best, s);
        if (share > most) most = share, worker = s;
        share = s + 1 < problem.stages ? link_share(best, &problem, s) : 0;
        if (share > most_link) most_link = share, link = s;
    }
    char less[32], now[32], memory[128] = "", busiest[96] = "";
    double gain_s = memory_gain_s(search, best);
    if (gain_s > 0)
        snprintf(memory, sizeof memory, "memory: without a limit the slowest stage would take %s, not %s; then ",
                 text_seconds(best->objective_s - gain_s, less), text_seconds(best->objective_s, now));
    if (most_link > 0)
        snprintf(busiest, sizeof busiest, "; the link between workers %d and %d is busy most, %.0f %%", link, link + 1,
                 100 * most_link);
    if (most_link > most && most_link >= LIMITING)
        snprintf(text, size, "%sthe link between workers %d and %d, which is busy %.0f %% of the time", memory, link, link + 1,
                 100 * most_link);
    else if (most >= LIMITING)
        snprintf(text, size, "%sworker %d (layers %d-%d), which computes %.0f %% of the time", memory, worker,
                 first_layer(best, worker) + 1, best->last[worker] + 1, 100 * most);
    else
        snprintf(text, size, "%s%s: worker %d computes most, %.0f %% of the time%s", memory,
                 best->chosen.choice.schedule->flush ? "the schedule, which fills and drains" : "waiting along the pipeline",
                 worker, 100 * most, busiest);
}
