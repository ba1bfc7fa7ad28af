/* Networks by name, and what the public interface tells about them. */
#include "graph/model.h"

#include <math.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/table.h"
#include "graph/operators.h"
#include "graph/split.h"

/* What every network takes: of images, of sequences. */
static const char *const image_keys[] = {"input", "channels", "split", "classes", NULL};
static const char *const sequence_keys[] = {"seq", "vocab", "split", "classes", NULL};
enum { COMMON_KEYS = 4 };

static TABLE_FIND(find_entry, model, model_table, "model")

    static bool reads_tokens(const struct model *entry) {
    return entry->defaults.vocabulary > 0;
}

static enum ps_status read_sizes(const struct model *entry, struct options *options, struct model_options *sizes,
                                 struct ps_error *error) {
    *sizes = entry->defaults;
    if (reads_tokens(entry)) {
        TRY(options_int(options, "seq", 1, 1 << 20, &sizes->positions, error));
        TRY(options_int(options, "vocab", 2, 1 << 30, &sizes->vocabulary, error));
    } else {
        TRY(options_int(options, "input", 1, 16384, &sizes->input, error));
        TRY(options_int(options, "channels", 1, 4096, &sizes->channels, error));
    }
    return sizes->classes > 0 ? options_int(options, "classes", 2, 1000000, &sizes->classes, error) : PS_OK;
}

/* Every option was read by the network or by us. */
static enum ps_status check_options(const struct model *entry, const struct options *options, struct ps_error *error) {
    const char *keys[COMMON_KEYS + sizeof entry->keys / sizeof *entry->keys];
    const char *const *common = reads_tokens(entry) ? sequence_keys : image_keys;
    size_t count = 0;
    for (; count < COMMON_KEYS - (entry->defaults.classes == 0); count++) keys[count] = common[count];
    for (int i = 0; entry->keys[i] != NULL; i++) keys[count++] = entry->keys[i];
    return options_finish(options, "model", keys, count, error);
}

/* What the finished network takes and gives, as its first and last node say. */
static void note_interface(struct ps_model *model) {
    const struct graph *graph = model->graph;
    memcpy(model->input_shape, graph->nodes[0].shape.dim, sizeof model->input_shape);
    model->classes = (int)graph->nodes[graph->node_count - 1].shape.dim[0];
    model->labels = (int)graph_labels(graph);
    model->vocabulary = graph_vocabulary(graph);
}

enum { INPUT_SEARCHED = 512 };

/* The least size of images above that in `sizes` with which the network can be built; 0: there is none near. */
static int least_input(const struct model *entry, struct model_options sizes, struct options *options) {
    bool built = false;
    while (!built && sizes.input < INPUT_SEARCHED) {
        sizes.input++;
        struct graph *graph = graph_create();
        if (graph == NULL) return 0;
        built = entry->build(graph, &sizes, options, NULL) == PS_OK && graph_finish(graph, NULL) == PS_OK;
        graph_destroy(graph);
    }
    return built ? sizes.input : 0;
}

/* The graph could not be built, and why stands in `error`: which size of images it could be built for. */
static void name_least_input(const struct model *entry, const char *spec, const struct model_options *sizes,
                             struct options *options, struct ps_error *error) {
    error_prefix(error, "%s", spec);
    int least = error == NULL || reads_tokens(entry) ? 0 : least_input(entry, *sizes, options);
    if (least > 0) error_set(error, error->status, "%s; images from %d pixels a side on are taken", error->message, least);
}

/* Lengths that a specification is given in place of its own; 0: as it says. */
struct other_lengths {
    int seq, target;
};

static enum ps_status set_length(struct options *options, const char *key, int length, char text[16], struct ps_error *error) {
    snprintf(text, 16, "%d", length);
    return length > 0 ? options_set(options, key, text, error) : PS_OK;
}

