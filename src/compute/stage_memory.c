/*
 * Where things lie in a stage's blocks.
 *
 * A value lies where it stays until the backward: the stage's input in the input block, the values that the stage computes in
 * the stash, layer by layer, together with the inner memory of each kernel. Two kinds need no stash: the last layer's values,
 * written directly into the output block unless their own backward reads them (then they lie in the stash and are copied), and
 * values inside a layer that no backward reads, which lie in the workspace.
 *
 * The workspace, from its start: one or two blocks for gradients of inner cuts; the kernels' workspace; then, in a forward,
 * those values, and in a backward, gradients and temporary memory (stage_plan.c).
 */
#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"
#include "compute/stage_plan.h"

int64_t stage_value_bytes(const struct graph *graph, int samples, int root) {
    return (int64_t)memory_align((size_t)(samples * graph_value_bytes(graph, root)));
}

int64_t stage_cut_bytes(const struct graph *graph, int samples, int cut) {
    int64_t bytes = 0;
    const int *values = graph_cut_values(graph, cut);
    for (int i = 0; i < graph_cut_count(graph, cut); i++) bytes += stage_value_bytes(graph, samples, values[i]);
    return bytes;
}

bool stage_crosses(const struct graph *graph, int cut, int root) {
    const int *values = graph_cut_values(graph, cut);
    int low = 0, end = graph_cut_count(graph, cut);
    while (end - low > 1) {
        const int middle = low + (end - low) / 2;
        *(values[middle] <= root ? &low : &end) = middle;
    }
    return end > low && values[low] == root;
}

struct stage_cut stage_cut(const struct graph *graph, int samples, int cut) {
    return (struct stage_cut){.graph = graph, .samples = samples, .cut = cut};
}

int64_t stage_cut_offset(struct stage_cut *cut, int root) {
    const int *values = graph_cut_values(cut->graph, cut->cut);
    for (; values[cut->at] != root; cut->at++) {
        assert(cut->at < graph_cut_count(cut->graph, cut->cut));
        cut->offset += stage_value_bytes(cut->graph, cut->samples, values[cut->at]);
    }
    return cut->offset;
}

void stage_pack_inputs(const struct stage *stage, const void *samples, void *block) {
    const struct graph *graph = stage->graph;
    const size_t sample = (size_t)graph_cut_bytes(graph, 0);
    const char *from = samples;
    struct stage_cut inputs = stage_cut(graph, stage->samples, 0);
    for (int i = 0; i < graph->input_count; i++) {
        const size_t bytes = (size_t)graph_value_bytes(graph, i);
        char *to = (char *)block + stage_cut_offset(&inputs, i);
        for (int n = 0; n < stage->samples; n++) memcpy(to + (size_t)n * bytes, from + (size_t)n * sample, bytes);
        from += bytes;
    }
}

struct buffer buffer_carve(enum buffer_block block, int64_t *used, int64_t bytes) {
    struct buffer buffer = {block, *used};
    *used += (int64_t)memory_align((size_t)bytes);
    return buffer;
}

/* Where an earlier use in the stage has the shared parameter; NULL: there is none. */
static const struct buffer *find_earlier(const struct stage *stage, const struct parameter *tied) {
    for (int i = 0; i < stage->node_count; i++)
        for (int p = 0; p < stage->nodes[i].node->parameter_count; p++) {
            const struct parameter *own = &stage->graph->parameters[stage->nodes[i].node->parameter_first + p];
            if (own == tied) return NULL;
            if (parameter_is_shared(own) && strcmp(own->name, tied->name) == 0) return &stage->nodes[i].weights[p];
        }
    return NULL;
}

/* Fixed parameters lie behind the running statistics, which are averaged over replicas. */
static void allocate_fixed(struct stage *stage) {
    int64_t end = stage->sizes.statistics_bytes;
    for (int i = 0; i < stage->node_count; i++)
        for (int p = 0; p < stage->nodes[i].node->parameter_count; p++)
            if (stage->graph->parameters[stage->nodes[i].node->parameter_first + p].role == PARAMETER_FIXED)
                stage->nodes[i].weights[p] =
                    buffer_carve(BUFFER_STATISTICS, &end, kernel_weight_bytes(stage->nodes[i].kernel, p));
    stage->sizes.fixed_bytes = end - stage->sizes.statistics_bytes;
}

