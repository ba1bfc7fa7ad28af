/*
 * The builder, and what graph_finish finds out: the layers, which nodes share memory, and the values that cross each cut.
 */
#include "graph/graph.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"
#include "base/text.h"
#include "graph/operators.h"
#include "graph/split.h"

/* Of one sample's value or one parameter: beyond it nothing could run, and products of sizes could overflow. */
#define ELEMENTS_MAX ((int64_t)1 << 36)
/* Of all values at all cuts: a deep network that reads each of its values at its end would fill the memory with them. */
enum { CROSSINGS_MAX = 1 << 26 };

struct graph *graph_create(void) {
    return calloc(1, sizeof(struct graph));
}

void graph_destroy(struct graph *graph) {
    if (graph == NULL) return;
    if (graph->wide != NULL) free(graph->wide->nodes);
    free(graph->wide);
    free(graph->nodes);
    free(graph->parameters);
    free(graph->layers);
    free(graph->cut_first);
    free(graph->cut_values);
    free(graph->class_weights);
    values_release(graph->values);
    free(graph);
}

static bool elements_fit(const struct shape *shape) {
    int64_t elements = 1;
    for (int d = 0; d < shape->rank; d++) {
        if (shape->dim[d] > 0 && elements > ELEMENTS_MAX / shape->dim[d]) return false;
        elements *= shape->dim[d];
    }
    return true;
}

/* An input of a type that the operator cannot take is refused by name. */
static enum ps_status check_types(const struct graph *graph, const struct node *node, struct ps_error *error) {
    const struct operator_type *op = operator_get(node->id);
    for (int i = 0; i < node->input_count; i++) {
        const struct node *input = &graph->nodes[node->inputs[i]];
        unsigned accepted = op->types_of != NULL ? op->types_of(i, node->input_count) : op->types;
        if (accepted == 0) accepted = 1u << TYPE_F32;
        if (accepted >> input->shape.type & 1) continue;
        char names[64] = "";
        for (int t = 0, used = 0; t < TYPE_COUNT; t++)
            if (accepted >> t & 1)
                used +=
                    snprintf(names + used, sizeof names - (size_t)used, "%s%s", used > 0 ? " or " : "", number_types[t].name);
        return error_set(error, PS_USAGE, "its input '%s' is %s: %s is accepted", input->name,
                         number_types[input->shape.type].name, names);
    }
    return PS_OK;
}

static unsigned flags_of(const struct operation *operation, enum operator_id id) {
    const struct operator_type *op = operator_get(id);
    return op->flags | (op->more_flags != NULL ? op->more_flags(operation) : 0);
}

struct operation node_operation(const struct graph *graph, struct node *node, struct shape inputs[GRAPH_INPUTS_MAX]) {
    for (int i = 0; i < node->input_count; i++) inputs[i] = graph->nodes[node->inputs[i]].shape;
    struct operation operation = {&node->attributes, inputs, node->input_count, 0, node->shape, NULL};
    if ((flags_of(&operation, node->id) & OPERATOR_IMAGES) && node->input_count == 1)
        operation.images = shape_take_image(&inputs[0]);
    if (operation.images > 0) shape_take_image(&operation.output);
    return operation;
}

double node_flops(const struct graph *graph, struct node *node) {
    struct shape inputs[GRAPH_INPUTS_MAX];
    const struct operation operation = node_operation(graph, node, inputs);
    double (*flops)(const struct operation *) = operator_get(node->id)->flops;
    if (flops == NULL) return (double)shape_elements(&node->shape);
    return flops(&operation) * (operation.images > 0 ? (double)operation.images : 1);
}

static enum ps_status add_parameters(struct graph *graph, struct node *node, const struct operation *operation,
                                     struct ps_error *error) {
    const struct operator_type *op = operator_get(node->id);
    node->parameter_first = graph->parameter_count;
    if (op->parameters == NULL) return PS_OK;
    struct parameter parameters[GRAPH_PARAMETERS_MAX] = {0};
    int count = op->parameters(operation, parameters);
    if (count == 0) return PS_OK;
    TRY(memory_grow(&graph->parameters, &graph->parameter_capacity, graph->parameter_count + count, "a network", error));
    for (int p = 0; p < count; p++) {
        assert(parameters[p].shape.type == TYPE_F32);
        if (!elements_fit(&parameters[p].shape)) {
            return error_set(error, PS_USAGE, "its %s would have more than %lld elements", parameters[p].name,
                             (long long)ELEMENTS_MAX);
        }
        char name[sizeof parameters->name];
        snprintf(name, sizeof name, "%.*s.%s", (int)strcspn(node->name, "/"), node->name, parameters[p].name);
        memcpy(parameters[p].name, name, sizeof name);
        graph->parameters[graph->parameter_count++] = parameters[p];
    }
    node->parameter_count = count;
    return PS_OK;
}

