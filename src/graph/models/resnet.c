/*
 * Residual network in the form for CIFAR (He, Zhang, Ren and Sun, "Deep residual learning for image recognition", 2016, section
 * 4.2): three groups of `blocks` basic blocks with 16, 32 and 64 channels; 6 * blocks + 2 weighted layers. Where the shape
 * changes the shortcut is a 1x1 convolution (the paper's option B; for CIFAR the paper took A, which has no parameters).
 * Parameters are named, and convolutions start, as in torchvision.
 */
#include <stdio.h>

#include "graph/model.h"

struct block {
    int group, number, channels, stride;
    bool project;
};

/* "layer1.0.conv1" */
static const char *name_in(const struct block *block, const char *name, char text[48]) {
    snprintf(text, 48, "layer%d.%d.%s", block->group, block->number, name);
    return text;
}

static int build_block(struct builder *b, int input, const struct block *block) {
    char first[48], second[48];
    int x = build_normalised_convolution(b, input, name_in(block, "conv1", first), name_in(block, "bn1", second),
                                         block->channels, 3, block->stride);
    x = build_relu(b, x, name_in(block, "relu1", first));
    x = build_normalised_convolution(b, x, name_in(block, "conv2", first), name_in(block, "bn2", second), block->channels, 3,
                                     1);
    int shortcut = input;
    if (block->project) {
        shortcut = build_normalised_convolution(b, input, name_in(block, "downsample.0", first),
                                                name_in(block, "downsample.1", second), block->channels, 1, block->stride);
    }
    x = build_add(b, x, shortcut, name_in(block, "add", first));
    return build_relu(b, x, name_in(block, "relu2", first));
}

static enum ps_status build(struct graph *graph, const struct model_options *sizes, struct spec *options,
                            struct ps_error *error) {
    int blocks = 1;
    TRY(spec_int(options, "blocks", 1, 1000, &blocks, error));
    struct builder b = {graph, error};
    int x = build_input(&b, sizes->channels, sizes->input, sizes->input);
    x = build_relu(&b, build_normalised_convolution(&b, x, "conv1", "bn1", 16, 3, 1), "relu");
    for (int group = 1; group <= 3; group++) {
        for (int number = 0; number < blocks; number++) {
            bool project = group > 1 && number == 0;
            struct block block = {group, number, 8 << group, project ? 2 : 1, project};
            x = build_block(&b, x, &block);
        }
    }
    x = build_global_pool(&b, x, "avgpool");
    x = build_flatten(&b, x, "flatten");
    x = build_linear(&b, x, "fc", sizes->classes);
    build_cross_entropy(&b, x, "loss");
    return graph->status;
}

const struct model model_resnet = {
    .name = "resnet",
    .summary = "residual network for CIFAR: three groups of `blocks` blocks (1: 8 weighted layers, 3: ResNet-20, 9: ResNet-56)",
    .defaults = {.input = 32, .channels = 3, .classes = 10},
    .keys = {"blocks", NULL},
    .build = build,
};
