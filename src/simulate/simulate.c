/*
 * Runs the programs on the engine and computes the results of a simulation.
 *
 * The period is the slope of the completions of mini-batches. With a flush the next mini-batch may begin before the last one
 * has ended on all workers, so the slope is that of all completions but the last, whose end nothing follows. Without one it is
 * taken while the pipeline neither fills nor drains: between two mini-batches that end before the last one enters, whose
 * distance is a multiple of the number in flight (pipelines bound by latency complete in bursts of that size). If mini-batches
 * have several lengths it is the slope of all completions, and with a flush makespan / mini-batches, in which each length has
 * its share.
 */
#include "simulate/simulate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/text.h"
#include "base/versioned.h"
#include "program/lower.h"
#include "simulate/engine.h"

/* Maximum micro-batches of a simulation: excludes wrong numbers, not long runs. */
enum { MICRO_BATCHES_MAX = 1 << 24 };
/* With a flush: two completions, and a mini-batch that follows them. */
enum { FLUSHED_BATCHES = 3 };
/* Replicas that take mini-batches alternately need this many times longer until rounds are alike. */
enum { REPLICAS_LONGER = 3 };
/* Mini-batches after which every length has occurred often enough, and after every other length. */
enum { LENGTHS_BATCHES = 256 };

int simulate_enough_batches(const struct schedule *schedule, int workers, int micro_batches) {
    if (schedule->flush) return FLUSHED_BATCHES;
    return number_larger_int(8, (4 * workers + micro_batches - 1) / micro_batches);
}

int simulate_plan_batches(const struct ps_plan *plan) {
    const struct schedule *schedule;
    int latest = 0, held = 0, busy = plan_busy_workers(plan), slack = plan->slack * (busy - 1);
    if (schedule_find(plan->schedule, &schedule, NULL) != PS_OK) return 1;
    for (int i = 0; i < plan->pattern_count; i++) latest = number_larger_int(latest, plan_shift(plan, &plan->pattern[i]));
    for (int s = 0; s < plan->stage_count; s++) held = number_larger_int(held, plan->stages[s].in_flight);
    int batches = simulate_enough_batches(schedule, busy + slack, plan->micro_batches);
    if (!schedule->flush && plan_has_replicas(plan)) batches *= REPLICAS_LONGER;
    return number_larger_int(batches, number_larger_int(4 * latest, 2 * (held + slack)) / plan->micro_batches);
}

static double slope(const struct engine *engine, int from, int to) {
    return engine_seconds(engine, engine->completed[to] - engine->completed[from]) / (to - from);
}

/* Mini-batches after which a pipeline with alternating replicas is periodic. */
static int period_of(const struct ps_programs *programs) {
    int period = 1;
    for (int stage = 0; stage < programs->stages; stage++)
        period = number_common_multiple(period, programs_round(programs, stage));
    return period;
}

/* Mini-batches that are in the pipeline at a time, as whole periods. */
static int under_way(const struct ps_programs *programs) {
    int batches = (programs->stages + programs->micro_batches - 1) / programs->micro_batches, period = period_of(programs);
    return (batches + period - 1) / period * period;
}

/* Chooses the mini-batches whose work the engine counts for busiest(): a period of them between fill and drain, where weights
 * are predicted by other instructions; or all, if they have several lengths. */
static void choose_typical(struct engine *engine) {
    const struct ps_programs *programs = engine->work->programs;
    int batches = programs->batches, filled = number_larger_int(batches / 2, under_way(programs));
    engine->typical_count = engine->work->batch_factors ? batches : (int)number_smaller(batches, period_of(programs));
    engine->typical = (int)number_smaller(filled, batches - engine->typical_count);
}

/* Time of the busiest worker or link per mini-batch: no period can be shorter in the long run. While the pipeline fills, stages
 * that run ahead of others on their worker can hide it for dozens of mini-batches. */
