/*
 * A graph of costs as a network of the nodes that count, and its nodes in groups.
 *
 * Groups are pieces of one topological order, so that what lies between them has no cycle. The order goes into the depth, which
 * keeps the nodes of a branch together: at first a group ends where a branch does, and has at most two nodes of it, then four,
 * and so on; when all branches are whole, neighbours are joined.
 */
#include "plan/network.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"

void network_free(struct network *network) {
    free(network->time_ns);
    free(network->weight_bytes);
    free(network->value_bytes);
    free(network->successor_first);
    free(network->successors);
    free(network->predecessor_first);
    free(network->predecessors);
    free(network->order);
    free(network->group);
    free(network->group_first);
}

/* Which nodes count: place[n] is a node's number among them, -1 for inputs and for ends without cost. */
static int choose_nodes(const struct costgraph *graph, int *place) {
    int count = 0;
    for (int n = graph->node_count - 1; n >= 0; n--) {
        const struct costgraph_node *node = &graph->nodes[n];
        bool read = false;
        for (int e = graph->edge_first[n]; e < graph->edge_first[n + 1]; e++) read |= place[graph->edges[e].to] >= 0;
        place[n] = node->input || (!read && node->forward_s + node->backward_s == 0 && node->parameter_bytes == 0) ? -1 : 0;
    }
    for (int n = 0; n < graph->node_count; n++)
        if (place[n] >= 0) place[n] = count++;
    return count;
}

static void fill_network(struct network *network, const struct costgraph *graph, const int *place, int *nodes) {
    for (int n = 0; n < graph->node_count; n++) {
        if (place[n] < 0) continue;
        nodes[place[n]] = n;
        network->time_ns[place[n]] =
            number_nanoseconds(graph->nodes[n].forward_s) + number_nanoseconds(graph->nodes[n].backward_s);
        network->weight_bytes[place[n]] = graph->nodes[n].parameter_bytes;
        network->value_bytes[place[n]] = graph->nodes[n].activation_bytes;
    }
    for (int e = 0; e < graph->edge_count; e++) {
        int from = place[graph->edges[e].from], to = place[graph->edges[e].to];
        if (from < 0 || to < 0) continue;
        network->successor_first[from + 1]++;
        network->predecessor_first[to + 1]++;
    }
    for (int n = 0; n < network->count; n++) {
        network->successor_first[n + 1] += network->successor_first[n];
        network->predecessor_first[n + 1] += network->predecessor_first[n];
    }
    /* One place ahead while filling, so that the offsets end where they belong. */
    for (int n = network->count; n > 0; n--) {
        network->successor_first[n] = network->successor_first[n - 1];
        network->predecessor_first[n] = network->predecessor_first[n - 1];
    }
    for (int e = 0; e < graph->edge_count; e++) {
        int from = place[graph->edges[e].from], to = place[graph->edges[e].to];
        if (from < 0 || to < 0) continue;
        network->successors[network->successor_first[from + 1]++] = to;
        network->predecessors[network->predecessor_first[to + 1]++] = from;
    }
}

enum ps_status network_make(const struct costgraph *graph, struct network *network, int **nodes, struct ps_error *error) {
    size_t all = (size_t)graph->node_count + 2, edges = (size_t)graph->edge_count + 1;
    int *place = malloc(all * sizeof *place);
    *nodes = malloc(all * sizeof **nodes);
    *network = (struct network){.time_ns = malloc(all * sizeof(int64_t)),
                                .weight_bytes = malloc(all * sizeof(int64_t)),
                                .value_bytes = malloc(all * sizeof(int64_t)),
                                .successor_first = calloc(all, sizeof(int)),
                                .successors = malloc(edges * sizeof(int)),
                                .predecessor_first = calloc(all, sizeof(int)),
                                .predecessors = malloc(edges * sizeof(int)),
                                .size = 1,
                                .order = malloc(all * sizeof(int)),
                                .group = malloc(all * sizeof(int)),
                                .group_first = malloc(all * sizeof(int))};
    bool enough = place && *nodes && network->time_ns && network->weight_bytes && network->value_bytes &&
                  network->successor_first && network->successors && network->predecessor_first && network->predecessors &&
                  network->order && network->group && network->group_first;
    if (enough) {
        network->count = choose_nodes(graph, place);
        fill_network(network, graph, place, *nodes);
        network->group_count = network->count;
        for (int n = 0; n <= network->count; n++) network->order[n] = network->group[n] = network->group_first[n] = n;
    }
    free(place);
    return enough ? PS_OK : error_memory(error, "the graph of a network", all * sizeof(int64_t));
}

/* ------------------------------------------------------------------- groups */

/* What can come next is taken from the end of a stack, so that a branch is followed as far as it goes. */
static void order_by_depth(struct network *network, int *waiting, int *stack) {
    int depth = 0, done = 0;
    for (int n = network->count - 1; n >= 0; n--) {
        waiting[n] = network->predecessor_first[n + 1] - network->predecessor_first[n];
        if (waiting[n] == 0) stack[depth++] = n;
    }
    while (depth > 0) {
        int node = stack[--depth];
        network->order[done++] = node;
        for (int s = network->successor_first[node + 1] - 1; s >= network->successor_first[node]; s--)
            if (--waiting[network->successors[s]] == 0) stack[depth++] = network->successors[s];
    }
}

/* Does only `next` read `node`, and nothing else? */
static bool in_a_row(const struct network *network, int node, int next) {
    int first = network->successor_first[node], from = network->predecessor_first[next];
    return network->successor_first[node + 1] - first == 1 && network->successors[first] == next &&
           network->predecessor_first[next + 1] - from == 1;
}

static void join_in_branches(struct network *network) {
    int count = 0;
    for (int i = 0; i < network->count; i++) {
        bool goes_on = i > 0 && i - network->group_first[count - 1] < network->size &&
                       in_a_row(network, network->order[i - 1], network->order[i]);
        if (!goes_on) network->group_first[count++] = i;
    }
    network->group_first[count] = network->count;
    network->group_count = count;
}

static void join_shared_peers(struct network *network) {
    int count = 0;
    for (int g = 0; g < network->group_count; g += 2) network->group_first[count++] = network->group_first[g];
    network->group_first[count] = network->count;
    network->group_count = count;
}

enum ps_status network_join(struct network *network, struct ps_error *error) {
    int before = network->group_count;
    if (before <= 1) return error_set(error, PS_NO_PLAN, "the graph's nodes are one group already");
    if (network->size == 1) {
        int *scratch = malloc(2 * (size_t)network->count * sizeof *scratch);
        if (!scratch) return error_memory(error, "the graph of a network", 2 * (size_t)network->count * sizeof *scratch);
        order_by_depth(network, scratch, scratch + network->count);
        free(scratch);
    }
    if (network->size < network->count) {
        network->size *= 2;
        join_in_branches(network);
    }
    if (network->group_count == before) {
        network->size = network->count;
        join_shared_peers(network);
    }
    for (int g = 0; g < network->group_count; g++)
        for (int i = network->group_first[g]; i < network->group_first[g + 1]; i++) network->group[network->order[i]] = g;
    return PS_OK;
}
