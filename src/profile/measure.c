/*
 * Measuring what each layer costs on a device of this machine.
 *
 * The network is run as a pipeline of one-layer stages in one thread, with real weights and activations: forward through all
 * layers, then backward, then the update, each call timed. So a layer finds its input, its weights and the caches as in
 * training, and a disturbance from outside hits a few layers of one round, where the median does not see it. Every second
 * backward leaves the gradients of the weights out; what it saves is their cost.
 *
 * A network that does not fit the memory is measured in pieces, one after the other, as many layers as fit in each; a piece's last
 * output is the next one's input.
 */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "compute/stage.h"
#include "graph/model.h"
#include "profile/modelled.h"

enum { DEFAULT_WARMUP = 2, DEFAULT_REPEATS = 9, REPEATS_MAX = 10000 };
enum timing { TIME_FORWARD, TIME_BACKWARD, TIME_BACKWARD_INPUT, TIME_UPDATE, TIMINGS };

struct layer_bench {
    struct stage *stage;
    struct stage_sizes sizes;
    struct memory_block memory; /* of weights, gradients, moment, statistics, input and stash */
    float *weights, *gradients, *moment, *statistics, *input, *stash;
    double *times[TIMINGS]; /* [repeats] */
};

struct bench {
    const struct graph *graph;
    struct device *device;
    const struct optimizer *rule;
    int samples, repeats;
    int64_t memory_bytes; /* limit; 0: none */
    const float *input;   /* of the first layer, where that is not the network's; borrowed */
    int first;            /* layer of the network, and how many from there on are here */
    int layer_count;
    struct layer_bench *layers;
    struct memory_block shared; /* labels, workspace, output, two gradients of the largest cut */
    int32_t *labels;
    void *workspace;
    float *output; /* of the last layer, unless it is the network's */
    float *gradient[2];
    double *times;
};

static void bench_close(struct bench *bench) {
    for (int l = 0; bench->layers && l < bench->layer_count; l++) {
        stage_destroy(bench->layers[l].stage);
        memory_block_release(&bench->layers[l].memory);
    }
    memory_block_release(&bench->shared);
    free(bench->layers);
    free(bench->times);
}

static size_t label_count(const struct bench *bench) {
    return (size_t)bench->samples * (size_t)graph_labels(bench->graph);
}

/* What a layer keeps for itself. */
static size_t layer_bytes(const struct stage_sizes *sizes) {
    return 3 * memory_align((size_t)sizes->parameter_bytes) + memory_align((size_t)sizes->statistics_bytes) +
           memory_align((size_t)sizes->input_bytes) + memory_align((size_t)sizes->stash_bytes);
}