static double busiest(const struct engine *engine) {
    int64_t most = 0, most_of_links = 0;
    for (int w = 0; w < engine->worker_count; w += engine->lanes) {
        int64_t busy = 0;
        for (int lane = w; lane < w + engine->lanes; lane++) busy += engine->workers[lane].typical_busy;
        most = number_larger(most, busy);
    }
    for (int c = 0; c < engine->channel_count; c++) most_of_links = number_larger(most_of_links, engine_links_busy(engine, c));
    return fmax(engine_seconds(engine, most) / engine->typical_count,
                engine_seconds(engine, most_of_links) / engine->work->programs->batches);
}

/* Of the completions; of at least two mini-batches. */
static double steady_slope(const struct engine *engine) {
    const struct ps_programs *programs = engine->work->programs;
    int batches = programs->batches, steady = 0;
    if (engine->work->batch_factors) return slope(engine, 0, batches - 1);
    if (engine->flush) return slope(engine, 0, number_larger_int(1, batches - 2));
    while (steady < batches && engine->completed[steady] <= engine->last_entry) steady++;
    int distance = under_way(programs), span = number_larger_int(1, (steady - 1) / 2 / distance) * distance;
    return steady <= distance ? slope(engine, 0, batches - 1) : slope(engine, steady - 1 - span, steady - 1);
}

static double period(const struct engine *engine) {
    int batches = engine->work->programs->batches;
    if (batches == 1 || (engine->flush && engine->work->batch_factors)) return engine_seconds(engine, engine->end) / batches;
    return fmax(steady_slope(engine), busiest(engine));
}

static void sum_up(const struct engine *engine, struct ps_simulation_info *info) {
    const struct ps_programs *programs = engine->work->programs;
    int64_t busy = 0;
    for (int w = 0; w < engine->worker_count; w++) busy += engine->workers[w].busy;
    *info = (struct ps_simulation_info){
        .period_s = period(engine),
        .makespan_s = engine_seconds(engine, engine->end),
        .workers = programs->workers,
        .batches = programs->batches,
    };
    if (engine->end > 0) info->bubble = 1 - (double)busy / ((double)engine->end * programs->workers);
    double samples = (double)number_larger_int(1, engine->work->samples) * programs->micro_batches;
    if (info->period_s > 0) info->throughput_samples_per_s = samples / info->period_s;
}

/* The times of a worker, over both lanes if it has two: it waits approximately while both wait. */
struct account {
    int64_t busy, communication, dependency;
};

static struct account account_of(const struct engine *engine, int worker) {
    const struct engine_worker *first = &engine->workers[worker * engine->lanes];
    struct account account = {first->busy, first->communication, first->dependency};
    if (engine->lanes == 1) return account;
    const struct engine_worker *second = first + 1;
    account.busy += second->busy;
    int64_t idle = engine->end - account.busy;
    account.communication = number_smaller(number_smaller(first->communication, second->communication), idle);
    account.dependency = number_smaller(number_smaller(first->dependency, second->dependency), idle - account.communication);
    return account;
}

/* Splits the idle time as described in simulate.h. Parts are counted in ticks, so that they add up exactly. */
static void attribute(const struct engine *engine, int index, int64_t most_busy, struct ps_simulation_worker *result) {
    struct account worker = account_of(engine, index);
    int64_t waiting = engine->end - worker.busy - worker.communication;
    int64_t imbalance = number_smaller(most_busy - worker.busy, waiting);
    int64_t dependency = worker.dependency > imbalance ? worker.dependency - imbalance : 0;
    result->busy_s = engine_seconds(engine, worker.busy);
    result->idle_communication_s = engine_seconds(engine, worker.communication);
    result->idle_imbalance_s = engine_seconds(engine, imbalance);
    result->idle_dependency_s = engine_seconds(engine, dependency);
    result->idle_fill_drain_s = engine_seconds(engine, waiting - imbalance - dependency);
}

static int weight_copies(const struct ps_programs *programs, int worker) {
    int copies = 0;
    for (int p = 0; p < programs->instance_count; p++)
        if (programs->instances[p].worker == worker) copies = number_larger_int(copies, programs->slots[p].weights);
    return copies;
}

