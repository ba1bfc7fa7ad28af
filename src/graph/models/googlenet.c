/*
 * GoogLeNet (Szegedy et al., "Going deeper with convolutions", 2015, table 1) in torchvision's form: batch normalisation after
 * each convolution instead of local response normalisation, and 3x3 convolutions instead of the paper's 5x5. Without the two
 * auxiliary classifiers (torchvision's aux_logits=False): 6,624,904 parameters for 1000 classes. Parameters are named, and
 * start, as there.
 */
#include <stdio.h>

#include "graph/model.h"

static const float deviation = 0.01f; /* of initial weights */

/* The columns of table 1: #1x1, #3x3 reduce, #3x3, #5x5 reduce, #5x5, pool proj. */
struct module {
    const char *name;
    int direct, reduce3, wide3, reduce5, wide5, pool;
};

static const struct module modules_3[] = {{"inception3a", 64, 96, 128, 16, 32, 32}, {"inception3b", 128, 128, 192, 32, 96, 64}};
static const struct module modules_4[] = {{"inception4a", 192, 96, 208, 16, 48, 64},
                                          {"inception4b", 160, 112, 224, 24, 64, 64},
                                          {"inception4c", 128, 128, 256, 24, 64, 64},
                                          {"inception4d", 112, 144, 288, 32, 64, 64},
                                          {"inception4e", 256, 160, 320, 32, 128, 128}};
static const struct module modules_5[] = {{"inception5a", 256, 160, 320, 32, 128, 128},
                                          {"inception5b", 384, 192, 384, 48, 128, 128}};

static int build_unit(struct builder *b, int x, const char *owner, const char *part, int channels, int kernel) {
    char name[48];
    snprintf(name, sizeof name, "%s.%s", owner, part);
    struct attributes convolution = {
        .channels = channels, .kernel_h = kernel, .kernel_w = kernel, .pad_h = kernel / 2, .pad_w = kernel / 2};
    return build_inception_unit(b, x, name, convolution, deviation);
}

static int build_module(struct builder *b, int input, const struct module *m) {
    char name[48];
    int direct = build_unit(b, input, m->name, "branch1", m->direct, 1);
    int three = build_unit(b, input, m->name, "branch2.0", m->reduce3, 1);
    three = build_unit(b, three, m->name, "branch2.1", m->wide3, 3);
    int five = build_unit(b, input, m->name, "branch3.0", m->reduce5, 1);
    five = build_unit(b, five, m->name, "branch3.1", m->wide5, 3);
    snprintf(name, sizeof name, "%s.branch4.0", m->name);
    int pool = build_max_pool(b, input, name, 3, 1, 1);
    pool = build_unit(b, pool, m->name, "branch4.1", m->pool, 1);
    snprintf(name, sizeof name, "%s.concat", m->name);
    return build_concat(b, (const int[]){direct, three, five, pool}, 4, name);
}

static int build_modules(struct builder *b, int x, const struct module *modules, int count) {
    for (int i = 0; i < count; i++) x = build_module(b, x, &modules[i]);
    return x;
}

static enum ps_status build(struct graph *graph, const struct model_options *sizes, struct spec *options,
                            struct ps_error *error) {
    double dropout = 0.2;
    TRY(spec_number(options, "dropout", 0, 0.99, &dropout, error));
    struct builder b = {graph, error};
    struct attributes stem = {
        .channels = 64, .kernel_h = 7, .kernel_w = 7, .stride_h = 2, .stride_w = 2, .pad_h = 3, .pad_w = 3};
    int x = build_input(&b, sizes->channels, sizes->input, sizes->input);
    x = build_inception_unit(&b, x, "conv1", stem, deviation);
    x = build_max_pool_ceiling(&b, x, "maxpool1", 3, 2);
    x = build_inception_unit(&b, x, "conv2", (struct attributes){.channels = 64, .kernel_h = 1, .kernel_w = 1}, deviation);
    x = build_inception_unit(
        &b, x, "conv3", (struct attributes){.channels = 192, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1}, deviation);
    x = build_max_pool_ceiling(&b, x, "maxpool2", 3, 2);
    x = build_modules(&b, x, modules_3, 2);
    x = build_max_pool_ceiling(&b, x, "maxpool3", 3, 2);
    x = build_modules(&b, x, modules_4, 5);
    x = build_max_pool_ceiling(&b, x, "maxpool4", 2, 2);
    x = build_modules(&b, x, modules_5, 2);
    build_inception_end(&b, x, (float)dropout, sizes->classes, deviation);
    return graph->status;
}

const struct model model_googlenet = {
    .name = "googlenet",
    .summary = "GoogLeNet: nine inception modules with batch normalisation, without auxiliary classifiers",
    .defaults = {.input = 224, .channels = 3, .classes = 1000},
    .keys = {"dropout", NULL},
    .build = build,
};
