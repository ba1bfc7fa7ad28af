/* Building blocks that the networks share. A failure sticks to the graph, and -1 travels on as the node to go on from. */
#include <math.h>

#include "graph/model.h"

static int add_one(struct builder *builder, enum operator_id id, const char *name, const struct attributes *attributes,
                   int input) {
    return graph_add(builder->graph, id, name, attributes, &input, 1, builder->error);
}

int build_input(struct builder *builder, int channels, int height, int width) {
    struct attributes attributes = {.channels = channels, .kernel_h = height, .kernel_w = width};
    return graph_add(builder->graph, OPERATOR_INPUT, "data", &attributes, NULL, 0, builder->error);
}

int build_tokens(struct builder *builder, int positions) { return build_input(builder, 1, positions, 1); }

int build_embedding(struct builder *builder, int input, const char *name, int vocabulary, int features) {
    struct attributes attributes = {.channels = features, .vocabulary = vocabulary};
    return add_one(builder, OPERATOR_EMBEDDING, name, &attributes, input);
}

int build_position_embedding(struct builder *builder, int input, const char *name, int rows) {
    struct attributes attributes = {.count = rows};
    return add_one(builder, OPERATOR_POSITION_EMBEDDING, name, &attributes, input);
}

int build_layer_norm(struct builder *builder, int input, const char *name, float epsilon) {
    struct attributes attributes = {.epsilon = epsilon};
    return add_one(builder, OPERATOR_LAYER_NORM, name, &attributes, input);
}

int build_gelu(struct builder *builder, int input, const char *name, bool tanh_form) {
    struct attributes attributes = {.tanh_form = tanh_form};
    return add_one(builder, OPERATOR_GELU, name, &attributes, input);
}

int build_slice(struct builder *builder, int input, const char *name, int first, int count) {
    if (input < 0 || (first == 0 && count == builder->graph->nodes[input].shape.dim[1])) return input;
    struct attributes attributes = {.first = first, .count = count};
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
    if (shape->dim[2] != size || size < side || rest > 1) {
        builder->graph->status = error_set(
            builder->error, PS_USAGE,
            "node '%s' (adaptive average pool): a map of %lldx%lld cannot be cut into %dx%d windows of one size; accepted are "
            "maps of %d, %d, %d, %d, ... a side",
            name, (long long)shape->dim[1], (long long)shape->dim[2], side, side, side, side + 1, 2 * side, 2 * side + 1);
        return -1;
    }
    if (size == side) return input;
    return build_average_pool(builder, input, name, size / side + rest, size / side, 0);
}

int build_relu(struct builder *builder, int input, const char *name) {
    return add_one(builder, OPERATOR_RELU, name, NULL, input);
}

int build_batch_norm(struct builder *builder, int input, const char *name) {
    return add_one(builder, OPERATOR_BATCH_NORM, name, NULL, input);
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

int build_cross_entropy(struct builder *builder, int input, const char *name) {
    return add_one(builder, OPERATOR_CROSS_ENTROPY, name, NULL, input);
}
