/*
 * The network file: strict reading, and writing so that reading back gives the same network, to the bit of its initial values.
 * Nodes name those that they read; a node that does not reads the one before it. Attributes come from the operators' entries.
 */
#include <stdlib.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/text.h"
#include "base/units.h"
#include "graph/network_builder.h"
#include "graph/operators.h"

#define FORMAT "penstock-network"

/* ----------------------------------------------------------------- reading */

struct reading {
    struct ps_network_builder *builder;
    json_t *numbers; /* of the nodes so far, by name */
};

/* What the builder has refused, at the place that it was told from. */
static enum ps_status passed(const struct reading *reading, const struct json_place *place, struct ps_error *error) {
    const struct ps_network_builder *builder = reading->builder;
    if (builder->status != PS_USAGE) {
        if (builder->status != PS_OK && error != NULL) *error = builder->error;
        return builder->status;
    }
    json_error(place, error, "%s", builder->error.message);
    error_hint_lines(error, builder->error.hint);
    return PS_BAD_INPUT;
}

static enum ps_status note_name(struct reading *reading, const struct json_place *place, const char *name, int number,
                                struct ps_error *error) {
    TRY(passed(reading, place, error));
    if (json_object_get(reading->numbers, name) != NULL)
        return json_error(place, error, "name: two nodes are called '%s'", name);
    if (json_object_set_new(reading->numbers, name, json_integer(number)) != 0)
        return error_memory(error, "names", strlen(name));
    return PS_OK;
}

/* The number of the node that `value` names; it must stand before. */
static enum ps_status find_node(const struct reading *reading, const struct json_place *place, const json_t *value, int *number,
                                struct ps_error *error) {
    const char *name = json_string_value(value), *key;
    const char *names[64];
    size_t count = 0;
    json_t *found;
    if (name == NULL) return json_error(place, error, "must be the name of a node");
    found = json_object_get(reading->numbers, name);
    if (found != NULL) {
        *number = (int)json_integer_value(found);
        return PS_OK;
    }
    /* The nearest of the first few: where there are thousands nobody wants to read them. */
    json_object_foreach(reading->numbers, key, found) if (count < 64) names[count++] = key;
    const char *near = nearest_name(name, names, count);
    return json_error(place, error, "no node before this one is called '%s'%s%s%s", name, near ? "; did you mean '" : "",
                      near ? near : "", near ? "'?" : "");
}

static enum ps_status read_inputs(const struct reading *reading, const struct json_place *node, int inputs[GRAPH_INPUTS_MAX],
                                  int *count, struct ps_error *error) {
    struct json_place list, item;
    size_t length;
    *count = 0;
    TRY(json_field(node, "inputs", false, &list, error));
    if (list.value == NULL) return PS_OK;
    TRY(json_array_length(&list, &length, error));
    if (length < 1 || length > GRAPH_INPUTS_MAX)
        return json_error(&list, error, "%zu names; 1 to %d are accepted", length, GRAPH_INPUTS_MAX);
    for (size_t i = 0; i < length; i++) {
        TRY(json_item(&list, i, &item, error));
        TRY(find_node(reading, &item, item.value, &inputs[i], error));
    }
    *count = (int)length;
    return PS_OK;
}

/* One number for both sides, or [height, width]. */
static enum ps_status read_sides(const struct json_place *node, const struct attribute *attribute, double value[2],
                                 struct ps_error *error) {
    struct json_place place;
    TRY(json_field(node, attribute->name, false, &place, error));
    bool both = json_is_array(place.value) && json_array_size(place.value) == 2;
    for (int side = 0; side < 2; side++) {
        const json_t *number = both ? json_array_get(place.value, (size_t)side) : place.value;
        if (!json_is_integer(number)) return json_error(&place, error, "must be an integer, or two: [height, width]");
        value[side] = (double)json_integer_value(number);
    }
    return PS_OK;
}