/* Fills a node whose id, name, attributes and inputs are known. */
static enum ps_status complete_node(struct graph *graph, struct node *node, struct ps_error *error) {
    const struct operator_type *op = operator_get(node->id);
    if (node->input_count < op->inputs_min || node->input_count > op->inputs_max) {
        return error_set(error, PS_USAGE, "%d inputs: from %d to %d are accepted", node->input_count, op->inputs_min,
                         op->inputs_max);
    }
    const bool input = node->id == OPERATOR_INPUT;
    if (graph->node_count == 0 && !input) return error_set(error, PS_USAGE, "the first node must be the data, without inputs");
    if (input && graph->input_count < graph->node_count)
        return error_set(error, PS_USAGE, "data must stand before the nodes that read them");
    if (input && graph->input_count == NETWORK_INPUTS_MAX)
        return error_set(error, PS_USAGE, "a network may have %d inputs", NETWORK_INPUTS_MAX);
    TRY(check_types(graph, node, error));
    struct shape inputs[GRAPH_INPUTS_MAX];
    struct operation operation = node_operation(graph, node, inputs);
    operation.error = error;
    TRY(op->infer(&operation));
    node->shape = operation.output;
    if (operation.images > 0) shape_repeat_image(&node->shape, operation.images);
    node->flags = flags_of(&operation, node->id);
    node->data = input || (node->flags & OPERATOR_MOVES) != 0;
    node->sources = input ? 1u << graph->node_count : 0;
    for (int i = 0; i < node->input_count; i++) {
        node->data &= graph->nodes[node->inputs[i]].data;
        node->sources |= graph->nodes[node->inputs[i]].sources;
    }
    node->data |= node->shape.type == TYPE_I32;
    node->sourceless = !input;
    for (int i = 0; i < node->input_count; i++) node->sourceless &= graph->nodes[node->inputs[i]].sourceless;
    if (!node->data) node->sources = 0;
    if (!elements_fit(&node->shape)) {
        return error_set(error, PS_USAGE, "its output would have more than %lld elements", (long long)ELEMENTS_MAX);
    }
    return add_parameters(graph, node, &operation, error);
}

int graph_add(struct graph *graph, enum operator_id id, const char *name, const struct attributes *attributes,
              const int *inputs, int input_count, struct ps_error *error) {
    if (graph->status != PS_OK) return -1;
    assert(graph->layers == NULL && input_count >= 0 && input_count <= GRAPH_INPUTS_MAX);
    struct node node = {.id = id, .input_count = input_count, .root = graph->node_count, .random_number = graph->node_count};
    if (attributes != NULL) node.attributes = *attributes;
    for (int i = 0; i < input_count; i++) {
        assert(inputs[i] >= 0 && inputs[i] < graph->node_count);
        node.inputs[i] = inputs[i];
    }
    if (strlen(name) >= sizeof node.name) {
        graph->status =
            error_set(error, PS_USAGE, "node '%s': the name is longer than %zu characters", name, sizeof node.name - 1);
        return -1;
    }
    memcpy(node.name, name, strlen(name) + 1);
    graph->status = complete_node(graph, &node, error);
    if (graph->status == PS_OK)
        graph->status = memory_grow(&graph->nodes, &graph->node_capacity, graph->node_count + 1, "a network", error);
    if (graph->status != PS_OK) {
        error_prefix(error, "node '%s' (%s)", name, operator_get(id)->name);
        return -1;
    }
    graph->nodes[graph->node_count] = node;
    graph->input_count += id == OPERATOR_INPUT;
    return graph->node_count++;
}

