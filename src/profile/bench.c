/*
 * Running a network layer by layer; see bench.h. A round is three passes: forward, backward and updates; forward and the two
 * halves of the backward apart; the half of the weights once more, added to what is there. Each pass goes through all layers, so
 * that no layer finds in the caches what it did a moment ago.
 */
#include "profile/bench.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

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

static size_t label_count(const struct bench *bench) { return (size_t)bench->samples * (size_t)graph_labels(bench->graph); }

/* What a layer keeps for itself: its pieces and their sizes, in the order in which they are carved. */
struct layer_piece {
    float **block;
    int64_t bytes;
};
enum { LAYER_PIECES = 8 };

static size_t layer_pieces(struct layer_bench *layer, struct layer_piece pieces[LAYER_PIECES]) {
    const struct stage_sizes *sizes = &layer->sizes;
    const struct layer_piece all[LAYER_PIECES] = {
        {&layer->weights, sizes->parameter_bytes},     {&layer->gradients, sizes->parameter_bytes},
        {&layer->moment, sizes->parameter_bytes},      {&layer->predicted, sizes->parameter_bytes},
        {&layer->statistics, sizes->statistics_bytes}, {&layer->input, sizes->input_bytes},
        {&layer->stash, sizes->stash_bytes},           {&layer->delta, sizes->delta_bytes},
    };
    size_t total = 0;
    for (int p = 0; p < LAYER_PIECES; p++) {
        pieces[p] = all[p];
        total += memory_align((size_t)all[p].bytes);
    }
    return total;
}

static enum ps_status open_layer(struct bench *bench, int l, struct ps_error *error) {
    struct layer_bench *layer = &bench->layers[l];
    struct layer_piece pieces[LAYER_PIECES];
    size_t total = layer_pieces(layer, pieces);
    TRY(memory_block_take(&layer->memory, total, bench->graph->layers[bench->first + l].name, error));
    for (int p = 0; p < LAYER_PIECES; p++) *pieces[p].block = memory_block_carve(&layer->memory, (size_t)pieces[p].bytes);
    for (int t = 0; t < TIMINGS; t++)
        layer->times[t] = bench->times + ((size_t)l * TIMINGS + (size_t)t) * (size_t)bench->repeats;
    return stage_initialize(layer->stage, 0, layer->weights, layer->statistics, error);
}

/* What all layers use in turn. */
struct shared_sizes {
    size_t labels, workspace, cut, output;
};

static struct shared_sizes shared_sizes(const struct bench *bench) {
    bool ends = bench->first + bench->layer_count == bench->graph->layer_count;
    size_t output = ends ? 0 : (size_t)bench->layers[bench->layer_count - 1].sizes.output_bytes, workspace = 0, cut = output;
    for (int l = 0; l < bench->layer_count; l++) {
        const struct stage_sizes *sizes = &bench->layers[l].sizes;
        if ((size_t)sizes->workspace_bytes > workspace) workspace = (size_t)sizes->workspace_bytes;
        if ((size_t)sizes->input_bytes > cut) cut = (size_t)sizes->input_bytes;
    }
    return (struct shared_sizes){.labels = memory_align(label_count(bench) * sizeof *bench->labels),
                                 .workspace = memory_align(workspace),
                                 .cut = memory_align(cut),
                                 .output = memory_align(output)};
}

static size_t shared_total(const struct shared_sizes *sizes) {
    return sizes->labels + sizes->workspace + sizes->output + 2 * sizes->cut;
}

static enum ps_status open_shared(struct bench *bench, struct ps_error *error) {
    struct shared_sizes sizes = shared_sizes(bench);
    TRY(memory_block_take(&bench->shared, shared_total(&sizes), "profiling", error));
    bench->labels = memory_block_carve(&bench->shared, sizes.labels);
    bench->workspace = memory_block_carve(&bench->shared, sizes.workspace);
    bench->output = memory_block_carve(&bench->shared, sizes.output);
    for (int g = 0; g < 2; g++) bench->gradient[g] = memory_block_carve(&bench->shared, sizes.cut);
    return PS_OK;
}

/* What the layers take that have a stage. */
static int64_t bench_bytes(const struct bench *bench) {
    struct shared_sizes shared = shared_sizes(bench);
    struct layer_piece unused[LAYER_PIECES];
    size_t total = shared_total(&shared);
    for (int l = 0; l < bench->layer_count; l++) total += layer_pieces(&bench->layers[l], unused);
    return (int64_t)total;
}

/* Makes the stages of as many layers as fit, but of one at least: whether that can be trained is for the planner to say. */
static enum ps_status take_layers(struct bench *bench, struct ps_error *error) {
    int left = bench->graph->layer_count - bench->first;
    for (int count = 0; count < left; count++) {
        struct layer_bench *layer = &bench->layers[count];
        int number = bench->first + count;
        TRY(stage_create(bench->device, bench->graph, number, number, bench->samples, &layer->stage, error));
        layer->sizes = stage_sizes(layer->stage);
        bench->layer_count = count + 1;
        if (bench->memory_bytes == 0 || count == 0 || bench_bytes(bench) <= bench->memory_bytes) continue;
        bench->layer_count = count;
        stage_destroy(layer->stage);
        layer->stage = NULL;
        break;
    }
    return PS_OK;
}

enum ps_status bench_open(struct bench *bench, struct ps_error *error) {
    const int left = bench->graph->layer_count - bench->first;
    assert(left > 0 && bench->repeats > 0);
    bench->layers = calloc((size_t)left, sizeof *bench->layers);
    bench->times = calloc((size_t)left * TIMINGS * (size_t)bench->repeats, sizeof *bench->times);
    if (!bench->layers || !bench->times) return error_memory(error, "profiling", (size_t)left * sizeof *bench->layers);
    TRY(take_layers(bench, error));
    for (int l = 0; l < bench->layer_count; l++) TRY(open_layer(bench, l, error));
    TRY(open_shared(bench, error));
    struct random_key key = random_key(0, RANDOM_SYNTHETIC, 0, 0);
    size_t elements = (size_t)bench->layers[0].sizes.input_bytes / sizeof(float);
    uint64_t tokens = (uint64_t)graph_vocabulary(bench->graph);
    if (bench->input) memcpy(bench->layers[0].input, bench->input, elements * sizeof(float));
    for (size_t i = 0; i < elements && !bench->input; i++)
        bench->layers[0].input[i] = tokens > 0 ? (float)random_below(key, i, tokens) : 2 * random_uniform(key, i) - 1;
    for (size_t n = 0; n < label_count(bench); n++)
        bench->labels[n] = (int32_t)random_below(key, elements + n, (uint64_t)bench->classes);
    return PS_OK;
}

static struct stage_blocks layer_blocks(const struct bench *bench, int l) {
    const struct layer_bench *layer = &bench->layers[l];
    int number = bench->first + l;
    bool first = number == 0, last = number == bench->graph->layer_count - 1;
    return (struct stage_blocks){
        .weights = layer->weights,
        .gradients = layer->gradients,
        .statistics = layer->statistics,
        .input = layer->input,
        .output = last                          ? NULL
                  : l == bench->layer_count - 1 ? bench->output
                                                : bench->layers[l + 1].input,
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
