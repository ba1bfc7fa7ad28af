/* The rewrite: nodes are copied in order, and the split layer's channel-wise ones twice. See split.h. */
#include "graph/split.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

const char *split_whole_name(const struct parameter *parameter) {
    return parameter->slice.rows > 0 ? parameter->slice.whole : parameter->name;
}

struct shape split_whole_shape(const struct parameter *parameter) {
    struct shape shape = parameter->shape;
    if (parameter->slice.rows > 0) shape.dim[0] = parameter->slice.rows;
    return shape;
}

int64_t split_offset(const struct parameter *parameter) {
    if (parameter->slice.rows == 0) return 0;
    return parameter->slice.first * (shape_elements(&parameter->shape) / parameter->shape.dim[0]);
}

struct rewrite {
    const struct graph *from;
    struct graph *to;
    int *number; /* per node of `from`: the node of `to` that has its output */
    struct ps_error *error;
};

static const struct parameter *parameter_of(const struct graph *graph, const struct node *node, int parameter) {
    return &graph->parameters[node->parameter_first + parameter];
}

/* Adds a copy of a node with other attributes and inputs; the caller sees to its parameters. */
static int add_copy(struct rewrite *rewrite, int node, const char *name, const struct attributes *attributes,
                    const int *inputs) {
    const struct node *original = &rewrite->from->nodes[node];
    int made = graph_add(rewrite->to, original->id, name, attributes, inputs, original->input_count, rewrite->error);
    if (made < 0) return made;
    rewrite->to->nodes[made].random_number = original->random_number;
    for (int p = 0; p < original->parameter_count; p++) {
        const struct parameter *from = parameter_of(rewrite->from, original, p);
        struct parameter *to = &rewrite->to->parameters[rewrite->to->nodes[made].parameter_first + p];
        to->initial = from->initial;
        to->role = from->role;
        to->frozen = from->frozen;
    }
    return made;
}

static void copy_node(struct rewrite *rewrite, int node) {
    const struct node *original = &rewrite->from->nodes[node];
    int inputs[GRAPH_INPUTS_MAX];
    for (int i = 0; i < original->input_count; i++) inputs[i] = rewrite->number[original->inputs[i]];
    rewrite->number[node] = graph_add_copy(rewrite->to, rewrite->from, original, &original->attributes, inputs, rewrite->error);
}

/* Channels, or heads of an attention, that a part holds, in those of its node and in those of the whole layer. */
struct part {
    int first, count;
    int64_t whole_first;
};

/* "conv1[32:96]", in channels of the whole layer; a part's own range is replaced. */
static enum ps_status part_name(const char *name, int64_t first, int64_t count, char out[64], struct ps_error *error) {
    const char *bracket = name[0] != '\0' && name[strlen(name) - 1] == ']' ? strrchr(name, '[') : NULL;
    int length = bracket != NULL ? (int)(bracket - name) : (int)strlen(name);
    int wanted = snprintf(out, 64, "%.*s[%lld:%lld]", length, name, (long long)first, (long long)(first + count));
    if (wanted < 64) return PS_OK;
    return error_set(error, PS_USAGE, "node '%s': its name is too long to be split", name);
}

static void set_slices(struct rewrite *rewrite, int node, int made, const struct part *part) {
    const struct node *original = &rewrite->from->nodes[node];
    for (int p = 0; p < original->parameter_count; p++) {
        const struct parameter *whole = parameter_of(rewrite->from, original, p);
        struct parameter_slice *slice = &rewrite->to->parameters[rewrite->to->nodes[made].parameter_first + p].slice;
        snprintf(slice->whole, sizeof slice->whole, "%s", split_whole_name(whole));
        slice->first = whole->slice.first + part->first;
        slice->rows = whole->slice.rows > 0 ? whole->slice.rows : whole->shape.dim[0];
    }
}

/* What of its kind makes only the part. Of shared heads of keys, a part has those that its heads of queries share. */
static struct attributes part_attributes(const struct node *head, const struct part *part) {
    struct attributes attributes = head->attributes;
    if (head->id != OPERATOR_ATTENTION) {
        attributes.channels = part->count;
        return attributes;
    }
    attributes.heads = part->count;
    attributes.key_heads = attributes.key_heads * part->count / head->attributes.heads;
    attributes.first = (int)part->whole_first;
    if (attributes.count == 0) attributes.count = head->attributes.heads;
    return attributes;
}

