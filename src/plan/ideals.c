/*
 * Enumerating ideals level by level, from the empty one: an ideal of k nodes and a node that may come next give one of k + 1
 * nodes. Different ways lead to the same ideal, so a hash table finds those met before. Time, weights and crossing bytes follow
 * from the ideal before in a few steps.
 */
#include "plan/ideals.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/random.h"
#include "profile/costgraph.h"

/* A graph of costs as the enumeration of its cuts needs it (plan/ideals.h): only nodes that count, numbered from 0, in groups
 * whose nodes are on the same side of every cut. */

struct network {
    int count;
    int64_t *time_ns, *weight_bytes, *value_bytes;
    int *successor_first, *successors, *predecessor_first, *predecessors; /* each reader of a node once */
    int group_count, size;                                                /* size: nodes of a branch in one group at most */
    int *order;                                                           /* the nodes, each behind those that it reads */
    int *group_first;                                                     /* group_count + 1 offsets into order */
    int *group;                                                           /* of each node */
};

/* Each node in a group of its own; nodes[n] are their numbers in the graph (freed by the caller). Nodes at the end of the graph
 * that cost neither time nor memory are left out. On failure, too, network_free and free(nodes). */
enum ps_status network_make(const struct costgraph *graph, struct network *network, int **nodes, struct ps_error *error);
void network_free(struct network *network);

/* Fewer groups; PS_NO_PLAN: there is but one. */
enum ps_status network_join(struct network *network, struct ps_error *error);

/*
 * A graph of costs as a network of the nodes that count, and its nodes in groups.
 *
 * Groups are pieces of one topological order, so that what lies between them has no cycle. The order goes into the depth, which
 * keeps the nodes of a branch together: at first a group ends where a branch does, and has at most two nodes of it, then four,
 * and so on; when all branches are whole, neighbours are joined.
 */

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

struct growing {
    struct ideals *ideals;
    const struct network *network;
    int capacity, limit;
    uint64_t *hashes; /* per ideal: sum of its groups' random numbers */
    uint64_t *group_hash;
    int *table; /* open addressing: ideal + 1, or 0 */
    size_t table_size;
    int *ready_first; /* per ideal: the groups that may come next, in `ready` */
    int *ready;
    int ready_count, ready_capacity;
    struct edge {
        int lower, upper;
    } * edges;
    int edge_count, edge_capacity;
    uint64_t *candidate; /* one set */
};

void ideals_destroy(struct ideals *ideals) {
    if (!ideals) return;
    free(ideals->time_ns);
    free(ideals->weight_bytes);
    free(ideals->cut_bytes);
    free(ideals->cover_first);
    free(ideals->covers);
    free(ideals->nodes);
    free(ideals->members);
    free(ideals);
}

/* ------------------------------------------------------------- enumeration */

static bool grow_array(void *pointer, size_t count, size_t size) {
    void **array = pointer, *larger = realloc(*array, count * size);
    if (larger) *array = larger;
    return larger != NULL;
}

static enum ps_status reserve_ideals(struct growing *g, struct ps_error *error) {
    struct ideals *ideals = g->ideals;
    if (ideals->count + 1 < g->capacity) return PS_OK;
    int capacity = g->capacity ? 2 * g->capacity : 256;
    size_t n = (size_t)capacity;
    bool enough = grow_array(&ideals->time_ns, n, sizeof(int64_t)) && grow_array(&ideals->weight_bytes, n, sizeof(int64_t)) &&
                  grow_array(&ideals->cut_bytes, n, sizeof(int64_t)) &&
                  grow_array(&ideals->members, n * (size_t)ideals->words, sizeof(uint64_t)) &&
                  grow_array(&g->hashes, n, sizeof(uint64_t)) && grow_array(&g->ready_first, n + 1, sizeof(int));
    int *table = enough ? calloc(4 * n, sizeof *table) : NULL;
    if (!table) return error_memory(error, "the cuts of a graph", n * (size_t)ideals->words * sizeof(uint64_t));
    free(g->table);
    g->table = table;
    g->table_size = 4 * n;
    g->capacity = capacity;
    for (int i = 0; i < ideals->count; i++) {
        size_t slot = g->hashes[i] % g->table_size;
        while (table[slot]) slot = (slot + 1) % g->table_size;
        table[slot] = i + 1;
    }
    return PS_OK;
}

