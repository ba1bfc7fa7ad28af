/*
 * Reads costs from a file of any known form. JSON begins with a brace. A graph has " -- " in its first line. The first line of
 * a chain of numbers begins with a digit and has no comma. Everything else must be a table with commas. Several files have the
 * same network's costs on several types of devices.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/text.h"
#include "profile/costgraph.h"

/* ---------------------------------------------------------------------- lines */

/* A piece of the text, not terminated. */
struct span {
    const char *text;
    size_t length;
};

struct lines {
    struct span rest;
    int number; /* of the line last read, from 1 */
};

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

static struct span span_trim(struct span span) {
    while (span.length > 0 && is_space(span.text[0])) span.text++, span.length--;
    while (span.length > 0 && is_space(span.text[span.length - 1])) span.length--;
    return span;
}

static bool span_is(struct span span, const char *text) {
    return strlen(text) == span.length && memcmp(span.text, text, span.length) == 0;
}

static bool span_starts(struct span span, const char *text) {
    size_t length = strlen(text);
    return span.length >= length && memcmp(span.text, text, length) == 0;
}

/* Splits at the first `separator` (a string): the piece before it, and `rest` after it (length 0 if there is none). */
static struct span span_split(struct span *rest, const char *separator) {
    size_t length = strlen(separator);
    const char *found = memmem(rest->text, rest->length, separator, length);
    struct span piece = {rest->text, found ? (size_t)(found - rest->text) : rest->length};
    size_t used = found ? piece.length + length : piece.length;
    *rest = (struct span){rest->text + used, rest->length - used};
    return piece;
}

/* How often `separator` occurs. */
static int span_count(struct span span, const char *separator) {
    int count = 0;
    size_t length = strlen(separator);
    for (const char *found; (found = memmem(span.text, span.length, separator, length)); count++) {
        span.length -= (size_t)(found - span.text) + length;
        span.text = found + length;
    }
    return count;
}

/* Copies as much as fits, with a question mark for every character that is not printable ASCII. */
static void span_copy_printable(struct span span, char *out, size_t size) {
    size_t length = span.length < size ? span.length : size - 1;
    for (size_t i = 0; i < length; i++) out[i] = span.text[i] < ' ' || span.text[i] > '~' ? '?' : span.text[i];
    out[length] = '\0';
}

/* The next line that is not blank, without spaces at its ends; false at the end of the text. */
static bool lines_next(struct lines *lines, struct span *line) {
    while (lines->rest.length > 0) {
        *line = span_trim(span_split(&lines->rest, "\n"));
        lines->number++;
        if (line->length > 0) return true;
    }
    return false;
}

/* "line N: NAME: 'TEXT' MESSAGE", PS_BAD_INPUT. */
static enum ps_status span_error(struct ps_error *error, int line, const char *name, struct span span, const char *message) {
    int shown = span.length < 60 ? (int)span.length : 60;
    return error_set(error, PS_BAD_INPUT, "line %d: %s: '%.*s'%s %s", line, name, shown, span.text,
                     span.length > 60 ? "..." : "", message);
}

/* A number in [0, high]; all of the span must be one. */
static enum ps_status span_number(struct span span, int line, const char *name, double high, double *out,
                                  struct ps_error *error) {
    char copy[64], *end, message[80];
    span = span_trim(span);
    if (span.length == 0) return span_error(error, line, name, span, "is empty; a number is expected");
    if (span.length >= sizeof copy) return span_error(error, line, name, span, "is not a number");
    memcpy(copy, span.text, span.length);
    copy[span.length] = '\0';
    double value = number_read(copy, &end);
    if (*end != '\0' || end == copy) return span_error(error, line, name, span, "is not a number");
    number_print(message, sizeof message, "is not a number from 0 to %g", high);
    if (!(value >= 0 && value <= high)) return span_error(error, line, name, span, message);
    *out = value;
    return PS_OK;
}

