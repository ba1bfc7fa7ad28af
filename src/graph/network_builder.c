/* See network_builder.h. */
#include "graph/network_builder.h"

#include <stdlib.h>

#include "base/number.h"
#include "base/spec.h"
#include "base/text.h"
#include "graph/operators.h"

enum { NODES_MAX = 1 << 18 };

const char *const initial_names[] = {"constant", "uniform", "normal"};

#define FAIL(builder, ...) ((void)((builder)->status = error_set(&(builder)->error, PS_USAGE, __VA_ARGS__)))

struct ps_network_builder *ps_network_builder_create(const char *name) {
    struct ps_network_builder *builder = calloc(1, sizeof *builder);
    if (builder != NULL) builder->graph = graph_create();
    if (builder == NULL || builder->graph == NULL) {
        free(builder);
        return NULL;
    }
    snprintf(builder->name, sizeof builder->name, "%s", name);
    return builder;
}

void ps_network_builder_destroy(struct ps_network_builder *builder) {
    if (builder == NULL) return;
    graph_destroy(builder->graph);
    free(builder);
}

/* ------------------------------------------------------------------- nodes */

static bool name_is_fine(const char *name) {
    return name[0] != '\0' && name[0] != '/' && utf8_control(name) == NULL && utf8_invalid(name, strlen(name)) == NULL;
}

int network_builder_add(struct ps_network_builder *builder, const char *name, enum operator_id id,
                        const struct attributes *attributes, const int *inputs, int input_count) {
    struct graph *graph = builder->graph;
    const int last = graph->node_count - 1;
    if (builder->status != PS_OK) return -1;
    if (!name_is_fine(name)) {
        FAIL(builder, "node %d: a name must be UTF-8 with letters, no control characters, and may not begin with '/'",
             graph->node_count);
    } else if (graph->node_count == NODES_MAX) {
        FAIL(builder, "node '%s': a network may have %d nodes", name, NODES_MAX);
    } else if (input_count > GRAPH_INPUTS_MAX) {
        FAIL(builder, "node '%s': %d inputs; up to %d are accepted", name, input_count, GRAPH_INPUTS_MAX);
    } else if (id == OPERATOR_INPUT ? last + 1 > graph->input_count : last < 0) {
        FAIL(builder, "node '%s': %s", name,
             last < 0 ? "the data must be added before" : "inputs of the network must be added before its nodes");
    }
    for (int i = 0; builder->status == PS_OK && i < input_count; i++)
        if (inputs[i] < 0 || inputs[i] > last)
            FAIL(builder, "node '%s': input %d: %d is not the number of a node before it", name, i, inputs[i]);
    if (builder->status != PS_OK) return -1;
    bool follows = input_count == 0 && operator_get(id)->inputs_max > 0;
    int added = graph_add(graph, id, name, attributes, follows ? &last : inputs, follows ? 1 : input_count, &builder->error);
    builder->status = graph->status;
    return added;
}

int ps_network_builder_input(struct ps_network_builder *builder, const char *name, const char *type, const int64_t *shape,
                             int rank) {
    enum number_type of = strcmp(type, number_types[TYPE_I32].name) == 0 ? TYPE_I32 : TYPE_F32;
    const bool tokens = of == TYPE_I32;
    if (builder->status != PS_OK) return -1;
    if (strcmp(type, number_types[of].name) != 0) {
        FAIL(builder, "input '%s': type: '%s' is not known; f32 and i32 are", name, type);
    } else if (rank < 1 || rank > SHAPE_RANK_MAX) {
        FAIL(builder, "input '%s': a shape of %d sides; 1 to %d are accepted", name, rank, SHAPE_RANK_MAX);
    }
    for (int d = 0; builder->status == PS_OK && d < rank; d++) {
        const int most = d == 0 && !tokens ? FEATURES_MAX : SIDE_MAX;
        if (shape[d] < 1 || shape[d] > most)
            FAIL(builder, "input '%s': shape: %lld is not from 1 to %d", name, (long long)shape[d], most);
    }
    if (builder->status != PS_OK) return -1;
    struct attributes attributes = {.type = of, .sides.count = rank};
    for (int d = 0; d < rank; d++) attributes.sides.at[d] = (int)shape[d];
    if (tokens && rank == 1) attributes.sides = (struct integers){3, {1, (int)shape[0], 1}};
    return network_builder_add(builder, name, OPERATOR_INPUT, &attributes, NULL, 0);
}

