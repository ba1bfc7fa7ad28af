/* Methods whose class contains another's plans are never slower than it, in the simulation: `bipartition` and `madpipe` than
 * `pipedream`, `auto` than any. On random and on real profiles, links, memory limits, schedules and policies. */
#ifndef PENSTOCK_TESTS_NEVER_SLOWER_H
#define PENSTOCK_TESTS_NEVER_SLOWER_H

#include "search_support.h"

static const char *const never_slower_methods[] = {"auto",        "pipedream", "bapipe",          "uniform",
                                                   "bipartition", "madpipe",   "pipedream-paper", "bipartition-order"};
enum { NEVER_AUTO, NEVER_PIPEDREAM, NEVER_BIPARTITION = 4, NEVER_MADPIPE, NEVER_METHODS = 8 };

/* Not given: open. The search passes over what does not go together, so most draws are of what is open or usual. */
static const char *const never_slower_schedules[] = {NULL,          NULL,      "auto",    "naive",  "gpipe",    "1f1b",
                                                     "1f1b-async",  "1f1b-so", "1f1b-as", "fbp-as", "hanayo",   "chimera",
                                                     "interleaved", "zb-h1",   "zb-h2",   "zb-v",   "1f1b-star"};
static const char *const never_slower_weights[] = {NULL,    NULL,  NULL,        NULL,    "auto",      "sync",   "latest",
                                                   "stash", "2bw", "spectrain", "xpipe", "pipeoptim", "horizon"};
static const char *const never_slower_wires[] = {NULL, NULL, NULL, "bf16", "int8"};
enum {
    NEVER_WIRES = sizeof never_slower_wires / sizeof *never_slower_wires,
    NEVER_SCHEDULES = sizeof never_slower_schedules / sizeof *never_slower_schedules,
    NEVER_WEIGHTS = sizeof never_slower_weights / sizeof *never_slower_weights
};

/* The simulated period per sample; INFINITY: there is no plan that runs. */
static double sample_s(const struct ps_profile *profile, const struct ps_cluster *cluster, const char *method,
                       const char *schedule, const char *weights, const char *wire) {
    struct ps_plan_options options = {
        .struct_size = sizeof options, .method = method, .schedule = schedule, .weights = weights, .wire = wire};
    struct ps_plan *plan;
    struct ps_error refusal = {0};
    enum ps_status status = ps_plan_find(profile, cluster, &options, &plan, &refusal);
    if (status != PS_OK) {
        assert_true(status == PS_NO_PLAN || status == PS_USAGE);
        return INFINITY;
    }
    const struct plan_prediction *predicted = &plan->predicted;
    double found_s = predicted->simulated ? 1 / predicted->throughput_samples_per_s : INFINITY;
    ps_plan_destroy(plan);
    return found_s;
}

static void check_never_slower(const struct ps_profile *profile, const struct ps_cluster *cluster, const char *schedule,
                               const char *weights, const char *wire, const char *where) {
    double found_s[NEVER_METHODS];
    for (int m = 0; m < NEVER_METHODS; m++)
        found_s[m] = sample_s(profile, cluster, never_slower_methods[m], schedule, weights, wire);
    for (int m = 0; m < NEVER_METHODS; m++) {
        /* madpipe has a schedule of its own, without a flush */
        bool contains = m == NEVER_AUTO || m == NEVER_BIPARTITION || (m == NEVER_MADPIPE && isfinite(found_s[m]));
        for (int other = 0; other < NEVER_METHODS && contains; other++)
            if ((m == NEVER_AUTO || other == NEVER_PIPEDREAM) && found_s[m] > found_s[other] * (1 + 1e-9))
                fail_msg(
                    "%s, %d workers of %lld bytes, links of %g bytes/s, schedule %s, weights %s, wire %s: %s takes %.9g s a "
                    "sample, %s %.9g",
                    where, cluster->workers, (long long)cluster->devices[0].memory_bytes,
                    cluster->link_count > 0 ? cluster->links[0].bandwidth_bytes_per_s : 0.0, schedule ? schedule : "open",
                    weights ? weights : "open", wire ? wire : "none", never_slower_methods[m], found_s[m],
                    never_slower_methods[other], found_s[other]);
    }
}

static void check_drawn(struct random_key key, const struct ps_profile *profile, const struct ps_cluster *cluster,
                        const char *where) {
    check_never_slower(profile, cluster, never_slower_schedules[random_below(key, 2000, NEVER_SCHEDULES)],
                       never_slower_weights[random_below(key, 2001, NEVER_WEIGHTS)],
                       never_slower_wires[random_below(key, 2002, NEVER_WIRES)], where);
}

static double drawn_bandwidth(struct random_key key, uint64_t drawn) {
    static const double bandwidths[] = {0, 12.5e6, 125e6, 1e9, 4e9, 12e9, 24e9};
    return bandwidths[random_below(key, drawn, sizeof bandwidths / sizeof *bandwidths)];
}

/* Some limits are too tight for any plan. */
static int64_t drawn_memory(struct random_key key, uint64_t drawn, const struct ps_profile *profile, int workers) {
    struct stage_cost whole = stage_cost(&profile->tables[0], 0, profile->tables[0].layer_count - 1);
    int64_t all = 4 * whole.size.parameter_bytes + 2 * whole.size.stash_bytes;
    return random_below(key, drawn, 3) > 0 ? 0 : 1 + all / workers * (int64_t)(1 + random_below(key, drawn + 1, 4));
}

static void never_slower_for(struct random_key key, const char *where) {
    struct ps_profile *profile;
    int layers = 3 + (int)random_below(key, 1000, 14), workers = 2 + (int)random_below(key, 1001, 7);
    assert_ok(profile_create(1, layers, &profile, &test_error));
    strcpy(profile->model, "random");
    profile->tables[0].micro_batch = 1;
    profile->tables[0].input_bytes = 64 * KIB;
    random_layers(key, 1e-3, 1, 40000, &profile->tables[0]);
    struct ps_cluster *cluster = make_cluster(workers, drawn_memory(key, 1002, profile, workers), drawn_bandwidth(key, 1004));
    check_drawn(key, profile, cluster, where);
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

static void never_slower_on_random(uint64_t rounds) {
    for (uint64_t round = 0; round < rounds; round++) {
        char where[64];
        if (!test_takes((size_t)round, 11)) continue;
        snprintf(where, sizeof where, "random, round %llu", (unsigned long long)round);
        never_slower_for(test_key(9000 + round), where);
    }
}

static void never_slower_on_real(uint64_t rounds) {
    static const char *const names[] = {
        "pipedream/alexnet.graph.txt", "pipedream/gnmt.graph.txt",   "pipedream/vgg16.graph.txt", "chains/gnmt.chain",
        "chains/vgg-19-pbs-32.chain",  "chains/bert-24-pbs-6.chain", "chains/resnet50.chain"};
    for (uint64_t round = 0; round < rounds; round++) {
        if (!test_takes((size_t)round, 11)) continue;
        struct random_key key = test_key(20000 + round);
        char name[128], path[4096];
        struct ps_profile *profile;
        int workers = 2 + (int)random_below(key, 1, 7);
        snprintf(name, sizeof name, "profiles/%s", names[round % (sizeof names / sizeof *names)]);
        assert_ok(ps_profile_read(test_data(name, path), &profile, &test_error));
        struct ps_cluster *cluster = make_cluster(workers, drawn_memory(key, 2, profile, workers), drawn_bandwidth(key, 4));
        check_drawn(key, profile, cluster, name);
        ps_cluster_destroy(cluster);
        ps_profile_destroy(profile);
    }
}

#endif
