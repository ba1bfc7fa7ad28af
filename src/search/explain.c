/*
 * The reason why a plan is not faster. The busy times of the busiest worker and the busiest link of its simulation are compared
 * with the period: one that is busy nearly all the time is the limit. If neither is, the order of computations has gaps: the
 * worker waits for transfers, during fill and drain, or for other stages, and the most frequent of these of the busiest worker
 * is reported. Memory is a limit if the same method finds a smaller objective without memory limits, or if nothing else is and
 * a worker is full.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/text.h"
#include "search/search.h"

/* From this share of the period, or of the memory, on something is a limit. */
#define LIMITING 0.9

/* The busiest worker and the busiest link, by the share of the period. */
struct shares {
    int worker, from, to;
    double most, most_link;
    double transfers, order; /* of the worker: waiting for transfers; waiting because of the order of computations */
};

/* `memory` and `layers` (of the worker) are pieces of text. */
static void describe(const struct shares *shares, const char *memory, const char *layers, bool flush, char *text, size_t size) {
    char busiest[96] = "";
    if (shares->most_link > 0)
        number_print(busiest, sizeof busiest, "; the link between workers %d and %d is busy most, %.0f %%", shares->from,
                     shares->to, 100 * shares->most_link);
    if (shares->most_link > shares->most && shares->most_link >= LIMITING)
        number_print(text, size, "%sthe link between workers %d and %d, which is busy %.0f %% of the time", memory,
                     shares->from, shares->to, 100 * shares->most_link);
    else if (shares->most >= LIMITING)
        number_print(text, size, "%sworker %d (%s), which computes %.0f %% of the time", memory, shares->worker, layers,
                     100 * shares->most);
    else
        number_print(text, size, "%s%s: worker %d computes most, %.0f %% of the time%s", memory,
                     shares->transfers > shares->order ? "waiting for transfers"
                     : flush                           ? "the schedule, which fills and drains"
                                                       : "waiting along the pipeline",
                     shares->worker, 100 * shares->most, busiest);
}

static struct shares find_shares(const struct ps_simulation *simulation) {
    double whole_s = simulation->info.period_s * simulation->info.batches;
    struct shares shares = {
        .from = simulation->link.from, .to = simulation->link.to, .most_link = simulation->link.busy_s / whole_s};
    for (int w = 0; w < simulation->info.workers; w++) {
        double share = simulation->worker[w].busy_s / whole_s;
        if (share > shares.most) shares.most = share, shares.worker = w;
    }
    const struct ps_simulation_worker *busiest = &simulation->worker[shares.worker];
    shares.transfers = busiest->idle_communication_s / whole_s;
    shares.order = (busiest->idle_fill_drain_s + busiest->idle_dependency_s) / whole_s;
    return shares;
}

static void describe_layers(const struct cost_table *costs, const struct ps_plan *plan, int worker, char *text, size_t size) {
    int stages = 0, first = 0, last = 0;
    for (int s = 0; s < plan->stage_count; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        if (!plan_stage_is_on(stage, worker)) continue;
        if (stages++ == 0) first = stage->first;
        last = stage->last;
    }
    if (stages == 1)
        number_print(text, size, "layers %d-%d", cost_table_first(costs, first) + 1, cost_table_last(costs, last) + 1);
    else
        number_print(text, size, "%d stages", stages);
}

/* The effect of memory: "" or the beginning of a sentence. */
static void describe_memory(const struct search *search, const struct ps_plan *plan, const struct shares *shares, double gain_s,
                            char *text, size_t size) {
    const struct plan_prediction *predicted = &plan->predicted;
    double fullest = 0;
    int worker = 0;
    char less[32], now[32];
    text[0] = '\0';
    for (int w = 0; w < plan->workers; w++) {
        int64_t limit = search->cluster->devices[w].memory_bytes;
        double full = limit > 0 ? (double)worker_memory_total(&predicted->memory[w]) / (double)limit : 0;
        if (full > fullest) fullest = full, worker = w;
    }
    if (gain_s > 0)
        number_print(text, size, "memory: without a limit the slowest stage would take %s, not %s; then ",
                     text_seconds(predicted->objective_s - gain_s, less), text_seconds(predicted->objective_s, now));
    else if (fullest >= LIMITING && shares->most < LIMITING && shares->most_link < LIMITING)
        number_print(text, size, "memory, of which worker %d uses %.0f %%: ", worker, 100 * fullest);
}

void search_explain(const struct search *search, const struct ps_simulation *simulation, double gain_s, struct ps_plan *plan) {
    const struct schedule *schedule;
    bool flush = schedule_find(plan->schedule, &schedule, NULL) == PS_OK && schedule->flush;
    struct shares shares = find_shares(simulation);
    char memory[128], layers[48];
    describe_memory(search, plan, &shares, gain_s, memory, sizeof memory);
    describe_layers(&search->profile->tables[0], plan, shares.worker, layers, sizeof layers);
    describe(&shares, memory, layers, flush, plan->predicted.limit, sizeof plan->predicted.limit);
}

/* Messages of refusals. Exact planners prove that nothing fits without finding out what is too large. The message names a layer
 * that no worker can hold, or the stage that is furthest from fitting if every worker has one. */

extern const struct partitioner partitioner_pipedream;

/* The reason why the chain cannot be cut into one stage per worker: the stage, the memory that it needs and the limit. */
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
                 "%.600s: layer %d ('%s') alone needs %s, but no worker has more than %s", said,
                 cost_table_last(problem->costs, layer) + 1, problem->costs->layers[layer].name, text_bytes(most, needs),
                 text_bytes(limit, has));
    else if (name_stage(problem, &once))
        snprintf(error->message, sizeof error->message, "%.500s: with one stage each, %.400s", said, once.message);
    else
        snprintf(error->message, sizeof error->message, "%.600s: its layers need some %s, and all workers have %s", said,
                 text_bytes(needed, needs), text_bytes(all, has));
}
