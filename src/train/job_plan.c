/* Where the plan of a job comes from; see job_plan.h. */
#include "train/job_plan.h"

#include <stdio.h>

#include "base/log.h"
#include "base/text.h"
#include "search/search.h"
#include "train/job_costs.h"

enum { BATCH_DEFAULT = 64 };

/* ------------------------------------------------------------- cutting batches */

static int divisor_below(int number, int bound) {
    while (bound > 1 && number % bound != 0) bound--;
    return bound;
}

static int divisor_above(int number, int bound) {
    while (bound < number && number % bound != 0) bound++;
    return bound;
}

static enum ps_status not_a_divisor(int batch, int micro_batches, struct ps_error *error) {
    if (micro_batches > batch)
        return error_set(error, PS_USAGE, "`micro_batches`: %d are more than the %d samples of a mini-batch", micro_batches,
                         batch);
    return error_set(error, PS_USAGE, "`micro_batches`: %d does not divide the mini-batch of %d samples; %d and %d do",
                     micro_batches, batch, divisor_below(batch, micro_batches), divisor_above(batch, micro_batches));
}

enum ps_status job_cut_batch(int batch, int usual, int least, int *micro_batches, int *micro_batch, struct ps_error *error) {
    int count = *micro_batches, size = *micro_batch;
    if (size > 0 && batch % size != 0)
        return error_set(error, PS_USAGE, "`micro_batch`: %d does not divide the mini-batch of %d samples; %d and %d do", size,
                         batch, divisor_below(batch, size < batch ? size : batch), divisor_above(batch, size));
    if (count > 0 && size > 0 && (int64_t)count * size != batch)
        return error_set(error, PS_USAGE, "`batch`: %d is not %d micro-batches of %d samples", batch, count, size);
    if (count == 0) count = size > 0 ? batch / size : divisor_below(batch, usual < batch ? usual : batch);
    if (*micro_batches == 0 && size == 0 && count < least) count = divisor_above(batch, least);
    if (count > batch || batch % count != 0) return not_a_divisor(batch, count, error);
    *micro_batches = count;
    *micro_batch = batch / count;
    return PS_OK;
}

/* ------------------------------------------------------------- cluster and plan */

static enum ps_status open_cluster(struct job *job, int workers, struct ps_error *error) {
    const struct ps_train_options *options = job->options;
    if (job->cluster) { /* as it was measured */
        for (int w = 0; w < job->cluster->workers && options->machines->memory_bytes > 0; w++)
            job->cluster->devices[w].memory_bytes = options->machines->memory_bytes;
    } else if (options->cluster) {
        TRY(cluster_copy(options->cluster, &job->cluster, error));
    } else {
        struct ps_cluster_options uniform = *options->machines;
        if (uniform.workers == 0) uniform.workers = workers > 0 || !job_is_several(job) ? workers : job->processes->count;
        if (uniform.workers == 0) return error_set(error, PS_USAGE, "`workers`: how many workers there are must be said");
        TRY(ps_cluster_uniform(&uniform, &job->cluster, error));
    }
    if (workers > 0 && job->cluster->workers != workers)
        return error_set(error, PS_USAGE, "`workers`: the plan is for %d workers, not %d", workers, job->cluster->workers);
    return PS_OK;
}

int64_t job_plan_batch(const struct ps_plan *plan) {
    return (int64_t)plan->micro_batches * (plan->micro_batch > 0 ? plan->micro_batch : 1);
}

enum ps_status job_take_plan(struct job *job, struct ps_error *error) {
    const struct ps_train_options *options = job->options;
    const char *optimizer = options->planning->optimizer;
    TRY(plan_copy(options->plan, &job->plan, error));
    struct ps_plan *plan = job->plan;
    if (optimizer) snprintf(plan->optimizer, sizeof plan->optimizer, "%s", optimizer);
    if (options->batch > 0 && options->batch != job_plan_batch(plan))
        return error_set(error, PS_USAGE, "`batch`: the plan has a mini-batch of %lld samples (%d micro-batches of %d), not %d",
                         (long long)job_plan_batch(plan), plan->micro_batches, plan->micro_batch, options->batch);
    return open_cluster(job, plan->workers, error);
}

int64_t job_requested_batch(const struct job *job) {
    if (job->plan) return job_plan_batch(job->plan);
    return job->options->batch > 0 ? job->options->batch : BATCH_DEFAULT;
}

/* Who says `auto` and nothing of micro-batches leaves their size to the search: half and twice the usual number are tried. */
static int open_sizes(const struct ps_plan_options *requested, int batch, int usual, int least, int sizes[3]) {
    int count = 0;
    if (!requested->method || !search_is_auto(requested->method) || requested->micro_batch > 0 || requested->micro_batches > 0)
        return 0;
    for (int number = 2 * usual; number >= 1 && number >= usual / 2; number /= 2)
        if (number >= least && batch % number == 0) sizes[count++] = batch / number;
    return count;
}

static bool any_divides(const struct ps_profile *profile, int batch) {
    for (int t = 0; t < profile->table_count; t++)
        if (profile->tables[t].micro_batch > 0 && batch % profile->tables[t].micro_batch == 0) return true;
    return false;
}

/* Do layers share parameters? */
static bool tied(const struct job *job) {
    if (!job->network) return cost_table_tied(&job->profile->tables[0]);
    const struct graph *graph = job->network->graph;
    for (int p = 0; p < graph->parameter_count; p++)
        if (parameter_is_shared(&graph->parameters[p])) return true;
    return false;
}

enum ps_status job_make_plan(struct job *job, struct ps_error *error) {
    const struct ps_train_options *options = job->options;
    TRY(open_cluster(job, 0, error));
    struct ps_plan_options requested = search_tied(options->planning, tied(job), job->cluster->workers);
    struct search_choice choice;
    TRY(search_choose(&requested, job->cluster->workers, &choice, error));
    int batch = (int)job_requested_batch(job), sizes[3];
    int least = choice.policy->group_of_workers ? job->cluster->workers : 1;
    int open = open_sizes(&requested, batch, choice.micro_batches, least, sizes);
    if (open > 0 && !job->profile) TRY(job_costs_measure(job, batch, sizes, open, error));
    if (open > 0 && any_divides(job->profile, batch)) {
        requested.batch = batch;
    } else {
        TRY(job_cut_batch(batch, choice.micro_batches, least, &requested.micro_batches, &requested.micro_batch, error));
        if (!job->profile) TRY(job_costs_measure(job, batch, &requested.micro_batch, 1, error));
        /* Costs that do not say for how many samples they are hold for any micro-batch. */
        if (job->profile->tables[0].micro_batch == 0) requested.micro_batch = 0;
    }
    TRY(ps_plan_find(job->profile, job->cluster, &requested, &job->plan, error));
    log_info("plan: %s cuts %s into %d stage%s; schedule %s, weights %s, %d micro-batch%s of %d sample%s", job->plan->method,
             job->plan->model, job->plan->stage_count, text_plural(job->plan->stage_count), job->plan->schedule,
             job->plan->weights, job->plan->micro_batches, job->plan->micro_batches == 1 ? "" : "es", job->plan->micro_batch,
             text_plural(job->plan->micro_batch));
    return PS_OK;
}
