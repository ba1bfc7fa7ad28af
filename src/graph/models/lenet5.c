/*
 * LeNet-5 (LeCun, Bottou, Bengio and Haffner, "Gradient-based learning applied to document recognition", 1998) in its modern
 * form: ReLU instead of the squashing functions, max pooling instead of the trained subsampling, all maps connected, softmax at
 * the end. 61,706 parameters for 28x28 grey images, which padding enlarges to the paper's 32x32.
 */
#include "graph/model.h"

static enum ps_status build(struct graph *graph, const struct model_options *sizes, struct spec *options,
                            struct ps_error *error) {
    (void)options;
    struct builder b = {graph, error};
    int x = build_input(&b, sizes->channels, sizes->input, sizes->input);
    x = build_convolution(&b, x, "conv1", 6, 5, 1, 2, true);
    x = build_relu(&b, x, "relu1");
    x = build_max_pool(&b, x, "pool1", 2, 2, 0);
    x = build_convolution(&b, x, "conv2", 16, 5, 1, 0, true);
    x = build_relu(&b, x, "relu2");
    x = build_max_pool(&b, x, "pool2", 2, 2, 0);
    x = build_flatten(&b, x, "flatten");
    x = build_linear(&b, x, "fc1", 120);
    x = build_relu(&b, x, "relu3");
    x = build_linear(&b, x, "fc2", 84);
    x = build_relu(&b, x, "relu4");
    x = build_linear(&b, x, "fc3", sizes->classes);
    build_cross_entropy(&b, x, "loss");
    return graph->status;
}

const struct model model_lenet5 = {
    .name = "lenet5",
    .summary = "LeNet-5: two convolutions and three linear layers, for small grey images",
    .defaults = {.input = 28, .channels = 1, .classes = 10},
    .build = build,
};
