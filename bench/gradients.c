/*
 * One training step (forward and backward, no update) of a whole network on the cpu device, and all that another program needs
 * to compute the same: gradients.py does, in PyTorch; gradients.sh runs both.
 *
 *     gradients MODEL SAMPLES DATA OUT [THREADS]
 *
 * DATA is a data specification as of `penstock train`, of which a first mini-batch is taken as training takes it, or `noise`.
 * OUT becomes a safetensors file of
 *
 *     data, labels, loss     N, H, W, C (tokens: N, T); one label a row, -1: not counted; the mean over those that count
 *     probabilities          of the classes, a row a label
 *     weight.NAME            the parameter as it starts, in PyTorch's order; in precision bf16 the master
 *     gradient.NAME          what the step made of it
 *     value.NUMBER           what the ReLUs give, in the order in which they run (N, H, W, C): their signs and the pools'
 * winners
 */
#include <string.h>

#include "base/safetensors.h"
#include "compute/stage_plan.h"
#include "data/loader.h"
#include "worker.h"

/* Of run/job.h, which cannot stand beside stage_plan.h: each has an `action` of its own. */
struct dataset_shape dataset_shape_of(const struct ps_network *model);

/* Tensors to be written, with memory of their own. */
struct tensors {
    struct safetensor_source *sources;
    int count;
};

static void *take(size_t bytes) {
    struct ps_error error = {0};
    void *memory = malloc(bytes > 0 ? bytes : 1);
    if (memory == NULL) check(error_memory(&error, "tensors", bytes), &error);
    return memory;
}

static float *add_tensor(struct tensors *tensors, const char *kind, const char *name, int rank, const int64_t *shape) {
    size_t length = strlen(kind) + strlen(name) + 1, count = 1;
    char *full = take(length);
    snprintf(full, length, "%s%s", kind, name);
    int64_t *own = take((size_t)rank * sizeof *own);
    for (int d = 0; d < rank; d++) count *= (size_t)(own[d] = shape[d]);
    float *values = take(count * sizeof *values);
    tensors->sources[tensors->count++] = (struct safetensor_source){full, own, rank, values, ARRAY_F32};
    return values;
}

static void free_tensors(struct tensors *tensors) {
    for (int i = 0; i < tensors->count; i++) {
        free((void *)tensors->sources[i].name);
        free((void *)tensors->sources[i].shape);
        free((void *)tensors->sources[i].values);
    }
    free(tensors->sources);
}

/* The first mini-batch of the specification, into the worker's input and labels. */
static void read_batch(struct worker *w, const struct ps_network *model, const char *spec) {
    struct ps_error error = {0};
    struct dataset_shape wanted = dataset_shape_of(model);
    struct samples samples;
    check(samples_open(spec, DATASET_TRAIN, &wanted, &samples, &error), &error);
    struct loader_options options = {
        .samples = &samples, .batch = w->samples, .inputs = true, .targets = true, .shuffle = true, .ahead = 1, .serial = true};
    struct loader *loader;
    struct loaded_batch batch;
    check(loader_create(&options, &loader, &error), &error);
    check(loader_get(loader, 0, &batch, &error), &error);
    int64_t elements = w->samples * shape_elements(&model->graph->nodes[0].shape);
    memcpy(w->blocks.input, batch.inputs, (size_t)elements * sizeof(float));
    memcpy(w->labels, batch.targets, (size_t)w->label_count * sizeof *w->labels);
    loader_destroy(loader);
    samples_close(&samples);
}

static void keep_data(struct tensors *tensors, const struct worker *w, const struct shape *shape) {
    int64_t sizes[] = {w->samples, shape->dim[1], shape->dim[2], shape->dim[0]};
    bool tokens = shape->dim[0] == 1 && shape->dim[2] == 1;
    float *data = add_tensor(tensors, "data", "", tokens ? 2 : 4, sizes);
    const int32_t *numbers = w->blocks.input;
    const float *values = w->blocks.input;
    for (int64_t i = 0; i < w->samples * shape_elements(shape); i++)
        data[i] = shape->type == TYPE_I32 ? (float)numbers[i] : values[i];
    float *labels = add_tensor(tensors, "labels", "", 2, (int64_t[]){w->samples, w->label_count / w->samples});
    for (int64_t i = 0; i < w->label_count; i++) labels[i] = (float)w->labels[i];
}

