/* Creating a stage: its kernels, then the places of all their arguments, then the plan; and the sizes of every layer. */
#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"
#include "compute/stage_plan.h"

static enum ps_status check_request(const struct device *device, const struct graph *graph, int first, int last, int samples,
                                    struct ps_error *error) {
    if (first < 0 || last < first || last >= graph->layer_count) {
        return error_set(error, PS_USAGE, "stage of layers %d to %d: the network has the layers 1 to %d", first + 1, last + 1,
                         graph->layer_count);
    }
    if (samples < 1 || samples > 1 << 20) {
        return error_set(error, PS_USAGE, "micro-batch of %d samples: from 1 to %d are accepted", samples, 1 << 20);
    }
    const struct node *end = &graph->nodes[graph->node_count - 1];
    if (last == graph->layer_count - 1 && device->type->real && !(end->flags & OPERATOR_LOSS)) {
        return error_set(error, PS_USAGE, "the network ends in node '%s' (%s): only a loss can end it", end->name,
                         operator_get(end->id)->name);
    }
    return PS_OK;
}

static enum ps_status create_kernels(struct stage *stage, struct ps_error *error) {
    const struct graph *graph = stage->graph;
    for (int i = 0; i < stage->node_count; i++) {
        struct stage_node *node = &stage->nodes[i];
        node->node = &graph->nodes[stage->node_first + i];
        if (node->node->flags & OPERATOR_SHARES_MEMORY) continue;
        const struct node *next = i + 1 < stage->node_count ? node->node + 1 : NULL;
        bool relu_follows = next != NULL && next->id == OPERATOR_RELU && next->inputs[0] == stage->node_first + i &&
                            next->root == node->node->root;
        TRY(kernel_create(stage->device, graph, node->node, stage->samples, relu_follows, &node->kernel, error));
        if (node->kernel->fuses_relu) {
            assert(relu_follows);
            stage->nodes[i + 1].fused = true;
        }
    }
    return PS_OK;
}

static enum ps_status arrange(struct stage *stage, struct ps_error *error) {
    int layers = stage->last - stage->first + 1;
    struct arena arena = {0};
    struct buffer *values = arena_take(&arena, (size_t)stage->graph->node_count, sizeof *values);
    int64_t *scratch = arena_take(&arena, (size_t)layers, sizeof *scratch);
    TRY(arena_check(&arena, "a stage's plan", error));
    stage_allocate(stage, values, scratch);
    enum ps_status status = stage_plan(stage, values, scratch, error);
    arena_release(&arena);
    return status;
}

/* A last stage's targets and result in the device's own memory; they are few, and no plan counts them. */
static enum ps_status take_target(struct stage *stage, struct ps_error *error) {
    const struct node *end = stage->nodes[stage->node_count - 1].node;
    if (device_in_host(stage->device) || !(end->flags & OPERATOR_LOSS)) return PS_OK;
    const struct shape target = graph_target(stage->graph);
    const size_t bytes = memory_align((size_t)(stage->samples * shape_bytes(&target)));
    TRY(device_take(stage->device, &stage->own_memory, bytes + memory_align(sizeof *stage->result), "targets", error));
    stage->target = memory_block_carve(&stage->own_memory, bytes);
    stage->result = memory_block_carve(&stage->own_memory, sizeof *stage->result);
    return PS_OK;
}

/* The values that cross a cut, where stage_cut_offset has them. Those that codecs leave as they are count as words, like
 * tokens; values are aligned, so that the last word belongs to its value. */
static void list_runs(const struct stage *stage, int cut, struct wire_run *runs) {
    const struct graph *graph = stage->graph;
    struct stage_cut places = stage_cut(graph, stage->samples, cut);
    for (int i = 0; i < graph_cut_count(graph, cut); i++) {
        const int root = graph_cut_values(graph, cut)[i];
        const enum number_type type = stage_sends_exactly(graph, cut, root) ? TYPE_I32 : graph->nodes[root].shape.type;
        const size_t bytes = (size_t)(stage->samples * graph_value_bytes(graph, root)), each = number_types[type].bytes;
        runs[i] = (struct wire_run){
            .offset = (size_t)stage_cut_offset(&places, root),
            .count = (bytes + each - 1) / each,
            .type = type,
        };
    }
}

static enum ps_status make_runs(struct stage *stage, struct ps_error *error) {
    stage->input_runs = graph_cut_count(stage->graph, stage->first);
    stage->output_runs = graph_cut_count(stage->graph, stage->last + 1);
    TRY(memory_new(&stage->runs, stage->input_runs + stage->output_runs, "a stage", error));
    list_runs(stage, stage->first, stage->runs);
    list_runs(stage, stage->last + 1, stage->runs + stage->input_runs);
    /* The data cross no cut. */
    if (stage->first > 0) stage->sizes.input = wire_count(stage->runs, stage->input_runs);
    stage->sizes.output = wire_count(stage->runs + stage->input_runs, stage->output_runs);
    return PS_OK;
}

