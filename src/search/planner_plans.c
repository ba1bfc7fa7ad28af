/*
 * Plans of the planners (plan/planner.h): stages with replicas, with forward and backward on different workers, several on one
 * worker, or cut along another order than the chain's. A plan whose stages, with or without replicas, each have workers of
 * their own is simulated. The others have only the method's objective.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/text.h"
#include "program/lower.h"
#include "search/search.h"

/* What is kept between planners that are asked again and again. */
struct search_notes {
    struct straight of;
    struct ps_programs *straight; /* the pipeline that was lowered last; NULL: none */
    int replicas;                 /* of the stage that has most, in all answers since this was 0 */
};

static int most_replicas(const struct planner_answer *answer) {
    int most = 0;
    for (int s = 0; s < answer->stage_count; s++) most = (int)number_larger(most, number_larger(answer->stages[s].replicas, 1));
    return most;
}

static enum ps_status check_options(const struct search *search, const struct planner *planner, struct ps_error *error) {
    const struct ps_plan_options *options = search->options;
    if (options->recompute)
        return error_set(error, PS_USAGE, "`recompute`: method %s plans without recomputation", planner->name);
    if (planner->own_schedule && !search_is_auto(options->schedule) && !search_wants_pattern(options))
        return error_set(error, PS_USAGE, "`schedule` %s: method %s has a schedule of its own; omit the option",
                         options->schedule, planner->name);
    if (options->replicate && !planner->replicates)
        return error_set(error, PS_USAGE, "`replicate`: method %s has no replicas; " SEARCH_REPLICATING " have", planner->name);
    if (planner->only_replicas && !options->replicate)
        return error_set(error, PS_USAGE, "`method` %s: gives every worker a replica; allow replicas with `replicate`",
                         planner->name);
    return PS_OK;
}

/* The layers in the order of the answer's nodes, and the last layer of each stage in it. Nodes without time belong to a
 * layer. */
static int order_layers(const struct costgraph *graph, const struct planner_answer *answer, int *layers, int *end) {
    int count = 0;
    for (int s = 0; s < answer->stage_count; s++) {
        for (int n = answer->stages[s].first; n <= answer->stages[s].last; n++) {
            const struct costgraph_node *node = &graph->nodes[answer->order[n]];
            if (node->forward_s + node->backward_s > 0) layers[count++] = node->layer;
        }
        end[s] = count;
    }
    return count;
}

static enum ps_status name_order(struct ps_plan *plan, const struct cost_table *costs, const int *layers, int count,
                                 struct ps_error *error) {
    bool straight = true;
    for (int l = 0; l < count; l++) straight = straight && layers[l] == l;
    if (straight) return PS_OK;
    const char **names;
    TRY(memory_new(&names, count, "a plan's order", error));
    for (int l = 0; l < count; l++) names[l] = costs->layers[layers[l]].name;
    enum ps_status status = plan_order_set(plan, names, count, error);
    free(names);
    return status;
}

static enum ps_status set_stage(struct ps_plan *plan, const struct planned_stage *from, int first, int last, int *workers,
                                struct ps_error *error) {
    struct plan_stage *stage = &plan->stages[plan->stage_count];
    int replicas = from->replicas > 1 ? from->replicas : 1;
    for (int r = 0; r < replicas; r++) {
        workers[r] = from->forward + r;
        workers[replicas + r] = from->backward + r;
    }
    TRY(plan_stage_workers(plan, plan->stage_count, workers, replicas, workers + replicas, replicas, error));
    stage->first = first;
    stage->last = last;
    plan->stage_count++;
    return PS_OK;
}

/* A stage of nodes that take no time has no layer, and its worker is idle. */
static enum ps_status set_stages(struct ps_plan *plan, const struct planner_problem *problem,
                                 const struct planner_answer *answer, struct ps_error *error) {
    size_t layers = (size_t)problem->costs->layer_count, stages = (size_t)answer->stage_count;
    int *scratch;
    TRY(memory_new(&scratch, layers + stages + 2 * (size_t)problem->workers, "a plan", error));
    int *order = scratch, *end = order + layers, *workers = end + stages;
    enum ps_status status = PS_OK;
    for (int s = 0; s < answer->stage_count; s++) end[s] = answer->stages[s].last + 1;
    if (answer->order) {
        int count = order_layers(problem->graph, answer, order, end);
        status = name_order(plan, problem->costs, order, count, error);
    }
    plan->stage_count = 0;
    for (int s = 0, first = 0; s < answer->stage_count && status == PS_OK; s++) {
        if (end[s] > first) status = set_stage(plan, &answer->stages[s], first, end[s] - 1, workers, error);
        first = end[s];
    }
    free(scratch);
    return status;
}

