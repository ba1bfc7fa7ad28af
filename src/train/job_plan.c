/* Where the costs and the plan of a job come from; see job_plan.h. */
#include "train/job_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/processor.h"
#include "base/text.h"
#include "data/order.h"
#include "graph/model.h"
#include "profile/cache.h"
#include "program/lower.h"
#include "search/search.h"
#include "train/joint_profile.h"
#include "train/predict_run.h"

enum { BATCH_DEFAULT = 64 };

/* ----------------------------------------------------------------- measuring costs */

/* Workers that will compute side by side on this machine. */
static int busy_workers(const struct job *job) {
    int most = predict_at_once(job), workers = job_is_several(job) ? 1 : job->cluster->workers;
    return most > 0 && most < workers ? most : workers;
}

/* How many tokens a shorter network takes, for messages. */
static const char *tokens_text(const struct ps_network *network, char text[32]) {
    text[0] = '\0';
    if (network->graph->longest) snprintf(text, 32, " with %d tokens", network_source(network));
    return text;
}

static enum ps_status measure_alone(const struct job *job, int length, const struct ps_profile_options *options,
                                    struct ps_profile **profile, struct ps_error *error) {
    const struct ps_network *network = job_network(job, length);
    char tokens[32];
    char text[NETWORK_NAME_SIZE + 128];
    snprintf(text, sizeof text, "profiling %s%s: micro-batch of %d%s on %s", ps_network_info(network).name,
             tokens_text(network, tokens), options->micro_batches[0], options->micro_batch_count > 1 ? " and more" : "",
             options->device);
    return profile_cache_measure(job->options->profile_cache, network, options, text, profile, error);
}

/* At one length; on one device of each type, where there are processes for that: *typed is the cluster that says of which type
 * each is, or NULL. */
static enum ps_status measure(const struct job *job, int length, const struct ps_profile_options *options,
                              struct ps_profile **profile, struct ps_cluster **typed, struct ps_error *error) {
    *typed = NULL;
    if (!job_is_several(job) || job->cluster->workers != job->processes->count)
        return measure_alone(job, length, options, profile, error);
    return joint_profile_measure(job->processes, job_network(job, length), job->network_text, options, job->cluster,
                                 job->options->emulate, profile, typed, error);
}

_Static_assert((int)LENGTHS_MAX <= (int)PROFILE_LENGTHS_MAX, "a profile has room for all lengths");

/* Makes the profile's times those of the lengths' mean, `shorter` being those of all but the last. */
static enum ps_status mix(const struct job *job, int64_t batch, struct ps_profile *profile, struct ps_profile *const *shorter,
                          struct ps_error *error) {
    const struct lengths *lengths = &job->lengths;
    double shares[LENGTHS_MAX];
    char text[LENGTHS_TEXT];
    if (lengths->samples < batch) return PS_OK; /* the trainer refuses that, with all others that have too few */
    TRY(sample_order_shares(lengths->samples, (int)batch, job->options->seed, lengths, shares, error));
    for (int l = 0; l < lengths->count; l++)
        log_info("%.0f%% of the mini-batches have %d tokens", 100 * shares[l], lengths->at[l].source);
    return profile_mix(profile, shorter, shares, lengths->count - 1, lengths_text(lengths, text), error);
}

/* Measures at so many sizes of micro-batch, for mini-batches of `batch` samples; sets the job's profile, and where devices are
 * of several types its cluster, which says of which type each is. */
