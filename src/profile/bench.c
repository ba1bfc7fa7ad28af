/*
 * Running layers to measure their times; see bench.h. A round has passes of two kinds. A forward directly precedes each
 * backward, because in training, too, the values that a backward reads were written shortly before: a second backward on the
 * same values would find them in lower cache levels. An update runs over all parameters of the stage at once; each layer has
 * its share of that time.
 */
#include "profile/bench.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"

void bench_close(struct bench *bench) {
    stage_destroy(bench->stage);
    device_give(bench->device, &bench->memory);
    free(bench->target);
    free(bench->times);
    free(bench->pass);
    free(bench->left_out);
    bench->stage = NULL;
    bench->times = bench->pass = NULL;
    bench->target = NULL;
    bench->left_out = NULL;
}

double *bench_times(const struct bench *bench, int layer, enum timing timing) {
    return bench->times + ((size_t)layer * TIMINGS + (size_t)timing) * (size_t)bench->repeats;
}

static size_t target_count(const struct bench *bench) { return (size_t)bench->samples * (size_t)graph_labels(bench->graph); }

/* A block and its size. */
struct piece {
    void **block;
    int64_t bytes;
};
enum { PIECES = 16 };

static size_t list_pieces(struct bench *bench, const struct stage_sizes *sizes, struct piece pieces[PIECES]) {
    struct stage_blocks *blocks = &bench->blocks;
    const struct piece all[PIECES] = {
        {(void **)&blocks->weights, stage_copy_bytes(sizes)},
        {(void **)&bench->master, stage_master_bytes(sizes)},
        {(void **)&blocks->gradients, stage_gradient_bytes(sizes)},
        {(void **)&bench->moment, sizes->parameter_bytes},
        {(void **)&bench->predicted, sizes->parameter_bytes},
        {(void **)&blocks->statistics, stage_unchanged_bytes(sizes)},
        {&blocks->input, sizes->input_bytes},
        {&blocks->output, sizes->output_bytes},
        {&blocks->stash, sizes->stash_bytes},
        {&bench->other.input, sizes->input_bytes},
        {&bench->other.output, sizes->output_bytes},
        {&bench->other.stash, sizes->stash_bytes},
        {&blocks->delta, sizes->delta_bytes},
        {&blocks->input_gradient, sizes->input_bytes},
        {&blocks->output_gradient, sizes->output_bytes},
        {&blocks->workspace, sizes->workspace_bytes},
    };
    size_t total = 0;
    for (int p = 0; p < PIECES; p++) {
        pieces[p] = all[p];
        total += memory_align((size_t)all[p].bytes);
    }
    return total;
}

/* As many layers as fit, but at least one: the planner decides whether that can be trained. */
static int count_layers(struct bench *bench) {
    struct piece unused[PIECES];
    int count = bench->graph->layer_count - bench->first;
    for (; bench->memory_bytes > 0 && count > 1; count--) {
        struct stage_sizes sizes = stage_cost(bench->table, bench->first, bench->first + count - 1).size;
        if ((int64_t)list_pieces(bench, &sizes, unused) <= bench->memory_bytes) break;
    }
    return count;
}

static enum ps_status take_memory(struct bench *bench, struct ps_error *error) {
    struct stage_sizes sizes = stage_sizes(bench->stage);
    struct piece pieces[PIECES];
    size_t total = list_pieces(bench, &sizes, pieces), count = (size_t)bench->layer_count;
    TRY(device_take(bench->device, &bench->memory, total, "profiling", error));
    for (int p = 0; p < PIECES; p++) *pieces[p].block = memory_block_carve(&bench->memory, (size_t)pieces[p].bytes);
    if (stage_master_bytes(&sizes) == 0) bench->master = NULL;
    if (bench->first == 0) bench->blocks.input_gradient = NULL;
    if (bench->first + bench->layer_count == bench->graph->layer_count)
        bench->blocks.output = bench->other.output = bench->blocks.output_gradient = NULL;
    TRY(memory_new(&bench->times, count * TIMINGS * (size_t)bench->repeats, "profiling", error));
    TRY(memory_new(&bench->pass, count, "profiling", error));
    TRY(memory_new(&bench->left_out, bench->graph->layer_count, "profiling", error));
    return memory_new_bytes(&bench->target, target_count(bench) + 1, sizeof(int32_t), "profiling", error);
}

/* Random numbers for one of the network's inputs: tokens, or from -1 to 1. */
static void fill_input(const struct bench *bench, int input, struct random_key key, void *data) {
    const struct shape *shape = &bench->graph->nodes[input].shape;
    const int vocabulary = graph_input_tokens(bench->graph, input);
    uint64_t tokens = vocabulary > 0 ? (uint64_t)vocabulary : 2, count = (uint64_t)(bench->samples * shape_elements(shape));
    int32_t *numbers = data;
    float *values = data;
    for (uint64_t i = 0; i < count; i++) {
        if (shape->type == TYPE_I32)
            numbers[i] = (int32_t)random_below(key, i, tokens);
        else
            values[i] = 2 * random_uniform(key, i) - 1;
    }
}