/* Replicas share the micro-batches. */
static void fill_loads(struct ps_plan *plan, const struct planner_problem *problem, const struct planner_answer *answer) {
    for (int s = 0; s < answer->stage_count; s++) {
        const struct planned_stage *stage = &answer->stages[s];
        int replicas = stage->replicas > 1 ? stage->replicas : 1;
        for (int n = stage->first; n <= stage->last; n++) {
            const struct costgraph_node *node = answer->order ? &problem->graph->nodes[answer->order[n]] : NULL;
            if (node && node->forward_s + node->backward_s == 0) continue;
            for (int r = 0; r < replicas; r++) {
                int layer = node ? node->layer : n;
                const struct cluster_device *forward = &problem->cluster->devices[stage->forward + r],
                                            *backward = &problem->cluster->devices[stage->backward + r];
                struct layer_times there = cost_table_on(problem->costs, forward->type)->layers[layer].time;
                struct layer_times back = cost_table_on(problem->costs, backward->type)->layers[layer].time;
                plan->predicted.load_s[stage->forward + r] += there.forward_s / replicas / forward->speed;
                plan->predicted.load_s[stage->backward + r] +=
                    (back.backward_input_s + back.backward_weight_s) / replicas / backward->speed;
            }
        }
    }
}

/* Returns true if programs may exist: several stages on a worker need a pattern that specifies their order, or are one worker's
 * instances of split stages. */
static bool can_run(const struct ps_plan *plan) {
    for (int s = 0; s < plan->stage_count && plan->pattern_count == 0 && !plan_is_split(plan); s++)
        for (int t = 0; t < s; t++)
            if (plan->stages[t].forward[0] == plan->stages[s].forward[0]) return false;
    return true;
}

/* PS_NO_PLAN names the worker that exceeds its limit most, with the first of its stages. */
static enum ps_status check_fits(const struct search *search, const struct ps_plan *plan, struct ps_error *error) {
    const struct cost_table *costs = &search->profile->tables[0];
    int worst = -1, stage = 0;
    double most = 1;
    char needs[32], has[32], more[32] = "";
    for (int w = 0; w < plan->workers; w++) {
        int64_t limit = search->cluster->devices[w].memory_bytes;
        double share = limit > 0 ? (double)worker_memory_total(&plan->predicted.memory[w]) / (double)limit : 0;
        if (share > most) most = share, worst = w;
    }
    if (worst < 0) return PS_OK;
    while (stage < plan->stage_count - 1 && !plan_stage_is_on(&plan->stages[stage], worst)) stage++;
    if (plan->stages[stage].forward_count > 1)
        snprintf(more, sizeof more, " with %d replicas", plan->stages[stage].forward_count);
    return error_set(error, PS_NO_PLAN, "stage %d (layers %d to %d)%s needs %s, but worker %d has %s", stage,
                     cost_table_first(costs, plan->stages[stage].first) + 1,
                     cost_table_last(costs, plan->stages[stage].last) + 1, more,
                     text_bytes(worker_memory_total(&plan->predicted.memory[worst]), needs), worst,
                     text_bytes(search->cluster->devices[worst].memory_bytes, has));
}

static int64_t worker_excess(const struct search *search, const struct ps_plan *plan, int worker) {
    int64_t limit = search->cluster->devices[worker].memory_bytes;
    int64_t needed = worker_memory_total(&plan->predicted.memory[worker]);
    return limit > 0 && needed > limit ? needed - limit : 0;
}

/* How far the worker that needs most exceeds its limit. */
static int64_t find_excess(const struct search *search, const struct ps_plan *plan) {
    int64_t excess = 0;
    for (int w = 0; w < plan->workers; w++)
        if (worker_excess(search, plan, w) > excess) excess = worker_excess(search, plan, w);
    return excess;
}

static enum ps_status count_paper_memory(const struct planner_problem *problem, struct ps_plan *plan, struct ps_error *error) {
    struct ps_programs *programs;
    TRY(lower_plan(plan, simulate_plan_batches(plan), &programs, error));
    enum ps_status status = periodic_paper_memory(problem, plan, programs, plan->predicted.memory, error);
    ps_programs_destroy(programs);
    return status;
}

/* A plan counts as simulated only if it fits its workers: a method may rely on a schedule of its own that needs less memory.
 * Memory is counted by the formula that was planned with. */
