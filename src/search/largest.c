/*
 * The largest network that fits (BaPipe's Table IV): for every combination of methods and clusters, the largest value of one
 * option of a built-in network, such as its number of layers, for which there is a plan. Network files are a family, one file
 * for each value, with "{KEY}" for the value in their common path. Each try is a whole search with costs
 * from a model (profile/modelled.h), so every answer is a plan whose programs were verified and fit their workers' memory.
 *
 * The values that the network accepts are equally spaced (GNMT-L has only even numbers of layers). From the least on they are
 * doubled until one does not fit; the rest is bisected.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "profile/modelled.h"
#include "search/compare.h"
#include "search/search.h"

/* The most values that are tested for the first two accepted ones; the most steps from the first; and the step by which one
 * must fit. */
enum { FIRST_MAX = 64, STEPS_MAX = 1 << 13, FIT_MAX = 64 };

struct network {
    int value;
    int64_t parameters;
    struct ps_profile *profile; /* NULL: there is no network of this value */
};

struct largest {
    const char *model, *key;
    const char *path_end; /* of a family of files: what follows "{KEY}" in `model`; else NULL */
    const struct ps_cluster *given;
    struct ps_profile_options profile;
    int first, step;          /* of the values */
    struct network *networks; /* those tried */
    int count;
    size_t room;
};

/* What follows "{KEY}" in the model's name; NULL: it is not there. */
static const char *after_key(const char *model, const char *key) {
    size_t length = strlen(key);
    for (const char *at = model; (at = strchr(at, '{')); at++)
        if (strncmp(at + 1, key, length) == 0 && at[1 + length] == '}') return at + length + 2;
    return NULL;
}

static enum ps_status make_network(const struct largest *largest, int value, struct ps_network **network,
                                   struct ps_error *error) {
    struct text spec = {0};
    const char *path_end = largest->path_end;
    if (path_end)
        text_add(&spec, "%.*s%d%s", (int)(path_end - largest->model - (ptrdiff_t)strlen(largest->key) - 2), largest->model,
                 value, path_end);
    else
        text_add(&spec, "%s,%s=%d", largest->model, largest->key, value);
    char *text = text_take(&spec);
    TRY(memory_check(text, "a network's name", error));
    enum ps_status status = PS_OK;
    if (path_end && !file_exists(text)) status = error_set(error, PS_USAGE, "%s: there is no such file", text);
    if (status == PS_OK) status = ps_network_open(text, network, error);
    free(text);
    return status;
}

/* Finds the first two accepted values. If there are none, the error of the first is returned. */
static enum ps_status find_values(struct largest *largest, struct ps_error *error) {
    struct ps_error refusal = {0};
    for (int value = 1; value <= FIRST_MAX && largest->step == 0; value++) {
        struct ps_network *network;
        struct ps_error said = {0};
        enum ps_status status = make_network(largest, value, &network, &said);
        if (refusal.status == PS_OK) refusal = said;
        if (status != PS_OK) continue;
        ps_network_destroy(network);
        if (largest->first == 0)
            largest->first = value;
        else
            largest->step = value - largest->first;
    }
    if (largest->step > 0) return PS_OK;
    if (!largest->path_end && file_exists(largest->model))
        return error_set(error, PS_USAGE,
                         "`model`: %s is one network; of files, name one for each value, with {%s} for the value",
                         largest->model, largest->key);
    if (refusal.status == PS_OK || largest->first > 0)
        return error_set(error, PS_USAGE, "`key`: %s of %s has no two values up to %d", largest->key, largest->model,
                         FIRST_MAX);
    error_prefix(&refusal, "`key`");
    if (error) *error = refusal;
    return PS_USAGE;
}

/* The costs of a value's network, computed once. */
static enum ps_status take_network(struct largest *largest, int value, const struct network **network, struct ps_error *error) {
    for (int n = 0; n < largest->count; n++) {
        if (largest->networks[n].value != value) continue;
        *network = &largest->networks[n];
        return PS_OK;
    }
    TRY(memory_grow(&largest->networks, &largest->room, largest->count + 1, "a comparison", error));
    struct network *made = &largest->networks[largest->count];
    struct ps_network *opened;
    *made = (struct network){.value = value};
    enum ps_status status = make_network(largest, value, &opened, error);
    if (status == PS_OK) {
        made->parameters = ps_network_info(opened).parameters;
        status = ps_profile_measure(opened, &largest->profile, &made->profile, error);
        ps_network_destroy(opened);
    }
    if (status != PS_OK && status != PS_USAGE) return status;
    largest->count++;
    *network = made;
    return PS_OK;
}

/* A combination while its values are tried. */
struct trial {
    struct largest *largest;
    const struct ps_plan_options *options;
    const struct ps_cluster *cluster;
    struct comparison_row *out;
};

/* Fills the row from the plan, if one fits. */
static enum ps_status try_value(const struct trial *trial, int value, bool *fits, struct ps_error *error) {
    const struct network *network;
    struct ps_plan *plan;
    struct ps_error refusal = {0};
    *fits = false;
    TRY(take_network(trial->largest, value, &network, error));
    if (!network->profile) return PS_OK;
    enum ps_status status = ps_plan_find(network->profile, trial->cluster, trial->options, &plan, &refusal);
    if (status != PS_OK) {
        if (trial->out->row.largest == 0) snprintf(trial->out->reason, sizeof trial->out->reason, "%s", refusal.message);
        if (status == PS_NO_PLAN) return PS_OK;
        if (error) *error = refusal;
        return status;
    }
    *fits = plan->predicted.simulated;
    if (*fits && value > trial->out->row.largest) {
        status = comparison_fill(plan, network->profile, trial->cluster, trial->out, error);
        trial->out->row.largest = value;
        trial->out->row.parameters = network->parameters;
        trial->out->reason[0] = '\0';
    }
    ps_plan_destroy(plan);
    return status;
}

