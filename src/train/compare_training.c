/*
 * Methods side by side, trained: each combination is a run of its own from the same seed, without a run directory. They are
 * judged as PipeOptim's tables do: images and reviews by accuracy, translations by BLEU; texts whose next word is guessed by
 * perplexity; networks without classes by their loss.
 */
#include "search/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "data/object.h"
#include "search/search.h"
#include "train/job.h"
#include "train/options.h"

/* Sentences of a comparison's validation data that are translated where nothing is said. */
enum { BLEU_USUAL = 256 };

/* ----------------------------------------------------------------------- metric */

static bool reaches(enum ps_metric metric, double value, double target) {
    return metric == PS_METRIC_PERPLEXITY || metric == PS_METRIC_LOSS ? value <= target : value >= target;
}

/* By what training this network on these data is judged. */
static enum ps_metric find_metric(const struct ps_train_options *train) {
    const char *spec = train->data ? dataset_spec(train->data) : NULL;
    if (spec && strncmp(spec, "pairs:", 6) == 0) return PS_METRIC_BLEU;
    if (train->network && train->network->classes == 0) return PS_METRIC_LOSS;
    return train->network && isfinite(network_perplexity(train->network, 0)) ? PS_METRIC_PERPLEXITY : PS_METRIC_ACCURACY;
}

static enum ps_status check_target(enum ps_metric metric, double target, struct ps_error *error) {
    if (metric == PS_METRIC_ACCURACY && target > 1)
        return error_set(error, PS_USAGE, "`target`: %g is no accuracy; those are 0 to 1", target);
    if (metric == PS_METRIC_BLEU && target > 100)
        return error_set(error, PS_USAGE, "`target`: %g is no BLEU; that is 0 to 100", target);
    return PS_OK;
}

/* ------------------------------------------------------------------------- rows */

/* The best of its points. */
static void find_best(struct ps_comparison_row *row, const struct ps_run *run) {
    row->best_valid_accuracy = row->best = NAN;
    for (int i = 0; i < ps_run_point_count(run); i++) {
        const struct ps_run_point point = ps_run_point(run, i);
        row->best_valid_accuracy = fmax(row->best_valid_accuracy, point.valid_accuracy); /* of NaN and a number the number */
        double value = ps_run_point_metric(&point, row->metric);
        if (!isfinite(value) || reaches(row->metric, row->best, value)) continue;
        row->best = value;
        row->best_epoch = point.epoch;
    }
}

static bool was_validated(const struct comparison_row *row) { return row->row.trained && isfinite(row->row.best); }

/* When each row reached the target. */
static void time_target(struct ps_comparison *comparison, enum ps_metric metric, double target) {
    for (int r = 0; r < comparison->row_count && target == 0; r++) {
        if (!was_validated(&comparison->rows[r])) continue;
        target = comparison->rows[r].row.best;
        for (int other = 0; other < comparison->row_count; other++) {
            double best = comparison->rows[other].row.best;
            if (was_validated(&comparison->rows[other]) && reaches(metric, target, best)) target = best;
        }
    }
    for (int r = 0; r < comparison->row_count; r++) {
        struct ps_comparison_row *row = &comparison->rows[r].row;
        row->target = target;
        row->target_s = NAN;
        for (int i = row->trained ? ps_run_point_count(comparison->rows[r].run) - 1 : -1; i >= 0; i--) {
            const struct ps_run_point point = ps_run_point(comparison->rows[r].run, i);
            if (!reaches(metric, ps_run_point_metric(&point, metric), target)) continue;
            row->target_s = point.training_s;
            row->target_epoch = point.epoch;
        }
    }
}

/* The run is the row's from here on. */
static void fill_row(struct ps_run *run, struct comparison_row *out) {
    struct ps_comparison_row *row = &out->row;
    row->trained = true;
    out->run = run;
    for (int w = 0; w < ps_run_info(run).workers; w++) {
        int64_t bytes = ps_run_worker(run, w).measured_bytes;
        if (bytes > row->measured_bytes) row->measured_bytes = bytes;
    }
    comparison_text(out->chosen, out->method);
    find_best(row, run);
}

/* What the words stand for, where nothing is to be searched. */
static void name_choice(const struct ps_plan_options *options, int workers, struct comparison_row *out) {
    struct search_pair pairs[SEARCH_PAIRS_MAX];
    int count;
    if (search_pairs(options, workers, false, pairs, &count, NULL) != PS_OK || count > 1) return;
    comparison_text(out->schedule, pairs[0].schedule->name);
    comparison_text(out->weights, pairs[0].policy->name);
}

struct work {
    struct ps_train_options train;
    enum ps_metric metric;
};

static enum ps_status train_row(const void *context, const struct ps_plan_options *options,
                                const struct ps_cluster_options *machines, struct comparison_row *out, struct ps_error *error) {
    const struct work *work = context;
    struct ps_train_options train = work->train;
    struct ps_error refusal = {0};
    struct ps_run *run;
    train.plan = NULL;
    train.cluster = NULL;
    train.out = train.resume = NULL;
    if (!train.transport) train.transport = "threads"; /* several runs in a row: no other process could keep step */
    struct ps_plan_options planning = *options;
    if (options->batch > 0) train.batch = options->batch;
    planning.batch = 0;
    train.planning = &planning;
    train.machines = machines;
    out->row.metric = work->metric;
    name_choice(options, machines->workers, out);
    log_info("training: method %s, schedule %s, weights %s, %d workers%s%s", out->method, out->schedule, out->weights,
             machines->workers, out->wire[0] ? ", wire " : "", out->wire);
    enum ps_status status = ps_train(&train, &run, &refusal);
    if (status == PS_OK) {
        fill_row(run, out);
        return PS_OK;
    }
    if (status == PS_NO_PLAN || status == PS_USAGE || status == PS_FAILED || status == PS_OUT_OF_MEMORY) {
        snprintf(out->reason, sizeof out->reason, "%s", refusal.message);
        return PS_OK;
    }
    if (error) *error = refusal;
    return status;
}

static enum ps_status train_all(const struct compare_request *compare, const struct ps_train_options *train,
                                struct ps_comparison **comparison, struct ps_error *error) {
    const double target = compare->options.target;
    struct ps_comparison *made;
    struct work work = {.train = *train, .metric = find_metric(train)};
    if (compare->options.cluster)
        return error_set(error, PS_USAGE, "`cluster`: training compares alike workers; give `workers`");
    TRY(check_target(work.metric, target, error));
    if (work.metric == PS_METRIC_BLEU && train->valid && train->valid_bleu == 0) work.train.valid_bleu = BLEU_USUAL;
    TRY(comparison_create(compare, train->network ? train->network->name : "", train_row, &work, &made, error));
    for (int r = 0; r < made->row_count; r++)
        if (!made->rows[r].reason[0]) {
            time_target(made, work.metric, target);
            *comparison = made;
            return PS_OK;
        }
    error_set(error, PS_USAGE, "%s", made->rows[0].reason);
    ps_comparison_destroy(made);
    return PS_USAGE;
}

enum ps_status ps_compare_training(const struct ps_compare_options *options, const struct ps_train_options *train,
                                   struct ps_comparison **comparison, struct ps_error *error) {
    struct compare_request compare;
    struct train_request request;
    TRY(compare_request_take(options, &compare, error));
    TRY(train_request_take(train, &request, error));
    const struct ps_log_sink *log = log_use(compare.options.log);
    enum ps_status status = train_all(&compare, &request.options, comparison, error);
    log_restore(log);
    return status;
}
