/* What the tests of the search share: clusters, and a profile in which each part of the machine can be made the narrowest. */
#ifndef PENSTOCK_TESTS_SEARCH_SUPPORT_H
#define PENSTOCK_TESTS_SEARCH_SUPPORT_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/random.h"
#include "plan/plan.h"
#include "profile/profile.h"
#include "support.h"

enum { KIB = 1024 };

static inline struct ps_cluster *make_cluster(int workers, int64_t memory_bytes, double bandwidth_bytes_per_s) {
    struct ps_cluster_options options = {.struct_size = sizeof options,
                                         .workers = workers,
                                         .memory_bytes = memory_bytes,
                                         .bandwidth_bytes_per_s = bandwidth_bytes_per_s};
    struct ps_cluster *cluster;
    assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
    return cluster;
}

/* What the plan's fullest worker needs, as predicted. */
static inline int64_t most_memory(const struct ps_plan *plan) {
    int64_t most = 0;
    for (int w = 0; w < plan->workers; w++) most = number_larger(most, worker_memory_total(&plan->predicted.memory[w]));
    return most;
}

/* Eight even layers without update: a worker alone takes 24 ms. */
static inline struct ps_profile *even_profile(void) {
    struct ps_profile *profile;
    assert_ok(profile_create(1, 8, &profile, &test_error));
    strcpy(profile->model, "even");
    profile->tables[0].micro_batch = 1;
    for (int l = 0; l < 8; l++) {
        struct layer_cost *layer = &profile->tables[0].layers[l];
        snprintf(layer->name, sizeof layer->name, "layer%d", l);
        layer->time = (struct layer_times){.forward_s = 1e-3, .backward_input_s = 1e-3, .backward_weight_s = 1e-3};
        layer->size = (struct layer_sizes){
            .parameter_bytes = 64, .output_bytes = 64 * KIB, .value_bytes = 64 * KIB, .stash_bytes = 64 * KIB};
    }
    return profile;
}

/* Layers of a straight network behind an input of 64 KiB: times below `seconds`, outputs of `samples` times 64 to 64 x `most`
 * bytes, which are kept with what comes in. */
static inline void random_layers(struct random_key key, double seconds, int64_t samples, uint64_t most,
                                 struct cost_table *table) {
    int64_t before = 64 * KIB;
    for (int l = 0; l < table->layer_count; l++) {
        uint64_t base = 10 * (uint64_t)l;
        int64_t output = 64 * (1 + (int64_t)random_below(key, base, most)) * samples;
        struct layer_cost *layer = &table->layers[l];
        snprintf(layer->name, sizeof layer->name, "layer%d", l);
        layer->time = (struct layer_times){.forward_s = seconds * (double)random_uniform(key, base + 1),
                                           .backward_input_s = seconds * (double)random_uniform(key, base + 2),
                                           .backward_weight_s = seconds * (double)random_uniform(key, base + 3),
                                           .update_s = 1e-5};
        layer->size = (struct layer_sizes){.parameter_bytes = 64 * (int64_t)random_below(key, base + 4, 5000),
                                           .output_bytes = output,
                                           .value_bytes = output,
                                           .stash_bytes = before + output};
        before = output;
    }
}

#endif