/* Bytes: a whole number (also "4.000"). */
static enum ps_status span_bytes(struct span span, int line, const char *name, int64_t *out, struct ps_error *error) {
    double value = 0;
    TRY(span_number(span, line, name, (double)PROFILE_BYTES_MAX, &value, error));
    if (value != floor(value)) return span_error(error, line, name, span_trim(span), "is not a whole number of bytes");
    *out = (int64_t)value;
    return PS_OK;
}

/* Printable ASCII that is not empty and fits into `size` bytes. */
static enum ps_status span_name(struct span span, int line, const char *name, char *out, size_t size, struct ps_error *error) {
    span = span_trim(span);
    if (span.length == 0) return span_error(error, line, name, span, "is empty");
    if (span.length >= size) return span_error(error, line, name, span, "is too long (63 characters at most)");
    for (size_t i = 0; i < span.length; i++)
        if (span.text[i] < ' ' || span.text[i] > '~')
            return error_set(error, PS_BAD_INPUT, "line %d: %s: has a character that is not printable ASCII", line, name);
    memcpy(out, span.text, span.length);
    out[span.length] = '\0';
    return PS_OK;
}

/* ------------------------------------------------------------------------ CSV */

/*
 * Costs from other sources as a table: a header line, then one line per layer,
 *
 *     name,forward_s,backward_s,parameter_bytes,output_bytes[,stash_bytes]
 *
 * Half of the backward's time counts for the input's gradient, half for the weights'. The output of the last layer counts 0
 * bytes, since no layer reads it. Without the last column a layer keeps its input.
 */

static const char *const columns[] = {"name", "forward_s", "backward_s", "parameter_bytes", "output_bytes", "stash_bytes"};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

static enum ps_status csv_header(struct span line, int number, int *column_count, struct ps_error *error) {
    struct span rest = line;
    int count = 0;
    while (rest.length > 0 && count < COLUMNS) {
        struct span column = span_trim(span_split(&rest, ","));
        if (!span_is(column, columns[count])) {
            span_error(error, number, "header", column, "is not the column that is expected here");
            goto expected;
        }
        count++;
    }
    if (rest.length > 0 || count < COLUMNS - 1) {
        error_set(error, PS_BAD_INPUT, "line %d: header: has %d columns", number, span_count(line, ",") + 1);
        goto expected;
    }
    *column_count = count;
    return PS_OK;
expected:
    error_hint(error, "the first line must be name,forward_s,backward_s,parameter_bytes,output_bytes[,stash_bytes]");
    return PS_BAD_INPUT;
}

static enum ps_status csv_layer(struct span line, int number, int column_count, struct layer_cost *layer,
                                struct ps_error *error) {
    struct span rest = line, field[COLUMNS];
    int found = span_count(line, ",") + 1;
    double backward_s;
    if (found != column_count)
        return error_set(error, PS_BAD_INPUT, "line %d: %d columns, but the header has %d", number, found, column_count);
    for (int c = 0; c < column_count; c++) field[c] = span_split(&rest, ",");
    *layer = (struct layer_cost){.kind = "layer"};
    TRY(span_name(field[0], number, columns[0], layer->name, sizeof layer->name, error));
    TRY(span_number(field[1], number, columns[1], PROFILE_TIME_MAX, &layer->time.forward_s, error));
    TRY(span_number(field[2], number, columns[2], PROFILE_TIME_MAX, &backward_s, error));
    TRY(span_bytes(field[3], number, columns[3], &layer->size.parameter_bytes, error));
    TRY(span_bytes(field[4], number, columns[4], &layer->size.output_bytes, error));
    if (column_count == COLUMNS) TRY(span_bytes(field[5], number, columns[5], &layer->size.stash_bytes, error));
    layer->time.backward_input_s = layer->time.backward_weight_s = backward_s / 2;
    layer->size.value_bytes = layer->size.output_bytes;
    layer->size.delta_bytes = profile_usual_delta_bytes(&layer->size);
    return PS_OK;
}

static int count_lines(const char *data, size_t size) {
    struct lines lines = {.rest = {data, size}};
    struct span line;
    int count = 0;
    while (lines_next(&lines, &line)) count++;
    return count;
}

