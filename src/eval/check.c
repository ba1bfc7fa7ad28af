/*
 * Holding a network's outputs, loss and gradients against those of another implementation (an .npz file), or a device against
 * `reference`: one step of training on one micro-batch, in one process, whole or cut into stages.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/text.h"
#include "base/versioned.h"
#include "compute/stage.h"
#include "data/npz.h"
#include "graph/network.h"
#include "graph/operators.h"
#include "graph/split.h"

enum { SAMPLES_DEFAULT = 2, STAGES_MAX = 1024 };
#define TOLERANCE_DEFAULT 1e-4

/* One comparison. */
struct entry {
    const char *name;
    double error; /* NaN: the reference does not have it */
    bool absent;  /* the network does not have it: its gradient counts as 0 */
};

struct ps_check {
    struct arena arena;
    double tolerance, loss_error, output_error, worst, loss;
    struct entry *gradients, *statistics;
    int gradient_count, statistic_count;
    const char *worst_name, *device, *against; /* against: a file, or the other device */
};

/* What a step computes; arrays are the arena's. Parameters lie one after the other in the graph's order and canonical order:
 * gradients of trained ones, new values of statistics. */
struct answer {
    double loss;
    float *output, *parameters;
};

/* A micro-batch in memory order, all inputs of a sample one after the other. */
struct batch {
    int samples;
    char *inputs;
    void *target;
    double weight; /* of what counts */
};

/* One stage and its blocks. */
struct part {
    struct stage *stage;
    struct stage_blocks blocks;
};

struct run {
    struct device *device;
    const struct graph *graph;
    struct part *parts;
    int count;
    struct memory_block memory;
};

/* ----------------------------------------------------------------- running */

/* Every block of the stages; those between two stages are of the first of them. With `memory` unset only counts. */
static size_t carve(struct run *run, bool real) {
    size_t total = 0;
    for (int s = 0; s < run->count; s++) {
        struct stage_blocks *blocks = &run->parts[s].blocks;
        const struct stage_sizes sizes = stage_sizes(run->parts[s].stage);
        void *places[8];
        const int64_t bytes[8] = {stage_copy_bytes(&sizes),
                                  stage_gradient_bytes(&sizes),
                                  stage_unchanged_bytes(&sizes),
                                  sizes.stash_bytes,
                                  sizes.workspace_bytes,
                                  s > 0 ? 0 : sizes.input_bytes,
                                  sizes.output_bytes,
                                  sizes.output_bytes};
        for (int p = 0; p < 8; p++) {
            total += memory_align((size_t)bytes[p]);
            if (real) places[p] = memory_block_carve(&run->memory, (size_t)bytes[p]);
        }
        if (!real) continue;
        *blocks = (struct stage_blocks){.weights = places[0],
                                        .gradients = places[1],
                                        .statistics = places[2],
                                        .stash = places[3],
                                        .workspace = places[4],
                                        .input = places[5],
                                        .output = places[6],
                                        .output_gradient = places[7]};
        if (s > 0) {
            const struct stage_blocks *before = &run->parts[s - 1].blocks;
            blocks->input = before->output;
            blocks->input_gradient = before->output_gradient;
        }
    }
    return total;
}

static void run_close(struct run *run) {
    for (int s = 0; run->parts && s < run->count; s++) stage_destroy(run->parts[s].stage);
    free(run->parts);
    if (run->device) device_give(run->device, &run->memory);
    if (run->device) device_close(run->device);
}

static enum ps_status run_open(const struct ps_network *network, const char *device, int threads, int stages, int samples,
                               struct run *run, struct ps_error *error) {
    const struct graph *graph = run->graph = network->graph;
    struct device_options options = {.threads = threads};
    if (stages > graph->layer_count)
        return error_set(error, PS_USAGE, "`workers`: %d; %s has %d layers", stages, network->name, graph->layer_count);
    TRY(device_open(device, &options, &run->device, error));
    TRY(device_check_real(run->device->type, error));
    TRY(memory_new(&run->parts, stages, "stages", error));
    for (; run->count < stages; run->count++) {
        const int first = graph->layer_count * run->count / stages, last = graph->layer_count * (run->count + 1) / stages - 1;
        TRY(stage_create(run->device, graph, first, last, samples, &run->parts[run->count].stage, error));
    }
    TRY(device_take(run->device, &run->memory, carve(run, false), "a check", error));
    carve(run, true);
    for (int s = 0; s < stages; s++) {
        struct stage_blocks *blocks = &run->parts[s].blocks;
        TRY(stage_initialize(run->parts[s].stage, 0, NULL, (void *)blocks->weights, blocks->statistics, error));
    }
    return PS_OK;
}

