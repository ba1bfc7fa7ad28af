/*
 * The search for a plan. Cases are tried in this order: the default schedule first, all workers before fewer. A case whose
 * bound (total work divided by its workers, largest layer) is no better than the best plan is skipped. With memory limits all
 * cases are tried again with recomputation, which is then removed from stages that fit without it. The planners
 * (planner_plans.c) come last.
 */
#include "search/search.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "base/number.h"
#include "base/text.h"
#include "base/versioned.h"
#include "program/lower.h"

/* The combinations of schedule and weight policy if the user leaves them open. */

#define SCHEDULE_ASYNCHRONOUS "1f1b-async"
#define SCHEDULE_SYNCHRONOUS "1f1b"
#define POLICY_ASYNCHRONOUS "pipeoptim"

bool search_is_auto(const char *name) { return !name || strcmp(name, "auto") == 0; }

bool search_is_bapipe(const char *name) { return name && strcmp(name, "bapipe") == 0; }

static bool says_auto(const char *name) { return name && search_is_auto(name); }

enum ps_status search_choose(const struct ps_plan_options *options, int workers, struct search_choice *choice,
                             struct ps_error *error) {
    const char *schedule = search_is_auto(options->schedule) ? SCHEDULE_ASYNCHRONOUS : options->schedule;
    const char *policy = search_is_auto(options->weights) ? POLICY_ASYNCHRONOUS : options->weights;
    struct search_choice made = {0};
    TRY(schedule_find(schedule, &made.schedule, error));
    TRY(policy_find(policy, &made.policy, error));
    if (search_is_auto(options->weights) && made.schedule->flush) TRY(policy_find(POLICY_SYNCHRONOUS, &made.policy, error));
    if (search_is_auto(options->schedule) && made.policy->needs_flush)
        TRY(schedule_find(SCHEDULE_SYNCHRONOUS, &made.schedule, error));
    made.slack = options->slack;
    int stages = schedule_stages(made.schedule, workers);
    TRY(schedule_check_slack(made.schedule, stages, made.slack, error));
    made.micro_batches = options->micro_batches;
    if (made.micro_batches == 0) {
        made.micro_batches = made.schedule->micro_batches(workers);
        const int held = stages + made.slack * (stages - 1);
        if (made.policy->group_of_workers && made.micro_batches < held) made.micro_batches = held;
    }
    TRY(lower_check(made.schedule->name, made.policy->name, stages, made.micro_batches, error));
    *choice = made;
    return PS_OK;
}

enum ps_status search_plan_create(const struct search *search, const struct search_choice *choice,
                                  const struct cost_table *costs, const char *method, int workers, int stages,
                                  struct ps_plan **plan, struct ps_error *error) {
    struct ps_plan *made;
    TRY(plan_create(workers, stages, &made, error));
    snprintf(made->model, sizeof made->model, "%s", search->profile->model);
    memcpy(made->network, search->profile->network, sizeof made->network);
    snprintf(made->method, sizeof made->method, "%s", method);
    snprintf(made->schedule, sizeof made->schedule, "%s", choice->schedule->name);
    snprintf(made->weights, sizeof made->weights, "%s", choice->policy->name);
    snprintf(made->optimizer, sizeof made->optimizer, "%s", search->optimizer);
    made->micro_batch = costs->micro_batch;
    made->micro_batches = choice->micro_batches;
    made->slack = choice->slack;
    made->paper_prediction = search->options->paper_prediction;
    enum ps_status status = plan_ties_set(made, cost_table_ends_tied(costs), costs->ties, error);
    if (status == PS_OK)
        *plan = made;
    else
        ps_plan_destroy(made);
    return status;
}

struct straight search_straight(const struct search_choice *choice, int workers) {
    return (struct straight){
        .schedule = choice->schedule->name,
        .policy = choice->policy->name,
        .workers = workers,
        .micro_batches = choice->micro_batches,
        .slack = choice->slack,
        .batches = simulate_enough_batches(choice->schedule, workers + choice->slack * (workers - 1), choice->micro_batches)};
}

