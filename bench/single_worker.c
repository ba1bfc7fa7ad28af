/*
 * How fast one worker trains: forward, backward and update (SGD with momentum) of a whole network on one device, through the
 * same stage that a pipeline runs. pytorch/single_worker.py measures the same in PyTorch; pytorch.sh puts both side by side.
 *
 *     single_worker [MODEL [BATCH [THREADS [STEPS [layers]]]]]
 *
 * prints the median of a step and of its parts in milliseconds; with `layers` also forward and backward of each layer alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "compute/stage.h"
#include "graph/model.h"

enum { WARMUP = 3, STEPS_MAX = 1000, PARTS = 3 };

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

static void stop(const struct ps_error *error) {
    fprintf(stderr, "single_worker: %s\n", error->message);
    exit(error->status);
}

static void check(enum ps_status status, const struct ps_error *error) {
    if (status != PS_OK) stop(error);
}

static void *carve(struct worker *w, int64_t bytes) { return memory_block_carve(&w->memory, (size_t)bytes); }

static void fill(float *values, int64_t bytes) {
    struct random_key key = random_key(0, RANDOM_TEST, 0, 0);
    for (int64_t i = 0; i < bytes / 4; i++) values[i] = random_uniform(key, (uint64_t)i) - 0.5f;
}

/* The values of the stage's first cut; what are tokens gets such, none of them padding. */
static void fill_input(struct worker *w, const struct ps_model *model, int cut) {
    const struct graph *graph = model->graph;
    char *place = (char *)w->blocks.input;
    for (int i = 0; i < graph_cut_count(graph, cut); i++) {
        int root = graph_cut_values(graph, cut)[i];
        int64_t count = w->samples * shape_elements(&graph->nodes[root].shape);
        float *values = (float *)place;
        fill(values, 4 * count);
        for (int64_t e = 0; e < count && model->vocabulary > 0 && graph->nodes[root].data; e++) {
            values[e] = (float)(1 + (int)((values[e] + 0.5f) * (float)(model->vocabulary - 1)));
            if (values[e] >= (float)model->vocabulary) values[e] = 1;
        }
        place += memory_align((size_t)(4 * count));
    }
}

static void take_memory(struct worker *w, struct ps_error *error) {
    struct stage_sizes s = stage_sizes(w->stage);
    int64_t sizes[] = {3 * s.parameter_bytes, s.statistics_bytes, 2 * s.input_bytes,          2 * s.output_bytes,
                       s.stash_bytes,         s.workspace_bytes,  4 * (int64_t)w->label_count};
    int64_t total = 16 * MEMORY_ALIGNMENT;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) total += sizes[i];
    check(memory_block_take(&w->memory, (size_t)total, "a worker", error), error);
    w->weights = carve(w, s.parameter_bytes);
    w->gradients = carve(w, s.parameter_bytes);
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
    check(stage_initialize(w->stage, 0, w->weights, w->blocks.statistics, error), error);
    if (w->output_gradient != NULL) fill(w->output_gradient, s.output_bytes);
}

static struct worker start(struct device *device, const struct ps_model *model, int first, int last, int samples) {
    struct ps_error error = {0};
    struct worker w = {.device = device, .samples = samples, .label_count = samples * graph_labels(model->graph)};
    check(stage_create(device, model->graph, first, last, samples, &w.stage, &error), &error);
    take_memory(&w, &error);
    fill_input(&w, model, first);
    for (int64_t n = 0; n < w.label_count; n++) w.labels[n] = (int32_t)(n % model->classes);
    if (first == 0) w.blocks.input_gradient = NULL;
    return w;
}

static void end(struct worker *w) {
    stage_destroy(w->stage);
    memory_block_release(&w->memory);
}

/* One training step; `seconds` gets forward, backward, update. */
static double train(struct worker *w, int64_t number, double seconds[PARTS]) {
    struct ps_error error = {0};
    struct stage_step step = {.step = (uint64_t)number,
                              .labels = w->labels,
                              .gradient_scale = 1.0f / (float)w->label_count,
                              .training = true,
                              .update_statistics = true};
    struct stage_result result;
    double begin = clock_now();
    check(stage_forward(w->stage, &w->blocks, &step, &result, &error), &error);
    double forward = clock_now();
    check(stage_backward(w->stage, &w->blocks, &step, STAGE_BOTH, &error), &error);
    double backward = clock_now();
    const struct optimizer *rule;
    check(optimizer_find("sgdm", &rule, &error), &error);
    struct optimizer_call call = {.count = (size_t)stage_sizes(w->stage).parameter_bytes / sizeof(float),
                                  .weights = w->weights,
                                  .updated = w->weights,
                                  .gradient = w->gradients,
                                  .moment = {w->momentum},
                                  .lr = rule->defaults.lr,
                                  .step = number};
    w->device->class->update(w->device, rule, &rule->defaults, &call, false, 0);
    double done = clock_now();
    seconds[0] = forward - begin, seconds[1] = backward - forward, seconds[2] = done - backward;
    return result.loss / (double)w->label_count;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, ascending);
    return count % 2 == 1 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

/* Medians of forward, backward, update and their sum, in milliseconds. Returns the last loss. */
static double measure(struct worker *w, int steps, double medians[PARTS + 1]) {
    static double times[PARTS + 1][STEPS_MAX];
    double loss = 0, seconds[PARTS];
    for (int i = -WARMUP; i < steps; i++) {
        loss = train(w, i + WARMUP + 1, seconds);
        if (i < 0) continue;
        for (int p = 0; p < PARTS; p++) times[p][i] = 1e3 * seconds[p];
        times[PARTS][i] = times[0][i] + times[1][i] + times[2][i];
    }
    for (int p = 0; p <= PARTS; p++) medians[p] = median(times[p], steps);
    return loss;
}

static void measure_layers(struct device *device, const struct ps_model *model, int samples, int steps) {
    const struct graph *graph = model->graph;
    printf("%-24s %-16s %10s %10s %10s\n", "layer", "kind", "forward", "backward", "update");
    for (int l = 0; l < graph->layer_count; l++) {
        struct worker w = start(device, model, l, l, samples);
        double medians[PARTS + 1];
        measure(&w, steps, medians);
        printf("%-24s %-16s %10.3f %10.3f %10.3f\n", graph->layers[l].name, graph->layers[l].kind, medians[0], medians[1],
               medians[2]);
        end(&w);
    }
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
    struct ps_model *model;
    struct device *device;
    check(ps_model_create(spec, &model, &error), &error);
    check(device_open("cpu", &(struct device_options){.threads = threads}, &device, &error), &error);
    device->class->attach(device);
    if (argc > 5 && strcmp(argv[5], "layers") == 0) measure_layers(device, model, samples, steps);
    struct worker w = start(device, model, 0, model->graph->layer_count - 1, samples);
    double medians[PARTS + 1];
    double loss = measure(&w, steps, medians);
    printf("penstock %s batch %d threads %d: %.2f ms a step (forward %.2f, backward %.2f, update %.2f), %.1f samples/s, loss "
           "%.3f\n",
           spec, samples, threads, medians[PARTS], medians[0], medians[1], medians[2], 1e3 * samples / medians[PARTS], loss);
    end(&w);
    device_close(device);
    ps_model_destroy(model);
    return 0;
}