static enum ps_status read_list(const struct json_place *node, const struct attribute *attribute, double *values, int *count,
                                struct ps_error *error) {
    struct json_place list, item;
    size_t length;
    TRY(json_field(node, attribute->name, false, &list, error));
    TRY(json_array_length(&list, &length, error));
    if (length < 1 || length > SHAPE_RANK_MAX)
        return json_error(&list, error, "%zu numbers; 1 to %d are accepted", length, SHAPE_RANK_MAX);
    for (size_t i = 0; i < length; i++) {
        TRY(json_item(&list, i, &item, error));
        if (!json_is_integer(item.value)) return json_error(&item, error, "must be an integer");
        values[i] = (double)json_integer_value(item.value);
    }
    *count = (int)length;
    return PS_OK;
}

static enum ps_status read_attribute(const struct json_place *node, const struct attribute *attribute, struct attributes *out,
                                     struct ps_error *error) {
    const char *name = attribute->name;
    struct json_place place;
    struct ps_error refusal;
    double value[SHAPE_RANK_MAX] = {0};
    const char *word;
    int number = 0, count = 1;
    bool truth = false;
    TRY(json_field(node, name, isnan(attribute->usual), &place, error));
    if (place.value == NULL) return PS_OK;
    switch (attribute->kind) {
    case ATTRIBUTE_INTEGER:
        TRY(json_get_int(node, name, true, (int)attribute->low, (int)attribute->high, &number, error));
        value[0] = number;
        break;
    case ATTRIBUTE_SIDES:
        TRY(read_sides(node, attribute, value, error));
        count = 2;
        break;
    case ATTRIBUTE_LIST:
        TRY(read_list(node, attribute, value, &count, error));
        break;
    case ATTRIBUTE_NUMBER:
        TRY(json_get_number(node, name, true, attribute->low, attribute->high, &value[0], error));
        break;
    case ATTRIBUTE_BOOLEAN:
        TRY(json_get_bool(node, name, true, &truth, error));
        value[0] = truth;
        break;
    case ATTRIBUTE_TYPE:
    case ATTRIBUTE_CHOICE:
        TRY(json_get_string(node, name, true, &word, error));
        if (attribute_number(attribute, word, value, &refusal) != PS_OK) {
            json_error(node, error, "%s", refusal.message);
            error_hint_lines(error, refusal.hint);
            return PS_BAD_INPUT;
        }
        break;
    }
    for (int e = 0; e < count; e++) {
        if (attribute_check(attribute, value[e], &refusal) != PS_OK) return json_error(node, error, "%s", refusal.message);
        attribute_set(out, attribute, e, value[e]);
    }
    return PS_OK;
}

static enum ps_status read_attributes(const struct json_place *node, const struct operator_type *op,
                                      struct attributes *attributes, struct ps_error *error) {
    static const char *const own[] = {"name",   "operator", "inputs", "initial", "parameters",
                                      "frozen", "tied_to",  "part",   "random"};
    enum { OWN = sizeof own / sizeof *own };
    const char *fields[OWN + ATTRIBUTES_MAX];
    size_t count = OWN;
    memcpy(fields, own, sizeof own);
    for (int a = 0; a < ATTRIBUTES_MAX && op->attributes[a].name != NULL; a++) fields[count++] = op->attributes[a].name;
    TRY(json_object_fields(node, fields, count, error));
    *attributes = attributes_usual(op);
    for (size_t a = 0; a < count - OWN; a++) TRY(read_attribute(node, &op->attributes[a], attributes, error));
    return PS_OK;
}

/* {"weight": {"normal": 0.01}} */
static enum ps_status read_initial(const struct reading *reading, const struct json_place *node, int number,
                                   struct ps_error *error) {
    struct json_place initial, parameter;
    const char *name, *kind;
    json_t *kinds, *value;
    TRY(json_field(node, "initial", false, &initial, error));
    if (initial.value == NULL) return PS_OK;
    if (!json_is_object(initial.value)) return json_error(&initial, error, "must be an object, parameters by name");
    json_object_foreach(initial.value, name, kinds) {
        TRY(json_field(&initial, name, true, &parameter, error));
        if (!json_is_object(kinds) || json_object_size(kinds) != 1)
            return json_error(&parameter, error, "must be an object with one field: constant, uniform or normal");
        json_object_foreach(kinds, kind, value) {
            if (!json_is_number(value)) return json_error(&parameter, error, "%s: must be a number", kind);
            ps_network_builder_initial(reading->builder, number, name, kind, json_number_value(value));
        }
        TRY(passed(reading, &parameter, error));
    }
    return PS_OK;
}