static int value_of(const struct largest *largest, int step) { return largest->first + step * largest->step; }

/* `low` and `high` are numbers of steps: one that fits (-1: none yet), and one that is to be tried or does not fit. */
static enum ps_status bisect(const struct trial *trial, struct ps_error *error) {
    int low = -1, high = 0;
    bool fits = true;
    while ((fits || low < 0) && high < (low < 0 ? FIT_MAX : STEPS_MAX)) {
        TRY(try_value(trial, value_of(trial->largest, high), &fits, error));
        if (!fits && low >= 0) break;
        if (fits) low = high;
        high = high > 0 ? 2 * high : 1;
    }
    while (low >= 0 && high - low > 1) {
        int middle = low + (high - low) / 2;
        TRY(try_value(trial, value_of(trial->largest, middle), &fits, error));
        *(fits ? &low : &high) = middle;
    }
    return PS_OK;
}

static const char *find_model(const void *context, int network) {
    const struct largest *largest = *(struct largest *const *)context;
    (void)network;
    return largest->model;
}

static json_t *find_question(const void *context, int network) {
    const struct largest *largest = *(struct largest *const *)context;
    (void)network;
    return json_pack("{s:s, s:s, s:s}", "model", largest->model, "largest", largest->key, "costs", largest->profile.device);
}

static enum ps_status find_row(const void *context, int network, const struct ps_plan_options *options,
                               const struct ps_cluster_options *machines, struct comparison_row *out, struct ps_error *error) {
    (void)network;
    struct ps_cluster *cluster;
    struct largest *largest = *(struct largest *const *)context;
    struct ps_error refusal = {0};
    TRY(comparison_cluster(largest->given, machines, &cluster, error));
    struct trial trial = {.largest = largest, .options = options, .cluster = cluster, .out = out};
    enum ps_status status = PS_OK;
    for (int w = 0; w < cluster->workers && status == PS_OK; w++)
        if (cluster->devices[w].memory_bytes == 0)
            status = error_set(error, PS_USAGE, "`key`: worker %d has no memory limit; give `memory_bytes`", w);
    if (status == PS_OK) {
        status = bisect(&trial, &refusal);
        /* If the options of a combination contradict each other, the row gives the reason. */
        if (out->reason[0]) out->row.status = PS_NO_PLAN;
        if (status == PS_USAGE && out->row.largest > 0) status = PS_OK;
        if (status != PS_OK) status = comparison_refuse(status, &refusal, out, error);
    }
    ps_cluster_destroy(cluster);
    return status;
}

static enum ps_status check_device(const char *device, struct ps_error *error) {
    const char *names[64];
    size_t count = 0;
    if (modelled_find(device)) return PS_OK;
    for (; modelled_table[count]; count++) names[count] = modelled_table[count]->name;
    return error_unknown(error, PS_USAGE, "device model", device, names, count);
}

static enum ps_status find_largest(const char *model, const char *key, const char *device,
                                   const struct compare_request *request, struct ps_comparison **comparison,
                                   struct ps_error *error) {
    int micro_batch = request->planning.micro_batch > 0 ? request->planning.micro_batch : 16;
    struct largest largest = {.model = model, .key = key, .path_end = after_key(model, key), .given = request->options.cluster},
                   *context = &largest;
    largest.profile = (struct ps_profile_options){.struct_size = sizeof largest.profile,
                                                  .device = device ? device : "gpu:v100",
                                                  .busy = 1,
                                                  .micro_batches = &micro_batch,
                                                  .micro_batch_count = 1};
    const struct comparison_kind kind = {.name = "largest",
                                         .context = &context,
                                         .network_count = 1,
                                         .model = find_model,
                                         .question = find_question,
                                         .fill = find_row};
    if (request->options.seed_count > 0) return error_set(error, PS_USAGE, "`seeds`: are of training; a search has none");
    if (request->options.rank_by)
        return error_set(error, PS_USAGE, "`rank_by`: the largest network is the best; leave it away");
    TRY(check_device(largest.profile.device, error));
    TRY(find_values(&largest, error));
    enum ps_status status = comparison_create(request, &kind, comparison, error);
    if (status == PS_OK) snprintf((*comparison)->largest, sizeof(*comparison)->largest, "%s", key);
    if (status == PS_OK) status = comparison_rank(*comparison, NULL, "largest", error);
    for (int n = 0; n < largest.count; n++) ps_profile_destroy(largest.networks[n].profile);
    free(largest.networks);
    return status;
}

enum ps_status ps_compare_largest(const char *model, const char *key, const char *device,
                                  const struct ps_compare_options *options, struct ps_comparison **comparison,
                                  struct ps_error *error) {
    struct compare_request request;
    TRY(compare_request_take(options, &request, error));
    const struct ps_log_sink *log = log_use(request.options.log);
    enum ps_status status = find_largest(model, key, device, &request, comparison, error);
    log_restore(log);
    return status;
}
