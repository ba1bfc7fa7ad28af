/* Comparison of methods: every combination of network, method, schedule, weights, workers, memory and bandwidth is planned and
 * simulated separately, or trained with each seed. The seed varies fastest, then the method, so that rows of the same cluster
 * are adjacent. */
#include "search/compare.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/versioned.h"
#include "graph/network.h"
#include "plan/partitioner.h"
#include "plan/plan.h"
#include "plan/planner.h"
#include "search/compare_store.h"
#include "search/search.h"

enum { ROWS_MAX = 100000 };

/* The options with every list filled in. */
struct grid {
    struct ps_compare_options lists;
    /* "auto", the partitioners, and the planners with schedules of their own, if no methods are given. */
    const char **runnable;
    size_t runnable_room;
    int runnable_count;
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
    for (int i = 0; i < lists->wire_count; i++)
        if (lists->wires[i]) TRY(search_check_wire(lists->wires[i], error));
    return PS_OK;
}

static enum ps_status add_runnable(struct grid *grid, const char *name, struct ps_error *error) {
    TRY(memory_grow(&grid->runnable, &grid->runnable_room, grid->runnable_count + 1, "a comparison", error));
    grid->runnable[grid->runnable_count++] = name;
    return PS_OK;
}

static enum ps_status fill_grid(const struct compare_request *request, struct grid *grid, struct ps_error *error) {
    const struct ps_compare_options *options = &request->options;
    struct ps_compare_options *lists = &grid->lists;
    TRY(add_runnable(grid, "auto", error));
    for (int m = 0; partitioner_table[m]; m++) TRY(add_runnable(grid, partitioner_table[m]->name, error));
    for (int p = 0; planner_table[p]; p++)
        if (planner_table[p]->own_schedule && !planner_table[p]->baseline)
            TRY(add_runnable(grid, planner_table[p]->name, error));
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
        lists->method_count = grid->runnable_count;
    }
    return PS_OK;
}

void comparison_text(char out[32], const char *text) { snprintf(out, 32, "%s", text ? text : "auto"); }