/* One attribute as "5", "3x5", "0.1" or a word says. */
static enum ps_status read_attribute(struct spec *options, const struct attribute *attribute, struct attributes *out,
                                     struct ps_error *error) {
    const char *text = NULL;
    TRY(spec_string(options, attribute->name, &text, error));
    if (text == NULL && isnan(attribute->usual)) return error_set(error, PS_USAGE, "%s is missing", attribute->name);
    if (text == NULL) return PS_OK;
    char *end;
    double value[SHAPE_RANK_MAX] = {0};
    int count = 1, most = attribute->kind == ATTRIBUTE_LIST ? SHAPE_RANK_MAX : attribute->kind == ATTRIBUTE_SIDES ? 2 : 1;
    value[0] = value[1] = number_read(text, &end);
    while (*end == 'x' && end != text && count < most) value[count++] = number_read(end + 1, &end);
    if (attribute->kind == ATTRIBUTE_BOOLEAN && (strcmp(text, "true") == 0 || strcmp(text, "false") == 0))
        value[0] = *text == 't';
    else if (attribute_in_words(attribute))
        TRY(attribute_number(attribute, text, value, error));
    else if (*end != '\0')
        return error_set(error, PS_USAGE, "%s=%s: is no number", attribute->name, text);
    if (attribute->kind == ATTRIBUTE_SIDES) count = 2;
    for (int e = 0; e < count; e++) {
        TRY(attribute_check(attribute, value[e], error));
        attribute_set(out, attribute, e, value[e]);
    }
    return PS_OK;
}

static enum ps_status read_operator(const char *text, enum operator_id *id, struct attributes *attributes,
                                    struct ps_error *error) {
    struct spec options;
    const char *names[ATTRIBUTES_MAX];
    size_t count = 0;
    TRY(spec_parse(text, "operator", &options, error));
    TRY(operator_find(options.name, id, error));
    const struct operator_type *op = operator_get(*id);
    *attributes = attributes_usual(op);
    for (; count < ATTRIBUTES_MAX && op->attributes[count].name != NULL; count++) names[count] = op->attributes[count].name;
    /* A name that is wrong comes before one that is missing. */
    for (size_t a = 0; a < count; a++) {
        const char *unused;
        TRY(spec_string(&options, names[a], &unused, error));
    }
    TRY(spec_finish(&options, "operator", names, count, error));
    for (size_t a = 0; a < count; a++) TRY(read_attribute(&options, &op->attributes[a], attributes, error));
    return PS_OK;
}

int ps_network_builder_node(struct ps_network_builder *builder, const char *name, const char *operator_text, const int *inputs,
                            int input_count) {
    enum operator_id id;
    struct attributes attributes;
    if (builder->status != PS_OK) return -1;
    builder->status = read_operator(operator_text, &id, &attributes, &builder->error);
    if (builder->status == PS_OK) return network_builder_add(builder, name, id, &attributes, inputs, input_count);
    error_prefix(&builder->error, "node '%s'", name);
    return -1;
}

/* -------------------------------------------------------------- parameters */

static const struct node *find_node(struct ps_network_builder *builder, int node) {
    if (builder->status != PS_OK) return NULL;
    if (node >= 0 && node < builder->graph->node_count) return &builder->graph->nodes[node];
    FAIL(builder, "%d is not the number of a node", node);
    return NULL;
}

/* "weight" of "conv1.weight". */
static const char *own_name(const struct node *node, const struct parameter *parameter) {
    return parameter->tied ? "" : parameter->name + strcspn(node->name, "/") + 1;
}

/* The number of the node's parameter of this name, or -1 with an error. */
static int find_parameter(struct ps_network_builder *builder, const struct node *node, const char *name) {
    const char *names[GRAPH_PARAMETERS_MAX];
    for (int p = 0; p < node->parameter_count; p++) {
        names[p] = own_name(node, &builder->graph->parameters[node->parameter_first + p]);
        if (strcmp(names[p], name) == 0) return p;
    }
    builder->status = error_unknown(&builder->error, PS_USAGE, "parameter", name, names, (size_t)node->parameter_count);
    error_prefix(&builder->error, "node '%s'", node->name);
    return -1;
}

void network_builder_name(struct ps_network_builder *builder, int number, const char *own, const char *name) {
    const struct node *node = find_node(builder, number);
    const int found = node != NULL ? find_parameter(builder, node, own) : -1;
    if (found < 0) return;
    const struct shape *shape = &builder->graph->parameters[node->parameter_first + found].shape;
    builder->status = graph_name_parameter(builder->graph, number, found, name, shape, &builder->error);
}