static void fill_data(const struct bench *bench, struct random_key key, char *data) {
    for (int i = 0; i < bench->graph->input_count; i++) {
        fill_input(bench, i, key, data);
        data += memory_align((size_t)(bench->samples * graph_value_bytes(bench->graph, i)));
    }
}

/* Random labels, or numbers from 0 to 1; `first` keeps their random numbers apart from the data's. */
static void fill_target(const struct bench *bench, struct random_key key, uint64_t first) {
    const struct node *end = &bench->graph->nodes[bench->graph->node_count - 1];
    const bool labels = graph_target(bench->graph).type == TYPE_I32;
    int32_t *label = bench->target;
    float *number = bench->target;
    for (size_t n = 0; n < target_count(bench); n++) {
        if (labels)
            label[n] = (int32_t)random_below(key, first + n, (uint64_t)end->shape.dim[0]);
        else
            number[n] = random_uniform(key, first + n);
    }
}

enum ps_status bench_open(struct bench *bench, struct ps_error *error) {
    assert(bench->first < bench->graph->layer_count && bench->repeats > 0);
    bench->layer_count = count_layers(bench);
    TRY(stage_create(bench->device, bench->graph, bench->first, bench->first + bench->layer_count - 1, bench->samples,
                     &bench->stage, error));
    TRY(take_memory(bench, error));
    /* const for the functions that run the stage */
    TRY(stage_initialize(bench->stage, 0, bench->master, (void *)bench->blocks.weights, bench->blocks.statistics, error));
    struct random_key key = random_key(0, RANDOM_SYNTHETIC, 0, 0);
    size_t bytes = (size_t)stage_sizes(bench->stage).input_bytes;
    void *input = device_in_host(bench->device) ? bench->blocks.input : calloc(bytes + 1, 1);
    if (!input) return error_memory(error, "profiling", bytes);
    if (bench->input)
        memcpy(input, bench->input, bytes);
    else
        fill_data(bench, key, input);
    if (input != bench->blocks.input) {
        device_copy(bench->device, bench->blocks.input, input, bytes);
        free(input);
    }
    device_copy(bench->device, bench->other.input, bench->blocks.input, bytes);
    fill_target(bench, key, bytes);
    return PS_OK;
}

/* ------------------------------------------------------------------------ passes */

/* The current time, after all work on the device has finished. */
static double now(const struct bench *bench) {
    device_finish(bench->device);
    return clock_now();
}

/* Called at the end of an operator of the layer. */
static void lap(void *context, int layer) {
    struct bench *bench = context;
    double time = now(bench);
    bench->pass[layer - bench->first] += time - bench->since;
    bench->since = time;
}

static void start_pass(struct bench *bench) {
    memset(bench->pass, 0, (size_t)bench->layer_count * sizeof *bench->pass);
    bench->since = clock_now();
}

static void keep_pass(struct bench *bench, enum timing timing, int slot) {
    for (int l = 0; l < bench->layer_count && slot >= 0; l++) bench_times(bench, l, timing)[slot] = bench->pass[l];
}

static struct stage_step step_of(struct bench *bench, int round) {
    return (struct stage_step){.step = (uint64_t)round,
                               .target = bench->target,
                               .gradient_scale = 1.0f / (float)target_count(bench),
                               .training = true,
                               .update_statistics = true,
                               .between = lap,
                               .between_context = bench};
}

static void change_micro_batch(struct bench *bench) {
    struct bench_values values = {bench->blocks.input, bench->blocks.output, bench->blocks.stash};
    bench->blocks.input = bench->other.input;
    bench->blocks.output = bench->other.output;
    bench->blocks.stash = bench->other.stash;
    bench->other = values;
}

/* On the micro-batch that was not used last. */
static enum ps_status run_forward(struct bench *bench, const struct stage_step *step, int slot, struct ps_error *error) {
    change_micro_batch(bench);
    start_pass(bench);
    TRY(stage_forward(bench->stage, &bench->blocks, step, &bench->result, error));
    keep_pass(bench, TIME_FORWARD, slot);
    return PS_OK;
}

static enum ps_status run_backward(struct bench *bench, const struct stage_step *step, enum stage_half half, enum timing timing,
                                   int slot, struct ps_error *error) {
    start_pass(bench);
    TRY(stage_backward(bench->stage, &bench->blocks, step, half, error));
    keep_pass(bench, timing, slot);
    return PS_OK;
}

/* Divides the time of one pass over all parameters by their bytes. */
static void divide_by_bytes(struct bench *bench, double seconds) {
    double each = seconds / (double)stage_sizes(bench->stage).parameter_bytes;
    for (int l = 0; l < bench->layer_count; l++)
        bench->pass[l] = each * (double)bench->table->layers[bench->first + l].size.parameter_bytes;
}

static void keep_by_bytes(struct bench *bench, double seconds, enum timing timing, int slot) {
    divide_by_bytes(bench, seconds);
    keep_pass(bench, timing, slot);
}

/* With a learning rate of 0: the work of an update, but the weights stay finite however often it runs. A master is updated in
 * place, and copies are written of it. */