/* The channels of `part` through the nodes first..last; returns the node that ends it. */
static int add_part(struct rewrite *rewrite, int first, int last, const struct part *part) {
    const struct node *head = &rewrite->from->nodes[first];
    int inputs[GRAPH_INPUTS_MAX];
    for (int i = 0; i < head->input_count; i++) inputs[i] = rewrite->number[head->inputs[i]];
    for (int i = first; i <= last && rewrite->to->status == PS_OK; i++) {
        const struct node *original = &rewrite->from->nodes[i];
        struct attributes attributes = i == first ? part_attributes(head, part) : original->attributes;
        char name[64];
        rewrite->to->status = part_name(original->name, part->whole_first, part->count, name, rewrite->error);
        *inputs = rewrite->to->status == PS_OK ? add_copy(rewrite, i, name, &attributes, inputs) : -1;
        if (*inputs >= 0) set_slices(rewrite, i, *inputs, part);
    }
    return *inputs;
}

static void add_split(struct rewrite *rewrite, int first, int last, int channels) {
    const struct node *head = &rewrite->from->nodes[first];
    int64_t start = head->id == OPERATOR_ATTENTION ? head->attributes.first : parameter_of(rewrite->from, head, 0)->slice.first;
    int whole = graph_split_size(rewrite->from, head->layer), made[2];
    struct part parts[2] = {{0, channels, start}, {channels, whole - channels, start + channels}};
    for (int p = 0; p < 2; p++) made[p] = add_part(rewrite, first, last, &parts[p]);
    char name[64];
    if (rewrite->to->status == PS_OK) rewrite->to->status = part_name(head->name, start, whole, name, rewrite->error);
    if (rewrite->to->status != PS_OK) return;
    rewrite->number[last] = graph_add(rewrite->to, OPERATOR_CONCAT, name, NULL, made, 2, rewrite->error);
}

/* The last node of those that work channel by channel and whose inputs nobody else reads. */
static int last_of_parts(const struct graph *graph, int first) {
    const struct layer *layer = &graph->layers[graph->nodes[first].layer];
    int last = first;
    while (graph->nodes[first].id != OPERATOR_ATTENTION && last + 1 < layer->node_first + layer->node_count) {
        const struct node *next = &graph->nodes[last + 1];
        int readers = 0;
        for (int i = last + 1; i < graph->node_count; i++)
            for (int j = 0; j < graph->nodes[i].input_count; j++) readers += graph->nodes[i].inputs[j] == last;
        if ((next->id != OPERATOR_RELU && next->id != OPERATOR_BATCH_NORM) || next->inputs[0] != last || readers != 1) break;
        last++;
    }
    return last;
}

int graph_split_unit(const struct graph *graph, int layer, struct ps_error *error) {
    const struct node *head = &graph->nodes[graph->layers[layer].node_first];
    const struct attributes *a = &head->attributes;
    if (head->id == OPERATOR_ATTENTION) return a->key_heads > 0 ? a->heads / a->key_heads : 1;
    if (head->id == OPERATOR_LSTM || head->id == OPERATOR_GRU)
        error_set(
            error, PS_USAGE,
            "layer '%s' (%s) cannot be split: at each position every unit needs those of the other part at the one before",
            head->name, operator_get(head->id)->name);
    else if (head->id != OPERATOR_CONVOLUTION && head->id != OPERATOR_LINEAR)
        error_set(error, PS_USAGE, "layer '%s' (%s) cannot be split: convolutions, linear layers and attention can", head->name,
                  operator_get(head->id)->name);
    else if (head->id == OPERATOR_CONVOLUTION && a->groups > 1)
        error_set(error, PS_USAGE, "layer '%s' cannot be split: its convolution has %d groups", head->name, a->groups);
    else if (parameter_of(graph, head, 0)->shared)
        error_set(error, PS_USAGE, "layer '%s' cannot be split: it shares its weights with another", head->name);
    else
        return 1;
    return 0;
}