int graph_add_copy(struct graph *graph, const struct graph *from, const struct node *node, const struct attributes *attributes,
                   const int *inputs, struct ps_error *error) {
    const int made = graph_add(graph, node->id, node->name, attributes, inputs, node->input_count, error);
    if (made < 0) return -1;
    graph->nodes[made].random_number = node->random_number;
    for (int p = node->parameter_first, own = graph->nodes[made].parameter_first; graph_has_parameter(node, p); p++, own++) {
        if (!shape_equal(&graph->parameters[own].shape, &from->parameters[p].shape)) {
            graph->status = error_set(error, PS_USAGE, "node '%s': its parameters would be others", node->name);
            return -1;
        }
        graph->parameters[own] = from->parameters[p];
        graph->parameters[own].copy = TYPE_F32;
    }
    return made;
}

void graph_set_initial(struct graph *graph, int node, int parameter, struct initial initial) {
    if (graph->status != PS_OK) return;
    assert(node >= 0 && node < graph->node_count && parameter >= 0 && parameter < graph->nodes[node].parameter_count);
    graph->parameters[graph->nodes[node].parameter_first + parameter].initial = initial;
}

enum ps_status graph_name_parameter(struct graph *graph, int node, int parameter, const char *name, const struct shape *shape,
                                    struct ps_error *error) {
    TRY(graph->status);
    assert(node >= 0 && node < graph->node_count && parameter >= 0 && parameter < graph->nodes[node].parameter_count);
    struct parameter *named = &graph->parameters[graph->nodes[node].parameter_first + parameter];
    bool same = shape->rank == named->shape.rank;
    for (int d = 0; d < shape->rank && same; d++) same = shape->dim[d] == named->shape.dim[d];
    if (strlen(name) >= sizeof named->name)
        return error_set(error, PS_USAGE, "parameter '%.40s...': the name is longer than %zu characters", name,
                         sizeof named->name - 1);
    if (!same) {
        char own[96], other[96];
        return error_set(error, PS_USAGE, "parameter '%s' has the shape %s, and is needed as %s", name,
                         shape_text(shape, other), shape_text(&named->shape, own));
    }
    memcpy(named->name, name, strlen(name) + 1);
    return PS_OK;
}

static struct parameter *parameter_of(const struct graph *graph, int node, int parameter) {
    assert(node >= 0 && node < graph->node_count && parameter >= 0 && parameter < graph->nodes[node].parameter_count);
    return &graph->parameters[graph->nodes[node].parameter_first + parameter];
}

void graph_tie(struct graph *graph, int use, int parameter, int owner, int own) {
    if (graph->status != PS_OK) return;
    assert(owner < use || (owner == use && own < parameter));
    struct parameter *tied = parameter_of(graph, use, parameter), *first = parameter_of(graph, owner, own);
    memcpy(tied->name, first->name, sizeof tied->name);
    tied->initial = first->initial;
    tied->zero_row = first->zero_row;
    tied->tied = tied->shared = first->shared = true;
}

/* --------------------------------------------------------------- precision */

const char *const precision_names[PRECISION_COUNT] = {"f32", "bf16", "mixed"};

/* Of how many inputs of a node the type is f32, or bf16. A single number is of any type, as PyTorch has it. */
static int count_inputs(const struct graph *graph, const struct node *node, enum number_type type) {
    int count = 0;
    for (int i = 0; i < node->input_count; i++) {
        const struct node *input = &graph->nodes[node->inputs[i]];
        count += input->shape.type == type && !(input->sourceless && shape_elements(&input->shape) == 1);
    }
    return count;
}

/* With the types of its inputs; `rounded`: all that read it round it anyway. */
static enum number_type narrow_type(const struct graph *graph, const struct node *node, bool rounded) {
    if (node->flags & OPERATOR_SHARES_MEMORY) return graph->nodes[node->inputs[0]].shape.type;
    if (node->shape.type != TYPE_F32 || node->id == OPERATOR_CAST || (node->flags & OPERATOR_LOSS) || node->input_count == 0 ||
        node->data)
        return node->shape.type;
    /* Which of its inputs is the largest, or the least, the backward sees by comparing: both have one type. */
    const int kind = node->attributes.kind;
    if (node->id == OPERATOR_REDUCE && (kind == REDUCE_MAX || kind == REDUCE_MIN)) rounded = false;
    const bool some = count_inputs(graph, node, TYPE_BF16) > 0, all = some && count_inputs(graph, node, TYPE_F32) == 0;
    const bool narrow = graph->precision == PRECISION_BF16 ? (node->flags & OPERATOR_NARROW) || some
                                                           : (node->flags & OPERATOR_ROUNDS) || all || rounded;
    return narrow ? TYPE_BF16 : TYPE_F32;
}

