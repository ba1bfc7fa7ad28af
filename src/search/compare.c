/* Comparison of methods: every combination of method, schedule, weights, workers, memory and bandwidth is planned and simulated
 * separately. The method varies fastest, so that rows of the same cluster are adjacent. */
#include "search/compare.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/versioned.h"
#include "plan/partitioner.h"
#include "plan/plan.h"
#include "plan/planner.h"
#include "search/search.h"

enum { ROWS_MAX = 100000 };

/* The options with every list filled in. */
struct grid {
    struct ps_compare_options lists;
    /* "auto", the partitioners, and the planners with schedules of their own, if no methods are given. */
    const char **runnable;
    int workers; /* of the cluster, or from the options */
};

static enum ps_status check_names(const struct ps_compare_options *lists, struct ps_error *error) {
    const struct partitioner *partitioner;
    const struct schedule *schedule;
    const struct weight_policy *policy;
    for (int i = 0; i < lists->method_count; i++)
        if (!search_is_auto(lists->methods[i]) && !planner_find(lists->methods[i]))
            TRY(partitioner_find(lists->methods[i], &partitioner, error));
    for (int i = 0; i < lists->schedule_count; i++)
        if (!search_is_auto(lists->schedules[i])) TRY(schedule_find(lists->schedules[i], &schedule, error));
    for (int i = 0; i < lists->weights_count; i++)
        if (!search_is_auto(lists->weights[i])) TRY(policy_find(lists->weights[i], &policy, error));
    return PS_OK;
}

static enum ps_status fill_grid(const struct compare_request *request, struct grid *grid, struct ps_error *error) {
    const struct ps_compare_options *options = &request->options;
    struct ps_compare_options *lists = &grid->lists;
    int partitioners = 0, planners = 0, methods = 0;
    while (partitioner_table[partitioners]) partitioners++;
    while (planner_table[planners]) planners++;
    size_t room = (size_t)partitioners + (size_t)planners + 1;
    TRY(memory_new(&grid->runnable, room, "a comparison", error));
    grid->runnable[methods++] = "auto";
    for (int m = 0; m < partitioners; m++) grid->runnable[methods++] = partitioner_table[m]->name;
    for (int p = 0; p < planners; p++)
        if (planner_table[p]->own_schedule && !planner_table[p]->baseline) grid->runnable[methods++] = planner_table[p]->name;
    grid->workers = options->cluster ? options->cluster->workers : request->machines.workers;
    *lists = *options;
#define FILL(list, count, one)                                                                                                 \
    if (options->count == 0) lists->list = &(one), lists->count = 1
    FILL(schedules, schedule_count, request->planning.schedule);
    FILL(weights, weights_count, request->planning.weights);
    FILL(wires, wire_count, request->planning.wire);
    FILL(workers, worker_count, grid->workers);
    FILL(memory_bytes, memory_count, request->machines.memory_bytes);
    FILL(bandwidth_bytes_per_s, bandwidth_count, request->machines.bandwidth_bytes_per_s);
    if (request->planning.method) FILL(methods, method_count, request->planning.method);
#undef FILL
    if (lists->method_count == 0) {
        lists->methods = grid->runnable;
        lists->method_count = methods;
    }
    return PS_OK;
}

void comparison_text(char out[32], const char *text) { snprintf(out, 32, "%s", text ? text : "auto"); }

/* One worker that computes the same mini-batches: every layer of every micro-batch, and one update. */
static double single_worker_s(const struct ps_profile *profile, const struct ps_plan *plan) {
    const struct cost_table *costs;
    if (profile_table(profile, plan->micro_batch, &costs, NULL) != PS_OK) return 0;
    struct layer_times time = stage_cost(costs, 0, costs->layer_count - 1).time;
    return plan->micro_batches * (time.forward_s + time.backward_input_s + time.backward_weight_s) + time.update_s;
}

enum ps_status comparison_fill(const struct ps_plan *plan, const struct ps_profile *profile, const struct ps_cluster *cluster,
                               struct comparison_row *out, struct ps_error *error) {
    const struct plan_prediction *predicted = &plan->predicted;
    struct ps_comparison_row *row = &out->row;
    comparison_text(out->schedule, plan->schedule);
    comparison_text(out->weights, plan->weights);
    comparison_text(out->chosen, plan->method);
    row->simulated = predicted->simulated;
    row->objective_s = predicted->objective_s;
    row->lower_bound_s = predicted->lower_bound_s;
    row->gap = predicted->gap;
    row->solve_s = predicted->solve_s;
    if (!row->simulated) return PS_OK;
    struct ps_simulation *simulation;
    TRY(ps_simulate(plan, profile, cluster, 0, &simulation, error));
    struct ps_simulation_info info = ps_simulation_info(simulation);
    row->period_s = info.period_s;
    row->throughput_samples_per_s = info.throughput_samples_per_s;
    row->bubble = info.bubble;
    row->speedup = info.period_s > 0 ? single_worker_s(profile, plan) / info.period_s : 0;
    for (int w = 0; w < plan->workers; w++) {
        struct ps_simulation_worker worker = ps_simulation_worker(simulation, w);
        if (worker.memory_bytes > row->memory_bytes) row->memory_bytes = worker.memory_bytes;
        if (worker.weight_copies > row->weight_copies) row->weight_copies = worker.weight_copies;
    }
    ps_simulation_destroy(simulation);
    return PS_OK;
}

