/*
 * The list of actions of a stage's forward and backward.
 *
 * Gradients. A value has one unless it is data, or nothing before it is trained, or all that is made of it are conditions and
 * other data. It is complete when the backward reaches the layer that made the value.
 *   - A value that crosses a cut has its gradient in a block laid out like the cut: the output gradient's block for the stage's
 * last cut, the input gradient's for its first. Those of values that cross inner cuts alone share the two blocks of the
 * workspace that hold any two neighbouring cuts: each has a place there from its last reader to the layer that makes it. Rarely
 * the gaps are too small for that. Then each inner cut is laid out in one of the blocks in turn, and from cut l+1 to cut l
 * gradients of values that cross both are copied.
 *   - The gradient of a value inside a layer lies in the layer's part of the workspace.
 *   - The first reader that the backward reaches (the last in order) writes the gradient. The others write into temporary
 * memory, which is added. So the order of additions follows from the nodes, wherever the cuts are.
 *   - An in-place node overwrites its output's gradient with its input's, also in the stage's output gradient block, which is
 * not read again.
 *
 * Where the backward is split, each node's output gradient is copied to the delta block at the point where the weight kernel
 * would have read it, since its memory is reused and in-place nodes overwrite it. The weight kernels later read the same bits.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/memory.h"
#include "compute/stage_plan.h"

struct gradient {
    struct buffer buffer; /* BUFFER_NONE: there is none */
    bool written;         /* by a reader, or complete from the start */
};

struct planner {
    struct stage *stage;
    const struct buffer *values;
    struct gradient *gradients; /* by root */
    bool placed;                /* each gradient has its place from the start */
    int layer;                  /* whose actions are being written */
    int first_weighted;         /* first node with trained weights; its gradient needs all that the backward runs before it */
    enum ps_status status;
    struct ps_error *error;
};

static void push(struct planner *planner, struct action_list *list, struct action action) {
    if (planner->status == PS_OK)
        planner->status = memory_grow(&list->actions, &list->capacity, list->count + 1, "a stage's plan", planner->error);
    if (planner->status != PS_OK) return;
    action.layer = planner->layer;
    list->actions[list->count++] = action;
}

/* Moves a value or its gradient; nothing on a device that computes nothing. */
static void push_move(struct planner *planner, struct action_list *list, action_function *run, enum stage_half half, int root,
                      struct buffer from, struct buffer to) {
    struct stage *stage = planner->stage;
    const struct shape *shape = &stage->graph->nodes[root].shape;
    if (!stage->device->type->real) return;
    push(planner, list,
         (struct action){.run = run,
                         .half = half,
                         .from = from,
                         .to = to,
                         .count = stage->samples * shape_elements(shape),
                         .type = shape->type});
}

static void plan_forward(struct planner *planner) {
    struct stage *stage = planner->stage;
    for (int i = 0; i < stage->node_count; i++) {
        struct stage_node *node = &stage->nodes[i];
        if (node->kernel == NULL || node->fused) continue;
        planner->layer = node->node->layer;
        push(planner, &stage->forward, (struct action){.run = action_forward, .half = STAGE_BOTH, .node = node});
    }
    int cut = stage->last + 1;
    planner->layer = stage->last;
    struct stage_cut output = stage_cut(stage->graph, stage->samples, cut);
    for (int i = 0; i < graph_cut_count(stage->graph, cut); i++) {
        int root = graph_cut_values(stage->graph, cut)[i];
        struct buffer to = {BUFFER_OUTPUT, stage_cut_offset(&output, root)};
        if (planner->values[root].block == BUFFER_OUTPUT) continue;
        push_move(planner, &stage->forward, action_copy, STAGE_BOTH, root, planner->values[root], to);
    }
}

/* ---------------------------------------------------------------- backward */

/* Where the gradient of a value that crosses the cut lies. */
static struct buffer cut_gradient(const struct stage *stage, struct stage_cut *cut, int root) {
    int64_t offset = stage_cut_offset(cut, root);
    if (cut->cut == stage->first) return (struct buffer){BUFFER_INPUT_GRADIENT, offset};
    if (cut->cut == stage->last + 1) return (struct buffer){BUFFER_OUTPUT_GRADIENT, offset};
    int turn = stage->gradient_blocks == 2 ? cut->cut % 2 : 0;
    return (struct buffer){BUFFER_WORKSPACE, offset + turn * stage->gradient_block_bytes};
}