/* The ideal that g->candidate is, or -1; `slot` is where it is or belongs. */
static int find(const struct growing *g, uint64_t hash, size_t *slot) {
    size_t bytes = (size_t)g->ideals->words * sizeof(uint64_t);
    for (*slot = hash % g->table_size; g->table[*slot]; *slot = (*slot + 1) % g->table_size) {
        int ideal = g->table[*slot] - 1;
        if (g->hashes[ideal] != hash) continue;
        if (memcmp(&g->ideals->members[(size_t)ideal * (size_t)g->ideals->words], g->candidate, bytes) == 0) return ideal;
    }
    return -1;
}

static bool in(const uint64_t *set, int node) { return set[node / 64] >> (node % 64) & 1; }

static bool all_in(const uint64_t *set, const int *nodes, int first, int end) {
    for (int i = first; i < end; i++)
        if (!in(set, nodes[i])) return false;
    return true;
}

/* Bytes that cross the cut when `node` has joined: its own value, if read at all, and no more those that it was the last to
 * read. */
static int64_t cut_after(const struct growing *g, int64_t cut_bytes, int node) {
    const struct network *net = g->network;
    if (net->successor_first[node] < net->successor_first[node + 1]) cut_bytes += net->value_bytes[node];
    for (int p = net->predecessor_first[node]; p < net->predecessor_first[node + 1]; p++) {
        int before = net->predecessors[p];
        if (all_in(g->candidate, net->successors, net->successor_first[before], net->successor_first[before + 1]))
            cut_bytes -= net->value_bytes[before];
    }
    return cut_bytes;
}

/* Whether all that the group's nodes read is in the candidate, or in the group. */
static bool group_ready(const struct growing *g, int group) {
    const struct network *net = g->network;
    for (int i = net->group_first[group]; i < net->group_first[group + 1]; i++) {
        int node = net->order[i];
        for (int p = net->predecessor_first[node]; p < net->predecessor_first[node + 1]; p++)
            if (!in(g->candidate, net->predecessors[p]) && net->group[net->predecessors[p]] != group) return false;
    }
    return true;
}

static bool listed(const struct growing *g, int first, int group) {
    for (int r = first; r < g->ready_count; r++)
        if (g->ready[r] == group) return true;
    return false;
}

/* Groups that may come next after `from` with `group`: the others that could before, and those that only waited for it. */
static enum ps_status append_ready(struct growing *g, int from, int group, struct ps_error *error) {
    const struct network *net = g->network;
    if (g->ready_count + net->group_count >= g->ready_capacity) {
        int capacity = 2 * (g->ready_count + net->group_count) + 256;
        if (!grow_array(&g->ready, (size_t)capacity, sizeof *g->ready))
            return error_memory(error, "the cuts of a graph", (size_t)capacity * sizeof *g->ready);
        g->ready_capacity = capacity;
    }
    for (int r = g->ready_first[from]; r < g->ready_first[from + 1]; r++)
        if (g->ready[r] != group) g->ready[g->ready_count++] = g->ready[r];
    int added = g->ready_count;
    for (int i = net->group_first[group]; i < net->group_first[group + 1]; i++) {
        int node = net->order[i];
        for (int s = net->successor_first[node]; s < net->successor_first[node + 1]; s++) {
            int next = net->group[net->successors[s]];
            if (next != group && !listed(g, added, next) && group_ready(g, next)) g->ready[g->ready_count++] = next;
        }
    }
    return PS_OK;
}

static enum ps_status add_edge(struct growing *g, int lower, int upper, struct ps_error *error) {
    if (g->edge_count == g->edge_capacity) {
        int capacity = g->edge_capacity ? 2 * g->edge_capacity : 256;
        if (!grow_array(&g->edges, (size_t)capacity, sizeof *g->edges))
            return error_memory(error, "the cuts of a graph", (size_t)capacity * sizeof *g->edges);
        g->edge_capacity = capacity;
    }
    g->edges[g->edge_count++] = (struct edge){lower, upper};
    return PS_OK;
}

/* The nodes of a group join the new ideal one by one. */
static void add_group(struct growing *g, int from, int ideal, int group) {
    const struct network *net = g->network;
    struct ideals *ideals = g->ideals;
    size_t words = (size_t)ideals->words;
    uint64_t *set = g->candidate;
    memcpy(set, &ideals->members[(size_t)from * words], words * sizeof *set);
    ideals->time_ns[ideal] = ideals->time_ns[from];
    ideals->weight_bytes[ideal] = ideals->weight_bytes[from];
    ideals->cut_bytes[ideal] = ideals->cut_bytes[from];
    for (int i = net->group_first[group]; i < net->group_first[group + 1]; i++) {
        int node = net->order[i];
        set[node / 64] |= (uint64_t)1 << (node % 64);
        ideals->time_ns[ideal] += net->time_ns[node];
        ideals->weight_bytes[ideal] += net->weight_bytes[node];
        ideals->cut_bytes[ideal] = cut_after(g, ideals->cut_bytes[ideal], node);
    }
}