/* The output is copied before the backward, which overwrites it. */
static enum ps_status run_step(struct run *run, const struct batch *batch, struct answer *answer, struct ps_error *error) {
    const size_t bytes = (size_t)stage_sizes(run->parts[0].stage).input_bytes;
    char *input;
    TRY(memory_new(&input, bytes, "inputs", error));
    stage_pack_inputs(run->parts[0].stage, batch->inputs, input);
    device_copy(run->device, run->parts[0].blocks.input, input, bytes);
    struct stage_step step = {
        .target = batch->target, .gradient_scale = (float)(1 / batch->weight), .training = true, .update_statistics = true};
    struct stage_result result = {0};
    enum ps_status status = PS_OK;
    for (int s = 0; status == PS_OK && s < run->count; s++)
        status = stage_forward(run->parts[s].stage, &run->parts[s].blocks, &step, &result, error);
    const struct part *last = &run->parts[run->count - 1];
    if (status == PS_OK) stage_take_output(last->stage, &last->blocks, answer->output);
    for (int s = run->count - 1; status == PS_OK && s >= 0; s--)
        status = stage_backward(run->parts[s].stage, &run->parts[s].blocks, &step, STAGE_BOTH, error);
    device_finish(run->device);
    if (status == PS_OK) status = device_check(run->device, error);
    free(input);
    answer->loss = result.loss / batch->weight;
    return status;
}

static int64_t parameter_elements(const struct graph *graph, int count) {
    int64_t elements = 0;
    for (int p = 0; p < count; p++) elements += shape_elements(&graph->parameters[p].shape);
    return elements;
}

/* Where the parameter of that name stands, at its first use. */
static float *place_of(const struct graph *graph, const char *name, float *values) {
    int p = 0;
    while (graph->parameters[p].tied || strcmp(graph->parameters[p].name, name) != 0) p++;
    return values + parameter_elements(graph, p);
}

/* Adds up the gradients of all uses of the parameters that several nodes share, in the order of the nodes. */
static enum ps_status add_uses(struct run *run, const struct part *part, float *values, struct ps_error *error) {
    struct arena arena = {0};
    struct stage_tie *ties;
    int count = 0;
    TRY(stage_ties(part->stage, &arena, &ties, &count, error));
    for (int t = 0; t < count; t++) {
        float *place = place_of(run->graph, ties[t].parameter->name, values);
        float *use = arena_take(&arena, (size_t)ties[t].count, sizeof *use);
        for (int u = 0; use && u < ties[t].uses; u++) {
            device_copy(run->device, use, part->blocks.gradients + ties[t].gradients[u], (size_t)ties[t].count * sizeof *use);
            device_finish(run->device);
            for (int64_t i = 0; i < ties[t].count; i++) place[i] += use[i];
        }
    }
    enum ps_status status = arena_check(&arena, "gradients", error);
    arena_release(&arena);
    return status;
}

static bool is_shared(const struct graph *graph, const struct parameter *parameter) {
    for (int p = 0; p < graph->parameter_count && parameter->role == PARAMETER_TRAINED; p++)
        if (graph->parameters[p].tied && strcmp(graph->parameters[p].name, parameter->name) == 0) return true;
    return false;
}

static enum ps_status read_parameters(struct run *run, float *values, struct ps_error *error) {
    const struct graph *graph = run->graph;
    for (int s = 0; s < run->count; s++) {
        const struct stage_blocks *blocks = &run->parts[s].blocks;
        for (int p = 0; p < stage_parameter_count(run->parts[s].stage); p++) {
            const struct parameter *parameter = stage_parameter(run->parts[s].stage, p);
            float *place = values + parameter_elements(graph, (int)(parameter - graph->parameters));
            if (parameter->tied || is_shared(graph, parameter)) continue;
            TRY(stage_export_f32(run->parts[s].stage, p, blocks->gradients, blocks->statistics, place, error));
        }
        TRY(add_uses(run, &run->parts[s], values, error));
    }
    return PS_OK;
}