static enum ps_status simulate(const struct search *search, const struct planner_problem *problem, bool periodic,
                               struct ps_plan *plan, struct ps_error *error) {
    struct ps_simulation *simulation;
    struct plan_prediction *predicted = &plan->predicted;
    if (!can_run(plan)) return PS_OK;
    enum ps_status status = simulate_figures(plan, search->profile, search->cluster, 0, &simulation, error);
    /* Not every schedule and policy supports replicas or split stages; the method's answer is valid nevertheless. */
    if (status == PS_USAGE && (plan_has_replicas(plan) || plan_is_split(plan))) return PS_OK;
    TRY(status);
    search_take_simulation(simulation, predicted);
    if (periodic && problem->paper_cost && search_has_limit(search->cluster, plan->workers))
        status = count_paper_memory(problem, plan, error);
    predicted->simulated = find_excess(search, plan) == 0;
    search_explain(search, simulation, 0, plan);
    ps_simulation_destroy(simulation);
    return status;
}

static bool plan_is_periodic(const struct planner_answer *answer) {
    return answer->pattern_count > 0 || (answer->stage_count > 0 && answer->stages[0].in_flight > 0);
}

double search_update_share(const struct search_choice *choice) {
    return (choice->policy->prediction != PREDICT_NEVER ? LAYER_UPDATE_PREDICT_COST : 1) / choice->micro_batches;
}

enum ps_status search_deepen(const struct search *search, double update_share, struct ps_plan **plan, struct ps_error *error) {
    struct ps_plan *deeper;
    const struct ps_plan *shallow = *plan;
    TRY(plan_copy(shallow, &deeper, error));
    enum ps_status status = periodic_schedule_cut(search->profile, search->cluster, update_share, deeper, error);
    if (status == PS_OK) status = simulate(search, NULL, false, deeper, error);
    bool faster = !shallow->predicted.simulated || deeper->predicted.period_s < shallow->predicted.period_s * (1 - 1e-9);
    if (status == PS_OK && deeper->predicted.simulated && faster) {
        ps_plan_destroy(*plan);
        *plan = deeper;
        return PS_OK;
    }
    ps_plan_destroy(deeper);
    return status == PS_NO_PLAN || status == PS_USAGE ? PS_OK : status; /* a policy may not support more */
}

bool search_wants_pattern(const struct ps_plan_options *options) {
    return options->schedule && strcmp(options->schedule, "pattern") == 0;
}

/* If the schedule is open or is to be a pattern. */
static enum ps_status deepen(const struct search *search, const struct planner *planner, const struct planner_problem *problem,
                             struct ps_plan **plan, struct ps_error *error) {
    bool open = search_is_auto(search->options->schedule) || search_wants_pattern(search->options);
    if (planner->own_schedule || problem->flush || !open) return PS_OK;
    if (plan_has_replicas(*plan) || (planner->baseline && !plan_is_split(*plan))) return PS_OK;
    return search_deepen(search, problem->update_share, plan, error);
}

static enum ps_status fill_plan(const struct search *search, const struct planner_problem *problem,
                                const struct planner_answer *answer, struct ps_plan *plan, struct ps_error *error) {
    double solved_s = clock_now() - search->start_s;
    TRY(set_stages(plan, problem, answer, error));
    bool periodic = plan_is_periodic(answer);
    if (periodic) TRY(periodic_schedule(answer, plan, error));
    TRY(plan_check(plan, problem->costs->layer_count, error));
    struct plan_prediction *predicted = &plan->predicted;
    predicted->known = true;
    predicted->objective_s = answer->objective_s;
    double bound_s = answer->lower_bound_s > 0 ? answer->lower_bound_s : search_least_period_s(problem);
    /* Whole nanoseconds may round down. */
    search_set_bound(predicted, bound_s < answer->objective_s ? bound_s : answer->objective_s);
    predicted->solve_s = solved_s;
    fill_loads(plan, problem, answer);
    return simulate(search, problem, periodic, plan, error);
}

static enum ps_status make_plan(const struct search *search, const struct planner *planner,
                                const struct planner_problem *problem, const struct search_choice *choice,
                                const struct planner_answer *answer, struct ps_plan **plan, struct ps_error *error) {
    struct ps_plan *made;
    TRY(search_plan_create(search, choice, problem->costs, planner->name, problem->workers, answer->stage_count, &made, error));
    enum ps_status status = fill_plan(search, problem, answer, made, error);
    if (status == PS_OK) status = deepen(search, planner, problem, &made, error);
    if (status == PS_OK)
        *plan = made;
    else
        ps_plan_destroy(made);
    return status;
}

static double throughput(const struct ps_plan *plan) { return plan ? plan->predicted.throughput_samples_per_s : 0; }

static bool faster(const struct ps_plan *plan, const struct ps_plan *other) {
    if (!plan->predicted.simulated) return false;
    return !other || !other->predicted.simulated || throughput(plan) > throughput(other) * (1 + 1e-9);
}

