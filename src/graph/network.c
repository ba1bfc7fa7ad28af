/* Networks, whatever they were made from, and what the public interface tells about them. */
#include "graph/network.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/processor.h"
#include "base/text.h"
#include "base/versioned.h"
#include "graph/model.h"
#include "graph/operators.h"
#include "graph/split.h"

const char *const network_predicts_names[] = {"classes", "tokens", "masked_tokens"};

/* -------------------------------------------------------------------- hash */

/* Byte by byte in an order that is the same on all machines. */
static void hash_integer(uint64_t *hash, int64_t number) {
    for (int byte = 0; byte < 8; byte++) *hash = hash_step(*hash, (uint64_t)number >> 8 * byte & 0xff);
}

static void hash_number(uint64_t *hash, double number) {
    int64_t bits;
    memcpy(&bits, &number, sizeof bits);
    hash_integer(hash, bits);
}

static void hash_string(uint64_t *hash, const char *text) {
    for (; *text != '\0'; text++) hash_integer(hash, (unsigned char)*text);
    hash_integer(hash, -1);
}

static void hash_shape(uint64_t *hash, const struct shape *shape) {
    hash_integer(hash, shape->rank);
    for (int d = 0; d < shape->rank; d++) hash_integer(hash, shape->dim[d]);
}

/* What has its usual value is left out: an operator can get new attributes, and old networks keep their hashes. */
static void hash_attributes(uint64_t *hash, const struct node *node) {
    const struct operator_type *op = operator_get(node->id);
    const struct attributes usual = attributes_usual(op);
    for (const struct attribute *a = op->attributes; a < op->attributes + ATTRIBUTES_MAX && a->name != NULL; a++) {
        for (int e = 0; e < attribute_count(&node->attributes, a); e++) {
            double value = attribute_get(&node->attributes, a, e);
            if (a->kind != ATTRIBUTE_LIST && value == attribute_get(&usual, a, e)) continue;
            hash_string(hash, a->name);
            hash_integer(hash, e);
            hash_number(hash, value);
        }
    }
}

/* What is constant is part of what is computed. What the user has frozen is weights, as trained ones are. */
static void hash_constant(uint64_t *hash, const struct values *values, const struct parameter *parameter) {
    const struct array *value = parameter->frozen ? NULL : values_get(values, parameter->name);
    const int64_t count = value != NULL ? array_elements(value) : 0;
    for (int64_t i = 0; i < count; i++) {
        double number;
        array_doubles(value, i, 1, &number);
        hash_number(hash, number);
    }
}

static void hash_parameter(uint64_t *hash, const struct values *values, const struct parameter *parameter) {
    hash_string(hash, parameter->name);
    hash_integer(hash, parameter->tied);
    hash_integer(hash, parameter->initial.kind);
    hash_number(hash, (double)parameter->initial.value);
    if (parameter->role == PARAMETER_FIXED) {
        hash_string(hash, "fixed");
        hash_constant(hash, values, parameter);
    }
    if (parameter->slice.rows == 0) return;
    hash_string(hash, parameter->slice.whole);
    hash_integer(hash, parameter->slice.first);
    hash_integer(hash, parameter->slice.rows);
}

bool network_keeps_random_number(const struct graph *graph, const struct node *node) {
    return (node->flags & OPERATOR_RANDOM) && node->random_number != node - graph->nodes;
}

static uint64_t hash_network(const struct ps_network *network) {
    const struct graph *graph = network->graph;
    uint64_t hash = HASH_BEGIN;
    hash_string(&hash, network_predicts_names[network->predicts]);
    if (graph->target[0] != '\0') hash_string(&hash, graph->target);
    if (graph->precision != PRECISION_F32) hash_string(&hash, precision_names[graph->precision]);
    for (int c = 0; c < graph->class_count; c++) hash_number(&hash, (double)graph->class_weights[c]);
    for (const struct node *node = graph->nodes; node < graph->nodes + graph->node_count; node++) {
        hash_string(&hash, operator_get(node->id)->name);
        hash_string(&hash, node->name);
        if (node->id == OPERATOR_INPUT) {
            hash_string(&hash, number_types[node->shape.type].name);
            hash_shape(&hash, &node->shape);
        }
        hash_integer(&hash, node->input_count);
        for (int i = 0; i < node->input_count; i++) hash_integer(&hash, node->inputs[i]);
        hash_attributes(&hash, node);
        if (network_keeps_random_number(graph, node)) hash_integer(&hash, node->random_number);
        for (int p = 0; p < node->parameter_count; p++)
            hash_parameter(&hash, graph->values, &graph->parameters[node->parameter_first + p]);
    }
    return hash;
}

