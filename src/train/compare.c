/*
 * Methods side by side, trained: each combination is a run of its own from the same seed, without a run directory. They are
 * judged as PipeOptim's tables do: images and reviews by accuracy, translations by BLEU; texts whose next word is guessed by
 * perplexity.
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
    return metric == PS_METRIC_PERPLEXITY ? value <= target : value >= target;
}

/* By what training this network on these data is judged. */
static enum ps_metric find_metric(const struct ps_train_options *train) {
    const char *spec = train->data ? dataset_spec(train->data) : NULL;
    if (spec && strncmp(spec, "pairs:", 6) == 0) return PS_METRIC_BLEU;
    return train->network && isfinite(network_perplexity(train->network, 0)) ? PS_METRIC_PERPLEXITY : PS_METRIC_ACCURACY;
}

static enum ps_status check_target(enum ps_metric metric, double target, struct ps_error *error) {
    if (metric == PS_METRIC_ACCURACY && target > 1)
        return error_set(error, PS_USAGE, "--target: %g is no accuracy; those are 0 to 1", target);
    if (metric == PS_METRIC_BLEU && target > 100)
        return error_set(error, PS_USAGE, "--target: %g is no BLEU; that is 0 to 100", target);
    return PS_OK;
}

/* ------------------------------------------------------------------------- rows */

/* The points, and the best of them. */
static enum ps_status take_points(const struct ps_run *run, struct comparison_row *out, struct ps_error *error) {
    struct ps_comparison_row *row = &out->row;
    row->point_count = ps_run_point_count(run);
    row->points = out->points = calloc((size_t)row->point_count + 1, sizeof *out->points);
    if (!out->points) return error_memory(error, "a run's figures", (size_t)row->point_count * sizeof *out->points);
    row->best_valid_accuracy = row->best = NAN;
    for (int i = 0; i < row->point_count; i++) {
        const struct ps_run_point point = out->points[i] = ps_run_point(run, i);
        row->best_valid_accuracy = fmax(row->best_valid_accuracy, point.valid_accuracy); /* of NaN and a number the number */
        double value = ps_run_point_metric(&point, row->metric);
        if (!isfinite(value) || reaches(row->metric, row->best, value)) continue;
        row->best = value;
        row->best_epoch = point.epoch;
    }
    return PS_OK;
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
        for (int i = row->point_count - 1; i >= 0; i--) {
            if (!reaches(metric, ps_run_point_metric(&row->points[i], metric), target)) continue;
            row->target_s = row->points[i].training_s;
            row->target_epoch = row->points[i].epoch;
        }
    }
}

static enum ps_status fill_row(const struct ps_run *run, struct comparison_row *out, struct ps_error *error) {
    struct ps_comparison_row *row = &out->row;
    row->trained = true;
    row->run = ps_run_info(run);
    row->memory_of = out->memory_of = calloc((size_t)row->run.workers, sizeof *out->memory_of);
    if (!out->memory_of) return error_memory(error, "a run's figures", (size_t)row->run.workers * sizeof *out->memory_of);
    for (int w = 0; w < row->run.workers; w++) {
        out->memory_of[w] = ps_run_worker(run, w).measured_bytes;
        if (out->memory_of[w] > row->measured_bytes) row->measured_bytes = out->memory_of[w];
    }
    comparison_text(out->chosen, out->method);
    return take_points(run, out, error);
}

/* What the words stand for, where nothing is to be searched. */
static void name_choice(const struct ps_plan_options *options, int workers, struct comparison_row *out) {
    struct search_pair pairs[SEARCH_PAIRS_MAX];
    int count;
    if (search_pairs(options, workers, pairs, &count, NULL) != PS_OK || count > 1) return;
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
    log_info("training: method %s, schedule %s, weights %s, %d workers", out->method, out->schedule, out->weights,
             machines->workers);
    enum ps_status status = ps_train(&train, &run, &refusal);
    if (status == PS_OK) {
        status = fill_row(run, out, error);
        ps_run_destroy(run);
        return status;
    }
    if (status == PS_NO_PLAN || status == PS_USAGE || status == PS_FAILED) {
        snprintf(out->reason, sizeof out->reason, "%s", refusal.message);
        return PS_OK;
    }
    if (error) *error = refusal;
    return status;
}

enum ps_status ps_compare_training(const struct ps_compare_options *options, const struct ps_train_options *train,
                                   struct ps_comparison **comparison, struct ps_error *error) {
    struct ps_comparison *made;
    struct train_request request;
    TRY(train_request_take(train, &request, error));
    train = &request.options;
    struct work work = {.train = *train, .metric = find_metric(train)};
    if (options->given) return error_set(error, PS_USAGE, "--cluster: training compares alike workers; give --workers");
    TRY(check_target(work.metric, options->target, error));
    if (work.metric == PS_METRIC_BLEU && train->valid && train->valid_bleu == 0) work.train.valid_bleu = BLEU_USUAL;
    TRY(comparison_create(options, train->network ? train->network->name : "", train_row, &work, &made, error));
    for (int r = 0; r < made->row_count; r++)
        if (!made->rows[r].reason[0]) {
            time_target(made, work.metric, options->target);
            *comparison = made;
            return PS_OK;
        }
    error_set(error, PS_USAGE, "%s", made->rows[0].reason);
    ps_comparison_destroy(made);
    return PS_USAGE;
}
