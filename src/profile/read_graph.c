/*
 * PipeDream's graph.txt (profiler/ of msr-fiddle/pipedream), also as DAPPLE wrote it: nodes in no particular order,
 *
 *     node11 -- ReLU(inplace) -- forward_compute_time=0.5, backward_compute_time=0.2, activation_size=44.0, parameter_size=0.0
 *
 * with an optional " -- stage_id=2" at the end, and edges, "node10 -- node11", indented in various ways: an edge is what has
 * two fields. Times are milliseconds and sizes bytes of one batch; an activation size may be a list of several tensors,
 * "[4; 4]".
 */
#include <stdlib.h>
#include <string.h>

#include "profile/costgraph.h"
#include "profile/lines.h"
#include "profile/read.h"

enum { EDGES_MAX = 1 << 22 };

struct reader {
    struct costgraph_node *nodes;
    int node_count, node_capacity;
    struct span (*edges)[2]; /* names, looked up at the end */
    int *edge_lines;
    int edge_count, edge_capacity;
};

static enum ps_status grow(void **array, int count, int *capacity, size_t size, struct ps_error *error) {
    if (count < *capacity) return PS_OK;
    int wanted = *capacity ? 2 * *capacity : 64;
    void *larger = realloc(*array, (size_t)wanted * size);
    if (!larger) return error_memory(error, "a graph of costs", (size_t)wanted * size);
    *array = larger;
    *capacity = wanted;
    return PS_OK;
}

/* "44302336.000" or "[9175040.0; 262144.0]". */
static enum ps_status read_activation(struct span value, int line, int64_t *bytes, struct ps_error *error) {
    static const char name[] = "activation_size";
    struct span rest = span_trim(value);
    int64_t sum = 0, part;
    if (rest.length == 0 || rest.text[0] != '[') return span_bytes(rest, line, name, bytes, error);
    if (rest.text[rest.length - 1] != ']') return span_error(error, line, name, rest, "has no closing bracket");
    rest = (struct span){rest.text + 1, rest.length - 2};
    while (rest.length > 0) {
        TRY(span_bytes(span_split(&rest, ";"), line, name, &part, error));
        sum += part;
        if (sum > PROFILE_BYTES_MAX) return span_error(error, line, name, value, "is too large");
    }
    *bytes = sum;
    return PS_OK;
}

static enum ps_status read_field(struct span field, int line, struct costgraph_node *node, unsigned *seen,
                                 struct ps_error *error) {
    static const char *const names[] = {"forward_compute_time", "backward_compute_time", "activation_size", "parameter_size"};
    struct span value = field, name = span_trim(span_split(&value, "="));
    unsigned which = 0;
    while (which < 4 && !span_is(name, names[which])) which++;
    if (which == 4) {
        span_error(error, line, "field", name, "is not known");
        error_hint(error, "a node has forward_compute_time, backward_compute_time, activation_size and parameter_size");
        return PS_BAD_INPUT;
    }
    if (*seen & 1u << which) return span_error(error, line, "field", name, "stands twice");
    *seen |= 1u << which;
    if (which == 2) return read_activation(value, line, &node->activation_bytes, error);
    if (which == 3) return span_bytes(value, line, names[which], &node->parameter_bytes, error);
    double *seconds = which == 0 ? &node->forward_s : &node->backward_s;
    TRY(span_number(value, line, names[which], 1e3 * PROFILE_TIME_MAX, seconds, error));
    *seconds /= 1e3;
    return PS_OK;
}

/* The number at the end of the id; ids without one come last, in the order of the file. */
static int64_t number_of(const char *id, int place) {
    size_t end = strlen(id), start = end;
    while (start > 0 && id[start - 1] >= '0' && id[start - 1] <= '9' && end - start < 15) start--;
    return start < end ? strtoll(id + start, NULL, 10) : INT64_MAX / 2 + place;
}

static enum ps_status read_node(struct reader *reader, struct span line, int number, struct ps_error *error) {
    TRY(grow((void **)&reader->nodes, reader->node_count, &reader->node_capacity, sizeof *reader->nodes, error));
    if (reader->node_count == PROFILE_LAYERS_MAX)
        return error_set(error, PS_BAD_INPUT, "line %d: more than %d nodes", number, PROFILE_LAYERS_MAX);
    struct costgraph_node node = {.line = number};
    struct span rest = line, id = span_split(&rest, " -- "), description = span_trim(span_split(&rest, " -- "));
    struct span costs = span_split(&rest, " -- ");
    unsigned seen = 0;
    TRY(span_name(id, number, "node", node.name, sizeof node.name, error));
    node.number = number_of(node.name, reader->node_count);
    node.input = span_starts(description, "Input");
    span_copy_printable(span_trim(span_split(&description, "(")), node.kind, sizeof node.kind);
    if (!node.kind[0]) span_copy_printable((struct span){"layer", 5}, node.kind, sizeof node.kind);
    while (costs.length > 0) TRY(read_field(span_split(&costs, ","), number, &node, &seen, error));
    if (seen != 15)
        return error_set(error, PS_BAD_INPUT,
                         "line %d: %s: needs forward_compute_time, backward_compute_time, activation_size and parameter_size",
                         number, node.name);
    reader->nodes[reader->node_count++] = node;
    return PS_OK;
}

