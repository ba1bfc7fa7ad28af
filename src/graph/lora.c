/* The rewrite, and adapters in a graph; see lora.h. */
#include "graph/lora.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/spec.h"
#include "graph/network.h"
#include "graph/operators.h"
#include "graph/split.h"

#define NAME_A ".lora_A.weight"
#define NAME_B ".lora_B.weight"

/* ----------------------------------------------------------------- finding */

static bool ends_with(const char *text, const char *end) {
    const size_t length = strlen(text), ends = strlen(end);
    return length >= ends && strcmp(text + length - ends, end) == 0;
}

static const char *weight_name(const struct graph *graph, const struct node *node) {
    return node->parameter_count > 0 ? graph->parameters[node->parameter_first].name : "";
}

bool lora_at(const struct graph *graph, int number, struct lora *lora) {
    const struct node *node = &graph->nodes[number], *scale, *input;
    if (node->id != OPERATOR_ADD || node->input_count != 2) return false;
    struct lora found = {.base = &graph->nodes[node->inputs[0]], .b = &graph->nodes[node->inputs[1]]};
    if (!ends_with(weight_name(graph, found.b), NAME_B) || found.b->id != found.base->id) return false;
    scale = &graph->nodes[found.b->inputs[0]];
    if (scale->id != OPERATOR_UNARY || scale->attributes.kind != UNARY_AFFINE) return false;
    found.a = &graph->nodes[scale->inputs[0]];
    if (!ends_with(weight_name(graph, found.a), NAME_A)) return false;
    input = &graph->nodes[found.a->inputs[0]];
    if (input->id == OPERATOR_DROPOUT && found.a->inputs[0] != found.base->inputs[0]) found.dropout = input;
    found.scale = (double)scale->attributes.alpha;
    found.rank = found.a->attributes.channels;
    *lora = found;
    return true;
}

int lora_count(const struct graph *graph, struct lora *first) {
    int count = 0;
    for (int n = 0; n < graph->node_count; n++) {
        struct lora lora;
        if (lora_at(graph, n, &lora) && count++ == 0 && first != NULL) *first = lora;
    }
    return count;
}

int lora_module_length(const char *parameter) {
    static const char *const ends[] = {".weight", ".in_proj_weight"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends_with(parameter, ends[i])) return (int)(strlen(parameter) - strlen(ends[i]));
    return (int)strlen(parameter);
}

/* Some columns at a time, so that both factors are read in the order of memory. */
void lora_merge(const struct lora *lora, const struct graph *graph, const float *a, const float *b, float *weight) {
    enum { TILE = 256 };
    const int64_t rows = lora->base->attributes.channels;
    const int64_t columns = shape_elements(&graph->parameters[lora->a->parameter_first].shape) / lora->rank;
    const bool transposed = lora->base->attributes.transposed;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t first = 0; first < columns; first += TILE) {
            const int64_t count = columns - first < TILE ? columns - first : TILE;
            double sum[TILE] = {0};
            for (int64_t r = 0; r < lora->rank; r++)
                for (int64_t j = 0; j < count; j++)
                    sum[j] += (double)b[i * lora->rank + r] * (double)a[r * columns + first + j];
            for (int64_t j = 0; j < count; j++) {
                float *at = &weight[transposed ? (first + j) * rows + i : i * columns + first + j];
                *at = (float)((double)*at + lora->scale * sum[j]);
            }
        }
}

/* ----------------------------------------------------------------- rewrite */

struct wanted {
    int rank;
    double alpha, dropout;
    const char *target, *train; /* patterns joined by '+'; train may be NULL */
};

/* Does one of the patterns match the name, or, where `module` says so, what it is of, from its beginning or from a dot on:
 * "block.fc1" and "fc1" of "block.fc1.weight", as PEFT's target_modules do? */
static bool among(const char *patterns, const char *name, bool module) {
    char pattern[sizeof((struct parameter *)0)->name], own[sizeof pattern];
    snprintf(own, sizeof own, "%.*s", lora_module_length(name), name);
    for (const char *text = patterns; text != NULL; text += *text == '+') {
        const size_t length = strcspn(text, "+");
        snprintf(pattern, sizeof pattern, "%.*s", (int)length, text);
        if (length < sizeof pattern && graph_name_matches(pattern, name)) return true;
        for (const char *part = module && length < sizeof pattern ? own : NULL; part != NULL;) {
            if (graph_name_matches(pattern, part)) return true;
            part = strchr(part, '.');
            if (part != NULL) part++;
        }
        text += length;
        if (*text == '\0') break;
    }
    return false;
}