enum ps_status search_without_refusals(enum ps_status status, const struct ps_error *refusal, struct ps_error *error) {
    if (status == PS_NO_PLAN || status == PS_USAGE) return PS_OK;
    if (status != PS_OK && error) *error = *refusal;
    return status;
}

/* Subtracts the excess of the plan from the memory that its planner may use; the same amount from all workers if the planner
 * requires equal workers. */
static void leave_free(const struct search *search, const struct planner *planner, const struct ps_plan *plan,
                       struct cluster_device *devices) {
    for (int w = 0; w < plan->workers; w++) {
        int64_t excess = planner->own_schedule ? find_excess(search, plan) : worker_excess(search, plan, w);
        if (devices[w].memory_bytes > 0) devices[w].memory_bytes = number_larger(devices[w].memory_bytes - excess, 1);
    }
}

/* Programs may need more memory than their planner assumed: more copies of the weights, blocks being transferred. The planner
 * is then given that much less, until its plan fits. With `first` it has all memory at first, and *bound_s becomes its bound.
 */
static enum ps_status solve_in_rounds(const struct search *search, const struct planner *planner,
                                      const struct planner_problem *problem, const struct search_choice *choice, bool first,
                                      struct cluster_device *devices, struct ps_plan **made, double *bound_s,
                                      struct ps_error *error) {
    enum { ROUNDS = 8 };
    struct ps_cluster left = *search->cluster;
    struct planner_problem one = *problem;
    struct ps_error refusal = {0}, said = {0};
    enum ps_status status = PS_OK;
    bool again = planner->own_schedule || (planner->includes_updates && !problem->paper_cost);
    left.devices = devices;
    one.cluster = &left;
    one.described = search->cluster;
    for (int round = 0; status == PS_OK && round < ROUNDS; round++) {
        struct planner_answer answer = {0};
        ps_plan_destroy(*made);
        *made = NULL;
        status = planner->solve(&one, &answer, &said);
        if (search->notes) search->notes->replicas = (int)number_larger(search->notes->replicas, most_replicas(&answer));
        if (first && round == 0) *bound_s = answer.lower_bound_s;
        answer.lower_bound_s = *bound_s;
        if (status == PS_OK) status = make_plan(search, planner, problem, choice, &answer, made, &said);
        planner_answer_free(&answer);
        if (status != PS_OK || !again || (*made)->predicted.simulated) break;
        if (round == 0) check_fits(search, *made, &refusal);
        leave_free(search, planner, *made, devices);
    }
    if (status == PS_OK && !problem->paper_cost && !(*made)->predicted.simulated) status = check_fits(search, *made, &said);
    bool refused = refusal.status != PS_OK && (status == PS_NO_PLAN || status == PS_USAGE);
    if (status != PS_OK && error) *error = refused ? refusal : said;
    if (status != PS_OK) {
        ps_plan_destroy(*made);
        *made = NULL;
    }
    return refused ? PS_NO_PLAN : status;
}

static enum ps_status solve_with_share(const struct search *search, const struct planner *planner,
                                       const struct planner_problem *problem, const struct search_choice *choice, double share,
                                       struct ps_plan **plan, double *bound_s, struct ps_error *error) {
    struct cluster_device *devices;
    TRY(memory_new(&devices, problem->workers, "a search", error));
    for (int w = 0; w < problem->workers; w++) {
        devices[w] = search->cluster->devices[w];
        int64_t *memory = &devices[w].memory_bytes;
        if (*memory > 0) *memory = number_larger((int64_t)(share * (double)*memory), 1);
    }
    enum ps_status status = solve_in_rounds(search, planner, problem, choice, share == 1, devices, plan, bound_s, error);
    free(devices);
    return status;
}

/* With less for all workers, the planner may find plans that need not have anything taken from one of them. This is tried while
 * the fastest plan is above the bound. *bound_s, also without a plan: no plan of the class has a smaller objective; 0: not
 * known. */
