/*
 * How fast one worker trains: forward, backward and update (SGD with momentum) of a whole network on one device, through the
 * same stage that a pipeline runs. pytorch/single_worker.py measures the same in PyTorch; pytorch.sh puts both side by side.
 *
 *     single_worker [MODEL [BATCH [THREADS [STEPS [layers]]]]]
 *
 * prints the median of a step and of its parts in milliseconds; with `layers` also forward and backward of each layer alone.
 * With PROCESSOR_TIME set they are of the processor's time, of all threads together, which other programs hardly change.
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

static void measure_layers(struct device *device, const struct ps_network *model, int samples, int steps) {
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
    struct ps_network *model;
    struct device *device;
    check(ps_network_open(spec, &model, &error), &error);
    check(device_open("cpu", &(struct device_options){.threads = threads}, &device, &error), &error);
    device->type->attach(device);
    if (argc > 5 && strcmp(argv[5], "layers") == 0) measure_layers(device, model, samples, steps);
    struct worker w = start(device, model, 0, model->graph->layer_count - 1, samples);
    double medians[PARTS + 1];
    double loss = measure(&w, steps, medians);
    printf("penstock %s batch %d threads %d: %.2f ms a step (forward %.2f, backward %.2f, update %.2f), %.1f samples/s, loss "
           "%.3f\n",
           spec, samples, threads, medians[PARTS], medians[0], medians[1], medians[2], 1e3 * samples / medians[PARTS], loss);
    end(&w);
    device_close(device);
    ps_network_destroy(model);
    return 0;
}