static const struct node *output_node(const struct graph *graph) {
    return &graph->nodes[graph->nodes[graph->node_count - 1].inputs[0]];
}

/* Runs a step on the device; a new answer in the arena. */
static enum ps_status compute(const struct ps_network *network, const char *device, int threads, int stages,
                              const struct batch *batch, struct arena *arena, struct answer *answer, struct ps_error *error) {
    const struct graph *graph = network->graph;
    const size_t outputs = (size_t)(batch->samples * shape_elements(&output_node(graph)->shape));
    struct run run = {0};
    answer->output = arena_take(arena, outputs, sizeof *answer->output);
    answer->parameters =
        arena_take(arena, (size_t)parameter_elements(graph, graph->parameter_count), sizeof *answer->parameters);
    TRY(arena_check(arena, "gradients", error));
    enum ps_status status = run_open(network, device, threads, stages, batch->samples, &run, error);
    if (status == PS_OK) status = run_step(&run, batch, answer, error);
    if (status == PS_OK) status = read_parameters(&run, answer->parameters, error);
    run_close(&run);
    return status;
}

/* ------------------------------------------------------------------- data */

/* The place in memory of element `at` of a sample that is in PyTorch's order (first side outermost): that side is innermost. */
static int64_t memory_place(const struct shape *shape, int64_t at) {
    const int64_t rest = shape_elements(shape) / shape->dim[0];
    return at % rest * shape->dim[0] + at / rest;
}

/* Does the array hold samples of the shape side by side, its first side outermost? Else it is in memory order, as labels are,
 * of which each has the place of its logits. */
static bool first_side_outermost(const struct shape *shape, const struct array *array) {
    bool same = array->rank == shape->rank + 1;
    for (int d = 0; same && d < shape->rank; d++) same = array->shape[d + 1] == shape->dim[d];
    return same;
}

/* Elements of samples from the array's order to memory order. */
static enum ps_status check_elements(const struct array *array, const struct shape *shape, int samples,
                                     struct ps_error *error) {
    char has[ARRAY_RANK_MAX * 21], wants[96];
    if (array->rank > 0 && array->shape[0] == samples && array_elements(array) == samples * shape_elements(shape)) return PS_OK;
    return error_set(error, PS_BAD_INPUT, "%s: has shape %s, and the network %s for each of %d samples", array->name,
                     array_shape_text(array, has), shape_text(shape, wants), samples);
}

static enum ps_status take_value(const struct array *array, const struct shape *shape, int samples, bool labels, void *to,
                                 size_t stride, struct ps_error *error) {
    const int64_t each = shape_elements(shape), count = each * samples;
    const bool turned = first_side_outermost(shape, array) && !(labels && shape->type == TYPE_I32);
    TRY(check_elements(array, shape, samples, error));
    uint32_t *values; /* f32 or i32: of the same size */
    TRY(memory_new(&values, count, array->name, error));
    enum ps_status status = PS_OK;
    if (shape->type == TYPE_I32)
        status = array_integers(array, 0, count, (int32_t *)values, error);
    else
        array_floats(array, 0, count, (float *)values);
    for (int n = 0; status == PS_OK && n < samples; n++) {
        uint32_t *sample = (uint32_t *)((char *)to + (size_t)n * stride);
        for (int64_t i = 0; i < each; i++) sample[turned ? memory_place(shape, i) : i] = values[n * each + i];
    }
    free(values);
    return status;
}

/* Labels of -100, which PyTorch does not count, become -1. */
static double weigh_target(const struct graph *graph, const struct shape *shape, int samples, void *target) {
    const int64_t count = samples * shape_elements(shape);
    int32_t *labels = target;
    double weight = 0;
    if (shape->type != TYPE_I32) return (double)count;
    for (int64_t i = 0; i < count; i++) {
        if (labels[i] == -100) labels[i] = -1;
        if (labels[i] < graph->nodes[graph->node_count - 1].shape.dim[0]) weight += graph_label_weight(graph, labels[i]);
    }
    return weight;
}