/* The ideal `from` and `group`. */
static enum ps_status extend(struct growing *g, int from, int group, struct ps_error *error) {
    const struct network *net = g->network;
    TRY(reserve_ideals(g, error));
    struct ideals *ideals = g->ideals;
    size_t words = (size_t)ideals->words, slot;
    uint64_t hash = g->hashes[from] + g->group_hash[group];
    memcpy(g->candidate, &ideals->members[(size_t)from * words], words * sizeof *g->candidate);
    for (int i = net->group_first[group]; i < net->group_first[group + 1]; i++)
        g->candidate[net->order[i] / 64] |= (uint64_t)1 << (net->order[i] % 64);
    int found = find(g, hash, &slot);
    if (found < 0) {
        if (ideals->count == g->limit)
            return error_set(error, PS_NO_PLAN, "the graph can be cut in more than %d ways", g->limit);
        found = ideals->count++;
        g->table[slot] = found + 1;
        g->hashes[found] = hash;
        add_group(g, from, found, group);
        memcpy(&ideals->members[(size_t)found * words], g->candidate, words * sizeof *g->candidate);
        TRY(append_ready(g, from, group, error));
        g->ready_first[found + 1] = g->ready_count;
    }
    return add_edge(g, from, found, error);
}

static enum ps_status start_empty(struct growing *g, struct ps_error *error) {
    const struct network *net = g->network;
    struct ideals *ideals = g->ideals;
    TRY(reserve_ideals(g, error));
    g->ready_capacity = net->group_count + 1;
    g->candidate = calloc((size_t)ideals->words, sizeof *g->candidate);
    g->group_hash = malloc((size_t)net->group_count * sizeof *g->group_hash);
    g->ready = malloc((size_t)g->ready_capacity * sizeof *g->ready);
    if (!g->candidate || !g->group_hash || !g->ready) return error_memory(error, "the cuts of a graph", (size_t)net->count * 8);
    struct random_key key = random_key(0, RANDOM_ORDER, 0, 0);
    for (int n = 0; n < net->group_count; n++) {
        uint32_t words[4];
        random_block(key, (uint64_t)n, words);
        g->group_hash[n] = (uint64_t)words[0] << 32 | words[1];
        if (group_ready(g, n)) g->ready[g->ready_count++] = n;
    }
    memset(ideals->members, 0, (size_t)ideals->words * sizeof *ideals->members);
    ideals->time_ns[0] = ideals->weight_bytes[0] = ideals->cut_bytes[0] = 0;
    g->hashes[0] = 0;
    g->table[0] = 1;
    g->ready_first[0] = 0;
    g->ready_first[1] = g->ready_count;
    ideals->count = 1;
    return PS_OK;
}

/* Edges, which are sorted by the lower ideal, into the lists of lower covers. */
static enum ps_status list_covers(struct ideals *ideals, const struct edge *edges, int edge_count, struct ps_error *error) {
    ideals->cover_first = calloc((size_t)ideals->count + 2, sizeof *ideals->cover_first);
    ideals->covers = malloc(((size_t)edge_count + 1) * sizeof *ideals->covers);
    if (!ideals->cover_first || !ideals->covers)
        return error_memory(error, "the cuts of a graph", (size_t)edge_count * sizeof(int));
    int *offset = ideals->cover_first + 1; /* one place ahead while filling, so that they end where they belong */
    for (int e = 0; e < edge_count; e++) offset[edges[e].upper + 1]++;
    for (int i = 0; i < ideals->count; i++) offset[i + 1] += offset[i];
    for (int e = 0; e < edge_count; e++) ideals->covers[offset[edges[e].upper]++] = edges[e].lower;
    return PS_OK;
}

static enum ps_status enumerate(struct growing *g, struct ps_error *error) {
    TRY(start_empty(g, error));
    for (int i = 0; i < g->ideals->count; i++)
        for (int r = g->ready_first[i]; r < g->ready_first[i + 1]; r++) TRY(extend(g, i, g->ready[r], error));
    return list_covers(g->ideals, g->edges, g->edge_count, error);
}

