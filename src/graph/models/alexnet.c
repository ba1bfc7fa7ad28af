/*
 * AlexNet (Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014). Up to 64 pixels a side its
 * CIFAR form: 3x3 convolutions and three halvings; above, or with form=imagenet, torchvision's, with 224 pixels and 1000
 * classes 61,100,840 parameters. Parameters are named as in torchvision. lrn=1 adds local response normalisation after the
 * first two ReLUs, as in the network of 2012.
 */
#include <stdio.h>

#include "graph/model.h"

struct step {
    int channels, kernel, stride, pad; /* a convolution with its ReLU; channels 0: a max pool */
};

static const struct step small_form[] = {{64, 3, 2, 1},  {0, 2, 2, 0},   {192, 3, 1, 1}, {0, 2, 2, 0},
                                         {384, 3, 1, 1}, {256, 3, 1, 1}, {256, 3, 1, 1}, {0, 2, 2, 0}};
static const struct step large_form[] = {{64, 11, 4, 2}, {0, 3, 2, 0},   {192, 5, 1, 2}, {0, 3, 2, 0},
                                         {384, 3, 1, 1}, {256, 3, 1, 1}, {256, 3, 1, 1}, {0, 3, 2, 0}};

static int build_features(struct builder *b, int x, const struct step *steps, int count, bool normalise) {
    int number = 0, convolutions = 0;
    for (int i = 0; i < count; i++) {
        const struct step *step = &steps[i];
        char name[32];
        snprintf(name, sizeof name, "features.%d", number++);
        if (step->channels == 0) {
            x = build_max_pool(b, x, name, step->kernel, step->stride, step->pad);
            continue;
        }
        x = build_convolution(b, x, name, step->channels, step->kernel, step->stride, step->pad, true);
        snprintf(name, sizeof name, "features.%d", number++);
        x = build_relu(b, x, name);
        snprintf(name, sizeof name, "norm%d", ++convolutions);
        if (normalise && convolutions <= 2) x = build_local_response_norm(b, x, name);
    }
    return x;
}

static enum ps_status build(struct graph *graph, const struct model_options *sizes, struct spec *options,
                            struct ps_error *error) {
    double dropout = 0.5;
    int lrn = 0;
    bool small;
    TRY(model_form(options, sizes, &small, error));
    TRY(spec_int(options, "lrn", 0, 1, &lrn, error));
    TRY(spec_number(options, "dropout", 0, 0.99, &dropout, error));
    struct builder b = {graph, error};
    int x = build_input(&b, sizes->channels, sizes->input, sizes->input);
    x = build_features(&b, x, small ? small_form : large_form, (int)(sizeof small_form / sizeof *small_form), lrn != 0);
    if (!small) x = build_adaptive_pool(&b, x, "avgpool", 6);
    x = build_flatten(&b, x, "flatten");
    x = build_dropout(&b, x, "classifier.0", (float)dropout);
    x = build_linear(&b, x, "classifier.1", 4096);
    x = build_relu(&b, x, "classifier.2");
    x = build_dropout(&b, x, "classifier.3", (float)dropout);
    x = build_linear(&b, x, "classifier.4", 4096);
    x = build_relu(&b, x, "classifier.5");
    x = build_linear(&b, x, "classifier.6", sizes->classes);
    build_cross_entropy(&b, x, "loss");
    return graph->status;
}

const struct model model_alexnet = {
    .name = "alexnet",
    .summary = "AlexNet: five convolutions and three linear layers; CIFAR form up to 64 pixels, torchvision's above",
    .defaults = {.input = 32, .channels = 3, .classes = 10},
    .training = {.optimizer = "adam", .lr = 3e-4},
    .keys = {"dropout", "form", "lrn", NULL},
    .build = build,
};
