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
        int held = 0;
        for (int r = 0; r < search_replicas(best); r++) held += search_replica_worker(best, s, r) == worker;
        if (held == 0) continue;
        struct partition_problem problem = search_case_problem(search, best, s);
        struct stage_cost cost = stage_cost(partition_costs(&problem, s), first_layer(best, s), best->last[s]);
        double load_s = partition_load_s(&problem, s, first_layer(best, s), best->last[s]) / search_replicas(best);
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

/* The worker and the link that are busiest, by the share of the period. */
struct shares {
    int worker, from, to;
    double most, most_link;
};

/* `memory` and `layers` (those of the worker) are pieces of text. */
static void describe(const struct shares *shares, const char *memory, const char *layers, bool flush, char *text, size_t size) {
    char busiest[96] = "";
    if (shares->most_link > 0)
        snprintf(busiest, sizeof busiest, "; the link between workers %d and %d is busy most, %.0f %%", shares->from, shares->to,
                 100 * shares->most_link);
    if (shares->most_link > shares->most && shares->most_link >= LIMITING)
        snprintf(text, size, "%sthe link between workers %d and %d, which is busy %.0f %% of the time", memory, shares->from,
                 shares->to, 100 * shares->most_link);
    else if (shares->most >= LIMITING)
        snprintf(text, size, "%sworker %d (%s), which computes %.0f %% of the time", memory, shares->worker, layers,
                 100 * shares->most);
    else
        snprintf(text, size, "%s%s: worker %d computes most, %.0f %% of the time%s", memory,
                 flush ? "the schedule, which fills and drains" : "waiting along the pipeline", shares->worker,
                 100 * shares->most, busiest);
}

void search_explain(const struct search *search, const struct search_best *best, char *text, size_t size) {
    struct shares shares = {0};
    int stage = 0;
    for (int w = 0; w < best->chosen.workers; w++) {
        double share = worker_share(search, best, w);
        if (share > shares.most) shares.most = share, shares.worker = w;
    }
    for (int s = 0; s + 1 < best->stages; s++) {
        double share = link_share(search, best, s);
        if (share > shares.most_link) shares.most_link = share, shares.from = best->worker[s], shares.to = best->worker[s + 1];
    }
    while (best->worker[stage] != shares.worker) stage++;
    char less[32], now[32], memory[128] = "", layers[48];
    double gain_s = memory_gain_s(search, best);
    if (gain_s > 0)
        snprintf(memory, sizeof memory, "memory: without a limit the slowest stage would take %s, not %s; then ",
                 text_seconds(best->objective_s - gain_s, less), text_seconds(best->objective_s, now));
    snprintf(layers, sizeof layers, "layers %d-%d", first_layer(best, stage) + 1, best->last[stage] + 1);
    describe(&shares, memory, layers, best->chosen.choice.schedule->flush, text, size);
}

/* The largest share of the period that one direction between two workers is busy with all cuts that it serves. */
static void find_link(const struct ps_plan *plan, const struct cost_table *costs, const struct ps_cluster *cluster,
                      struct shares *shares) {
    for (int s = 0; s + 1 < plan->stage_count; s++)
        for (int back = 0; back < 2; back++) {
            int from = plan->stages[s + back].forward[0], to = plan->stages[s + 1 - back].forward[0];
            double busy_s = 0;
            for (int t = 0; t + 1 < plan->stage_count; t++) {
                int64_t bytes = costs->layers[plan->stages[t].last].size.output_bytes;
                int low = plan->stages[t].forward[0], high = plan->stages[t + 1].forward[0];
                if ((low == from && high == to) || (low == to && high == from)) busy_s += cluster_transfer_s(cluster, from, to, bytes);
            }
            double share = plan->micro_batches * busy_s / plan->predicted.period_s;
            if (share > shares->most_link) shares->most_link = share, shares->from = from, shares->to = to;
        }
}

void search_explain_plan(const struct search *search, const struct cost_table *costs, bool flush, struct ps_plan *plan) {
    struct plan_prediction *predicted = &plan->predicted;
    struct shares shares = {0};
    char memory[128] = "", layers[96];
    double fullest = 0;
    int stages = 0, fullest_worker = 0, first = 0;
    for (int w = 0; w < plan->workers; w++) {
        double share = plan->micro_batches * predicted->load_s[w] / predicted->period_s;
        int64_t limit = search->cluster->devices[w].memory_bytes;
        double full = limit > 0 ? (double)worker_memory_total(&predicted->memory[w]) / (double)limit : 0;
        if (share > shares.most) shares.most = share, shares.worker = w;
        if (full > fullest) fullest = full, fullest_worker = w;
    }
    find_link(plan, costs, search->cluster, &shares);
    for (int s = plan->stage_count - 1; s >= 0; s--) {
        if (plan->stages[s].forward[0] != shares.worker) continue;
        stages++;
        first = s;
    }
    if (stages > 1)
        snprintf(layers, sizeof layers, "%d stages", stages);
    else
        snprintf(layers, sizeof layers, "layers %d-%d", plan->stages[first].first + 1, plan->stages[first].last + 1);
    if (fullest >= LIMITING && shares.most < LIMITING && shares.most_link < LIMITING)
        snprintf(memory, sizeof memory, "memory, of which worker %d uses %.0f %%: ", fullest_worker, 100 * fullest);
    describe(&shares, memory, layers, flush, predicted->limit, sizeof predicted->limit);
}
