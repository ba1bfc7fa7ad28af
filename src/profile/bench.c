/*
 * Running a network layer by layer; see bench.h. A round is three passes: forward, backward and updates; forward and the two
 * halves of the backward apart; the half of the weights once more, added to what is there. Each pass goes through all layers, so
 * that no layer finds in the caches what it did a moment ago.
 */
#include "profile/bench.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"

void bench_close(struct bench *bench) {
    for (int l = 0; bench->layers && l < bench->layer_count; l++) {
        stage_destroy(bench->layers[l].stage);
        memory_block_release(&bench->layers[l].memory);
    }
    memory_block_release(&bench->shared);
    free(bench->layers);
    free(bench->times);
    bench->layers = NULL;
    bench->times = NULL;
}

static enum ps_status open_layer(struct bench *bench, int l, struct ps_error *error) {
    struct layer_bench *layer = &bench->layers[l];
    TRY(stage_create(bench->device, bench->graph, l, l, bench->samples, &layer->stage, error));
    layer->sizes = stage_sizes(layer->stage);
    const struct {
        float **block;
        int64_t bytes;
    } blocks[] = {
        {&layer->weights, layer->sizes.parameter_bytes},   {&layer->gradients, layer->sizes.parameter_bytes},
        {&layer->moment, layer->sizes.parameter_bytes},    {&layer->predicted, layer->sizes.parameter_bytes},
        {&layer->statistics, layer->sizes.statistics_bytes}, {&layer->input, layer->sizes.input_bytes},
        {&layer->stash, layer->sizes.stash_bytes},         {&layer->delta, layer->sizes.delta_bytes},
    };
    enum { BLOCKS = sizeof blocks / sizeof blocks[0] };
    size_t total = 0;
    for (int b = 0; b < BLOCKS; b++) total += memory_align((size_t)blocks[b].bytes);
    TRY(memory_block_take(&layer->memory, total, bench->graph->layers[l].name, error));
    for (int b = 0; b < BLOCKS; b++) *blocks[b].block = memory_block_carve(&layer->memory, (size_t)blocks[b].bytes);
    for (int t = 0; t < TIMINGS; t++)
        layer->times[t] = bench->times + ((size_t)l * TIMINGS + (size_t)t) * (size_t)bench->repeats;
    return stage_initialize(layer->stage, 0, layer->weights, layer->statistics, error);
}

static size_t label_count(const struct bench *bench) {
    return (size_t)bench->samples * (size_t)graph_labels(bench->graph);
}

static enum ps_status open_shared(struct bench *bench, struct ps_error *error) {
    size_t labels = memory_align(label_count(bench) * sizeof *bench->labels), workspace = 0, cut = 0;
    for (int l = 0; l < bench->layer_count; l++) {
        const struct stage_sizes *sizes = &bench->layers[l].sizes;
        if ((size_t)sizes->workspace_bytes > workspace) workspace = (size_t)sizes->workspace_bytes;
        if ((size_t)sizes->input_bytes > cut) cut = (size_t)sizes->input_bytes;
    }
    workspace = memory_align(workspace);
    cut = memory_align(cut);
    TRY(memory_block_take(&bench->shared, labels + workspace + 2 * cut, "profiling", error));
    bench->labels = memory_block_carve(&bench->shared, labels);
    bench->workspace = memory_block_carve(&bench->shared, workspace);
    for (int g = 0; g < 2; g++) bench->gradient[g] = memory_block_carve(&bench->shared, cut);
    return PS_OK;
}

enum ps_status bench_open(struct bench *bench, struct ps_error *error) {
    bench->layer_count = bench->graph->layer_count;
    assert(bench->layer_count > 0 && bench->repeats > 0);
    bench->layers = calloc((size_t)bench->layer_count, sizeof *bench->layers);
    bench->times = calloc((size_t)bench->layer_count * TIMINGS * (size_t)bench->repeats, sizeof *bench->times);
    if (!bench->layers || !bench->times)
        return error_memory(error, "profiling", (size_t)bench->layer_count * sizeof *bench->layers);
    for (int l = 0; l < bench->layer_count; l++) TRY(open_layer(bench, l, error));
    TRY(open_shared(bench, error));
    struct random_key key = random_key(0, RANDOM_SYNTHETIC, 0, 0);
    size_t elements = (size_t)bench->layers[0].sizes.input_bytes / sizeof(float);
    uint64_t tokens = (uint64_t)graph_vocabulary(bench->graph);
    for (size_t i = 0; i < elements; i++)
        bench->layers[0].input[i] = tokens > 0 ? (float)random_below(key, i, tokens) : 2 * random_uniform(key, i) - 1;
    for (size_t n = 0; n < label_count(bench); n++)
        bench->labels[n] = (int32_t)random_below(key, elements + n, (uint64_t)bench->classes);
    return PS_OK;
}

