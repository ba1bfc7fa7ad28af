/*
 * What a caller asks of a trainer between two steps: how good its newest weights are on data of his choice, and what they are.
 * The executor is at rest then, and what runs here runs in the memory that training has.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/versioned.h"
#include "compute/figures.h"
#include "data/object.h"
#include "train/trainer_share.h"

/* -------------------------------------------------------------------- evaluation */

/* Other data than the run's own in the workers' hands, and theirs meanwhile. */
struct swapped {
    struct worker_data inputs, targets;
};

static enum ps_status swap_data(struct ps_trainer *trainer, const struct samples *samples, struct swapped *own,
                                struct ps_error *error) {
    const struct ps_programs *programs = trainer->programs.entries[0].programs;
    struct executor *executor = trainer->executor;
    for (int number = executor->first_here; number < executor->end_here; number++) {
        struct worker *worker = &executor->workers[number];
        own[number] = (struct swapped){worker->inputs[WORKER_DATA_VALID], worker->targets[WORKER_DATA_VALID]};
        worker->inputs[WORKER_DATA_VALID] = worker->targets[WORKER_DATA_VALID] = (struct worker_data){.number = -1};
    }
    for (int i = 0; i < programs->instance_count; i++) {
        const struct instance *instance = &programs->instances[i];
        if (!executor_has(executor, instance->worker) || !instance->forward) continue;
        for (int inputs = 0; inputs < 2; inputs++)
            if (trainer_reads(trainer, instance, inputs))
                TRY(trainer_give_loader(trainer, samples, instance, WORKER_DATA_VALID, inputs, error));
    }
    return PS_OK;
}

static void swap_back(struct ps_trainer *trainer, const struct swapped *own) {
    struct executor *executor = trainer->executor;
    for (int number = executor->first_here; number < executor->end_here; number++) {
        struct worker *worker = &executor->workers[number];
        loader_destroy(worker->inputs[WORKER_DATA_VALID].loader);
        loader_destroy(worker->targets[WORKER_DATA_VALID].loader);
        worker->inputs[WORKER_DATA_VALID] = own[number].inputs;
        worker->targets[WORKER_DATA_VALID] = own[number].targets;
    }
}

static enum ps_status run_on(struct ps_trainer *trainer, const struct samples *samples, struct stage_result *sum,
                             struct ps_error *error) {
    size_t workers = (size_t)trainer->executor->worker_count;
    struct swapped *own;
    TRY(memory_new(&own, workers, "an evaluation", error));
    enum ps_status status = swap_data(trainer, samples, own, error);
    if (status == PS_OK) status = trainer_run_evaluation(trainer, trainer->other_evaluation, sum, error);
    /* A worker that did not stop may still read. */
    if (!trainer->executor->abandoned) swap_back(trainer, own);
    free(own);
    return status;
}

/* The programs of an evaluation of so many samples; they stay until the next, for whoever asks what was at work. */
static enum ps_status lower_other(struct ps_trainer *trainer, int64_t samples, struct ps_error *error) {
    int64_t micro_batches = (samples + trainer->job.samples - 1) / trainer->job.samples;
    struct ps_programs *programs;
    if (micro_batches > 1 << 24)
        return error_set(error, PS_USAGE, "data: %lld micro-batches are too many to evaluate", (long long)micro_batches);
    TRY(lower_evaluation(trainer->programs.entries[0].programs, (int)micro_batches, &programs, error));
    enum ps_status status = program_set_check_fit(&trainer->programs, programs, error);
    if (status != PS_OK) {
        ps_programs_destroy(programs);
        return status;
    }
    ps_programs_destroy(trainer->other_evaluation);
    trainer->other_evaluation = programs;
    return PS_OK;
}

/* Opens the data where they are read; *count is what rank 0 finds, everywhere. */
static enum ps_status open_other(const struct ps_trainer *trainer, const struct ps_dataset *data, struct samples *samples,
                                 int64_t *count, struct ps_error *error) {
    struct dataset_shape wanted = dataset_shape_of(trainer->job.network);
    if (trainer_coordinates(trainer) || trainer_reads_here(trainer)) {
        if (trainer->data.dataset) memcpy(wanted.words, trainer->data.dataset->shape.words, sizeof wanted.words);
        TRY(dataset_use(data, DATASET_TEST, &wanted, samples, error));
    }
    *count = samples->count;
    if (trainer->processes->count == 1) return PS_OK;
    void *word = count;
    size_t size = sizeof *count;
    TRY(processes_broadcast(trainer->processes, &word, &size, error));
    memcpy(count, word, sizeof *count);
    if (word != count) free(word);
    if (samples->dataset && samples->count != *count)
        return error_set(error, PS_BAD_INPUT, "data: %s has %lld samples here and %lld at rank 0", data->name,
                         (long long)samples->count, (long long)*count);
    return PS_OK;
}

static struct ps_evaluation evaluation_of(const struct ps_trainer *trainer, const struct stage_result *sum, int64_t samples) {
    const struct stage_result none = {0};
    const struct figures figures = figures_of(trainer->job.network, trainer_coordinates(trainer) ? sum : &none);
    return (struct ps_evaluation){.loss = figures.loss,
                                  .accuracy = figures.accuracy,
                                  .perplexity = figures.perplexity,
                                  .bleu = NAN,
                                  .samples = samples,
                                  .top5 = figures.top5};
}

static enum ps_status evaluate_on(struct ps_trainer *trainer, const struct ps_dataset *data, struct ps_evaluation *evaluation,
                                  struct ps_error *error) {
    struct samples samples = {0};
    struct stage_result sum;
    int64_t count = 0;
    enum ps_status status = open_other(trainer, data, &samples, &count, error);
    if (status == PS_OK) status = lower_other(trainer, count, error);
    if (status == PS_OK) status = run_on(trainer, &samples, &sum, error);
    if (status == PS_OK) *evaluation = evaluation_of(trainer, &sum, count);
    if (!trainer->executor->abandoned) samples_close(&samples);
    return status;
}