static enum ps_status csv_layers(struct lines *lines, int column_count, struct cost_table *table, struct ps_error *error) {
    struct span line;
    for (int l = 0; l < table->layer_count; l++) {
        struct layer_cost *layer = &table->layers[l];
        lines_next(lines, &line);
        TRY(csv_layer(line, lines->number, column_count, layer, error));
        if (column_count < COLUMNS && l > 0) layer->size.stash_bytes = layer[-1].size.output_bytes;
    }
    struct layer_sizes *last = &table->layers[table->layer_count - 1].size;
    last->output_bytes = last->value_bytes = 0;
    return PS_OK;
}

static enum ps_status read_csv(const char *data, size_t size, struct ps_profile **profile, struct ps_error *error) {
    struct lines lines = {.rest = {data, size}};
    struct span line;
    struct ps_profile *made;
    int layers = count_lines(data, size) - 1, column_count;
    if (!lines_next(&lines, &line)) return error_set(error, PS_BAD_INPUT, "line 1: the file is empty");
    TRY(csv_header(line, lines.number, &column_count, error));
    if (layers < 1) return error_set(error, PS_BAD_INPUT, "line %d: no layer follows the header", lines.number + 1);
    if (layers > PROFILE_LAYERS_MAX)
        return error_set(error, PS_BAD_INPUT, "line %d: %d layers; at most %d are accepted", PROFILE_LAYERS_MAX + 2, layers,
                         PROFILE_LAYERS_MAX);
    TRY(profile_create(1, layers, &made, error));
    enum ps_status status = csv_layers(&lines, column_count, &made->tables[0], error);
    return profile_finish(made, status, lines.number, profile, error);
}

/* --------------------------------------------------------------------- chains */

/*
 * Chains as plain numbers: a first line with the number of layers and a 0, then one line per layer,
 *
 *     forward_ms backward_ms parameter_bytes cut_bytes kept_bytes
 *
 * where cut_bytes is everything that a cut after the layer carries, and kept_bytes what the layer itself makes and the next one
 * keeps. Layers have no names: they are called layer1, layer2, ... As in the other forms half of the backward's time counts for
 * each of its halves, and nothing crosses the cut after the last layer.
 */

enum { NUMBERS = 5 };

static enum ps_status chain_layer(struct span line, int number, int l, struct layer_cost *layer, struct ps_error *error) {
    struct span rest = line, field[NUMBERS];
    int count = 0;
    for (; rest.length > 0 && count < NUMBERS; count++) field[count] = span_trim(span_split(&rest, " "));
    if (count < NUMBERS || rest.length > 0)
        return error_set(error, PS_BAD_INPUT, "line %d: a layer of a chain has %d numbers, with a space between two", number,
                         NUMBERS);
    double forward_ms, backward_ms;
    *layer = (struct layer_cost){.kind = "layer"};
    snprintf(layer->name, sizeof layer->name, "layer%d", l + 1);
    TRY(span_number(field[0], number, "forward_ms", 1e3 * PROFILE_TIME_MAX, &forward_ms, error));
    TRY(span_number(field[1], number, "backward_ms", 1e3 * PROFILE_TIME_MAX, &backward_ms, error));
    TRY(span_bytes(field[2], number, "parameter_bytes", &layer->size.parameter_bytes, error));
    TRY(span_bytes(field[3], number, "cut_bytes", &layer->size.output_bytes, error));
    TRY(span_bytes(field[4], number, "kept_bytes", &layer->size.value_bytes, error));
    if (layer->size.value_bytes > layer->size.output_bytes) layer->size.value_bytes = layer->size.output_bytes;
    layer->time.forward_s = forward_ms / 1e3;
    layer->time.backward_input_s = layer->time.backward_weight_s = backward_ms / 2e3;
    return PS_OK;
}

