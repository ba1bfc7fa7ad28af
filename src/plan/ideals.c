/*
 * Enumerates ideals by their size, from the empty one. An ideal of k nodes and a node that may come next give an ideal of k + 1
 * nodes. The same ideal is found in several ways, so a hash table identifies those found before. Time, weights and crossing
 * bytes follow from the smaller ideal in a few steps.
 */
#include "plan/ideals.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"
#include "base/random.h"
#include "profile/costgraph.h"

/*
 * A graph of costs, reduced to the nodes that count, which are numbered from 0. Its nodes are in groups; the nodes of a group
 * are on the same side of every cut.
 *
 * Groups are intervals of one topological order, so that the graph of the groups has no cycle. The order is depth first, which
 * keeps the nodes of a branch together. At first a group ends where a branch does, and has at most two nodes of it, then four,
 * and so on; when every branch is one group, adjacent groups are joined.
 */
struct network {
    struct arena arena; /* of everything it points to */
    int count;
    int *nodes; /* by number: the node in the graph */
    int64_t *time_ns, *weight_bytes, *value_bytes;
    int *successor_first, *successors, *predecessor_first, *predecessors; /* each reader of a node once */
    int group_count, size;                                                /* size: the most nodes of a branch in one group */
    int *order;                                                           /* the nodes in topological order */
    int *group_first;                                                     /* group_count + 1 offsets into order */
    int *group;                                                           /* of each node */
};

/* Selects the nodes that count: place[n] is a node's number among them, -1 for inputs and for ends without cost; with
 * `all_ends` for inputs and for elements that nothing reads. */
static int choose_nodes(const struct costgraph *graph, bool all_ends, int *place) {
    int count = 0;
    for (int n = graph->node_count - 1; n >= 0; n--) {
        const struct costgraph_node *node = &graph->nodes[n];
        bool read = false;
        for (int e = graph->edge_first[n]; e < graph->edge_first[n + 1]; e++) read |= place[graph->edges[e].to] >= 0;
        bool free_end = !read && node->forward_s + node->backward_s == 0 && node->parameter_bytes == 0;
        bool element = graph->edge_first[n] == graph->edge_first[n + 1] && strcmp(node->kind, "__getitem__") == 0;
        place[n] = node->input || (all_ends ? element : free_end) ? -1 : 0;
    }
    for (int n = 0; n < graph->node_count; n++)
        if (place[n] >= 0) place[n] = count++;
    return count;
}