struct ps_plan_options search_tied(const struct ps_plan_options *options, bool tied, int workers) {
    struct ps_plan_options chosen = *options;
    if (tied && workers > 1 && search_is_auto(options->schedule) && !options->weights) chosen.weights = POLICY_SYNCHRONOUS;
    return chosen;
}

/* Whether a schedule is proposed where the user leaves it open. */
static bool proposes(const struct ps_plan_options *options, bool streams, const struct schedule *schedule) {
    if (search_is_bapipe(options->method) && schedule->flush) return schedule->bapipe && schedule->streaming == streams;
    return streams || !schedule->streaming;
}

enum ps_status search_pairs(const struct ps_plan_options *options, int workers, bool streams, struct search_pair *pairs,
                            int *count, struct ps_error *error) {
    struct search_choice first;
    struct search_pair synchronous;
    TRY(search_choose(options, workers, &first, error));
    TRY(policy_find(POLICY_SYNCHRONOUS, &synchronous.policy, error));
    pairs[0] = (struct search_pair){first.schedule, first.policy};
    *count = 1;
    bool both = says_auto(options->weights);
    if (!says_auto(options->schedule) && !(both && !options->schedule)) return PS_OK;
    *count = proposes(options, streams, first.schedule);
    for (int s = 0; schedule_table[s] && *count < SEARCH_PAIRS_MAX; s++) {
        const struct schedule *schedule = schedule_table[s];
        if (schedule == first.schedule || (!both && schedule->flush != first.policy->needs_flush)) continue;
        if (!proposes(options, streams, schedule)) continue;
        pairs[(*count)++] = (struct search_pair){schedule, both && schedule->flush ? synchronous.policy : first.policy};
    }
    return PS_OK;
}

static enum ps_status batch_sizes(const struct search *search, struct search_size *sizes, int *count, struct ps_error *error) {
    const struct ps_plan_options *options = search->options;
    *count = 0;
    for (int t = search->profile->table_count - 1; t >= 0 && *count < SEARCH_SIZES_MAX; t--) {
        const struct cost_table *costs = &search->profile->tables[t];
        if (costs->micro_batch == 0 || options->batch % costs->micro_batch != 0) continue;
        int micro_batches = options->batch / costs->micro_batch;
        if (options->micro_batch > 0 && costs->micro_batch != options->micro_batch) continue;
        if (options->micro_batches > 0 && micro_batches != options->micro_batches) continue;
        sizes[(*count)++] = (struct search_size){costs, micro_batches};
    }
    if (*count > 0) return PS_OK;
    return error_set(error, PS_USAGE, "`batch`: %d samples are not divisible into micro-batches of a size that was profiled%s",
                     options->batch, options->micro_batch + options->micro_batches > 0 ? " and requested" : "");
}

enum ps_status search_sizes(const struct search *search, struct search_size *sizes, int *count, struct ps_error *error) {
    const struct ps_plan_options *options = search->options;
    if (options->batch < 0) return error_set(error, PS_USAGE, "`batch`: %d is negative", options->batch);
    if (options->batch > 0) return batch_sizes(search, sizes, count, error);
    *count = 1;
    sizes[0].micro_batches = options->micro_batches;
    return profile_table(search->profile, options->micro_batch, &sizes[0].costs, error);
}

bool search_is_quick(const struct search *search) {
    enum { WORK_MAX = 1000000, WORK_WITH_LIMITS = 4 };
    double layers = search->profile->tables[0].layer_count, work = layers * layers * search->cluster->workers;
    if (search->options->batch > 0) work *= search->profile->table_count;
    return (search_has_limit(search->cluster, search->cluster->workers) ? WORK_WITH_LIMITS : 1) * work <= WORK_MAX;
}

/* Whether plans on fewer workers are tried, too. */
static bool leaves_idle(const struct ps_plan_options *options) {
    const struct partitioner *named;
    if (search_is_auto(options->method)) return true;
    return partitioner_find(options->method, &named, NULL) == PS_OK && named->leaves_idle;
}

bool search_may_replicate(const char *method) {
    const struct planner *planner = search_is_auto(method) ? NULL : planner_find(method);
    bool named = search_is_bapipe(method) || (method && strcmp(method, planner_pipedream.name) == 0);
    return search_is_auto(method) || (planner ? planner->replicates : named);
}