/* {"weight": "encoder.in_proj_weight"}: names that are not the node's with the tensor's. */
static enum ps_status read_names(const struct reading *reading, const struct json_place *node, int number,
                                 struct ps_error *error) {
    struct json_place names;
    const char *own, *name;
    json_t *value;
    TRY(json_field(node, "parameters", false, &names, error));
    if (names.value == NULL) return PS_OK;
    if (!json_is_object(names.value)) return json_error(&names, error, "must be an object, names by parameters");
    json_object_foreach(names.value, own, value) {
        TRY(json_get_string(&names, own, true, &name, error));
        network_builder_name(reading->builder, number, own, name);
        TRY(passed(reading, &names, error));
    }
    return PS_OK;
}

/* ["weight", "bias"] */
static enum ps_status read_frozen(const struct reading *reading, const struct json_place *node, int number,
                                  struct ps_error *error) {
    struct json_place list, item;
    size_t count;
    TRY(json_field(node, "frozen", false, &list, error));
    if (list.value == NULL) return PS_OK;
    TRY(json_array_length(&list, &count, error));
    for (size_t i = 0; i < count; i++) {
        TRY(json_item(&list, i, &item, error));
        if (!json_is_string(item.value)) return json_error(&item, error, "must be the name of a parameter");
        network_builder_freeze(reading->builder, number, json_string_value(item.value));
        TRY(passed(reading, &item, error));
    }
    return PS_OK;
}

/* What the rewrite of a split layer has left in its nodes: {"of": "conv1", "first": 32, "rows": 96}. */
static enum ps_status read_part(const struct reading *reading, const struct json_place *node, int number,
                                struct ps_error *error) {
    static const char *const fields[] = {"of", "first", "rows"};
    struct json_place part;
    const char *of;
    int first, rows;
    TRY(json_field(node, "part", false, &part, error));
    if (part.value == NULL) return PS_OK;
    TRY(json_object_fields(&part, fields, 3, error));
    TRY(json_get_string(&part, "of", true, &of, error));
    TRY(json_get_int(&part, "first", true, 0, FEATURES_MAX, &first, error));
    TRY(json_get_int(&part, "rows", true, 1, FEATURES_MAX, &rows, error));
    network_builder_slice(reading->builder, number, of, first, rows);
    return passed(reading, &part, error);
}

/* A node with whose first parameter its own is one, or {"weight": "fc1.weight", "bias": "fc1.bias"}. */
static enum ps_status read_ties(const struct reading *reading, const struct json_place *node, int number,
                                struct ps_error *error) {
    struct json_place tied, parameter;
    const char *name, *owner;
    json_t *value;
    int before;
    TRY(json_field(node, "tied_to", false, &tied, error));
    if (tied.value == NULL) return PS_OK;
    if (!json_is_object(tied.value)) {
        TRY(find_node(reading, &tied, tied.value, &before, error));
        ps_network_builder_tie(reading->builder, number, before);
        return passed(reading, &tied, error);
    }
    json_object_foreach(tied.value, name, value) {
        TRY(json_get_string(&tied, name, true, &owner, error));
        TRY(json_field(&tied, name, true, &parameter, error));
        ps_network_builder_share(reading->builder, number, name, owner);
        TRY(passed(reading, &parameter, error));
    }
    return PS_OK;
}