static void fill_network(struct network *network, const struct costgraph *graph, const int *place) {
    for (int n = 0; n < graph->node_count; n++) {
        if (place[n] < 0) continue;
        network->nodes[place[n]] = n;
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
    /* One position ahead during the filling, so that the offsets are correct at the end. */
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

/* Each node in a group of its own. */
static enum ps_status network_make(const struct costgraph *graph, bool all_ends, struct network *network,
                                   struct ps_error *error) {
    size_t all = (size_t)graph->node_count + 2, edges = (size_t)graph->edge_count + 1;
    struct arena arena = {0};
    int *place = arena_take(&arena, all, sizeof *place);
    *network = (struct network){.nodes = arena_take(&arena, all, sizeof(int)),
                                .time_ns = arena_take(&arena, all, sizeof(int64_t)),
                                .weight_bytes = arena_take(&arena, all, sizeof(int64_t)),
                                .value_bytes = arena_take(&arena, all, sizeof(int64_t)),
                                .successor_first = arena_take(&arena, all, sizeof(int)),
                                .successors = arena_take(&arena, edges, sizeof(int)),
                                .predecessor_first = arena_take(&arena, all, sizeof(int)),
                                .predecessors = arena_take(&arena, edges, sizeof(int)),
                                .size = 1,
                                .order = arena_take(&arena, all, sizeof(int)),
                                .group = arena_take(&arena, all, sizeof(int)),
                                .group_first = arena_take(&arena, all, sizeof(int))};
    TRY(arena_check(&arena, "the graph of a network", error));
    network->arena = arena;
    network->count = network->group_count = choose_nodes(graph, all_ends, place);
    fill_network(network, graph, place);
    for (int n = 0; n <= network->count; n++) network->order[n] = network->group[n] = network->group_first[n] = n;
    return PS_OK;
}

/* ------------------------------------------------------------------- groups */

/* The next node is taken from the top of a stack, so that a branch is followed to its end. */
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

/* Returns true if `next` is the only reader of `node` and reads nothing else. */
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

/* Joins groups into fewer; PS_NO_PLAN: there is only one. */
static enum ps_status network_join(struct network *network, struct ps_error *error) {
    int before = network->group_count;
    if (before <= 1) return error_set(error, PS_NO_PLAN, "the graph's nodes are one group already");
    if (network->size == 1) {
        int *scratch;
        TRY(memory_new(&scratch, 2 * network->count, "the graph of a network", error));
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
    const struct network *network;
    int limit, count, words;
    struct found {
        int64_t time_ns, weight_bytes, cut_bytes;
        uint64_t hash; /* sum of its groups' random numbers */
        int ready;     /* offset in `ready`: the groups that may come next are from here to the offset of the following ideal */
    } * found;
    uint64_t *members; /* words of each */
    size_t capacity, member_capacity;
    int *table; /* open addressing: ideal + 1, or 0 */
    size_t table_size;
    int *ready;
    int ready_count;
    struct edge {
        int lower, upper;
    } * edges;
    size_t edge_count, ready_capacity, edge_capacity;
    uint64_t *group_hash, *candidate; /* candidate: one set */
};

void ideals_destroy(struct ideals *ideals) {
    if (!ideals) return;
    arena_release(&ideals->arena);
    free(ideals);
}

/* ------------------------------------------------------------- enumeration */

/* Makes room for one more ideal, and ends the list of ready groups of the last one. */
static enum ps_status reserve_ideals(struct growing *g, struct ps_error *error) {
    if ((size_t)g->count + 1 < g->capacity) return PS_OK;
    TRY(memory_grow(&g->found, &g->capacity, 2 * g->capacity + 256, "the cuts of a graph", error));
    TRY(memory_grow(&g->members, &g->member_capacity, g->capacity * (size_t)g->words, "the cuts of a graph", error));
    free(g->table);
    g->table_size = 4 * g->capacity;
    TRY(memory_new(&g->table, g->table_size, "the cuts of a graph", error));
    for (int i = 0; i < g->count; i++) {
        size_t slot = g->found[i].hash % g->table_size;
        while (g->table[slot]) slot = (slot + 1) % g->table_size;
        g->table[slot] = i + 1;
    }
    return PS_OK;
}

static uint64_t *members_of(const struct growing *g, int ideal) { return &g->members[(size_t)ideal * (size_t)g->words]; }

/* The ideal equal to g->candidate, or -1; `slot`: its position in the table, or the one where it belongs. */
static int find(const struct growing *g, uint64_t hash, size_t *slot) {
    size_t bytes = (size_t)g->words * sizeof(uint64_t);
    for (*slot = hash % g->table_size; g->table[*slot]; *slot = (*slot + 1) % g->table_size) {
        int ideal = g->table[*slot] - 1;
        if (g->found[ideal].hash == hash && memcmp(members_of(g, ideal), g->candidate, bytes) == 0) return ideal;
    }
    return -1;
}

static bool in(const uint64_t *set, int node) { return set[node / 64] >> (node % 64) & 1; }

static bool all_in(const uint64_t *set, const int *nodes, int first, int end) {
    for (int i = first; i < end; i++)
        if (!in(set, nodes[i])) return false;
    return true;
}

/* Bytes that cross the cut after `node` has joined: its own value is added if it is read, and values that it was the last to
 * read are subtracted. */
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

/* Returns true if everything that the group's nodes read is in the candidate or in the group. */
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

static enum ps_status too_many(const struct growing *g, struct ps_error *error) {
    return error_set(error, PS_NO_PLAN, "the graph can be cut in more than %d ways", g->limit);
}

/* Any of the groups that may come next give an ideal with the one that they come after: the list from `first` on would be of no
 * use where these alone are too many. */
static enum ps_status check_ready(const struct growing *g, int first, struct ps_error *error) {
    const int ready = g->ready_count - first;
    return ready < 31 && 1 << ready <= g->limit ? PS_OK : too_many(g, error);
}

/* Appends the groups that may come next after `from` joined with `group`: those that could before, and those that waited for
 * `group` only. */
static enum ps_status append_ready(struct growing *g, int from, int group, struct ps_error *error) {
    const struct network *net = g->network;
    const int first = g->ready_count;
    TRY(memory_grow(&g->ready, &g->ready_capacity, first + net->group_count + 1, "the cuts of a graph", error));
    for (int r = g->found[from].ready; r < g->found[from + 1].ready; r++)
        if (g->ready[r] != group) g->ready[g->ready_count++] = g->ready[r];
    int added = g->ready_count;
    for (int i = net->group_first[group]; i < net->group_first[group + 1]; i++) {
        int node = net->order[i];
        for (int s = net->successor_first[node]; s < net->successor_first[node + 1]; s++) {
            int next = net->group[net->successors[s]];
            if (next != group && !listed(g, added, next) && group_ready(g, next)) g->ready[g->ready_count++] = next;
        }
    }
    return check_ready(g, first, error);
}

static enum ps_status add_edge(struct growing *g, int lower, int upper, struct ps_error *error) {
    TRY(memory_grow(&g->edges, &g->edge_capacity, g->edge_count + 1, "the cuts of a graph", error));
    g->edges[g->edge_count++] = (struct edge){lower, upper};
    return PS_OK;
}

/* Adds the nodes of a group to the new ideal, which is the candidate, one by one. */
static void add_group(struct growing *g, int from, int ideal, int group) {
    const struct network *net = g->network;
    struct found *found = &g->found[ideal];
    uint64_t *set = g->candidate;
    memcpy(set, members_of(g, from), (size_t)g->words * sizeof *set);
    found->time_ns = g->found[from].time_ns;
    found->weight_bytes = g->found[from].weight_bytes;
    found->cut_bytes = g->found[from].cut_bytes;
    for (int i = net->group_first[group]; i < net->group_first[group + 1]; i++) {
        int node = net->order[i];
        set[node / 64] |= (uint64_t)1 << (node % 64);
        found->time_ns += net->time_ns[node];
        found->weight_bytes += net->weight_bytes[node];
        found->cut_bytes = cut_after(g, found->cut_bytes, node);
    }
    memcpy(members_of(g, ideal), set, (size_t)g->words * sizeof *set);
}

/* Adds the ideal of `from` and `group`. */
static enum ps_status extend(struct growing *g, int from, int group, struct ps_error *error) {
    const struct network *net = g->network;
    TRY(reserve_ideals(g, error));
    size_t slot;
    uint64_t hash = g->found[from].hash + g->group_hash[group];
    memcpy(g->candidate, members_of(g, from), (size_t)g->words * sizeof *g->candidate);
    for (int i = net->group_first[group]; i < net->group_first[group + 1]; i++)
        g->candidate[net->order[i] / 64] |= (uint64_t)1 << (net->order[i] % 64);
    int found = find(g, hash, &slot);
    if (found < 0) {
        if (g->count == g->limit) return too_many(g, error);
        found = g->count++;
        g->table[slot] = found + 1;
        g->found[found].hash = hash;
        add_group(g, from, found, group);
        TRY(append_ready(g, from, group, error));
        g->found[found + 1].ready = g->ready_count;
    }
    return add_edge(g, from, found, error);
}

static enum ps_status start_empty(struct growing *g, struct ps_error *error) {
    const struct network *net = g->network;
    TRY(reserve_ideals(g, error));
    TRY(memory_new(&g->candidate, g->words, "the cuts of a graph", error));
    TRY(memory_new(&g->group_hash, net->group_count, "the cuts of a graph", error));
    TRY(memory_grow(&g->ready, &g->ready_capacity, net->group_count + 1, "the cuts of a graph", error));
    struct random_key key = random_key(0, RANDOM_ORDER, 0, 0);
    for (int n = 0; n < net->group_count; n++) {
        uint32_t words[4];
        random_block(key, (uint64_t)n, words);
        g->group_hash[n] = (uint64_t)words[0] << 32 | words[1];
        if (group_ready(g, n)) g->ready[g->ready_count++] = n;
    }
    memset(g->members, 0, (size_t)g->words * sizeof *g->members);
    g->found[0] = (struct found){0};
    g->found[1].ready = g->ready_count;
    g->table[0] = 1;
    g->count = 1;
    return check_ready(g, 0, error);
}

/* Fills the lists of lower covers from the edges, which are sorted by the lower ideal. */
static void list_covers(struct ideals *ideals, const struct edge *edges, size_t edge_count) {
    int *offset = ideals->cover_first + 1; /* one position ahead during the filling, so that they are correct at the end */
    for (size_t e = 0; e < edge_count; e++) offset[edges[e].upper + 1]++;
    for (int i = 0; i < ideals->count; i++) offset[i + 1] += offset[i];
    for (size_t e = 0; e < edge_count; e++) ideals->covers[offset[edges[e].upper]++] = edges[e].lower;
}

/* Allocates `count` ideals of `node_count` nodes, with all covers; their contents are zero. */
static enum ps_status ideals_create(int count, int node_count, size_t covers, struct ideals **ideals, struct ps_error *error) {
    struct ideals *made;
    size_t n = (size_t)count;
    TRY(memory_new(&made, 1, "the cuts of a graph", error));
    *made = (struct ideals){.count = count, .node_count = node_count, .words = (node_count + 63) / 64};
    struct arena *arena = &made->arena;
    made->time_ns = arena_take(arena, n, sizeof *made->time_ns);
    made->weight_bytes = arena_take(arena, n, sizeof *made->weight_bytes);
    made->cut_bytes = arena_take(arena, n, sizeof *made->cut_bytes);
    made->cover_first = arena_take(arena, n + 2, sizeof *made->cover_first);
    made->covers = arena_take(arena, covers, sizeof *made->covers);
    made->nodes = arena_take(arena, (size_t)node_count, sizeof *made->nodes);
    made->members = arena_take(arena, n * (size_t)made->words, sizeof *made->members);
    enum ps_status status = arena_check(arena, "the cuts of a graph", error);
    if (status == PS_OK)
        *ideals = made;
    else
        free(made);
    return status;
}

static enum ps_status enumerate(struct growing *g, struct ideals **ideals, struct ps_error *error) {
    TRY(start_empty(g, error));
    for (int i = 0; i < g->count; i++)
        for (int r = g->found[i].ready; r < g->found[i + 1].ready; r++) TRY(extend(g, i, g->ready[r], error));
    struct ideals *made;
    TRY(ideals_create(g->count, g->network->count, g->edge_count, &made, error));
    for (int i = 0; i < g->count; i++) {
        made->time_ns[i] = g->found[i].time_ns;
        made->weight_bytes[i] = g->found[i].weight_bytes;
        made->cut_bytes[i] = g->found[i].cut_bytes;
    }
    memcpy(made->members, g->members, (size_t)g->count * (size_t)g->words * sizeof *g->members);
    memcpy(made->nodes, g->network->nodes, (size_t)g->network->count * sizeof *made->nodes);
    list_covers(made, g->edges, g->edge_count);
    made->of_graph = true;
    *ideals = made;
    return PS_OK;
}

static enum ps_status ideals_of_network(const struct network *network, int limit, struct ideals **ideals,
                                        struct ps_error *error) {
    struct growing growing = {.network = network, .limit = limit, .words = (network->count + 63) / 64};
    enum ps_status status = enumerate(&growing, ideals, error);
    free(growing.found);
    free(growing.members);
    free(growing.group_hash);
    free(growing.table);
    free(growing.ready);
    free(growing.edges);
    free(growing.candidate);
    return status;
}

enum ps_status ideals_of_graph(const struct costgraph *graph, int limit, struct ideals **ideals, struct ps_error *error) {
    struct network network;
    TRY(network_make(graph, false, &network, error));
    enum ps_status status = ideals_of_network(&network, limit, ideals, error);
    arena_release(&network.arena);
    return status;
}

enum ps_status ideals_of_joined_graph(const struct costgraph *graph, int limit, bool all_ends, struct ideals **ideals,
                                      struct ps_error *error) {
    struct network network;
    struct ps_error refusal = {0};
    TRY(network_make(graph, all_ends, &network, error));
    enum ps_status status = ideals_of_network(&network, limit, ideals, &refusal), joined = PS_OK;
    while (status == PS_NO_PLAN && joined == PS_OK) {
        joined = network_join(&network, &refusal);
        if (joined == PS_OK) status = ideals_of_network(&network, limit / 16 + 2, ideals, &refusal);
        if (status == PS_OK) (*ideals)->joined = true;
    }
    arena_release(&network.arena);
    if (joined != PS_OK) status = joined;
    if (status != PS_OK && error) *error = refusal;
    return status;
}

/* A chain is a graph in which each layer reads the one before. Only the bytes of the cuts come from the cost table. */
enum ps_status ideals_of_chain(const struct cost_table *table, struct ideals **ideals, struct ps_error *error) {
    int layers = table->layer_count;
    struct ideals *made;
    TRY(ideals_create(layers + 1, layers, (size_t)layers, &made, error));
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
