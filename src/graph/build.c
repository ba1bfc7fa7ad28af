/* Building blocks that the networks share. A failure sticks to the graph, and -1 travels on as the node to go on from. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/model.h"

enum ps_status model_form(struct spec *options, const struct model_options *sizes, bool *small, struct ps_error *error) {
    static const char *const forms[] = {"cifar", "imagenet"};
    const char *form = sizes->input <= 64 ? forms[0] : forms[1];
    TRY(spec_string(options, "form", &form, error));
    *small = strcmp(form, forms[0]) == 0;
    if (*small || strcmp(form, forms[1]) == 0) return PS_OK;
    enum ps_status status = error_unknown(error, PS_USAGE, "form", form, forms, 2);
    error_prefix(error, "%s", options->name);
    return status;
}

static int add_one(struct builder *builder, enum operator_id id, const char *name, const struct attributes *attributes,
                   int input) {
    return graph_add(builder->graph, id, name, attributes, &input, 1, builder->error);
}

int build_node(struct builder *builder, int input, enum operator_id id, const char *name, struct attributes attributes) {
    return add_one(builder, id, name, &attributes, input);
}

int build_input(struct builder *builder, int channels, int height, int width) {
    struct attributes attributes = {.sides = {1 + (height > 0) + (width > 0), {channels, height, width}}};
    return graph_add(builder->graph, OPERATOR_INPUT, "data", &attributes, NULL, 0, builder->error);
}

int build_tokens(struct builder *builder, int positions) {
    struct attributes attributes = {.sides = {3, {1, positions, 1}}, .type = TYPE_I32};
    return graph_add(builder->graph, OPERATOR_INPUT, "data", &attributes, NULL, 0, builder->error);
}

int build_embedding(struct builder *builder, int input, const char *name, int vocabulary, int features) {
    struct attributes attributes = {.channels = features, .vocabulary = vocabulary};
    return add_one(builder, OPERATOR_EMBEDDING, name, &attributes, input);
}

int build_position_embedding(struct builder *builder, int input, const char *name, int rows) {
    struct attributes attributes = {.count = rows};
    return add_one(builder, OPERATOR_POSITION_EMBEDDING, name, &attributes, input);
}

int build_layer_norm(struct builder *builder, int input, const char *name, float epsilon) {
    struct attributes attributes = {.epsilon = epsilon, .weight = true, .bias = true};
    return add_one(builder, OPERATOR_LAYER_NORM, name, &attributes, input);
}

int build_gelu(struct builder *builder, int input, const char *name, bool tanh_form) {
    struct attributes attributes = {.tanh_form = tanh_form};
    return add_one(builder, OPERATOR_GELU, name, &attributes, input);
}

int build_cast(struct builder *builder, int input, const char *name, enum number_type type) {
    struct attributes attributes = {.type = type};
    return add_one(builder, OPERATOR_CAST, name, &attributes, input);
}

int build_slice(struct builder *builder, int input, const char *name, int first, int count) {
    if (input < 0 || (first == 0 && count == builder->graph->nodes[input].shape.dim[1])) return input;
    struct attributes attributes = {.first = first, .count = count, .axis = 1};
    return add_one(builder, OPERATOR_SLICE, name, &attributes, input);
}

int build_convolution(struct builder *builder, int input, const char *name, int channels, int kernel, int stride, int pad,
                      bool bias) {
    struct attributes attributes = {.channels = channels,
                                    .kernel_h = kernel,
                                    .kernel_w = kernel,
                                    .stride_h = stride,
                                    .stride_w = stride,
                                    .pad_h = pad,
                                    .pad_w = pad,
                                    .bias = bias};
    return add_one(builder, OPERATOR_CONVOLUTION, name, &attributes, input);
}

void build_he_initial(struct builder *builder, int convolution) {
    if (convolution < 0) return;
    const struct attributes *attributes = &builder->graph->nodes[convolution].attributes;
    double fan_out = (double)attributes->kernel_h * attributes->kernel_w * attributes->channels;
    graph_set_initial(builder->graph, convolution, 0, (struct initial){INITIAL_NORMAL, (float)sqrt(2 / fan_out)});
    if (attributes->bias) graph_set_initial(builder->graph, convolution, 1, (struct initial){INITIAL_CONSTANT, 0});
}

int build_linear(struct builder *builder, int input, const char *name, int features) {
    struct attributes attributes = {.channels = features, .bias = true};
    return add_one(builder, OPERATOR_LINEAR, name, &attributes, input);
}

static int build_pool(struct builder *builder, enum operator_id id, int input, const char *name, int kernel, int stride,
                      int pad) {
    struct attributes attributes = {.kernel_h = kernel,
                                    .kernel_w = kernel,
                                    .stride_h = stride,
                                    .stride_w = stride,
                                    .pad_h = pad,
                                    .pad_w = pad,
                                    .count_padding = true};
    return add_one(builder, id, name, &attributes, input);
}

int build_max_pool(struct builder *builder, int input, const char *name, int kernel, int stride, int pad) {
    return build_pool(builder, OPERATOR_MAX_POOL, input, name, kernel, stride, pad);
}

int build_max_pool_ceiling(struct builder *builder, int input, const char *name, int kernel, int stride) {
    struct attributes attributes = {
        .kernel_h = kernel, .kernel_w = kernel, .stride_h = stride, .stride_w = stride, .ceiling = true};
    return add_one(builder, OPERATOR_MAX_POOL, name, &attributes, input);
}

int build_average_pool(struct builder *builder, int input, const char *name, int kernel, int stride, int pad) {
    return build_pool(builder, OPERATOR_AVERAGE_POOL, input, name, kernel, stride, pad);
}

int build_global_pool(struct builder *builder, int input, const char *name) {
    if (input < 0) return -1;
    const struct shape *shape = &builder->graph->nodes[input].shape;
    struct attributes attributes = {.kernel_h = (int)shape->dim[1], .kernel_w = (int)shape->dim[2]};
    return add_one(builder, OPERATOR_AVERAGE_POOL, name, &attributes, input);
}

/* PyTorch's window i covers floor(i * size / side) up to ceil((i + 1) * size / side): windows of one size and stride exactly
 * where size mod side is 0 or 1. */