static enum ps_status read_node(struct reading *reading, const struct json_place *node, struct ps_error *error) {
    const char *name, *kind;
    enum operator_id id;
    struct attributes attributes;
    struct ps_error refusal = {0};
    int inputs[GRAPH_INPUTS_MAX], count;
    TRY(json_get_string(node, "name", true, &name, error));
    TRY(json_get_string(node, "operator", true, &kind, error));
    if (operator_find(kind, &id, &refusal) != PS_OK) {
        json_error(node, error, "%s", refusal.message);
        error_hint_lines(error, refusal.hint);
        return PS_BAD_INPUT;
    }
    TRY(read_attributes(node, operator_get(id), &attributes, error));
    TRY(read_inputs(reading, node, inputs, &count, error));
    int number = network_builder_add(reading->builder, name, id, &attributes, inputs, count);
    TRY(note_name(reading, node, name, number, error));
    struct node *added = &reading->builder->graph->nodes[number];
    TRY(json_get_int(node, "random", false, 0, INT32_MAX, &added->random_number, error));
    TRY(read_initial(reading, node, number, error));
    TRY(read_frozen(reading, node, number, error));
    TRY(read_names(reading, node, number, error));
    TRY(read_part(reading, node, number, error));
    return read_ties(reading, node, number, error);
}

/* An entry of inputs or targets. */
struct value {
    const char *name, *type;
    int64_t sides[SHAPE_RANK_MAX];
    int rank;
};

/* `count`: of the fields that it may have. */
static enum ps_status read_value(const struct json_place *place, size_t count, struct value *value, struct ps_error *error) {
    static const char *const fields[] = {"name", "type", "shape", "class_weights"};
    struct json_place shape, side;
    size_t rank;
    TRY(json_object_fields(place, fields, count, error));
    TRY(json_get_string(place, "name", true, &value->name, error));
    TRY(json_get_string(place, "type", false, &value->type, error));
    TRY(json_field(place, "shape", true, &shape, error));
    TRY(json_array_length(&shape, &rank, error));
    if (rank < 1 || rank > SHAPE_RANK_MAX)
        return json_error(&shape, error, "%zu sides; 1 to %d are accepted", rank, SHAPE_RANK_MAX);
    value->rank = (int)rank;
    for (size_t d = 0; d < rank; d++) {
        TRY(json_item(&shape, d, &side, error));
        if (!json_is_integer(side.value)) return json_error(&side, error, "must be an integer");
        value->sides[d] = json_integer_value(side.value);
    }
    return PS_OK;
}

static enum ps_status read_input(struct reading *reading, const struct json_place *place, struct ps_error *error) {
    struct value value = {.type = number_types[TYPE_F32].name};
    TRY(read_value(place, 3, &value, error));
    int number = ps_network_builder_input(reading->builder, value.name, value.type, value.sides, value.rank);
    return note_name(reading, place, value.name, number, error);
}

static enum ps_status read_class_weights(const struct reading *reading, const struct json_place *target,
                                         struct ps_error *error) {
    struct json_place list, item;
    size_t count;
    TRY(json_field(target, "class_weights", false, &list, error));
    if (list.value == NULL) return PS_OK;
    TRY(json_array_length(&list, &count, error));
    if (count > FEATURES_MAX) return json_error(&list, error, "%zu of them; %d are accepted", count, FEATURES_MAX);
    float *weights;
    TRY(memory_new(&weights, count, "class weights", error));
    enum ps_status status = PS_OK;
    for (size_t c = 0; status == PS_OK && c < count; c++) {
        status = json_item(&list, c, &item, error);
        if (status == PS_OK && !json_is_number(item.value)) status = json_error(&item, error, "must be a number");
        weights[c] = (float)json_number_value(item.value);
    }
    if (status == PS_OK) ps_network_builder_class_weights(reading->builder, weights, (int)count);
    free(weights);
    return status == PS_OK ? passed(reading, &list, error) : status;
}