/* Parameters whose copies are of the type; `repeated` counts the gradients of further uses. */
static void allocate_of_type(struct stage *stage, enum number_type type, int64_t *repeated) {
    for (int i = 0; i < stage->node_count; i++) {
        struct stage_node *node = &stage->nodes[i];
        for (int p = 0; p < node->node->parameter_count; p++) {
            int64_t bytes = node->kernel->parameter_bytes[p];
            const struct parameter *parameter = &stage->graph->parameters[node->node->parameter_first + p];
            const struct buffer *earlier = parameter->tied ? find_earlier(stage, parameter) : NULL;
            if (parameter->role == PARAMETER_FIXED || parameter->copy != type) continue;
            if (earlier) {
                node->weights[p] = *earlier;
                node->gradients[p] = buffer_carve(BUFFER_REPEATED, repeated, bytes);
            } else if (parameter->role == PARAMETER_STATISTIC) {
                node->statistics[p] = buffer_carve(BUFFER_STATISTICS, &stage->sizes.statistics_bytes, bytes);
            } else {
                node->weights[p] = buffer_carve(BUFFER_WEIGHTS, &stage->sizes.parameter_bytes, bytes);
                node->gradients[p] = (struct buffer){BUFFER_GRADIENTS, node->weights[p].offset};
            }
        }
    }
}

/* A shared parameter lies where the stage's first use has it. Each use has a gradient of its own, so that those of several
 * micro-batches are added up as on several stages; those of further uses follow all others. */
static void allocate_parameters(struct stage *stage) {
    int64_t repeated = 0;
    allocate_of_type(stage, TYPE_F32, &repeated);
    const int64_t wide = stage->sizes.parameter_bytes, repeated_wide = repeated;
    allocate_of_type(stage, TYPE_BF16, &repeated);
    stage->sizes.narrow_bytes = stage->sizes.parameter_bytes - wide;
    stage->repeated_narrow_bytes = repeated - repeated_wide;
    for (int i = 0; i < stage->node_count && repeated > 0; i++)
        for (int p = 0; p < stage->nodes[i].node->parameter_count; p++) {
            struct buffer *gradient = &stage->nodes[i].gradients[p];
            if (gradient->block != BUFFER_REPEATED) continue;
            *gradient = (struct buffer){BUFFER_GRADIENTS, stage->sizes.parameter_bytes + gradient->offset};
        }
    stage->sizes.repeated_gradient_bytes = repeated;
    allocate_fixed(stage);
}

/* Nodes with trained weights keep their output's gradient where the backward is split. */
static void allocate_deltas(struct stage *stage) {
    for (int i = 0; i < stage->node_count; i++) {
        struct stage_node *node = &stage->nodes[i];
        bool weighted = false;
        for (int p = 0; p < node->node->parameter_count; p++) weighted = weighted || node->weights[p].block == BUFFER_WEIGHTS;
        int64_t bytes = stage_value_bytes(stage->graph, stage->samples, node->node->root);
        if (weighted) node->delta = buffer_carve(BUFFER_DELTA, &stage->sizes.delta_bytes, bytes);
    }
}

/* Does a stage that ends with `layer` compute the value in its output block? */
static bool made_in_output(const struct graph *graph, int layer, int root) {
    return graph->nodes[root].layer == layer && !graph_output_kept_by_own_layer(graph, root);
}

int64_t stage_copied_bytes(const struct graph *graph, int samples, int layer) {
    int64_t bytes = 0;
    const int *values = graph_cut_values(graph, layer + 1);
    for (int i = 0; i < graph_cut_count(graph, layer + 1); i++)
        if (!made_in_output(graph, layer, values[i])) bytes += samples * graph_value_bytes(graph, values[i]);
    return bytes;
}

