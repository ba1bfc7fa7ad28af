/* A stage's parameters by name: initial values, and conversion from and to canonical order. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compute/stage_plan.h"
#include "graph/split.h"

int stage_parameter_count(const struct stage *stage) {
    const struct node *last = stage->nodes[stage->node_count - 1].node;
    return last->parameter_first + last->parameter_count - stage->nodes->node->parameter_first;
}

/* The node of the stage's parameter `*parameter`, which becomes its number within the node: the last node whose parameters
 * begin no later. */
static const struct stage_node *find_node(const struct stage *stage, int *parameter) {
    const int wanted = stage->nodes->node->parameter_first + *parameter;
    int low = 0, end = stage->node_count;
    while (end - low > 1) {
        const int middle = low + (end - low) / 2;
        *(stage->nodes[middle].node->parameter_first <= wanted ? &low : &end) = middle;
    }
    *parameter = wanted - stage->nodes[low].node->parameter_first;
    assert(*parameter >= 0 && *parameter < stage->nodes[low].node->parameter_count);
    return &stage->nodes[low];
}

static const struct parameter *parameter_of(const struct stage *stage, const struct stage_node *node, int parameter) {
    return &stage->graph->parameters[node->node->parameter_first + parameter];
}

const struct parameter *stage_parameter(const struct stage *stage, int parameter) {
    const struct stage_node *node = find_node(stage, &parameter);
    return parameter_of(stage, node, parameter);
}

const struct operator_type *stage_parameter_operator(const struct stage *stage, int parameter) {
    return operator_get(find_node(stage, &parameter)->node->id);
}

int64_t stage_parameter_offset(const struct stage *stage, int parameter) {
    const struct stage_node *node = find_node(stage, &parameter);
    const struct buffer *buffer = &node->weights[parameter];
    return buffer->block == BUFFER_WEIGHTS ? buffer->offset / (int64_t)sizeof(float) : -1;
}

/* Does a node outside of the stage use the shared parameter, too? */
static bool used_outside(const struct stage *stage, const struct parameter *shared) {
    const struct parameter *all = stage->graph->parameters, *first = &all[stage->nodes->node->parameter_first];
    const struct parameter *end = first + stage_parameter_count(stage);
    for (const struct parameter *p = all; p < all + stage->graph->parameter_count; p++)
        if ((p < first || p >= end) && parameter_is_shared(p) && strcmp(p->name, shared->name) == 0) return true;
    return false;
}

int64_t stage_outside_bytes(const struct stage *stage) {
    int64_t bytes = 0;
    const int count = stage_parameter_count(stage);
    for (int p = 0; p < count; p++) {
        const struct parameter *parameter = stage_parameter(stage, p);
        if (parameter_is_shared(parameter) && used_outside(stage, parameter))
            bytes += (int64_t)memory_align((size_t)shape_bytes(&parameter->shape));
    }
    return bytes;
}

/* The gradients of the uses of a shared parameter, from the stage's parameter `first` on; returns their number. */
static int find_gradients(const struct stage *stage, int first, int64_t *gradients) {
    const char *name = stage_parameter(stage, first)->name;
    const int count = stage_parameter_count(stage);
    int uses = 0;
    for (int p = first; p < count; p++) {
        int own = p;
        const struct stage_node *node = find_node(stage, &own);
        const struct parameter *parameter = parameter_of(stage, node, own);
        if (!parameter_is_shared(parameter) || strcmp(parameter->name, name) != 0) continue;
        if (gradients) gradients[uses] = node->gradients[own].offset / (int64_t)sizeof(float);
        uses++;
    }
    return uses;
}

/* Is it the stage's first use of the parameter? Its gradient then lies where the weights lie, those of further uses behind all.
 */
static bool is_first_use(const struct stage *stage, int parameter) {
    const struct stage_node *node = find_node(stage, &parameter);
    return parameter_is_shared(parameter_of(stage, node, parameter)) &&
           node->gradients[parameter].offset == node->weights[parameter].offset;
}