static enum ps_status read_targets(const struct reading *reading, const struct json_place *root, struct ps_error *error) {
    struct json_place targets, item;
    struct value value = {.type = number_types[TYPE_I32].name};
    size_t count;
    TRY(json_field(root, "targets", false, &targets, error));
    if (targets.value == NULL) return PS_OK;
    TRY(json_array_length(&targets, &count, error));
    if (count != 1) return json_error(&targets, error, "%zu of them; a network has one, which its loss reads", count);
    TRY(json_item(&targets, 0, &item, error));
    TRY(read_value(&item, 4, &value, error));
    ps_network_builder_target(reading->builder, value.name, value.type, value.sides, value.rank);
    TRY(passed(reading, &item, error));
    return read_class_weights(reading, &item, error);
}

static enum ps_status read_parts(struct reading *reading, const struct json_place *root, struct ps_error *error) {
    static const char *const fields[] = {"format", "version", "name",  "predicts", "precision",
                                         "inputs", "targets", "nodes", "values"};
    const char *predicts = network_predicts_names[PREDICTS_CLASSES], *precision = precision_names[PRECISION_F32];
    struct json_place inputs, nodes, item;
    size_t count;
    TRY(json_object_fields(root, fields, sizeof fields / sizeof *fields, error));
    TRY(json_get_string(root, "predicts", false, &predicts, error));
    ps_network_builder_predicts(reading->builder, predicts);
    TRY(passed(reading, root, error));
    TRY(json_get_string(root, "precision", false, &precision, error));
    enum precision known = 0;
    while (known < PRECISION_COUNT && strcmp(precision, precision_names[known]) != 0) known++;
    if (known == PRECISION_COUNT) return json_error(root, error, "precision: '%s': f32, bf16 and mixed are accepted", precision);
    reading->builder->graph->precision = known;
    TRY(json_field(root, "inputs", true, &inputs, error));
    TRY(json_array_length(&inputs, &count, error));
    if (count < 1 || count > NETWORK_INPUTS_MAX)
        return json_error(&inputs, error, "%zu of them; a network has 1 to %d", count, NETWORK_INPUTS_MAX);
    for (size_t i = 0; i < count; i++) {
        TRY(json_item(&inputs, i, &item, error));
        TRY(read_input(reading, &item, error));
    }
    TRY(read_targets(reading, root, error));
    TRY(json_field(root, "nodes", true, &nodes, error));
    TRY(json_array_length(&nodes, &count, error));
    if (count == 0) return json_error(&nodes, error, "there are none");
    for (size_t n = 0; n < count; n++) {
        TRY(json_item(&nodes, n, &item, error));
        TRY(read_node(reading, &item, error));
    }
    return PS_OK;
}

/* The file of values, a plain name in the directory of the network's file, which a text alone (NULL) does not have. */
static enum ps_status read_values(const struct reading *reading, const struct json_place *root, const char *path,
                                  struct ps_error *error) {
    struct graph *graph = reading->builder->graph;
    char place[4096];
    const char *name = NULL, *end = path != NULL ? strrchr(path, '/') : NULL;
    TRY(json_get_string(root, "values", false, &name, error));
    if (name == NULL || path == NULL) return PS_OK;
    if (name[0] == '\0' || strchr(name, '/') != NULL || strcmp(name, "..") == 0)
        return json_error(root, error, "values: '%s' is not the name of a file in the same directory", name);
    snprintf(place, sizeof place, "%.*s%s", end != NULL ? (int)(end + 1 - path) : 0, path, name);
    graph->values = values_create();
    TRY(memory_check(graph->values, "values of parameters", error));
    return values_read(graph->values, place, error);
}

static enum ps_status read_document(const struct json_place *root, const char *path, struct ps_network **network,
                                    struct ps_error *error) {
    const char *name;
    TRY(json_get_string(root, "name", true, &name, error));
    struct reading reading = {.builder = ps_network_builder_create(name), .numbers = json_object()};
    enum ps_status status;
    if (reading.builder == NULL || reading.numbers == NULL)
        status = error_memory(error, "a network", sizeof *reading.builder);
    else
        status = read_parts(&reading, root, error);
    if (status == PS_OK) status = read_values(&reading, root, path, error);
    json_decref(reading.numbers);
    if (status != PS_OK) {
        ps_network_builder_destroy(reading.builder);
        return status;
    }
    struct ps_error refusal = {0};
    status = ps_network_builder_finish(reading.builder, network, &refusal);
    if (status == PS_USAGE) return json_error(root, error, "%s", refusal.message);
    if (status != PS_OK && error != NULL) *error = refusal;
    return status;
}