static bool has_gradient(const struct graph *graph, int root) {
    const struct node *node = &graph->nodes[root];
    return !node->data && !node->untrained && node->gradient_layer >= 0;
}

/* Of a value made before the cut: whether its gradient crosses the cut. The value may cross it for comparisons alone. */
static bool gradient_crosses(const struct graph *graph, int cut, int root) {
    return has_gradient(graph, root) && graph->nodes[root].gradient_layer >= cut;
}

bool stage_sends_exactly(const struct graph *graph, int cut, int root) {
    const struct node *node = &graph->nodes[root];
    return node->shape.type == TYPE_I32 || node->data || node->given || node->gradient_layer < cut;
}

/* Places a gradient in the first gap between those of `live` (roots, by offset) that it fits into; false: there is none. */
static bool place_gradient(struct planner *planner, int *live, int *count, int root) {
    const struct stage *stage = planner->stage;
    const int64_t bytes = stage_value_bytes(stage->graph, stage->samples, root);
    int64_t at = 0;
    int next = 0;
    for (; next < *count; next++) {
        const int64_t offset = planner->gradients[live[next]].buffer.offset;
        if (offset - at >= bytes) break;
        at = offset + stage_value_bytes(stage->graph, stage->samples, live[next]);
    }
    if (at + bytes > stage_kernel_workspace(stage)) return false;
    planner->gradients[root].buffer = (struct buffer){BUFFER_WORKSPACE, at};
    memmove(&live[next + 1], &live[next], (size_t)(*count - next) * sizeof *live);
    live[next] = root;
    ++*count;
    return true;
}

/* Places the gradients of all values that cross the stage's first cut or inner ones; false: the gaps are too small. `live` has
 * room for every node. */
static bool place_gradients(struct planner *planner, int *live) {
    const struct stage *stage = planner->stage;
    const struct graph *graph = stage->graph;
    struct stage_cut inputs = stage_cut(graph, stage->samples, stage->first);
    for (int i = 0; i < graph_cut_count(graph, stage->first); i++) {
        const int root = graph_cut_values(graph, stage->first)[i];
        planner->gradients[root].buffer = cut_gradient(stage, &inputs, root);
    }
    for (int cut = stage->last, count = 0; cut > stage->first; cut--) {
        int kept = 0;
        for (int v = 0; v < count; v++)
            if (graph->nodes[live[v]].layer <= cut) live[kept++] = live[v];
        count = kept;
        for (int i = 0; i < graph_cut_count(graph, cut); i++) {
            const int root = graph_cut_values(graph, cut)[i];
            const bool has_place =
                graph->nodes[root].layer < stage->first || (cut < stage->last && gradient_crosses(graph, cut + 1, root));
            if (!gradient_crosses(graph, cut, root) || has_place) continue;
            if (!place_gradient(planner, live, &count, root)) return false;
        }
    }
    return true;
}

/* Codecs encode numbers of several values together: those that no gradient has must not spoil the others. */
static void clear_place(struct planner *planner, struct stage_cut *cut, int root) {
    if (stage_sends_exactly(planner->stage->graph, cut->cut, root)) return;
    push_move(planner, &planner->stage->backward, action_zero, STAGE_INPUT, root, (struct buffer){0},
              cut_gradient(planner->stage, cut, root));
}

/* Gradients of the values that the layer reads from the cut before it. */
static void enter_cut(struct planner *planner, int layer) {
    const struct graph *graph = planner->stage->graph;
    struct stage_cut before = stage_cut(graph, planner->stage->samples, layer), after = before;
    after.cut = layer + 1;
    for (int i = 0; i < graph_cut_count(graph, layer); i++) {
        int root = graph_cut_values(graph, layer)[i];
        if (!gradient_crosses(graph, layer, root)) {
            if (layer == planner->stage->first && layer > 0) clear_place(planner, &before, root);
            continue;
        }
        struct gradient *gradient = &planner->gradients[root];
        const bool crosses = gradient_crosses(graph, layer + 1, root);
        if (planner->placed && crosses && layer < planner->stage->last) continue;
        if (!planner->placed) gradient->buffer = cut_gradient(planner->stage, &before, root);
        gradient->written = crosses;
        if (crosses)
            push_move(planner, &planner->stage->backward, action_copy, STAGE_INPUT, root,
                      cut_gradient(planner->stage, &after, root), gradient->buffer);
    }
}

