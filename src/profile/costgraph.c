/*
 * From a graph of costs to a chain of layers. The chain has the topological order in which the next node is always the possible
 * one with the smallest number. A node without time belongs to the layer of the next node with time. Input nodes are left out.
 * A cut carries every value that is made before it and used after it, once.
 */
#include <stdlib.h>
#include <string.h>

#include "profile/costgraph.h"

static int compare_edges(const void *a, const void *b) {
    const struct costgraph_edge *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return (x->to > y->to) - (x->to < y->to);
}

/* Sorts the edges, drops repeated ones and fills the offsets. */
static void index_edges(struct costgraph *graph) {
    qsort(graph->edges, (size_t)graph->edge_count, sizeof *graph->edges, compare_edges);
    int kept = 0;
    for (int e = 0; e < graph->edge_count; e++)
        if (kept == 0 || compare_edges(&graph->edges[kept - 1], &graph->edges[e]) != 0) graph->edges[kept++] = graph->edges[e];
    graph->edge_count = kept;
    int edge = 0;
    for (int n = 0; n <= graph->node_count; n++) {
        while (edge < kept && graph->edges[edge].from < n) edge++;
        graph->edge_first[n] = edge;
    }
}

/* A heap of nodes that may come next: smallest (number, index) on top. */
struct ready {
    const struct costgraph_node *nodes;
    int *heap, count;
};

static bool before(const struct ready *ready, int a, int b) {
    int64_t x = ready->nodes[a].number, y = ready->nodes[b].number;
    return x != y ? x < y : a < b;
}

static void ready_push(struct ready *ready, int node) {
    int i = ready->count++;
    for (; i > 0 && before(ready, node, ready->heap[(i - 1) / 2]); i = (i - 1) / 2) ready->heap[i] = ready->heap[(i - 1) / 2];
    ready->heap[i] = node;
}

static int ready_pop(struct ready *ready) {
    int top = ready->heap[0], node = ready->heap[--ready->count], i = 0;
    for (;;) {
        int child = 2 * i + 1;
        if (child >= ready->count) break;
        if (child + 1 < ready->count && before(ready, ready->heap[child + 1], ready->heap[child])) child++;
        if (!before(ready, ready->heap[child], node)) break;
        ready->heap[i] = ready->heap[child];
        i = child;
    }
    ready->heap[i] = node;
    return top;
}

/* Fills place[node] with its position in the topological order; returns how many nodes have one (fewer than all: a cycle). */
static int topological_places(const struct costgraph *graph, int *place, int *waiting, int *heap) {
    struct ready ready = {.nodes = graph->nodes, .heap = heap};
    for (int n = 0; n < graph->node_count; n++) waiting[n] = 0, place[n] = -1;
    for (int e = 0; e < graph->edge_count; e++) waiting[graph->edges[e].to]++;
    for (int n = 0; n < graph->node_count; n++)
        if (waiting[n] == 0) ready_push(&ready, n);
    int done = 0;
    while (ready.count > 0) {
        int node = ready_pop(&ready);
        place[node] = done++;
        for (int e = graph->edge_first[node]; e < graph->edge_first[node + 1]; e++)
            if (--waiting[graph->edges[e].to] == 0) ready_push(&ready, graph->edges[e].to);
    }
    return done;
}

/* Reports the last line of the file with an edge of a cycle among the nodes without a position. */
static enum ps_status refuse_cycle(const struct costgraph *graph, const int *place, int *edge_to, struct ps_error *error) {
    int node = 0;
    for (int e = 0; e < graph->edge_count; e++)
        if (place[graph->edges[e].from] < 0) edge_to[graph->edges[e].to] = e;
    while (place[node] >= 0) node++;
    /* each reads from another such node, so following the edges backwards ends on a cycle */
    for (int steps = 0; steps < graph->node_count; steps++) node = graph->edges[edge_to[node]].from;
    const struct costgraph_edge *last = &graph->edges[edge_to[node]];
    for (int n = last->from; n != node; n = graph->edges[edge_to[n]].from)
        if (graph->edges[edge_to[n]].line > last->line) last = &graph->edges[edge_to[n]];
    error_set(error, PS_BAD_INPUT, "edge: '%s -- %s' closes a cycle; edges must lead from a node to later ones",
              graph->nodes[last->from].name, graph->nodes[last->to].name);
    if (last->line > 0) error_prefix(error, "line %d", last->line);
    return PS_BAD_INPUT;
}

