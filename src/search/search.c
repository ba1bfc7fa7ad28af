/*
 * The search for a plan. Slots depend on a stage's place and not on its layers, so the programs are lowered once, give the
 * partitioners the number of blocks that memory must hold, and score every partition on the simulator. The shortest period wins.
 */
#include "search/search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "plan/partitioner.h"
#include "program/moments.h"
#include "simulate/simulate.h"

#define SCHEDULE_ASYNCHRONOUS "1f1b-async"
#define SCHEDULE_SYNCHRONOUS "1f1b"
#define POLICY_ASYNCHRONOUS "pipeoptim"
#define POLICY_SYNCHRONOUS "sync"

/* A later method must be better by more than rounding to take a former one's place. */
#define BETTER (1 - 1e-9)

static bool is_auto(const char *name) { return !name || strcmp(name, "auto") == 0; }

enum ps_status search_choose(const struct ps_plan_options *options, int workers, struct search_choice *choice,
                             struct ps_error *error) {
    const char *schedule = is_auto(options->schedule) ? SCHEDULE_ASYNCHRONOUS : options->schedule;
    const char *policy = is_auto(options->weights) ? POLICY_ASYNCHRONOUS : options->weights;
    struct search_choice made = {0};
    TRY(schedule_find(schedule, &made.schedule, error));
    TRY(policy_find(policy, &made.policy, error));
    if (is_auto(options->weights) && made.schedule->flush) TRY(policy_find(POLICY_SYNCHRONOUS, &made.policy, error));
    if (is_auto(options->schedule) && made.policy->needs_flush) TRY(schedule_find(SCHEDULE_SYNCHRONOUS, &made.schedule, error));
    made.micro_batches = options->micro_batches;
    if (made.micro_batches == 0) {
        made.micro_batches = made.schedule->micro_batches(workers);
        if (made.policy->group_of_workers && made.micro_batches < workers) made.micro_batches = workers;
    }
    TRY(lower_check(made.schedule->name, made.policy->name, workers, made.micro_batches, error));
    *choice = made;
    return PS_OK;
}

/* Everything that stays the same over the methods tried. */
struct search {
    const struct ps_plan_options *options;
    const struct ps_profile *profile;
    struct search_choice choice;
    struct ps_programs *programs;
    struct partition_problem problem;
    struct simulation_work work;
    struct stage_cost *costs; /* of the partition looked at */
    int *last;                /* likewise: its last layers */
};

/* The best plan so far. */
struct candidate {
    const struct partitioner *method;
    int *last; /* per stage: its last layer */
    double objective_s;
    double lower_bound_s;             /* of all methods tried: no plan of any of their classes has a smaller objective */
    struct ps_simulation *simulation; /* NULL: none yet */
};

static int first_layer(const int *last, int stage) { return stage > 0 ? last[stage - 1] + 1 : 0; }

static enum ps_status try_method(struct search *search, const struct partitioner *method, struct candidate *best,
                                 struct ps_error *error) {
    struct partition partition = {.last = search->last};
    TRY(method->solve(&search->problem, &partition, error));
    for (int s = 0; s < search->problem.stages; s++)
        search->costs[s] = stage_cost(search->problem.costs, first_layer(partition.last, s), partition.last[s]);
    struct ps_simulation *simulation;
    TRY(simulate_programs(&search->work, &simulation, error));
    char period[32], objective[32];
    log_info("%s: a mini-batch every %s (objective %s)", method->name, text_seconds(simulation->info.period_s, period),
             text_seconds(partition.objective_s, objective));
    if (!best->simulation || partition.lower_bound_s < best->lower_bound_s) best->lower_bound_s = partition.lower_bound_s;
    if (best->simulation && simulation->info.period_s >= best->simulation->info.period_s * BETTER) {
        ps_simulation_destroy(simulation);
        return PS_OK;
    }
    memcpy(best->last, partition.last, (size_t)search->problem.stages * sizeof *best->last);
    ps_simulation_destroy(best->simulation);
    best->method = method;
    best->objective_s = partition.objective_s;
    best->simulation = simulation;
    return PS_OK;
}

/* Before the table of who needs what, which may fill the hint. */
static void advise_recomputation(struct ps_error *refusal) {
    struct ps_error table = *refusal;
    refusal->hint[0] = '\0';
    error_hint(refusal, "recomputation (--recompute) needs less memory");
    error_hint(refusal, "%s", table.hint);
}

/* A method that finds nothing leaves the word to the others; the first such refusal is told if all find nothing. */
static enum ps_status try_methods(struct search *search, struct candidate *best, struct ps_error *error) {
    struct ps_error refusal = {0}, later = {0};
    for (int m = 0; partitioner_table[m]; m++) {
        if (!is_auto(search->options->method) && strcmp(search->options->method, partitioner_table[m]->name) != 0) continue;
        struct ps_error *said = refusal.status == PS_OK ? &refusal : &later;
        enum ps_status status = try_method(search, partitioner_table[m], best, said);
        if (status == PS_OK || status == PS_NO_PLAN) continue;
        if (error) *error = *said;
        return status;
    }
    if (best->simulation) return PS_OK;
    if (!search->options->recompute) advise_recomputation(&refusal);
    if (error) *error = refusal;
    return PS_NO_PLAN;
}

