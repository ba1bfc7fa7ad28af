/* Plans that cut the two directions of a chain in different places. */
#ifndef PENSTOCK_TESTS_SPLIT_SUPPORT_H
#define PENSTOCK_TESTS_SPLIT_SUPPORT_H

#include <stdio.h>

#include "plan/plan.h"
#include "support.h"

enum { SPLIT_LAYERS_MAX = 16 };

/* Who runs each layer's forward and backward. */
struct split_case {
    int layers, workers;
    int forward[SPLIT_LAYERS_MAX], backward[SPLIT_LAYERS_MAX];
};

static inline void split_direction(struct random_key key, uint64_t *drawn, const struct split_case *split, int *worker) {
    for (int l = 0, w = 0; l < split->layers; l++) {
        while (w < split->workers - 1 && random_below(key, (*drawn)++, (uint64_t)split->layers) < (uint64_t)split->workers) w++;
        worker[l] = w;
    }
}

/* Layers go to workers in order, both ways; a worker may be without layers in one direction or both. */
static inline struct split_case split_draw(struct random_key key, uint64_t *drawn, int layers_max, int workers_max) {
    struct split_case split = {.layers = 2 + (int)random_below(key, (*drawn)++, (uint64_t)layers_max - 1)};
    split.workers = 2 + (int)random_below(key, (*drawn)++, (uint64_t)workers_max - 1);
    split_direction(key, drawn, &split, split.forward);
    split_direction(key, drawn, &split, split.backward);
    return split;
}

static inline bool split_same_stage(const struct split_case *split, int layer, int other) {
    return split->forward[layer] == split->forward[other] && split->backward[layer] == split->backward[other];
}

/* The layers of one forward worker and one backward worker are a stage. */
static inline struct ps_plan *split_plan(const struct split_case *split, const char *schedule, const char *policy,
                                         int micro_batches) {
    int stages = 1, last = -1;
    struct ps_plan *plan;
    for (int l = 1; l < split->layers; l++) stages += !split_same_stage(split, l, l - 1);
    assert_ok(plan_create(split->workers, stages, &plan, &test_error));
    snprintf(plan->schedule, sizeof plan->schedule, "%s", schedule);
    snprintf(plan->weights, sizeof plan->weights, "%s", policy);
    plan->micro_batches = micro_batches;
    for (int s = 0; s < stages; s++) {
        int first = last + 1;
        for (last = first; last + 1 < split->layers && split_same_stage(split, last + 1, first);) last++;
        assert_ok(plan_stage_workers(plan, s, &split->forward[first], 1, &split->backward[first], 1, &test_error));
        plan->stages[s].first = first;
        plan->stages[s].last = last;
    }
    return plan;
}

static inline bool split_any(const struct ps_plan *plan) {
    for (int s = 0; s < plan->stage_count; s++)
        if (plan->stages[s].forward[0] != plan->stages[s].backward[0]) return true;
    return false;
}

#endif