static void describe_workers(const struct engine *engine, struct ps_simulation *simulation) {
    const struct simulation_work *work = engine->work;
    int64_t most_busy = 0;
    for (int w = 0; w < work->programs->workers; w++) {
        int64_t busy = account_of(engine, w).busy;
        if (busy > most_busy) most_busy = busy;
    }
    for (int w = 0; w < work->programs->workers; w++) {
        attribute(engine, w, most_busy, &simulation->worker[w]);
        simulation->memory[w] = programs_memory(work->programs, w, simulation->sizes, work->moments);
        simulation->worker[w].memory_bytes = worker_memory_total(&simulation->memory[w]);
        simulation->worker[w].weight_copies = weight_copies(work->programs, w);
        for (int lane = w * engine->lanes; lane < (w + 1) * engine->lanes; lane++) {
            simulation->worker[w].sent_bytes += engine->workers[lane].traffic.sent;
            simulation->worker[w].received_bytes += engine->workers[lane].traffic.received;
        }
    }
}

static struct busiest_link find_busiest(const struct engine *engine) {
    struct busiest_link busiest = {0};
    int64_t most = 0, own = 0;
    for (int c = 0; c < engine->channel_count; c++) {
        const struct engine_channel *channel = &engine->channels[c];
        int64_t busy = engine_links_busy(engine, c);
        if (busy < most || (busy == most && channel->busy <= own)) continue;
        most = busy, own = channel->busy;
        busiest = (struct busiest_link){channel->from, channel->to, engine_seconds(engine, busy)};
    }
    return busiest;
}

static enum ps_status create(struct engine *engine, struct ps_simulation **simulation, struct ps_error *error) {
    const struct simulation_work *work = engine->work;
    size_t workers = (size_t)work->programs->workers, stages = (size_t)work->programs->stages;
    struct ps_simulation *made;
    TRY(memory_new(&made, 1, "the result of a simulation", error));
    made->worker = arena_take(&made->arena, workers, sizeof *made->worker);
    made->memory = arena_take(&made->arena, workers, sizeof *made->memory);
    made->sizes = arena_take(&made->arena, stages, sizeof *made->sizes);
    enum ps_status status = arena_check(&made->arena, "the result of a simulation", error);
    if (status != PS_OK) {
        free(made);
        return status;
    }
    for (size_t s = 0; s < stages; s++) made->sizes[s] = work->costs[s].size;
    snprintf(made->title, sizeof made->title, "%s, %s, %d worker%s", work->programs->schedule->name,
             work->programs->policy->name, work->programs->workers, text_plural(work->programs->workers));
    sum_up(engine, &made->info);
    for (int w = 0; w < work->programs->workers; w++)
        made->instructions += work->rolled ? rolled_length(work->rolled, w) : work->programs->worker[w].count;
    describe_workers(engine, made);
    made->link = find_busiest(engine);
    made->timeline = engine->timeline;
    engine->timeline = (struct timeline){0};
    *simulation = made;
    return PS_OK;
}

enum ps_status simulate_programs(const struct simulation_work *work, struct ps_simulation **simulation,
                                 struct ps_error *error) {
    if (work->cluster->workers < work->programs->workers)
        return error_set(error, PS_USAGE, "cluster: has %d of the %d workers that the plan needs", work->cluster->workers,
                         work->programs->workers);
    struct engine engine;
    TRY(engine_create(&engine, work, error));
    choose_typical(&engine);
    enum ps_status status = engine_run(&engine, error);
    if (status == PS_OK) status = create(&engine, simulation, error);
    engine_free(&engine);
    return status;
}

/* Programs or, where they are long, rolled ones. */
struct lowered {
    struct ps_programs *programs; /* NULL: rolled */
    struct rolled_programs *rolled;
};

static void lowered_free(struct lowered *lowered) {
    ps_programs_destroy(lowered->programs);
    rolled_destroy(lowered->rolled);
}