/* For each node whether all that read it, at least one, are of those that round what they read. */
static enum ps_status find_rounded(const struct graph *graph, bool **rounded, struct ps_error *error) {
    bool *found, *kept;
    TRY(memory_new(&found, (size_t)graph->node_count * 2, "a network", error));
    kept = found + graph->node_count;
    for (int i = graph->node_count - 1; i >= 0; i--) {
        const struct node *node = &graph->nodes[i];
        found[i] = found[i] && !kept[i];
        const bool rounds = (node->flags & OPERATOR_ROUNDS) || ((node->flags & OPERATOR_SHARES_MEMORY) && found[i]);
        for (int j = 0; j < node->input_count; j++) (rounds ? found : kept)[node->inputs[j]] = true;
    }
    *rounded = found;
    return PS_OK;
}

static void narrow_parameters(struct graph *graph) {
    for (const struct node *node = graph->nodes; node < graph->nodes + graph->node_count; node++)
        for (int p = node->parameter_first; graph_has_parameter(node, p); p++) {
            struct parameter *parameter = &graph->parameters[p];
            const bool matrix = parameter->shape.rank > 1 && parameter->role != PARAMETER_STATISTIC,
                       multiplied = graph->precision == PRECISION_BF16 || (node->flags & OPERATOR_ROUNDS) || parameter->shared;
            parameter->copy = matrix && multiplied && (node->flags & OPERATOR_NARROW) ? TYPE_BF16 : TYPE_F32;
        }
    for (int p = 0; p < graph->parameter_count; p++)
        for (int other = 0; other < graph->parameter_count && graph->parameters[p].shared; other++)
            if (graph->parameters[other].copy == TYPE_F32 && graph->parameters[other].shared &&
                strcmp(graph->parameters[other].name, graph->parameters[p].name) == 0)
                graph->parameters[p].copy = TYPE_F32;
}

/* Gives a graph's values and parameters the types of its precision; graph->wide keeps those of f32. */
static enum ps_status apply_precision(struct graph *graph, struct ps_error *error) {
    if (graph->wide != NULL) {
        memcpy(graph->nodes, graph->wide->nodes, (size_t)graph->node_count * sizeof *graph->nodes);
        free(graph->wide->nodes);
        free(graph->wide);
        graph->wide = NULL;
        for (int p = 0; p < graph->parameter_count; p++) graph->parameters[p].copy = TYPE_F32;
    }
    if (graph->precision == PRECISION_F32) return PS_OK;
    bool *rounded;
    TRY(find_rounded(graph, &rounded, error));
    struct node *nodes = malloc((size_t)graph->node_count * sizeof *nodes);
    graph->wide = nodes != NULL ? graph_create() : NULL;
    if (graph->wide != NULL) {
        memcpy(nodes, graph->nodes, (size_t)graph->node_count * sizeof *nodes);
        *graph->wide = *graph;
        graph->wide->nodes = nodes;
        graph->wide->wide = NULL;
        graph->wide->cut_first = graph->wide->cut_values = NULL;
        for (int n = 0; n < graph->node_count; n++)
            graph->nodes[n].shape.type = narrow_type(graph, &graph->nodes[n], rounded[n]);
        narrow_parameters(graph);
    } else {
        free(nodes);
    }
    free(rounded);
    return memory_check(graph->wide, "a network", error);
}

/* ------------------------------------------------------------------ finish */

/* The uses of a shared parameter are one tensor. */
static enum ps_status check_ties(const struct graph *graph, struct ps_error *error) {
    for (int i = 0, p = 0; i < graph->node_count; i++)
        for (; graph_has_parameter(&graph->nodes[i], p); p++) {
            const struct parameter *tied = &graph->parameters[p], *own = graph->parameters;
            if (!tied->tied) continue;
            while (strcmp(own->name, tied->name) != 0) own++;
            if (own->tied || own->role == PARAMETER_STATISTIC || tied->role == PARAMETER_STATISTIC ||
                !shape_equal(&own->shape, &tied->shape))
                return error_set(error, PS_USAGE,
                                 "node '%s': cannot share parameter '%s': only trained parameters of the same shape can be one",
                                 graph->nodes[i].name, tied->name);
        }
    return PS_OK;
}