void ps_network_builder_initial(struct ps_network_builder *builder, int number, const char *name, const char *kind,
                                double value) {
    const struct node *node = find_node(builder, number);
    const int found = node != NULL ? find_parameter(builder, node, name) : -1;
    int known = 0;
    if (found < 0) return;
    while (known < 3 && strcmp(initial_names[known], kind) != 0) known++;
    if (known == 3)
        builder->status = error_unknown(&builder->error, PS_USAGE, "initial values", kind, initial_names, 3);
    else if (!isfinite((float)value) || (known != INITIAL_CONSTANT && value < 0))
        FAIL(builder, "%s: %g: a finite number, for uniform and normal not below 0, is accepted", name, value);
    if (builder->status != PS_OK)
        error_prefix(&builder->error, "node '%s'", node->name);
    else
        graph_set_initial(builder->graph, number, found, (struct initial){(enum initial_kind)known, (float)value});
}

void network_builder_freeze(struct ps_network_builder *builder, int number, const char *name) {
    const struct node *node = find_node(builder, number);
    const int found = node != NULL ? find_parameter(builder, node, name) : -1;
    if (found < 0) return;
    struct parameter *parameter = &builder->graph->parameters[node->parameter_first + found];
    if (parameter->role != PARAMETER_TRAINED) return;
    parameter->role = PARAMETER_FIXED;
    parameter->frozen = true;
}

void ps_network_builder_tie(struct ps_network_builder *builder, int number, int owner_number) {
    const struct node *node = find_node(builder, number), *owner = find_node(builder, owner_number);
    if (node == NULL || owner == NULL) return;
    if (node->parameter_count == 0 || owner->parameter_count == 0 || owner >= node)
        FAIL(builder, "node '%s': cannot share a parameter with '%s': both must have some, and that stand before", node->name,
             owner->name);
    else
        graph_tie(builder->graph, number, 0, owner_number, 0);
}

void ps_network_builder_share(struct ps_network_builder *builder, int number, const char *parameter, const char *owner) {
    const struct node *node = find_node(builder, number);
    const int own = node != NULL ? find_parameter(builder, node, parameter) : -1;
    if (own < 0) return;
    const struct graph *graph = builder->graph;
    for (int before = 0; before < number; before++)
        for (int p = 0; p < graph->nodes[before].parameter_count; p++)
            if (strcmp(graph->parameters[graph->nodes[before].parameter_first + p].name, owner) == 0) {
                graph_tie(builder->graph, number, own, before, p);
                return;
            }
    FAIL(builder, "node '%s': %s: no node before it has a parameter '%s'", node->name, parameter, owner);
}

void network_builder_slice(struct ps_network_builder *builder, int number, const char *of, int64_t first, int64_t rows) {
    const struct node *node = find_node(builder, number);
    if (node == NULL) return;
    for (int p = 0; p < node->parameter_count; p++) {
        struct parameter *parameter = &builder->graph->parameters[node->parameter_first + p];
        struct parameter_slice *slice = &parameter->slice;
        if (first < 0 || rows > FEATURES_MAX || first + parameter->shape.dim[0] > rows) {
            FAIL(builder, "node '%s': rows from %lld of %lld do not hold its %lld", node->name, (long long)first,
                 (long long)rows, (long long)parameter->shape.dim[0]);
            return;
        }
        *slice = (struct parameter_slice){.first = first, .rows = rows};
        snprintf(slice->whole, sizeof slice->whole, "%.*s.%s", (int)strcspn(of, "/"), of, own_name(node, parameter));
    }
}

void ps_network_builder_predicts(struct ps_network_builder *builder, const char *what) {
    if (builder->status != PS_OK) return;
    for (int p = 0; p < 3; p++) {
        if (strcmp(network_predicts_names[p], what) != 0) continue;
        builder->predicts = (enum network_predicts)p;
        return;
    }
    builder->status = error_unknown(&builder->error, PS_USAGE, "predicts", what, network_predicts_names, 3);
}

void ps_network_builder_target(struct ps_network_builder *builder, const char *name, const char *type, const int64_t *shape,
                               int rank) {
    struct graph *graph = builder->graph;
    const bool labels = strcmp(type, number_types[TYPE_I32].name) == 0;
    if (builder->status != PS_OK) return;
    if (!name_is_fine(name) || strlen(name) >= sizeof graph->target)
        FAIL(builder, "target '%.80s': a name has 1 to %zu bytes of UTF-8, no control characters, and may not begin with '/'", name,
             sizeof graph->target - 1);
    else if (builder->target.rank > 0)
        FAIL(builder, "target '%s': there is one already; a loss reads one", name);
    else if (!labels && strcmp(type, number_types[TYPE_F32].name) != 0)
        FAIL(builder, "target '%s': type: '%s' is not known; i32, for labels, and f32 are", name, type);
    else if (rank < 1 || rank > SHAPE_RANK_MAX)
        FAIL(builder, "target '%s': a shape of %d sides; 1 to %d are accepted", name, rank, SHAPE_RANK_MAX);
    for (int d = 0; builder->status == PS_OK && d < rank; d++)
        if (shape[d] < 1 || shape[d] > FEATURES_MAX)
            FAIL(builder, "target '%s': shape: %lld is not from 1 to %d", name, (long long)shape[d], FEATURES_MAX);
    if (builder->status != PS_OK) return;
    builder->target = (struct shape){.rank = rank, .type = labels ? TYPE_I32 : TYPE_F32};
    memcpy(builder->target.dim, shape, (size_t)rank * sizeof *shape);
    if (strcmp(name, TARGET_NAME) != 0) memcpy(graph->target, name, strlen(name) + 1);
}