static enum ps_status take_room(const struct graph *graph, struct arena *arena, struct batch *batch, struct ps_error *error) {
    const struct shape target = graph_target(graph);
    batch->inputs = arena_take(arena, (size_t)batch->samples, (size_t)graph_cut_bytes(graph, 0));
    batch->target = arena_take(arena, (size_t)batch->samples, (size_t)shape_bytes(&target));
    return arena_check(arena, "samples", error);
}

static enum ps_status get_array(struct npz *file, const char *before, const char *name, struct array *array,
                                struct ps_error *error) {
    char key[160];
    snprintf(key, sizeof key, "%s%.140s", before, name);
    return npz_get(file, key, array, error);
}

static enum ps_status read_batch(const struct ps_network *network, struct npz *file, struct arena *arena, struct batch *batch,
                                 struct ps_error *error) {
    const struct graph *graph = network->graph;
    const struct shape target = graph_target(graph);
    const size_t stride = (size_t)graph_cut_bytes(graph, 0);
    struct array array;
    size_t offset = 0;
    TRY(get_array(file, "input/", network->inputs[0].name, &array, error));
    if (array.rank < 1 || array.shape[0] < 1 || array.shape[0] > 1 << 16)
        return error_set(error, PS_BAD_INPUT, "%s: holds no samples", array.name);
    batch->samples = (int)array.shape[0];
    TRY(take_room(graph, arena, batch, error));
    for (int i = 0; i < graph->input_count; i++) {
        TRY(get_array(file, "input/", network->inputs[i].name, &array, error));
        TRY(take_value(&array, &graph->nodes[i].shape, batch->samples, false, batch->inputs + offset, stride, error));
        offset += (size_t)graph_value_bytes(graph, i);
    }
    const char *name = npz_has(file, network->target.name) ? network->target.name : TARGET_NAME;
    TRY(npz_get(file, name, &array, error));
    TRY(take_value(&array, &target, batch->samples, true, batch->target, (size_t)shape_bytes(&target), error));
    batch->weight = weigh_target(graph, &target, batch->samples, batch->target);
    return batch->weight > 0 ? PS_OK : error_set(error, PS_BAD_INPUT, "%s: no label counts", array.name);
}

/* Numbers from -1 to 1, and tokens or classes below `below`. */
static void draw(struct random_key key, enum number_type type, int64_t count, int below, void *to) {
    for (int64_t i = 0; i < count; i++) {
        if (type == TYPE_I32)
            ((int32_t *)to)[i] = (int32_t)random_below(key, (uint64_t)i, (uint64_t)below);
        else
            ((float *)to)[i] = 2 * random_uniform(key, (uint64_t)i) - 1;
    }
}

static enum ps_status draw_batch(const struct ps_network *network, struct arena *arena, struct batch *batch,
                                 struct ps_error *error) {
    const struct graph *graph = network->graph;
    const struct shape target = graph_target(graph);
    char *to;
    batch->samples = SAMPLES_DEFAULT;
    TRY(take_room(graph, arena, batch, error));
    to = batch->inputs;
    for (int n = 0; n < batch->samples; n++)
        for (int i = 0; i < graph->input_count; i++) {
            const struct shape *shape = &graph->nodes[i].shape;
            const int vocabulary = graph_input_tokens(graph, i);
            draw(random_key(0, RANDOM_SYNTHETIC, (uint64_t)n, (uint64_t)i), shape->type, shape_elements(shape),
                 vocabulary > 0 ? vocabulary : 2, to);
            to += shape_bytes(shape);
        }
    draw(random_key(0, RANDOM_SYNTHETIC, 0, 100), target.type, batch->samples * shape_elements(&target), network->classes,
         batch->target);
    batch->weight = weigh_target(graph, &target, batch->samples, batch->target);
    return PS_OK;
}

/* -------------------------------------------------------------- comparing */

struct range {
    double difference, largest; /* absolute, of the wanted values */
};

static struct range range_of(const float *got, const double *wanted, int64_t count) {
    struct range range = {0};
    for (int64_t i = 0; i < count; i++) {
        const double difference = fabs((double)got[i] - wanted[i]);
        /* what is no number must not get lost, neither now nor by what comes after it */
        if (!isnan(range.difference) && !(difference <= range.difference)) range.difference = difference;
        range.largest = fmax(range.largest, fabs(wanted[i]));
    }
    return range;
}

static double relative(struct range range, double least) {
    const double scale = fmax(range.largest, least);
    return range.difference == 0 ? 0 : range.difference / scale;
}