/* The best plan of one schedule, policy and size. The mini-batch is the same for every number of workers. */
static enum ps_status try_pair(const struct search *search, const struct search_pair *pair, const struct search_size *size,
                               bool recompute, struct search_best *best, struct ps_error *error) {
    struct ps_plan_options options = {.schedule = pair->schedule->name,
                                      .weights = pair->policy->name,
                                      .micro_batches = size->micro_batches,
                                      .slack = search->options->slack};
    struct search_case tried = {.costs = size->costs, .workers = search->cluster->workers, .recompute = recompute};
    bool free_to = leaves_idle(search->options);
    double bound_s = 0;
    if (search->near) tried.workers = plan_busy_workers(search->near);
    int fewest = free_to && !search->near ? 1 : tried.workers;
    struct ps_error refusal = {0}, said = {0};
    TRY(search_choose(&options, tried.workers, &tried.choice, error));
    if (search->workers > 0) fewest = tried.workers = search->workers;
    /* Each worker needs a layer of its own. */
    if (free_to && tried.workers > size->costs->layer_count) tried.workers = size->costs->layer_count;
    for (; tried.workers >= fewest; tried.workers--) {
        double bound = search_case_bound(search, &tried);
        /* With fewer workers the bound is no larger. */
        if (best->simulation && bound <= best->simulation->info.throughput_samples_per_s) break;
        enum ps_status status = search_case_try(search, &tried, &bound_s, best, &said);
        if (refusal.status == PS_OK) refusal = said;
        bool other = tried.workers < search->cluster->workers; /* the schedule may not support fewer */
        if (status == PS_OK || status == PS_NO_PLAN || (status == PS_USAGE && other)) continue;
        if (error) *error = said;
        return status;
    }
    const struct search_case *chosen = &best->chosen;
    /* Where the plan leaves workers idle, one of more workers may have a smaller objective, and yet be slower. */
    if (chosen->choice.schedule == pair->schedule && chosen->choice.policy == pair->policy && chosen->costs == size->costs)
        best->lower_bound_s = bound_s;
    if (best->simulation) return PS_OK;
    if (error) *error = refusal;
    return PS_NO_PLAN;
}

/* An impossible combination is an error only if it is the only one. */
static enum ps_status try_all(const struct search *search, bool recompute, struct search_best *best, struct ps_error *error) {
    struct search_pair pairs[SEARCH_PAIRS_MAX];
    struct search_size sizes[SEARCH_SIZES_MAX];
    int pair_count, size_count;
    struct ps_error refusal = {0}, said = {0};
    TRY(search_pairs(search->options, search->cluster->workers, search->cluster->streaming, pairs, &pair_count, error));
    TRY(search_sizes(search, sizes, &size_count, error));
    for (int p = 0; p < pair_count; p++)
        for (int s = 0; s < size_count; s++) {
            enum ps_status status = try_pair(search, &pairs[p], &sizes[s], recompute, best, &said);
            if (status == PS_OK) continue;
            if (refusal.status != PS_NO_PLAN) refusal = said;
            if (status == PS_NO_PLAN || (status == PS_USAGE && pair_count * size_count > 1)) continue;
            if (error) *error = said;
            return status;
        }
    if (best->simulation) return PS_OK;
    if (error) *error = refusal;
    return refusal.status;
}

/* With recomputation less has to fit; it is removed from stages that fit without it, which may change which number of workers
 * is best. */