static void keep_parameters(struct tensors *tensors, const struct worker *w, const char *kind, const float *block) {
    struct ps_error error = {0};
    for (int p = 0; p < stage_parameter_count(w->stage); p++) {
        const struct parameter *parameter = stage_parameter(w->stage, p);
        if (parameter->role == PARAMETER_STATISTIC) continue;
        float *values = add_tensor(tensors, kind, parameter->name, parameter->shape.rank, parameter->shape.dim);
        check(stage_export_f32(w->stage, p, block, w->blocks.statistics, values, &error), &error);
    }
}

static void keep_probabilities(struct tensors *tensors, const struct worker *w, int classes) {
    float *values = add_tensor(tensors, "probabilities", "", 2, (int64_t[]){w->label_count, classes});
    memcpy(values, stage_probabilities(w->stage, &w->blocks), (size_t)(w->label_count * classes) * sizeof *values);
}

static void keep_relus(struct tensors *tensors, const struct worker *w) {
    const struct stage *stage = w->stage;
    for (int i = 0, number = 0; i < stage->node_count; i++) {
        const struct stage_node *at = &stage->nodes[i];
        if (at->node->id != OPERATOR_RELU || at->output.block != BUFFER_STASH) continue;
        const struct shape *shape = &at->node->shape;
        int64_t sizes[4] = {w->samples, shape->dim[1], shape->dim[2], shape->dim[0]};
        if (shape->rank == 1) sizes[1] = shape->dim[0];
        char name[16];
        snprintf(name, sizeof name, "%d", number++);
        float *values = add_tensor(tensors, "value.", name, shape->rank + 1, sizes);
        const char *place = (const char *)w->blocks.stash + at->output.offset;
        numbers_convert((size_t)(w->samples * shape_elements(shape)), TYPE_F32, values, shape->type, place);
    }
}

/* Forward and backward; returns the mean loss. */
static double step(struct worker *w) {
    struct ps_error error = {0};
    int64_t counted = 0;
    for (int64_t i = 0; i < w->label_count; i++) counted += w->labels[i] >= 0;
    struct stage_step step = {.step = 1, .target = w->labels, .gradient_scale = 1.0f / (float)counted, .training = true};
    struct stage_result result;
    check(stage_forward(w->stage, &w->blocks, &step, &result, &error), &error);
    check(stage_backward(w->stage, &w->blocks, &step, STAGE_BOTH, &error), &error);
    return result.loss / (double)counted;
}

int main(int argc, char **argv) {
    int samples = argc > 4 ? atoi(argv[2]) : 0, threads = argc > 5 ? atoi(argv[5]) : 1;
    if (samples < 1 || threads < 1) {
        fprintf(stderr, "gradients: MODEL SAMPLES DATA OUT [THREADS] are needed\n");
        return PS_USAGE;
    }
    struct ps_error error = {0};
    struct ps_network *model;
    struct device *device;
    check(ps_network_open(argv[1], &model, &error), &error);
    check(device_open("cpu", &(struct device_options){.threads = threads}, &device, &error), &error);
    struct worker w = start(device, model, 0, model->graph->layer_count - 1, samples);
    if (strcmp(argv[3], "noise") != 0) read_batch(&w, model, argv[3]);
    int most = 4 + 2 * stage_parameter_count(w.stage) + w.stage->node_count;
    struct tensors tensors = {.sources = take((size_t)most * sizeof *tensors.sources)};
    keep_data(&tensors, &w, &model->graph->nodes[0].shape);
    float *master = w.momentum; /* which nothing else needs; in precision bf16 the weights are its rounding */
    check(stage_initialize(w.stage, 0, master, w.weights, w.blocks.statistics, &error), &error);
    keep_parameters(&tensors, &w, "weight.", master);
    *add_tensor(&tensors, "loss", "", 1, (int64_t[]){1}) = (float)step(&w);
    keep_probabilities(&tensors, &w, model->classes);
    keep_parameters(&tensors, &w, "gradient.", w.gradients);
    keep_relus(&tensors, &w);
    check(safetensors_write(argv[4], tensors.sources, tensors.count, NULL, &error), &error);
    free_tensors(&tensors);
    end(&w);
    device_close(device);
    ps_network_destroy(model);
    return 0;
}