static void fill_prediction(const struct search *search, const struct candidate *best, double solve_s,
                            struct plan_prediction *prediction) {
    const struct ps_simulation_info *info = &best->simulation->info;
    prediction->known = true;
    prediction->objective_s = best->objective_s;
    prediction->lower_bound_s = best->lower_bound_s;
    prediction->gap = best->lower_bound_s > 0 ? best->objective_s / best->lower_bound_s - 1 : 0;
    prediction->period_s = info->period_s;
    prediction->throughput_samples_per_s = info->throughput_samples_per_s;
    prediction->bubble = info->bubble;
    prediction->solve_s = solve_s;
    for (int s = 0; s < search->problem.stages; s++) {
        prediction->load_s[s] = partition_load_s(&search->problem, s, first_layer(best->last, s), best->last[s]);
        prediction->memory[s] = best->simulation->memory[s];
    }
}

static enum ps_status make_plan(const struct search *search, const struct candidate *best, double solve_s,
                                struct ps_plan **plan, struct ps_error *error) {
    struct ps_plan *made;
    const char *optimizer = search->options->optimizer;
    int stages = search->problem.stages;
    TRY(plan_create(stages, stages, &made, error));
    snprintf(made->model, sizeof made->model, "%s", search->profile->model);
    snprintf(made->method, sizeof made->method, "%s", best->method->name);
    snprintf(made->schedule, sizeof made->schedule, "%s", search->choice.schedule->name);
    snprintf(made->weights, sizeof made->weights, "%s", search->choice.policy->name);
    if (optimizer) snprintf(made->optimizer, sizeof made->optimizer, "%s", optimizer);
    made->micro_batch = search->problem.costs->micro_batch;
    made->micro_batches = search->choice.micro_batches;
    made->paper_prediction = search->options->paper_prediction;
    enum ps_status status = PS_OK;
    for (int s = 0; s < stages && status == PS_OK; s++) {
        status = plan_stage_set(made, s, first_layer(best->last, s), best->last[s], s, error);
        made->stages[s].recompute = search->options->recompute;
    }
    if (status == PS_OK) status = plan_check(made, search->problem.costs->layer_count, error);
    if (status != PS_OK) {
        ps_plan_destroy(made);
        return status;
    }
    fill_prediction(search, best, solve_s, &made->predicted);
    *plan = made;
    return PS_OK;
}

static enum ps_status prepare(struct search *search, const struct ps_cluster *cluster, const struct cost_table *table,
                              struct ps_error *error) {
    const struct search_choice *choice = &search->choice;
    int workers = cluster->workers, moments;
    const char *optimizer = search->options->optimizer ? search->options->optimizer : "sgdm";
    TRY(policy_moments(choice->policy->name, optimizer, &moments, error));
    int batches = simulate_enough_batches(choice->schedule, workers, choice->micro_batches);
    TRY(lower_straight(choice->schedule->name, choice->policy->name, workers, choice->micro_batches, batches,
                       search->options->recompute, &search->programs, error));
    search->last = calloc((size_t)workers, sizeof *search->last);
    search->costs = calloc((size_t)workers, sizeof *search->costs);
    if (!search->last || !search->costs) return error_memory(error, "a search", (size_t)workers * sizeof *search->costs);
    search->problem = (struct partition_problem){
        .costs = table,
        .cluster = cluster,
        .stages = workers,
        .slots = search->programs->slots,
        .moments = moments,
        .recompute = search->options->recompute,
    };
    search->work = (struct simulation_work){
        .programs = search->programs,
        .costs = search->costs,
        .cluster = cluster,
        .samples = table->micro_batch,
        .moments = moments,
    };
    return PS_OK;
}

enum ps_status ps_plan_find(const struct ps_profile *profile, const struct ps_cluster *cluster,
                            const struct ps_plan_options *options, struct ps_plan **plan, struct ps_error *error) {
    double start_s = clock_now();
    const struct cost_table *table;
    struct search search = {.options = options, .profile = profile};
    struct candidate best = {0};
    const struct partitioner *named;
    if (!is_auto(options->method)) TRY(partitioner_find(options->method, &named, error));
    TRY(profile_table(profile, options->micro_batch, &table, error));
    TRY(search_choose(options, cluster->workers, &search.choice, error));
    if (table->layer_count < cluster->workers)
        return error_set(error, PS_NO_PLAN, "%d workers are more than %s has layers (%d); each needs one of its own",
                         cluster->workers, profile->model, table->layer_count);
    enum ps_status status;
    best.last = calloc((size_t)cluster->workers, sizeof *best.last);
    if (!best.last) return error_memory(error, "a plan", (size_t)cluster->workers * sizeof *best.last);
    TRY_OUT(prepare(&search, cluster, table, error));
    TRY_OUT(try_methods(&search, &best, error));
    status = make_plan(&search, &best, clock_now() - start_s, plan, error);
out:
    ps_simulation_destroy(best.simulation);
    free(best.last);
    free(search.last);
    free(search.costs);
    ps_programs_destroy(search.programs);
    return status;
}
