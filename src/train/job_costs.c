/* Measuring the network of a job; see job_costs.h. */
#include "train/job_costs.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "data/order.h"
#include "train/joint_profile.h"
#include "train/predict_run.h"

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
    log_info("profiling %s%s: micro-batch of %d%s on %s", ps_network_info(network).name, tokens_text(network, tokens),
             options->micro_batches[0], options->micro_batch_count > 1 ? " and more" : "", options->device);
    return ps_profile_measure(network, options, profile, error);
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

enum ps_status job_costs_measure(struct job *job, int64_t batch, const int *sizes, int count, struct ps_error *error) {
    const struct ps_profile_options options = {.struct_size = sizeof options,
                                               .device = job->device->name,
                                               .threads = job->threads,
                                               .busy = busy_workers(job),
                                               .micro_batches = sizes,
                                               .micro_batch_count = count};
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

enum ps_status job_costs_fit(struct job *job, int64_t batch, struct ps_error *error) {
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