static enum ps_status measure_costs(struct job *job, int64_t batch, const int *sizes, int count, struct ps_error *error) {
    const struct ps_profile_options options = {.struct_size = sizeof options,
                                               .device = job->device->name,
                                               .threads = job->threads,
                                               .busy = busy_workers(job),
                                               .micro_batches = sizes,
                                               .micro_batch_count = count,
                                               .quick = true};
    const int last = job->lengths.count > 0 ? job->lengths.count - 1 : 0;
    struct ps_profile *profiles[LENGTHS_MAX] = {NULL};
    struct ps_cluster *typed = NULL, *again;
    enum ps_status status = measure(job, last, &options, &profiles[last], &typed, error);
    for (int l = 0; status == PS_OK && l < last; l++) {
        status = measure(job, l, &options, &profiles[l], &again, error);
        if (status == PS_OK) ps_cluster_destroy(again);
    }
    if (status == PS_OK && last > 0) status = mix(job, batch, profiles[last], profiles, error);
    for (int l = 0; l < last; l++) ps_profile_destroy(profiles[l]);
    if (status != PS_OK) {
        ps_profile_destroy(profiles[last]);
        ps_cluster_destroy(typed);
        return status;
    }
    job->profile = profiles[last];
    if (!typed) return PS_OK;
    ps_cluster_destroy(job->cluster);
    job->cluster = typed;
    return PS_OK;
}

/* ------------------------------------------------------------------- a given profile */

/* Measures the shorter lengths as the profile was. */
static enum ps_status measure_shorter(const struct job *job, struct ps_profile **shorter, struct ps_error *error) {
    const struct ps_profile *given = job->profile;
    int *sizes;
    TRY(memory_new(&sizes, given->table_count, "profiling", error));
    for (int t = 0; t < given->table_count; t++) sizes[t] = given->tables[t].micro_batch;
    const struct ps_profile_options options = {.struct_size = sizeof options,
                                               .device = job->device->name,
                                               .threads = job->threads,
                                               .busy = given->busy,
                                               .micro_batches = sizes,
                                               .micro_batch_count = given->table_count};
    enum ps_status status = PS_OK;
    for (int l = 0; status == PS_OK && l < job->lengths.count - 1; l++)
        status = measure_alone(job, l, &options, &shorter[l], error);
    free(sizes);
    return status;
}

enum ps_status job_fit_costs(struct job *job, int64_t batch, struct ps_error *error) {
    struct ps_profile *shorter[LENGTHS_MAX] = {NULL};
    char wanted[LENGTHS_TEXT];
    const char *has = job->profile->lengths;
    if (strcmp(has, lengths_text(&job->lengths, wanted)) == 0) return PS_OK;
    if (job->lengths.count == 0) {
        log_warn("the profile's times are means over mini-batches of the lengths %s and the whole one, and this run has the "
                 "whole one only: predictions will be off",
                 has);
        return PS_OK;
    }
    if (has[0]) return error_set(error, PS_USAGE, "`lengths`: %s, where the profile's times are means over %s", wanted, has);
    if (job->profile->tables[0].micro_batch == 0)
        return error_set(error, PS_USAGE, "`lengths`: the profile does not say for how many samples its times are");
    enum ps_status status = measure_shorter(job, shorter, error);
    if (status == PS_OK) status = mix(job, batch, job->profile, shorter, error);
    for (int l = 0; l < LENGTHS_MAX; l++) ps_profile_destroy(shorter[l]);
    return status;
}

/* ------------------------------------------------------------------ cutting batches */

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

/* ------------------------------------------------------------------ cluster and plan */

/* As many as have a core each and a layer each; 0: it is not known. */
static int workers_here(const struct job *job) {
    const int most = predict_at_once(job), layers = job->network ? job->network->graph->layer_count : most;
    return most < layers ? most : layers;
}

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
        if (uniform.workers == 0) uniform.workers = workers_here(job);
        if (uniform.workers == 0) return error_set(error, PS_USAGE, "`workers`: how many workers there are must be said");
        if (uniform.cores == 0 && uniform.bandwidth_bytes_per_s <= 0 && uniform.latency_s <= 0) /* as ps_cluster_here */
            uniform.cores = predict_at_once(job);
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
    const int usual = job->network ? model_training_of(job->network->name).batch : 0;
    return job->options->batch > 0 ? job->options->batch : usual > 0 ? usual : BATCH_DEFAULT;
}

