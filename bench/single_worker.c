/*
 * How fast one worker trains: forward, backward and update (SGD with momentum) of a whole network on one device, through the
 * same stage that a pipeline runs. pytorch/single_worker.py measures the same in PyTorch; pytorch.sh puts both side by side.
 *
 *     single_worker [MODEL [BATCH [THREADS [STEPS [layers]]]]]
 *
 * prints the median of a step and of its parts in milliseconds; with `layers` also forward and backward of each layer alone.
 * With TAKE=least it is the least of the steps instead, for a machine that others slow down. With PROCESSOR_TIME set they are
 * of the processor's time, of all threads together, which other programs hardly change.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "worker.h"

enum { WARMUP = 3, STEPS_MAX = 1000, PARTS = 3 };

static double now(void) {
    struct timespec time;
    if (getenv("PROCESSOR_TIME") == NULL || clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) != 0) return clock_now();
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* One training step; `seconds` gets forward, backward, update. */
static double train(struct worker *w, int64_t number, double seconds[PARTS]) {
    struct ps_error error = {0};
    struct stage_step step = {.step = (uint64_t)number,
                              .target = w->labels,
                              .gradient_scale = 1.0f / (float)w->label_count,
                              .training = true,
                              .update_statistics = true};
    struct stage_result result;
    double begin = now();
    check(stage_forward(w->stage, &w->blocks, &step, &result, &error), &error);
    double forward = now();
    check(stage_backward(w->stage, &w->blocks, &step, STAGE_BOTH, &error), &error);
    double backward = now();
    const struct optimizer *rule;
    check(optimizer_find("sgdm", &rule, &error), &error);
    update(w, rule, number);
    double done = now();
    seconds[0] = forward - begin, seconds[1] = backward - forward, seconds[2] = done - backward;
    return result.loss / (double)w->label_count;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_or_least(double *values, int count) {
    const char *take = getenv("TAKE");
    qsort(values, (size_t)count, sizeof *values, ascending);
    if (take != NULL && strcmp(take, "least") == 0) return values[0];
    return count % 2 == 1 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

/* Typical times of forward, backward, update and their sum, in milliseconds. Returns the last loss. */
static double measure(struct worker *w, int steps, double typical_ms[PARTS + 1]) {
    static double times[PARTS + 1][STEPS_MAX];
    double loss = 0, seconds[PARTS];
    for (int i = -WARMUP; i < steps; i++) {
        loss = train(w, i + WARMUP + 1, seconds);
        if (i < 0) continue;
        for (int p = 0; p < PARTS; p++) times[p][i] = 1e3 * seconds[p];
        times[PARTS][i] = times[0][i] + times[1][i] + times[2][i];
    }
    for (int p = 0; p <= PARTS; p++) typical_ms[p] = median_or_least(times[p], steps);
    return loss;
}

/* Layers of one kind: how many, seconds of forward and backward, arithmetic, and bytes of the values and gradients at their
 * ends that both read and write. */
struct kind {
    const char *name;
    int layers;
    double seconds, flops, bytes;
};

static void add_layer(struct kind *kinds, int *count, const struct graph *graph, int layer, int samples, double seconds) {
    const struct layer *l = &graph->layers[layer];
    int k = 0;
    while (k < *count && strcmp(kinds[k].name, l->kind) != 0) k++;
    if (k == *count) kinds[(*count)++] = (struct kind){.name = l->kind};
    kinds[k].layers++;
    kinds[k].seconds += seconds;
    for (int n = l->node_first; n < l->node_first + l->node_count; n++)
        kinds[k].flops += (layer > 0 ? 3 : 2) * samples * node_flops(graph, &graph->nodes[n]);
    const double in = (double)graph_cut_bytes(graph, layer), out = (double)graph_cut_bytes(graph, layer + 1);
    kinds[k].bytes += samples * ((in + out) + (2 * in + out));
}

/* Forward and backward of each layer alone; their sums by kind. */
static int measure_layers(struct device *device, const struct ps_network *model, int samples, int steps, bool prints,
                          struct kind *kinds) {
    const struct graph *graph = model->graph;
    int count = 0;
    if (prints) printf("%-24s %-16s %10s %10s %10s\n", "layer", "kind", "forward", "backward", "update");
    for (int l = 0; l < graph->layer_count; l++) {
        struct worker w = start(device, model, l, l, samples);
        double typical_ms[PARTS + 1];
        measure(&w, steps, typical_ms);
        if (prints)
            printf("%-24s %-16s %10.3f %10.3f %10.3f\n", graph->layers[l].name, graph->layers[l].kind, typical_ms[0],
                   typical_ms[1], typical_ms[2]);
        add_layer(kinds, &count, graph, l, samples, 1e-3 * (typical_ms[0] + typical_ms[1]));
        end(&w);
    }
    return count;
}

/* FLOP/s of a plain product: a linear layer of SIDE features of as many rows and columns. */
static double product_rate(struct device *device, enum precision precision) {
    enum { SIDE = 1536, RUNS = 12 };
    struct ps_error error = {0};
    struct graph *graph = graph_create();
    struct attributes data = {.sides = {.count = 1, .at = {SIDE}}}, linear = {.channels = SIDE};
    const int input = graph_add(graph, OPERATOR_INPUT, "x", &data, NULL, 0, &error);
    const int node = graph_add(graph, OPERATOR_LINEAR, "product", &linear, &input, 1, &error);
    check(graph->status, &error);
    check(graph_finish(graph, &error), &error);
    check(graph_set_precision(graph, precision, &error), &error);
    const enum number_type type = graph->nodes[input].shape.type = graph->nodes[node].shape.type;
    struct kernel *kernel;
    check(kernel_create(device, graph, &graph->nodes[node], SIDE, false, &kernel, &error), &error);
    const int64_t bytes[] = {4 * SIDE * SIDE, 4 * SIDE * SIDE, 4 * SIDE * SIDE, kernel->workspace_bytes};
    struct memory_block memory;
    check(memory_block_take(&memory, (size_t)(3 * bytes[0] + bytes[3]) + 8 * MEMORY_ALIGNMENT, "a product", &error), &error);
    void *blocks[4];
    for (int i = 0; i < 4; i++) blocks[i] = memory_block_carve(&memory, (size_t)bytes[i]);
    for (int i = 0; i < 2; i++) fill(type, blocks[i], SIDE * SIDE);
    const struct kernel_call call = {
        .input = {blocks[0]}, .weights = {blocks[1]}, .output = blocks[2], .workspace = blocks[3], .error = &error};
    double least = 1e9;
    for (int run = 0; run < RUNS; run++) {
        const double begin = now();
        check(kernel_run(kernel, KERNEL_FORWARD, &call), &error);
        const double seconds = now() - begin;
        least = seconds < least ? seconds : least;
    }
    memory_block_release(&memory);
    kernel_destroy(kernel);
    graph_destroy(graph);
    return 2.0 * SIDE * SIDE * SIDE / least;
}

static void copy_part(const void *context, size_t first, size_t end) {
    char *const *blocks = context;
    memcpy(blocks[1] + first, blocks[0] + first, end - first);
}

/* Bytes that a plain copy reads and writes in a second. */
static double copy_rate(struct device *device) {
    enum { BYTES = 96 << 20, RUNS = 12 };
    struct ps_error error = {0};
    struct memory_block memory;
    check(memory_block_take(&memory, 2 * (size_t)BYTES + 4 * MEMORY_ALIGNMENT, "a copy", &error), &error);
    char *blocks[2];
    for (int i = 0; i < 2; i++) blocks[i] = memory_block_carve(&memory, BYTES);
    memset(blocks[0], 1, BYTES);
    double least = 1e9;
    for (int run = 0; run < RUNS; run++) {
        const double begin = now();
        device_parallel(device, BYTES, 4096, copy_part, blocks);
        const double seconds = now() - begin;
        least = seconds < least ? seconds : least;
    }
    memory_block_release(&memory);
    return 2.0 * BYTES / least;
}

static void print_roofline(struct device *device, const struct ps_network *model, const struct kind *kinds, int count) {
    const double product = product_rate(device, model->graph->precision), copy = copy_rate(device);
    double all = 0;
    for (int k = 0; k < count; k++) all += kinds[k].seconds;
    printf("%-20s %6s %9s %7s %9s %8s\n", "kind", "layers", "ms", "share", "GFLOP/s", "GB/s");
    for (int k = 0; k < count; k++)
        printf("%-20s %6d %9.2f %6.1f%% %9.1f %8.1f\n", kinds[k].name, kinds[k].layers, 1e3 * kinds[k].seconds,
               100 * kinds[k].seconds / all, 1e-9 * kinds[k].flops / kinds[k].seconds,
               1e-9 * kinds[k].bytes / kinds[k].seconds);
    printf("%-20s %6s %9s %7s %9.1f %8.1f\n", "product, copy", "", "", "", 1e-9 * product, 1e-9 * copy);
}

static int argument(int argc, char **argv, int index, int otherwise, int most) {
    if (argc <= index) return otherwise;
    int value = atoi(argv[index]);
    if (value >= 1 && value <= most) return value;
    fprintf(stderr, "single_worker: '%s' must be a number from 1 to %d\n", argv[index], most);
    exit(PS_USAGE);
}

int main(int argc, char **argv) {
    const char *spec = argc > 1 ? argv[1] : "vgg16";
    int samples = argument(argc, argv, 2, 64, 1 << 16), threads = argument(argc, argv, 3, 1, 256);
    int steps = argument(argc, argv, 4, 9, STEPS_MAX);
    struct ps_error error = {0};
    struct ps_network *model;
    struct device *device;
    check(ps_network_open(spec, &model, &error), &error);
    check(device_open("cpu", &(struct device_options){.threads = threads}, &device, &error), &error);
    struct kind kinds[OPERATOR_COUNT];
    const bool layers = argc > 5 && strcmp(argv[5], "layers") == 0, roofline = argc > 5 && strcmp(argv[5], "roofline") == 0;
    const int kind_count = layers || roofline ? measure_layers(device, model, samples, steps, layers, kinds) : 0;
    if (roofline) print_roofline(device, model, kinds, kind_count);
    struct worker w = start(device, model, 0, model->graph->layer_count - 1, samples);
    double typical_ms[PARTS + 1];
    double loss = measure(&w, steps, typical_ms);
    printf("penstock %s batch %d threads %d: %.2f ms a step (forward %.2f, backward %.2f, update %.2f), %.1f samples/s, loss "
           "%.3f\n",
           spec, samples, threads, typical_ms[PARTS], typical_ms[0], typical_ms[1], typical_ms[2],
           1e3 * samples / typical_ms[PARTS], loss);
    end(&w);
    device_close(device);
    ps_network_destroy(model);
    return 0;
}