static enum ps_status solve(const struct search *search, const struct planner *planner, const struct planner_problem *problem,
                            const struct search_choice *choice, struct ps_plan **plan, double *bound_s,
                            struct ps_error *error) {
    static const double shares[] = {0.95, 0.9, 0.85, 0.75};
    bool several = problem->slots && planner->includes_updates && !planner->baseline && !problem->paper_cost;
    enum ps_status status = solve_with_share(search, planner, problem, choice, 1, plan, bound_s, error);
    for (size_t i = 0; several && i < sizeof shares / sizeof *shares; i++) {
        const bool above =
            status == PS_OK && (*plan)->predicted.simulated && (*plan)->predicted.period_s > *bound_s * (1 + 1e-9);
        if (!above && status != PS_NO_PLAN) break;
        struct ps_plan *made = NULL;
        struct ps_error said = {0};
        enum ps_status other = solve_with_share(search, planner, problem, choice, shares[i], &made, bound_s, &said);
        if (other == PS_OK && faster(made, *plan)) {
            ps_plan_destroy(*plan);
            *plan = made;
            status = PS_OK;
        } else {
            ps_plan_destroy(made);
        }
        if (search_without_refusals(other, &said, error) == PS_OK) continue;
        ps_plan_destroy(*plan);
        *plan = NULL;
        return other;
    }
    return status;
}

/* Equal but for their memory. */
static bool equal_workers(const struct ps_cluster *cluster, const struct cost_table *costs) {
    bool equal = cluster_one_type(cluster, costs);
    for (int w = 1; w < cluster->workers; w++) equal = equal && cluster->devices[w].speed == cluster->devices[0].speed;
    return equal;
}

/* Sweeps over all replicas at once if workers are equal. Otherwise, or if the resulting plan does not fit, tries one choice of
 * replicas after the other. */
static enum ps_status solve_replicas(const struct search *search, const struct planner_problem *problem,
                                     const struct search_choice *choice, struct ps_plan **plan, double *bound_s,
                                     struct ps_error *error) {
    bool equal = search->cluster->link_count < 2 && equal_workers(search->cluster, problem->costs);
    struct ps_error refusal = {0};
    enum ps_status status = equal ? solve(search, &planner_pipedream, problem, choice, plan, bound_s, &refusal) : PS_NO_PLAN;
    if (status != PS_NO_PLAN || search->sweeps_only) {
        if (status != PS_OK && error) *error = refusal;
        return status;
    }
    struct planner_answer answer = {0};
    status = search_replica_shapes(search, problem, choice, &answer, error);
    if (status == PS_OK) status = make_plan(search, &planner_pipedream, problem, choice, &answer, plan, error);
    planner_answer_free(&answer);
    return status;
}

/* Plans with replicas are only made for schedules and policies that can run them. */
static enum ps_status check_replicas(const struct search_choice *choice, struct ps_error *error) {
    char names[128];
    if (!choice->schedule->replicas)
        return error_set(error, PS_USAGE, "`replicate`: schedule %s has no replicas; these have: %s", choice->schedule->name,
                         schedule_names(offsetof(struct schedule, replicas), names));
    if (choice->policy->group_of_workers && !choice->schedule->flush)
        return error_set(error, PS_USAGE,
                         "`replicate`: weights %s keep two versions, which are too few for replicas; use another policy",
                         choice->policy->name);
    return PS_OK;
}

/* Replaces *plan by `made` if that is faster, with the bound of the method's class; takes it. */
static void take_faster(const struct planner *planner, double bound_s, struct ps_plan *made, struct ps_plan **plan) {
    if (!faster(made, *plan)) {
        ps_plan_destroy(made);
        return;
    }
    snprintf(made->method, sizeof made->method, "%s", planner->name);
    if (bound_s < made->predicted.objective_s) search_set_bound(&made->predicted, bound_s);
    ps_plan_destroy(*plan);
    *plan = made;
}

static bool same_stages(const struct planner_answer *a, const struct planner_answer *b) {
    return a->stage_count == b->stage_count && memcmp(a->stages, b->stages, (size_t)a->stage_count * sizeof *a->stages) == 0;
}

/* Cuts by other costs. A schedule holds a limited number of micro-batches, so long transfers can make workers wait that the
 * objective supposes busy: cuts that transfer less are tried, too. */
static enum ps_status try_variants(const struct search *search, const struct planner *planner,
                                   const struct planner_problem *problem, const struct search_choice *choice, double bound_s,
                                   struct ps_plan **plan, struct ps_error *error) {
    enum { VARIANTS = 5 };
    static const double factors[VARIANTS] = {1, 1.5, 2.5, 5, 20};
    struct planner_answer answers[VARIANTS] = {0};
    enum ps_status status = PS_OK;
    for (int v = 0; v < VARIANTS && status == PS_OK; v++) {
        struct planner_problem one = *problem;
        struct ps_error refusal = {0};
        struct ps_plan *made;
        bool known = false;
        one.published_cut = v == 0;
        one.boundary_factor = factors[v];
        status = planner->solve(&one, &answers[v], &refusal);
        if (status == PS_OK) {
            for (int k = 0; k < v; k++) known = known || same_stages(&answers[k], &answers[v]);
            if (known) continue;
            status = make_plan(search, planner, problem, choice, &answers[v], &made, &refusal);
            if (status == PS_OK) take_faster(planner, bound_s, made, plan);
        }
        status = search_without_refusals(status, &refusal, error);
    }
    for (int v = 0; v < VARIANTS; v++) planner_answer_free(&answers[v]);
    return status;
}