const char *job_optimizer(const struct job *job, const char *policy) {
    const char *usual = job->network ? model_training_of(job->network->name).optimizer : NULL;
    int moments;
    if (job->plan) return job->plan->optimizer;
    if (job->options->planning->optimizer) return job->options->planning->optimizer;
    return usual && policy_moments(policy, usual, &moments, NULL) == PS_OK ? usual : OPTIMIZER_DEFAULT;
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

/* A plan that is to be searched: how, and at which sizes of micro-batch, where those are left to the search. */
struct wish {
    struct ps_plan_options planning;
    int batch, usual, least; /* samples, and numbers of micro-batches */
    int sizes[3], open;
};

static enum ps_status wish_plan(const struct job *job, int workers, struct wish *wish, struct ps_error *error) {
    struct search_choice choice;
    wish->planning = search_tied(job->options->planning, tied(job), workers);
    TRY(search_choose(&wish->planning, workers, &choice, error));
    /* Periodic schedules hold more mini-batches at a time: a search that was not asked for does not make gradients staler. */
    if (!wish->planning.method) wish->planning.schedule = choice.schedule->name;
    wish->planning.optimizer = job_optimizer(job, choice.policy->name);
    wish->batch = (int)job_requested_batch(job);
    wish->usual = choice.micro_batches;
    wish->least = choice.policy->group_of_workers ? workers : 1;
    wish->open = open_sizes(&wish->planning, wish->batch, wish->usual, wish->least, wish->sizes);
    return PS_OK;
}

static enum ps_status cut_wish(struct wish *wish, struct ps_error *error) {
    return job_cut_batch(wish->batch, wish->usual, wish->least, &wish->planning.micro_batches, &wish->planning.micro_batch,
                         error);
}

/* For so many workers; 0: as many as the options or the machine say. */
static enum ps_status find_plan(struct job *job, int workers, struct ps_error *error) {
    struct wish wish;
    TRY(open_cluster(job, workers, error));
    TRY(wish_plan(job, job->cluster->workers, &wish, error));
    if (wish.open > 0 && !job->profile) TRY(measure_costs(job, wish.batch, wish.sizes, wish.open, error));
    if (wish.open > 0 && any_divides(job->profile, wish.batch)) {
        wish.planning.batch = wish.batch;
    } else {
        TRY(cut_wish(&wish, error));
        if (!job->profile) TRY(measure_costs(job, wish.batch, &wish.planning.micro_batch, 1, error));
        /* Costs that do not say for how many samples they are hold for any micro-batch. */
        if (job->profile->tables[0].micro_batch == 0) wish.planning.micro_batch = 0;
    }
    return ps_plan_find(job->profile, job->cluster, &wish.planning, &job->plan, error);
}

enum ps_status job_add_sizes(const struct job *job, struct size_set *set, struct ps_error *error) {
    struct wish wish;
    TRY(wish_plan(job, job->options->machines->workers, &wish, error));
    if (wish.open == 0) {
        TRY(cut_wish(&wish, error));
        wish.sizes[wish.open++] = wish.planning.micro_batch;
    }
    for (int s = 0; s < wish.open; s++) {
        bool known = false;
        for (int k = 0; k < set->count; k++) known |= set->sizes[k] == wish.sizes[s];
        if (!known && set->count == SIZE_SET_MAX)
            return error_set(error, PS_FAILED, "micro-batches of more than %d sizes", SIZE_SET_MAX);
        if (!known) set->sizes[set->count++] = wish.sizes[s];
    }
    return PS_OK;
}

enum ps_status job_measure(struct job *job, const struct size_set *set, struct ps_error *error) {
    TRY(open_cluster(job, 0, error));
    return measure_costs(job, job_requested_batch(job), set->sizes, set->count, error);
}

/* May the machine's cores be divided into workers and threads at will? */
static bool divides_cores(const struct job *job) {
    const struct ps_train_options *options = job->options;
    const struct ps_cluster_options *machines = options->machines;
    const bool open =
        machines->workers == 0 && !options->cluster && !job->cluster && !options->emulate && options->threads == 0;
    const bool one_machine = machines->bandwidth_bytes_per_s <= 0 && machines->latency_s <= 0 && !job_is_several(job);
    return open && one_machine && job->transport->own_threads && !job->transport->processes && job->device->real &&
           !job->profile && !getenv("OMP_NUM_THREADS");
}

/* The workers times threads that are tried: a thread for each worker, one worker, and what is between. */
static int divide_cores(int cores, int threads[3]) {
    int count = 0, middle = 1;
    while (4 * middle * middle <= cores) middle *= 2;
    threads[count++] = 1;
    if (middle > 1 && middle < cores) threads[count++] = middle;
    if (cores > 1) threads[count++] = cores;
    return count;
}

static double planned_throughput(const struct ps_plan *plan) {
    return plan->predicted.simulated ? plan->predicted.throughput_samples_per_s : 0;
}

static void take_found(struct job *job, struct job *found) {
    ps_plan_destroy(job->plan);
    ps_profile_destroy(job->profile);
    ps_cluster_destroy(job->cluster);
    job->plan = found->plan;
    job->profile = found->profile;
    job->cluster = found->cluster;
    job->threads = found->threads;
    found->plan = NULL, found->profile = NULL, found->cluster = NULL;
}

/* The division of the cores whose plan is predicted to be the fastest. That no plan fits one is an error only where none fits
 * any. */
static enum ps_status find_division(struct job *job, struct ps_error *error) {
    int threads[3], cores = cores_usable(), count = divide_cores(cores, threads);
    enum ps_status status = PS_OK;
    for (int c = 0; c < count && (status == PS_OK || status == PS_NO_PLAN); c++) {
        struct job one = *job;
        one.plan = NULL, one.profile = NULL, one.cluster = NULL;
        one.threads = threads[c];
        status = find_plan(&one, cores / threads[c] < workers_here(&one) ? cores / threads[c] : workers_here(&one), error);
        if (status == PS_OK)
            log_info("%d worker%s of %d thread%s: %.4g samples/s predicted", one.cluster->workers,
                     text_plural(one.cluster->workers), one.threads, text_plural(one.threads), planned_throughput(one.plan));
        if (status == PS_OK && (!job->plan || planned_throughput(one.plan) > planned_throughput(job->plan)))
            take_found(job, &one);
        ps_plan_destroy(one.plan);
        ps_profile_destroy(one.profile);
        ps_cluster_destroy(one.cluster);
    }
    return status == PS_NO_PLAN && job->plan ? PS_OK : status;
}

enum ps_status job_make_plan(struct job *job, struct ps_error *error) {
    const struct ps_train_options *options = job->options;
    const bool measured = !job->profile;
    TRY(divides_cores(job) ? find_division(job, error) : find_plan(job, 0, error));
    log_info("plan: %s cuts %s into %d stage%s; schedule %s, weights %s, %d micro-batch%s of %d sample%s", job->plan->method,
             job->plan->model, job->plan->stage_count, text_plural(job->plan->stage_count), job->plan->schedule,
             job->plan->weights, job->plan->micro_batches, job->plan->micro_batches == 1 ? "" : "es", job->plan->micro_batch,
             text_plural(job->plan->micro_batch));
    static const char why[] =
        "the plan follows from measured times: another measurement may cut elsewhere, and then other weights come out";
    char threads[32] = "";
    if (job->threads > 1) snprintf(threads, sizeof threads, " `threads` %d", job->threads);
    if (measured && options->out)
        log_info("%s; `plan` %s/plan.json%s repeats this one", why, options->out, threads);
    else if (measured)
        log_info("%s; `out` keeps it", why);
    return PS_OK;
}