static enum ps_status chain_layers(struct lines *lines, struct cost_table *table, struct ps_error *error) {
    struct span line;
    for (int l = 0; l < table->layer_count; l++) {
        struct layer_cost *layer = &table->layers[l];
        if (!lines_next(lines, &line))
            return error_set(error, PS_BAD_INPUT, "line %d: %d layers were announced, but %d follow", lines->number,
                             table->layer_count, l);
        TRY(chain_layer(line, lines->number, l, layer, error));
        if (l > 0) layer->size.stash_bytes = layer[-1].size.output_bytes;
    }
    if (lines_next(lines, &line))
        return error_set(error, PS_BAD_INPUT, "line %d: more than the %d layers that were announced", lines->number,
                         table->layer_count);
    struct layer_sizes *last = &table->layers[table->layer_count - 1].size;
    last->output_bytes = last->value_bytes = 0;
    return PS_OK;
}

static enum ps_status read_chain(const char *data, size_t size, struct ps_profile **profile, struct ps_error *error) {
    struct lines lines = {.rest = {data, size}};
    struct span line, rest;
    struct ps_profile *made;
    double layers;
    lines_next(&lines, &line);
    rest = line;
    TRY(span_number(span_split(&rest, " "), lines.number, "layers", PROFILE_LAYERS_MAX, &layers, error));
    if (layers < 1 || layers != (int)layers) return span_error(error, lines.number, "layers", line, "is no number of layers");
    if (!span_is(span_trim(rest), "0"))
        return span_error(error, lines.number, "header", line, "is no number of layers and a 0");
    TRY(profile_create(1, (int)layers, &made, error));
    enum ps_status status = chain_layers(&lines, &made->tables[0], error);
    return profile_finish(made, status, lines.number, profile, error);
}

/* --------------------------------------------------------------------- graphs */

/*
 * PipeDream's graph.txt (profiler/ of msr-fiddle/pipedream), also as DAPPLE wrote it: nodes in no particular order,
 *
 *     node11 -- ReLU(inplace) -- forward_compute_time=0.5, backward_compute_time=0.2, activation_size=44.0, parameter_size=0.0
 *
 * with an optional " -- stage_id=2" at the end, and edges, "node10 -- node11", indented in various ways: a line with two fields
 * is an edge. Times are milliseconds and sizes bytes of one batch; an activation size may be a list of several tensors, "[4;
 * 4]".
 */

enum { EDGES_MAX = 1 << 22 };

struct edge_line {
    struct span from, to; /* names, looked up at the end */
    int line;
};

/* Room for as many nodes and edges as the file has lines of them. */
struct reader {
    struct costgraph_node *nodes;
    struct edge_line *edges;
    int node_count, edge_count;
};

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
    if (*seen & 1u << which) return span_error(error, line, "field", name, "is given twice");
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
    if (reader->edge_count == EDGES_MAX)
        return error_set(error, PS_BAD_INPUT, "line %d: more than %d edges", number, EDGES_MAX);
    struct span rest = line, from = span_trim(span_split(&rest, " -- "));
    reader->edges[reader->edge_count++] = (struct edge_line){from, span_trim(rest), number};
    return PS_OK;
}

