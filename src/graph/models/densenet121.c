/*
 * DenseNet-121 (Huang, Liu, van der Maaten and Weinberger, "Densely connected convolutional networks", 2017, table 1): four
 * blocks of layers that each read all the block's values before them; growth 32, compression 1/2. 7,978,856 parameters for 1000
 * classes. The input of a layer is one value that grows by a concatenation after each layer, so a cut carries each map once.
 * Parameters are named, and start, as in torchvision.
 */
#include <math.h>
#include <stdio.h>

#include "graph/model.h"

enum { GROWTH = 32, BOTTLENECK = 4 * GROWTH };

static const int blocks[] = {6, 12, 24, 16};
enum { BLOCKS = sizeof blocks / sizeof *blocks };

/* Initial values as in He et al., by the number of inputs. */
static int build_plain_convolution(struct builder *b, int x, const char *name, int channels, int kernel, int stride) {
    if (x < 0) return -1;
    double inputs = (double)b->graph->nodes[x].shape.dim[0] * kernel * kernel;
    x = build_convolution(b, x, name, channels, kernel, stride, kernel / 2, false);
    if (x >= 0) graph_set_initial(b->graph, x, 0, (struct initial){INITIAL_NORMAL, (float)sqrt(2 / inputs)});
    return x;
}

/* Normalisation and ReLU of `owner`, "norm1" and "relu1" with a number, or without one if it is empty. */
static int build_norm_relu(struct builder *b, int x, const char *owner, const char *number) {
    char name[64];
    snprintf(name, sizeof name, "%s.norm%s", owner, number);
    x = build_batch_norm(b, x, name);
    snprintf(name, sizeof name, "%s.relu%s", owner, number);
    return build_relu(b, x, name);
}

static int build_dense_layer(struct builder *b, int input, int block, int number) {
    char owner[48], name[64];
    snprintf(owner, sizeof owner, "features.denseblock%d.denselayer%d", block, number);
    int x = build_norm_relu(b, input, owner, "1");
    snprintf(name, sizeof name, "%s.conv1", owner);
    x = build_norm_relu(b, build_plain_convolution(b, x, name, BOTTLENECK, 1, 1), owner, "2");
    snprintf(name, sizeof name, "%s.conv2", owner);
    x = build_plain_convolution(b, x, name, GROWTH, 3, 1);
    snprintf(name, sizeof name, "%s.concat", owner);
    return build_concat(b, (const int[]){input, x}, 2, name);
}

/* Half the channels, half the size. */
static int build_transition(struct builder *b, int x, int block) {
    char owner[32], name[64];
    snprintf(owner, sizeof owner, "features.transition%d", block);
    x = build_norm_relu(b, x, owner, "");
    if (x < 0) return -1;
    snprintf(name, sizeof name, "%s.conv", owner);
    x = build_plain_convolution(b, x, name, (int)b->graph->nodes[x].shape.dim[0] / 2, 1, 1);
    snprintf(name, sizeof name, "%s.pool", owner);
    return build_average_pool(b, x, name, 2, 2, 0);
}

static enum ps_status build(struct graph *graph, const struct model_options *sizes, struct spec *options,
                            struct ps_error *error) {
    (void)options;
    struct builder b = {graph, error};
    int x = build_input(&b, sizes->channels, sizes->input, sizes->input);
    x = build_norm_relu(&b, build_plain_convolution(&b, x, "features.conv0", 64, 7, 2), "features", "0");
    x = build_max_pool(&b, x, "features.pool0", 3, 2, 1);
    for (int block = 1; block <= BLOCKS; block++) {
        for (int number = 1; number <= blocks[block - 1]; number++) x = build_dense_layer(&b, x, block, number);
        if (block < BLOCKS) x = build_transition(&b, x, block);
    }
    x = build_norm_relu(&b, x, "features", "5");
    x = build_global_pool(&b, x, "avgpool");
    x = build_flatten(&b, x, "flatten");
    x = build_linear(&b, x, "classifier", sizes->classes);
    if (x >= 0) graph_set_initial(graph, x, 1, (struct initial){INITIAL_CONSTANT, 0});
    build_cross_entropy(&b, x, "loss");
    return graph->status;
}

const struct model model_densenet121 = {
    .name = "densenet121",
    .summary = "DenseNet-121: four blocks of densely connected layers",
    .defaults = {.input = 224, .channels = 3, .classes = 1000},
    .build = build,
};