static void note_worst(struct ps_check *check, const char *name, double error) {
    if (isnan(check->worst) || error <= check->worst) return;
    check->worst = error;
    check->worst_name = name;
}

/* Wanted values in double precision: `output` and `parameters` as those of an answer, NULL where there are none. */
struct wanted {
    double loss;
    double *output, **parameters;
    struct other *others;
    int other_count;
};

/* A gradient under a name that the network does not have. */
struct other {
    const char *name;
    struct array array;
    double *values;
    bool known; /* it is that of a parameter that the network knows otherwise */
};

static bool has_shape(const struct parameter *parameter, const struct array *array) {
    bool same = array->rank == parameter->shape.rank;
    for (int d = 0; same && d < array->rank; d++) same = array->shape[d] == parameter->shape.dim[d];
    return same;
}

/* Of a parameter that a module has under several names the network has one, and the file may have another, or all: of those of
 * the shape that have no gradient in the file the one whose own is nearest, unless it is the gradient of a shared one that is
 * there. */
static void find_owner(const struct graph *graph, const struct answer *got, struct wanted *wanted, struct other *other) {
    double least = 0;
    int64_t place = 0;
    int nearest = -1;
    for (int p = 0; p < graph->parameter_count; p++) {
        const struct parameter *parameter = &graph->parameters[p];
        const int64_t count = shape_elements(&parameter->shape), own = place;
        place += count;
        if (parameter->role != PARAMETER_TRAINED || parameter->tied || !has_shape(parameter, &other->array)) continue;
        if (wanted->parameters[p]) {
            other->known |= parameter_is_shared(parameter) &&
                            memcmp(wanted->parameters[p], other->values, (size_t)count * sizeof *other->values) == 0;
            continue;
        }
        const double error = relative(range_of(got->parameters + own, other->values, count), 0);
        if (nearest < 0 || error < least) least = error, nearest = p;
    }
    if (other->known || nearest < 0) return;
    wanted->parameters[nearest] = other->values;
    other->known = true;
}

static enum ps_status compare(struct ps_check *check, const struct ps_network *network, const struct batch *batch,
                              const struct answer *got, struct wanted *wanted, struct ps_error *error) {
    const struct graph *graph = network->graph;
    struct range *ranges = arena_take(&check->arena, (size_t)graph->parameter_count, sizeof *ranges);
    const size_t gradients = (size_t)(graph->parameter_count + wanted->other_count);
    check->gradients = arena_take(&check->arena, gradients, sizeof *check->gradients);
    check->statistics = arena_take(&check->arena, (size_t)graph->parameter_count, sizeof *check->statistics);
    TRY(arena_check(&check->arena, "a comparison", error));
    for (int o = 0; o < wanted->other_count; o++) find_owner(graph, got, wanted, &wanted->others[o]);
    double largest = 0;
    int64_t place = 0;
    for (int p = 0; p < graph->parameter_count; p++) {
        const struct parameter *parameter = &graph->parameters[p];
        const int64_t count = shape_elements(&parameter->shape);
        if (wanted->parameters[p]) ranges[p] = range_of(got->parameters + place, wanted->parameters[p], count);
        if (parameter->role == PARAMETER_TRAINED) largest = fmax(largest, ranges[p].largest);
        place += count;
    }
    for (int p = 0; p < graph->parameter_count; p++) {
        const struct parameter *parameter = &graph->parameters[p];
        const bool statistic = parameter->role == PARAMETER_STATISTIC;
        if (parameter->tied || parameter->role == PARAMETER_FIXED) continue;
        struct entry *entry =
            statistic ? &check->statistics[check->statistic_count++] : &check->gradients[check->gradient_count++];
        entry->name = arena_copy(&check->arena, parameter->name, strlen(parameter->name) + 1, 1);
        entry->error = wanted->parameters[p] ? relative(ranges[p], statistic ? 0 : largest / 100) : NAN;
        /* What the statistics begin with is not in the reference. */
        if (wanted->parameters[p] && !statistic) note_worst(check, entry->name, entry->error);
    }
    for (int o = 0; o < wanted->other_count; o++) {
        const struct other *other = &wanted->others[o];
        double most = 0;
        if (other->known) continue;
        for (int64_t e = 0; e < array_elements(&other->array); e++)
            if (!isnan(most) && !(fabs(other->values[e]) <= most)) most = fabs(other->values[e]);
        struct entry *entry = &check->gradients[check->gradient_count++];
        entry->name = arena_copy(&check->arena, other->name, strlen(other->name) + 1, 1);
        entry->error = relative((struct range){most, most}, largest / 100);
        entry->absent = true;
        note_worst(check, entry->name, entry->error);
    }
    check->loss = got->loss;
    check->loss_error = fabs(got->loss - wanted->loss) / fmax(fabs(wanted->loss), 1e-300);
    note_worst(check, "loss", check->loss_error);
    check->output_error = NAN;
    if (wanted->output) {
        const int64_t outputs = batch->samples * shape_elements(&output_node(graph)->shape);
        check->output_error = relative(range_of(got->output, wanted->output, outputs), 0);
        note_worst(check, "output", check->output_error);
    }
    return arena_check(&check->arena, "a comparison", error);
}

