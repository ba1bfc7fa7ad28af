/* Methods side by side, trained: each combination is a run of its own from the same seed, without a run directory. */
#include "search/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "search/search.h"

/* The points, and the best of them. */
static enum ps_status take_points(const struct ps_run *run, struct comparison_row *out, struct ps_error *error) {
    struct ps_comparison_row *row = &out->row;
    row->point_count = ps_run_point_count(run);
    row->points = out->points = calloc((size_t)row->point_count + 1, sizeof *out->points);
    if (!out->points) return error_memory(error, "a run's figures", (size_t)row->point_count * sizeof *out->points);
    row->best_valid_accuracy = NAN;
    for (int i = 0; i < row->point_count; i++) {
        const struct ps_run_point point = out->points[i] = ps_run_point(run, i);
        if (!isfinite(point.valid_accuracy) || point.valid_accuracy <= row->best_valid_accuracy) continue;
        row->best_valid_accuracy = point.valid_accuracy;
        row->best_epoch = point.epoch;
    }
    return PS_OK;
}

static bool was_validated(const struct comparison_row *row) {
    return row->row.trained && isfinite(row->row.best_valid_accuracy);
}

/* When each row reached the target. */
static void time_target(struct ps_comparison *comparison, double target) {
    for (int r = 0; r < comparison->row_count && target == 0; r++) {
        if (!was_validated(&comparison->rows[r])) continue;
        target = comparison->rows[r].row.best_valid_accuracy;
        for (int other = 0; other < comparison->row_count; other++)
            if (was_validated(&comparison->rows[other])) target = fmin(target, comparison->rows[other].row.best_valid_accuracy);
    }
    for (int r = 0; r < comparison->row_count; r++) {
        struct ps_comparison_row *row = &comparison->rows[r].row;
        row->target_accuracy = target;
        row->target_s = NAN;
        for (int i = row->point_count - 1; i >= 0; i--) {
            if (!(row->points[i].valid_accuracy >= target)) continue;
            row->target_s = row->points[i].training_s;
            row->target_epoch = row->points[i].epoch;
        }
    }
}

static enum ps_status fill_row(const struct ps_run *run, struct comparison_row *out, struct ps_error *error) {
    struct ps_comparison_row *row = &out->row;
    row->trained = true;
    row->run = ps_run_info(run);
    for (int w = 0; w < row->run.workers; w++) {
        struct ps_run_worker worker = ps_run_worker(run, w);
        if (worker.measured_bytes > row->measured_bytes) row->measured_bytes = worker.measured_bytes;
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

static enum ps_status train_row(const void *context, const struct ps_plan_options *options,
                                const struct ps_cluster_options *machines, struct comparison_row *out, struct ps_error *error) {
    struct ps_train_options train = *(const struct ps_train_options *)context;
    struct ps_error refusal = {0};
    struct ps_run *run;
    train.plan_path = train.cluster_path = train.out = NULL;
    if (!train.transport) train.transport = "threads"; /* several runs in a row: no other process could keep step */
    train.plan = *options;
    train.cluster = *machines;
    if (options->batch > 0) train.batch = options->batch;
    train.plan.batch = 0;
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
    if (options->cluster_path) return error_set(error, PS_USAGE, "--cluster: training compares alike workers; give --workers");
    TRY(comparison_create(options, train->model ? train->model : "", train_row, train, &made, error));
    for (int r = 0; r < made->row_count; r++)
        if (!made->rows[r].reason[0]) {
            time_target(made, options->target);
            *comparison = made;
            return PS_OK;
        }
    error_set(error, PS_USAGE, "%s", made->rows[0].reason);
    ps_comparison_destroy(made);
    return PS_USAGE;
}