static void run_update(struct bench *bench, int64_t step, enum timing timing, int slot) {
    const struct stage_sizes sizes = stage_sizes(bench->stage);
    const size_t count = (size_t)sizes.parameter_bytes / sizeof(float);
    if (count == 0) return;
    float *weights = (float *)bench->blocks.weights, *other = bench->predicted;
    struct optimizer_call call = {.count = count - (size_t)sizes.narrow_bytes / sizeof(float),
                                  .weights = bench->master ? bench->master : weights,
                                  .updated = bench->master                        ? bench->master
                                             : timing == TIME_UPDATE_OUT_OF_PLACE ? other
                                                                                  : weights,
                                  .gradient = bench->blocks.gradients,
                                  .moment = {bench->moment},
                                  .predicted = timing == TIME_UPDATE || timing == TIME_UPDATE_OUT_OF_PLACE ? NULL : other,
                                  .copy = !bench->master                       ? NULL
                                          : timing == TIME_UPDATE_OUT_OF_PLACE ? other
                                                                               : weights,
                                  .step = step};
    struct optimizer_call narrow = optimizer_part(&call, call.count, count - call.count);
    narrow.type = TYPE_BF16;
    double start = clock_now();
    bench->device->type->update(bench->device, bench->rule, &bench->rule->defaults, &call, timing == TIME_PREDICT, 0);
    if (bench->master)
        bench->device->type->update(bench->device, bench->rule, &bench->rule->defaults, &narrow, timing == TIME_PREDICT, 0);
    keep_by_bytes(bench, now(bench) - start, timing, slot);
}

/* Piece by piece, as replicas do (comm/transports/gradient_sum.c). The block of predicted weights is used as the other
 * replica's gradients. Each replica sums its share for all: here for two. */
static void run_sum(struct bench *bench, int slot) {
    enum { PIECE = 2048 };
    size_t count = (size_t)stage_sizes(bench->stage).parameter_bytes / sizeof(float);
    size_t piece = device_in_host(bench->device) ? PIECE : count;
    if (count == 0) return;
    double start = clock_now();
    for (size_t at = 0; at < count; at += piece) {
        size_t length = count - at < piece ? count - at : piece;
        device_add(bench->device, TYPE_F32, length, bench->blocks.gradients + at, bench->predicted + at);
        device_copy(bench->device, bench->predicted + at, bench->blocks.gradients + at, length * sizeof(float));
    }
    keep_by_bytes(bench, now(bench) - start, TIME_SUM, slot);
}

enum ps_status bench_forward(struct bench *bench, int layers, struct ps_error *error) {
    struct stage_step step = step_of(bench, 0);
    for (int l = 0; l < bench->layer_count; l++) bench->left_out[bench->first + l] = l >= layers;
    return stage_forward_again(bench->stage, &bench->blocks, &step, bench->left_out, NULL, error);
}

/* A backward that adds to gradients: measured as one, or in quick rounds as the last backward and the pass over the gradients
 * that is more. */
static enum ps_status run_adding(struct bench *bench, const struct stage_step *step, int slot, struct ps_error *error) {
    const size_t count = (size_t)stage_sizes(bench->stage).parameter_bytes / sizeof(float);
    struct stage_step adding = *step;
    adding.accumulate = true;
    if (!bench->quick) {
        TRY(run_forward(bench, step, -1, error));
        return run_backward(bench, &adding, STAGE_BOTH, TIME_ADDING, slot, error);
    }
    if (count == 0 || slot < 0) return PS_OK;
    const double start = clock_now();
    device_add(bench->device, TYPE_F32, count, bench->predicted, bench->blocks.gradients);
    divide_by_bytes(bench, now(bench) - start);
    for (int l = 0; l < bench->layer_count; l++) bench->pass[l] += bench_times(bench, l, TIME_BACKWARD)[slot];
    keep_pass(bench, TIME_ADDING, slot);
    return PS_OK;
}

enum ps_status bench_warm(struct bench *bench, struct ps_error *error) {
    const struct stage_step step = step_of(bench, 0);
    TRY(run_forward(bench, &step, -1, error));
    return run_backward(bench, &step, STAGE_BOTH, TIME_BACKWARD, -1, error);
}

enum ps_status bench_round(struct bench *bench, int round, int slot, struct ps_error *error) {
    struct stage_step step = step_of(bench, round);
    TRY(run_forward(bench, &step, slot, error));
    TRY(run_backward(bench, &step, STAGE_BOTH, TIME_BACKWARD, slot, error));
    TRY(run_adding(bench, &step, slot, error));
    run_update(bench, round + 1, TIME_UPDATE, slot);
    run_update(bench, round + 1, TIME_UPDATE_PREDICT, slot);
    run_update(bench, round + 1, TIME_PREDICT, slot);
    run_update(bench, round + 1, TIME_UPDATE_OUT_OF_PLACE, slot);
    run_sum(bench, slot);
    TRY(run_forward(bench, &step, -1, error));
    TRY(run_backward(bench, &step, STAGE_INPUT_SPLIT, TIME_INPUT_HALF, slot, error));
    return run_backward(bench, &step, STAGE_WEIGHTS_SPLIT, TIME_WEIGHTS_HALF, slot, error);
}