void ps_network_builder_class_weights(struct ps_network_builder *builder, const float *weights, int count) {
    if (builder->status != PS_OK) return;
    if (count < 2 || count > FEATURES_MAX)
        FAIL(builder, "%d class weights: from 2 to %d are accepted", count, FEATURES_MAX);
    else
        builder->status = graph_weigh_classes(builder->graph, weights, count, &builder->error);
}

/* Is what the loss reads as the target was said to be? */
static enum ps_status check_target(const struct ps_network_builder *builder, struct ps_error *error) {
    const struct graph *graph = builder->graph;
    const struct shape *said = &builder->target;
    if (said->rank == 0 || graph->node_count == 0) return PS_OK;
    const struct shape read = graph_target(graph);
    char said_text[96], read_text[96];
    if (shape_equal(said, &read)) return PS_OK;
    return error_set(error, PS_USAGE, "target '%s': it is %s, but the loss reads %s",
                     graph->target[0] != '\0' ? graph->target : TARGET_NAME, shape_text(said, said_text),
                     shape_text(&read, read_text));
}

enum ps_status ps_network_builder_finish(struct ps_network_builder *builder, struct ps_network **network,
                                         struct ps_error *error) {
    enum ps_status status = builder->status;
    if (status == PS_OK && (status = check_target(builder, &builder->error)) == PS_OK) {
        status = network_create(builder->name, builder->graph, builder->predicts, network, error);
        builder->graph = NULL;
    } else if (error != NULL) {
        *error = builder->error;
    }
    ps_network_builder_destroy(builder);
    return status;
}

/* ------------------------------------------------------------------- table */

static void add_attribute(struct text *rows, const struct attribute *attribute) {
    text_add(rows, "%s", attribute->name);
    if (isnan(attribute->usual)) return;
    if (attribute->kind == ATTRIBUTE_BOOLEAN)
        text_add(rows, "=%s", attribute->usual != 0 ? "true" : "false");
    else if (attribute_in_words(attribute))
        text_add(rows, "=%s", attribute_word(attribute, attribute->usual));
    else if (attribute->kind != ATTRIBUTE_LIST)
        text_add(rows, "=%g", attribute->usual);
}

/* The words of a choice, some in each row. */
static void add_words(struct text *rows, const struct operator_type *op, const struct attribute *attribute) {
    enum { WIDTH = 90 };
    size_t used = 0;
    text_add(rows, "%s %s\t", op->name, attribute->name);
    for (int w = 0; w <= (int)attribute->high; w++) {
        const char *word = attribute_word(attribute, w);
        if (used > 0 && used + strlen(word) > WIDTH) {
            text_add(rows, "\n\t");
            used = 0;
        }
        text_add(rows, "%s%s", word, w < (int)attribute->high ? ", " : "");
        used += strlen(word) + 2;
    }
    text_add(rows, "\n");
}

char *ps_network_operators(void) {
    struct text rows = {0}, words = {0};
    text_add(&rows, "operator\tinputs\tattributes\n");
    text_add(&words, "attribute\tone of\n");
    for (int id = 0; id < OPERATOR_COUNT; id++) {
        const struct operator_type *op = operator_get((enum operator_id)id);
        if (!operator_in_files((enum operator_id)id)) continue;
        text_add(&rows, "%s\t%d", op->name, op->inputs_min);
        if (op->inputs_max > op->inputs_min) text_add(&rows, "-%d", op->inputs_max);
        text_add(&rows, "\t");
        for (int a = 0; a < ATTRIBUTES_MAX && op->attributes[a].name != NULL; a++) {
            text_add(&rows, a > 0 ? ", " : "");
            add_attribute(&rows, &op->attributes[a]);
            if (op->attributes[a].kind == ATTRIBUTE_CHOICE) add_words(&words, op, &op->attributes[a]);
        }
        text_add(&rows, "\n");
    }
    struct text out = {0};
    text_add_table(&out, &rows);
    text_add(&out, "\n");
    text_add_table(&out, &words);
    return text_take(&out);
}
