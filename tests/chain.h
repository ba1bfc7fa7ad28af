/*
 * A network cut into stages on one device, run by the test itself: every block is its own. In the host's memory blocks are
 * filled with numbers that are none, so that whatever is read without having been written shows.
 */
#ifndef PENSTOCK_TESTS_CHAIN_H
#define PENSTOCK_TESTS_CHAIN_H

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compute/stage.h"
#include "graph/model.h"
#include "support.h"

enum { CHAIN_STAGES_MAX = 40, CHAIN_MICRO_BATCHES_MAX = 3 };

struct chain {
    struct device *device;
    const struct graph *graph;
    int samples, count, micro_batches;
    struct stage *stages[CHAIN_STAGES_MAX];
    struct stage_sizes sizes[CHAIN_STAGES_MAX];
    struct stage_blocks blocks[CHAIN_MICRO_BATCHES_MAX][CHAIN_STAGES_MAX];
    float *weights[CHAIN_STAGES_MAX];
    float *arriving[CHAIN_MICRO_BATCHES_MAX][CHAIN_STAGES_MAX]; /* output gradients */
    struct memory_block taken[1024];
    int taken_count;
};

static inline void poison(void *block, int64_t bytes) { memset(block, 0xff, (size_t)bytes); }

static inline void *chain_take(struct chain *chain, int64_t bytes) {
    assert_true(chain->taken_count < 1024);
    struct memory_block *block = &chain->taken[chain->taken_count++];
    block->size = memory_align((size_t)bytes + 1);
    if (!device_in_host(chain->device)) {
        assert_ok(device_take(chain->device, block, block->size, "a test's block", &test_error));
        return block->base;
    }
    block->base = aligned_alloc(MEMORY_ALIGNMENT, block->size);
    assert_non_null(block->base);
    poison(block->base, (int64_t)block->size);
    return block->base;
}

static inline struct device *chain_device(const char *name) {
    struct device *device = NULL;
    assert_ok(device_open(name, &(struct device_options){.threads = 1}, &device, &test_error));
    return device;
}

/* Does the device compute numbers, in memory that tests can look into? What others do is in test_compute_far.c. */
static inline bool chain_computes(const struct device_class *type) { return type->real && type->memory == NULL; }

/* Runs a check on every such device. */
static inline void on_real_devices(void (*check)(struct device *device)) {
    for (int d = 0; device_table[d] != NULL; d++) {
        if (!chain_computes(device_table[d])) continue;
        struct device *device = chain_device(device_table[d]->name);
        check(device);
        device_close(device);
    }
}

/* Stages that begin at layer 0 and at each of `cuts`, with the initial values of seed 1. */
static inline struct chain *chain_create(struct device *device, const struct graph *graph, int samples, int micro_batches,
                                         const int *cuts, int cut_count) {
    struct chain *chain = calloc(1, sizeof *chain);
    assert_non_null(chain);
    *chain = (struct chain){
        .device = device, .graph = graph, .samples = samples, .count = cut_count + 1, .micro_batches = micro_batches};
    for (int s = 0; s < chain->count; s++) {
        int first = s == 0 ? 0 : cuts[s - 1], last = s < cut_count ? cuts[s] - 1 : graph->layer_count - 1;
        assert_ok(stage_create(device, graph, first, last, samples, &chain->stages[s], &test_error));
        struct stage_sizes sizes = chain->sizes[s] = stage_sizes(chain->stages[s]);
        chain->weights[s] = chain_take(chain, sizes.parameter_bytes);
        float *gradients = chain_take(chain, stage_gradient_bytes(&sizes)),
              *statistics = chain_take(chain, stage_unchanged_bytes(&sizes));
        device_zero(device, chain->weights[s], (size_t)sizes.parameter_bytes);
        assert_ok(stage_initialize(chain->stages[s], 1, NULL, chain->weights[s], statistics, &test_error));
        void *workspace = chain_take(chain, sizes.workspace_bytes);
        for (int m = 0; m < micro_batches; m++) {
            struct stage_blocks *blocks = &chain->blocks[m][s];
            *blocks = (struct stage_blocks){.weights = chain->weights[s],
                                            .gradients = gradients,
                                            .statistics = statistics,
                                            .workspace = workspace,
                                            .stash = chain_take(chain, sizes.stash_bytes),
                                            .delta = chain_take(chain, sizes.delta_bytes)};
            blocks->input = s > 0 ? chain->blocks[m][s - 1].output : chain_take(chain, sizes.input_bytes);
            if (s < cut_count) {
                blocks->output = chain_take(chain, sizes.output_bytes);
                blocks->output_gradient = chain->arriving[m][s] = chain_take(chain, sizes.output_bytes);
            }
            if (s > 0) {
                assert_int_equal(sizes.input_bytes, chain->sizes[s - 1].output_bytes);
                blocks->input_gradient = chain->arriving[m][s - 1];
            }
        }
    }
    return chain;
}

static inline void chain_destroy(struct chain *chain) {
    for (int s = 0; s < chain->count; s++) stage_destroy(chain->stages[s]);
    for (int i = 0; i < chain->taken_count; i++)
        if (device_in_host(chain->device))
            free(chain->taken[i].base);
        else
            device_give(chain->device, &chain->taken[i]);
    free(chain);
}

static inline struct stage_result chain_forward(struct chain *chain, int m, const struct stage_step *step) {
    struct stage_result result = {0};
    for (int s = 0; s < chain->count; s++) {
        assert_ok(stage_forward(chain->stages[s], &chain->blocks[m][s], step, &result, &test_error));
        poison(chain->blocks[m][s].workspace, chain->sizes[s].workspace_bytes);
    }
    return result;
}

static inline void chain_backward(struct chain *chain, int m, const struct stage_step *step) {
    for (int s = chain->count - 1; s >= 0; s--) {
        assert_ok(stage_backward(chain->stages[s], &chain->blocks[m][s], step, STAGE_BOTH, &test_error));
        poison(chain->blocks[m][s].workspace, chain->sizes[s].workspace_bytes);
    }
}

/* Gradients (or the statistics) of parameter `name` in canonical order, into `values`; returns how many. */
static inline int64_t chain_export(struct chain *chain, const char *name, const float *const *weights, float *values) {
    for (int s = 0; s < chain->count; s++) {
        for (int p = 0; p < stage_parameter_count(chain->stages[s]); p++) {
            const struct parameter *parameter = stage_parameter(chain->stages[s], p);
            if (strcmp(parameter->name, name) != 0) continue;
            const struct stage_blocks *blocks = &chain->blocks[0][s];
            const float *block = weights != NULL ? weights[s] : blocks->gradients;
            assert_ok(stage_export(chain->stages[s], p, block, blocks->statistics, values, &test_error));
            return shape_elements(&parameter->shape);
        }
    }
    fail_msg("no parameter %s", name);
    return 0;
}

/* The graph of a built-in network; the caller's. */
static inline struct graph *take_model(const char *spec) {
    struct ps_network *model = NULL;
    assert_ok(ps_network_open(spec, &model, &test_error));
    struct graph *graph = model->graph;
    model->graph = NULL;
    ps_network_destroy(model);
    return graph;
}

#endif
