/*
 * Penstock's profile file: one table for reading and writing, so that each field of a layer is named once.
 *
 * Files of earlier versions, or written by hand, may omit the optional fields: a layer's value_bytes is then its output_bytes,
 * all that crosses the cut f32, its times those that layer_times.h calls usual, everything else 0.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "profile/costgraph.h"

/* The kind of a layer's numbers, and their position in struct layer_cost. */
enum cost_group { COST_TIME, COST_SPREAD, COST_SPILL, COST_SHARED, COST_SIZE, COST_NUMBERS };
struct cost_field {
    const char *name;
    size_t offset;
    enum cost_group group;
    bool required;
};

#define TIME(name, required, absent) {#name, offsetof(struct layer_cost, time.name), COST_TIME, required},
#define SPREAD(name, required, absent) {#name "_spread", offsetof(struct layer_cost, spread.name), COST_SPREAD, false},
#define SPILL(name, required, absent) {#name "_spill", offsetof(struct layer_cost, spill.name), COST_SPILL, false},
#define SHARED(name) {#name, offsetof(struct layer_cost, name), COST_SHARED, false},
#define SIZE(name, required)                                                                                                   \
    { #name, offsetof(struct layer_cost, size.name), COST_SIZE, required }
#define NUMBERS(name, type)                                                                                                    \
    { name, offsetof(struct layer_cost, size.output.of[type]), COST_NUMBERS, false }
/* In the order in which files are written. */
static const struct cost_field cost_fields[] = {
    LAYER_TIMES(TIME) LAYER_TIMES(SPREAD) LAYER_TIMES(SPILL)
        LAYER_SHARED_TIMES(SHARED){"fill", offsetof(struct layer_cost, fill), COST_SPILL, false},
    SIZE(parameter_bytes, true),
    SIZE(narrow_bytes, false),
    SIZE(statistics_bytes, false),
    SIZE(fixed_bytes, false),
    SIZE(tied_bytes, false),
    SIZE(output_bytes, true),
    SIZE(value_bytes, false),
    SIZE(stash_bytes, true),
    SIZE(tail_bytes, false),
    SIZE(delta_bytes, false),
    SIZE(workspace_bytes, false),
    NUMBERS("output_f32", TYPE_F32),
    NUMBERS("output_bf16", TYPE_BF16),
    NUMBERS("output_i32", TYPE_I32),
};
enum { COST_FIELDS = sizeof cost_fields / sizeof cost_fields[0] };

/* ----------------------------------------------------------------- reading */

static enum ps_status read_name(const struct json_place *place, const char *field, bool required, char *out, size_t size,
                                struct ps_error *error) {
    const char *text = NULL;
    TRY(json_get_string(place, field, required, &text, error));
    if (!text) return PS_OK;
    if (!*text) return json_error(place, error, "%s is empty", field);
    if (utf8_control(text)) return json_error(place, error, "%s has a control character", field);
    if (strlen(text) >= size) return json_error(place, error, "%s is longer than %zu characters", field, size - 1);
    memcpy(out, text, strlen(text) + 1);
    return PS_OK;
}

static enum ps_status read_layer(const struct json_place *place, struct layer_cost *layer, struct ps_error *error) {
    const char *fields[2 + COST_FIELDS] = {"name", "kind"};
    for (int f = 0; f < COST_FIELDS; f++) fields[2 + f] = cost_fields[f].name;
    TRY(json_object_fields(place, fields, 2 + COST_FIELDS, error));
    TRY(read_name(place, "name", true, layer->name, sizeof layer->name, error));
    TRY(read_name(place, "kind", true, layer->kind, sizeof layer->kind, error));
    layer->size.value_bytes = layer->size.delta_bytes = -1;
    for (int f = 0; f < COST_FIELDS; f++) {
        const struct cost_field *field = &cost_fields[f];
        void *out = (char *)layer + field->offset;
        if (field->group == COST_SIZE || field->group == COST_NUMBERS)
            TRY(json_get_integer(place, field->name, field->required, 0, PROFILE_BYTES_MAX, out, error));
        else
            TRY(json_get_number(place, field->name, field->required, 0, PROFILE_TIME_MAX, out, error));
    }
    if (layer->size.value_bytes < 0) layer->size.value_bytes = layer->size.output_bytes;
    if (layer->size.delta_bytes < 0) layer->size.delta_bytes = profile_usual_delta_bytes(&layer->size);
    return PS_OK;
}

/* "wire": {"int8": [encode_s, decode_s], ...}: seconds per number. */
static enum ps_status read_wire(const struct json_place *place, struct cost_table *table, struct ps_error *error) {
    const char *names[WIRE_CODECS];
    struct json_place all, times;
    size_t length;
    TRY(json_field(place, "wire", false, &all, error));
    if (!all.value) return PS_OK;
    for (int c = 0; c < WIRE_CODECS; c++) names[c] = wire_codecs[c].name;
    TRY(json_object_fields(&all, names, WIRE_CODECS, error));
    for (int c = 0; c < WIRE_CODECS; c++) {
        TRY(json_field(&all, names[c], false, &times, error));
        if (!times.value) continue;
        TRY(json_array_length(&times, &length, error));
        for (int t = 0; t < 2; t++) {
            const json_t *number = json_array_get(times.value, (size_t)t);
            const double seconds = json_is_number(number) ? json_number_value(number) : -1;
            if (length != 2 || !(seconds >= 0 && seconds <= PROFILE_TIME_MAX))
                return json_error(&times, error, "must be [seconds to encode a number, seconds to decode it]");
            table->wire_s[c][t] = seconds;
        }
    }
    return PS_OK;
}

static double *time_at(struct layer_times *times, size_t offset) { return (double *)((char *)times + offset); }

/* Of a time that some layers say the others get the usual value. */
static void complete_time(struct cost_table *table, size_t offset, double absent) {
    bool said = false;
    for (int l = 0; l < table->layer_count; l++) said = said || *time_at(&table->layers[l].time, offset) > 0;
    for (int l = 0; l < table->layer_count && said; l++) {
        struct layer_cost *layer = &table->layers[l];
        double *time = time_at(&layer->time, offset), *spill = time_at(&layer->spill, offset);
        if (*time > 0) continue;
        *time = absent * layer->time.update_s;
        if (*spill == 0) *spill = absent * layer->spill.update_s;
    }
}

/* What no layer says remains 0 until layers are added up (layer_times_complete). */
static void complete_times(struct cost_table *table) {
#define COMPLETE(name, required, absent)                                                                                       \
    if ((absent) > 0) complete_time(table, offsetof(struct layer_times, name), absent);
    LAYER_TIMES(COMPLETE)
#undef COMPLETE
}

static enum ps_status read_table(const struct json_place *place, struct cost_table *table, struct ps_error *error) {
    static const char *const fields[] = {"micro_batch", "input_bytes", "fast_memory_bytes", "layers", "wire"};
    struct json_place layers, layer;
    TRY(json_object_fields(place, fields, sizeof fields / sizeof fields[0], error));
    TRY(json_get_int(place, "micro_batch", true, 0, PROFILE_MICRO_BATCH_MAX, &table->micro_batch, error));
    TRY(json_get_integer(place, "input_bytes", false, 0, PROFILE_BYTES_MAX, &table->input_bytes, error));
    TRY(json_get_integer(place, "fast_memory_bytes", false, 0, PROFILE_BYTES_MAX, &table->fast_memory_bytes, error));
    TRY(read_wire(place, table, error));
    TRY(json_field(place, "layers", true, &layers, error));
    for (int l = 0; l < table->layer_count; l++) {
        TRY(json_item(&layers, (size_t)l, &layer, error));
        TRY(read_layer(&layer, &table->layers[l], error));
    }
    complete_times(table);
    return PS_OK;
}

/* How many layers costs[index] has; within the limits. */
static enum ps_status count_layers(const struct json_place *costs, size_t index, int *count, struct ps_error *error) {
    struct json_place item, layers;
    size_t length;
    TRY(json_item(costs, index, &item, error));
    TRY(json_field(&item, "layers", true, &layers, error));
    TRY(json_array_length(&layers, &length, error));
    if (length < 1 || length > PROFILE_LAYERS_MAX)
        return json_error(&layers, error, "%zu layers; 1 to %d are accepted", length, PROFILE_LAYERS_MAX);
    *count = (int)length;
    return PS_OK;
}

static enum ps_status read_node(const struct json_place *place, struct costgraph_node *node, struct ps_error *error) {
    static const char *const fields[] = {
        "name", "kind", "number", "forward_s", "backward_s", "activation_bytes", "parameter_bytes", "input"};
    TRY(json_object_fields(place, fields, sizeof fields / sizeof fields[0], error));
    TRY(read_name(place, "name", true, node->name, sizeof node->name, error));
    TRY(read_name(place, "kind", true, node->kind, sizeof node->kind, error));
    TRY(json_get_integer(place, "number", true, 0, INT64_MAX, &node->number, error));
    TRY(json_get_number(place, "forward_s", true, 0, PROFILE_TIME_MAX, &node->forward_s, error));
    TRY(json_get_number(place, "backward_s", true, 0, PROFILE_TIME_MAX, &node->backward_s, error));
    TRY(json_get_integer(place, "activation_bytes", true, 0, PROFILE_BYTES_MAX, &node->activation_bytes, error));
    TRY(json_get_integer(place, "parameter_bytes", true, 0, PROFILE_BYTES_MAX, &node->parameter_bytes, error));
    return json_get_bool(place, "input", false, &node->input, error);
}

static enum ps_status read_edge(const struct json_place *place, int nodes, struct costgraph_edge *edge,
                                struct ps_error *error) {
    size_t length;
    TRY(json_array_length(place, &length, error));
    const json_t *from = json_array_get(place->value, 0), *to = json_array_get(place->value, 1);
    json_int_t a = json_is_integer(from) ? json_integer_value(from) : -1, b = json_is_integer(to) ? json_integer_value(to) : -1;
    if (length != 2 || a < 0 || a >= nodes || b < 0 || b >= nodes)
        return json_error(place, error, "must be two of the nodes 0 to %d", nodes - 1);
    *edge = (struct costgraph_edge){.from = (int)a, .to = (int)b};
    return PS_OK;
}

static enum ps_status read_graph_parts(const struct json_place *nodes, const struct json_place *edges, size_t node_count,
                                       size_t edge_count, struct costgraph_node *node, struct costgraph_edge *edge,
                                       struct ps_error *error) {
    struct json_place item;
    for (size_t n = 0; n < node_count; n++) {
        TRY(json_item(nodes, n, &item, error));
        TRY(read_node(&item, &node[n], error));
    }
    for (size_t e = 0; e < edge_count; e++) {
        TRY(json_item(edges, e, &item, error));
        TRY(read_edge(&item, (int)node_count, &edge[e], error));
    }
    return PS_OK;
}

static enum ps_status read_graph(const struct json_place *place, const struct ps_profile *profile, struct costgraph **graph,
                                 struct ps_error *error) {
    static const char *const fields[] = {"nodes", "edges"};
    struct json_place nodes, edges;
    size_t node_count, edge_count;
    TRY(json_object_fields(place, fields, 2, error));
    TRY(json_field(place, "nodes", true, &nodes, error));
    TRY(json_field(place, "edges", true, &edges, error));
    TRY(json_array_length(&nodes, &node_count, error));
    TRY(json_array_length(&edges, &edge_count, error));
    if (node_count > PROFILE_LAYERS_MAX)
        return json_error(&nodes, error, "%zu nodes; at most %d are accepted", node_count, PROFILE_LAYERS_MAX);
    if (edge_count > (size_t)1 << 22) return json_error(&edges, error, "%zu edges are too many", edge_count);
    struct arena arena = {0};
    struct costgraph_node *node = arena_take(&arena, node_count, sizeof *node);
    struct costgraph_edge *edge = arena_take(&arena, edge_count, sizeof *edge);
    TRY(arena_check(&arena, "a graph of costs", error));
    enum ps_status status = read_graph_parts(&nodes, &edges, node_count, edge_count, node, edge, error);
    if (status == PS_OK) {
        status = costgraph_create(node, (int)node_count, edge, (int)edge_count, graph, error);
        if (status != PS_OK) error_prefix(error, "%s", place->path);
    }
    arena_release(&arena);
    TRY(status);
    if ((*graph)->layer_count != profile->tables[0].layer_count) {
        json_error(place, error, "forms %d layers, but costs[0] has %d", (*graph)->layer_count, profile->tables[0].layer_count);
        costgraph_destroy(*graph);
        *graph = NULL;
        return PS_BAD_INPUT;
    }
    return PS_OK;
}

static enum ps_status read_head(const struct json_place *root, struct json_place *costs, struct json_place *graph,
                                size_t *tables, struct ps_error *error) {
    static const char *const fields[] = {"format", "version", "model",     "network", "device", "threads",
                                         "busy",   "lengths", "by_length", "costs",   "graph",  "ties"};
    TRY(json_object_fields(root, fields, sizeof fields / sizeof fields[0], error));
    TRY(json_field(root, "costs", true, costs, error));
    TRY(json_field(root, "graph", false, graph, error));
    TRY(json_array_length(costs, tables, error));
    if (*tables < 1 || *tables > 1000) return json_error(costs, error, "%zu tables; 1 to 1000 are accepted", *tables);
    return PS_OK;
}

static enum ps_status read_lengths(const struct json_place *root, struct ps_profile *profile, struct ps_error *error) {
    static const char *const fields[] = {"share", "factor"};
    struct json_place lengths, item;
    size_t count;
    double sum = 0;
    TRY(json_field(root, "by_length", false, &lengths, error));
    if (!lengths.value) return PS_OK;
    TRY(json_array_length(&lengths, &count, error));
    if (count < 1 || count > PROFILE_LENGTHS_MAX)
        return json_error(&lengths, error, "%zu lengths; 1 to %d are accepted", count, PROFILE_LENGTHS_MAX);
    for (size_t l = 0; l < count; l++) {
        struct profile_length *length = &profile->by_length[l];
        TRY(json_item(&lengths, l, &item, error));
        TRY(json_object_fields(&item, fields, 2, error));
        TRY(json_get_number(&item, "share", true, 0, 1, &length->share, error));
        TRY(json_get_number(&item, "factor", true, 0, 1e6, &length->factor, error));
        sum += length->share;
    }
    if (fabs(sum - 1) > 1e-6) return json_error(&lengths, error, "the shares add up to %g, not to 1", sum);
    profile->length_count = (int)count;
    return PS_OK;
}

static enum ps_status read_document(const struct json_place *root, struct ps_profile **profile, struct ps_error *error) {
    struct json_place costs, graph, item;
    size_t tables;
    int layers = 0, again = 0;
    enum ps_status status;
    struct ps_profile *made = NULL;
    TRY(read_head(root, &costs, &graph, &tables, error));
    TRY(count_layers(&costs, 0, &layers, error));
    for (size_t t = 1; t < tables; t++) {
        TRY(count_layers(&costs, t, &again, error));
        if (again != layers) return json_error(&costs, error, "[%zu] has %d layers, but [0] has %d", t, again, layers);
    }
    TRY(profile_create((int)tables, layers, &made, error));
    made->threads = made->busy = 1;
    TRY_OUT(read_name(root, "model", true, made->model, sizeof made->model, error));
    TRY_OUT(read_name(root, "network", false, made->network, sizeof made->network, error));
    TRY_OUT(read_name(root, "device", true, made->device, sizeof made->device, error));
    TRY_OUT(json_get_int(root, "threads", false, 1, 4096, &made->threads, error));
    TRY_OUT(json_get_int(root, "busy", false, 1, 1024, &made->busy, error));
    TRY_OUT(read_name(root, "lengths", false, made->lengths, sizeof made->lengths, error));
    TRY_OUT(read_lengths(root, made, error));
    for (size_t t = 0; t < tables; t++) {
        TRY_OUT(json_item(&costs, t, &item, error));
        TRY_OUT(read_table(&item, &made->tables[t], error));
    }
    if (graph.value) TRY_OUT(read_graph(&graph, made, &made->graph, error));
    TRY_OUT(json_field(root, "ties", false, &item, error));
    if (item.value) TRY_OUT(ties_read(&item, layers, &made->arena, &made->ties, error));
    profile_link_ties(made);
    status = profile_check(made, error);
    if (status != PS_OK) {
        error_prefix(error, "%.*s", (int)(strlen(root->path) - 1), root->path); /* without the colon, which the message adds */
        goto out;
    }
    *profile = made;
    return PS_OK;
out:
    ps_profile_destroy(made);
    return status;
}

enum ps_status profile_read_json(const char *path, struct ps_profile **profile, struct ps_error *error) {
    json_t *document;
    TRY(json_read_file(path, "penstock-profile", &document, error));
    struct json_place root = json_root(document, path);
    enum ps_status status = read_document(&root, profile, error);
    json_decref(document);
    return json_tell_line(path, status, error);
}

enum ps_status profile_parse(const char *text, size_t size, struct ps_profile **profile, struct ps_error *error) {
    json_t *document;
    TRY(json_parse(text, size, "the profile of rank 0", "penstock-profile", &document, error));
    struct json_place root = json_root(document, "the profile of rank 0");
    enum ps_status status = read_document(&root, profile, error);
    json_decref(document);
    return status;
}

/* ----------------------------------------------------------------- writing */

static json_t *layer_json(const struct layer_cost *layer, bool spills) {
    json_t *object = json_pack("{s:s, s:s}", "name", layer->name, "kind", layer->kind);
    const struct layer_times *spread = &layer->spread;
    const struct wire_numbers *numbers = &layer->size.output;
    const int64_t f32_bytes = numbers->of[TYPE_F32] * (int64_t)number_types[TYPE_F32].bytes;
    const bool usual =
        numbers->of[TYPE_BF16] == 0 && numbers->of[TYPE_I32] == 0 && (f32_bytes == 0 || f32_bytes == layer->size.output_bytes);
    const bool written[] = {
        [COST_TIME] = true,
        [COST_SPREAD] =
            spread->forward_s > 0 || spread->backward_input_s > 0 || spread->backward_weight_s > 0 || spread->update_s > 0,
        [COST_SPILL] = spills,
        [COST_SHARED] = layer->core_transfer_s > 0 || layer->take_over_s > 0 || layer->sum_s > 0,
        [COST_SIZE] = true,
        [COST_NUMBERS] = !usual,
    };
    for (int f = 0; f < COST_FIELDS; f++) {
        const struct cost_field *field = &cost_fields[f];
        const void *at = (const char *)layer + field->offset;
        if (!written[field->group] || (at == &layer->size.narrow_bytes && layer->size.narrow_bytes == 0)) continue;
        json_object_set_new(object, field->name,
                            field->group >= COST_SIZE ? json_integer(*(const int64_t *)at) : json_real(*(const double *)at));
    }
    return object;
}

static json_t *table_json(const struct cost_table *table) {
    json_t *layers = json_array();
    bool spills = table->fast_memory_bytes > 0;
    for (int l = 0; l < table->layer_count; l++) json_array_append_new(layers, layer_json(&table->layers[l], spills));
    json_t *object = json_pack("{s:i, s:I, s:o}", "micro_batch", table->micro_batch, "input_bytes",
                               (json_int_t)table->input_bytes, "layers", json_whole(layers, table->layer_count));
    if (spills) json_object_set_new(object, "fast_memory_bytes", json_integer(table->fast_memory_bytes));
    json_t *wire = json_object();
    for (int c = 0; c < WIRE_CODECS; c++)
        if (table->wire_s[c][0] > 0 || table->wire_s[c][1] > 0)
            json_object_set_new(wire, wire_codecs[c].name, json_pack("[f, f]", table->wire_s[c][0], table->wire_s[c][1]));
    if (json_object_size(wire) > 0) json_object_set(object, "wire", wire);
    json_decref(wire);
    return object;
}

static json_t *graph_json(const struct costgraph *graph) {
    json_t *nodes = json_array(), *edges = json_array();
    for (int n = 0; n < graph->node_count; n++) {
        const struct costgraph_node *node = &graph->nodes[n];
        json_array_append_new(nodes,
                              json_pack("{s:s, s:s, s:I, s:f, s:f, s:I, s:I, s:b}", "name", node->name, "kind", node->kind,
                                        "number", (json_int_t)node->number, "forward_s", node->forward_s, "backward_s",
                                        node->backward_s, "activation_bytes", (json_int_t)node->activation_bytes,
                                        "parameter_bytes", (json_int_t)node->parameter_bytes, "input", (int)node->input));
    }
    for (int e = 0; e < graph->edge_count; e++)
        json_array_append_new(edges, json_pack("[i, i]", graph->edges[e].from, graph->edges[e].to));
    return json_pack("{s:o, s:o}", "nodes", json_whole(nodes, graph->node_count), "edges",
                     json_whole(edges, graph->edge_count));
}

static json_t *lengths_json(const struct ps_profile *profile) {
    json_t *lengths = json_array();
    for (int l = 0; l < profile->length_count; l++)
        json_array_append_new(
            lengths, json_pack("{s:f, s:f}", "share", profile->by_length[l].share, "factor", profile->by_length[l].factor));
    return lengths;
}

static json_t *profile_document(const struct ps_profile *profile) {
    json_t *costs = json_array();
    for (int t = 0; t < profile->table_count; t++) json_array_append_new(costs, table_json(&profile->tables[t]));
    json_t *root = json_pack("{s:s, s:i, s:s, s:s*, s:s, s:i, s:o}", "format", "penstock-profile", "version", 1, "model",
                             profile->model, "network", profile->network[0] ? profile->network : NULL, "device",
                             profile->device, "threads", profile->threads, "costs", json_whole(costs, profile->table_count));
    if (root && profile->busy > 1) json_object_set_new(root, "busy", json_integer(profile->busy));
    if (root && profile->lengths[0]) json_object_set_new(root, "lengths", json_string(profile->lengths));
    if (root && profile->length_count > 0) json_object_set_new(root, "by_length", lengths_json(profile));
    if (root && profile->ties.count > 0) json_object_set_new(root, "ties", ties_json(&profile->ties));
    if (root && profile->graph) json_object_set_new(root, "graph", graph_json(profile->graph));
    return root;
}

char *ps_profile_json(const struct ps_profile *profile) { return json_text(profile_document(profile)); }

enum ps_status ps_profile_write(const struct ps_profile *profile, const char *path, struct ps_error *error) {
    return json_write_file(profile_document(profile), path, error);
}

/* ------------------------------------------------------------------ a table for people */

static const struct json_column layer_columns[] = {
    JSON_COLUMN("#", NULL, NULL, .first = 1),
    JSON_COLUMN("layer", "name", json_show_text),
    JSON_COLUMN("kind", "kind", json_show_text),
    JSON_COLUMN("forward", "forward_s", json_show_seconds),
    JSON_COLUMN("backward, input", "backward_input_s", json_show_seconds),
    JSON_COLUMN("backward, weights", "backward_weight_s", json_show_seconds),
    JSON_COLUMN("update", "update_s", json_show_seconds),
    JSON_COLUMN("parameters", "parameter_bytes", json_show_bytes),
    JSON_COLUMN("across the cut", "output_bytes", json_show_bytes),
    JSON_COLUMN("kept", "stash_bytes", json_show_bytes),
};
enum { LAYER_COLUMNS = sizeof layer_columns / sizeof layer_columns[0] };

static void add_table(struct text *out, const struct cost_table *table) {
    struct text rows = {0};
    struct layer_cost all = {.name = "in all"};
    for (int l = 0; l < table->layer_count; l++) {
        const struct layer_cost *layer = &table->layers[l];
        layer_times_add(&all.time, &layer->time);
        all.size.output_bytes += layer->size.output_bytes;
        all.size.stash_bytes += layer->size.stash_bytes;
    }
    const struct stage_cost whole = stage_cost(table, 0, table->layer_count - 1);
    all.size.parameter_bytes = whole.size.parameter_bytes; /* shared ones once */
    json_t *document = table_json(table), *sums = layer_json(&all, false);
    json_table(&rows, json_object_get(document, "layers"), layer_columns, LAYER_COLUMNS);
    json_table_row(&rows, "", sums, layer_columns, LAYER_COLUMNS);
    text_add_table(out, &rows);
    if (!document || !sums) out->failed = true;
    json_decref(document);
    json_decref(sums);
}

char *ps_profile_table(const struct ps_profile *profile) {
    struct text out = {0};
    for (int t = 0; t < profile->table_count; t++) {
        const struct cost_table *table = &profile->tables[t];
        text_add(&out, "%s%s on %s", t ? "\n" : "", profile->model, profile->device);
        if (profile->threads > 1) text_add(&out, ", %d threads", profile->threads);
        if (table->micro_batch > 0) text_add(&out, ", micro-batch of %d", table->micro_batch);
        text_add(&out, "\n\n");
        add_table(&out, table);
    }
    return text_take(&out);
}
