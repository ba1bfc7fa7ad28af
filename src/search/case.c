/*
 * One case of the search. Slots depend on a stage's number and not on its layers. So the programs are lowered once; they give
 * the partitioners the number of blocks that memory must hold, and every partition is evaluated with them in the simulator.
 */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "plan/planners/madpipe.h"
#include "program/lower.h"
#include "search/search.h"

/* A plan replaces an earlier one only if it is better by more than rounding. */
#define BETTER (1 + 1e-9)

/* A case while its methods are tried. */
struct trial {
    struct arena arena; /* of its arrays */
    const struct search *search;
    const struct search_case *tried;
    struct ps_programs *programs;
    struct partition_problem problem;
    struct simulation_work work;
    struct stage_cost *costs;     /* of the partition under test */
    struct stage_cost *instances; /* likewise, of each instance, if replicas run on devices of different types; else NULL */
    int *last;                    /* likewise: its last layers */
    int *worker;                  /* per stage: the worker of its first replica */
    struct stage_slots *slots;    /* per stage, likewise */
    double *share;                /* scratch for partition_problem.share; NULL: every worker with a limit has one stage */
    int64_t *needs;               /* scratch, per worker */
    double lower_bound_s;         /* the least of the methods tried, also on other numbers of workers; 0: none yet */
    double groups_s;              /* of the partition under test: search_best.groups_s */
};

/* The number of replicas of each stage, and the workers of the replicas of one. */
static int replicas_of(const struct search_best *best) { return schedule_replicas(best->chosen.choice.schedule); }

static int replica_worker(const struct search_best *best, int stage, int replica) {
    if (replica == 0) return best->worker[stage];
    return schedule_replica_worker(best->chosen.choice.schedule, stage, replica, best->stages, best->chosen.workers);
}

void search_best_free(struct search_best *best) {
    ps_simulation_destroy(best->simulation);
    arena_release(&best->arena);
    *best = (struct search_best){0};
}

bool search_has_limit(const struct ps_cluster *cluster, int workers) {
    for (int w = 0; w < workers; w++)
        if (cluster->devices[w].memory_bytes > 0) return true;
    return false;
}

static enum ps_status keep(struct trial *trial, const struct partitioner *method, const struct partition *partition,
                           struct ps_simulation *simulation, struct search_best *best, struct ps_error *error) {
    size_t stages = (size_t)trial->problem.stages;
    struct arena arena = {0};
    struct search_best made = {.chosen = *trial->tried,
                               .method = method,
                               .stages = trial->problem.stages,
                               .last = arena_copy(&arena, partition->last, stages, sizeof *made.last),
                               .worker = arena_copy(&arena, trial->worker, stages, sizeof *made.worker),
                               .recompute = arena_take(&arena, stages, sizeof *made.recompute),
                               .objective_s = partition->objective_s,
                               .lower_bound_s = trial->lower_bound_s,
                               .simulation = simulation,
                               .slots = arena_copy(&arena, trial->slots, stages, sizeof *made.slots),
                               .moments = trial->problem.moments,
                               .groups_s = trial->groups_s};
    enum ps_status status = arena_check(&arena, "a plan", error);
    if (status != PS_OK) {
        ps_simulation_destroy(simulation);
        return status;
    }
    made.arena = arena;
    for (size_t s = 0; s < stages; s++) made.recompute[s] = trial->tried->recompute;
    search_best_free(best);
    *best = made;
    return PS_OK;
}

/* The stages of a cut and the transfers between them, which 1F1B* divides into groups. */
struct groups {
    struct arena arena;
    int stages;
    double *stage_s, *transfer_s; /* transfer_s[s]: from stage s to the next */
    int *in_flight;               /* scratch */
};

static enum ps_status groups_open(const struct partition_problem *problem, const int *last, struct groups *groups,
                                  struct ps_error *error) {
    size_t stages = (size_t)problem->stages;
    *groups = (struct groups){.stages = problem->stages};
    groups->stage_s = arena_take(&groups->arena, stages, sizeof *groups->stage_s);
    groups->transfer_s = arena_take(&groups->arena, stages, sizeof *groups->transfer_s);
    groups->in_flight = arena_take(&groups->arena, stages, sizeof *groups->in_flight);
    TRY(arena_check(&groups->arena, "groups", error));
    for (int s = 0; s < problem->stages; s++) {
        groups->stage_s[s] = partition_load_s(problem, s, partition_first(last, s), last[s]);
        groups->transfer_s[s] = partition_transfer_s(problem, s, last[s]);
    }
    return PS_OK;
}

