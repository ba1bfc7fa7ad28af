/*
 * Inception-v3 (Szegedy, Vanhoucke, Ioffe, Shlens and Wojna, "Rethinking the Inception architecture for computer vision", 2016,
 * table 1 and figures 5 to 7) in torchvision's form, without the auxiliary classifier (aux_logits=False): 23,834,568 parameters
 * for 1000 classes. Images from 75 pixels a side. Parameters are named, and start, as there.
 */
#include <stdio.h>

#include "graph/model.h"

static const float deviation = 0.1f; /* of initial weights */

/* Convolutions that a branch goes through; kernel_h 0 ends it. Padding keeps the size if the stride is 1 and `valid` is not
 * set. */
struct step {
    const char *name;
    int channels, kernel_h, kernel_w, stride;
    bool valid;
};

enum { STEPS_MAX = 6 };

static int build_step(struct builder *b, int x, const char *owner, const struct step *step) {
    char name[48];
    snprintf(name, sizeof name, "%s%s%s", owner, *owner ? "." : "", step->name);
    bool pads = step->stride == 1 && !step->valid;
    struct attributes convolution = {.channels = step->channels,
                                     .kernel_h = step->kernel_h,
                                     .kernel_w = step->kernel_w,
                                     .stride_h = step->stride,
                                     .stride_w = step->stride,
                                     .pad_h = pads ? step->kernel_h / 2 : 0,
                                     .pad_w = pads ? step->kernel_w / 2 : 0};
    return build_inception_unit(b, x, name, convolution, deviation);
}

static int build_branch(struct builder *b, int x, const char *owner, const struct step *steps) {
    for (; steps->kernel_h > 0; steps++) x = build_step(b, x, owner, steps);
    return x;
}

static int build_named_concat(struct builder *b, const int *parts, int count, const char *owner) {
    char name[48];
    snprintf(name, sizeof name, "%s.concat", owner);
    return build_concat(b, parts, count, name);
}

/* The branch that begins with an average pool. */
static int build_pool_branch(struct builder *b, int x, const char *owner, int channels) {
    char name[48];
    snprintf(name, sizeof name, "%s.avgpool", owner);
    x = build_average_pool(b, x, name, 3, 1, 1);
    return build_step(b, x, owner, &(struct step){"branch_pool", channels, 1, 1, 1, false});
}

static int build_pool(struct builder *b, int x, const char *owner) {
    char name[48];
    snprintf(name, sizeof name, "%s.maxpool", owner);
    return build_max_pool(b, x, name, 3, 2, 0);
}

#define BRANCH(...) ((const struct step[STEPS_MAX]){__VA_ARGS__})

/* Figure 5: 35x35. */
static int build_a(struct builder *b, int x, const char *owner, int pool) {
    int direct = build_branch(b, x, owner, BRANCH({"branch1x1", 64, 1, 1, 1, 0}));
    int five = build_branch(b, x, owner, BRANCH({"branch5x5_1", 48, 1, 1, 1, 0}, {"branch5x5_2", 64, 5, 5, 1, 0}));
    int twice = build_branch(
        b, x, owner,
        BRANCH({"branch3x3dbl_1", 64, 1, 1, 1, 0}, {"branch3x3dbl_2", 96, 3, 3, 1, 0}, {"branch3x3dbl_3", 96, 3, 3, 1, 0}));
    int pooled = build_pool_branch(b, x, owner, pool);
    return build_named_concat(b, (const int[]){direct, five, twice, pooled}, 4, owner);
}

/* To 17x17. */
static int build_b(struct builder *b, int x, const char *owner) {
    int three = build_branch(b, x, owner, BRANCH({"branch3x3", 384, 3, 3, 2, 0}));
    int twice = build_branch(
        b, x, owner,
        BRANCH({"branch3x3dbl_1", 64, 1, 1, 1, 0}, {"branch3x3dbl_2", 96, 3, 3, 1, 0}, {"branch3x3dbl_3", 96, 3, 3, 2, 0}));
    return build_named_concat(b, (const int[]){three, twice, build_pool(b, x, owner)}, 3, owner);
}

/* Figure 6: 17x17, with `c` channels inside. */
static int build_c(struct builder *b, int x, const char *owner, int c) {
    int direct = build_branch(b, x, owner, BRANCH({"branch1x1", 192, 1, 1, 1, 0}));
    int seven = build_branch(
        b, x, owner, BRANCH({"branch7x7_1", c, 1, 1, 1, 0}, {"branch7x7_2", c, 1, 7, 1, 0}, {"branch7x7_3", 192, 7, 1, 1, 0}));
    int twice = build_branch(b, x, owner,
                             BRANCH({"branch7x7dbl_1", c, 1, 1, 1, 0}, {"branch7x7dbl_2", c, 7, 1, 1, 0},
                                    {"branch7x7dbl_3", c, 1, 7, 1, 0}, {"branch7x7dbl_4", c, 7, 1, 1, 0},
                                    {"branch7x7dbl_5", 192, 1, 7, 1, 0}));
    int pooled = build_pool_branch(b, x, owner, 192);
    return build_named_concat(b, (const int[]){direct, seven, twice, pooled}, 4, owner);
}