/* The first workers of a cluster file, with its values replaced by those that are listed. */
static enum ps_status take_workers(const struct ps_cluster_options *machines, struct ps_cluster *cluster,
                                   struct ps_error *error) {
    if (machines->workers > cluster->workers)
        return error_set(error, PS_USAGE, "the cluster has %d workers, not %d", cluster->workers, machines->workers);
    cluster->workers = machines->workers;
    for (int w = 0; machines->memory_bytes > 0 && w < cluster->workers; w++)
        cluster->devices[w].memory_bytes = machines->memory_bytes;
    for (int l = 0; machines->bandwidth_bytes_per_s > 0 && l < cluster->link_count; l++)
        cluster->links[l].bandwidth_bytes_per_s = machines->bandwidth_bytes_per_s;
    return PS_OK;
}

/* The cluster and costs that plans are made for. */
struct setting {
    const struct ps_profile *profile;
    const struct ps_cluster *given; /* NULL: uniform */
};

enum ps_status comparison_cluster(const struct ps_cluster *given, const struct ps_cluster_options *machines,
                                  struct ps_cluster **cluster, struct ps_error *error) {
    if (!given) return ps_cluster_uniform(machines, cluster, error);
    struct ps_cluster *made;
    TRY(cluster_copy(given, &made, error));
    enum ps_status status = take_workers(machines, made, error);
    if (status == PS_OK)
        *cluster = made;
    else
        ps_cluster_destroy(made);
    return status;
}

/* If nothing fits or the options of a combination contradict each other, the row gives the reason. */
static enum ps_status plan_row(const void *context, const struct ps_plan_options *options,
                               const struct ps_cluster_options *machines, struct comparison_row *out, struct ps_error *error) {
    const struct setting *setting = context;
    struct ps_cluster *cluster;
    struct ps_plan *plan = NULL;
    struct ps_error refusal = {0};
    TRY(comparison_cluster(setting->given, machines, &cluster, error));
    enum ps_status status = search_find_plan(setting->profile, cluster, options, &plan, &refusal);
    if (status == PS_OK) {
        status = comparison_fill(plan, setting->profile, cluster, out, error);
    } else if (status == PS_NO_PLAN || status == PS_USAGE) {
        snprintf(out->reason, sizeof out->reason, "%s", refusal.message);
        status = PS_OK;
    } else if (error) {
        *error = refusal;
    }
    ps_plan_destroy(plan);
    ps_cluster_destroy(cluster);
    return status;
}

/* Sets a mini-batch that grows with the workers, in micro-batches of the given size. */
static enum ps_status set_batch(const struct ps_compare_options *lists, int workers, struct ps_plan_options *options,
                                struct ps_error *error) {
    if (lists->batch_per_worker == 0) return PS_OK;
    if (options->batch > 0 || options->micro_batches > 0)
        return error_set(error, PS_USAGE, "`batch_per_worker` contradicts `batch` and `micro_batches`; give one of them");
    options->batch = lists->batch_per_worker * workers;
    if (options->micro_batch == 0) return PS_OK;
    if (options->batch % options->micro_batch != 0)
        return error_set(error, PS_USAGE,
                         "`batch_per_worker`: %d samples on %d workers are not divisible into micro-batches of %d",
                         lists->batch_per_worker, workers, options->micro_batch);
    options->micro_batches = options->batch / options->micro_batch;
    options->batch = 0;
    return PS_OK;
}

/* Combination `number`; the method varies fastest. */
static enum ps_status combination(const struct ps_compare_options *lists, int number, comparison_function *fill,
                                  const void *context, struct comparison_row *row, struct ps_error *error) {
    struct ps_plan_options options = *lists->planning;
    struct ps_cluster_options machines = *lists->machines;
#define PICK(list, count) lists->list[number % lists->count], number /= lists->count
    options.method = PICK(methods, method_count);
    options.schedule = PICK(schedules, schedule_count);
    options.weights = PICK(weights, weights_count);
    options.wire = PICK(wires, wire_count);
    machines.bandwidth_bytes_per_s = PICK(bandwidth_bytes_per_s, bandwidth_count);
    machines.memory_bytes = PICK(memory_bytes, memory_count);
    machines.workers = PICK(workers, worker_count);
#undef PICK
    comparison_text(row->method, options.method);
    comparison_text(row->schedule, options.schedule);
    comparison_text(row->weights, options.weights);
    if (options.wire) snprintf(row->wire, sizeof row->wire, "%s", options.wire);
    row->row.workers = machines.workers;
    row->row.memory_limit_bytes = machines.memory_bytes;
    row->row.bandwidth_bytes_per_s = machines.bandwidth_bytes_per_s;
    TRY(set_batch(lists, machines.workers, &options, error));
    options.replicate = options.replicate && search_may_replicate(options.method); /* the other rows have none */
    return fill(context, &options, &machines, row, error);
}