enum ps_status network_parse(const char *text, size_t size, const char *source, struct ps_network **network,
                             struct ps_error *error) {
    json_t *document;
    TRY(json_parse(text, size, source, FORMAT, &document, error));
    struct json_place root = json_root(document, source);
    enum ps_status status = read_document(&root, NULL, network, error);
    json_decref(document);
    return status;
}

enum ps_status network_read_json(const char *path, struct ps_network **network, struct ps_error *error) {
    json_t *document;
    TRY(json_read_file(path, FORMAT, &document, error));
    struct json_place root = json_root(document, path);
    enum ps_status status = read_document(&root, path, network, error);
    json_decref(document);
    return json_tell_line(path, status, error);
}

/* ----------------------------------------------------------------- writing */

/* Sets a field of the object. Where that is impossible, for want of memory or since no JSON can say the value, there is no
 * object any more (NULL): without the field it would be another network's. */
static void put(json_t **object, const char *name, json_t *value) {
    if (json_object_set_new(*object, name, value) == 0) return;
    json_decref(*object);
    *object = NULL;
}

/* The same of what is empty where there is nothing to say. */
static void put_some(json_t **object, const char *name, json_t *value) {
    const bool empty = value != NULL && json_object_size(value) + json_array_size(value) + json_string_length(value) == 0;
    if (empty)
        json_decref(value);
    else
        put(object, name, value);
}

/* The number with as few digits as give the same float when they are read. */
static json_t *number_json(float number) {
    char text[40];
    int digits = 6;
    do number_print(text, sizeof text, "%.*g", digits, (double)number);
    while ((float)number_read(text, NULL) != number && ++digits <= 9);
    return json_real(number_read(text, NULL));
}

static json_t *attribute_json(const struct attributes *attributes, const struct attribute *attribute) {
    double value = attribute_get(attributes, attribute, 0);
    switch (attribute->kind) {
    case ATTRIBUTE_INTEGER:
        return json_integer((json_int_t)value);
    case ATTRIBUTE_SIDES: {
        double width = attribute_get(attributes, attribute, 1);
        if (width == value) return json_integer((json_int_t)value);
        return json_pack("[I, I]", (json_int_t)value, (json_int_t)width);
    }
    case ATTRIBUTE_NUMBER:
        return number_json((float)value);
    case ATTRIBUTE_BOOLEAN:
        return json_boolean(value != 0);
    case ATTRIBUTE_TYPE:
    case ATTRIBUTE_CHOICE:
        return json_string(attribute_word(attribute, value));
    case ATTRIBUTE_LIST: {
        json_t *list = json_array();
        const int count = attribute_count(attributes, attribute);
        for (int e = 0; e < count; e++)
            json_array_append_new(list, json_integer((json_int_t)attribute_get(attributes, attribute, e)));
        return json_whole(list, count);
    }
    }
    return NULL;
}

/* Those that have not their usual value. */
static void put_attributes(json_t **object, const struct node *node) {
    const struct operator_type *op = operator_get(node->id);
    const struct attributes usual = attributes_usual(op);
    for (const struct attribute *a = op->attributes; a < op->attributes + ATTRIBUTES_MAX && a->name != NULL; a++) {
        if (!attribute_equal(&node->attributes, &usual, a) || isnan(a->usual))
            put(object, a->name, attribute_json(&node->attributes, a));
    }
}