enum ps_status stage_create(struct device *device, const struct graph *graph, int first, int last, int samples,
                            struct stage **stage, struct ps_error *error) {
    TRY(check_request(device, graph, first, last, samples, error));
    const struct layer *begin = &graph->layers[first], *end = &graph->layers[last];
    int node_count = end->node_first + end->node_count - begin->node_first;
    struct stage *made;
    TRY(memory_new(&made, 1, "a stage", error));
    *made = (struct stage){.device = device,
                           .graph = graph,
                           .first = first,
                           .last = last,
                           .samples = samples,
                           .node_first = begin->node_first,
                           .node_count = node_count};
    enum ps_status status = memory_new(&made->nodes, node_count, "a stage", error);
    if (status == PS_OK) status = create_kernels(made, error);
    if (status == PS_OK) status = arrange(made, error);
    if (status == PS_OK) status = take_target(made, error);
    if (status == PS_OK) status = make_runs(made, error);
    if (status != PS_OK) {
        stage_destroy(made);
        return status;
    }
    *stage = made;
    return PS_OK;
}

void stage_destroy(struct stage *stage) {
    if (stage == NULL) return;
    if (!device_in_host(stage->device)) device_finish(stage->device); /* its kernels may be running */
    device_give(stage->device, &stage->own_memory);
    for (int i = 0; i < stage->node_count && stage->nodes != NULL; i++) kernel_destroy(stage->nodes[i].kernel);
    free(stage->nodes);
    free(stage->forward.actions);
    free(stage->backward.actions);
    free(stage->runs);
    free(stage);
}

struct stage_sizes stage_sizes(const struct stage *stage) {
    return stage->sizes;
}

const struct wire_run *stage_runs(const struct stage *stage, bool output, int *count) {
    *count = output ? stage->output_runs : stage->input_runs;
    return output ? stage->runs + stage->input_runs : stage->runs;
}

struct stage_times stage_times(const struct stage *stage) {
    struct stage_times times = {0};
    for (int i = 0; i < stage->node_count; i++) {
        const struct attributes *attributes = &stage->nodes[i].node->attributes;
        layer_times_add(&times.time, &attributes->time);
        times.sum_s += attributes->sum_s;
    }
    return times;
}

/* ------------------------------------------------------------ layers' sizes */

/* A layer is measured as a stage of its own: the sizes of that stage give all that the rule of sizes.h adds up. */
static enum ps_status layer_size(struct device *device, const struct graph *graph, int layer, int samples, int64_t value_before,
                                 struct layer_sizes *sizes, struct ps_error *error) {
    struct stage *stage;
    TRY(stage_create(device, graph, layer, layer, samples, &stage, error));
    *sizes = (struct layer_sizes){.parameter_bytes = stage_gradient_bytes(&stage->sizes),
                                  .narrow_bytes = stage->sizes.narrow_bytes + stage->repeated_narrow_bytes,
                                  .tied_bytes = stage->sizes.tied_bytes,
                                  .statistics_bytes = stage->sizes.statistics_bytes,
                                  .fixed_bytes = stage->sizes.fixed_bytes,
                                  .output_bytes = stage->sizes.output_bytes,
                                  .output = stage->sizes.output,
                                  .delta_bytes = stage->sizes.delta_bytes,
                                  .workspace_bytes = stage->sizes.workspace_bytes};
    for (int i = 0; i < graph_cut_count(graph, layer + 1); i++) {
        int root = graph_cut_values(graph, layer + 1)[i];
        if (graph->nodes[root].layer != layer) continue;
        int64_t bytes = stage_value_bytes(graph, samples, root);
        sizes->value_bytes += bytes;
        if (graph_output_kept_by_own_layer(graph, root)) sizes->tail_bytes += bytes;
    }
    sizes->stash_bytes = value_before + stage->sizes.stash_bytes - sizes->tail_bytes;
    stage_destroy(stage);
    return PS_OK;
}

enum ps_status stage_layer_sizes(struct device *device, const struct graph *graph, int samples, struct layer_sizes *sizes,
                                 int64_t *input_bytes, struct ps_error *error) {
    int64_t data = stage_cut_bytes(graph, samples, 0);
    for (int l = 0; l < graph->layer_count; l++) {
        int64_t value_before = l > 0 ? sizes[l - 1].value_bytes : data;
        TRY(layer_size(device, graph, l, samples, value_before, &sizes[l], error));
    }
    *input_bytes = data;
    return PS_OK;
}