/* Sets how many micro-batches the stages hold, for schedules that need it, at a period of `period_s`. */
static enum ps_status set_in_flight(const struct partition_problem *problem, const int *last, double period_s,
                                    struct ps_plan *plan, struct ps_error *error) {
    struct groups groups;
    TRY(groups_open(problem, last, &groups, error));
    groups_find(groups.stages, groups.stage_s, groups.transfer_s, period_s, groups.in_flight);
    for (int s = 0; s < groups.stages; s++) plan->stages[s].in_flight = groups.in_flight[s];
    arena_release(&groups.arena);
    return PS_OK;
}

/* Groups may hold more micro-batches than the partitioner assumed, and several stages of a worker more than it has. */
static enum ps_status check_memory(const struct trial *trial, const struct ps_simulation *simulation, struct ps_error *error) {
    int worst = -1;
    double most = 1;
    char needs[32], has[32];
    for (int w = 0; w < simulation->info.workers; w++) {
        int64_t limit = trial->search->cluster->devices[w].memory_bytes;
        trial->needs[w] = worker_memory_total(&simulation->memory[w]);
        double share = limit > 0 ? (double)trial->needs[w] / (double)limit : 0;
        if (share > most) most = share, worst = w;
    }
    if (worst < 0) return PS_OK;
    return error_set(error, PS_NO_PLAN, "worker %d needs %s%s, but has %s", worst, text_bytes(trial->needs[worst], needs),
                     trial->tried->choice.schedule->in_flight ? " to keep the period" : "",
                     text_bytes(trial->search->cluster->devices[worst].memory_bytes, has));
}

/* The programs of a cut, for schedules that read more from the plan than which worker holds which stage, and where the cut
 * decides which stages share parameters. */
static enum ps_status lower_cut(const struct trial *trial, const int *last, struct ps_programs **programs,
                                struct ps_error *error) {
    struct ps_plan *plan;
    TRY(search_plan_create(trial->search, &trial->tried->choice, trial->tried->costs, "", trial->tried->workers,
                           trial->problem.stages, &plan, error));
    enum ps_status status = PS_OK;
    if (trial->tried->choice.schedule->in_flight) status = set_in_flight(&trial->problem, last, trial->groups_s, plan, error);
    for (int s = 0; s < trial->problem.stages && status == PS_OK; s++) {
        status = plan_stage_set(plan, s, partition_first(last, s), last[s], trial->problem.worker[s], error);
        plan->stages[s].recompute = trial->tried->recompute;
    }
    if (status == PS_OK) status = lower_plan(plan, trial->programs->batches, programs, error);
    ps_plan_destroy(plan);
    return status;
}

static enum ps_status simulate_cut(struct trial *trial, const int *last, struct ps_simulation **simulation,
                                   struct ps_error *error) {
    struct simulation_work work = trial->work;
    struct ps_programs *programs;
    struct ps_simulation *made;
    bool mirrored = work.programs->instance_count > work.programs->stages;
    bool lowers = trial->tried->choice.schedule->in_flight || (trial->tried->costs->ties && !mirrored);
    if (lowers) {
        TRY(lower_cut(trial, last, &programs, error));
        work.programs = programs;
    }
    enum ps_status status = simulate_programs(&work, &made, error);
    if (lowers) ps_programs_destroy(programs);
    if (status != PS_OK) return status;
    status = check_memory(trial, made, error);
    if (status == PS_OK)
        *simulation = made;
    else
        ps_simulation_destroy(made);
    return status;
}