/* The plan of `pipedream` without replicas under the same options. */
static enum ps_status try_chain(const struct search *search, const struct planner *planner,
                                const struct planner_problem *problem, const struct search_choice *choice, double bound_s,
                                struct ps_plan **plan, struct ps_error *error) {
    struct ps_plan_options options = *search->options;
    struct search one = *search;
    struct ps_error refusal = {0};
    struct ps_plan *made;
    options.method = planner_pipedream.name;
    one.options = &options;
    enum ps_status status = search_partitioners(&one, &made, &refusal);
    if (status == PS_OK) {
        if (strcmp(made->schedule, choice->schedule->name) == 0) status = deepen(search, planner, problem, &made, &refusal);
        if (status == PS_OK)
            take_faster(planner, bound_s, made, plan);
        else
            ps_plan_destroy(made);
    }
    return search_without_refusals(status, &refusal, error);
}

static enum ps_status improve(const struct search *search, const struct planner *planner, const struct planner_problem *problem,
                              const struct search_choice *choice, double bound_s, struct ps_plan **plan,
                              struct ps_error *error) {
    if (problem->paper_cost) return PS_OK;
    if (planner->cuts_variously) TRY(try_variants(search, planner, problem, choice, bound_s, plan, error));
    const bool tried = planner == &planner_pipedream && search->notes; /* by `auto` */
    return planner->contains_chain && !tried ? try_chain(search, planner, problem, choice, bound_s, plan, error) : PS_OK;
}

/* The slots of each stage, which belong to the notes. */
static enum ps_status find_slots(const struct straight *straight, struct search_notes *notes, const struct stage_slots **slots,
                                 struct ps_error *error) {
    const struct straight *of = &notes->of;
    if (!notes->straight || strcmp(of->schedule, straight->schedule) != 0 || strcmp(of->policy, straight->policy) != 0 ||
        of->workers != straight->workers || of->micro_batches != straight->micro_batches || of->slack != straight->slack) {
        ps_programs_destroy(notes->straight);
        notes->straight = NULL;
        TRY(lower_straight(straight, &notes->straight, error));
        notes->of = *straight;
    }
    *slots = notes->straight->slots;
    return PS_OK;
}

/* For one size of micro-batches. */
static enum ps_status plan_size(const struct search *search, const struct planner *planner, struct ps_plan **plan,
                                struct ps_error *error) {
    const struct ps_plan_options *options = search->options;
    int workers = search->cluster->workers;
    struct planner_problem problem = {.graph = search->profile->graph,
                                      .cluster = search->cluster,
                                      .workers = workers,
                                      .replicate = options->replicate,
                                      .replicas_max = search->replicas_max,
                                      .safety_factor = search->safety_factor,
                                      .bound_s = search->bound_s,
                                      .ideals_max = search->ideals_max,
                                      .paper_cost = options->paper_cost};
    struct search_notes own = {0};
    struct search_choice choice;
    struct ps_plan *made = NULL;
    double bound_s = 0;
    struct ps_error refusal = {0};
    TRY(check_options(search, planner, error));
    TRY(profile_table(search->profile, options->micro_batch, &problem.costs, error));
    bool one_type = cluster_one_type(search->cluster, problem.costs);
    if (!one_type && !planner->several_types)
        return error_set(error, PS_USAGE, "`method` %s: requires all devices to be of one type, and the cluster has several",
                         planner->name);
    if (one_type) problem.costs = cost_table_on(problem.costs, search->cluster->devices[0].type);
    TRY(search_choose(options, workers, &choice, error));
    if (options->replicate) TRY(check_replicas(&choice, error));
    TRY(policy_moments(choice.policy->name, search->optimizer, &problem.moments, error));
    enum ps_status status = PS_OK;
    if (search_has_limit(search->cluster, workers)) {
        const struct straight straight = search_straight(&choice, workers);
        status = find_slots(&straight, search->notes ? search->notes : &own, &problem.slots, &refusal);
    }
    problem.flush = choice.schedule->flush;
    problem.micro_batches = choice.micro_batches;
    problem.update_share = search_update_share(&choice);
    if (status == PS_OK)
        status = planner == &planner_pipedream ? solve_replicas(search, &problem, &choice, &made, &bound_s, &refusal)
                                               : solve(search, planner, &problem, &choice, &made, &bound_s, &refusal);
    if (made) bound_s = made->predicted.lower_bound_s;
    /* A schedule or policy that cannot run the planner's own cut can run a chain's. A planner that refuses to order these
     * workers has none. */
    const bool another = !(planner->own_schedule && choice.policy->needs_flush) && !(planner->orders_workers && bound_s == 0);
    if (bound_s == 0) bound_s = search_least_period_s(&problem);
    if (status == PS_OK || status == PS_NO_PLAN || (status == PS_USAGE && another)) {
        enum ps_status improved = improve(search, planner, &problem, &choice, bound_s, &made, error);
        if (improved != PS_OK || made) status = improved;
        if (improved == PS_OK && !made && error) *error = refusal;
    }
    if (status == PS_OK) {
        made->predicted.solve_s = clock_now() - search->start_s;
        *plan = made;
    } else {
        ps_plan_destroy(made);
    }
    if (refusal.status == status && error) *error = refusal;
    if (status == PS_OK && planner->includes_updates && !problem.paper_cost && problem.update_share * problem.micro_batches > 1)
        search_relax_bound_of_predictions(&problem, *plan);
    if (status == PS_OK && !planner->baseline && !options->paper_cost)
        search_relax_beaten_bound(search_least_period_s(&problem), *plan);
    if (status == PS_NO_PLAN) search_name_need(&problem, error);
    ps_programs_destroy(own.straight);
    return status;
}