static enum ps_status try_recomputing(const struct search *search, struct search_best *best, struct ps_error *error) {
    const int most = search->near ? 1 : (int)number_smaller(search->cluster->workers, search->profile->tables[0].layer_count);
    enum ps_status found = PS_NO_PLAN;
    double bound_s = best->simulation ? best->lower_bound_s : INFINITY;
    bool replaced = false;
    for (int workers = most; workers >= 1; workers--) {
        struct search one = *search;
        struct search_best other = {0};
        struct ps_error said = {0};
        if (!search->near) one.workers = workers;
        enum ps_status status = try_all(&one, true, &other, &said);
        if (status == PS_OK) status = search_case_relax(search, &other, &said);
        if (status == PS_OK) bound_s = fmin(bound_s, other.lower_bound_s);
        if (status == PS_OK && (!best->simulation || other.simulation->info.throughput_samples_per_s >
                                                         best->simulation->info.throughput_samples_per_s)) {
            search_best_free(best);
            *best = other;
            replaced = true;
        } else {
            search_best_free(&other);
        }
        if (status == PS_OK) found = PS_OK;
        if (status == PS_OK || status == PS_NO_PLAN || status == PS_USAGE) continue;
        if (error) *error = said;
        return status;
    }
    if (replaced) best->lower_bound_s = bound_s;
    return found;
}

/* With a pattern, if one is wanted. */
static enum ps_status case_plan(const struct search *search, const struct search_best *best, struct ps_plan **plan,
                                struct ps_error *error) {
    struct ps_plan *made;
    TRY(search_case_plan(search, best, &made, error));
    if (search_wants_pattern(search->options)) {
        enum ps_status status = search_deepen(search, search_update_share(&best->chosen.choice), &made, error);
        if (status != PS_OK) {
            ps_plan_destroy(made);
            return status;
        }
        search_relax_beaten_bound(search_case_least_s(search, &best->chosen), made);
    }
    *plan = made;
    return PS_OK;
}

enum ps_status search_partitioners(const struct search *search, struct ps_plan **plan, struct ps_error *error) {
    struct search_best best = {0};
    struct ps_error refusal = {0}, again = {0}; /* the second is set only if it is no refusal */
    bool recompute = search->options->recompute, may = !recompute && search_is_auto(search->options->method);
    enum ps_status status = try_all(search, recompute, &best, &refusal);
    if (may && (status == PS_NO_PLAN || (status == PS_OK && search_has_limit(search->cluster, search->cluster->workers)))) {
        enum ps_status other = try_recomputing(search, &best, &again);
        if (status == PS_NO_PLAN) status = other;
    }
    if (status == PS_OK) {
        status = case_plan(search, &best, plan, error);
    } else {
        if (error) *error = again.status == PS_OK ? refusal : again;
    }
    search_best_free(&best);
    return status;
}

/* Without replicas every worker needs a layer of its own, unless some may be idle. */
static enum ps_status check_layers(const struct search *search, struct ps_error *error) {
    int layers = search->profile->tables[0].layer_count, workers = search->cluster->workers;
    if (layers >= workers || leaves_idle(search->options)) return PS_OK;
    return error_set(error, PS_NO_PLAN, "%d workers are more than %s has %s (%d); each needs at least one", workers,
                     search->profile->model, search->profile->tables[0].group_last ? "modules" : "layers", layers);
}

/* With `auto`, the planners' plans are searched, too. */
static enum ps_status search_all(const struct search *search, struct ps_plan **plan, struct ps_error *error) {
    struct ps_error refusal = {0};
    struct ps_plan *best = NULL;
    enum ps_status status = check_layers(search, &refusal);
    if (status != PS_OK && !search->options->replicate) {
        if (error) *error = refusal;
        return status;
    }
    if (status == PS_OK) status = search_partitioners(search, &best, &refusal);
    bool planners = search_is_auto(search->options->method) || search->options->replicate;
    if (planners && (status == PS_OK || status == PS_NO_PLAN)) {
        enum ps_status other = search_planners(search, &best, error);
        if (other != PS_OK) {
            ps_plan_destroy(best);
            return other;
        }
        if (best) status = PS_OK;
    }
    if (status == PS_OK) {
        *plan = best;
    } else if (error) {
        *error = refusal;
    }
    return status;
}

void search_take_simulation(const struct ps_simulation *simulation, struct plan_prediction *predicted) {
    predicted->period_s = simulation->info.period_s;
    predicted->throughput_samples_per_s = simulation->info.throughput_samples_per_s;
    predicted->bubble = simulation->info.bubble;
    for (int w = 0; w < simulation->info.workers; w++) predicted->memory[w] = simulation->memory[w];
}