const char *network_hash_text(uint64_t hash, char text[17]) {
    snprintf(text, 17, "%016" PRIx64, hash);
    return text;
}

enum ps_status network_check(const struct ps_network *network, const char *whose, const char *name, const char *hash,
                             struct ps_error *error) {
    char own[17];
    bool known = hash[0] != '\0';
    network_hash_text(network->hash, own);
    if (known ? strcmp(hash, own) == 0 : name == NULL || strcmp(name, network->name) == 0) return PS_OK;
    return error_set(error, PS_USAGE, "%s is for the network %s (%s), and this is %s (%s)", whose, name != NULL ? name : "",
                     known ? hash : "no hash", network->name, own);
}

/* ----------------------------------------------------------------- making */

/* What the finished network takes and gives, as its first and last node say. */
static void note_interface(struct ps_network *network) {
    const struct graph *graph = network->graph;
    for (int i = 0; i < graph->input_count; i++) {
        const struct node *node = &graph->nodes[i];
        struct ps_input *input = &network->inputs[i];
        *input = (struct ps_input){.name = node->name,
                                   .type = number_types[node->shape.type].name,
                                   .rank = node->shape.rank,
                                   .vocabulary = graph_input_vocabulary(graph, i)};
        memcpy(input->shape, node->shape.dim, sizeof input->shape);
    }
    for (int d = 0; d < 3; d++) network->input_shape[d] = d < network->inputs[0].rank ? network->inputs[0].shape[d] : 1;
    const struct shape target = graph_target(graph);
    network->classes = target.type == TYPE_I32 ? (int)graph->nodes[graph->node_count - 1].shape.dim[0] : 0;
    network->labels = (int)graph_labels(graph);
    network->target = (struct ps_input){.name = graph->target[0] != '\0' ? graph->target : TARGET_NAME,
                                        .type = number_types[target.type].name,
                                        .rank = target.rank,
                                        .vocabulary = network->classes};
    memcpy(network->target.shape, target.dim, sizeof network->target.shape);
    network->vocabulary = graph_vocabulary(graph);
}

static enum ps_status check(const struct ps_network *network, struct ps_error *error) {
    const struct graph *graph = network->graph;
    const struct node *end = &graph->nodes[graph->node_count - 1];
    if (!(end->flags & OPERATOR_LOSS))
        return error_set(error, PS_USAGE, "node '%s' (%s): the last node must be a loss, as cross_entropy", end->name,
                         operator_get(end->id)->name);
    const bool labelled = graph_target(graph).type == TYPE_I32;
    if (!labelled && (network->predicts != PREDICTS_CLASSES || graph->class_weights != NULL))
        return error_set(error, PS_USAGE, "node '%s' (%s): %s need cross_entropy, which reads labels", end->name,
                         operator_get(end->id)->name, graph->class_weights != NULL ? "class weights" : "predicted tokens");
    if (graph_labels(graph) > INT32_MAX / 8)
        return error_set(error, PS_USAGE, "node '%s': a target of %lld elements is too large", end->name,
                         (long long)graph_labels(graph));
    if (graph->class_weights != NULL && graph->class_count != end->shape.dim[0])
        return error_set(error, PS_USAGE, "node '%s': %d class weights, but it has %lld classes", end->name, graph->class_count,
                         (long long)end->shape.dim[0]);
    if (labelled && (end->shape.dim[0] < 2 || end->shape.dim[0] > FEATURES_MAX))
        return error_set(error, PS_USAGE, "node '%s': %lld classes; from 2 to %d are accepted", end->name,
                         (long long)end->shape.dim[0], FEATURES_MAX);
    if (network->predicts != PREDICTS_CLASSES && graph_vocabulary(graph) == 0)
        return error_set(error, PS_USAGE, "node '%s': a network of tokens needs an embedding that reads them",
                         graph->nodes[0].name);
    return PS_OK;
}