/* Gradients of the values that the layer makes; `end` counts the workspace that they take. */
static void enter_layer(struct planner *planner, int number, int64_t *end) {
    const struct stage *stage = planner->stage;
    const struct layer *layer = &stage->graph->layers[number];
    struct stage_cut after = stage_cut(stage->graph, stage->samples, number + 1);
    for (int root = layer->node_first; root < layer->node_first + layer->node_count; root++) {
        const struct node *node = &stage->graph->nodes[root];
        if (node->root != root || !has_gradient(stage->graph, root) || (node->flags & OPERATOR_LOSS)) continue;
        struct gradient *gradient = &planner->gradients[root];
        int64_t bytes = stage_value_bytes(stage->graph, stage->samples, root);
        if (!gradient_crosses(stage->graph, number + 1, root)) {
            *gradient = (struct gradient){.buffer = buffer_carve(BUFFER_WORKSPACE, end, bytes)};
            continue;
        }
        gradient->written = true;
        if (!planner->placed || number == stage->last) gradient->buffer = cut_gradient(stage, &after, root);
    }
}

static bool is_trained(const struct stage_node *node) {
    for (int p = 0; p < node->node->parameter_count; p++)
        if (node->weights[p].block == BUFFER_WEIGHTS) return true;
    return false;
}

/* Places each input gradient of a node: where it stays, or in temporary memory from `end` on where it is to be added. Returns
 * whether the node has to compute any. */
static bool allocate_input_gradients(struct planner *planner, struct stage_node *node, bool temporary[GRAPH_INPUTS_MAX],
                                     int64_t *end) {
    const struct stage *stage = planner->stage;
    bool any = false;
    for (int i = 0; i < node->node->input_count; i++) {
        int root = stage->graph->nodes[node->node->inputs[i]].root;
        if (!has_gradient(stage->graph, root)) continue;
        struct gradient *gradient = &planner->gradients[root];
        any = true;
        temporary[i] = node->node->root != root && gradient->written;
        if (temporary[i]) {
            node->input_gradient[i] =
                buffer_carve(BUFFER_WORKSPACE, end, stage_value_bytes(stage->graph, stage->samples, root));
            continue;
        }
        gradient->written = true;
        node->input_gradient[i] = gradient->buffer;
    }
    return any;
}

static void plan_additions(struct planner *planner, struct stage_node *node, enum stage_half half,
                           const bool temporary[GRAPH_INPUTS_MAX]) {
    struct action_list *list = &planner->stage->backward;
    for (int i = 0; i < node->node->input_count; i++) {
        if (!temporary[i]) continue;
        int root = planner->stage->graph->nodes[node->node->inputs[i]].root;
        struct gradient *gradient = &planner->gradients[root];
        push_move(planner, list, action_add, half, root, node->input_gradient[i], gradient->buffer);
    }
}

/* A kernel that reads the node's output gradient in place. */
static void plan_backward(struct planner *planner, action_function *run, struct stage_node *node, enum stage_half half) {
    push(planner, &planner->stage->backward,
         (struct action){.run = run, .node = node, .half = half, .from = node->output_gradient});
}

/* The weight kernel, twice: in its place among the others, and for the split backward with the delta that it reads stored. What
 * it shares with the input's kernel is then computed again. */
static void plan_weights(struct planner *planner, struct stage_node *node) {
    struct action_list *list = &planner->stage->backward;
    struct action later = {.node = node, .half = STAGE_WEIGHTS_SPLIT, .from = node->delta};
    plan_backward(planner, action_backward_weight, node, STAGE_WEIGHTS);
    if (node->delta.block != BUFFER_NONE)
        push_move(planner, list, action_copy, STAGE_KEEP, node->node->root, node->output_gradient, node->delta);
    if (kernel_has(node->kernel, KERNEL_BACKWARD_SHARED)) {
        later.run = action_backward_shared;
        push(planner, list, later);
    }
    later.run = action_backward_weight;
    push(planner, list, later);
}