/* The period of the cluster's first worker, if it computes the plan's mini-batches alone. */
static enum ps_status single_worker_s(const struct ps_plan *plan, const struct ps_profile *profile,
                                      const struct ps_cluster *cluster, double *period_s, struct ps_error *error) {
    struct ps_plan *alone;
    struct ps_simulation *simulation;
    TRY(plan_create(1, 1, &alone, error));
    snprintf(alone->model, sizeof alone->model, "%s", profile->model);
    snprintf(alone->schedule, sizeof alone->schedule, "%s", "1f1b");
    snprintf(alone->weights, sizeof alone->weights, "%s", POLICY_SYNCHRONOUS);
    alone->micro_batch = plan->micro_batch;
    alone->micro_batches = plan->micro_batches;
    enum ps_status status = plan_stage_set(alone, 0, 0, profile->tables[0].layer_count - 1, 0, error);
    if (status == PS_OK) status = simulate_figures(alone, profile, cluster, 0, &simulation, error);
    ps_plan_destroy(alone);
    if (status != PS_OK) return status;
    *period_s = ps_simulation_info(simulation).period_s;
    ps_simulation_destroy(simulation);
    return PS_OK;
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
    row->micro_batches = plan->micro_batches;
    row->micro_batch = plan->micro_batch;
    row->batch = plan->micro_batches * (plan->micro_batch > 0 ? plan->micro_batch : 1);
    if (!row->simulated) return PS_OK;
    double alone_s;
    struct ps_simulation *simulation;
    TRY(single_worker_s(plan, profile, cluster, &alone_s, error));
    TRY(simulate_figures(plan, profile, cluster, 0, &simulation, error));
    struct ps_simulation_info info = ps_simulation_info(simulation);
    row->period_s = info.period_s;
    row->throughput_samples_per_s = info.throughput_samples_per_s;
    row->bubble = info.bubble;
    row->speedup = info.period_s > 0 ? alone_s / info.period_s : 0;
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

enum ps_status comparison_refuse(enum ps_status status, const struct ps_error *refusal, struct comparison_row *out,
                                 struct ps_error *error) {
    if (status == PS_NO_PLAN || status == PS_USAGE || status == PS_FAILED || status == PS_OUT_OF_MEMORY) {
        snprintf(out->reason, sizeof out->reason, "%s", refusal->message);
        out->row.status = status;
        return PS_OK;
    }
    if (error) *error = *refusal;
    return status;
}

/* Sets a mini-batch that grows with the workers, in micro-batches of the given size. */
static enum ps_status set_batch(const struct ps_compare_options *lists, int workers, struct ps_plan_options *options,
                                struct ps_error *error) {
    const int64_t batch = (int64_t)lists->batch_per_worker * workers;
    if (lists->batch_per_worker == 0) return PS_OK;
    if (lists->batch_per_worker < 0)
        return error_set(error, PS_USAGE, "`batch_per_worker`: %d is negative", lists->batch_per_worker);
    if (batch > INT_MAX)
        return error_set(error, PS_USAGE, "`batch_per_worker`: %d samples on %d workers are more than a mini-batch can have",
                         lists->batch_per_worker, workers);
    if (options->batch > 0 || options->micro_batches > 0)
        return error_set(error, PS_USAGE, "`batch_per_worker` contradicts `batch` and `micro_batches`; give one of them");
    options->batch = (int)batch;
    if (options->micro_batch == 0) return PS_OK;
    if (options->batch % options->micro_batch != 0)
        return error_set(error, PS_USAGE,
                         "`batch_per_worker`: %d samples on %d workers are not divisible into micro-batches of %d",
                         lists->batch_per_worker, workers, options->micro_batch);
    options->micro_batches = options->batch / options->micro_batch;
    options->batch = 0;
    return PS_OK;
}

int compare_combinations(const struct ps_compare_options *lists) {
    const int counts[] = {lists->method_count, lists->schedule_count, lists->weights_count,  lists->wire_count,
                          lists->worker_count, lists->memory_count,   lists->bandwidth_count};
    int64_t product = 1;
    for (size_t i = 0; i < sizeof counts / sizeof *counts && product <= ROWS_MAX; i++) product *= counts[i];
    return (int)product;
}

enum ps_status compare_pick(const struct ps_compare_options *lists, int number, struct ps_plan_options *planning,
                            struct ps_cluster_options *machines, struct ps_error *error) {
    *planning = *lists->planning;
    *machines = *lists->machines;
#define PICK(list, count) lists->list[number % lists->count], number /= lists->count
    planning->method = PICK(methods, method_count);
    planning->schedule = PICK(schedules, schedule_count);
    planning->weights = PICK(weights, weights_count);
    planning->wire = PICK(wires, wire_count);
    machines->bandwidth_bytes_per_s = PICK(bandwidth_bytes_per_s, bandwidth_count);
    machines->memory_bytes = PICK(memory_bytes, memory_count);
    machines->workers = PICK(workers, worker_count);
#undef PICK
    planning->replicate = planning->replicate && search_may_replicate(planning->method); /* the other rows have none */
    return set_batch(lists, machines->workers, planning, error);
}

/* What was asked for of the row of a combination. */
static void fill_words(const struct ps_compare_options *lists, int combination, const struct ps_plan_options *planning,
                       const struct ps_cluster_options *machines, struct comparison_row *row) {
    int rest = combination / (lists->method_count * lists->schedule_count * lists->weights_count * lists->wire_count);
    const int bandwidth = rest % lists->bandwidth_count, memory = rest / lists->bandwidth_count % lists->memory_count;
    comparison_text(row->method, planning->method);
    comparison_text(row->schedule, planning->schedule);
    comparison_text(row->weights, planning->weights);
    if (planning->wire) snprintf(row->wire, sizeof row->wire, "%s", planning->wire);
    if (lists->memory_texts) snprintf(row->memory, sizeof row->memory, "%s", lists->memory_texts[memory]);
    if (lists->bandwidth_texts) snprintf(row->bandwidth, sizeof row->bandwidth, "%s", lists->bandwidth_texts[bandwidth]);
    if (lists->cluster && machines->memory_bytes <= 0) strcpy(row->memory, "cluster's");
    if (lists->cluster && machines->bandwidth_bytes_per_s <= 0) strcpy(row->bandwidth, "cluster's");
    row->row.workers = machines->workers;
    row->row.memory_limit_bytes = machines->memory_bytes;
    row->row.bandwidth_bytes_per_s = machines->bandwidth_bytes_per_s;
}

/* The comparison as it is made. */
struct making {
    const struct ps_compare_options *lists;
    const struct comparison_kind *kind;
    struct ps_comparison *made;
    int combinations, rows;
    int found; /* rows that an earlier call had left */
};

static bool should_stop(const struct ps_compare_options *lists) {
    const struct ps_observer *observer = lists->observer;
    return observer && observer->should_stop && observer->should_stop(observer->context) != 0;
}

static enum ps_status tell_stopped(const struct making *making, struct ps_error *error) {
    const int done = making->made->row_count;
    error_set(error, PS_STOPPED, "the comparison was stopped after %d of %d rows", done, making->rows);
    if (making->lists->out)
        error_hint(error, "%s keeps them: the same command goes on from there", making->lists->out);
    else
        error_hint(error, "nothing of it is kept; with `out` DIR the same command would go on");
    return PS_STOPPED;
}

static enum ps_status take_row(const struct making *making, int network, struct comparison_row *row, bool *done,
                               struct ps_error *error) {
    const struct comparison_kind *kind = making->kind;
    *done = false;
    if (!making->lists->out) return PS_OK;
    TRY(compare_store_place(making->lists->out, making->made->row_count, row, error));
    return kind->take ? kind->take(kind->context, network, row, done, error) : compare_store_read(row, done, error);
}

static enum ps_status make_row(struct making *making, struct ps_error *error) {
    struct ps_comparison *made = making->made;
    const struct ps_compare_options *lists = making->lists;
    const int number = made->row_count, seeds = made->seeds, network = number / (making->combinations * seeds);
    struct comparison_row *row = &made->rows[number];
    struct ps_plan_options planning;
    struct ps_cluster_options machines;
    bool done;
    TRY(compare_pick(lists, number / seeds % making->combinations, &planning, &machines, error));
    fill_words(lists, number / seeds % making->combinations, &planning, &machines, row);
    row->row.network = network;
    memcpy(row->precision, made->networks[network].precision, sizeof row->precision);
    if (lists->seed_count > 0) row->row.seed = lists->seeds[number % seeds];
    TRY(take_row(making, network, row, &done, error));
    making->found += done;
    if (done) return PS_OK;
    if (should_stop(lists)) return tell_stopped(making, error);
    log_info("row %d of %d: %s, method %s, schedule %s, weights %s%s%s, %d worker%s%s%s%s%s", number + 1, making->rows,
             making->kind->model(making->kind->context, network), row->method, row->schedule, row->weights,
             row->wire[0] ? ", wire " : "", row->wire, machines.workers, text_plural(machines.workers),
             row->memory[0] ? ", memory " : "", row->memory, row->bandwidth[0] ? ", bandwidth " : "", row->bandwidth);
    if (lists->seed_count > 1) log_info("seed %llu", (unsigned long long)row->row.seed);
    log_progress("comparing", number, making->rows, "%s %s", row->method, row->schedule);
    TRY(making->kind->fill(making->kind->context, network, &planning, &machines, row, error));
    const bool own = !making->kind->take || row->reason[0];
    return lists->out && own ? compare_store_write(row, error) : PS_OK;
}

static void free_row(struct comparison_row *row) {
    ps_run_destroy(row->run);
    free(row->directory);
}

static enum ps_status make_rows(struct making *making, struct ps_error *error) {
    struct ps_comparison *made = making->made;
    enum ps_status status = PS_OK;
    while (status == PS_OK && made->row_count < making->rows) {
        status = make_row(making, error);
        if (status == PS_OK)
            made->row_count++;
        else
            free_row(&made->rows[made->row_count]);
    }
    /* A training that was stopped says nothing of the others. */
    if (status == PS_STOPPED) tell_stopped(making, error);
    if (status == PS_OK) log_progress("comparing", making->rows, making->rows, "%s", "");
    if (status == PS_OK && making->found > 0)
        log_info("%d of %d rows were done before, in %s", making->found, making->rows, making->lists->out);
    return status;
}

static enum ps_status count_rows(struct making *making, struct ps_error *error) {
    const int64_t rows = (int64_t)making->combinations * making->kind->network_count * making->made->seeds;
    if (making->combinations > ROWS_MAX || rows > ROWS_MAX)
        return error_set(error, PS_USAGE, "more than %d combinations to compare", ROWS_MAX);
    making->rows = (int)rows;
    return memory_new(&making->made->rows, rows, "a comparison", error);
}

static enum ps_status name_networks(const struct making *making, struct ps_error *error) {
    const struct comparison_kind *kind = making->kind;
    struct ps_comparison *made = making->made;
    TRY(memory_new(&made->networks, kind->network_count, "a comparison", error));
    made->network_count = kind->network_count;
    for (int n = 0; n < kind->network_count; n++) {
        struct comparison_network *network = &made->networks[n];
        TRY(network_cut_precision(kind->model(kind->context, n), network->model, sizeof network->model, network->precision,
                                  error));
        const bool same =
            n > 0 && strcmp(network[-1].model, network->model) == 0 && strcmp(network[-1].precision, network->precision) != 0;
        network->number = n == 0 ? 0 : network[-1].number + !same;
    }
    /* A name without its precision is for those that differ in that. */
    for (int n = 0; n < kind->network_count; n++) {
        struct comparison_network *network = &made->networks[n];
        const bool shared = (n > 0 && network[-1].number == network->number) ||
                            (n + 1 < kind->network_count && network[1].number == network->number);
        if (!shared) snprintf(network->model, sizeof network->model, "%s", kind->model(kind->context, n));
        if (!network->precision[0]) strcpy(network->precision, "f32");
    }
    return PS_OK;
}

/* Opens the directory, if there is one. */
static enum ps_status open_store(const struct making *making, int *lock, struct ps_error *error) {
    const struct comparison_kind *kind = making->kind;
    if (!making->lists->out) return PS_OK;
    making->made->directory = strdup(making->lists->out);
    TRY(memory_check(making->made->directory, "a comparison", error));
    json_t *question = compare_question(making->lists, kind->name), *networks = json_array();
    for (int n = 0; n < kind->network_count; n++) json_array_append_new(networks, kind->question(kind->context, n));
    json_object_set_new(question, "networks", json_whole(networks, kind->network_count));
    return compare_store_open(making->lists->out, question, lock, error);
}

void ps_compare_options_init(struct ps_compare_options *options) {
    *options = (struct ps_compare_options){.struct_size = sizeof *options};
}

enum ps_status compare_request_take(const struct ps_compare_options *given, struct compare_request *own,
                                    struct ps_error *error) {
    *own = (struct compare_request){.observer = {.struct_size = sizeof own->observer}};
    ps_plan_options_init(&own->planning);
    ps_cluster_options_init(&own->machines);
    TRY(VERSIONED_TAKE(ps_compare_options, given, &own->options, error));
    if (own->options.planning) TRY(VERSIONED_TAKE(ps_plan_options, own->options.planning, &own->planning, error));
    if (own->options.machines) TRY(VERSIONED_TAKE(ps_cluster_options, own->options.machines, &own->machines, error));
    if (own->options.observer) TRY(VERSIONED_TAKE(ps_observer, own->options.observer, &own->observer, error));
    if (own->options.observer) own->options.observer = &own->observer;
    own->options.planning = &own->planning;
    own->options.machines = &own->machines;
    return log_check(own->options.log, error);
}

enum ps_status comparison_create(const struct compare_request *request, const struct comparison_kind *kind,
                                 struct ps_comparison **comparison, struct ps_error *error) {
    struct grid grid = {0};
    struct making making = {.lists = &grid.lists, .kind = kind};
    int lock = -1;
    TRY(memory_new(&making.made, 1, "a comparison", error));
    enum ps_status status;
    TRY_OUT(fill_grid(request, &grid, error));
    TRY_OUT(check_names(&grid.lists, error));
    making.made->seeds = grid.lists.seed_count > 0 ? grid.lists.seed_count : 1;
    making.combinations = compare_combinations(&grid.lists);
    TRY_OUT(count_rows(&making, error));
    TRY_OUT(name_networks(&making, error));
    TRY_OUT(open_store(&making, &lock, error));
    if (kind->prepare) TRY_OUT(kind->prepare(kind->context, &grid.lists, error));
    TRY_OUT(make_rows(&making, error));
out:
    free(grid.runnable);
    compare_store_close(lock);
    if (status == PS_OK)
        *comparison = making.made;
    else
        ps_comparison_destroy(making.made);
    return status;
}

/* ----------------------------------------------------------------------- ranking */

bool metric_better(enum ps_metric metric, double value, double than) {
    const bool less = metric == PS_METRIC_PERPLEXITY || metric == PS_METRIC_LOSS;
    return isfinite(value) && (!isfinite(than) || (less ? value < than : value > than));
}

static double throughput_of(const struct ps_comparison_row *row) {
    if (row->trained) return ps_run_info(row->run).samples_per_s;
    return row->simulated ? row->throughput_samples_per_s : NAN;
}

static double memory_of(const struct ps_comparison_row *row) {
    const int64_t bytes = row->trained ? row->measured_bytes : row->memory_bytes;
    return row->trained || row->simulated ? (double)bytes : NAN;
}

static double metric_of(const struct ps_comparison_row *row) { return row->trained ? row->best : NAN; }
static double target_of(const struct ps_comparison_row *row) { return row->trained ? row->target_s : NAN; }
static double loss_of(const struct ps_comparison_row *row) { return row->trained ? ps_run_info(row->run).loss : NAN; }
static double largest_of(const struct ps_comparison_row *row) { return row->largest > 0 ? row->largest : NAN; }

/* What rows can be ranked by. */
static const struct measure {
    const char *name;
    double (*of)(const struct ps_comparison_row *row); /* NaN: not known */
    bool less;                                         /* is better */
    bool trained;                                      /* of training alone */
} measures[] = {
    {"throughput", throughput_of, false, false}, {"memory", memory_of, true, false}, {"metric", metric_of, false, true},
    {"target", target_of, true, true},           {"loss", loss_of, true, true},      {"largest", largest_of, false, false},
};
enum { MEASURES = sizeof measures / sizeof *measures };

/* The mean over the seeds of the combination whose first row is that; NaN: nothing is known. */
static double mean_measure(const struct ps_comparison *comparison, int first, const struct measure *measure) {
    double sum = 0;
    int known = 0;
    for (int r = first; r < first + comparison->seeds; r++) {
        struct ps_comparison_row row = comparison->rows[r].row;
        row.run = comparison->rows[r].run;
        const double value = measure->of(&row);
        if (!isfinite(value)) continue;
        sum += value;
        known++;
    }
    return known > 0 ? sum / known : NAN;
}

static int number_of_network(const struct ps_comparison *comparison, int row) {
    return comparison->networks[comparison->rows[row].row.network].number;
}

static bool same_group(const struct ps_comparison *comparison, int a, int b) {
    const struct ps_comparison_row *one = &comparison->rows[a].row, *other = &comparison->rows[b].row;
    return number_of_network(comparison, a) == number_of_network(comparison, b) && one->workers == other->workers &&
           one->memory_limit_bytes == other->memory_limit_bytes && one->bandwidth_bytes_per_s == other->bandwidth_bytes_per_s;
}

static void rank_rows(struct ps_comparison *comparison, const double *values, const struct measure *measure) {
    const int seeds = comparison->seeds, count = comparison->row_count / seeds;
    for (int c = 0; c < count; c++) {
        const bool less = measure->less ||
                          (strcmp(measure->name, "metric") == 0 && metric_better(comparison->rows[c * seeds].row.metric, 0, 1));
        int rank = isfinite(values[c]) ? 1 : 0;
        for (int o = 0; o < count && rank > 0; o++)
            rank += same_group(comparison, c * seeds, o * seeds) && (less ? values[o] < values[c] : values[o] > values[c]);
        for (int s = 0; s < seeds; s++) comparison->rows[c * seeds + s].row.rank = rank;
    }
}

enum ps_status comparison_rank(struct ps_comparison *comparison, const char *by, const char *usual, struct ps_error *error) {
    static const char *const metrics[] = {[PS_METRIC_ACCURACY] = "accuracy",
                                          [PS_METRIC_BLEU] = "bleu",
                                          [PS_METRIC_PERPLEXITY] = "perplexity",
                                          [PS_METRIC_LOSS] = "valid_loss"};
    const int count = comparison->row_count / comparison->seeds;
    const bool metric_usual = strcmp(usual, "metric") == 0;
    double *values;
    bool known = false;
    TRY(memory_new(&values, count, "a comparison", error));
    /* Of rows that nobody validated the loss. */
    for (int tries = 0; tries < 2 && !known; tries++) {
        const char *name = by ? by : metric_usual && tries == 1 ? "loss" : usual;
        for (int m = 0; m < MEASURES; m++) {
            if (strcmp(measures[m].name, name) != 0) continue;
            for (int c = 0; c < count; c++) {
                values[c] = mean_measure(comparison, c * comparison->seeds, &measures[m]);
                known |= isfinite(values[c]);
            }
            rank_rows(comparison, values, &measures[m]);
            comparison->ranked_by = strcmp(name, "metric") == 0 ? metrics[comparison->rows[0].row.metric] : measures[m].name;
        }
    }
    free(values);
    return PS_OK;
}

enum ps_status compare_check_rank(const char *by, bool trained, struct ps_error *error) {
    const char *names[MEASURES];
    size_t count = 0;
    for (int m = 0; m < MEASURES; m++) {
        if ((measures[m].trained && !trained) || strcmp(measures[m].name, "largest") == 0) continue;
        if (by && strcmp(measures[m].name, by) == 0) return PS_OK;
        names[count++] = measures[m].name;
    }
    return by ? error_unknown(error, PS_USAGE, "measure", by, names, count) : PS_OK;
}

/* -------------------------------------------------------------------- simulation */

/* The costs of each network, and the cluster that plans are made for. */
struct simulated {
    const struct ps_profile *const *profiles;
    const struct ps_cluster *given; /* NULL: uniform */
};

static const char *profile_model(const void *context, int network) {
    const struct simulated *simulated = context;
    return simulated->profiles[network]->model;
}

static json_t *profile_question(const void *context, int network) {
    const struct simulated *simulated = context;
    const struct ps_profile *profile = simulated->profiles[network];
    char *text = ps_profile_json(profile), sum[16];
    if (!text) return NULL;
    const struct file_piece piece = {text, strlen(text)};
    snprintf(sum, sizeof sum, "%08x", (unsigned)file_checksum(&piece, 1));
    free(text);
    return json_pack("{s:s, s:s}", "model", profile->model, "profile_checksum", sum);
}

static enum ps_status keep_plan(const struct ps_plan *plan, const struct comparison_row *row, struct ps_error *error) {
    char path[4096];
    if (!row->directory) return PS_OK;
    TRY(file_make_directory(row->directory, error));
    return ps_plan_write(plan, file_join(path, row->directory, "plan.json"), error);
}

/* If nothing fits or the options of a combination contradict each other, the row gives the reason. */
static enum ps_status plan_row(const void *context, int network, const struct ps_plan_options *options,
                               const struct ps_cluster_options *machines, struct comparison_row *out, struct ps_error *error) {
    const struct simulated *simulated = context;
    const struct ps_profile *profile = simulated->profiles[network];
    const struct ps_cluster_options here = cluster_options_here(machines, profile);
    struct ps_cluster *cluster;
    struct ps_plan *plan = NULL;
    struct ps_error refusal = {0};
    TRY(comparison_cluster(simulated->given, &here, &cluster, error));
    enum ps_status status = search_find_plan(profile, cluster, options, &plan, &refusal);
    if (status != PS_OK) {
        status = comparison_refuse(status, &refusal, out, error);
    } else {
        status = comparison_fill(plan, profile, cluster, out, error);
        if (status == PS_OK) status = keep_plan(plan, out, error);
    }
    ps_plan_destroy(plan);
    ps_cluster_destroy(cluster);
    return status;
}

static enum ps_status compare_profiles(const struct compare_request *request, const struct ps_profile *profile,
                                       struct ps_comparison **comparison, struct ps_error *error) {
    const struct ps_compare_options *options = &request->options;
    const struct simulated simulated = {.profiles = options->profiles ? options->profiles : &profile,
                                        .given = options->cluster};
    const struct comparison_kind kind = {.name = "simulated",
                                         .context = &simulated,
                                         .network_count = options->profiles ? options->profile_count : 1,
                                         .model = profile_model,
                                         .question = profile_question,
                                         .fill = plan_row};
    if (!profile == !options->profiles || kind.network_count < 1)
        return error_set(error, PS_USAGE, "`profiles`: give one profile, or a list of them");
    if (options->seed_count > 0) return error_set(error, PS_USAGE, "`seeds`: are of training; a simulation has none");
    TRY(compare_check_rank(options->rank_by, false, error));
    TRY(comparison_create(request, &kind, comparison, error));
    return comparison_rank(*comparison, options->rank_by, "throughput", error);
}

enum ps_status ps_compare(const struct ps_profile *profile, const struct ps_compare_options *options,
                          struct ps_comparison **comparison, struct ps_error *error) {
    struct compare_request request;
    TRY(compare_request_take(options, &request, error));
    const struct ps_log_sink *log = log_use(request.options.log);
    enum ps_status status = compare_profiles(&request, profile, comparison, error);
    log_restore(log);
    return status;
}

/* ----------------------------------------------------------------------- results */

const char *ps_comparison_model(const struct ps_comparison *comparison) { return comparison->networks[0].model; }

const char *ps_comparison_largest(const struct ps_comparison *comparison) {
    return comparison->largest[0] ? comparison->largest : NULL;
}

int ps_comparison_count(const struct ps_comparison *comparison) { return comparison->row_count; }

static struct ps_comparison_info make_comparison_info(const struct ps_comparison *comparison) {
    return (struct ps_comparison_info){.rows = comparison->row_count,
                                       .networks = comparison->networks[comparison->network_count - 1].number + 1,
                                       .seeds = comparison->seeds,
                                       .ranked_by = comparison->ranked_by,
                                       .directory = comparison->directory};
}

void ps_comparison_info_get(const struct ps_comparison *comparison, struct ps_comparison_info *result, size_t size) {
    const struct ps_comparison_info own = make_comparison_info(comparison);
    VERSIONED_GIVE(own, result, size);
}

static const char *unless_empty(const char *text) { return text[0] ? text : NULL; }

static struct ps_comparison_row make_comparison_row(const struct ps_comparison *comparison, int number) {
    const struct comparison_row *from = &comparison->rows[number];
    struct ps_comparison_row row = from->row;
    row.method = from->method;
    row.schedule = from->schedule;
    row.weights = from->weights;
    row.wire = unless_empty(from->wire);
    row.chosen = unless_empty(from->chosen);
    row.reason = unless_empty(from->reason);
    row.memory_limit = unless_empty(from->memory);
    row.bandwidth = unless_empty(from->bandwidth);
    row.precision = from->precision;
    row.directory = from->directory;
    row.model = comparison->networks[row.network].model;
    row.network = comparison->networks[row.network].number;
    row.run = from->run;
    return row;
}

void ps_comparison_row_get(const struct ps_comparison *comparison, int number, struct ps_comparison_row *result, size_t size) {
    const struct ps_comparison_row own = make_comparison_row(comparison, number);
    VERSIONED_GIVE(own, result, size);
}

void ps_comparison_destroy(struct ps_comparison *comparison) {
    if (!comparison) return;
    for (int r = 0; comparison->rows && r < comparison->row_count; r++) free_row(&comparison->rows[r]);
    free(comparison->rows);
    free(comparison->networks);
    free(comparison->directory);
    free(comparison);
}