static enum ps_status read_edge(struct reader *reader, struct span line, int number, struct ps_error *error) {
    int capacity = reader->edge_capacity;
    TRY(grow((void **)&reader->edges, reader->edge_count, &capacity, sizeof *reader->edges, error));
    TRY(grow((void **)&reader->edge_lines, reader->edge_count, &reader->edge_capacity, sizeof *reader->edge_lines, error));
    if (reader->edge_count == EDGES_MAX)
        return error_set(error, PS_BAD_INPUT, "line %d: more than %d edges", number, EDGES_MAX);
    struct span rest = line, from = span_trim(span_split(&rest, " -- "));
    reader->edges[reader->edge_count][0] = from;
    reader->edges[reader->edge_count][1] = span_trim(rest);
    reader->edge_lines[reader->edge_count++] = number;
    return PS_OK;
}

/* qsort has no context, and nodes are few: names with their places are sorted. */
struct place {
    const char *name;
    int node;
};

static int compare_places(const void *a, const void *b) {
    return strcmp(((const struct place *)a)->name, ((const struct place *)b)->name);
}

static enum ps_status look_up(const struct place *places, int count, struct span name, int line, int *node,
                              struct ps_error *error) {
    char id[64];
    TRY(span_name(name, line, "edge", id, sizeof id, error));
    struct place wanted = {.name = id};
    const struct place *found = bsearch(&wanted, places, (size_t)count, sizeof *places, compare_places);
    if (!found) return span_error(error, line, "edge", name, "is no node of this file");
    *node = found->node;
    return PS_OK;
}

static enum ps_status resolve_edges(const struct reader *reader, struct place *places, struct costgraph_edge *edges,
                                    struct ps_error *error) {
    int count = reader->node_count;
    for (int n = 0; n < count; n++) places[n] = (struct place){reader->nodes[n].name, n};
    qsort(places, (size_t)count, sizeof *places, compare_places);
    for (int n = 1; n < count; n++) {
        if (strcmp(places[n - 1].name, places[n].name) != 0) continue;
        int one = reader->nodes[places[n - 1].node].line, other = reader->nodes[places[n].node].line;
        return error_set(error, PS_BAD_INPUT, "line %d: node '%s' stands twice, first in line %d", one > other ? one : other,
                         places[n].name, one > other ? other : one);
    }
    for (int e = 0; e < reader->edge_count; e++) {
        TRY(look_up(places, count, reader->edges[e][0], reader->edge_lines[e], &edges[e].from, error));
        TRY(look_up(places, count, reader->edges[e][1], reader->edge_lines[e], &edges[e].to, error));
        edges[e].line = reader->edge_lines[e];
    }
    return PS_OK;
}

static enum ps_status read_all(struct reader *reader, const char *text, size_t size, struct ps_error *error) {
    struct lines lines = {.rest = {text, size}};
    struct span line;
    while (lines_next(&lines, &line)) {
        int separators = span_count(line, " -- ");
        if (separators == 0)
            return span_error(error, lines.number, "line", line, "is neither a node nor an edge (no ' -- ' in it)");
        TRY(separators == 1 ? read_edge(reader, line, lines.number, error) : read_node(reader, line, lines.number, error));
    }
    if (reader->node_count == 0) return error_set(error, PS_BAD_INPUT, "line %d: no nodes up to here", lines.number);
    return PS_OK;
}

enum ps_status costgraph_parse(const char *text, size_t size, struct costgraph **graph, struct ps_error *error) {
    struct reader reader = {0};
    struct place *places = NULL;
    struct costgraph_edge *edges = NULL;
    enum ps_status status;
    TRY_OUT(read_all(&reader, text, size, error));
    places = malloc((size_t)reader.node_count * sizeof *places);
    edges = malloc(((size_t)reader.edge_count + 1) * sizeof *edges);
    if (!places || !edges) {
        status = error_memory(error, "a graph of costs", (size_t)reader.edge_count * sizeof *edges);
        goto out;
    }
    TRY_OUT(resolve_edges(&reader, places, edges, error));
    status = costgraph_create(reader.nodes, reader.node_count, edges, reader.edge_count, graph, error);
    reader.nodes = NULL;
    edges = NULL;
out:
    free(places);
    free(edges);
    free(reader.nodes);
    free(reader.edges);
    free(reader.edge_lines);
    return status;
}

/* What is wrong with the graph as a whole is told of its last node. */
enum ps_status profile_read_graph(const char *data, size_t size, struct ps_profile **profile, struct ps_error *error) {
    struct costgraph *graph;
    TRY(costgraph_parse(data, size, &graph, error));
    int line = 0;
    for (int n = 0; n < graph->node_count; n++) line = graph->nodes[n].line > line ? graph->nodes[n].line : line;
    enum ps_status status = costgraph_profile(graph, profile, error);
    if (status == PS_BAD_INPUT) error_prefix(error, "line %d", line);
    return status;
}