static int by_place(const void *a, const void *b) {
    const struct stage_tie *one = a, *other = b;
    return one->gradients[0] < other->gradients[0] ? -1 : one->gradients[0] > other->gradients[0];
}

enum ps_status stage_ties(const struct stage *stage, struct arena *arena, struct stage_tie **out, int *count,
                          struct ps_error *error) {
    const int parameters = stage_parameter_count(stage);
    int found = 0;
    for (int p = 0; p < parameters; p++) found += is_first_use(stage, p);
    struct stage_tie *ties = arena_take(arena, (size_t)found, sizeof *ties), *tie = ties;
    for (int p = 0; p < parameters && ties; p++) {
        if (!is_first_use(stage, p)) continue;
        tie->parameter = stage_parameter(stage, p);
        tie->count = shape_elements(&tie->parameter->shape);
        tie->uses = find_gradients(stage, p, NULL);
        tie->gradients = arena_take(arena, (size_t)tie->uses, sizeof *tie->gradients);
        tie->outside = used_outside(stage, tie->parameter);
        if (tie->gradients) find_gradients(stage, p, tie->gradients);
        tie++;
    }
    TRY(arena_status(arena, "shared parameters", error));
    if (found > 1) qsort(ties, (size_t)found, sizeof *ties, by_place);
    *out = ties;
    *count = found;
    return PS_OK;
}

static size_t canonical_bytes(const struct parameter *parameter) { return (size_t)shape_bytes(&parameter->shape); }

/* A parameter on its way between a block and canonical order: where it lies in the block, and in which type. */
struct place {
    void *at;
    enum number_type type;
};

/* Converts a parameter between its place and canonical order. Kernels convert within the host's memory, and in f32. */
static enum ps_status convert(struct stage *stage, int parameter, bool exports, struct place own, float *canonical,
                              struct ps_error *error) {
    const struct stage_node *node = find_node(stage, &parameter);
    const struct parameter *what = parameter_of(stage, node, parameter);
    struct kernel *kernel = node->kernel;
    const bool same =
        what->role == PARAMETER_STATISTIC || (exports ? kernel->type->to_canonical : kernel->type->from_canonical) == NULL;
    if (same && own.type == TYPE_F32) {
        device_copy(stage->device, exports ? canonical : own.at, exports ? own.at : canonical, canonical_bytes(what));
        device_finish(stage->device);
        return device_check(stage->device, error);
    }
    if (!same && own.type == TYPE_F32 && device_in_host(stage->device))
        return exports ? kernel->type->to_canonical(kernel, parameter, own.at, canonical, error)
                       : kernel->type->from_canonical(kernel, parameter, canonical, own.at, error);
    struct memory_block block;
    const size_t bytes = (size_t)kernel->parameter_bytes[parameter], count = bytes / sizeof(float);
    TRY(memory_block_take(&block, 2 * memory_align(bytes), "a parameter", error));
    float *here = memory_block_carve(&block, bytes), *plain = same ? canonical : here;
    void *copy = own.type == TYPE_F32 ? (void *)here : memory_block_carve(&block, bytes);
    enum ps_status status = PS_OK;
    if (exports) {
        device_copy(stage->device, copy, own.at, count * number_types[own.type].bytes);
        device_finish(stage->device);
        status = device_check(stage->device, error);
        if (own.type != TYPE_F32) numbers_convert(count, TYPE_F32, plain, own.type, copy);
        if (status == PS_OK && !same) status = kernel->type->to_canonical(kernel, parameter, here, canonical, error);
    } else {
        if (!same) status = kernel->type->from_canonical(kernel, parameter, canonical, here, error);
        if (own.type != TYPE_F32) numbers_convert(count, own.type, copy, TYPE_F32, plain);
        device_copy(stage->device, own.at, copy, count * number_types[own.type].bytes);
        device_finish(stage->device);
    }
    memory_block_release(&block);
    return status;
}