static enum ps_status lower_length(void *context, int micro_batches, int batches, struct ps_programs **programs,
                                   struct ps_error *error) {
    struct ps_plan plan = *(const struct ps_plan *)context; /* shares everything but this number */
    plan.micro_batches = micro_batches;
    return lower_plan(&plan, batches, programs, error);
}

int simulate_plan_period(const struct ps_plan *plan) {
    int period = plan_is_split(plan) ? 2 : 1;
    for (int s = 0; s < plan->stage_count; s++) period = number_common_multiple(period, plan->stages[s].forward_count);
    return period;
}

static enum ps_status lower(const struct ps_plan *plan, const struct ps_profile *profile, int batches, struct lowered *lowered,
                            struct ps_error *error) {
    const struct schedule *schedule;
    TRY(schedule_find(plan->schedule, &schedule, error));
    if (batches == 0) batches = number_larger_int(simulate_plan_batches(plan), profile->length_count > 0 ? LENGTHS_BATCHES : 0);
    int most = number_larger_int(1, MICRO_BATCHES_MAX / plan->micro_batches);
    if (batches < 0 || batches > most) return error_set(error, PS_USAGE, "batches: %d is not between 1 and %d", batches, most);
    *lowered = (struct lowered){0};
    struct ps_plan shared = *plan;
    if (!schedule->lanes && 2.0 * plan->stage_count * batches * plan->micro_batches > SIMULATE_EVENTS_MAX) {
        struct rolled_shape shape = {.flush = schedule->flush,
                                     .workers = plan->workers,
                                     .micro_batches = plan->micro_batches,
                                     .batches = batches,
                                     .period = simulate_plan_period(plan)};
        TRY(rolled_create(lower_length, &shared, &shape, &lowered->rolled, error));
    }
    return lowered->rolled ? PS_OK : lower_plan(plan, batches, &lowered->programs, error);
}

struct stage_cost simulate_stage_cost(const struct ps_plan *plan, const struct cost_table *table,
                                      const struct ps_cluster *cluster, int stage, int worker) {
    const struct cost_table *own = cost_table_on(table, cluster->devices[worker].type);
    struct stage_cost cost = stage_cost(own, plan->stages[stage].first, plan->stages[stage].last);
    const struct stage_wire wire = plan_stage_wire(plan, stage);
    stage_cost_encode(own, &wire, &cost);
    return cost;
}

static enum ps_status cost_instances(const struct ps_plan *plan, const struct cost_table *table,
                                     const struct ps_cluster *cluster, const struct ps_programs *programs,
                                     struct stage_cost **out, struct ps_error *error) {
    *out = NULL;
    if (!table->other_device || programs->instance_count == programs->stages) return PS_OK;
    TRY(memory_new(out, programs->instance_count, "costs of stage instances", error));
    for (int p = 0; p < programs->instance_count; p++)
        (*out)[p] = simulate_stage_cost(plan, table, cluster, programs->instances[p].stage, programs->instances[p].worker);
    return PS_OK;
}

static enum ps_status simulate_lowered(const struct ps_plan *plan, const struct lowered *lowered,
                                       const struct cost_table *table, const double *batch_factors,
                                       const struct ps_cluster *cluster, bool summary_only, struct ps_simulation **simulation,
                                       struct ps_error *error) {
    struct simulation_work work = {.programs = lowered->rolled ? lowered->rolled->programs : lowered->programs,
                                   .rolled = lowered->rolled,
                                   .batch_factors = batch_factors,
                                   .cluster = cluster,
                                   .samples = plan->micro_batch,
                                   .summary_only = summary_only};
    TRY(plan_moments(plan, &work.moments, error));
    struct stage_cost *costs;
    TRY(memory_new(&costs, plan->stage_count, "stage costs", error));
    for (int s = 0; s < plan->stage_count; s++)
        costs[s] = simulate_stage_cost(plan, table, cluster, s, plan->stages[s].forward[0]);
    work.costs = costs;
    struct ps_simulation *made = NULL;
    struct stage_cost *instance_costs;
    enum ps_status status = cost_instances(plan, table, cluster, work.programs, &instance_costs, error);
    work.instance_costs = instance_costs;
    if (status == PS_OK) status = simulate_programs(&work, &made, error);
    if (status == PS_OK && made->timeline.event_count > 0)
        status = critical_path_find(&made->timeline, &made->arena, &made->critical, error);
    /* Advice is found by changing the costs of stages. */
    if (status == PS_OK && !instance_costs && !summary_only)
        status = advice_find(plan, table, &work, made, &made->advice, error);
    free(instance_costs);
    free(costs);
    if (status != PS_OK) {
        ps_simulation_destroy(made);
        return status;
    }
    number_print(made->title, sizeof made->title, "%s: %s, %s, %d worker%s", plan->model, plan->schedule, plan->weights,
                 plan->workers, text_plural(plan->workers));
    *simulation = made;
    return PS_OK;
}