enum ps_status network_create(const char *name, struct graph *graph, enum network_predicts predicts,
                              struct ps_network **network, struct ps_error *error) {
    struct ps_network *made;
    enum ps_status status = memory_new(&made, 1, "a network", error);
    if (status != PS_OK) {
        graph_destroy(graph);
        return status;
    }
    made->graph = graph;
    made->predicts = predicts;
    if (strlen(name) >= sizeof made->name)
        TRY_OUT(error_set(error, PS_USAGE, "model: '%.40s...' is longer than %zu characters", name, sizeof made->name - 1));
    TRY_OUT(utf8_check("model", name, error));
    if (utf8_control(name) != NULL) TRY_OUT(error_set(error, PS_USAGE, "model: a name has a control character"));
    memcpy(made->name, name, strlen(name) + 1);
    if (graph->layers == NULL) TRY_OUT(graph_finish(graph, error));
    TRY_OUT(check(made, error));
    TRY_OUT(values_check(graph->values, graph, error));
    note_interface(made);
    made->hash = hash_network(made);
    *network = made;
    return PS_OK;
out:
    ps_network_destroy(made);
    return status;
}

/* Losses as people name them: the operator, and what the labels are. */
enum { LOSSES = 6 };
static const char *const loss_names[LOSSES] = {"cross-entropy", "next-token", "masked", "mse", "l1", "bce"};
static const struct {
    enum operator_id id;
    enum network_predicts predicts;
} losses[LOSSES] = {{OPERATOR_CROSS_ENTROPY, PREDICTS_CLASSES},
                    {OPERATOR_CROSS_ENTROPY, PREDICTS_TOKENS},
                    {OPERATOR_CROSS_ENTROPY, PREDICTS_MASKED_TOKENS},
                    {OPERATOR_MSE, PREDICTS_CLASSES},
                    {OPERATOR_L1, PREDICTS_CLASSES},
                    {OPERATOR_BCE, PREDICTS_CLASSES}};

static enum ps_status find_loss(const char *name, int *loss, struct ps_error *error) {
    for (*loss = 0; *loss < LOSSES; ++*loss)
        if (strcmp(loss_names[*loss], name) == 0) return PS_OK;
    return error_unknown(error, PS_USAGE, "loss", name, loss_names, LOSSES);
}

/* The loss's node is called "loss", or "loss_" and so on where there is such a node. */
enum ps_status network_add_loss(struct graph *graph, const char *loss, int output, struct ps_error *error) {
    int number;
    char name[16] = "loss";
    if (loss == NULL) loss = loss_names[graph->nodes[output].shape.dim[0] > 1 ? 0 : 3];
    TRY(find_loss(loss, &number, error));
    for (int n = 0; n < graph->node_count && strlen(name) + 1 < sizeof name; n++)
        if (strcmp(graph->nodes[n].name, name) == 0) {
            strcat(name, "_");
            n = -1;
        }
    const struct attributes attributes = attributes_usual(operator_get(losses[number].id));
    return graph_add(graph, losses[number].id, name, &attributes, &output, 1, error) >= 0 ? PS_OK : graph->status;
}

enum ps_status network_create_split(const struct ps_network *whole, const char *splits, struct ps_network **network,
                                    struct ps_error *error) {
    char name[2 * NETWORK_NAME_SIZE];
    struct graph *graph;
    snprintf(name, sizeof name, "%s,split=%s", whole->name, splits);
    enum ps_status status = graph_split_all(whole->graph, splits, &graph, error);
    if (status != PS_OK) {
        error_prefix(error, "%s", name);
        return status;
    }
    return network_create(name, graph, whole->predicts, network, error);
}