static bool can_adapt(const struct node *node) {
    return node->id == OPERATOR_LINEAR || (node->id == OPERATOR_CONVOLUTION && node->attributes.groups <= 1);
}

static bool is_target(const struct graph *graph, const struct node *node, const struct wanted *wanted) {
    return can_adapt(node) && graph->parameters[node->parameter_first].slice.rows == 0 &&
           among(wanted->target, weight_name(graph, node), true);
}

/* Each pattern must match something: a misspelt one would silently train less. */
static enum ps_status check_patterns(const struct graph *graph, const char *patterns, bool targets, struct ps_error *error) {
    for (const char *text = patterns; text != NULL; text++) {
        char one[512];
        const int length = (int)strcspn(text, "+");
        bool found = false;
        snprintf(one, sizeof one, "%.*s", length, text);
        const struct wanted wanted = {.target = one};
        for (int n = 0; targets && n < graph->node_count; n++) found |= is_target(graph, &graph->nodes[n], &wanted);
        for (int p = 0; !targets && p < graph->parameter_count; p++)
            found |= graph->parameters[p].role == PARAMETER_TRAINED && among(one, graph->parameters[p].name, false);
        if (!found)
            return error_set(error, PS_USAGE, "lora: %s=%s: no %s has such a name", targets ? "target" : "train", one,
                             targets ? "weight of a linear layer or of a convolution without groups" : "trained parameter");
        text += length;
        if (*text == '\0') break;
    }
    return PS_OK;
}

static enum ps_status parse(const char *text, struct wanted *wanted, struct spec *spec, struct ps_error *error) {
    static const char *const keys[] = {"rank", "alpha", "target", "dropout", "train"};
    char whole[sizeof spec->buffer];
    if ((size_t)snprintf(whole, sizeof whole, "lora,%s", text) >= sizeof whole)
        return error_set(error, PS_USAGE, "lora: '%.40s...' is longer than %zu characters", text, sizeof whole - 6);
    *wanted = (struct wanted){.rank = 8};
    TRY(spec_parse(whole, "lora", spec, error));
    TRY(spec_int(spec, "rank", 1, FEATURES_MAX, &wanted->rank, error));
    wanted->alpha = wanted->rank;
    TRY(spec_number(spec, "alpha", 1e-6, 1e6, &wanted->alpha, error));
    TRY(spec_number(spec, "dropout", 0, 0.999999, &wanted->dropout, error));
    TRY(spec_string(spec, "target", &wanted->target, error));
    TRY(spec_string(spec, "train", &wanted->train, error));
    TRY(spec_finish(spec, "lora", keys, sizeof keys / sizeof *keys, error));
    if (wanted->target == NULL)
        return error_set(error, PS_USAGE, "lora: '%s': target=GLOB, which layers get adapters, is missing", text);
    return PS_OK;
}

/* The node's name with something behind it; of a long one the end counts. */
static const char *part_name(const struct node *node, const char *part, char name[64]) {
    const size_t length = strlen(node->name), room = 63 - strlen(part);
    const char *end = node->name + (length > room ? length - room : 0);
    while (((unsigned char)*end & 0xc0) == 0x80) end++; /* the rest of a character */
    snprintf(name, 64, "%s%s", end, part);
    return name;
}

/* The adapter's half `part` of the node that is a copy of `base` in `graph`. Layers that share weights share their adapter. */
static int add_half(struct graph *graph, const struct graph *from, const struct node *base, const struct attributes *attributes,
                    const char *part, int input, struct ps_error *error) {
    char node_name[64], name[sizeof graph->parameters->name + 32];
    const char *weight = weight_name(from, base);
    const int made = graph_add(graph, base->id, part_name(base, part, node_name), attributes, &input, 1, error);
    if (made < 0) return -1;
    const struct shape shape = graph->parameters[graph->nodes[made].parameter_first].shape;
    snprintf(name, sizeof name, "%.*s.%s.weight", lora_module_length(weight), weight, part + 1);
    for (int n = 0; n < made; n++)
        if (strcmp(weight_name(graph, &graph->nodes[n]), name) == 0) {
            graph_tie(graph, made, 0, n, 0);
            return made;
        }
    graph->status = graph_name_parameter(graph, made, 0, name, &shape, error);
    return graph->status == PS_OK ? made : -1;
}