/* A profile of groups as well as one of layers; `near`: struct search. */
static enum ps_status plan_layers(const struct ps_profile *profile, const struct ps_cluster *cluster,
                                  const struct ps_plan_options *options, const struct ps_plan *near, struct ps_plan **plan,
                                  struct ps_error *error) {
    const struct ps_plan_options chosen = search_tied(options, cost_table_tied(&profile->tables[0]), cluster->workers);
    const struct search search = {
        .options = &chosen,
        .profile = profile,
        .cluster = cluster,
        .optimizer = options->optimizer ? options->optimizer : OPTIMIZER_DEFAULT,
        .start_s = clock_now(),
        .near = near,
    };
    TRY(cluster_check_types(cluster, &profile->tables[0], error));
    const struct planner *planner = search_is_auto(options->method) ? NULL : planner_find(options->method);
    if (planner) return search_planner(&search, planner, plan, error);
    const struct partitioner *named;
    if (!search_is_auto(options->method)) TRY(partitioner_find(options->method, &named, error));
    if (options->replicate && !search_may_replicate(options->method))
        return error_set(error, PS_USAGE, "`replicate`: method %s has no replicas; " SEARCH_REPLICATING " have",
                         options->method);
    if (options->replicate && !search_is_auto(options->method) && !search_is_bapipe(options->method))
        return search_planner(&search, &planner_pipedream, plan, error);
    if (options->paper_cost)
        return error_set(error, PS_USAGE, "`paper_cost`: method %s has no other costs; bipartition and madpipe have",
                         options->method ? options->method : "auto");
    return search_all(&search, plan, error);
}

static bool better_plan(const struct ps_plan *plan, const struct ps_plan *other) {
    const struct plan_prediction *one = &plan->predicted, *two = &other->predicted;
    if (one->simulated != two->simulated) return one->simulated;
    return one->simulated ? one->throughput_samples_per_s > two->throughput_samples_per_s : one->objective_s < two->objective_s;
}

/* Plans groups of layers; the plan replaces *best, a plan of layers (NULL: there is none yet), if it is better. */
static enum ps_status plan_groups(const struct ps_profile *grouped, const struct ps_profile *profile,
                                  const struct ps_cluster *cluster, const struct ps_plan_options *options,
                                  struct ps_plan **best, struct ps_error *error) {
    struct ps_plan *made = NULL;
    enum ps_status status = plan_layers(grouped, cluster, options, *best, &made, error);
    if (status == PS_OK) status = search_ungroup(grouped, profile, cluster, options->replicate, made, error);
    if (status == PS_NO_PLAN && *best) return PS_OK;
    if (status == PS_OK && *best) made->predicted.solve_s += (*best)->predicted.solve_s;
    if (status == PS_OK && (!*best || better_plan(made, *best))) {
        ps_plan_destroy(*best);
        *best = made;
        made = NULL;
    }
    ps_plan_destroy(made);
    return status;
}

/* Networks of thousands of layers are planned twice: between groups of their layers, and between smaller ones where the first
 * plan is cut. */
static enum ps_status find_plan(const struct ps_profile *profile, const struct ps_cluster *cluster,
                                const struct ps_plan_options *options, struct ps_plan **plan, struct ps_error *error) {
    struct ps_profile *grouped;
    struct ps_plan *best = NULL;
    TRY(search_group(profile, cluster, options->module_depth, NULL, &grouped, error));
    if (!grouped) return plan_layers(profile, cluster, options, NULL, plan, error);
    enum ps_status status = plan_groups(grouped, profile, cluster, options, &best, error);
    ps_profile_destroy(grouped);
    if (status == PS_OK) status = search_group(profile, cluster, options->module_depth, best, &grouped, error);
    if (status == PS_OK && grouped) {
        status = plan_groups(grouped, profile, cluster, options, &best, error);
        ps_profile_destroy(grouped);
    }
    if (status == PS_OK)
        *plan = best;
    else
        ps_plan_destroy(best);
    return status;
}

