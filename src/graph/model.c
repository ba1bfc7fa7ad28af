/* Networks by name, and what the public interface tells about them. */
#include "graph/model.h"

#include <stdlib.h>
#include <string.h>

#include "base/table.h"
#include "graph/split.h"

static const char *const common_keys[] = {"input", "channels", "classes", "split"};
enum { COMMON_KEYS = sizeof common_keys / sizeof *common_keys };

static TABLE_FIND(find_entry, model, model_table, "model")

/* Every option was read by the network or by us. */
static enum ps_status check_options(const struct model *entry, const struct options *options, struct ps_error *error) {
    const char *keys[COMMON_KEYS + sizeof entry->keys / sizeof *entry->keys];
    size_t count = 0;
    for (; count < COMMON_KEYS; count++) keys[count] = common_keys[count];
    for (int i = 0; entry->keys[i] != NULL; i++) keys[count++] = entry->keys[i];
    return options_finish(options, "model", keys, count, error);
}

static enum ps_status build_model(struct ps_model *model, const char *spec, struct ps_error *error) {
    struct options options;
    TRY(options_parse(spec, "model", &options, error));
    if (strlen(spec) >= sizeof model->name) {
        return error_set(error, PS_USAGE, "model: '%.40s...' is longer than %zu characters", spec, sizeof model->name - 1);
    }
    memcpy(model->name, spec, strlen(spec) + 1);
    const struct model *entry;
    TRY(find_entry(options.name, &entry, error));
    struct model_options sizes = entry->defaults;
    TRY(options_int(&options, "input", 1, 16384, &sizes.input, error));
    TRY(options_int(&options, "channels", 1, 4096, &sizes.channels, error));
    TRY(options_int(&options, "classes", 2, 1000000, &sizes.classes, error));
    model->input_shape[0] = sizes.channels;
    model->input_shape[1] = model->input_shape[2] = sizes.input;
    model->classes = sizes.classes;
    const char *splits = NULL;
    TRY(options_string(&options, "split", &splits, error));
    enum ps_status status = entry->build(model->graph, &sizes, &options, error);
    if (status == PS_OK) status = check_options(entry, &options, error);
    if (status == PS_OK) status = graph_finish(model->graph, error);
    if (model->graph->status != PS_OK) error_prefix(error, "%s", spec);
    if (status != PS_OK || splits == NULL) return status;
    status = graph_split_all(&model->graph, splits, error);
    if (status != PS_OK) error_prefix(error, "%s", spec);
    return status;
}

enum ps_status ps_model_create(const char *spec, struct ps_model **model, struct ps_error *error) {
    struct ps_model *made = calloc(1, sizeof *made);
    if (made != NULL) made->graph = graph_create();
    if (made == NULL || made->graph == NULL) {
        ps_model_destroy(made);
        return error_memory(error, "a network", sizeof *made);
    }
    enum ps_status status = build_model(made, spec, error);
    if (status != PS_OK) {
        ps_model_destroy(made);
        return status;
    }
    *model = made;
    return PS_OK;
}

void ps_model_destroy(struct ps_model *model) {
    if (model == NULL) return;
    graph_destroy(model->graph);
    free(model);
}

static int64_t trained_elements(const struct graph *graph, const struct node *node) {
    int64_t elements = 0;
    for (int p = node->parameter_first; p < node->parameter_first + node->parameter_count; p++) {
        if (!graph->parameters[p].statistic) elements += shape_elements(&graph->parameters[p].shape);
    }
    return elements;
}

static double node_flops(const struct graph *graph, const struct node *node) {
    struct shape inputs[GRAPH_INPUTS_MAX];
    for (int i = 0; i < node->input_count; i++) inputs[i] = graph->nodes[node->inputs[i]].shape;
    double (*flops)(const struct attributes *, const struct shape *, const struct shape *) = operator_get(node->id)->flops;
    return flops != NULL ? flops(&node->attributes, inputs, &node->shape) : (double)shape_elements(&node->shape);
}

struct ps_model_info ps_model_info(const struct ps_model *model) {
    const struct graph *graph = model->graph;
    struct ps_model_info info = {.name = model->name, .layers = graph->layer_count, .classes = model->classes};
    memcpy(info.input_shape, model->input_shape, sizeof info.input_shape);
    for (int i = 0; i < graph->node_count; i++) {
        info.parameters += trained_elements(graph, &graph->nodes[i]);
        info.forward_flops += node_flops(graph, &graph->nodes[i]);
    }
    return info;
}

struct ps_layer_info ps_model_layer(const struct ps_model *model, int number) {
    const struct graph *graph = model->graph;
    if (number < 0 || number >= graph->layer_count) return (struct ps_layer_info){0};
    const struct layer *layer = &graph->layers[number];
    struct ps_layer_info info = {.name = layer->name, .kind = layer->kind};
    const struct node *node = &graph->nodes[layer->node_first];
    for (int i = 0; i < layer->node_count; i++, node++) {
        info.parameters += trained_elements(graph, node);
        info.forward_flops += node_flops(graph, node);
        info.output_rank = node->shape.rank;
        memcpy(info.output_shape, node->shape.dim, sizeof info.output_shape);
    }
    return info;
}