static int compare_rising(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The periods above the least at which stages and transfers join other groups: the sums of all that are adjacent. */
static int list_periods(const struct groups *groups, double least_s, double *periods) {
    int count = 0, resources = 2 * groups->stages - 1;
    for (int r = 0; r < resources; r++) {
        double sum_s = 0;
        for (int o = r; o < resources; o++) {
            sum_s += o % 2 ? groups->transfer_s[o / 2] : groups->stage_s[o / 2];
            if (sum_s > least_s) periods[count++] = sum_s;
        }
    }
    qsort(periods, (size_t)count, sizeof *periods, compare_rising);
    return count;
}

/* For schedules with groups: 1F1B* keeps every period if memory allows. If the groups of the least one take too much, the
 * period is lengthened until they fit, as MadPipe does with PipeDream's partition: the longer it is, the less the stages hold.
 */
static enum ps_status simulate_groups(struct trial *trial, const int *last, struct ps_simulation **simulation,
                                      struct ps_error *error) {
    struct groups groups;
    TRY(groups_open(&trial->problem, last, &groups, error));
    size_t resources = 2 * (size_t)groups.stages - 1;
    double *periods = arena_take(&groups.arena, resources * (resources + 1) / 2, sizeof *periods);
    enum ps_status status = arena_status(&groups.arena, "groups", error);
    if (status == PS_OK) {
        trial->groups_s = groups_period_s(groups.stages, groups.stage_s, groups.transfer_s);
        status = simulate_cut(trial, last, simulation, error);
    }
    if (status == PS_NO_PLAN || status == PS_USAGE) { /* too much memory, or more micro-batches than the policy allows */
        int low = 0, high = list_periods(&groups, trial->groups_s, periods) - 1;
        struct ps_simulation *made;
        double fits_s = 0;
        while (low <= high) {
            int middle = low + (high - low) / 2;
            trial->groups_s = periods[middle];
            enum ps_status one = simulate_cut(trial, last, &made, NULL);
            if (one == PS_OK) {
                if (fits_s > 0) ps_simulation_destroy(*simulation);
                *simulation = made;
                fits_s = periods[middle];
                status = PS_OK;
            }
            if (one == PS_OK)
                high = middle - 1;
            else
                low = middle + 1;
        }
        trial->groups_s = fits_s;
    }
    arena_release(&groups.arena);
    return status;
}

/* *cut: the method found one, whether or not it fits. */
static enum ps_status try_cut(struct trial *trial, const struct partitioner *method, bool *cut, struct search_best *best,
                              struct ps_error *error) {
    struct partition partition = {.last = trial->last};
    *cut = false;
    TRY(method->solve(&trial->problem, &partition, error));
    *cut = true;
    for (int s = 0; s < trial->problem.stages; s++)
        trial->costs[s] =
            stage_cost(partition_costs(&trial->problem, s), partition_first(partition.last, s), partition.last[s]);
    for (int p = 0; trial->instances && p < trial->programs->instance_count; p++) {
        const struct instance *instance = &trial->programs->instances[p];
        const struct cost_table *costs =
            cost_table_on(trial->tried->costs, trial->search->cluster->devices[instance->worker].type);
        trial->instances[p] =
            stage_cost(costs, partition_first(partition.last, instance->stage), partition.last[instance->stage]);
    }
    if (trial->lower_bound_s == 0 || partition.lower_bound_s < trial->lower_bound_s)
        trial->lower_bound_s = partition.lower_bound_s;
    struct ps_simulation *simulation;
    bool groups = trial->tried->choice.schedule->in_flight;
    TRY((groups ? simulate_groups : simulate_cut)(trial, partition.last, &simulation, error));
    char period[32], objective[32];
    log_debug("%s, %s, %s, %d stage%s, %d micro-batch%s: a mini-batch every %s (objective %s)", method->name,
              trial->tried->choice.schedule->name, trial->tried->choice.policy->name, trial->problem.stages,
              text_plural(trial->problem.stages), trial->tried->choice.micro_batches,
              trial->tried->choice.micro_batches == 1 ? "" : "es", text_seconds(simulation->info.period_s, period),
              text_seconds(partition.objective_s, objective));
    if (!best->simulation ||
        simulation->info.throughput_samples_per_s > best->simulation->info.throughput_samples_per_s * BETTER)
        return keep(trial, method, &partition, simulation, best, error);
    ps_simulation_destroy(simulation);
    return PS_OK;
}

/* Counts what the stages of the cut need, together on each worker. Returns the largest share of its memory that a worker needs;
 * *fullest: which. */
static double count_needs(struct trial *trial, int *fullest) {
    const struct ps_programs *programs = trial->programs;
    double most = 0;
    for (int w = 0; w < trial->tried->workers; w++) trial->needs[w] = 0;
    for (int p = 0; p < programs->instance_count; p++) {
        int s = programs->instances[p].stage, worker = programs->instances[p].worker;
        struct worker_memory memory = partition_memory(&trial->problem, s, partition_first(trial->last, s), trial->last[s]);
        int64_t limit = trial->search->cluster->devices[worker].memory_bytes;
        trial->needs[worker] += worker_memory_total(&memory);
        double share = limit > 0 ? (double)trial->needs[worker] / (double)limit : 0;
        if (share > most) most = share, *fullest = worker;
    }
    return most;
}

/* Moves layers from stage to stage at the fullest worker, each time the one after which the then fullest needs least, until the
 * cut fits; false: no move helps. */
static bool make_fit(struct trial *trial) {
    int *last = trial->last, fullest = 0, other;
    for (double share = count_needs(trial, &fullest); share > 1; share = count_needs(trial, &fullest)) {
        int moved = 0, by = 0;
        for (int m = 0; m < 2 * (trial->problem.stages - 1); m++) {
            int s = m / 2, step = m % 2 ? 1 : -1;
            if (programs_instance(trial->programs, fullest, s) == NO_INSTANCE &&
                programs_instance(trial->programs, fullest, s + 1) == NO_INSTANCE)
                continue;
            last[s] += step;
            double then = last[s] >= partition_first(last, s) && last[s] < last[s + 1] ? count_needs(trial, &other) : share;
            last[s] -= step;
            if (then < share) share = then, moved = s, by = step;
        }
        if (by == 0) return false;
        last[moved] += by;
    }
    return true;
}

/* Divides each worker's memory among its stages, evenly or in proportion to what they need in the cut. */
static void divide(struct trial *trial, bool evenly) {
    const struct ps_programs *programs = trial->programs;
    int fullest;
    count_needs(trial, &fullest);
    for (int s = 0; s < programs->stages; s++) {
        int worker = trial->worker[s], count = 0;
        struct worker_memory memory = partition_memory(&trial->problem, s, partition_first(trial->last, s), trial->last[s]);
        for (int p = 0; p < programs->instance_count; p++) count += programs->instances[p].worker == worker;
        trial->share[s] = evenly ? 1.0 / count : (double)worker_memory_total(&memory) / (double)trial->needs[worker];
    }
}

/* The stages of a worker share its memory, but methods know a limit for each stage alone. They first get all of it: if the cut
 * fits, it is the best of the method's class. Else it is changed until it fits, and the memory divided as it is there. An even
 * division is tried in any case. */
static enum ps_status try_method(struct trial *trial, const struct partitioner *method, struct search_best *best,
                                 struct ps_error *error) {
    struct ps_error said = {0};
    bool cut;
    trial->problem.share = NULL;
    enum ps_status status = try_cut(trial, method, &cut, best, error), one = status;
    if (!trial->share || !cut) return status;
    const bool fits = status == PS_OK;
    for (int evenly = 0; evenly < 2 && (one == PS_OK || one == PS_NO_PLAN); evenly++) {
        if (!evenly && (fits || !make_fit(trial))) continue;
        divide(trial, evenly);
        trial->problem.share = trial->share;
        one = try_cut(trial, method, &cut, best, &said);
        if (one == PS_OK) status = PS_OK;
    }
    if (one == PS_OK || one == PS_NO_PLAN) return status;
    *error = said;
    return one;
}

/* A method that finds nothing does not stop the others; the first such refusal is reported if all find nothing. */
static enum ps_status try_methods(struct trial *trial, struct search_best *best, struct ps_error *error) {
    struct ps_error refusal = {0}, later = {0};
    const char *wanted = trial->search->options->method;
    bool found = false, fewer = trial->tried->workers < trial->search->cluster->workers;
    if (!wanted && fewer && !search_is_quick(trial->search)) wanted = "pipedream";
    for (int m = 0; partitioner_table[m]; m++) {
        if (!search_is_auto(wanted) && strcmp(wanted, partitioner_table[m]->name) != 0) continue;
        struct ps_error *said = refusal.status == PS_OK ? &refusal : &later;
        enum ps_status status = try_method(trial, partitioner_table[m], best, said);
        found = found || status == PS_OK;
        if (status == PS_OK || status == PS_NO_PLAN) continue;
        if (error) *error = *said;
        return status;
    }
    if (found) return PS_OK;
    if (error) *error = refusal;
    return PS_NO_PLAN;
}

static enum ps_status prepare(struct trial *trial, struct ps_error *error) {
    const struct search_case *tried = trial->tried;
    const struct search_choice *choice = &tried->choice;
    int moments;
    TRY(policy_moments(choice->policy->name, trial->search->optimizer, &moments, error));
    struct straight straight = search_straight(choice, tried->workers);
    straight.recompute = tried->recompute;
    straight.tied = cost_table_ends_tied(tried->costs);
    TRY(lower_straight(&straight, &trial->programs, error));
    size_t stages = (size_t)trial->programs->stages;
    trial->last = arena_take(&trial->arena, stages, sizeof *trial->last);
    trial->costs = arena_take(&trial->arena, stages, sizeof *trial->costs);
    trial->worker = arena_take(&trial->arena, stages, sizeof *trial->worker);
    trial->slots = arena_take(&trial->arena, stages, sizeof *trial->slots);
    trial->needs = arena_take(&trial->arena, (size_t)tried->workers, sizeof *trial->needs);
    if (search_has_limit(trial->search->cluster, tried->workers) && trial->programs->instance_count > tried->workers)
        trial->share = arena_take(&trial->arena, stages, sizeof *trial->share);
    if (tried->costs->other_device && trial->programs->instance_count > trial->programs->stages)
        trial->instances = arena_take(&trial->arena, (size_t)trial->programs->instance_count, sizeof *trial->instances);
    TRY(arena_check(&trial->arena, "a search", error));
    for (int s = 0; s < trial->programs->stages; s++) {
        trial->worker[s] = programs_worker(trial->programs, s);
        trial->slots[s] = trial->programs->slots[trial->programs->first_instance[s]];
    }
    trial->problem = (struct partition_problem){
        .costs = tried->costs,
        .cluster = trial->search->cluster,
        .worker = trial->worker,
        .stages = trial->programs->stages,
        .slots = trial->slots,
        .moments = moments,
        .recompute = tried->recompute,
    };
    trial->work = (struct simulation_work){
        .programs = trial->programs,
        .costs = trial->costs,
        .instance_costs = trial->instances,
        .cluster = trial->search->cluster,
        .samples = tried->costs->micro_batch,
        .moments = moments,
    };
    return PS_OK;
}

enum ps_status search_case_try(const struct search *search, const struct search_case *tried, double *bound_s,
                               struct search_best *best, struct ps_error *error) {
    struct trial trial = {.search = search, .tried = tried, .lower_bound_s = *bound_s};
    enum ps_status status = prepare(&trial, error);
    if (status == PS_OK) status = try_methods(&trial, best, error);
    *bound_s = trial.lower_bound_s;
    arena_release(&trial.arena);
    ps_programs_destroy(trial.programs);
    return status;
}

static struct partition_problem case_problem(const struct search *search, const struct search_best *best, int stage) {
    return (struct partition_problem){
        .costs = best->chosen.costs,
        .cluster = search->cluster,
        .worker = best->worker,
        .stages = best->stages,
        .slots = best->slots,
        .moments = best->moments,
        .recompute = best->recompute[stage],
    };
}

/* How much smaller the objective would be without memory limits; 0: not at all. */
static double memory_gain_s(const struct search *search, const struct search_best *best) {
    struct partition_problem problem = case_problem(search, best, 0);
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

static void fill_prediction(const struct search *search, const struct search_best *best, const struct ps_simulation *simulation,
                            struct ps_plan *plan) {
    struct plan_prediction *prediction = &plan->predicted;
    prediction->known = prediction->simulated = true;
    prediction->objective_s = best->objective_s;
    search_set_bound(prediction, best->lower_bound_s);
    search_take_simulation(simulation, prediction);
    for (int s = 0; s < best->stages; s++) {
        struct partition_problem problem = case_problem(search, best, s);
        double load_s = partition_load_s(&problem, s, partition_first(best->last, s), best->last[s]) / replicas_of(best);
        for (int r = 0; r < replicas_of(best); r++) prediction->load_s[replica_worker(best, s, r)] += load_s;
    }
    search_relax_beaten_bound(search_case_least_s(search, &best->chosen), plan);
    search_explain(search, simulation, memory_gain_s(search, best), plan);
    prediction->solve_s = clock_now() - search->start_s;
}

static enum ps_status set_stage(const struct search_best *best, int s, struct ps_plan *plan, struct ps_error *error) {
    enum { REPLICAS_MAX = 8 }; /* the most that a schedule has */
    int workers[REPLICAS_MAX], replicas = replicas_of(best);
    assert(replicas <= REPLICAS_MAX);
    for (int r = 0; r < replicas; r++) workers[r] = replica_worker(best, s, r);
    TRY(plan_stage_workers(plan, s, workers, replicas, workers, replicas, error));
    plan->stages[s].first = partition_first(best->last, s);
    plan->stages[s].last = best->last[s];
    plan->stages[s].recompute = best->recompute[s];
    return PS_OK;
}

enum ps_status search_case_plan(const struct search *search, const struct search_best *best, struct ps_plan **plan,
                                struct ps_error *error) {
    struct ps_plan *made;
    const struct search_case *chosen = &best->chosen;
    int workers =
        search->options->method && search_is_auto(search->options->method) ? chosen->workers : search->cluster->workers;
    TRY(search_plan_create(search, &chosen->choice, chosen->costs, best->method->name, workers, best->stages, &made, error));
    enum ps_status status = PS_OK;
    for (int s = 0; s < best->stages && status == PS_OK; s++) status = set_stage(best, s, made, error);
    if (status == PS_OK && chosen->choice.schedule->in_flight) {
        struct partition_problem problem = case_problem(search, best, 0);
        status = set_in_flight(&problem, best->last, best->groups_s, made, error);
    }
    if (status == PS_OK) status = plan_check(made, chosen->costs->layer_count, error);
    if (status != PS_OK) {
        ps_plan_destroy(made);
        return status;
    }
    /* The case has only the workers that are busy. */
    struct ps_simulation *whole = NULL;
    if (best->simulation->info.workers < workers)
        status = simulate_figures(made, search->profile, search->cluster, 0, &whole, error);
    if (status == PS_OK) {
        fill_prediction(search, best, whole ? whole : best->simulation, made);
        *plan = made;
    } else {
        ps_plan_destroy(made);
    }
    ps_simulation_destroy(whole);
    return status;
}

/* Recomputation only for the stages that need it. A plan that recomputes all stages is simulated again without recomputation in
 * the stages that fit their worker's memory without it, and is replaced if that is faster and fits. */

/* Marks the stages of the plan that fit without recomputation; false: there are none. */
static bool mark_relaxed(const struct search *search, const struct search_best *best, const struct ps_programs *bare,
                         struct ps_plan *plan) {
    bool any = false;
    for (int s = 0; s < plan->stage_count; s++) {
        const struct cluster_device *device = &search->cluster->devices[best->worker[s]];
        const struct cost_table *costs = cost_table_on(best->chosen.costs, device->type);
        struct stage_cost cost = stage_cost(costs, plan->stages[s].first, plan->stages[s].last);
        struct worker_memory memory = stage_memory(&cost.size, &bare->slots[bare->first_instance[s]], best->moments);
        int64_t limit = device->memory_bytes;
        if (limit > 0 && worker_memory_total(&memory) > limit) continue;
        plan->stages[s].recompute = false;
        any = true;
    }
    return any;
}

/* Replaces the best plan if the simulated one is faster and fits. */
static void take_relaxed(const struct search *search, const struct ps_plan *plan, struct ps_simulation *simulation,
                         struct search_best *best) {
    bool better = simulation->info.throughput_samples_per_s > best->simulation->info.throughput_samples_per_s;
    for (int w = 0; w < plan->workers; w++) {
        int64_t limit = search->cluster->devices[w].memory_bytes;
        better = better && (limit == 0 || worker_memory_total(&simulation->memory[w]) <= limit);
    }
    if (!better) {
        ps_simulation_destroy(simulation);
        return;
    }
    ps_simulation_destroy(best->simulation);
    best->simulation = simulation;
    best->objective_s = 0;
    for (int s = 0; s < plan->stage_count; s++) {
        best->recompute[s] = plan->stages[s].recompute;
        struct partition_problem problem = case_problem(search, best, s);
        double stage_s = partition_stage_s(&problem, s, plan->stages[s].first, plan->stages[s].last);
        if (stage_s > best->objective_s) best->objective_s = stage_s;
    }
    struct search_case bare = best->chosen;
    bare.recompute = false;
    best->lower_bound_s = search_case_stage_least_s(search, &bare, best->worker, best->stages);
}

enum ps_status search_case_relax(const struct search *search, struct search_best *best, struct ps_error *error) {
    struct straight straight = search_straight(&best->chosen.choice, best->chosen.workers);
    struct ps_programs *bare = NULL;
    struct ps_plan *plan = NULL;
    struct ps_simulation *simulation;
    enum ps_status status;
    TRY_OUT(lower_straight(&straight, &bare, error));
    TRY_OUT(search_case_plan(search, best, &plan, error));
    if (!mark_relaxed(search, best, bare, plan)) goto out;
    TRY_OUT(simulate_figures(plan, search->profile, search->cluster, 0, &simulation, error));
    take_relaxed(search, plan, simulation, best);
out:
    ps_programs_destroy(bare);
    ps_plan_destroy(plan);
    return status;
}