/* To 8x8. */
static int build_d(struct builder *b, int x, const char *owner) {
    int three = build_branch(b, x, owner, BRANCH({"branch3x3_1", 192, 1, 1, 1, 0}, {"branch3x3_2", 320, 3, 3, 2, 0}));
    int seven = build_branch(b, x, owner,
                             BRANCH({"branch7x7x3_1", 192, 1, 1, 1, 0}, {"branch7x7x3_2", 192, 1, 7, 1, 0},
                                    {"branch7x7x3_3", 192, 7, 1, 1, 0}, {"branch7x7x3_4", 192, 3, 3, 2, 0}));
    return build_named_concat(b, (const int[]){three, seven, build_pool(b, x, owner)}, 3, owner);
}

/* Figure 7: 8x8, with the last convolutions side by side. */
static int build_e(struct builder *b, int x, const char *owner) {
    int direct = build_branch(b, x, owner, BRANCH({"branch1x1", 320, 1, 1, 1, 0}));
    int three = build_branch(b, x, owner, BRANCH({"branch3x3_1", 384, 1, 1, 1, 0}));
    int three_a = build_branch(b, three, owner, BRANCH({"branch3x3_2a", 384, 1, 3, 1, 0}));
    int three_b = build_branch(b, three, owner, BRANCH({"branch3x3_2b", 384, 3, 1, 1, 0}));
    int twice = build_branch(b, x, owner, BRANCH({"branch3x3dbl_1", 448, 1, 1, 1, 0}, {"branch3x3dbl_2", 384, 3, 3, 1, 0}));
    int twice_a = build_branch(b, twice, owner, BRANCH({"branch3x3dbl_3a", 384, 1, 3, 1, 0}));
    int twice_b = build_branch(b, twice, owner, BRANCH({"branch3x3dbl_3b", 384, 3, 1, 1, 0}));
    int pooled = build_pool_branch(b, x, owner, 192);
    return build_named_concat(b, (const int[]){direct, three_a, three_b, twice_a, twice_b, pooled}, 6, owner);
}

static int build_stem(struct builder *b, int x) {
    x = build_branch(
        b, x, "",
        BRANCH({"Conv2d_1a_3x3", 32, 3, 3, 2, 0}, {"Conv2d_2a_3x3", 32, 3, 3, 1, true}, {"Conv2d_2b_3x3", 64, 3, 3, 1, 0}));
    x = build_max_pool(b, x, "maxpool1", 3, 2, 0);
    x = build_branch(b, x, "", BRANCH({"Conv2d_3b_1x1", 80, 1, 1, 1, 0}, {"Conv2d_4a_3x3", 192, 3, 3, 1, true}));
    return build_max_pool(b, x, "maxpool2", 3, 2, 0);
}

static enum ps_status build(struct graph *graph, const struct model_options *sizes, struct spec *options,
                            struct ps_error *error) {
    double dropout = 0.5;
    TRY(spec_number(options, "dropout", 0, 0.99, &dropout, error));
    struct builder b = {graph, error};
    int x = build_stem(&b, build_input(&b, sizes->channels, sizes->input, sizes->input));
    x = build_a(&b, x, "Mixed_5b", 32);
    x = build_a(&b, x, "Mixed_5c", 64);
    x = build_a(&b, x, "Mixed_5d", 64);
    x = build_b(&b, x, "Mixed_6a");
    x = build_c(&b, x, "Mixed_6b", 128);
    x = build_c(&b, x, "Mixed_6c", 160);
    x = build_c(&b, x, "Mixed_6d", 160);
    x = build_c(&b, x, "Mixed_6e", 192);
    x = build_d(&b, x, "Mixed_7a");
    x = build_e(&b, x, "Mixed_7b");
    x = build_e(&b, x, "Mixed_7c");
    build_inception_end(&b, x, (float)dropout, sizes->classes, deviation);
    return graph->status;
}

const struct model model_inception_v3 = {
    .name = "inception_v3",
    .summary = "Inception-v3: eleven modules of factorised convolutions, without the auxiliary classifier; from 75 pixels",
    .defaults = {.input = 299, .channels = 3, .classes = 1000},
    .keys = {"dropout", NULL},
    .build = build,
};