/* Adds the layer with its adapter; returns the node that joins them. `input`: of both. */
static int add_adapted(struct graph *graph, const struct graph *from, const struct node *base, int input,
                       const struct wanted *wanted, struct ps_error *error) {
    const struct attributes dropping = {.rate = (float)wanted->dropout};
    const struct attributes scaling = {.kind = UNARY_AFFINE, .alpha = (float)(wanted->alpha / wanted->rank)};
    struct attributes a = base->attributes, b = attributes_usual(operator_get(base->id));
    char name[64];
    a.channels = wanted->rank;
    a.bias = a.transposed = b.bias = false;
    b.channels = base->attributes.channels;
    if (base->id == OPERATOR_CONVOLUTION) {
        b.kernel_h = b.kernel_w = 1;
        b.dims = a.dims;
    }
    int ends[2] = {graph_add_copy(graph, from, base, &base->attributes, &input, error)};
    int last = input;
    if (wanted->dropout > 0)
        last = graph_add(graph, OPERATOR_DROPOUT, part_name(base, "/lora_dropout", name), &dropping, &last, 1, error);
    last = add_half(graph, from, base, &a, "/lora_A", last, error);
    last = graph_add(graph, OPERATOR_UNARY, part_name(base, "/lora_scale", name), &scaling, &last, 1, error);
    ends[1] = add_half(graph, from, base, &b, "/lora_B", last, error);
    if (ends[1] >= 0) graph_set_initial(graph, ends[1], 0, (struct initial){INITIAL_CONSTANT, 0});
    return graph_add(graph, OPERATOR_ADD, part_name(base, "/lora", name), NULL, ends, 2, error);
}

/* `number`: room for one of each node. */
static enum ps_status rewrite(const struct graph *from, const struct wanted *wanted, int *number, struct graph *graph,
                              struct ps_error *error) {
    for (int n = 0; n < from->node_count; n++) {
        const struct node *node = &from->nodes[n];
        int inputs[GRAPH_INPUTS_MAX];
        for (int i = 0; i < node->input_count; i++) inputs[i] = number[node->inputs[i]];
        number[n] = is_target(from, node, wanted) ? add_adapted(graph, from, node, inputs[0], wanted, error)
                                                  : graph_add_copy(graph, from, node, &node->attributes, inputs, error);
        if (number[n] < 0) return graph->status;
        graph->nodes[number[n]].random_number = number[n];
    }
    for (int p = 0; p < graph->parameter_count; p++) {
        struct parameter *parameter = &graph->parameters[p];
        const bool own = ends_with(parameter->name, NAME_A) || ends_with(parameter->name, NAME_B);
        if (parameter->role != PARAMETER_TRAINED || own || among(wanted->train, parameter->name, false)) continue;
        parameter->role = PARAMETER_FIXED;
        parameter->frozen = true;
    }
    graph->values = values_share(from->values);
    return graph_take_target(graph, from, error);
}

enum ps_status ps_network_lora(struct ps_network *network, const char *text, struct ps_error *error) {
    const struct graph *from = network->graph;
    struct wanted wanted;
    struct spec spec;
    struct ps_network *made;
    int *number;
    TRY(parse(text, &wanted, &spec, error));
    if (lora_count(from, NULL) > 0) return error_set(error, PS_USAGE, "lora: %s has adapters already", network->name);
    TRY(check_patterns(from, wanted.target, true, error));
    TRY(check_patterns(from, wanted.train, false, error));
    TRY(memory_new(&number, (size_t)from->node_count, "a network with adapters", error));
    struct graph *graph = graph_create();
    enum ps_status status = memory_check(graph, "a network", error);
    if (status == PS_OK) status = rewrite(from, &wanted, number, graph, error);
    free(number);
    if (status == PS_OK)
        status = network_create(network->name, graph, network->predicts, &made, error);
    else
        graph_destroy(graph);
    if (status == PS_OK) network_replace(network, made);
    return status;
}