/* With a mini-batch the best of the sizes that divide it. */
enum ps_status search_planner(const struct search *search, const struct planner *planner, struct ps_plan **plan,
                              struct ps_error *error) {
    struct search_size sizes[SEARCH_SIZES_MAX];
    struct ps_plan_options options = *search->options;
    struct search one = *search;
    struct ps_error refusal = {0}, said = {0};
    struct ps_plan *best = NULL, *made;
    int count;
    enum ps_status status = PS_OK;
    if (options.batch == 0) return plan_size(search, planner, plan, error);
    TRY(search_sizes(search, sizes, &count, error));
    one.options = &options;
    options.batch = 0;
    for (int s = 0; s < count && status == PS_OK; s++) {
        options.micro_batch = sizes[s].costs->micro_batch;
        options.micro_batches = sizes[s].micro_batches;
        status = plan_size(&one, planner, &made, &said);
        bool better =
            status == PS_OK && (!best || made->predicted.throughput_samples_per_s > best->predicted.throughput_samples_per_s);
        if (status == PS_OK) {
            ps_plan_destroy(better ? best : made);
            if (better) best = made;
        }
        if (refusal.status == PS_OK) refusal = said;
        if (status == PS_NO_PLAN || status == PS_USAGE) status = PS_OK;
    }
    if (status == PS_OK && !best) status = refusal.status;
    if (status == PS_OK) {
        *plan = best;
        return PS_OK;
    }
    ps_plan_destroy(best);
    if (error) *error = said.status == status ? said : refusal;
    return status;
}

/*
 * The planners (plan/planner.h) in the search. Each plans every micro-batch size that the options allow, and plans with
 * programs compete by their simulated throughput. Of the baselines those that replicate compete if replicas are allowed; the
 * others are left out.
 */

/* The best plan over all cuts of a graph is computed once; variants that may be better by chance use at most this many cuts. */
enum { IDEALS_MAX = 20000 };

/* The result of a planner's attempt. */
struct tried {
    int replicas; /* of the stage that has most in the plan, without one in all that its rounds found; 0: nothing was found */
    double bound_s;
};

static struct tried look_at(const struct ps_plan *plan) {
    struct tried tried = {.bound_s = plan->predicted.lower_bound_s};
    for (int s = 0; s < plan->stage_count; s++)
        if (plan->stages[s].forward_count > tried.replicas) tried.replicas = plan->stages[s].forward_count;
    return tried;
}

/* That a planner does not support the problem or the options is no error here. */
static enum ps_status try_planner(const struct search *search, const struct planner *planner, const struct search_size *size,
                                  const char *weights, struct ps_plan **plan, struct tried *tried, struct ps_error *error) {
    struct ps_plan_options options = *search->options;
    options.weights = weights;
    options.replicate = search->options->replicate && planner->replicates;
    struct search one = *search;
    struct ps_plan *made = NULL;
    struct ps_error refusal = {0};
    *tried = (struct tried){0};
    options.method = planner->name;
    options.batch = 0;
    options.micro_batch = size->costs->micro_batch;
    options.micro_batches = size->micro_batches;
    if (search_is_auto(options.schedule)) options.schedule = NULL;
    one.options = &options;
    search->notes->replicas = 0;
    enum ps_status status = search_planner(&one, planner, &made, &refusal);
    tried->replicas = search->notes->replicas;
    if (status != PS_OK) return search_without_refusals(status, &refusal, error);
    *tried = look_at(made);
    if (made->predicted.simulated && throughput(made) > throughput(*plan) * (1 + 1e-9)) {
        log_debug("%s: %.6g samples/s", planner->name, throughput(made));
        ps_plan_destroy(*plan);
        *plan = made;
    } else {
        ps_plan_destroy(made);
    }
    return PS_OK;
}

