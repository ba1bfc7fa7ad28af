/*
 * VGG-16 and VGG-19 (Simonyan and Zisserman, "Very deep convolutional networks for large-scale image recognition", 2015,
 * configurations D and E). Up to 64 pixels a side their CIFAR form, with a classifier of 512 features (VGG-16: 15,245,130
 * parameters for 32 pixels and 10 classes); above, or with form=imagenet, torchvision's (138,357,544 and 143,667,240 for 224
 * and 1000). Parameters are named, and start, as in torchvision. shrink=N divides all widths by N, for a small network of the
 * same depth; blocks=N keeps the first N of the five blocks that end in a pool, for a shallow one and for images below 32
 * pixels.
 */
#include <stdio.h>

#include "graph/model.h"

/* Output channels of the 3x3 convolutions; 0: a max pool; -1: the end. */
static const int plan_d[] = {64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0, -1};
static const int plan_e[] = {64, 64, 0, 128, 128, 0, 256, 256, 256, 256, 0, 512, 512, 512, 512, 0, 512, 512, 512, 512, 0, -1};

static int build_features(struct builder *b, int x, const int *plan, int blocks, int shrink, bool batch_norm) {
    int number = 0;
    for (int i = 0; plan[i] >= 0 && blocks > 0; i++) {
        char name[32];
        snprintf(name, sizeof name, "features.%d", number++);
        if (plan[i] == 0) {
            x = build_max_pool(b, x, name, 2, 2, 0);
            blocks--;
            continue;
        }
        x = build_convolution(b, x, name, plan[i] / shrink, 3, 1, 1, true);
        build_he_initial(b, x);
        if (batch_norm) {
            snprintf(name, sizeof name, "features.%d", number++);
            x = build_batch_norm(b, x, name);
        }
        snprintf(name, sizeof name, "features.%d", number++);
        x = build_relu(b, x, name);
    }
    return x;
}

static int build_classifier_layer(struct builder *b, int x, int number, int features) {
    char name[32];
    snprintf(name, sizeof name, "classifier.%d", number);
    x = build_linear(b, x, name, features);
    graph_set_initial(b->graph, x, 0, (struct initial){INITIAL_NORMAL, 0.01f});
    graph_set_initial(b->graph, x, 1, (struct initial){INITIAL_CONSTANT, 0});
    return x;
}

static enum ps_status build(struct graph *graph, const int *plan, const struct model_options *sizes, struct spec *options,
                            struct ps_error *error) {
    int batch_norm = 0, shrink = 1, blocks = 5;
    double rate = 0.5;
    bool small;
    TRY(model_form(options, sizes, &small, error));
    TRY(spec_int(options, "batch_norm", 0, 1, &batch_norm, error));
    TRY(spec_int(options, "shrink", 1, 64, &shrink, error));
    TRY(spec_int(options, "blocks", 1, 5, &blocks, error));
    TRY(spec_number(options, "dropout", 0, 0.99, &rate, error));
    struct builder b = {graph, error};
    int features = (small ? 512 : 4096) / shrink;
    float dropout = (float)rate;
    int x = build_input(&b, sizes->channels, sizes->input, sizes->input);
    x = build_features(&b, x, plan, blocks, shrink, batch_norm != 0);
    if (!small) x = build_adaptive_pool(&b, x, "avgpool", 7);
    x = build_flatten(&b, x, "flatten");
    if (small) { /* dropout before the linear layer; in torchvision's network after its ReLU */
        x = build_dropout(&b, x, "classifier.0", dropout);
        x = build_relu(&b, build_classifier_layer(&b, x, 1, features), "classifier.2");
        x = build_dropout(&b, x, "classifier.3", dropout);
        x = build_relu(&b, build_classifier_layer(&b, x, 4, features), "classifier.5");
    } else {
        x = build_relu(&b, build_classifier_layer(&b, x, 0, features), "classifier.1");
        x = build_dropout(&b, x, "classifier.2", dropout);
        x = build_relu(&b, build_classifier_layer(&b, x, 3, features), "classifier.4");
        x = build_dropout(&b, x, "classifier.5", dropout);
    }
    x = build_classifier_layer(&b, x, 6, sizes->classes);
    build_cross_entropy(&b, x, "loss");
    return graph->status;
}

static enum ps_status build_d(struct graph *graph, const struct model_options *sizes, struct spec *options,
                              struct ps_error *error) {
    return build(graph, plan_d, sizes, options, error);
}

static enum ps_status build_e(struct graph *graph, const struct model_options *sizes, struct spec *options,
                              struct ps_error *error) {
    return build(graph, plan_e, sizes, options, error);
}

const struct model model_vgg16 = {
    .name = "vgg16",
    .summary = "VGG-16: thirteen 3x3 convolutions and three linear layers; CIFAR form up to 64 pixels, torchvision's above",
    .defaults = {.input = 32, .channels = 3, .classes = 10},
    .training = {.optimizer = "adam", .lr = 3e-4},
    .keys = {"batch_norm", "blocks", "dropout", "form", "shrink", NULL},
    .build = build_d,
};

const struct model model_vgg19 = {
    .name = "vgg19",
    .summary = "VGG-19: sixteen 3x3 convolutions and three linear layers; CIFAR form up to 64 pixels, torchvision's above",
    .defaults = {.input = 32, .channels = 3, .classes = 10},
    .training = {.optimizer = "adam", .lr = 3e-4},
    .keys = {"batch_norm", "blocks", "dropout", "form", "shrink", NULL},
    .build = build_e,
};