/* As ps_network_builder_tie has it, where that says all; `usual`: the node's parameters by their operator's names. */
static json_t *ties_of_node(const struct graph *graph, const struct node *node, const struct parameter *usual) {
    const struct parameter *own = &graph->parameters[node->parameter_first];
    json_t *object = json_object();
    bool first_alone = node->parameter_count > 0 && own->tied;
    for (int p = 0; p < node->parameter_count; p++) {
        if (own[p].tied) put(&object, usual[p].name, json_string(own[p].name));
        first_alone = first_alone && own[p].tied == (p == 0);
    }
    for (const struct node *owner = graph->nodes; first_alone && owner < node; owner++)
        if (owner->parameter_count > 0 && strcmp(graph->parameters[owner->parameter_first].name, own->name) == 0) {
            json_decref(object);
            return json_string(owner->name);
        }
    return object;
}

/* Names of parameters that are not the node's with the tensor's. */
static void put_names(json_t **object, const struct graph *graph, const struct node *node, const struct parameter *usual) {
    json_t *names = json_object();
    for (int p = 0; p < node->parameter_count; p++) {
        const struct parameter *parameter = &graph->parameters[node->parameter_first + p];
        char name[sizeof parameter->name];
        snprintf(name, sizeof name, "%.*s.%s", (int)strcspn(node->name, "/"), node->name, usual[p].name);
        if (strcmp(name, parameter->name) != 0 && !parameter->tied) put(&names, usual[p].name, json_string(parameter->name));
    }
    put_some(object, "parameters", names);
}

/* Initial values that are not the operator's own, and whether a parameter is frozen, shared or was split. */
static void put_parameters(json_t **object, const struct graph *graph, struct node *node) {
    const struct operator_type *op = operator_get(node->id);
    struct parameter usual[GRAPH_PARAMETERS_MAX] = {0};
    struct shape inputs[GRAPH_INPUTS_MAX];
    json_t *initial = json_object(), *frozen = json_array();
    const struct operation operation = node_operation(graph, node, inputs);
    if (node->parameter_count > 0) op->parameters(&operation, usual);
    for (int p = 0; p < node->parameter_count; p++) {
        const struct parameter *parameter = &graph->parameters[node->parameter_first + p];
        const struct initial *own = &parameter->initial;
        bool same = own->kind == usual[p].initial.kind && own->value == usual[p].initial.value;
        if (parameter->frozen) json_array_append_new(frozen, json_string(usual[p].name));
        if (!same && !parameter->tied)
            put(&initial, usual[p].name, json_pack("{s:o}", initial_names[own->kind], number_json(own->value)));
    }
    put_some(object, "initial", initial);
    put_some(object, "frozen", frozen);
    if (node->parameter_count == 0) return;
    const struct parameter *first = &graph->parameters[node->parameter_first];
    put_names(object, graph, node, usual);
    put_some(object, "tied_to", ties_of_node(graph, node, usual));
    if (first->slice.rows == 0) return;
    int length = (int)(strlen(first->slice.whole) - strlen(usual[0].name) - 1);
    put(object, "part",
        json_pack("{s:s%, s:I, s:I}", "of", first->slice.whole, length, "first", (json_int_t)first->slice.first, "rows",
                  (json_int_t)first->slice.rows));
}

static json_t *node_json(const struct graph *graph, int number) {
    struct node *node = &graph->nodes[number];
    json_t *object = json_pack("{s:s, s:s}", "name", node->name, "operator", operator_get(node->id)->name);
    if (node->input_count > 0 && (node->input_count != 1 || node->inputs[0] != number - 1)) {
        json_t *inputs = json_array();
        for (int i = 0; i < node->input_count; i++)
            json_array_append_new(inputs, json_string(graph->nodes[node->inputs[i]].name));
        put(&object, "inputs", json_whole(inputs, node->input_count));
    }
    put_attributes(&object, node);
    put_parameters(&object, graph, node);
    if (network_keeps_random_number(graph, node)) put(&object, "random", json_integer(node->random_number));
    return object;
}