/* `scratch`: three numbers per node; `nodes`: as they were given. */
static enum ps_status sort_nodes(struct costgraph *graph, const struct costgraph_node *nodes, int *scratch,
                                 struct ps_error *error) {
    int *place = scratch, *more = scratch + graph->node_count;
    if (topological_places(graph, place, more, more + graph->node_count) < graph->node_count)
        return refuse_cycle(graph, place, more, error);
    for (int n = 0; n < graph->node_count; n++) graph->nodes[place[n]] = nodes[n];
    for (int e = 0; e < graph->edge_count; e++) {
        graph->edges[e].from = place[graph->edges[e].from];
        graph->edges[e].to = place[graph->edges[e].to];
    }
    index_edges(graph);
    return PS_OK;
}

/* One layer per node that takes time; zero-time nodes at the end belong to the last layer. */
static enum ps_status form_layers(struct costgraph *graph, struct ps_error *error) {
    int layer = 0;
    for (int n = 0; n < graph->node_count; n++) {
        struct costgraph_node *node = &graph->nodes[n];
        node->layer = node->input ? -1 : layer;
        if (!node->input && node->forward_s + node->backward_s > 0) layer++;
    }
    if (layer == 0) {
        const struct costgraph_node *last = &graph->nodes[graph->node_count - 1];
        error_set(error, PS_BAD_INPUT, "'%s' takes no time, nor does any other node", last->name);
        if (last->line > 0) error_prefix(error, "line %d", last->line);
        return PS_BAD_INPUT;
    }
    for (int n = 0; n < graph->node_count; n++)
        if (graph->nodes[n].layer == layer) graph->nodes[n].layer = layer - 1;
    graph->layer_count = layer;
    return PS_OK;
}

enum ps_status costgraph_create(const struct costgraph_node *nodes, int node_count, const struct costgraph_edge *edges,
                                int edge_count, struct costgraph **graph, struct ps_error *error) {
    struct arena arena = {0};
    size_t count = (size_t)node_count;
    struct costgraph *made = arena_take(&arena, 1, sizeof *made);
    struct costgraph parts = {.nodes = arena_copy(&arena, nodes, count, sizeof *nodes),
                              .node_count = node_count,
                              .edges = arena_copy(&arena, edges, (size_t)edge_count, sizeof *edges),
                              .edge_count = edge_count,
                              .edge_first = arena_take(&arena, count + 1, sizeof *parts.edge_first)};
    int *scratch = arena_take(&arena, 3 * count, sizeof *scratch);
    TRY(arena_check(&arena, "a graph of costs", error));
    *made = parts;
    made->arena = arena;
    index_edges(made);
    enum ps_status status = sort_nodes(made, nodes, scratch, error);
    if (status == PS_OK) status = form_layers(made, error);
    if (status == PS_OK)
        *graph = made;
    else
        costgraph_destroy(made);
    return status;
}

void costgraph_destroy(struct costgraph *graph) {
    if (!graph) return;
    struct arena arena = graph->arena;
    arena_release(&arena);
}

/* The last layer that reads the node's value; its own layer if there is none. Inputs have no value. */
static int last_reader(const struct costgraph *graph, int node) {
    int reader = graph->nodes[node].layer;
    for (int e = graph->edge_first[node]; e < graph->edge_first[node + 1]; e++)
        if (graph->nodes[graph->edges[e].to].layer > reader) reader = graph->nodes[graph->edges[e].to].layer;
    return reader;
}