void network_replace(struct ps_network *network, struct ps_network *made) {
    struct ps_network old = *network;
    *network = *made;
    network->said = old.said;
    *made = old;
    made->said = (struct network_said){0};
    ps_network_destroy(made);
}

enum ps_status network_say(char **place, const char *text, struct ps_error *error) {
    char *copy = strdup(text);
    if (copy == NULL) return error_memory(error, "a network", strlen(text));
    free(*place);
    *place = copy;
    return PS_OK;
}

void ps_network_destroy(struct ps_network *network) {
    if (network == NULL) return;
    graph_destroy(network->graph);
    free(network->said.init);
    free(network->said.init_checksum);
    free(network->said.freeze);
    free(network->said.loss);
    free(network);
}

enum ps_status ps_network_freeze(struct ps_network *network, const char *patterns, struct ps_error *error) {
    char pattern[sizeof network->graph->parameters->name];
    for (const char *text = patterns;; text++) {
        const size_t length = strcspn(text, ",");
        snprintf(pattern, sizeof pattern, "%.*s", (int)length, text);
        if (length == 0 || length >= sizeof pattern || graph_freeze(network->graph, pattern) == 0)
            return graph_refuse_pattern(network->graph, "`freeze`", text, length, error);
        text += length;
        if (*text == '\0') break;
    }
    network->hash = hash_network(network);
    return network_say(&network->said.freeze, patterns, error);
}

/* --------------------------------------------------------------- precision */

static enum ps_status parse_precision(const char *text, enum precision *precision, struct ps_error *error) {
    const char *names[PRECISION_COUNT + 1];
    memcpy(names, precision_names, sizeof precision_names);
    names[PRECISION_COUNT] = "auto";
    for (int n = 0; n <= PRECISION_COUNT; n++)
        if (strcmp(names[n], text) == 0) {
            const enum precision fastest = processor_has_fast_bf16() ? PRECISION_BF16 : PRECISION_F32;
            *precision = n < PRECISION_COUNT ? (enum precision)n : fastest;
            return PS_OK;
        }
    return error_unknown(error, PS_USAGE, "precision", text, names, PRECISION_COUNT + 1);
}

enum ps_status network_cut_precision(const char *text, char *rest, size_t size, char precision[8], struct ps_error *error) {
    const char *option = strstr(text, PRECISION_OPTION);
    const char *value = option != NULL ? option + strlen(PRECISION_OPTION) : "";
    const int length = option != NULL ? (int)(option - text) : (int)strlen(text), chosen = (int)strcspn(value, ",");
    snprintf(precision, 8, "%.*s", chosen, value);
    if (chosen >= 8) {
        char unknown[64];
        enum precision none;
        snprintf(unknown, sizeof unknown, "%.*s", chosen, value);
        return parse_precision(unknown, &none, error);
    }
    if ((size_t)snprintf(rest, size, "%.*s%s", length, text, value + chosen) < size) return PS_OK;
    return error_set(error, PS_USAGE, "model: '%.40s...' is too long", text);
}

enum ps_status ps_network_set_precision(struct ps_network *network, const char *text, struct ps_error *error) {
    enum precision precision;
    char name[2 * NETWORK_NAME_SIZE], before[8];
    TRY(parse_precision(text, &precision, error));
    TRY(network_cut_precision(network->name, name, NETWORK_NAME_SIZE, before, error));
    const char *more = precision == PRECISION_F32 ? "" : precision_names[precision];
    const size_t length = strlen(name);
    snprintf(name + length, sizeof name - length, "%s%s", more[0] != '\0' ? PRECISION_OPTION : "", more);
    if (strlen(name) >= sizeof network->name)
        return error_set(error, PS_USAGE, "model: '%.40s...' is longer than %zu characters", name, sizeof network->name - 1);
    TRY(graph_set_precision(network->graph, precision, error));
    memcpy(network->name, name, strlen(name) + 1);
    network->hash = hash_network(network);
    return PS_OK;
}

/* ------------------------------------------------------------ other lengths */

