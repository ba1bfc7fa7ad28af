/* Trying changes one at a time; see simulate.h. The programs are unchanged: only costs and links change. */
#include "simulate/simulate.h"

#include <string.h>

/* Shorter by less than this share does not count. */
#define LEAST_SAVING 0.0005

struct trials {
    const struct ps_plan *plan;
    const struct cost_table *table;
    struct simulation_work work; /* with its own costs or its own cluster */
    struct stage_cost *costs;
    struct ps_cluster cluster; /* a copy with room for two more links */
    double period_s;
    struct advice *best;
};

static enum ps_status try_it(struct trials *trials, const struct advice *change, struct ps_error *error) {
    struct ps_simulation *simulation;
    TRY(simulate_programs(&trials->work, &simulation, error));
    double period_s = simulation->info.period_s, saving = 1 - period_s / trials->period_s;
    ps_simulation_destroy(simulation);
    if (saving < LEAST_SAVING || saving <= trials->best->saving) return PS_OK;
    int limiting = trials->best->limiting_worker;
    *trials->best = *change;
    trials->best->limiting_worker = limiting;
    trials->best->period_s = period_s;
    trials->best->saving = saving;
    return PS_OK;
}

static const struct cost_table *table_of(const struct trials *trials, const struct plan_stage *stage) {
    return cost_table_on(trials->table, trials->work.cluster->devices[stage->forward[0]].type);
}

static bool fits(const struct trials *trials, int worker) {
    int64_t limit = trials->work.cluster->devices[worker].memory_bytes;
    if (limit == 0) return true;
    struct worker_memory total = {0};
    const struct ps_programs *programs = trials->work.programs;
    for (int p = 0; p < programs->instance_count; p++) {
        if (programs->instances[p].worker != worker) continue;
        struct worker_memory memory =
            stage_memory(&trials->costs[programs->instances[p].stage].size, &programs->slots[p], trials->work.moments);
        worker_memory_add(&total, &memory);
    }
    return worker_memory_total(&total) <= limit;
}

/* The stage's costs with other layers, and its codecs. */
static struct stage_cost cost_of(const struct trials *trials, int stage, int first, int last) {
    const struct cost_table *table = table_of(trials, &trials->plan->stages[stage]);
    struct stage_cost cost = stage_cost(table, first, last);
    const struct stage_wire wire = plan_stage_wire(trials->plan, stage);
    stage_cost_encode(table, &wire, &cost);
    return cost;
}

/* Moves a layer across the cut after stage `cut`: the last layer before it onward, or the first layer after it back. */
static enum ps_status try_layer(struct trials *trials, int cut, bool onward, struct ps_error *error) {
    const struct plan_stage *before = &trials->plan->stages[cut], *after = &trials->plan->stages[cut + 1];
    int worker[2] = {programs_worker(trials->work.programs, cut), programs_worker(trials->work.programs, cut + 1)};
    const struct plan_stage *giver = onward ? before : after;
    if (giver->first == giver->last || worker[0] == worker[1]) return PS_OK;
    struct stage_cost kept[2] = {trials->costs[cut], trials->costs[cut + 1]};
    int last = onward ? before->last - 1 : before->last + 1;
    trials->costs[cut] = cost_of(trials, cut, before->first, last);
    trials->costs[cut + 1] = cost_of(trials, cut + 1, last + 1, after->last);
    struct advice change = {.kind = ADVICE_MOVE_LAYER,
                            .layer = onward ? before->last : after->first,
                            .from = worker[!onward],
                            .to = worker[onward]};
    enum ps_status status = fits(trials, change.to) ? try_it(trials, &change, error) : PS_OK;
    trials->costs[cut] = kept[0];
    trials->costs[cut + 1] = kept[1];
    return status;
}

/* Doubles the bandwidth between the workers of two adjacent stages, in both directions. */
static enum ps_status try_link(struct trials *trials, int cut, struct ps_error *error) {
    const struct ps_cluster *cluster = trials->work.cluster;
    int one = programs_worker(trials->work.programs, cut), other = programs_worker(trials->work.programs, cut + 1);
    trials->cluster.link_count = cluster->link_count;
    for (int way = 0; way < 2; way++) {
        int from = way ? other : one, to = way ? one : other;
        const struct cluster_link *link = cluster_link_between(cluster, from, to);
        if (!link || link->bandwidth_bytes_per_s <= 0) continue;
        struct cluster_link faster = *link;
        faster.from = from;
        faster.to = to;
        faster.bandwidth_bytes_per_s *= 2;
        trials->cluster.links[trials->cluster.link_count++] = faster;
    }
    if (trials->cluster.link_count == cluster->link_count) return PS_OK;
    struct advice change = {.kind = ADVICE_BANDWIDTH, .from = one, .to = other};
    trials->work.cluster = &trials->cluster;
    enum ps_status status = try_it(trials, &change, error);
    trials->work.cluster = cluster;
    return status;
}

static int busiest(const struct ps_simulation *simulation) {
    int most = 0;
    for (int w = 1; w < simulation->info.workers; w++)
        if (simulation->worker[w].busy_s > simulation->worker[most].busy_s) most = w;
    return most;
}

/* Does the worker hold a stage on one side of the cut? */
static bool touches(const struct ps_programs *programs, int cut, int worker) {
    return programs_instance(programs, worker, cut) != NO_INSTANCE ||
           programs_instance(programs, worker, cut + 1) != NO_INSTANCE;
}

static enum ps_status try_all(struct trials *trials, const struct ps_simulation *simulation, struct ps_error *error) {
    const struct ps_programs *programs = trials->work.programs;
    int cuts = trials->plan->stage_count - 1, limiting = trials->best->limiting_worker, touching = 0;
    for (int cut = 0; cut < cuts; cut++) touching += touches(programs, cut, limiting);
    int64_t most = ADVICE_INSTRUCTIONS_MAX / (simulation->instructions > 0 ? simulation->instructions : 1);
    bool all = 3 * cuts <= most;
    if (!all && 3 * touching > most) return PS_OK;
    for (int cut = 0; cut < cuts; cut++) {
        if (!all && !touches(programs, cut, limiting)) continue;
        TRY(try_layer(trials, cut, true, error));
        TRY(try_layer(trials, cut, false, error));
        TRY(try_link(trials, cut, error));
    }
    return PS_OK;
}

enum ps_status advice_find(const struct ps_plan *plan, const struct cost_table *table, const struct simulation_work *work,
                           const struct ps_simulation *simulation, struct advice *out, struct ps_error *error) {
    size_t links = (size_t)work->cluster->link_count, stages = (size_t)plan->stage_count;
    struct arena arena = {0};
    struct advice advice = {.limiting_worker = busiest(simulation)};
    struct trials trials = {.plan = plan,
                            .table = table,
                            .work = *work,
                            .cluster = *work->cluster,
                            .costs = arena_copy(&arena, work->costs, stages, sizeof *work->costs),
                            .period_s = simulation->info.period_s,
                            .best = &advice};
    trials.cluster.links = arena_take(&arena, links + 2, sizeof *trials.cluster.links);
    TRY(arena_check(&arena, "what would help", error));
    memcpy(trials.cluster.links, work->cluster->links, links * sizeof *trials.cluster.links);
    trials.work.costs = trials.costs;
    trials.work.summary_only = true;
    enum ps_status status = try_all(&trials, simulation, error);
    arena_release(&arena);
    if (status == PS_OK) *out = advice;
    return status;
}