static int compare_names(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static enum ps_status check_unique(const char **names, size_t count, const char *what, struct ps_error *error) {
    qsort(names, count, sizeof *names, compare_names);
    for (size_t i = 1; i < count; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            return error_set(error, PS_USAGE, "%s '%s': two have this name", what, names[i]);
    return PS_OK;
}

/* Of nodes, and of parameters but for the further uses of one that is shared. */
static enum ps_status check_names(const struct graph *graph, struct ps_error *error) {
    const size_t room = (size_t)graph->node_count + (size_t)graph->parameter_count;
    const char **names = malloc(room * sizeof *names);
    size_t count = 0;
    if (names == NULL) return error_memory(error, "a network's names", room * sizeof *names);
    for (int i = 0; i < graph->node_count; i++) names[count++] = graph->nodes[i].name;
    enum ps_status status = check_unique(names, count, "node", error);
    count = 0;
    for (int p = 0; p < graph->parameter_count; p++)
        if (!graph->parameters[p].tied) names[count++] = graph->parameters[p].name;
    if (status == PS_OK) status = check_unique(names, count, "parameter", error);
    free(names);
    return status;
}

static enum ps_status check_uses(const struct graph *graph, const int *consumers, struct ps_error *error) {
    for (int i = 0; i < graph->node_count - 1; i++) {
        const struct node *node = &graph->nodes[i];
        const char *kind = operator_get(node->id)->name;
        if (node->flags & OPERATOR_LOSS) {
            return error_set(error, PS_USAGE, "node '%s' (%s): a loss must be the last node", node->name, kind);
        }
        if (consumers[i] == 0) {
            return error_set(error, PS_USAGE, "node '%s' (%s): no node reads its output", node->name, kind);
        }
    }
    return PS_OK;
}

/* Does a node that is not sourceless go on from the one before it, `last`, as far as these count? */
static bool goes_on(const struct graph *graph, const struct node *node, int last) {
    int first = 0;
    while (graph->nodes[node->inputs[first]].sourceless) first++;
    return node->inputs[first] == last;
}

/* A layer begins with every node that does the work of one, and where the chain jumps: with a node that goes on from another
 * node than the one before. Sourceless nodes belong to the node that follows them. */
static enum ps_status find_layers(struct graph *graph, struct ps_error *error) {
    TRY(memory_new(&graph->layers, graph->node_count, "a network's layers", error));
    for (int i = 0; i < graph->input_count; i++) graph->nodes[i].layer = -1;
    int first = graph->input_count, last = -1; /* of those that belong to the next; the last one that is not sourceless */
    for (int i = graph->input_count; i < graph->node_count; i++) {
        const struct node *node = &graph->nodes[i];
        if (node->sourceless && i < graph->node_count - 1) continue;
        bool starts = (node->flags & OPERATOR_STARTS_LAYER) != 0 || last < 0 || node->sourceless || !goes_on(graph, node, last);
        const struct layer layer = {.node_first = first, .name = node->name, .kind = operator_get(node->id)->name};
        if (starts) graph->layers[graph->layer_count++] = layer;
        for (; first <= i; first++) {
            graph->nodes[first].layer = graph->layer_count - 1;
            graph->layers[graph->layer_count - 1].node_count++;
        }
        last = i;
    }
    if (graph->layer_count == 0) return error_set(error, PS_USAGE, "a network needs at least one node beside its data");
    return PS_OK;
}

/* What is known of the nodes that share a root's memory so far: somebody else reads one of the values; a backward wants one of
 * them exactly as it was. */
enum { SHARED_READ = 1, SHARED_EXACT = 2 };

/* Whether node `i` may write over its input: within the layer, where nobody else reads any of the values that share the
 * memory, and no backward wants one of them exactly as it was. The data are never written over. */
static bool may_run_in_place(const struct graph *graph, int i, const unsigned char *shared) {
    const struct node *node = &graph->nodes[i];
    if (!(node->flags & OPERATOR_IN_PLACE)) return false;
    const struct node *input = &graph->nodes[node->inputs[0]];
    const int root = input->root;
    if (graph->nodes[root].layer != node->layer) return false;
    if (input->shape.type != node->shape.type || shape_elements(&input->shape) != shape_elements(&node->shape)) return false;
    return !(shared[root] & SHARED_READ) && (!(shared[root] & SHARED_EXACT) || (node->flags & OPERATOR_KEEPS_ZEROS));
}

static enum ps_status find_roots(struct graph *graph, const int *consumers, struct ps_error *error) {
    unsigned char *shared; /* by root */
    TRY(memory_new(&shared, graph->node_count, "a network", error));
    for (int i = 0; i < graph->node_count; i++) {
        struct node *node = &graph->nodes[i];
        bool shares = (node->flags & OPERATOR_SHARES_MEMORY) != 0 || may_run_in_place(graph, i, shared);
        node->root = shares ? graph->nodes[node->inputs[0]].root : i;
        if (consumers[i] != 1) shared[node->root] |= SHARED_READ;
        if (node->flags & OPERATOR_USES_OUTPUT) shared[node->root] |= SHARED_EXACT;
    }
    free(shared);
    return PS_OK;
}

static bool trains(const struct graph *graph, const struct node *node) {
    for (int p = node->parameter_first; p < node->parameter_first + node->parameter_count; p++)
        if (graph->parameters[p].role == PARAMETER_TRAINED) return true;
    return false;
}

static bool has_weights(const struct graph *graph, const struct node *node) {
    for (int p = node->parameter_first; p < node->parameter_first + node->parameter_count; p++)
        if (!parameter_is_constant(&graph->parameters[p])) return true;
    return false;
}

/* Layers known only by their costs have parameters or not, and always a backward. */
static void find_untrained(struct graph *graph) {
    for (int i = 0; i < graph->node_count; i++) {
        struct node *node = &graph->nodes[i], *root = &graph->nodes[node->root];
        node->untrained = node->id != OPERATOR_OPAQUE && !trains(graph, node);
        node->given = node->id != OPERATOR_OPAQUE && !has_weights(graph, node);
        for (int j = 0; j < node->input_count; j++) {
            node->untrained &= graph->nodes[node->inputs[j]].untrained;
            node->given &= graph->nodes[node->inputs[j]].given;
        }
        root->untrained &= node->untrained;
        root->given &= node->given;
    }
}

/* Readers come after what they read, so a node's own gradient is known when it is reached. Comparisons and casts to integers
 * make data of what they read: they end gradients. */
static void find_gradients(struct graph *graph) {
    struct node *nodes = graph->nodes;
    for (int i = 0; i < graph->node_count; i++) nodes[i].gradient_layer = -1;
    nodes[graph->node_count - 1].gradient_layer = nodes[graph->node_count - 1].layer;
    for (int i = graph->node_count - 1; i >= 0; i--) {
        if (nodes[i].data || nodes[i].gradient_layer < 0) continue;
        for (int j = 0; j < nodes[i].input_count; j++) {
            struct node *input = &nodes[nodes[i].inputs[j]], *root = &nodes[input->root];
            input->gradient_layer = number_larger_int(input->gradient_layer, nodes[i].layer);
            root->gradient_layer = number_larger_int(root->gradient_layer, nodes[i].layer);
        }
    }
}

bool graph_name_matches(const char *pattern, const char *name) {
    const char *star = NULL, *retry = NULL;
    while (*name != '\0') {
        if (*pattern == '*') {
            star = pattern++;
            retry = name;
        } else if (*pattern == *name || *pattern == '?') {
            pattern++;
            name++;
        } else if (star != NULL) {
            pattern = star + 1;
            name = ++retry;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return *pattern == '\0';
}

int graph_freeze(struct graph *graph, const char *pattern) {
    int found = 0;
    for (int p = 0; p < graph->parameter_count; p++) {
        struct parameter *parameter = &graph->parameters[p];
        if (parameter->role == PARAMETER_STATISTIC || !graph_name_matches(pattern, split_whole_name(parameter))) continue;
        if (parameter->role == PARAMETER_TRAINED) parameter->frozen = true;
        parameter->role = PARAMETER_FIXED;
        found++;
    }
    find_untrained(graph);
    return found;
}

enum ps_status graph_refuse_pattern(const struct graph *graph, const char *what, const char *pattern, size_t length,
                                    struct ps_error *error) {
    enum { NAMED = 8 };
    struct text names = {0};
    int count = 0;
    for (int p = 0; p < graph->parameter_count; p++)
        if (graph->parameters[p].role != PARAMETER_STATISTIC && count++ < NAMED)
            text_add(&names, "%s%s", count > 1 ? ", " : "", split_whole_name(&graph->parameters[p]));
    error_set(error, PS_USAGE, "%s: no parameter has a name like '%.*s'", what, (int)length, pattern);
    if (names.length > 0)
        error_hint(error, count > NAMED ? "there are %s and %d others" : "there are %s", names.data, count - NAMED);
    text_free(&names);
    return PS_USAGE;
}

/* last_use[root]: the last layer with a node that reads the value. */
static void find_last_uses(const struct graph *graph, int *last_use) {
    for (int i = 0; i < graph->node_count; i++) last_use[i] = -1;
    for (int i = 0; i < graph->node_count; i++) {
        const struct node *node = &graph->nodes[i];
        for (int j = 0; j < node->input_count; j++) last_use[graph->nodes[node->inputs[j]].root] = node->layer;
    }
}

/* Values are taken in ascending order and each is put at every cut that it crosses; cut_first[cut + 1] is where the cut's next
 * one goes, and in the end where the next cut's begin. */
static enum ps_status find_cuts(struct graph *graph, const int *last_use, struct ps_error *error) {
    TRY(memory_new(&graph->cut_first, (size_t)graph->layer_count + 3, "a network's cuts", error));
    int *next = graph->cut_first + 1;
    int64_t all = 0;
    for (int r = 0; r < graph->node_count; r++)
        if (last_use[r] > graph->nodes[r].layer) all += last_use[r] - graph->nodes[r].layer;
    if (all > CROSSINGS_MAX)
        return error_set(error, PS_USAGE, "its values cross the cuts between layers %lld times; at most %d are accepted",
                         (long long)all, CROSSINGS_MAX);
    for (int r = 0; r < graph->node_count; r++)
        for (int cut = graph->nodes[r].layer + 1; cut <= last_use[r]; cut++) next[cut + 1]++;
    for (int cut = 0; cut <= graph->layer_count; cut++) next[cut + 1] += next[cut];
    const size_t crossings = (size_t)next[graph->layer_count + 1];
    TRY(memory_new(&graph->cut_values, crossings + 1, "a network's cuts", error));
    for (int r = 0; r < graph->node_count; r++)
        for (int cut = graph->nodes[r].layer + 1; cut <= last_use[r]; cut++) graph->cut_values[next[cut]++] = r;
    return PS_OK;
}

/* What depends on the types of values: where nodes write, and what crosses the cuts. */
static enum ps_status lay_out(struct graph *graph, int *consumers, struct ps_error *error) {
    TRY(apply_precision(graph, error));
    TRY(find_roots(graph, consumers, error));
    find_untrained(graph);
    find_gradients(graph);
    for (int n = 0; n < graph->node_count && graph->wide != NULL; n++) {
        graph->wide->nodes[n].root = graph->nodes[n].root;
        graph->wide->nodes[n].untrained = graph->nodes[n].untrained;
        graph->wide->nodes[n].given = graph->nodes[n].given;
        graph->wide->nodes[n].gradient_layer = graph->nodes[n].gradient_layer;
    }
    free(graph->cut_first);
    free(graph->cut_values);
    graph->cut_first = graph->cut_values = NULL;
    int *last_use = consumers; /* which are no longer needed */
    find_last_uses(graph, last_use);
    return find_cuts(graph, last_use, error);
}

static enum ps_status count_consumers(const struct graph *graph, int **consumers, struct ps_error *error) {
    TRY(memory_new(consumers, graph->node_count, "a network", error));
    for (int i = 0; i < graph->node_count; i++)
        for (int j = 0; j < graph->nodes[i].input_count; j++) (*consumers)[graph->nodes[i].inputs[j]]++;
    return PS_OK;
}

enum ps_status graph_set_precision(struct graph *graph, enum precision precision, struct ps_error *error) {
    int *consumers;
    graph->precision = precision;
    if (graph->layers == NULL) return PS_OK;
    TRY(count_consumers(graph, &consumers, error));
    enum ps_status status = lay_out(graph, consumers, error);
    free(consumers);
    return status;
}

enum ps_status graph_finish(struct graph *graph, struct ps_error *error) {
    if (graph->status != PS_OK) return graph->status;
    assert(graph->layers == NULL);
    if (graph->node_count == 0) return error_set(error, PS_USAGE, "a network needs at least one node beside its data");
    int *consumers;
    TRY(count_consumers(graph, &consumers, error));
    enum ps_status status;
    TRY_OUT(check_names(graph, error));
    TRY_OUT(check_uses(graph, consumers, error));
    TRY_OUT(find_layers(graph, error));
    TRY_OUT(check_ties(graph, error));
    TRY_OUT(lay_out(graph, consumers, error));
out:
    free(consumers);
    graph->status = status;
    return status;
}

/* ----------------------------------------------------------------- queries */

int graph_cut_count(const struct graph *graph, int cut) {
    assert(cut >= 0 && cut <= graph->layer_count);
    return graph->cut_first[cut + 1] - graph->cut_first[cut];
}

const int *graph_cut_values(const struct graph *graph, int cut) {
    assert(cut >= 0 && cut <= graph->layer_count);
    return graph->cut_values + graph->cut_first[cut];
}

int64_t graph_value_bytes(const struct graph *graph, int node) { return shape_bytes(&graph->nodes[node].shape); }

int64_t graph_cut_bytes(const struct graph *graph, int cut) {
    int64_t bytes = 0;
    for (int i = 0; i < graph_cut_count(graph, cut); i++) bytes += graph_value_bytes(graph, graph_cut_values(graph, cut)[i]);
    return bytes;
}

struct shape graph_target(const struct graph *graph) {
    const struct node *end = &graph->nodes[graph->node_count - 1];
    struct shape target = {.rank = 1, .type = TYPE_I32, .dim = {1}};
    if (end->flags & OPERATOR_LOSS) operator_get(end->id)->target(&graph->nodes[end->inputs[0]].shape, &target);
    return target;
}

int64_t graph_labels(const struct graph *graph) {
    const struct shape target = graph_target(graph);
    return shape_elements(&target);
}

enum ps_status graph_weigh_classes(struct graph *graph, const float *weights, int count, struct ps_error *error) {
    double sum = 0;
    for (int c = 0; c < count; c++) {
        if (!(weights[c] >= 0) || isinf(weights[c]))
            return error_set(error, PS_USAGE, "weight %g of class %d: numbers from 0 are accepted", (double)weights[c], c);
        sum += (double)weights[c];
    }
    if (sum == 0) return error_set(error, PS_USAGE, "the weights of all classes are 0");
    float *own;
    TRY(memory_new(&own, count, "class weights", error));
    memcpy(own, weights, (size_t)count * sizeof *own);
    free(graph->class_weights);
    graph->class_weights = own;
    graph->class_count = count;
    return PS_OK;
}

enum ps_status graph_take_target(struct graph *graph, const struct graph *other, struct ps_error *error) {
    memcpy(graph->target, other->target, sizeof graph->target);
    graph->precision = other->precision;
    return other->class_count > 0 ? graph_weigh_classes(graph, other->class_weights, other->class_count, error) : PS_OK;
}

/* Of the first embedding that reads one of these inputs. */
static int find_vocabulary(const struct graph *graph, unsigned inputs) {
    for (int i = graph->input_count; i < graph->node_count; i++) {
        const struct node *node = &graph->nodes[i];
        if (node->id == OPERATOR_EMBEDDING && graph->nodes[node->inputs[0]].sources & inputs)
            return node->attributes.vocabulary;
    }
    return 0;
}

int graph_vocabulary(const struct graph *graph) { return find_vocabulary(graph, ~0u); }

int graph_input_vocabulary(const struct graph *graph, int input) { return find_vocabulary(graph, 1u << input); }

int graph_input_tokens(const struct graph *graph, int input) {
    int least = 0;
    for (int i = graph->input_count; i < graph->node_count; i++) {
        const struct node *node = &graph->nodes[i];
        if (node->id != OPERATOR_EMBEDDING || !(graph->nodes[node->inputs[0]].sources & 1u << input)) continue;
        if (least == 0 || node->attributes.vocabulary < least) least = node->attributes.vocabulary;
    }
    return least;
}

bool node_keeps_input(const struct graph *graph, const struct node *node, int input) {
    const bool integers = graph->nodes[node->inputs[input]].shape.type == TYPE_I32;
    return (node->flags & (OPERATOR_USES_INPUT | (integers ? OPERATOR_USES_INTEGERS : 0u))) != 0;
}

bool graph_output_kept_by_own_layer(const struct graph *graph, int root) {
    if (graph->nodes[root].layer < 0) return false;
    const struct layer *layer = &graph->layers[graph->nodes[root].layer];
    for (int i = layer->node_first; i < layer->node_first + layer->node_count; i++) {
        const struct node *node = &graph->nodes[i];
        if (node->root == root && (node->flags & OPERATOR_USES_OUTPUT)) return true;
        for (int j = 0; j < node->input_count; j++)
            if (graph->nodes[node->inputs[j]].root == root && node_keeps_input(graph, node, j)) return true;
    }
    return false;
}