int build_adaptive_pool(struct builder *builder, int input, const char *name, int side) {
    if (input < 0) return -1;
    const struct shape *shape = &builder->graph->nodes[input].shape;
    int size = (int)shape->dim[1], rest = size % side;
    if (shape->dim[2] == size && size == side) return input;
    if (shape->dim[2] == size && size > side && rest <= 1)
        return build_average_pool(builder, input, name, size / side + rest, size / side, 0);
    return build_node(builder, input, OPERATOR_AVERAGE_POOL, name, (struct attributes){.out_h = side, .out_w = side});
}

int build_relu(struct builder *builder, int input, const char *name) {
    return add_one(builder, OPERATOR_RELU, name, NULL, input);
}

int build_batch_norm(struct builder *builder, int input, const char *name) {
    return build_node(builder, input, OPERATOR_BATCH_NORM, name,
                      (struct attributes){.epsilon = 1e-5f, .momentum = 0.1f, .weight = true, .bias = true});
}

int build_normalised_convolution(struct builder *builder, int input, const char *convolution, const char *norm, int channels,
                                 int kernel, int stride) {
    int x = build_convolution(builder, input, convolution, channels, kernel, stride, kernel / 2, false);
    build_he_initial(builder, x);
    return build_batch_norm(builder, x, norm);
}

int build_inception_unit(struct builder *builder, int input, const char *name, struct attributes convolution, float deviation) {
    char part[64];
    snprintf(part, sizeof part, "%s.conv", name);
    int x = build_node(builder, input, OPERATOR_CONVOLUTION, part, convolution);
    if (x >= 0) graph_set_initial(builder->graph, x, 0, (struct initial){INITIAL_NORMAL, deviation});
    snprintf(part, sizeof part, "%s.bn", name);
    x = build_node(builder, x, OPERATOR_BATCH_NORM, part,
                   (struct attributes){.epsilon = 1e-3f, .momentum = 0.1f, .weight = true, .bias = true});
    snprintf(part, sizeof part, "%s.relu", name);
    return build_relu(builder, x, part);
}

int build_inception_end(struct builder *builder, int input, float dropout, int classes, float deviation) {
    int x = build_global_pool(builder, input, "avgpool");
    x = build_flatten(builder, x, "flatten");
    x = build_dropout(builder, x, "dropout", dropout);
    x = build_linear(builder, x, "fc", classes);
    if (x >= 0) graph_set_initial(builder->graph, x, 0, (struct initial){INITIAL_NORMAL, deviation});
    return build_cross_entropy(builder, x, "loss");
}

int build_add(struct builder *builder, int a, int b, const char *name) {
    return graph_add(builder->graph, OPERATOR_ADD, name, NULL, (const int[]){a, b}, 2, builder->error);
}

int build_concat(struct builder *builder, const int *inputs, int count, const char *name) {
    return graph_add(builder->graph, OPERATOR_CONCAT, name, NULL, inputs, count, builder->error);
}

int build_flatten(struct builder *builder, int input, const char *name) {
    return add_one(builder, OPERATOR_FLATTEN, name, NULL, input);
}

int build_dropout(struct builder *builder, int input, const char *name, float rate) {
    if (rate == 0) return input;
    struct attributes attributes = {.rate = rate};
    return add_one(builder, OPERATOR_DROPOUT, name, &attributes, input);
}

int build_local_response_norm(struct builder *builder, int input, const char *name) {
    struct attributes attributes = {.window = 5, .alpha = 5e-4f, .beta = 0.75f, .shift = 2};
    return add_one(builder, OPERATOR_LOCAL_RESPONSE_NORM, name, &attributes, input);
}

int build_cross_entropy(struct builder *builder, int input, const char *name) {
    return add_one(builder, OPERATOR_CROSS_ENTROPY, name, NULL, input);
}

int build_projection(struct builder *builder, int input, const char *name, int features) {
    struct attributes attributes = {.channels = features};
    return add_one(builder, OPERATOR_LINEAR, name, &attributes, input);
}

int build_lstm(struct builder *builder, int input, const char *name, int hidden) {
    struct attributes attributes = {.channels = hidden};
    return add_one(builder, OPERATOR_LSTM, name, &attributes, input);
}

int build_lstm_padded(struct builder *builder, int input, int tokens, const char *name, int hidden, bool reverse) {
    struct attributes attributes = {.channels = hidden, .reverse = reverse};
    return graph_add(builder->graph, OPERATOR_LSTM, name, &attributes, (const int[]){input, tokens}, 2, builder->error);
}

int build_additive_attention(struct builder *builder, int query, int key, int value, int tokens, const char *name) {
    return graph_add(builder->graph, OPERATOR_ADDITIVE_ATTENTION, name, NULL, (const int[]){query, key, value, tokens}, 4,
                     builder->error);
}
