/*
 * A stage with memory of its own to work in, for programs that compute without a plan: single_worker.c, gradients.c. What goes
 * wrong ends the program.
 */
#ifndef PENSTOCK_BENCH_WORKER_H
#define PENSTOCK_BENCH_WORKER_H

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "compute/stage.h"
#include "graph/model.h"

/* A stage with all that it works on. */
struct worker {
    struct device *device;
    struct stage *stage;
    struct memory_block memory;
    struct stage_blocks blocks;
    float *weights, *gradients, *momentum, *output_gradient;
    int32_t *labels;
    int samples;
    int64_t label_count;
};

static inline void stop(const struct ps_error *error) {
    fprintf(stderr, "%s\n", error->message);
    exit(error->status);
}

static inline void check(enum ps_status status, const struct ps_error *error) {
    if (status != PS_OK) stop(error);
}

static inline void *carve(struct worker *w, int64_t bytes) { return memory_block_carve(&w->memory, (size_t)bytes); }

static inline void fill(float *values, int64_t bytes) {
    struct random_key key = random_key(0, RANDOM_TEST, 0, 0);
    for (int64_t i = 0; i < bytes / 4; i++) values[i] = random_uniform(key, (uint64_t)i) - 0.5f;
}

/* The values of the stage's first cut; what are tokens gets such, none of them padding. */
static inline void fill_input(struct worker *w, const struct ps_network *model, int cut) {
    const struct graph *graph = model->graph;
    char *place = (char *)w->blocks.input;
    for (int i = 0; i < graph_cut_count(graph, cut); i++) {
        int root = graph_cut_values(graph, cut)[i];
        int64_t count = w->samples * shape_elements(&graph->nodes[root].shape);
        fill((float *)place, 4 * count);
        int32_t *tokens = (int32_t *)place;
        const int vocabulary = model->vocabulary > 2 ? model->vocabulary : 2;
        for (int64_t e = 0; e < count && graph->nodes[root].shape.type == TYPE_I32; e++)
            tokens[e] = 1 + (int32_t)((uint32_t)tokens[e] % (uint32_t)(vocabulary - 1));
        place += memory_align((size_t)(4 * count));
    }
}

static inline void take_memory(struct worker *w, struct ps_error *error) {
    struct stage_sizes s = stage_sizes(w->stage);
    int64_t sizes[] = {2 * s.parameter_bytes + stage_gradient_bytes(&s),
                       s.statistics_bytes,
                       2 * s.input_bytes,
                       2 * s.output_bytes,
                       s.stash_bytes,
                       s.workspace_bytes,
                       4 * (int64_t)w->label_count};
    int64_t total = 16 * MEMORY_ALIGNMENT;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) total += sizes[i];
    check(memory_block_take(&w->memory, (size_t)total, "a worker", error), error);
    w->weights = carve(w, s.parameter_bytes);
    w->gradients = carve(w, stage_gradient_bytes(&s));
    w->momentum = carve(w, s.parameter_bytes);
    w->labels = carve(w, 4 * w->label_count);
    w->output_gradient = s.output_bytes > 0 ? carve(w, s.output_bytes) : NULL;
    w->blocks = (struct stage_blocks){
        .weights = w->weights,
        .gradients = w->gradients,
        .statistics = carve(w, s.statistics_bytes),
        .input = carve(w, s.input_bytes),
        .output = s.output_bytes > 0 ? carve(w, s.output_bytes) : NULL,
        .stash = carve(w, s.stash_bytes),
        .output_gradient = w->output_gradient,
        .input_gradient = carve(w, s.input_bytes),
        .workspace = carve(w, s.workspace_bytes),
    };
    check(stage_initialize(w->stage, 0, NULL, w->weights, w->blocks.statistics, error), error);
    if (w->output_gradient != NULL) fill(w->output_gradient, s.output_bytes);
}

static inline struct worker start(struct device *device, const struct ps_network *model, int first, int last, int samples) {
    struct ps_error error = {0};
    struct worker w = {.device = device, .samples = samples, .label_count = samples * graph_labels(model->graph)};
    check(stage_create(device, model->graph, first, last, samples, &w.stage, &error), &error);
    take_memory(&w, &error);
    fill_input(&w, model, first);
    for (int64_t n = 0; n < w.label_count; n++) w.labels[n] = (int32_t)(n % model->classes);
    if (first == 0) w.blocks.input_gradient = NULL;
    return w;
}

static inline void end(struct worker *w) {
    stage_destroy(w->stage);
    memory_block_release(&w->memory);
}

#endif
