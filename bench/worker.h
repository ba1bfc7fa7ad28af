/*
 * A stage with memory of its own to work in, for programs that compute without a plan: single_worker.c, gradients.c. What goes
 * wrong ends the program.
 */
#ifndef PENSTOCK_BENCH_WORKER_H
#define PENSTOCK_BENCH_WORKER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compute/stage.h"
#include "graph/model.h"

/* A stage with all that it works on. */
struct worker {
    struct device *device;
    struct stage *stage;
    struct memory_block memory;
    struct stage_blocks blocks;
    float *master;  /* the weights in f32 where the network is in bf16; else NULL */
    float *weights; /* that kernels read */
    float *gradients, *momentum, *output_gradient;
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

static inline void fill(enum number_type type, void *values, int64_t count) {
    struct random_key key = random_key(0, RANDOM_TEST, 0, 0);
    for (int64_t i = 0; i < count; i++) {
        const float value = random_uniform(key, (uint64_t)i) - 0.5f;
        if (type == TYPE_BF16)
            ((uint16_t *)values)[i] = bf16_of(value);
        else
            ((float *)values)[i] = value;
    }
}

/* The values of a cut; what are tokens gets such, none of them padding. */
static inline void fill_cut(const struct worker *w, const struct ps_network *model, int cut, void *block) {
    const struct graph *graph = model->graph;
    size_t bytes = 1;
    for (int i = 0; i < graph_cut_count(graph, cut); i++)
        bytes += memory_align((size_t)(w->samples * graph_value_bytes(graph, graph_cut_values(graph, cut)[i])));
    char *values = malloc(bytes), *place = values;
    if (values == NULL) exit(PS_OUT_OF_MEMORY);
    for (int i = 0; i < graph_cut_count(graph, cut); i++) {
        const struct shape *shape = &graph->nodes[graph_cut_values(graph, cut)[i]].shape;
        int64_t count = w->samples * shape_elements(shape);
        fill(shape->type, place, count);
        int32_t *tokens = (int32_t *)(void *)place;
        const int vocabulary = model->vocabulary > 2 ? model->vocabulary : 2;
        for (int64_t e = 0; e < count && shape->type == TYPE_I32; e++)
            tokens[e] = 1 + (int32_t)((uint32_t)tokens[e] % (uint32_t)(vocabulary - 1));
        place += memory_align((size_t)(w->samples * shape_bytes(shape)));
    }
    device_copy(w->device, block, values, (size_t)(place - values));
    device_finish(w->device);
    free(values);
}

static inline void take_memory(struct worker *w, struct ps_error *error) {
    struct stage_sizes s = stage_sizes(w->stage);
    int64_t sizes[] = {stage_copy_bytes(&s) + stage_master_bytes(&s) + s.parameter_bytes + stage_gradient_bytes(&s),
                       s.statistics_bytes,
                       2 * s.input_bytes,
                       2 * s.output_bytes,
                       s.stash_bytes,
                       s.workspace_bytes};
    int64_t total = 16 * MEMORY_ALIGNMENT;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) total += sizes[i];
    check(device_take(w->device, &w->memory, (size_t)total, "a worker", error), error);
    w->weights = carve(w, stage_copy_bytes(&s));
    w->master = stage_master_bytes(&s) > 0 ? carve(w, stage_master_bytes(&s)) : NULL;
    w->gradients = carve(w, stage_gradient_bytes(&s));
    w->momentum = carve(w, s.parameter_bytes);
    w->labels = malloc((size_t)w->label_count * sizeof *w->labels); /* the host's, as a stage gets them */
    if (w->labels == NULL) exit(PS_OUT_OF_MEMORY);
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
    check(stage_initialize(w->stage, 0, w->master, w->weights, w->blocks.statistics, error), error);
}

static inline struct worker start(struct device *device, const struct ps_network *model, int first, int last, int samples) {
    struct ps_error error = {0};
    struct worker w = {.device = device, .samples = samples, .label_count = samples * graph_labels(model->graph)};
    check(stage_create(device, model->graph, first, last, samples, &w.stage, &error), &error);
    take_memory(&w, &error);
    fill_cut(&w, model, first, (void *)w.blocks.input);
    if (w.output_gradient != NULL) fill_cut(&w, model, last + 1, w.output_gradient);
    for (int64_t n = 0; n < w.label_count; n++) w.labels[n] = (int32_t)(n % model->classes);
    if (first == 0) w.blocks.input_gradient = NULL;
    return w;
}

/* An update in place; a master's also of the copy that kernels read. */
static inline void update(struct worker *w, const struct optimizer *rule, int64_t step) {
    const struct stage_sizes s = stage_sizes(w->stage);
    float *weights = w->master != NULL ? w->master : w->weights;
    const struct optimizer_call all = {.count = (size_t)s.parameter_bytes / sizeof(float),
                                       .weights = weights,
                                       .updated = weights,
                                       .gradient = w->gradients,
                                       .moment = {w->momentum},
                                       .copy = w->master != NULL ? w->weights : NULL,
                                       .lr = rule->defaults.lr,
                                       .step = step};
    const size_t narrow = (size_t)s.narrow_bytes / sizeof(float);
    const struct optimizer_call wide_part = optimizer_part(&all, 0, all.count - narrow);
    struct optimizer_call narrow_part = optimizer_part(&all, all.count - narrow, narrow);
    narrow_part.type = TYPE_BF16;
    w->device->type->update(w->device, rule, &rule->defaults, &wide_part, false, 0);
    if (narrow > 0) w->device->type->update(w->device, rule, &rule->defaults, &narrow_part, false, 0);
}

static inline void end(struct worker *w) {
    stage_destroy(w->stage);
    device_give(w->device, &w->memory);
    free(w->labels);
}

#endif