static enum ps_status simulate(const struct ps_plan *plan, const struct ps_profile *profile, const struct ps_cluster *cluster,
                               int batches, bool summary_only, struct ps_simulation **simulation, struct ps_error *error) {
    const struct cost_table *table;
    struct ps_profile *reordered;
    struct lowered lowered = {0};
    TRY(profile_table(profile, plan->micro_batch, &table, error));
    TRY(plan_check(plan, table->layer_count, error));
    if (plan->network[0] && profile->network[0] && strcmp(plan->network, profile->network) != 0)
        return error_set(error, PS_USAGE, "the plan is for the network %s (%s), the profile of %s (%s)", plan->model,
                         plan->network, profile->model, profile->network);
    TRY(cluster_check_types(cluster, table, error));
    TRY(simulate_costs(plan, profile, &table, &reordered, error));
    if (strcmp(plan->model, profile->model) != 0)
        log_warn("the plan is for %s, the profile of %s", plan->model, profile->model);
    double *factors = NULL;
    enum ps_status status = lower(plan, profile, batches, &lowered, error);
    if (status == PS_OK)
        status = simulate_batch_factors(profile, lowered.rolled ? lowered.rolled->programs->batches : lowered.programs->batches,
                                        &factors, error);
    if (status == PS_OK) status = simulate_lowered(plan, &lowered, table, factors, cluster, summary_only, simulation, error);
    free(factors);
    lowered_free(&lowered);
    ps_profile_destroy(reordered);
    return status;
}

enum ps_status ps_simulate(const struct ps_plan *plan, const struct ps_profile *profile, const struct ps_cluster *cluster,
                           int batches, struct ps_simulation **simulation, struct ps_error *error) {
    return simulate(plan, profile, cluster, batches, false, simulation, error);
}

enum ps_status simulate_figures(const struct ps_plan *plan, const struct ps_profile *profile, const struct ps_cluster *cluster,
                                int batches, struct ps_simulation **simulation, struct ps_error *error) {
    return simulate(plan, profile, cluster, batches, true, simulation, error);
}

static struct ps_simulation_info make_simulation_info(const struct ps_simulation *simulation) { return simulation->info; }

void ps_simulation_info_get(const struct ps_simulation *simulation, struct ps_simulation_info *result, size_t size) {
    const struct ps_simulation_info own = make_simulation_info(simulation);
    VERSIONED_GIVE(own, result, size);
}

static struct ps_simulation_worker make_simulation_worker(const struct ps_simulation *simulation, int worker) {
    return simulation->worker[worker];
}

void ps_simulation_worker_get(const struct ps_simulation *simulation, int worker, struct ps_simulation_worker *result,
                              size_t size) {
    const struct ps_simulation_worker own = make_simulation_worker(simulation, worker);
    VERSIONED_GIVE(own, result, size);
}

void ps_simulation_destroy(struct ps_simulation *simulation) {
    if (!simulation) return;
    timeline_free(&simulation->timeline);
    arena_release(&simulation->arena);
    free(simulation);
}
