/*
 * ResNet-50 and ResNet-101 (He, Zhang, Ren and Sun, "Deep residual learning for image recognition", 2016, table 1) in
 * torchvision's form: the stride of a block is in its 3x3 convolution, not in the first 1x1. 25,557,032 and 44,549,160
 * parameters for 1000 classes. Parameters are named, and convolutions start, as there.
 */
#include <stdio.h>

#include "graph/model.h"

/* Convolution `number` (1 to 3) of the block called `block`. */
static int build_step(struct builder *b, int x, const char *block, int number, int channels, int kernel, int stride) {
    char convolution[48], norm[48];
    snprintf(convolution, sizeof convolution, "%s.conv%d", block, number);
    snprintf(norm, sizeof norm, "%s.bn%d", block, number);
    return build_normalised_convolution(b, x, convolution, norm, channels, kernel, stride);
}

static int build_named_relu(struct builder *b, int x, const char *block, int number) {
    char name[48];
    snprintf(name, sizeof name, "%s.relu%d", block, number);
    return build_relu(b, x, name);
}

/* 1x1 to `width` channels, 3x3, 1x1 to four times as many, and the shortcut. */
static int build_bottleneck(struct builder *b, int input, const char *block, int width, int stride, bool project) {
    char convolution[48], norm[48], name[48];
    int x = build_named_relu(b, build_step(b, input, block, 1, width, 1, 1), block, 1);
    x = build_named_relu(b, build_step(b, x, block, 2, width, 3, stride), block, 2);
    x = build_step(b, x, block, 3, 4 * width, 1, 1);
    int shortcut = input;
    if (project) {
        snprintf(convolution, sizeof convolution, "%s.downsample.0", block);
        snprintf(norm, sizeof norm, "%s.downsample.1", block);
        shortcut = build_normalised_convolution(b, input, convolution, norm, 4 * width, 1, stride);
    }
    snprintf(name, sizeof name, "%s.add", block);
    return build_named_relu(b, build_add(b, x, shortcut, name), block, 3);
}

static enum ps_status build(struct graph *graph, const int blocks[4], const struct model_options *sizes,
                            struct ps_error *error) {
    struct builder b = {graph, error};
    int x = build_input(&b, sizes->channels, sizes->input, sizes->input);
    x = build_relu(&b, build_normalised_convolution(&b, x, "conv1", "bn1", 64, 7, 2), "relu");
    x = build_max_pool(&b, x, "maxpool", 3, 2, 1);
    for (int group = 1; group <= 4; group++) {
        for (int number = 0; number < blocks[group - 1]; number++) {
            char block[24];
            snprintf(block, sizeof block, "layer%d.%d", group, number);
            x = build_bottleneck(&b, x, block, 32 << group, group > 1 && number == 0 ? 2 : 1, number == 0);
        }
    }
    x = build_global_pool(&b, x, "avgpool");
    x = build_flatten(&b, x, "flatten");
    x = build_linear(&b, x, "fc", sizes->classes);
    build_cross_entropy(&b, x, "loss");
    return graph->status;
}

static enum ps_status build_50(struct graph *graph, const struct model_options *sizes, struct spec *options,
                               struct ps_error *error) {
    (void)options;
    return build(graph, (const int[]){3, 4, 6, 3}, sizes, error);
}

static enum ps_status build_101(struct graph *graph, const struct model_options *sizes, struct spec *options,
                                struct ps_error *error) {
    (void)options;
    return build(graph, (const int[]){3, 4, 23, 3}, sizes, error);
}

const struct model model_resnet50 = {
    .name = "resnet50",
    .summary = "ResNet-50: residual network of 16 bottleneck blocks",
    .defaults = {.input = 224, .channels = 3, .classes = 1000},
    .build = build_50,
};

const struct model model_resnet101 = {
    .name = "resnet101",
    .summary = "ResNet-101: residual network of 33 bottleneck blocks",
    .defaults = {.input = 224, .channels = 3, .classes = 1000},
    .build = build_101,
};