static enum ps_status open_layer(struct bench *bench, int l, struct ps_error *error) {
    struct layer_bench *layer = &bench->layers[l];
    size_t parameters = memory_align((size_t)layer->sizes.parameter_bytes),
           input = memory_align((size_t)layer->sizes.input_bytes);
    size_t statistics = memory_align((size_t)layer->sizes.statistics_bytes),
           stash = memory_align((size_t)layer->sizes.stash_bytes);
    TRY(memory_block_take(&layer->memory, layer_bytes(&layer->sizes),
                          bench->graph->layers[bench->first + l].name, error));
    layer->weights = memory_block_carve(&layer->memory, parameters);
    layer->gradients = memory_block_carve(&layer->memory, parameters);
    layer->moment = memory_block_carve(&layer->memory, parameters);
    layer->statistics = memory_block_carve(&layer->memory, statistics);
    layer->input = memory_block_carve(&layer->memory, input);
    layer->stash = memory_block_carve(&layer->memory, stash);
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
    size_t total = shared_total(&shared);
    for (int l = 0; l < bench->layer_count; l++) total += layer_bytes(&bench->layers[l].sizes);
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

static enum ps_status bench_open(struct bench *bench, int classes, struct ps_error *error) {
    const int left = bench->graph->layer_count - bench->first;
    assert(left > 0 && bench->repeats > 0);
    bench->layers = calloc((size_t)left, sizeof *bench->layers);
    bench->times = calloc((size_t)left * TIMINGS * (size_t)bench->repeats, sizeof *bench->times);
    if (!bench->layers || !bench->times)
        return error_memory(error, "profiling", (size_t)left * sizeof *bench->layers);
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
        bench->labels[n] = (int32_t)random_below(key, elements + n, (uint64_t)classes);
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
        .output = last ? NULL : l == bench->layer_count - 1 ? bench->output : bench->layers[l + 1].input,
        .stash = layer->stash,
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

/* `slot` < 0: warming up, times are not kept. */
static void keep(struct layer_bench *layer, enum timing timing, int slot, double seconds) {
    if (slot >= 0) layer->times[timing][slot] = seconds;
}

static enum ps_status run_forward(struct bench *bench, const struct stage_step *step, int slot, struct ps_error *error) {
    for (int l = 0; l < bench->layer_count; l++) {
        struct stage_blocks blocks = layer_blocks(bench, l);
        struct stage_result result = {0};
        double start = clock_now();
        TRY(stage_forward(bench->layers[l].stage, &blocks, step, &result, error));
        keep(&bench->layers[l], TIME_FORWARD, slot, elapsed(bench, start));
    }
    return PS_OK;
}

static enum ps_status run_backward(struct bench *bench, const struct stage_step *step, enum stage_half half, int slot,
                                   struct ps_error *error) {
    for (int l = bench->layer_count - 1; l >= 0; l--) {
        struct stage_blocks blocks = layer_blocks(bench, l);
        double start = clock_now();
        TRY(stage_backward(bench->layers[l].stage, &blocks, step, half, error));
        keep(&bench->layers[l], half == STAGE_BOTH ? TIME_BACKWARD : TIME_BACKWARD_INPUT, slot, elapsed(bench, start));
    }
    return PS_OK;
}

/* With a learning rate of 0: the work of an update, and weights that stay sane however often it is done. */
static void run_update(struct bench *bench, int64_t step, int slot) {
    for (int l = 0; l < bench->layer_count; l++) {
        struct layer_bench *layer = &bench->layers[l];
        if (layer->sizes.parameter_bytes == 0) continue;
        struct optimizer_call call = {.count = (size_t)layer->sizes.parameter_bytes / sizeof(float),
                                      .weights = layer->weights,
                                      .updated = layer->weights,
                                      .gradient = layer->gradients,
                                      .moment = {layer->moment},
                                      .step = step};
        double start = clock_now();
        bench->device->class->update(bench->device, bench->rule, &bench->rule->defaults, &call, false, 0);
        keep(layer, TIME_UPDATE, slot, elapsed(bench, start));
    }
}

static enum ps_status run_round(struct bench *bench, int round, int slot, struct ps_error *error) {
    struct stage_step step = {.step = (uint64_t)round,
                              .labels = bench->labels,
                              .gradient_scale = 1.0f / (float)label_count(bench),
                              .training = true,
                              .update_statistics = true};
    TRY(run_forward(bench, &step, slot, error));
    TRY(run_backward(bench, &step, STAGE_BOTH, slot, error));
    run_update(bench, round + 1, slot);
    TRY(run_forward(bench, &step, -1, error));
    return run_backward(bench, &step, STAGE_INPUT, slot, error);
}

/* ------------------------------------------------------------------ results */

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the times. */
static double median(double *times, int count, double *spread) {
    qsort(times, (size_t)count, sizeof *times, compare_doubles);
    *spread = (times[3 * (count - 1) / 4] - times[(count - 1) / 4]) / 2;
    return count % 2 ? times[count / 2] : (times[count / 2 - 1] + times[count / 2]) / 2;
}

static void summarize(struct layer_bench *layer, int repeats, struct layer_cost *cost) {
    struct layer_times *time = &cost->time, *spread = &cost->spread;
    double both_spread, both = median(layer->times[TIME_BACKWARD], repeats, &both_spread);
    time->forward_s = median(layer->times[TIME_FORWARD], repeats, &spread->forward_s);
    time->backward_input_s = both;
    spread->backward_input_s = both_spread;
    if (layer->sizes.parameter_bytes == 0) return;
    time->update_s = median(layer->times[TIME_UPDATE], repeats, &spread->update_s);
    time->backward_input_s = fmin(both, median(layer->times[TIME_BACKWARD_INPUT], repeats, &spread->backward_input_s));
    time->backward_weight_s = both - time->backward_input_s;
    spread->backward_weight_s = both_spread + spread->backward_input_s;
}

static enum ps_status record_sizes(const struct bench *bench, struct cost_table *table, struct ps_error *error) {
    int count = bench->graph->layer_count;
    struct layer_sizes *sizes = calloc((size_t)count, sizeof *sizes);
    if (!sizes) return error_memory(error, "profiling", (size_t)count * sizeof *sizes);
    enum ps_status status = stage_layer_sizes(bench->device, bench->graph, bench->samples, sizes, &table->input_bytes, error);
    for (int l = 0; status == PS_OK && l < count; l++) table->layers[l].size = sizes[l];
    free(sizes);
    return status;
}

/* Gives what the piece's last layer made to the next piece. */
static enum ps_status pass_on(const struct bench *bench, float **input, struct ps_error *error) {
    size_t size = (size_t)bench->layers[bench->layer_count - 1].sizes.output_bytes;
    float *copy = realloc(*input, size + 1);
    if (!copy) return error_memory(error, "profiling", size);
    memcpy(copy, bench->output, size);
    *input = copy;
    return PS_OK;
}

/* Measures as many layers as fit, from bench->first on. */
static enum ps_status measure_piece(struct bench *bench, int classes, int warmup, struct cost_table *table, float **input,
                                    struct ps_error *error) {
    int rounds = warmup + bench->repeats;
    TRY(bench_open(bench, classes, error));
    for (int r = 0; r < rounds; r++) {
        log_progress("profiling", r, rounds, "micro-batch %d, round %d of %d", bench->samples, r + 1, rounds);
        TRY(run_round(bench, r, r - warmup, error));
    }
    log_progress("profiling", rounds, rounds, "micro-batch %d", bench->samples);
    for (int l = 0; l < bench->layer_count; l++)
        summarize(&bench->layers[l], bench->repeats, &table->layers[bench->first + l]);
    return bench->first + bench->layer_count < bench->graph->layer_count ? pass_on(bench, input, error) : PS_OK;
}

static enum ps_status measure_size(const struct bench *all, int classes, int warmup, struct cost_table *table,
                                   struct ps_error *error) {
    float *input = NULL;
    enum ps_status status = record_sizes(all, table, error);
    for (int first = 0; status == PS_OK && first < all->graph->layer_count;) {
        struct bench bench = *all;
        bench.first = first;
        bench.input = input;
        status = measure_piece(&bench, classes, warmup, table, &input, error);
        first += bench.layer_count;
        bench_close(&bench);
    }
    free(input);
    return status;
}

static int compare_ints(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* The sizes in ascending order into `sizes`. */
static enum ps_status check_options(const struct ps_profile_options *options, int *sizes, struct ps_error *error) {
    if (options->threads < 0 || options->threads > 4096)
        return error_set(error, PS_USAGE, "threads: %d is not from 1 to 4096", options->threads);
    if (options->warmup < 0 || options->repeats < 0 || options->warmup > REPEATS_MAX || options->repeats > REPEATS_MAX)
        return error_set(error, PS_USAGE, "warm-up of %d and %d repeats: 0 (the default) to %d are accepted", options->warmup,
                         options->repeats, REPEATS_MAX);
    memcpy(sizes, options->micro_batches, (size_t)options->micro_batch_count * sizeof *sizes);
    qsort(sizes, (size_t)options->micro_batch_count, sizeof *sizes, compare_ints);
    for (int i = 0; i < options->micro_batch_count; i++) {
        if (sizes[i] < 1 || sizes[i] > PROFILE_MICRO_BATCH_MAX)
            return error_set(error, PS_USAGE, "micro-batch %d: 1 to %d samples are accepted", sizes[i],
                             PROFILE_MICRO_BATCH_MAX);
        if (i > 0 && sizes[i] == sizes[i - 1]) return error_set(error, PS_USAGE, "micro-batch %d stands twice", sizes[i]);
    }
    return PS_OK;
}

static void name_layers(const struct graph *graph, struct cost_table *table) {
    for (int l = 0; l < graph->layer_count; l++) {
        snprintf(table->layers[l].name, sizeof table->layers[l].name, "%s", graph->layers[l].name);
        snprintf(table->layers[l].kind, sizeof table->layers[l].kind, "%s", graph->layers[l].kind);
    }
}

static enum ps_status open_device(const char *name, int threads, struct device **out, struct ps_error *error) {
    struct device *device;
    TRY(device_open(name, &(struct device_options){.threads = threads}, &device, error));
    if (!device->class->real) {
        device_close(device);
        return error_set(error, PS_USAGE, "device '%s' computes nothing that could be measured", name);
    }
    if (device->class->attach) device->class->attach(device);
    *out = device;
    return PS_OK;
}

static enum ps_status measure(const struct ps_model *model, const struct ps_profile_options *options, struct ps_profile *profile,
                              struct ps_error *error) {
    struct device *device;
    const struct optimizer *rule;
    int warmup = options->warmup ? options->warmup : DEFAULT_WARMUP;
    TRY(optimizer_find("sgdm", &rule, error));
    TRY(open_device(profile->device, profile->threads, &device, error));
    enum ps_status status = PS_OK;
    for (int i = 0; status == PS_OK && i < profile->table_count; i++) {
        struct bench bench = {.graph = model->graph,
                              .device = device,
                              .rule = rule,
                              .samples = profile->tables[i].micro_batch,
                              .memory_bytes = options->memory_bytes,
                              .repeats = options->repeats ? options->repeats : DEFAULT_REPEATS};
        status = measure_size(&bench, model->classes, warmup, &profile->tables[i], error);
    }
    device_close(device);
    return status;
}

/* Measures the costs or works them out. */
static enum ps_status fill(const struct ps_model *model, const struct ps_profile_options *options, const int *sizes,
                           struct ps_profile *profile, struct ps_error *error) {
    snprintf(profile->model, sizeof profile->model, "%s", model->name);
    snprintf(profile->device, sizeof profile->device, "%s", options->device ? options->device : "cpu");
    profile->threads = options->threads ? options->threads : 1;
    for (int i = 0; i < profile->table_count; i++) {
        profile->tables[i].micro_batch = sizes[i];
        name_layers(model->graph, &profile->tables[i]);
    }
    const struct modelled_device *modelled = modelled_find(profile->device);
    if (!modelled) TRY(measure(model, options, profile, error));
    for (int i = 0; modelled && i < profile->table_count; i++)
        TRY(modelled_fill(modelled, model->graph, &profile->tables[i], error));
    return profile_check(profile, error);
}

enum ps_status ps_profile_measure(const struct ps_model *model, const struct ps_profile_options *options,
                                  struct ps_profile **profile, struct ps_error *error) {
    struct ps_profile *made = NULL;
    if (options->micro_batch_count < 1 || options->micro_batch_count > 1000)
        return error_set(error, PS_USAGE, "%d micro-batch sizes: 1 to 1000 are accepted", options->micro_batch_count);
    int *sizes = malloc((size_t)options->micro_batch_count * sizeof *sizes);
    if (!sizes) return error_memory(error, "profiling", (size_t)options->micro_batch_count * sizeof *sizes);
    enum ps_status status = check_options(options, sizes, error);
    if (status == PS_OK) status = profile_create(options->micro_batch_count, model->graph->layer_count, &made, error);
    if (status == PS_OK) status = fill(model, options, sizes, made, error);
    free(sizes);
    if (status != PS_OK) {
        ps_profile_destroy(made);
        return status;
    }
    *profile = made;
    return PS_OK;
}