static json_t *input_json(const struct node *node) {
    json_t *shape = json_array();
    const int64_t *dim = node->shape.dim;
    bool tokens = node->shape.type == TYPE_I32 && node->shape.rank == 3 && dim[0] == 1 && dim[2] == 1;
    for (int d = tokens; d < (tokens ? 2 : node->shape.rank); d++) json_array_append_new(shape, json_integer(dim[d]));
    return json_pack("{s:s, s:s, s:o}", "name", node->name, "type", number_types[node->shape.type].name, "shape", shape);
}

static json_t *target_json(const struct ps_network *network) {
    const struct ps_input *target = &network->target;
    const struct graph *graph = network->graph;
    json_t *shape = json_array(), *weights = graph->class_weights != NULL ? json_array() : NULL;
    for (int d = 0; d < target->rank; d++) json_array_append_new(shape, json_integer(target->shape[d]));
    for (int c = 0; c < graph->class_count; c++) json_array_append_new(weights, number_json(graph->class_weights[c]));
    return json_pack("[{s:s, s:s, s:o, s:o*}]", "name", target->name, "type", target->type, "shape",
                     json_whole(shape, target->rank), "class_weights",
                     weights != NULL ? json_whole(weights, graph->class_count) : NULL);
}

/* A line of the file; takes the value. */
static void add_line(struct text *out, const char *before, json_t *value, const char *after) {
    char *line = json_dump_text(value, JSON_REAL_PRECISION(9) | JSON_ENCODE_ANY);
    json_decref(value);
    if (line == NULL) out->failed = true;
    if (line != NULL) text_add(out, "%s%s%s\n", before, line, after);
    free(line);
}

/* One line for each node. `values`: the file of the values; NULL: none. */
static char *network_text(const struct ps_network *network, const char *values) {
    struct text out = {0};
    const struct graph *graph = network->graph;
    text_add(&out, "{\n  \"format\": \"" FORMAT "\",\n  \"version\": 1,\n");
    add_line(&out, "  \"name\": ", json_string(network->name), ",");
    add_line(&out, "  \"predicts\": ", json_string(network_predicts_names[network->predicts]), ",");
    if (graph->precision != PRECISION_F32)
        add_line(&out, "  \"precision\": ", json_string(precision_names[graph->precision]), ",");
    if (values != NULL) add_line(&out, "  \"values\": ", json_string(values), ",");
    text_add(&out, "  \"inputs\": [\n");
    for (int n = 0; n < graph->input_count; n++)
        add_line(&out, "    ", input_json(&graph->nodes[n]), n + 1 < graph->input_count ? "," : "\n  ],");
    if (graph->target[0] != '\0' || graph->class_weights != NULL) add_line(&out, "  \"targets\": ", target_json(network), ",");
    text_add(&out, "  \"nodes\": [\n");
    for (int n = graph->input_count; n < graph->node_count; n++)
        add_line(&out, "    ", node_json(graph, n), n + 1 < graph->node_count ? "," : "");
    text_add(&out, "  ]\n}\n");
    return text_take(&out);
}

char *ps_network_json(const struct ps_network *network) { return network_text(network, NULL); }

/* The values stand beside the network's file: those of net.json in net.safetensors. */
enum ps_status network_write_json(const struct ps_network *network, const char *path, struct ps_error *error) {
    const struct values *values = network->graph->values;
    char place[4096];
    if (values_count(values) > 0 && file_is_stream(path)) {
        error_set(error, PS_USAGE, "%s: the weights of %s would be written beside it", path, network->name);
        error_hint(error, "name a file");
        return PS_USAGE;
    }
    const size_t length = strlen(path), stem = length > 5 && strcmp(path + length - 5, ".json") == 0 ? length - 5 : length;
    snprintf(place, sizeof place, "%.*s.safetensors", (int)stem, path);
    const char *slash = strrchr(place, '/'), *name = slash != NULL ? slash + 1 : place;
    char *text = network_text(network, values_count(values) > 0 ? name : NULL);
    TRY(memory_check(text, "a network's file", error));
    enum ps_status status = values_count(values) > 0 ? values_write(values, place, error) : PS_OK;
    if (status == PS_OK) status = file_write(path, text, strlen(text), error);
    free(text);
    return status;
}