static enum ps_status ideals_of_network(const struct network *network, const int *nodes, int limit, struct ideals **ideals,
                                        struct ps_error *error) {
    struct ideals *made = calloc(1, sizeof *made);
    struct growing growing = {.ideals = made, .network = network, .limit = limit};
    enum ps_status status;
    if (!made) return error_memory(error, "the cuts of a graph", sizeof *made);
    made->nodes = malloc(((size_t)network->count + 1) * sizeof *made->nodes);
    if (!made->nodes) {
        status = error_memory(error, "the cuts of a graph", (size_t)network->count * sizeof *made->nodes);
        goto out;
    }
    memcpy(made->nodes, nodes, (size_t)network->count * sizeof *made->nodes);
    made->node_count = network->count;
    made->words = (network->count + 63) / 64;
    made->of_graph = true;
    status = enumerate(&growing, error);
out:
    free(growing.hashes);
    free(growing.group_hash);
    free(growing.table);
    free(growing.ready_first);
    free(growing.ready);
    free(growing.edges);
    free(growing.candidate);
    if (status == PS_OK)
        *ideals = made;
    else
        ideals_destroy(made);
    return status;
}

enum ps_status ideals_of_graph(const struct costgraph *graph, int limit, struct ideals **ideals, struct ps_error *error) {
    struct network network;
    int *nodes;
    enum ps_status status = network_make(graph, &network, &nodes, error);
    if (status == PS_OK) status = ideals_of_network(&network, nodes, limit, ideals, error);
    network_free(&network);
    free(nodes);
    return status;
}

enum ps_status ideals_of_joined_graph(const struct costgraph *graph, int limit, struct ideals **ideals,
                                      struct ps_error *error) {
    struct network network;
    int *nodes;
    struct ps_error refusal = {0};
    enum ps_status status = network_make(graph, &network, &nodes, &refusal), joined = PS_OK;
    if (status == PS_OK) status = ideals_of_network(&network, nodes, limit, ideals, &refusal);
    while (status == PS_NO_PLAN && joined == PS_OK) {
        joined = network_join(&network, &refusal);
        if (joined == PS_OK) status = ideals_of_network(&network, nodes, limit / 16 + 2, ideals, &refusal);
        if (status == PS_OK) (*ideals)->joined = true;
    }
    network_free(&network);
    free(nodes);
    if (joined != PS_OK) status = joined;
    if (status != PS_OK && error) *error = refusal;
    return status;
}

/* A chain is the graph of its layers in a row, each of which reads the one before; only the cuts' bytes are the table's own. */
enum ps_status ideals_of_chain(const struct cost_table *table, struct ideals **ideals, struct ps_error *error) {
    int layers = table->layer_count;
    size_t count = (size_t)layers + 1;
    struct ideals *made = calloc(1, sizeof *made);
    if (!made) return error_memory(error, "the cuts of a chain", sizeof *made);
    *made = (struct ideals){.count = layers + 1,
                            .time_ns = calloc(count, sizeof(int64_t)),
                            .weight_bytes = calloc(count, sizeof(int64_t)),
                            .cut_bytes = calloc(count, sizeof(int64_t)),
                            .cover_first = calloc(count + 1, sizeof(int)),
                            .covers = calloc(count, sizeof(int)),
                            .node_count = layers,
                            .words = (layers + 63) / 64,
                            .nodes = calloc(count, sizeof(int))};
    made->members = calloc(count * (size_t)made->words, sizeof(uint64_t));
    if (!made->time_ns || !made->weight_bytes || !made->cut_bytes || !made->cover_first || !made->covers || !made->nodes ||
        !made->members) {
        ideals_destroy(made);
        return error_memory(error, "the cuts of a chain", count * (size_t)(layers / 64 + 1) * sizeof(uint64_t));
    }
    for (int l = 0; l < layers; l++) {
        const struct layer_cost *layer = &table->layers[l];
        uint64_t *set = &made->members[(size_t)(l + 1) * (size_t)made->words];
        memcpy(set, set - made->words, (size_t)made->words * sizeof *set);
        set[l / 64] |= (uint64_t)1 << (l % 64);
        made->nodes[l] = l;
        made->time_ns[l + 1] = made->time_ns[l] + number_nanoseconds(layer->time.forward_s) +
                               number_nanoseconds(layer->time.backward_input_s + layer->time.backward_weight_s);
        made->weight_bytes[l + 1] = made->weight_bytes[l] + layer->size.parameter_bytes;
        made->cut_bytes[l + 1] = l + 1 < layers ? layer->size.output_bytes : 0;
        made->covers[l] = l;
        made->cover_first[l + 2] = l + 1;
    }
    *ideals = made;
    return PS_OK;
}