static enum ps_status build_model(struct ps_model *model, const char *spec, struct other_lengths lengths,
                                  struct ps_error *error) {
    struct options options;
    char seq[16], target[16];
    TRY(options_parse(spec, "model", &options, error));
    TRY(set_length(&options, "seq", lengths.seq, seq, error));
    TRY(set_length(&options, "target", lengths.target, target, error));
    if (strlen(spec) >= sizeof model->name) {
        return error_set(error, PS_USAGE, "model: '%.40s...' is longer than %zu characters", spec, sizeof model->name - 1);
    }
    memcpy(model->name, spec, strlen(spec) + 1);
    const struct model *entry;
    TRY(find_entry(options.name, &entry, error));
    struct model_options sizes;
    TRY(read_sizes(entry, &options, &sizes, error));
    const char *splits = NULL;
    TRY(options_string(&options, "split", &splits, error));
    enum ps_status status = entry->build(model->graph, &sizes, &options, error);
    if (status == PS_OK) status = check_options(entry, &options, error);
    if (status == PS_OK) status = graph_finish(model->graph, error);
    if (model->graph->status != PS_OK) name_least_input(entry, spec, &sizes, &options, error);
    if (status != PS_OK) return status;
    note_interface(model);
    model->gives_tokens = reads_tokens(entry) && entry->defaults.classes == 0;
    model->masked = entry->masked;
    if (splits == NULL) return PS_OK;
    status = graph_split_all(&model->graph, splits, error);
    if (status != PS_OK) error_prefix(error, "%s", spec);
    return status;
}

static enum ps_status create(const char *spec, struct other_lengths lengths, struct ps_model **model, struct ps_error *error) {
    struct ps_model *made = calloc(1, sizeof *made);
    if (made != NULL) made->graph = graph_create();
    if (made == NULL || made->graph == NULL) {
        ps_model_destroy(made);
        return error_memory(error, "a network", sizeof *made);
    }
    enum ps_status status = build_model(made, spec, lengths, error);
    if (status != PS_OK) {
        ps_model_destroy(made);
        return status;
    }
    *model = made;
    return PS_OK;
}

enum ps_status ps_model_create(const char *spec, struct ps_model **model, struct ps_error *error) {
    return create(spec, (struct other_lengths){0, 0}, model, error);
}

enum ps_status model_create_stepping(const char *spec, struct ps_model **model, struct ps_error *error) {
    return create(spec, (struct other_lengths){.target = 1}, model, error);
}

/* ------------------------------------------------------------------ shorter sequences */

int model_source(const struct ps_model *model) {
    const int positions = model->vocabulary > 0 ? (int)model->input_shape[1] : 0;
    return model->labels > 1 && model->labels < positions ? positions - model->labels : 0;
}

/* Are two networks the same, node by node, but for the lengths of values? Else `node` is where they differ. */
static bool alike(const struct graph *a, const struct graph *b, int *node) {
    for (*node = 0; *node < a->node_count && *node < b->node_count; ++*node) {
        const struct node *x = &a->nodes[*node], *y = &b->nodes[*node];
        if (x->id != y->id || strcmp(x->name, y->name) != 0 || x->layer != y->layer) return false;
        if (x->parameter_count != y->parameter_count || x->random_number != y->random_number) return false;
        for (int p = 0; p < x->parameter_count; p++) {
            const struct shape *own = &a->parameters[x->parameter_first + p].shape;
            if (!shape_equal(own, &b->parameters[y->parameter_first + p].shape)) return false;
        }
    }
    return a->node_count == b->node_count;
}

enum ps_status model_create_shorter(const struct ps_model *whole, int seq, struct ps_model **model, struct ps_error *error) {
    const int source = model_source(whole);
    if (source == 0) return error_set(error, PS_USAGE, "%s has no source and target", whole->name);
    struct ps_model *made;
    int node;
    TRY(create(whole->name, (struct other_lengths){seq, number_share_up(whole->labels, seq, source)}, &made, error));
    if (!alike(whole->graph, made->graph, &node)) {
        error_set(error, PS_USAGE, "%s: with seq=%d node '%s' is not what it is", whole->name, seq,
                  node < made->graph->node_count ? made->graph->nodes[node].name : "");
        ps_model_destroy(made);
        return PS_USAGE;
    }
    made->graph->longest = whole->graph;
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
        if (!graph->parameters[p].statistic && !graph->parameters[p].tied)
            elements += shape_elements(&graph->parameters[p].shape);
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
    struct ps_model_info info = {.name = model->name,
                                 .layers = graph->layer_count,
                                 .classes = model->classes,
                                 .labels = model->labels,
                                 .vocabulary = model->vocabulary};
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

double model_perplexity(const struct ps_model *model, double loss) { return model && model->gives_tokens ? exp(loss) : NAN; }
