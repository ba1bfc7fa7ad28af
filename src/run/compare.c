/* Methods side by side, trained: each combination is a run of its own from the same seed, without a run directory. */
#include "search/compare.h"

#include <stdio.h>

#include "base/log.h"
#include "search/search.h"

static void fill_row(const struct ps_run *run, struct comparison_row *out) {
    struct ps_comparison_row *row = &out->row;
    row->trained = true;
    row->run = ps_run_info(run);
    for (int w = 0; w < row->run.workers; w++) {
        struct ps_run_worker worker = ps_run_worker(run, w);
        if (worker.measured_bytes > row->measured_bytes) row->measured_bytes = worker.measured_bytes;
    }
    comparison_text(out->chosen, out->method);
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
        fill_row(run, out);
        ps_run_destroy(run);
        return PS_OK;
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
            *comparison = made;
            return PS_OK;
        }
    error_set(error, PS_USAGE, "%s", made->rows[0].reason);
    ps_comparison_destroy(made);
    return PS_USAGE;
}