/* The place of a value that `layer` computes; `workspace` counts what the layer's forward takes of it, `after` is the cut after
 * the layer. */
static struct buffer allocate_value(struct stage *stage, int layer, int root, struct stage_cut *after, int64_t *workspace) {
    const struct graph *graph = stage->graph;
    int64_t bytes = stage_value_bytes(graph, stage->samples, root);
    bool crosses = stage_crosses(graph, layer + 1, root);
    if (crosses && layer == stage->last && made_in_output(graph, layer, root))
        return (struct buffer){BUFFER_OUTPUT, stage_cut_offset(after, root)};
    if (crosses || graph_output_kept_by_own_layer(graph, root))
        return buffer_carve(BUFFER_STASH, &stage->sizes.stash_bytes, bytes);
    return buffer_carve(BUFFER_WORKSPACE, workspace, bytes);
}

/* Values and inner memory of one layer; returns where its kernels' workspace ends. */
static int64_t allocate_layer(struct stage *stage, int number, struct buffer *values) {
    const struct layer *layer = &stage->graph->layers[number];
    struct stage_node *nodes = stage->nodes + (layer->node_first - stage->node_first);
    int64_t kernels = 0, start = stage_kernel_workspace(stage);
    for (int i = 0; i < layer->node_count; i++) {
        if (nodes[i].kernel != NULL) kernels = number_larger(kernels, nodes[i].kernel->workspace_bytes);
    }
    int64_t scratch = start + (int64_t)memory_align((size_t)kernels), end = scratch;
    struct stage_cut after = stage_cut(stage->graph, stage->samples, number + 1);
    for (int i = 0; i < layer->node_count; i++) {
        struct stage_node *node = &nodes[i];
        int root = node->node->root;
        if (root == layer->node_first + i) values[root] = allocate_value(stage, number, root, &after, &end);
        if (node->kernel != NULL) {
            node->inner = buffer_carve(BUFFER_STASH, &stage->sizes.stash_bytes, node->kernel->inner_bytes);
        }
    }
    stage->sizes.workspace_bytes = number_larger(stage->sizes.workspace_bytes, end);
    return scratch;
}

void stage_allocate(struct stage *stage, struct buffer *values, int64_t *scratch) {
    const struct graph *graph = stage->graph;
    int inner_cuts = stage->last - stage->first;
    stage->gradient_blocks = inner_cuts < 2 ? inner_cuts : 2;
    for (int cut = stage->first + 1; cut <= stage->last; cut++) {
        stage->gradient_block_bytes = number_larger(stage->gradient_block_bytes, stage_cut_bytes(graph, stage->samples, cut));
    }
    stage->sizes.input_bytes = stage_cut_bytes(graph, stage->samples, stage->first);
    stage->sizes.output_bytes = stage_cut_bytes(graph, stage->samples, stage->last + 1);
    struct stage_cut inputs = stage_cut(graph, stage->samples, stage->first);
    for (int i = 0; i < graph_cut_count(graph, stage->first); i++) {
        int root = graph_cut_values(graph, stage->first)[i];
        values[root] = (struct buffer){BUFFER_INPUT, stage_cut_offset(&inputs, root)};
    }
    allocate_parameters(stage);
    stage->sizes.tied_bytes = stage_outside_bytes(stage);
    allocate_deltas(stage);
    for (int l = stage->first; l <= stage->last; l++) scratch[l - stage->first] = allocate_layer(stage, l, values);
    for (int i = 0; i < stage->node_count; i++) {
        struct stage_node *node = &stage->nodes[i];
        int64_t state = node->kernel != NULL ? node->kernel->state_floats * node->kernel->samples * (int64_t)sizeof(float) : 0;
        if (state > 0) node->state = buffer_carve(BUFFER_STATE, &stage->state_bytes, state);
        node->output = values[node->node->root];
        for (int j = 0; j < node->node->input_count; j++) {
            node->input[j] = values[graph->nodes[node->node->inputs[j]].root];
        }
    }
}