int graph_split_size(const struct graph *graph, int layer) {
    const struct node *head = &graph->nodes[graph->layers[layer].node_first];
    return head->id == OPERATOR_ATTENTION ? head->attributes.heads : head->attributes.channels;
}

static enum ps_status check(const struct graph *graph, int layer, int channels, struct ps_error *error) {
    const struct node *head = &graph->nodes[graph->layers[layer].node_first];
    const int unit = graph_split_unit(graph, layer, error), size = graph_split_size(graph, layer);
    char steps[32] = "";
    if (unit == 0) return PS_USAGE;
    if (channels > 0 && channels < size && channels % unit == 0) return PS_OK;
    if (unit > 1) snprintf(steps, sizeof steps, " in steps of %d", unit);
    return error_set(error, PS_USAGE, "layer '%s' has %d %s: its first part may have from %d to %d%s, not %d", head->name, size,
                     head->id == OPERATOR_ATTENTION ? "heads" : "output channels", unit, size - unit, steps, channels);
}

enum ps_status graph_split(const struct graph *graph, int layer, int channels, struct graph **split, struct ps_error *error) {
    TRY(check(graph, layer, channels, error));
    int first = graph->layers[layer].node_first, last = last_of_parts(graph, first);
    struct rewrite rewrite = {.from = graph, .to = graph_create(), .error = error};
    enum ps_status status = memory_check(rewrite.to, "a split network", error);
    if (status == PS_OK) status = memory_new(&rewrite.number, graph->node_count, "a split network", error);
    if (status == PS_OK) {
        rewrite.to->values = values_share(graph->values);
        for (int i = 0; i < first; i++) copy_node(&rewrite, i);
        add_split(&rewrite, first, last, channels);
        for (int i = last + 1; i < graph->node_count; i++) copy_node(&rewrite, i);
        status = graph_take_target(rewrite.to, graph, error);
        if (status == PS_OK) status = graph_finish(rewrite.to, error);
    }
    free(rewrite.number);
    if (status == PS_OK)
        *split = rewrite.to;
    else
        graph_destroy(rewrite.to);
    return status;
}

static enum ps_status find_layer(const struct graph *graph, const char *name, int *layer, struct ps_error *error) {
    const char **names;
    TRY(memory_new(&names, graph->layer_count, "a network's layers", error));
    *layer = -1;
    for (int l = 0; l < graph->layer_count; l++) {
        names[l] = graph->layers[l].name;
        if (strcmp(names[l], name) == 0) *layer = l;
    }
    enum ps_status status =
        *layer >= 0 ? PS_OK : error_unknown(error, PS_USAGE, "layer", name, names, (size_t)graph->layer_count);
    free(names);
    return status;
}

/* One "LAYER:CHANNELS" of `length` characters. A part's own name has a colon too: the last one counts. */
static enum ps_status split_one(const struct graph *graph, const char *text, size_t length, struct graph **split,
                                struct ps_error *error) {
    char copy[128], *end = copy, *colon;
    snprintf(copy, sizeof copy, "%.*s", (int)length, text);
    colon = strrchr(copy, ':');
    long channels = colon != NULL && colon[1] >= '0' && colon[1] <= '9' ? strtol(colon + 1, &end, 10) : 0;
    if (length >= sizeof copy || end == copy || *end != '\0' || colon == copy || channels > INT_MAX)
        return error_set(error, PS_USAGE, "split: '%s' must be LAYER:CHANNELS", copy);
    *colon = '\0';
    int layer;
    TRY(find_layer(graph, copy, &layer, error));
    return graph_split(graph, layer, (int)channels, split, error);
}

enum ps_status graph_split_all(const struct graph *graph, const char *splits, struct graph **split, struct ps_error *error) {
    struct graph *last = NULL;
    for (const char *text = splits;; text++) {
        size_t length = strcspn(text, "+");
        struct graph *next;
        enum ps_status status = split_one(last != NULL ? last : graph, text, length, &next, error);
        graph_destroy(last);
        TRY(status);
        last = next;
        text += length;
        if (*text == '\0') break;
    }
    *split = last;
    return PS_OK;
}