int network_source(const struct ps_network *network) {
    const int positions = network->graph->input_count == 1 && network->vocabulary > 0 ? (int)network->input_shape[1] : 0;
    return network->labels > 1 && network->labels < positions ? positions - network->labels : 0;
}

/* A node's attributes where the data are so many tokens of source and target. Slices of the data are one of the two. */
static struct attributes attributes_at(const struct ps_network *whole, const struct node *node, int source, int target) {
    const int before = network_source(whole);
    struct attributes attributes = node->attributes;
    if (node->id == OPERATOR_INPUT) attributes.sides.at[1] = source + target;
    if (node->id != OPERATOR_SLICE || node->inputs[0] != 0 || attributes.axis != 1) return attributes;
    if (attributes.first == 0 && attributes.count == before) attributes.count = source;
    if (attributes.first == before && attributes.count == whole->labels) {
        attributes.first = source;
        attributes.count = target;
    }
    return attributes;
}

/* The same nodes and parameters for other lengths. */
static enum ps_status create_at(const struct ps_network *whole, int source, int target, struct ps_network **network,
                                struct ps_error *error) {
    struct ps_network *made;
    if (network_source(whole) == 0) return error_set(error, PS_USAGE, "%s has no source and target", whole->name);
    struct graph *graph = graph_create();
    TRY(memory_check(graph, "a network", error));
    enum ps_status status = graph_take_target(graph, whole->graph, error);
    if (status == PS_OK) graph->values = values_share(whole->graph->values);
    for (int n = 0; status == PS_OK && n < whole->graph->node_count; n++) {
        const struct node *node = &whole->graph->nodes[n];
        const struct attributes attributes = attributes_at(whole, node, source, target);
        status = graph_add_copy(graph, whole->graph, node, &attributes, node->inputs, error) >= 0 ? PS_OK : graph->status;
    }
    if (status == PS_OK)
        status = network_create(whole->name, graph, whole->predicts, &made, error);
    else
        graph_destroy(graph);
    bool fits = status != PS_OK || (made->labels == target && made->input_shape[1] == source + target);
    if (!fits) {
        ps_network_destroy(made);
        status = error_set(error, PS_USAGE, "its labels are not those of the target");
    }
    if (status != PS_OK) {
        error_prefix(error, "%s: with %d tokens of the source and %d of the target", whole->name, source, target);
        return status;
    }
    *network = made;
    return PS_OK;
}

enum ps_status network_create_stepping(const struct ps_network *whole, struct ps_network **network, struct ps_error *error) {
    return create_at(whole, network_source(whole), 1, network, error);
}

enum ps_status network_create_shorter(const struct ps_network *whole, int seq, struct ps_network **network,
                                      struct ps_error *error) {
    const int source = network_source(whole);
    int target = source > 0 ? number_share_up(whole->labels, seq, source) : 0;
    TRY(create_at(whole, seq, target, network, error));
    struct graph *graph = (*network)->graph;
    graph->longest = whole->graph;
    if (graph->wide != NULL) graph->wide->longest = whole->graph;
    return PS_OK;
}

/* ------------------------------------------------------------ another loss */

/* A copy of the network's graph that ends in another loss (NULL: in its own), with class weights where there are some. */
static enum ps_status copy_with_loss(const struct graph *whole, const char *loss, const float *weights, int count,
                                     struct graph *graph, struct ps_error *error) {
    const int end = whole->node_count - 1;
    graph->values = values_share(whole->values);
    graph->precision = whole->precision;
    memcpy(graph->target, whole->target, sizeof graph->target);
    for (int n = 0; n < end + (loss == NULL); n++) {
        const struct node *node = &whole->nodes[n];
        if (graph_add_copy(graph, whole, node, &node->attributes, node->inputs, error) < 0) return graph->status;
    }
    if (loss != NULL) TRY(network_add_loss(graph, loss, whole->nodes[end].inputs[0], error));
    if (count > 0) return graph_weigh_classes(graph, weights, count, error);
    const bool same = loss == NULL || graph->nodes[end].id == whole->nodes[end].id;
    return same ? graph_take_target(graph, whole, error) : PS_OK;
}