/* qsort has no context argument, and nodes are few: names are sorted together with their positions. */
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
        return error_set(error, PS_BAD_INPUT, "line %d: node '%s' is given twice, first in line %d", one > other ? one : other,
                         places[n].name, one > other ? other : one);
    }
    for (int e = 0; e < reader->edge_count; e++) {
        const struct edge_line *edge = &reader->edges[e];
        edges[e].line = edge->line;
        TRY(look_up(places, count, edge->from, edge->line, &edges[e].from, error));
        TRY(look_up(places, count, edge->to, edge->line, &edges[e].to, error));
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

static enum ps_status parse_graph(const char *text, size_t size, struct costgraph **graph, struct ps_error *error) {
    struct arena arena = {0};
    struct lines lines = {.rest = {text, size}};
    struct span line;
    size_t node_lines = 0, edge_lines = 0;
    while (lines_next(&lines, &line)) *(span_count(line, " -- ") == 1 ? &edge_lines : &node_lines) += 1;
    struct reader reader = {.nodes = arena_take(&arena, node_lines, sizeof *reader.nodes),
                            .edges = arena_take(&arena, edge_lines, sizeof *reader.edges)};
    struct place *places = arena_take(&arena, node_lines, sizeof *places);
    struct costgraph_edge *edges = arena_take(&arena, edge_lines, sizeof *edges);
    TRY(arena_check(&arena, "a graph of costs", error));
    enum ps_status status = read_all(&reader, text, size, error);
    if (status == PS_OK) status = resolve_edges(&reader, places, edges, error);
    if (status == PS_OK) status = costgraph_create(reader.nodes, reader.node_count, edges, reader.edge_count, graph, error);
    arena_release(&arena);
    return status;
}

/* An error of the graph as a whole is reported for its last node. */
static enum ps_status read_graph(const char *data, size_t size, struct ps_profile **profile, struct ps_error *error) {
    struct costgraph *graph;
    TRY(parse_graph(data, size, &graph, error));
    int line = 0;
    for (int n = 0; n < graph->node_count; n++) line = graph->nodes[n].line > line ? graph->nodes[n].line : line;
    enum ps_status status = costgraph_profile(graph, profile, error);
    if (status == PS_BAD_INPUT) error_prefix(error, "line %d", line);
    return status;
}

/* ---------------------------------------------------------------------- files */

enum { FILE_LIMIT = 256 << 20 };

/* A file that does not specify its network is named after itself: "profiles/vgg16.graph.txt" is vgg16. */
static void name_after_file(struct ps_profile *profile, const char *path) {
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    static const char *const endings[] = {".gz", ".txt", ".csv", ".chain", ".graph"};
    size_t length = strlen(name);
    for (size_t e = 0; e < sizeof endings / sizeof endings[0]; e++) {
        size_t ending = strlen(endings[e]);
        if (length > ending && strncmp(name + length - ending, endings[e], ending) == 0) length -= ending;
    }
    span_copy_printable((struct span){name, length}, profile->model, sizeof profile->model);
    snprintf(profile->device, sizeof profile->device, "unknown");
    profile->threads = 1;
}

static enum ps_status read_one(const char *path, struct ps_profile **profile, struct ps_error *error) {
    char *data;
    size_t size;
    struct span line = {0};
    enum ps_status status;
    struct ps_profile *made;
    TRY(file_read(path, FILE_LIMIT, &data, &size, error));
    size = utf8_drop_mark(data, size);
    struct lines lines = {.rest = {data, size}};
    bool any = lines_next(&lines, &line), is_json = any && line.text[0] == '{', is_graph = any && span_count(line, " -- ") > 0;
    bool is_chain = any && line.text[0] >= '0' && line.text[0] <= '9' && span_count(line, ",") == 0;
    if (is_json) {
        free(data);
        return profile_read_json(path, profile, error);
    }
    status = is_graph   ? read_graph(data, size, &made, error)
             : is_chain ? read_chain(data, size, &made, error)
                        : read_csv(data, size, &made, error);
    free(data);
    if (status != PS_OK) {
        error_prefix(error, "%s", path);
        return status;
    }
    name_after_file(made, path);
    *profile = made;
    return PS_OK;
}

/* The path up to the next comma. The comma ends a file's name only if no file has the whole name. */
static enum ps_status read_next(const char **paths, struct ps_profile **profile, struct ps_error *error) {
    size_t length = strcspn(*paths, ",");
    char *path;
    TRY(memory_text(*paths, length, &path, "a path", error));
    enum ps_status status = read_one(path, profile, error);
    free(path);
    *paths += length + ((*paths)[length] == ',');
    return status;
}

enum ps_status ps_profile_read(const char *paths, struct ps_profile **profile, struct ps_error *error) {
    struct ps_profile *made, *other;
    const char *rest = paths;
    if (!strchr(paths, ',') || access(paths, F_OK) == 0) return read_one(paths, profile, error);
    TRY(read_next(&rest, &made, error));
    enum ps_status status = PS_OK;
    while (status == PS_OK && *rest) {
        const char *path = rest;
        status = read_next(&rest, &other, error);
        if (status == PS_OK) {
            status = profile_add_device(made, other, error);
            if (status != PS_OK) error_prefix(error, "%.*s", (int)strcspn(path, ","), path);
        }
    }
    if (status != PS_OK) {
        ps_profile_destroy(made);
        return status;
    }
    *profile = made;
    return PS_OK;
}
