/*
 * What is said beside an answer of the search: that one worker alone would be faster than the plan and, where no plan fits,
 * which change of the options makes one fit. Nothing is named that was not tried.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "search/search.h"

struct request {
    const struct ps_profile *profile;
    const struct ps_cluster *cluster;
    const struct ps_plan_options *options;
    search_find *find;
};

/* Samples per second of the plan for these options; 0: there is none that can be simulated. */
static double try_options(const struct request *request, const struct ps_cluster *cluster,
                          const struct ps_plan_options *options) {
    static const struct ps_log_sink silent = {.struct_size = sizeof silent};
    struct ps_plan *plan;
    const struct ps_log_sink *before = log_use(&silent);
    enum ps_status status = search_wire(request->profile, cluster, options, request->find, &plan, NULL);
    log_restore(before);
    if (status != PS_OK) return 0;
    double samples_per_s = plan->predicted.simulated ? plan->predicted.throughput_samples_per_s : 0;
    ps_plan_destroy(plan);
    return samples_per_s;
}

void search_say_one_worker(const struct ps_profile *profile, const struct ps_cluster *cluster,
                           const struct ps_plan_options *options, search_find *find, const struct ps_plan *plan) {
    const struct request request = {profile, cluster, options, find};
    struct ps_plan_options alone = *options;
    struct ps_cluster one = *cluster;
    const double planned = plan->predicted.throughput_samples_per_s;
    if (!plan->predicted.simulated || plan_busy_workers(plan) == 1) return;
    alone.method = "pipedream";
    alone.schedule = NULL;
    alone.weights = plan->weights;
    alone.micro_batch = plan->micro_batch;
    alone.micro_batches = plan->micro_batches;
    alone.batch = 0;
    alone.replicate = alone.paper_cost = false;
    alone.wire = NULL;
    alone.slack = 0;
    one.workers = 1;
    double samples_per_s = try_options(&request, &one, &alone);
    if (samples_per_s > planned * 1.001)
        log_warn("one worker alone would be faster: %.4g samples/s, where this plan makes %.4g", samples_per_s, planned);
}

/* Changes of the options, in the order in which they are tried. */
static const struct change {
    const char *text;
    bool method, recompute, slack, flush, stateless; /* which options change */
} changes[] = {
    {"`recompute`", .recompute = true},
    {"no `slack`", .slack = true},
    {"no `method`", .method = true},
    {"`schedule` 1f1b and `weights` sync", .flush = true},
    {"`schedule` 1f1b, `weights` sync and no `method`", .method = true, .flush = true},
    {"`schedule` 1f1b, `weights` sync and `optimizer` sgd", .flush = true, .stateless = true},
    {"`schedule` 1f1b, `weights` sync, `optimizer` sgd and no `method`", .method = true, .flush = true, .stateless = true},
};

/* Takes over a change; false: the options have it already. */
static bool apply(const struct change *change, struct ps_plan_options *options) {
    const struct ps_plan_options before = *options;
    if (search_is_auto(before.method) ? change->method || change->recompute : change->recompute && before.recompute)
        return false;
    if (change->slack && before.slack == 0) return false;
    const bool flushing = before.schedule && strcmp(before.schedule, "1f1b") == 0 && search_is_auto(before.weights);
    if (change->flush && flushing && !change->stateless) return false;
    if (change->stateless && before.optimizer && strcmp(before.optimizer, "sgd") == 0) return false;
    if (change->recompute) options->recompute = true;
    if (change->method) options->method = NULL;
    if (change->slack || change->flush) options->slack = 0;
    if (change->flush) options->schedule = "1f1b", options->weights = "sync";
    if (change->stateless) options->optimizer = "sgd";
    return true;
}

static bool hint_change(const struct request *request, size_t count, struct ps_error *hints) {
    for (size_t c = 0; c < count; c++) {
        struct ps_plan_options changed = *request->options;
        if (!apply(&changes[c], &changed)) continue;
        double samples_per_s = try_options(request, request->cluster, &changed);
        if (samples_per_s == 0) continue;
        error_hint(hints, "with %s a plan fits: %.4g samples/s", changes[c].text, samples_per_s);
        return true;
    }
    return false;
}

/* Smaller micro-batches, where the profile has their costs. */
static bool hint_size(const struct request *request, struct ps_error *hints) {
    const struct ps_plan_options *options = request->options;
    const struct ps_profile *profile = request->profile;
    struct ps_plan_options changed = *options;
    int given = options->micro_batch > 0 ? options->micro_batch : profile->tables[profile->table_count - 1].micro_batch;
    for (int t = profile->table_count - 1; t >= 0 && options->batch == 0; t--) {
        changed.micro_batch = profile->tables[t].micro_batch;
        if (changed.micro_batch >= given) continue;
        double samples_per_s = try_options(request, request->cluster, &changed);
        if (samples_per_s == 0) continue;
        error_hint(hints, "with `micro_batch` %d a plan fits: %.4g samples/s", changed.micro_batch, samples_per_s);
        return true;
    }
    return false;
}

/* Does a plan fit where each worker has so much? */
static bool fits(const struct request *request, const struct ps_plan_options *options, int64_t bytes) {
    struct ps_cluster *enough;
    if (cluster_copy(request->cluster, &enough, NULL) != PS_OK) return false;
    for (int w = 0; w < enough->workers; w++) enough->devices[w].memory_bytes = bytes;
    bool fit = try_options(request, enough, options) > 0;
    ps_cluster_destroy(enough);
    return fit;
}

/* How much memory would be enough, within an eighth, in whole MiB. */
static void hint_memory(const struct request *request, struct ps_error *hints) {
    enum { DOUBLINGS = 12, HALVINGS = 3 };
    const int64_t limit = request->cluster->devices[0].memory_bytes, mib = 1 << 20;
    struct ps_plan_options options = *request->options;
    int64_t low = limit > mib ? limit / mib : 1, high = low;
    for (int w = 0; w < request->cluster->workers; w++)
        if (request->cluster->devices[w].memory_bytes != limit) return;
    if (limit == 0) return;
    /* Without a method the search is at least as good as this one, which is quick. */
    if (search_is_auto(options.method)) options.method = "pipedream", options.recompute = true;
    for (int d = 0; d <= DOUBLINGS; d++) {
        if (d == DOUBLINGS) return;
        low = high;
        high *= 2;
        if (fits(request, &options, high * mib)) break;
    }
    for (int h = 0; h < HALVINGS && high - low > 1; h++) {
        const int64_t middle = low + (high - low) / 2;
        if (fits(request, &options, middle * mib))
            high = middle;
        else
            low = middle;
    }
    error_hint(hints, "with `memory` %lldMiB for each worker a plan fits", (long long)high);
}

void search_hint_fits(const struct ps_profile *profile, const struct ps_cluster *cluster, const struct ps_plan_options *options,
                      search_find *find, struct ps_error *error) {
    const struct request request = {profile, cluster, options, find};
    struct ps_error table = *error;
    const struct search search = {.options = options, .profile = profile, .cluster = cluster};
    error->hint[0] = '\0';
    const bool quick = search_is_quick(&search);
    bool found = hint_change(&request, quick ? sizeof changes / sizeof *changes : 1, error);
    if (quick && !found && !hint_size(&request, error)) hint_memory(&request, error);
    error_hint_lines(error, table.hint);
}
