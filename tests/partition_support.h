/* What the tests of partitioners share: problems with what they point to, and the optimum by trying all partitions. */
#ifndef PENSTOCK_TESTS_PARTITION_SUPPORT_H
#define PENSTOCK_TESTS_PARTITION_SUPPORT_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/partitioner.h"
#include "support.h"

enum { STAGES_MAX = 8 };

struct instance {
    struct ps_profile *profile;
    struct ps_cluster *cluster;
    struct stage_slots slots[STAGES_MAX];
    struct partition_problem problem;
};

static inline void free_instance(struct instance *instance) {
    ps_profile_destroy(instance->profile);
    ps_cluster_destroy(instance->cluster);
}

static inline bool fits(const struct partition_problem *problem, const int *last) {
    for (int s = 0; problem->slots && s < problem->stages; s++) {
        struct worker_memory memory = partition_memory(problem, s, s > 0 ? last[s - 1] + 1 : 0, last[s]);
        int64_t limit = problem->cluster->devices[s].memory_bytes;
        if (limit > 0 && worker_memory_total(&memory) > limit) return false;
    }
    return true;
}

/* The least objective of all partitions that fit, by trying all. */
static inline double brute_force(const struct partition_problem *problem, int stage, int *last) {
    int layers = problem->costs->layer_count, first = stage > 0 ? last[stage - 1] + 1 : 0;
    if (stage == problem->stages - 1) {
        last[stage] = layers - 1;
        return fits(problem, last) ? partition_objective_s(problem, last) : INFINITY;
    }
    double best = INFINITY;
    for (last[stage] = first; last[stage] < layers - (problem->stages - 1 - stage); last[stage]++)
        best = fmin(best, brute_force(problem, stage + 1, last));
    return best;
}

#endif