/* Has the network a parameter of the name, trained or not? */
static bool has_parameter(const struct graph *graph, const char *name) {
    for (int p = 0; p < graph->parameter_count; p++)
        if (strcmp(graph->parameters[p].name, name) == 0 || strcmp(split_whole_name(&graph->parameters[p]), name) == 0)
            return true;
    return false;
}

/* Gradients under names that the network does not have. */
static enum ps_status read_others(const struct graph *graph, struct npz *file, struct arena *arena, struct wanted *wanted,
                                  struct ps_error *error) {
    static const char kind[] = "gradient/";
    wanted->others = arena_take(arena, (size_t)npz_count(file), sizeof *wanted->others);
    TRY(arena_check(arena, "gradients", error));
    for (int i = 0; i < npz_count(file); i++) {
        const char *key = npz_name(file, i);
        struct other *other = &wanted->others[wanted->other_count];
        if (strncmp(key, kind, strlen(kind)) != 0 || has_parameter(graph, key + strlen(kind))) continue;
        wanted->other_count++;
        other->name = key + strlen(kind);
        TRY(npz_get(file, key, &other->array, error));
        other->values = arena_take(arena, (size_t)array_elements(&other->array), sizeof *other->values);
        TRY(arena_check(arena, "gradients", error));
        array_doubles(&other->array, 0, array_elements(&other->array), other->values);
    }
    return PS_OK;
}

static enum ps_status read_wanted(const struct ps_network *network, struct npz *file, const struct batch *batch,
                                  struct arena *arena, struct wanted *wanted, struct ps_error *error) {
    const struct graph *graph = network->graph;
    const struct shape *output = &output_node(graph)->shape;
    struct array array;
    int found = 0;
    TRY(npz_get(file, "loss", &array, error));
    array_doubles(&array, 0, 1, &wanted->loss);
    if (npz_has(file, "output")) {
        TRY(npz_get(file, "output", &array, error));
        TRY(check_elements(&array, output, batch->samples, error));
        const int64_t each = shape_elements(output), count = each * batch->samples;
        double *values = arena_take(arena, (size_t)count, sizeof *values);
        wanted->output = arena_take(arena, (size_t)count, sizeof *wanted->output);
        TRY(arena_check(arena, "outputs", error));
        array_doubles(&array, 0, count, values);
        const bool turned = first_side_outermost(output, &array);
        for (int64_t i = 0; i < count; i++)
            wanted->output[turned ? i / each * each + memory_place(output, i % each) : i] = values[i];
    }
    for (int p = 0; p < graph->parameter_count; p++) {
        const struct parameter *parameter = &graph->parameters[p];
        const char *kind = parameter->role == PARAMETER_STATISTIC ? "statistic/" : "gradient/";
        char key[160], has[ARRAY_RANK_MAX * 21], wants[96];
        snprintf(key, sizeof key, "%s%s", kind, parameter->name);
        if (parameter->tied || parameter->role == PARAMETER_FIXED || !npz_has(file, key)) continue;
        TRY(npz_get(file, key, &array, error));
        if (!has_shape(parameter, &array))
            return error_set(error, PS_BAD_INPUT, "%s: has shape %s where the network has %s", key,
                             array_shape_text(&array, has), shape_text(&parameter->shape, wants));
        wanted->parameters[p] = arena_take(arena, (size_t)array_elements(&array), sizeof *wanted->parameters[p]);
        TRY(arena_check(arena, "gradients", error));
        array_doubles(&array, 0, array_elements(&array), wanted->parameters[p]);
        found++;
    }
    TRY(read_others(graph, file, arena, wanted, error));
    for (int o = 0; o < wanted->other_count; o++)
        for (int p = 0; p < graph->parameter_count; p++) found += has_shape(&graph->parameters[p], &wanted->others[o].array);
    return found > 0 ? PS_OK : error_set(error, PS_BAD_INPUT, "it has no gradient of a parameter of %s", network->name);
}