/* Where the parameter lies in a copy of the stage's weights or in a block of f32, or in its statistics. */
static struct place place_of(const struct stage *stage, int parameter, bool copy, const void *weights,
                             const float *statistics) {
    const struct stage_node *node = find_node(stage, &parameter);
    const struct parameter *what = parameter_of(stage, node, parameter);
    const struct buffer *place = &(what->role == PARAMETER_STATISTIC ? node->statistics : node->weights)[parameter];
    if (place->block == BUFFER_STATISTICS) return (struct place){(char *)statistics + place->offset, what->copy};
    const int64_t offset = copy ? stage_copy_offset(&stage->sizes, place->offset) : place->offset;
    return (struct place){(char *)weights + offset, copy ? what->copy : TYPE_F32};
}

enum ps_status stage_export(struct stage *stage, int parameter, const void *weights, const float *statistics, float *canonical,
                            struct ps_error *error) {
    return convert(stage, parameter, true, place_of(stage, parameter, true, weights, statistics), canonical, error);
}

enum ps_status stage_export_f32(struct stage *stage, int parameter, const float *block, const float *statistics,
                                float *canonical, struct ps_error *error) {
    return convert(stage, parameter, true, place_of(stage, parameter, false, block, statistics), canonical, error);
}

enum ps_status stage_import(struct stage *stage, int parameter, const float *canonical, void *weights, float *statistics,
                            struct ps_error *error) {
    return convert(stage, parameter, false, place_of(stage, parameter, true, weights, statistics), (float *)canonical, error);
}

enum ps_status stage_import_f32(struct stage *stage, int parameter, const float *canonical, float *block, float *statistics,
                                struct ps_error *error) {
    return convert(stage, parameter, false, place_of(stage, parameter, false, block, statistics), (float *)canonical, error);
}

/* The given values, else those that its initial distribution gives. A slice of a parameter gets the values that the whole
 * parameter has there. */
static void fill_initial(const struct values *given, const struct parameter *parameter, uint64_t seed, float *values) {
    const struct array *entry = values_get(given, split_whole_name(parameter));
    if (entry != NULL) {
        array_floats(entry, split_offset(parameter), shape_elements(&parameter->shape), values);
        return;
    }
    struct random_key key = random_key_named(seed, RANDOM_WEIGHTS, split_whole_name(parameter));
    float value = parameter->initial.value;
    int64_t count = shape_elements(&parameter->shape), offset = split_offset(parameter);
    switch (parameter->initial.kind) {
    case INITIAL_CONSTANT:
        for (int64_t i = 0; i < count; i++) values[i] = value;
        break;
    case INITIAL_UNIFORM:
        for (int64_t i = 0; i < count; i++) values[i] = value * (2 * random_uniform(key, (uint64_t)(offset + i)) - 1);
        break;
    case INITIAL_NORMAL:
        for (int64_t i = 0; i < count; i++) values[i] = value * random_normal(key, (uint64_t)(offset + i));
        break;
    }
    if (parameter->zero_row == 0) return;
    int64_t row = count / parameter->shape.dim[0];
    memset(values + (parameter->zero_row - 1) * row, 0, (size_t)row * sizeof *values);
}

enum ps_status stage_initialize(struct stage *stage, uint64_t seed, float *master, void *weights, float *statistics,
                                struct ps_error *error) {
    if (!stage->device->type->real) return PS_OK;
    size_t largest = 0;
    int count = stage_parameter_count(stage);
    for (int p = 0; p < count; p++) {
        size_t bytes = canonical_bytes(stage_parameter(stage, p));
        if (bytes > largest) largest = bytes;
    }
    if (largest == 0) return PS_OK;
    struct memory_block block; /* returned to the system, while the C library would keep freed memory */
    TRY(memory_block_take(&block, largest, "initial weights", error));
    float *canonical = memory_block_carve(&block, largest);
    enum ps_status status = PS_OK;
    for (int p = 0; p < count && status == PS_OK; p++) {
        fill_initial(stage->graph->values, stage_parameter(stage, p), seed, canonical);
        status = stage_import(stage, p, canonical, weights, statistics, error);
        if (status == PS_OK && master != NULL && stage_parameter(stage, p)->role == PARAMETER_TRAINED)
            status = stage_import_f32(stage, p, canonical, master, statistics, error);
    }
    memory_block_release(&block);
    return status;
}