static enum ps_status count_rows(const struct ps_compare_options *lists, int *rows, struct ps_error *error) {
    int counts[] = {lists->method_count, lists->schedule_count, lists->weights_count,  lists->wire_count,
                    lists->worker_count, lists->memory_count,   lists->bandwidth_count};
    int64_t product = 1;
    for (int i = 0; i < 7 && product <= ROWS_MAX; i++) product *= counts[i];
    if (product > ROWS_MAX) return error_set(error, PS_USAGE, "more than %d combinations to compare", ROWS_MAX);
    *rows = (int)product;
    return PS_OK;
}

void ps_compare_options_init(struct ps_compare_options *options) {
    *options = (struct ps_compare_options){.struct_size = sizeof *options};
}

enum ps_status compare_request_take(const struct ps_compare_options *given, struct compare_request *own,
                                    struct ps_error *error) {
    *own = (struct compare_request){0};
    ps_plan_options_init(&own->planning);
    ps_cluster_options_init(&own->machines);
    TRY(VERSIONED_TAKE(ps_compare_options, given, &own->options, error));
    if (own->options.planning) TRY(VERSIONED_TAKE(ps_plan_options, own->options.planning, &own->planning, error));
    if (own->options.machines) TRY(VERSIONED_TAKE(ps_cluster_options, own->options.machines, &own->machines, error));
    own->options.planning = &own->planning;
    own->options.machines = &own->machines;
    return log_check(own->options.log, error);
}

enum ps_status comparison_create(const struct compare_request *request, const char *model, comparison_function *fill,
                                 const void *context, struct ps_comparison **comparison, struct ps_error *error) {
    struct grid grid = {0};
    struct ps_comparison *made;
    TRY(memory_new(&made, 1, "a comparison", error));
    enum ps_status status;
    int rows = 0;
    TRY_OUT(fill_grid(request, &grid, error));
    TRY_OUT(check_names(&grid.lists, error));
    TRY_OUT(count_rows(&grid.lists, &rows, error));
    snprintf(made->model, sizeof made->model, "%s", model);
    TRY_OUT(memory_new(&made->rows, rows, "a comparison", error));
    for (; made->row_count < rows; made->row_count++)
        TRY_OUT(combination(&grid.lists, made->row_count, fill, context, &made->rows[made->row_count], error));
out:
    free(grid.runnable);
    if (status == PS_OK)
        *comparison = made;
    else
        ps_comparison_destroy(made);
    return status;
}

enum ps_status ps_compare(const struct ps_profile *profile, const struct ps_compare_options *options,
                          struct ps_comparison **comparison, struct ps_error *error) {
    struct compare_request request;
    TRY(compare_request_take(options, &request, error));
    const struct setting setting = {.profile = profile, .given = request.options.cluster};
    const struct ps_log_sink *log = log_use(request.options.log);
    enum ps_status status = comparison_create(&request, profile->model, plan_row, &setting, comparison, error);
    log_restore(log);
    return status;
}

const char *ps_comparison_model(const struct ps_comparison *comparison) { return comparison->model; }

const char *ps_comparison_largest(const struct ps_comparison *comparison) {
    return comparison->largest[0] ? comparison->largest : NULL;
}

int ps_comparison_count(const struct ps_comparison *comparison) { return comparison->row_count; }

static struct ps_comparison_row make_comparison_row(const struct ps_comparison *comparison, int number) {
    const struct comparison_row *from = &comparison->rows[number];
    struct ps_comparison_row row = from->row;
    row.method = from->method;
    row.schedule = from->schedule;
    row.weights = from->weights;
    row.wire = from->wire[0] ? from->wire : NULL;
    row.chosen = from->chosen[0] ? from->chosen : NULL;
    row.reason = from->reason[0] ? from->reason : NULL;
    row.run = from->run;
    return row;
}

void ps_comparison_row_get(const struct ps_comparison *comparison, int number, struct ps_comparison_row *result, size_t size) {
    const struct ps_comparison_row own = make_comparison_row(comparison, number);
    VERSIONED_GIVE(own, result, size);
}

void ps_comparison_destroy(struct ps_comparison *comparison) {
    if (!comparison) return;
    for (int r = 0; r < comparison->row_count; r++) ps_run_destroy(comparison->rows[r].run);
    free(comparison->rows);
    free(comparison);
}