/* The answer of another run as what is wanted. */
static enum ps_status want_answer(const struct graph *graph, const struct batch *batch, const struct answer *answer,
                                  struct arena *arena, struct wanted *wanted, struct ps_error *error) {
    const int64_t outputs = batch->samples * shape_elements(&output_node(graph)->shape);
    const float *values = answer->parameters;
    wanted->loss = answer->loss;
    wanted->output = arena_take(arena, (size_t)outputs, sizeof *wanted->output);
    TRY(arena_check(arena, "outputs", error));
    for (int64_t i = 0; i < outputs; i++) wanted->output[i] = (double)answer->output[i];
    for (int p = 0; p < graph->parameter_count; p++) {
        const int64_t count = shape_elements(&graph->parameters[p].shape);
        wanted->parameters[p] = arena_take(arena, (size_t)count, sizeof *wanted->parameters[p]);
        TRY(arena_check(arena, "gradients", error));
        for (int64_t i = 0; i < count; i++) wanted->parameters[p][i] = (double)values[i];
        values += count;
    }
    return PS_OK;
}

/* Cuts must change no bit. */
static enum ps_status check_cuts(const struct ps_network *network, const struct answer *cut, const struct answer *whole,
                                 int stages, struct ps_error *error) {
    const struct graph *graph = network->graph;
    const size_t count = (size_t)parameter_elements(graph, graph->parameter_count);
    if (memcmp(&cut->loss, &whole->loss, sizeof cut->loss) == 0 &&
        memcmp(cut->parameters, whole->parameters, count * sizeof *cut->parameters) == 0)
        return PS_OK;
    return error_set(error, PS_FAILED, "%s: %d stages compute other bits than one", network->name, stages);
}

static enum ps_status run_check(const struct ps_network *network, const struct ps_check_options *options, struct npz *file,
                                struct arena *arena, struct ps_check *check, struct ps_error *error) {
    const char *device = options->device ? options->device : "cpu";
    const int threads = options->threads > 0 ? options->threads : 1, stages = options->workers > 0 ? options->workers : 1;
    struct batch batch = {0};
    struct answer got = {0}, other = {0};
    struct wanted wanted = {.parameters =
                                arena_take(arena, (size_t)network->graph->parameter_count, sizeof *wanted.parameters)};
    TRY(arena_check(arena, "gradients", error));
    TRY(file ? read_batch(network, file, arena, &batch, error) : draw_batch(network, arena, &batch, error));
    TRY(compute(network, device, threads, stages, &batch, arena, &got, error));
    if (stages > 1) {
        TRY(compute(network, device, threads, 1, &batch, arena, &other, error));
        TRY(check_cuts(network, &got, &other, stages, error));
    }
    if (file) {
        TRY(read_wanted(network, file, &batch, arena, &wanted, error));
    } else {
        TRY(compute(network, "reference", threads, 1, &batch, arena, &other, error));
        TRY(want_answer(network->graph, &batch, &other, arena, &wanted, error));
    }
    const char *against = file ? options->against : "reference";
    check->device = arena_copy(&check->arena, device, strlen(device) + 1, 1);
    check->against = arena_copy(&check->arena, against, strlen(against) + 1, 1);
    TRY(arena_status(&check->arena, "a check", error));
    return compare(check, network, &batch, &got, &wanted, error);
}

void ps_check_options_init(struct ps_check_options *options) {
    *options = (struct ps_check_options){.struct_size = sizeof *options};
}