/* The gradients of trained parameters whose node's output has none. */
static void clear_weights(struct planner *planner, const struct stage_node *node) {
    const bool real = planner->stage->device->type->real;
    for (int p = 0; p < node->node->parameter_count && real; p++)
        if (node->weights[p].block == BUFFER_WEIGHTS)
            push(planner, &planner->stage->backward,
                 (struct action){.run = action_zero,
                                 .half = STAGE_WEIGHTS | STAGE_WEIGHTS_SPLIT,
                                 .to = node->gradients[p],
                                 .count = node->kernel->parameter_bytes[p] / (int64_t)sizeof(float),
                                 .type = TYPE_F32});
}

/* Returns where the node's temporary memory ends. */
static int64_t plan_node_backward(struct planner *planner, int index, int64_t scratch) {
    struct stage *stage = planner->stage;
    struct stage_node *node = &stage->nodes[index - stage->node_first];
    const struct kernel *kernel = node->kernel;
    int64_t weights_end = scratch, inputs_end = scratch;
    if (node->node->gradient_layer < 0 || node->node->data) {
        clear_weights(planner, node);
        return scratch;
    }
    bool trained = is_trained(node) || !stage->device->type->real;
    for (int p = 0; p < node->node->parameter_count && trained; p++) {
        if (node->weights[p].block == BUFFER_NONE) continue;
        node->added_gradients[p] = buffer_carve(BUFFER_WORKSPACE, &weights_end, node->kernel->parameter_bytes[p]);
        /* A kernel writes all gradients; that of a fixed parameter is not used. */
        if (node->weights[p].block == BUFFER_STATISTICS) node->gradients[p] = node->added_gradients[p];
    }
    bool in_place = node->node->root != index, temporary[GRAPH_INPUTS_MAX] = {false};
    node->output_gradient = planner->gradients[node->node->root].buffer;
    bool wanted = allocate_input_gradients(planner, node, temporary, &inputs_end) || !stage->device->type->real;
    enum stage_half input_half = index > planner->first_weighted ? STAGE_BOTH : STAGE_INPUT;
    bool has_weight = kernel_has(kernel, KERNEL_BACKWARD_WEIGHT) && trained,
         has_input = kernel_has(kernel, KERNEL_BACKWARD_INPUT) && wanted;
    if (kernel_has(kernel, KERNEL_BACKWARD_SHARED) && (has_weight || has_input))
        plan_backward(planner, action_backward_shared, node, STAGE_BOTH);
    if (has_weight && in_place) plan_weights(planner, node);
    if (has_input) plan_backward(planner, action_backward_input, node, input_half);
    plan_additions(planner, node, input_half, temporary);
    if (has_weight && !in_place) plan_weights(planner, node);
    return inputs_end > weights_end ? inputs_end : weights_end;
}

static void plan_layer_backward(struct planner *planner, int number, int64_t scratch) {
    struct stage *stage = planner->stage;
    const struct layer *layer = &stage->graph->layers[number];
    planner->layer = number;
    enter_cut(planner, number);
    enter_layer(planner, number, &scratch);
    int64_t end = scratch;
    for (int i = layer->node_first + layer->node_count - 1; i >= layer->node_first; i--) {
        if (stage->nodes[i - stage->node_first].kernel == NULL) continue;
        int64_t node_end = plan_node_backward(planner, i, scratch);
        if (node_end > end) end = node_end;
    }
    if (end > stage->sizes.workspace_bytes) stage->sizes.workspace_bytes = end;
}

enum ps_status stage_plan(struct stage *stage, const struct buffer *values, const int64_t *scratch, struct ps_error *error) {
    struct planner planner = {.stage = stage, .values = values, .first_weighted = stage->graph->node_count, .error = error};
    struct arena arena = {0};
    const size_t nodes = (size_t)stage->graph->node_count;
    planner.gradients = arena_take(&arena, nodes, sizeof *planner.gradients);
    int *live = arena_take(&arena, nodes, sizeof *live);
    TRY(arena_check(&arena, "a stage's plan", error));
    planner.placed = place_gradients(&planner, live);
    for (int i = stage->node_count - 1; i >= 0; i--) {
        if (is_trained(&stage->nodes[i])) planner.first_weighted = stage->node_first + i;
    }
    plan_forward(&planner);
    for (int l = stage->last; l >= stage->first; l--) plan_layer_backward(&planner, l, scratch[l - stage->first]);
    arena_release(&arena);
    return planner.status;
}