/* Stages with replicas under one policy: at most `replicas_max` each, with larger and smaller safety factors, since what is
 * fastest on average need not be so in the simulator. A plan that does not use all allowed replicas is also the best one with
 * fewer, and where the rounds fit nothing with fewer than allowed they would go the same way. */
static enum ps_status try_replicas(const struct search *search, const struct search_size *size, const char *weights,
                                   struct ps_plan **plan, struct ps_error *error) {
    static const double safety_factors[] = {0, 0.1, 0.25, 0.5, 1};
    struct search one = *search;
    struct tried tried;
    int workers = search->cluster->workers;
    for (size_t c = 0; c < sizeof safety_factors / sizeof *safety_factors; c++) {
        one.safety_factor = safety_factors[c];
        for (int most = workers; most >= 2; most = (int)number_smaller(tried.replicas, most) - 1) {
            one.replicas_max = most;
            one.sweeps_only = c > 0 || most < workers;
            one.ideals_max = one.sweeps_only ? IDEALS_MAX : 0;
            TRY(try_planner(&one, &planner_pipedream, size, weights, plan, &tried, error));
            if (!one.sweeps_only) one.bound_s = tried.bound_s;
        }
    }
    return PS_OK;
}

/* With and without a flush, if the user leaves the weights to the search. */
static enum ps_status try_policies(const struct search *search, const struct search_size *size, struct ps_plan **plan,
                                   struct ps_error *error) {
    const char *given = search->options->weights;
    bool both = given && search_is_auto(given);
    TRY(try_replicas(search, size, both ? "pipeoptim" : given, plan, error));
    return both ? try_replicas(search, size, "sync", plan, error) : PS_OK;
}

/* Whether the workers have more than one order. */
static bool has_orders(const struct search *search) {
    const struct ps_cluster *cluster = search->cluster;
    bool alike = equal_workers(cluster, &search->profile->tables[0]);
    for (int w = 1; w < cluster->workers; w++)
        alike = alike && cluster->devices[w].memory_bytes == cluster->devices[0].memory_bytes;
    return !alike;
}

bool search_competes(const struct planner *planner, const struct ps_profile *profile, bool replicate) {
    bool quick = profile->tables[0].layer_count <= planner->quick_layers;
    return !planner->baseline || quick || (planner->replicates && replicate);
}

/* Whether the planner's plans may replace the plan that is to be improved, if there is one. */
static bool keeps(const struct search *search, const struct planner *planner) {
    return !search->near || strcmp(search->near->method, planner->name) == 0;
}

static enum ps_status try_planners(const struct search *search, struct ps_plan **plan, struct ps_error *error) {
    struct search_size sizes[SEARCH_SIZES_MAX];
    struct tried tried;
    int count;
    TRY(search_sizes(search, sizes, &count, error));
    bool free_to = search_is_auto(search->options->method) &&
                   (search->options->method || (search_is_quick(search) && search_is_auto(search->options->schedule)));
    bool bapipe = search_is_bapipe(search->options->method);
    bool replicate = search->options->replicate && keeps(search, &planner_pipedream) && !bapipe;
    for (int s = 0; s < count && replicate; s++) TRY(try_policies(search, &sizes[s], plan, error));
    for (int p = 0; planner_table[p]; p++) {
        const struct planner *planner = planner_table[p];
        bool wanted =
            search_competes(planner, search->profile, replicate) && (free_to || (planner->baseline && planner->replicates));
        wanted = wanted || (bapipe && planner->only_replicas);
        wanted = wanted && (!planner->orders_workers || has_orders(search)) && keeps(search, planner);
        for (int s = 0; s < count && wanted; s++)
            TRY(try_planner(search, planner, &sizes[s], search->options->weights, plan, &tried, error));
    }
    return PS_OK;
}

enum ps_status search_planners(const struct search *search, struct ps_plan **plan, struct ps_error *error) {
    struct search_notes notes = {0};
    struct search one = *search;
    one.notes = &notes;
    enum ps_status status = try_planners(&one, plan, error);
    ps_programs_destroy(notes.straight);
    if (status == PS_OK && *plan) (*plan)->predicted.solve_s = clock_now() - search->start_s;
    return status;
}