enum ps_status ps_check_run(const struct ps_network *network, const struct ps_check_options *given, struct ps_check **check,
                            struct ps_error *error) {
    struct ps_check_options options;
    struct arena arena = {0};
    struct npz *file = NULL;
    TRY(VERSIONED_TAKE(ps_check_options, given, &options, error));
    if (options.workers < 0 || options.workers > STAGES_MAX)
        return error_set(error, PS_USAGE, "`workers`: %d is not from 1 to %d", options.workers, STAGES_MAX);
    if (options.threads < 0) return error_set(error, PS_USAGE, "`threads`: %d is less than 1", options.threads);
    if (!(options.tolerance >= 0)) return error_set(error, PS_USAGE, "`tolerance`: %g is below 0", options.tolerance);
    struct ps_check *made;
    TRY(memory_new(&made, 1, "a check", error));
    made->tolerance = options.tolerance > 0 ? options.tolerance : TOLERANCE_DEFAULT;
    enum ps_status status = options.against ? npz_open(options.against, &file, error) : PS_OK;
    if (status == PS_OK) status = run_check(network, &options, file, &arena, made, error);
    if (status == PS_BAD_INPUT && file) error_prefix(error, "%s", options.against);
    npz_close(file);
    arena_release(&arena);
    if (status == PS_OK)
        *check = made;
    else
        ps_check_destroy(made);
    return status;
}

void ps_check_destroy(struct ps_check *check) {
    if (!check) return;
    arena_release(&check->arena);
    free(check);
}

/* ---------------------------------------------------------------- results */

void ps_check_info_get(const struct ps_check *check, struct ps_check_info *result, size_t size) {
    const struct ps_check_info own = {.loss_error = check->loss_error,
                                      .output_error = check->output_error,
                                      .worst = check->worst,
                                      .worst_name = check->worst_name,
                                      .gradients = check->gradient_count,
                                      .agrees = check->worst <= check->tolerance};
    VERSIONED_GIVE(own, result, size);
}

void ps_check_gradient_get(const struct ps_check *check, int number, struct ps_check_gradient *result, size_t size) {
    const bool there = number >= 0 && number < check->gradient_count;
    const struct ps_check_gradient own = {.name = there ? check->gradients[number].name : NULL,
                                          .error = there ? check->gradients[number].error : NAN};
    VERSIONED_GIVE(own, result, size);
}

static json_t *entries_json(const struct entry *entries, int count) {
    json_t *list = json_array();
    for (int i = 0; i < count; i++) {
        json_t *object = json_pack("{s:s}", "name", entries[i].name);
        json_set_finite(object, "error", entries[i].error);
        if (entries[i].absent) json_object_set_new(object, "in_network", json_false());
        json_array_append_new(list, object);
    }
    return list;
}

char *ps_check_json(const struct ps_check *check) {
    json_t *root = json_object();
    json_set_finite(root, "loss", check->loss);
    json_set_finite(root, "loss_error", check->loss_error);
    json_set_finite(root, "output_error", check->output_error);
    json_object_set_new(root, "gradients", entries_json(check->gradients, check->gradient_count));
    json_object_set_new(root, "statistics", entries_json(check->statistics, check->statistic_count));
    json_set_finite(root, "worst", check->worst);
    json_set_finite(root, "tolerance", check->tolerance);
    json_object_set_new(root, "agrees", json_boolean(check->worst <= check->tolerance));
    return json_text(root);
}

static void add_entries(struct text *out, const char *kind, const struct entry *entries, int count) {
    for (int i = 0; i < count; i++)
        if (entries[i].absent || isnan(entries[i].error))
            text_add(out, "%s %s\tnot in the %s\n", kind, entries[i].name, entries[i].absent ? "network" : "reference");
        else
            text_add(out, "%s %s\t%.2e\n", kind, entries[i].name, entries[i].error);
}

char *ps_check_table(const struct ps_check *check) {
    struct text rows = {0};
    text_add(&rows, "value\trelative error of %s against %s\n", check->device, check->against);
    text_add(&rows, "loss %.7g\t%.2e\n", check->loss, check->loss_error);
    if (!isnan(check->output_error)) text_add(&rows, "output\t%.2e\n", check->output_error);
    add_entries(&rows, "gradient", check->gradients, check->gradient_count);
    add_entries(&rows, "statistic", check->statistics, check->statistic_count);
    text_add(&rows, "worst: %s\t%.2e\n", check->worst_name ? check->worst_name : "none", check->worst);
    return text_take_table(&rows);
}