static struct stage_blocks layer_blocks(const struct bench *bench, int l) {
    const struct layer_bench *layer = &bench->layers[l];
    bool first = l == 0, last = l == bench->layer_count - 1;
    return (struct stage_blocks){
        .weights = layer->weights,
        .gradients = layer->gradients,
        .statistics = layer->statistics,
        .input = layer->input,
        .output = last ? NULL : bench->layers[l + 1].input,
        .stash = layer->stash,
        .delta = layer->delta,
        .output_gradient = last ? NULL : bench->gradient[(l + 1) % 2],
        .input_gradient = first ? NULL : bench->gradient[l % 2],
        .workspace = bench->workspace,
    };
}

/* Seconds since `start`, with all that was begun on the device done. */
static double elapsed(const struct bench *bench, double start) {
    if (bench->device->class->finish) bench->device->class->finish(bench->device);
    return clock_now() - start;
}

static void keep(struct layer_bench *layer, enum timing timing, int slot, double seconds) {
    if (slot >= 0) layer->times[timing][slot] = seconds;
}

static struct stage_step step_of(const struct bench *bench, int round) {
    return (struct stage_step){.step = (uint64_t)round,
                               .labels = bench->labels,
                               .gradient_scale = 1.0f / (float)label_count(bench),
                               .training = true,
                               .update_statistics = true};
}

static enum ps_status run_forward(struct bench *bench, const struct stage_step *step, int layers, int slot,
                                  struct ps_error *error) {
    for (int l = 0; l < layers; l++) {
        struct stage_blocks blocks = layer_blocks(bench, l);
        struct stage_result result = {0};
        double start = clock_now();
        TRY(stage_forward(bench->layers[l].stage, &blocks, step, &result, error));
        keep(&bench->layers[l], TIME_FORWARD, slot, elapsed(bench, start));
    }
    return PS_OK;
}

static enum ps_status run_backward(struct bench *bench, const struct stage_step *step, enum stage_half half, enum timing timing,
                                   int slot, struct ps_error *error) {
    for (int l = bench->layer_count - 1; l >= 0; l--) {
        struct stage_blocks blocks = layer_blocks(bench, l);
        double start = clock_now();
        TRY(stage_backward(bench->layers[l].stage, &blocks, step, half, error));
        keep(&bench->layers[l], timing, slot, elapsed(bench, start));
    }
    return PS_OK;
}

/* With a learning rate of 0: the work of an update, and weights that stay sane however often it is done. */
static void run_update(struct bench *bench, int64_t step, enum timing timing, int slot) {
    for (int l = 0; l < bench->layer_count; l++) {
        struct layer_bench *layer = &bench->layers[l];
        if (layer->sizes.parameter_bytes == 0) continue;
        struct optimizer_call call = {.count = (size_t)layer->sizes.parameter_bytes / sizeof(float),
                                      .weights = layer->weights,
                                      .updated = layer->weights,
                                      .gradient = layer->gradients,
                                      .moment = {layer->moment},
                                      .predicted = timing == TIME_UPDATE ? NULL : layer->predicted,
                                      .step = step};
        double start = clock_now();
        bench->device->class->update(bench->device, bench->rule, &bench->rule->defaults, &call, timing == TIME_PREDICT, 0);
        keep(layer, timing, slot, elapsed(bench, start));
    }
}

enum ps_status bench_forward(struct bench *bench, int layers, struct ps_error *error) {
    struct stage_step step = step_of(bench, 0);
    return run_forward(bench, &step, layers, -1, error);
}

enum ps_status bench_round(struct bench *bench, int round, int slot, struct ps_error *error) {
    struct stage_step step = step_of(bench, round);
    TRY(run_forward(bench, &step, bench->layer_count, slot, error));
    TRY(run_backward(bench, &step, STAGE_BOTH, TIME_BACKWARD, slot, error));
    run_update(bench, round + 1, TIME_UPDATE, slot);
    run_update(bench, round + 1, TIME_UPDATE_PREDICT, slot);
    run_update(bench, round + 1, TIME_PREDICT, slot);
    TRY(run_forward(bench, &step, bench->layer_count, -1, error));
    TRY(run_backward(bench, &step, STAGE_INPUT_APART, TIME_INPUT_HALF, slot, error));
    TRY(run_backward(bench, &step, STAGE_WEIGHTS_APART, TIME_WEIGHTS_HALF, slot, error));
    step.accumulate = true;
    return run_backward(bench, &step, STAGE_WEIGHTS_APART, TIME_ADDING_HALF, slot, error);
}