int64_t costgraph_cut_bytes(const struct costgraph *graph, int layer) {
    int64_t bytes = 0;
    for (int n = 0; n < graph->node_count; n++) {
        const struct costgraph_node *node = &graph->nodes[n];
        if (!node->input && node->layer <= layer && last_reader(graph, n) > layer) bytes += node->activation_bytes;
    }
    return bytes;
}

/* A layer keeps the value of the previous layer and those of its own nodes' values that only it uses. Its weights are those of
 * its nodes. Half of the backward's time counts for the input's gradient, half for the weights'. */
static void fill_table(const struct costgraph *graph, struct cost_table *table) {
    for (int n = 0; n < graph->node_count; n++) {
        const struct costgraph_node *node = &graph->nodes[n];
        if (node->input) continue;
        struct layer_cost *layer = &table->layers[node->layer];
        layer->time.forward_s += node->forward_s;
        layer->time.backward_input_s += node->backward_s / 2;
        layer->time.backward_weight_s += node->backward_s / 2;
        layer->size.parameter_bytes += node->parameter_bytes;
        if (node->parameter_bytes > 0) layer->size.delta_bytes += node->activation_bytes;
        int reader = last_reader(graph, n);
        if (reader > node->layer)
            layer->size.value_bytes += node->activation_bytes;
        else
            layer->size.stash_bytes += node->activation_bytes;
        for (int l = node->layer; l < reader; l++) table->layers[l].size.output_bytes += node->activation_bytes;
        if (node->forward_s + node->backward_s > 0) {
            memcpy(layer->name, node->name, sizeof layer->name);
            memcpy(layer->kind, node->kind, sizeof layer->kind);
        }
    }
    for (int l = table->layer_count - 1; l > 0; l--) table->layers[l].size.stash_bytes += table->layers[l - 1].size.value_bytes;
}

enum ps_status costgraph_profile(struct costgraph *graph, struct ps_profile **profile, struct ps_error *error) {
    struct ps_profile *made;
    enum ps_status status = profile_create(1, graph->layer_count, &made, error);
    if (status != PS_OK) {
        costgraph_destroy(graph);
        return status;
    }
    made->graph = graph;
    fill_table(graph, &made->tables[0]);
    return profile_finish(made, PS_OK, 0, profile, error);
}

static enum ps_status place_nodes(const struct costgraph *graph, const int *place, struct costgraph_node *nodes,
                                  struct ps_error *error) {
    for (int n = 0; n < graph->node_count; n++) {
        nodes[n] = graph->nodes[n];
        bool timed = nodes[n].forward_s + nodes[n].backward_s > 0;
        if (!nodes[n].input) nodes[n].layer = timed ? place[nodes[n].layer] : 0;
    }
    /* Nodes are in topological order: everything that a node reads is placed before it. */
    for (int n = 0; n < graph->node_count; n++)
        for (int e = graph->edge_first[n]; e < graph->edge_first[n + 1]; e++) {
            struct costgraph_node *reader = &nodes[graph->edges[e].to];
            if (reader->input || reader->layer >= nodes[n].layer) continue;
            if (reader->forward_s + reader->backward_s > 0)
                return error_set(error, PS_USAGE, "order: '%s' comes before '%s', which it reads", reader->name, nodes[n].name);
            reader->layer = nodes[n].layer;
        }
    return PS_OK;
}

enum ps_status costgraph_reorder(const struct costgraph *graph, const int *place, struct ps_profile **profile,
                                 struct ps_error *error) {
    struct ps_profile *made;
    struct arena arena = {0};
    struct costgraph placed = *graph;
    placed.nodes = arena_take(&arena, (size_t)graph->node_count, sizeof *placed.nodes);
    TRY(arena_check(&arena, "a graph of costs", error));
    enum ps_status status = place_nodes(graph, place, placed.nodes, error);
    if (status == PS_OK) status = profile_create(1, graph->layer_count, &made, error);
    if (status == PS_OK) {
        fill_table(&placed, &made->tables[0]);
        *profile = made;
    }
    arena_release(&arena);
    return status;
}