enum ps_status trainer_evaluate(struct ps_trainer *trainer, const struct ps_dataset *data, struct ps_evaluation *evaluation,
                                bool *fatal, struct ps_error *error) {
    struct stage_result sum;
    *fatal = false;
    if (!trainer->job.device->real)
        return error_set(error, PS_USAGE, "device: %s computes no numbers", trainer->job.device->name);
    if (!data && trainer->valid.count == 0)
        return error_set(error, PS_USAGE, "data: there is none, and the training has no `valid` either");
    /* Processes that do not come to the same end would wait for each other. */
    *fatal = trainer->processes->count > 1;
    if (data && data != trainer->options.valid) {
        int before = trainer->executor->segment_number;
        enum ps_status status = evaluate_on(trainer, data, evaluation, error);
        *fatal = *fatal || trainer->executor->segment_number != before;
        return status;
    }
    *fatal = true;
    TRY(trainer_run_evaluation(trainer, trainer->programs.evaluation, &sum, error));
    *evaluation = evaluation_of(trainer, &sum, trainer->valid.count);
    return PS_OK;
}

/* -------------------------------------------------------------------- parameters */

int trainer_parameter_count(const struct ps_trainer *trainer) {
    const struct graph *graph = trainer->job.graph;
    int count = 0;
    for (int p = 0; trainer->job.device->real && p < graph->parameter_count; p++) count += !graph->parameters[p].tied;
    return count;
}

static struct ps_parameter make_trainer_parameter(const struct ps_trainer *trainer, int number) {
    const struct parameter *parameter = trainer->job.graph->parameters;
    for (; parameter->tied || number > 0; parameter++) number -= !parameter->tied;
    struct ps_parameter info = {
        .name = parameter->name, .rank = parameter->shape.rank, .statistic = parameter->role == PARAMETER_STATISTIC};
    memcpy(info.shape, parameter->shape.dim, sizeof info.shape);
    return info;
}

void ps_trainer_parameter_get(const struct ps_trainer *trainer, int number, struct ps_parameter *result, size_t size) {
    const struct ps_parameter own = make_trainer_parameter(trainer, number);
    VERSIONED_GIVE(own, result, size);
}

static const struct parameter *find_parameter(const struct graph *graph, const char *name) {
    for (int p = 0; p < graph->parameter_count; p++)
        if (strcmp(graph->parameters[p].name, name) == 0) return &graph->parameters[p];
    return NULL;
}

/* The worker that runs the forwards of the stage that has it. */
static int owner_of(const struct ps_trainer *trainer, const struct parameter *parameter) {
    const struct graph *graph = trainer->job.graph;
    int place = (int)(parameter - graph->parameters), layer = 0, stage = 0;
    for (int n = 0; n < graph->node_count; n++) {
        const struct node *node = &graph->nodes[n];
        if (place >= node->parameter_first && place < node->parameter_first + node->parameter_count) layer = node->layer;
    }
    while (trainer->job.plan->stages[stage].last < layer) stage++;
    return trainer->job.plan->stages[stage].forward[0];
}

static enum ps_status export_parameter(const struct worker *worker, const char *name, float *values, struct ps_error *error) {
    for (int s = 0; s < worker->stage_count; s++) {
        const struct worker_stage *stage = &worker->stages[s];
        for (int i = 0; stage->forward && i < stage_parameter_count(stage->stage); i++)
            if (strcmp(stage_parameter(stage->stage, i)->name, name) == 0)
                return stage_export(stage->stage, i, stage->weights[0], stage->statistics, values, error);
    }
    return error_set(error, PS_FAILED, "worker %d does not have %s", worker->number, name);
}

/* From its owner to rank 0. */
static enum ps_status hand_in(const struct ps_trainer *trainer, int owner, const char *name, float *values, size_t bytes,
                              struct ps_error *error) {
    struct processes *processes = trainer->processes;
    if (processes->rank != 0 && processes->rank != owner) return PS_OK;
    float *own = processes->rank == owner ? malloc(bytes) : NULL;
    if (processes->rank == owner && !own) return error_memory(error, "a parameter", bytes);
    enum ps_status status = own ? export_parameter(&trainer->executor->workers[owner], name, own, error) : PS_OK;
    void *data = own;
    size_t size = bytes;
    if (status == PS_OK) status = processes_hand_in(processes, owner, &data, &size, error);
    if (status == PS_OK && processes->rank == 0) memcpy(values, data, bytes);
    free(data);
    return status;
}

enum ps_status trainer_read_parameter(struct ps_trainer *trainer, const char *name, float *values, size_t count,
                                      struct ps_error *error) {
    if (trainer_parameter_count(trainer) == 0)
        return error_set(error, PS_USAGE, "name: the network has no parameters on device %s", trainer->job.device->name);
    const struct parameter *parameter = find_parameter(trainer->job.graph, name);
    if (!parameter) return error_set(error, PS_USAGE, "name: the network has no parameter '%s'", name);
    size_t elements = (size_t)shape_elements(&parameter->shape);
    if (count != elements) return error_set(error, PS_USAGE, "count: %s has %zu elements, not %zu", name, elements, count);
    int owner = owner_of(trainer, parameter);
    if (trainer->processes->count > 1 && owner > 0) return hand_in(trainer, owner, name, values, count * sizeof *values, error);
    return executor_has(trainer->executor, owner) ? export_parameter(&trainer->executor->workers[owner], name, values, error)
                                                  : PS_OK;
}