static const struct field option_list[] = {
    FIELD(ps_plan_options, method, FIELD_TEXT),           FIELD(ps_plan_options, schedule, FIELD_TEXT),
    FIELD(ps_plan_options, weights, FIELD_TEXT),          FIELD(ps_plan_options, micro_batch, FIELD_INT),
    FIELD(ps_plan_options, micro_batches, FIELD_INT),     FIELD(ps_plan_options, recompute, FIELD_BOOL),
    FIELD(ps_plan_options, paper_prediction, FIELD_BOOL), FIELD(ps_plan_options, replicate, FIELD_BOOL),
    FIELD(ps_plan_options, paper_cost, FIELD_BOOL),       FIELD(ps_plan_options, wire, FIELD_TEXT),
    FIELD(ps_plan_options, module_depth, FIELD_INT),      FIELD(ps_plan_options, slack, FIELD_INT),
};
const struct fields search_option_fields = FIELDS(option_list);

void ps_plan_options_init(struct ps_plan_options *options) {
    *options = (struct ps_plan_options){.struct_size = sizeof *options};
}

static enum ps_status take_options(const struct ps_plan_options *options, struct ps_plan_options *own, struct ps_error *error) {
    *own = (struct ps_plan_options){0};
    TRY(VERSIONED_TAKE(ps_plan_options, options, own, error));
    if (own->module_depth < 0) return error_set(error, PS_USAGE, "`module_depth`: %d is negative", own->module_depth);
    if (own->slack < 0 || own->slack > PLAN_SLACK_MAX)
        return error_set(error, PS_USAGE, "`slack`: %d is not from 0 to %d", own->slack, PLAN_SLACK_MAX);
    return log_check(own->log, error);
}

/* What the user may not have meant. */
static void say_of_plan(const struct ps_plan *plan, const struct ps_plan_options *options, int workers) {
    const struct planner *planner = search_is_auto(options->method) ? NULL : planner_find(options->method);
    const int idle = workers - plan_busy_workers(plan);
    int recomputing = 0;
    for (int s = 0; s < plan->stage_count; s++) recomputing += plan->stages[s].recompute;
    if (recomputing > 0 && !options->recompute) log_info("memory: stages recompute their forward");
    if (idle > 0 && !(planner && planner->baseline))
        log_info("%d of %d workers idle: a cut there costs more than it gains", idle, workers);
}

enum ps_status search_find_plan(const struct ps_profile *profile, const struct ps_cluster *cluster,
                                const struct ps_plan_options *options, struct ps_plan **plan, struct ps_error *error) {
    struct ps_plan_options own;
    TRY(take_options(options, &own, error));
    const struct ps_log_sink *log = log_use(own.log);
    enum ps_status status = search_wire(profile, cluster, &own, find_plan, plan, error);
    if (status == PS_OK) say_of_plan(*plan, &own, cluster->workers);
    log_restore(log);
    return status;
}

static void warn_memory(const struct ps_plan *plan) {
    const struct host_memory memory = host_memory_read();
    int64_t needed = 0;
    char whose[64];
    for (int w = 0; plan->predicted.simulated && w < plan->workers; w++)
        needed += worker_memory_total(&plan->predicted.memory[w]);
    snprintf(whose, sizeof whose, "by this plan %d worker%s need%s", plan->workers, text_plural(plan->workers),
             plan->workers == 1 ? "s" : "");
    host_memory_warn(&memory, needed, whose);
}

enum ps_status ps_plan_find(const struct ps_profile *profile, const struct ps_cluster *cluster,
                            const struct ps_plan_options *options, struct ps_plan **plan, struct ps_error *error) {
    struct ps_plan_options own;
    TRY(take_options(options, &own, error));
    const struct ps_log_sink *log = log_use(own.log);
    enum ps_status status = search_wire(profile, cluster, &own, find_plan, plan, error);
    if (status == PS_OK) say_of_plan(*plan, &own, cluster->workers);
    if (status == PS_OK && cluster->here) warn_memory(*plan);
    if (status == PS_OK) search_say_one_worker(profile, cluster, &own, find_plan, *plan);
    if (status == PS_NO_PLAN && error) search_hint_fits(profile, cluster, &own, find_plan, error);
    log_restore(log);
    return status;
}