enum ps_status ps_network_set_loss(struct ps_network *network, const char *loss, const float *class_weights, int class_count,
                                   struct ps_error *error) {
    int number = 0;
    struct ps_network *made;
    if (loss != NULL) TRY(find_loss(loss, &number, error));
    struct graph *graph = graph_create();
    TRY(memory_check(graph, "a network", error));
    enum ps_status status = PS_OK;
    if (status == PS_OK) status = copy_with_loss(network->graph, loss, class_weights, class_count, graph, error);
    if (status == PS_OK)
        status = network_create(network->name, graph, loss != NULL ? losses[number].predicts : network->predicts, &made, error);
    else
        graph_destroy(graph);
    if (status == PS_OK) network_replace(network, made);
    return status == PS_OK && loss != NULL ? network_say(&network->said.loss, loss, error) : status;
}

/* ------------------------------------------------------------------ facts */

static int64_t trained_elements(const struct graph *graph, const struct node *node) {
    int64_t elements = 0;
    for (int p = node->parameter_first; p < node->parameter_first + node->parameter_count; p++) {
        if (graph->parameters[p].role == PARAMETER_TRAINED && !graph->parameters[p].tied)
            elements += shape_elements(&graph->parameters[p].shape);
    }
    return elements;
}

static struct ps_network_info make_network_info(const struct ps_network *network) {
    const struct graph *graph = network->graph;
    struct ps_network_info info = {.name = network->name,
                                   .layers = graph->layer_count,
                                   .classes = network->classes,
                                   .labels = network->labels,
                                   .vocabulary = network->vocabulary,
                                   .inputs = graph->input_count,
                                   .targets = 1};
    network_hash_text(network->hash, info.hash);
    memcpy(info.input_shape, network->input_shape, sizeof info.input_shape);
    for (int i = 0; i < graph->node_count; i++) {
        info.parameters += trained_elements(graph, &graph->nodes[i]);
        info.forward_flops += node_flops(graph, &graph->nodes[i]);
    }
    return info;
}

void ps_network_info_get(const struct ps_network *network, struct ps_network_info *result, size_t size) {
    const struct ps_network_info own = make_network_info(network);
    VERSIONED_GIVE(own, result, size);
}

static struct ps_layer_info make_network_layer(const struct ps_network *network, int number) {
    const struct graph *graph = network->graph;
    if (number < 0 || number >= graph->layer_count) return (struct ps_layer_info){0};
    const struct layer *layer = &graph->layers[number];
    struct ps_layer_info info = {.name = layer->name, .kind = layer->kind};
    struct node *node = &graph->nodes[layer->node_first];
    for (int i = 0; i < layer->node_count; i++, node++) {
        info.parameters += trained_elements(graph, node);
        info.forward_flops += node_flops(graph, node);
        info.output_rank = node->shape.rank;
        memcpy(info.output_shape, node->shape.dim, sizeof info.output_shape);
    }
    return info;
}

void ps_network_layer_get(const struct ps_network *network, int number, struct ps_layer_info *result, size_t size) {
    const struct ps_layer_info own = make_network_layer(network, number);
    VERSIONED_GIVE(own, result, size);
}

static struct ps_input make_network_input(const struct ps_network *network, int number) {
    const bool there = number >= 0 && number < network->graph->input_count;
    return there ? network->inputs[number] : (struct ps_input){0};
}

void ps_network_input_get(const struct ps_network *network, int number, struct ps_input *result, size_t size) {
    const struct ps_input own = make_network_input(network, number);
    VERSIONED_GIVE(own, result, size);
}

void ps_network_target_get(const struct ps_network *network, int number, struct ps_input *result, size_t size) {
    const struct ps_input own = number == 0 ? network->target : (struct ps_input){0};
    VERSIONED_GIVE(own, result, size);
}

double network_perplexity(const struct ps_network *network, double loss) {
    return network != NULL && network->predicts != PREDICTS_CLASSES ? exp(loss) : NAN;
}
