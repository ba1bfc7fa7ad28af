/* The builder: shapes, parameters, layers, what runs in place, what crosses each cut, and what it refuses. */
#include <string.h>

#include "graph/model.h"
#include "support.h"
#include "within.h"

static struct builder start(void) {
    struct graph *graph = graph_create();
    assert_non_null(graph);
    return (struct builder){graph, &test_error};
}

static void assert_shape(const struct graph *graph, int node, int rank, int64_t a, int64_t b, int64_t c) {
    const struct shape *shape = &graph->nodes[node].shape;
    assert_int_equal(shape->rank, rank);
    int64_t wanted[3] = {a, b, c};
    for (int d = 0; d < rank; d++) assert_int_equal(shape->dim[d], wanted[d]);
}

static const struct parameter *parameter_of(const struct graph *graph, int node, int number) {
    assert_true(number < graph->nodes[node].parameter_count);
    return &graph->parameters[graph->nodes[node].parameter_first + number];
}

static void test_shapes(void **state) {
    (void)state;
    struct builder b = start();
    int data = build_input(&b, 3, 17, 20);
    int convolution = build_convolution(&b, data, "conv", 8, 3, 2, 1, true);
    assert_shape(b.graph, convolution, 3, 8, 9, 10);
    int pool = build_max_pool(&b, convolution, "pool", 3, 2, 1);
    assert_shape(b.graph, pool, 3, 8, 5, 5);
    int average = build_average_pool(&b, pool, "average", 2, 1, 0);
    assert_shape(b.graph, average, 3, 8, 4, 4);
    int norm = build_batch_norm(&b, average, "norm");
    int both = build_concat(&b, (const int[]){norm, average}, 2, "concat");
    assert_shape(b.graph, both, 3, 16, 4, 4);
    int sum = build_add(&b, both, both, "add");
    int flat = build_flatten(&b, sum, "flatten");
    assert_shape(b.graph, flat, 1, 256, 0, 0);
    assert_int_equal(b.graph->nodes[flat].shape.image[0], 16);
    assert_int_equal(b.graph->nodes[flat].shape.image[2], 4);
    int dropout = build_dropout(&b, flat, "dropout", 0.5f);
    assert_int_equal(b.graph->nodes[dropout].shape.image[0], 16);
    int linear = build_linear(&b, dropout, "linear", 10);
    assert_int_equal(b.graph->nodes[linear].shape.image[0], 0);
    int loss = build_cross_entropy(&b, linear, "loss");
    assert_shape(b.graph, loss, 1, 10, 0, 0);
    assert_ok(graph_finish(b.graph, &test_error));

    const struct parameter *weight = parameter_of(b.graph, convolution, 0), *bias = parameter_of(b.graph, convolution, 1);
    assert_string_equal(weight->name, "conv.weight");
    assert_int_equal(shape_elements(&weight->shape), 8 * 3 * 3 * 3);
    assert_int_equal(weight->shape.rank, 4);
    assert_int_equal(weight->initial.kind, INITIAL_UNIFORM);
    assert_within(weight->initial.value, 1 / 5.196152423f, 1e-6);
    assert_within(bias->initial.value, weight->initial.value, 0);
    assert_within(parameter_of(b.graph, linear, 0)->initial.value, 1.0f / 16, 1e-6);
    assert_string_equal(parameter_of(b.graph, norm, 3)->name, "norm.running_var");
    assert_int_equal(parameter_of(b.graph, norm, 3)->role, PARAMETER_STATISTIC);
    assert_int_equal(parameter_of(b.graph, norm, 1)->role, PARAMETER_TRAINED);
    assert_within(b.graph->nodes[norm].attributes.epsilon, 1e-5f, 1e-9);
    graph_destroy(b.graph);
}

/* One window where all of PyTorch's windows are alike, and the operator of windows that differ elsewhere. */
static void test_adaptive_pools(void **state) {
    (void)state;
    static const struct {
        int height, width, side, kernel, stride; /* kernel 0: windows that differ; -1: none */
    } cases[] = {{6, 6, 3, 2, 2}, {7, 7, 3, 3, 2}, {8, 8, 3, 0, 0}, {6, 6, 6, -1, 0}, {7, 7, 6, 2, 1}, {2, 2, 4, 0, 0},
                 {6, 9, 3, 0, 0}, {9, 6, 3, 0, 0}, {6, 9, 6, 0, 0}, {9, 6, 6, 0, 0},  {5, 5, 1, 5, 5}, {5, 1, 1, 0, 0}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct builder b = start();
        const int data = build_input(&b, 3, cases[c].height, cases[c].width);
        const int pool = build_adaptive_pool(&b, data, "pool", cases[c].side);
        const int whole = build_global_pool(&b, data, "whole");
        const struct node *node = &b.graph->nodes[pool];
        assert_shape(b.graph, pool, 3, 3, cases[c].side, cases[c].side);
        assert_shape(b.graph, whole, 3, 3, 1, 1);
        assert_int_equal(b.graph->nodes[whole].attributes.kernel_h, cases[c].height);
        assert_int_equal(b.graph->nodes[whole].attributes.kernel_w, cases[c].width);
        assert_int_equal(pool == data, cases[c].kernel < 0);
        if (cases[c].kernel >= 0) {
            assert_int_equal(node->id, OPERATOR_AVERAGE_POOL);
            assert_int_equal(node->attributes.out_h, cases[c].kernel == 0 ? cases[c].side : 0);
        }
        if (cases[c].kernel > 0) {
            assert_int_equal(node->attributes.kernel_h, cases[c].kernel);
            assert_int_equal(node->attributes.stride_h, cases[c].stride);
        }
        graph_destroy(b.graph);
    }
}

/* A convolution whose channels are in groups has 1 / groups of the weights. */
static void test_groups(void **state) {
    (void)state;
    struct builder b = start();
    int data = build_input(&b, 4, 8, 8);
    struct attributes attributes = {.channels = 6, .kernel_h = 3, .kernel_w = 1, .groups = 2};
    int node = graph_add(b.graph, OPERATOR_CONVOLUTION, "conv", &attributes, &data, 1, &test_error);
    assert_shape(b.graph, node, 3, 6, 6, 8);
    assert_int_equal(b.graph->nodes[node].parameter_count, 1);
    assert_int_equal(shape_elements(&parameter_of(b.graph, node, 0)->shape), 6 * 2 * 3 * 1);
    attributes.groups = 6;
    attributes.kernel_h = 1;
    node = graph_add(b.graph, OPERATOR_CONVOLUTION, "depthwise", &attributes, &node, 1, &test_error);
    assert_int_equal(shape_elements(&parameter_of(b.graph, node, 0)->shape), 6);
    graph_destroy(b.graph);
}

static void test_layers_and_memory(void **state) {
    (void)state;
    struct builder b = start();
    int x = build_input(&b, 1, 8, 8);
    int conv = build_convolution(&b, x, "conv", 4, 3, 1, 1, true);
    int norm = build_batch_norm(&b, conv, "norm");
    int relu = build_relu(&b, norm, "relu");
    int pool = build_max_pool(&b, relu, "pool", 2, 2, 0);
    int flat = build_flatten(&b, pool, "flatten");
    int drop = build_dropout(&b, flat, "drop", 0.5f);
    int fc1 = build_linear(&b, drop, "fc1", 12);
    int relu2 = build_relu(&b, fc1, "relu2");
    int drop2 = build_dropout(&b, relu2, "drop2", 0.5f);
    int fc2 = build_linear(&b, drop2, "fc2", 3);
    int loss = build_cross_entropy(&b, fc2, "loss");
    assert_ok(graph_finish(b.graph, &test_error));
    const struct graph *g = b.graph;

    assert_int_equal(g->layer_count, 4);
    const char *names[] = {"conv", "pool", "fc1", "fc2"}, *kinds[] = {"convolution", "max_pool", "linear", "linear"};
    int counts[] = {3, 3, 3, 2};
    for (int l = 0; l < 4; l++) {
        assert_string_equal(g->layers[l].name, names[l]);
        assert_string_equal(g->layers[l].kind, kinds[l]);
        assert_int_equal(g->layers[l].node_count, counts[l]);
    }
    assert_int_equal(g->nodes[x].layer, -1);
    assert_int_equal(g->nodes[loss].layer, 3);

    assert_int_equal(g->nodes[norm].root, norm); /* its backward reads its input */
    assert_int_equal(g->nodes[relu].root, norm);
    assert_int_equal(g->nodes[flat].root, pool);
    assert_int_equal(g->nodes[drop].root, pool);
    assert_int_equal(g->nodes[relu2].root, fc1);
    assert_int_equal(g->nodes[drop2].root, fc1); /* keeps the signs that the ReLU's backward reads */
    assert_int_equal(g->nodes[loss].root, loss);

    assert_true(graph_output_kept_by_own_layer(g, conv)); /* the normalisation's input */
    assert_true(graph_output_kept_by_own_layer(g, norm)); /* the ReLU's output */
    assert_false(graph_output_kept_by_own_layer(g, pool));
    assert_true(graph_output_kept_by_own_layer(g, fc1));
    assert_false(graph_output_kept_by_own_layer(g, fc2)); /* logits */
    assert_true(graph_output_kept_by_own_layer(g, loss));

    int crossing[] = {x, norm, pool, fc1};
    for (int c = 0; c < 4; c++) {
        assert_int_equal(graph_cut_count(g, c), 1);
        assert_int_equal(graph_cut_values(g, c)[0], crossing[c]);
    }
    assert_int_equal(graph_cut_count(g, 4), 0);
    assert_int_equal(graph_cut_bytes(g, 0), 4 * 64);
    assert_int_equal(graph_cut_bytes(g, 1), 4 * 4 * 64);
    assert_int_equal(graph_cut_bytes(g, 2), 4 * 4 * 16);
    assert_int_equal(graph_cut_bytes(g, 4), 0);
    graph_destroy(b.graph);
}

/* Where somebody else reads the value, in another layer, or where it is the data, nothing is written over. */
static void test_not_in_place(void **state) {
    (void)state;
    struct builder b = start();
    int x = build_input(&b, 2, 4, 4);
    int on_data = build_relu(&b, x, "on_data"); /* begins a layer: there is none before */
    int conv = build_convolution(&b, on_data, "conv", 2, 3, 1, 1, true);
    int shared = build_relu(&b, conv, "shared"); /* conv is read again below */
    int jump = build_relu(&b, conv, "jump");     /* goes on from further back: a layer of its own */
    int sum = build_add(&b, shared, jump, "sum");
    int after = build_relu(&b, sum, "after");
    int flat = build_flatten(&b, after, "flatten");
    build_cross_entropy(&b, build_linear(&b, flat, "fc", 2), "loss");
    assert_ok(graph_finish(b.graph, &test_error));
    const struct graph *g = b.graph;
    assert_int_equal(g->nodes[on_data].layer, 0);
    assert_int_equal(g->nodes[on_data].root, on_data);
    assert_int_equal(g->nodes[shared].layer, g->nodes[conv].layer);
    assert_int_equal(g->nodes[shared].root, shared);
    assert_int_equal(g->nodes[jump].layer, g->nodes[conv].layer + 1);
    assert_int_equal(g->nodes[jump].root, jump);
    assert_int_equal(g->nodes[after].root, sum);
    int cut = g->nodes[jump].layer;
    assert_int_equal(graph_cut_count(g, cut), 2);
    assert_int_equal(graph_cut_values(g, cut)[0], conv);
    assert_int_equal(graph_cut_values(g, cut)[1], shared);
    assert_int_equal(graph_cut_count(g, cut + 1), 2);
    assert_int_equal(graph_cut_values(g, cut + 1)[1], jump);
    graph_destroy(b.graph);
}

/* A value from an earlier layer is not written over either, even where nobody else reads it: it came across a cut. */
static void test_not_across_layers(void **state) {
    (void)state;
    struct builder b = start();
    int x = build_input(&b, 2, 4, 4);
    int one = build_convolution(&b, x, "one", 2, 1, 1, 0, true);
    int two = build_convolution(&b, x, "two", 2, 1, 1, 0, true);
    int three = build_convolution(&b, x, "three", 2, 1, 1, 0, true);
    int late = build_relu(&b, one, "late");
    int flat = build_flatten(&b, two, "flatten");
    int drop = build_dropout(&b, flat, "drop", 0.5f);
    int sum = build_add(&b, late, three, "sum");
    int flat2 = build_flatten(&b, sum, "flatten2");
    build_cross_entropy(
        &b,
        build_linear(
            &b, build_concat(&b, (const int[]){build_linear(&b, flat2, "fc", 3), build_linear(&b, drop, "fc2", 3)}, 2, "both"),
            "fc3", 2),
        "loss");
    assert_ok(graph_finish(b.graph, &test_error));
    const struct graph *g = b.graph;
    assert_int_equal(g->nodes[late].root, late);
    assert_int_equal(g->nodes[flat].root, two);
    assert_int_equal(g->nodes[drop].layer, g->nodes[flat].layer);
    assert_int_equal(g->nodes[drop].root, drop);
    graph_destroy(b.graph);
}

/* A long chain that runs in place: the time grows with its length, not with the square (minutes). */
static void test_long_chain_in_place(void **state) {
    (void)state;
    enum { LENGTH = 300000 };
    struct builder b = {graph_create(), &test_error};
    int x = build_linear(&b, build_input(&b, 4, 0, 0), "fc", 4);
    char name[16];
    for (int i = 0; i < LENGTH; i++) {
        snprintf(name, sizeof name, "r%d", i);
        x = build_relu(&b, x, name);
    }
    assert_ok(graph_finish(b.graph, &test_error));
    assert_int_equal(b.graph->nodes[x].root, 1);
    graph_destroy(b.graph);
}

/* A network known by its costs alone: a chain of opaque layers. */
static void test_opaque_chain(void **state) {
    (void)state;
    struct graph *graph = graph_create();
    struct attributes data = {.value_bytes = 640};
    int node = graph_add(graph, OPERATOR_INPUT, "data", &data, NULL, 0, &test_error);
    char name[16] = "layer0";
    for (int l = 0; l < 4; l++) {
        name[5] = (char)('0' + l);
        struct attributes layer = {.time.forward_s = 1e-3, .value_bytes = l < 3 ? 100 + l : 0, .parameter_bytes = 7 * l};
        node = graph_add(graph, OPERATOR_OPAQUE, name, &layer, &node, 1, &test_error);
    }
    assert_ok(graph_finish(graph, &test_error));
    assert_int_equal(graph->layer_count, 4);
    assert_int_equal(graph_cut_bytes(graph, 0), 640);
    int64_t wanted[] = {640, 100, 104, 104, 0}; /* in whole floats */
    for (int c = 0; c <= 4; c++) assert_int_equal(graph_cut_bytes(graph, c), wanted[c]);
    assert_int_equal(graph->nodes[1].parameter_count, 0);
    assert_int_equal(shape_elements(&parameter_of(graph, 4, 0)->shape), 6);
    graph_destroy(graph);

    graph = graph_create(); /* the data may be opaque too */
    node = graph_add(graph, OPERATOR_INPUT, "data", &data, NULL, 0, &test_error);
    graph_add(graph, OPERATOR_OPAQUE, "layer", NULL, &node, 1, &test_error);
    assert_ok(graph_finish(graph, &test_error));
    assert_int_equal(graph->layer_count, 1);
    assert_int_equal(graph_cut_bytes(graph, 0), 640);
    graph_destroy(graph);
}

/* ------------------------------------------------------------------ errors */

typedef int build_wrong(struct builder *b, int data);

static int too_small(struct builder *b, int data) { return build_convolution(b, data, "wrong", 4, 9, 1, 0, true); }
static int no_stride(struct builder *b, int data) { return build_convolution(b, data, "wrong", 4, 3, -1, 0, true); }
static int no_channels(struct builder *b, int data) { return build_convolution(b, data, "wrong", 0, 3, 1, 0, true); }
static int wide_padding(struct builder *b, int data) { return build_max_pool(b, data, "wrong", 2, 2, 2); }
static int image_into_linear(struct builder *b, int data) { return build_linear(b, data, "wrong", 4); }
static int image_into_loss(struct builder *b, int data) {
    return build_cross_entropy(b, build_flatten(b, data, "flatten"), "wrong");
}
static int vector_into_pool(struct builder *b, int data) {
    return build_max_pool(b, build_flatten(b, data, "flatten"), "wrong", 2, 2, 0);
}
static int unlike_shapes(struct builder *b, int data) {
    return build_add(b, data, build_max_pool(b, data, "pool", 2, 2, 0), "wrong");
}
static int unlike_sides(struct builder *b, int data) {
    return build_concat(b, (const int[]){data, build_max_pool(b, data, "pool", 2, 2, 0)}, 2, "wrong");
}
static int flattened_norm(struct builder *b, int data) {
    return build_batch_norm(b, build_flatten(b, data, "flatten"), "wrong");
}
static int flattened_concat(struct builder *b, int data) {
    int flat = build_flatten(b, data, "flatten");
    return build_concat(b, (const int[]){flat, flat}, 2, "wrong");
}
static int flattened_otherwise(struct builder *b, int data) {
    int flat = build_flatten(b, data, "flatten");
    return build_add(b, flat, build_linear(b, flat, "fc", 192), "wrong");
}
static int rate_of_one(struct builder *b, int data) { return build_dropout(b, data, "wrong", 1); }
static int groups(struct builder *b, int data) {
    struct attributes attributes = {.channels = 4, .kernel_h = 1, .kernel_w = 1, .groups = 2};
    return graph_add(b->graph, OPERATOR_CONVOLUTION, "wrong", &attributes, &data, 1, b->error);
}
static int one_input(struct builder *b, int data) {
    return graph_add(b->graph, OPERATOR_ADD, "wrong", NULL, &data, 1, b->error);
}
static int no_inputs(struct builder *b, int data) {
    (void)data;
    return graph_add(b->graph, OPERATOR_OPAQUE, "wrong", NULL, NULL, 0, b->error);
}
static int late_data(struct builder *b, int data) {
    const struct attributes attributes = {.sides = {1, {3}}};
    build_relu(b, data, "relu1");
    return graph_add(b->graph, OPERATOR_INPUT, "wrong", &attributes, NULL, 0, b->error);
}
static int huge(struct builder *b, int data) {
    struct attributes attributes = {.channels = 2000000000, .kernel_h = 1, .kernel_w = 1, .pad_h = 30000, .pad_w = 30000};
    return graph_add(b->graph, OPERATOR_CONVOLUTION, "wrong", &attributes, &data, 1, b->error);
}
static int huge_weights(struct builder *b, int data) {
    return build_linear(b, build_linear(b, build_flatten(b, data, "flatten"), "fc", 2000000), "wrong", 2000000);
}
static int negative_time(struct builder *b, int data) {
    struct attributes attributes = {.time.forward_s = -1};
    return graph_add(b->graph, OPERATOR_OPAQUE, "wrong", &attributes, &data, 1, b->error);
}
static int smoothing(struct builder *b, int data) {
    struct attributes attributes = {.smoothing = 1};
    int fc = build_linear(b, build_flatten(b, data, "flatten"), "fc", 4);
    return graph_add(b->graph, OPERATOR_CROSS_ENTROPY, "wrong", &attributes, &fc, 1, b->error);
}

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        build_wrong *build;
        const char *message;
    } cases[] = {
        {too_small, "a kernel of 9x9 with padding 0x0 does not fit into its input of 3x8x8"},
        {no_stride, "kernel 3, stride -1"},
        {no_channels, "0 output channels"},
        {wide_padding, "covers padding only"},
        {image_into_linear, "flatten it before"},
        {image_into_loss, "put a linear layer between"},
        {vector_into_pool, "must be an image"},
        {unlike_shapes, "3x8x8 and 3x4x4"},
        {unlike_sides, "3x8x8 and 3x4x4"},
        {flattened_norm, "normalise before flattening"},
        {flattened_concat, "concatenate before flattening"},
        {flattened_otherwise, "add before flattening"},
        {rate_of_one, "rate 1 must be"},
        {groups, "2 groups do not divide 3 input and 4 output channels"},
        {one_input, "1 inputs: from 2 to 64"},
        {no_inputs, "node 'wrong' (opaque): 0 inputs: from 1 to 64 are accepted"},
        {late_data, "must stand before the nodes that read them"},
        {huge, "output would have more than"},
        {huge_weights, "weight would have more than"},
        {negative_time, "must not be negative"},
        {smoothing, "label smoothing 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct builder b = start();
        int data = build_input(&b, 3, 8, 8);
        assert_int_equal(cases[i].build(&b, data), -1);
        assert_non_null(strstr(test_error.message, "node 'wrong'"));
        /* What follows does nothing, and the end tells. */
        assert_int_equal(build_relu(&b, -1, "relu"), -1);
        assert_status(graph_finish(b.graph, &test_error), PS_USAGE, cases[i].message);
        graph_destroy(b.graph);
    }
}

static void test_unfinished(void **state) {
    (void)state;
    struct builder b = start();
    assert_status(graph_finish(b.graph, &test_error), PS_USAGE, "at least one node");
    graph_destroy(b.graph);

    b = start();
    build_relu(&b, build_relu(&b, build_relu(&b, build_input(&b, 1, 4, 4), "twice"), "once"), "twice");
    assert_status(graph_finish(b.graph, &test_error), PS_USAGE, "node 'twice': two have this name");
    graph_destroy(b.graph);

    b = start();
    build_input(&b, 1, 4, 4);
    assert_status(graph_finish(b.graph, &test_error), PS_USAGE, "at least one node");
    graph_destroy(b.graph);

    b = start();
    int data = build_input(&b, 1, 4, 4);
    build_relu(&b, data, "lost");
    build_relu(&b, data, "end");
    assert_status(graph_finish(b.graph, &test_error), PS_USAGE, "node 'lost' (relu): no node reads its output");
    graph_destroy(b.graph);

    b = start();
    int fc = build_linear(&b, build_flatten(&b, build_input(&b, 1, 4, 4), "flatten"), "fc", 3);
    build_relu(&b, build_cross_entropy(&b, fc, "loss"), "after");
    assert_status(graph_finish(b.graph, &test_error), PS_USAGE, "node 'loss' (cross_entropy): a loss must be the last node");
    graph_destroy(b.graph);
    graph_destroy(NULL);
}

/* What single operators say of attributes and inputs that cannot be. */
static void test_refused_attributes(void **state) {
    (void)state;
    static const struct {
        enum operator_id id;
        struct attributes attributes;
        int channels, height, width;
        const char *message;
    } cases[] = {
        {OPERATOR_CONVOLUTION, {.channels = 4, .kernel_h = 3, .kernel_w = 3, .dims = 1}, 3, 8, 8, "it must be 1 wide"},
        {OPERATOR_CONVOLUTION,
         {.channels = 4, .kernel_h = 1, .kernel_w = 1, .pad_extra_h = -1},
         3,
         8,
         8,
         "0 before and -1 after"},
        {OPERATOR_CONVOLUTION,
         {.channels = 4, .kernel_h = 3, .kernel_w = 3, .dilation_h = 4, .dilation_w = 3},
         3,
         8,
         8,
         "a kernel of 9x7"},
        {OPERATOR_DECONVOLUTION,
         {.channels = 4, .kernel_h = 3, .kernel_w = 3, .stride_h = 2, .output_pad_w = 1},
         3,
         8,
         8,
         "output_pad 0x1: it must be below the stride of 2x1"},
        {OPERATOR_DECONVOLUTION,
         {.channels = 4, .kernel_h = 1, .kernel_w = 1, .pad_h = 4, .pad_w = 1},
         3,
         8,
         8,
         "padding 4x1 leaves nothing"},
        {OPERATOR_ATTENTION, {.heads = 4, .key_heads = 3}, 30, 8, 1, "4 heads of queries cannot share 3 of keys"},
        {OPERATOR_ATTENTION, {.heads = 2, .key_heads = 1}, 30, 8, 1, "of 2, 1 and 1 heads side by side"},
        {OPERATOR_GROUP_NORM, {.groups = 2}, 3, 8, 8, "2 groups do not share 3 channels"},
        {OPERATOR_LAYER_NORM, {.bias = true}, 3, 8, 8, "a bias, but no weight"},
        {OPERATOR_ROTARY, {.heads = 2}, 6, 8, 1, "an even number up to 3"},
        {OPERATOR_RESIZE, {.out_h = 4}, 3, 8, 8, "at least one pixel"},
        {OPERATOR_PAD, {.mode = PAD_REFLECT, .before = {2, {0, 8}}}, 3, 8, 8, "reflect: 8 elements beside dimension 1 of 8"},
        {OPERATOR_PAD, {.mode = PAD_EDGE, .after = {1, {-1}}}, 3, 8, 8, "edge takes no elements away"},
        {OPERATOR_PAD, {.before = {4, {0}}}, 3, 8, 8, "before and after have 4 and 0 numbers"},
        {OPERATOR_PAD, {.before = {3, {0, 0, -8}}}, 3, 8, 8, "leave nothing of dimension 2 of 8"},
        {OPERATOR_GRU, {0}, 3, 8, 1, "a hidden size of 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct builder b = start();
        int data = build_input(&b, cases[i].channels, cases[i].height, cases[i].width);
        assert_int_equal(graph_add(b.graph, cases[i].id, "wrong", &cases[i].attributes, &data, 1, b.error), -1);
        assert_status(graph_finish(b.graph, &test_error), PS_USAGE, cases[i].message);
        graph_destroy(b.graph);
    }
}

/* A mask that does not fit, and cosines without sines. */
static void test_refused_inputs(void **state) {
    (void)state;
    struct builder b = start();
    struct attributes sides = {.sides = {3, {5, 1, 3}}}, heads = {.heads = 2};
    int inputs[] = {build_input(&b, 12, 8, 1), graph_add(b.graph, OPERATOR_INPUT, "other", &sides, NULL, 0, b.error)};
    assert_int_equal(graph_add(b.graph, OPERATOR_ATTENTION, "wrong", &heads, inputs, 2, b.error), -1);
    assert_non_null(strstr(test_error.message, "1x8x1, or 8x2x8 or with 1 in place of the last sides, and is 5x1x3"));
    graph_destroy(b.graph);
    b = start();
    inputs[0] = build_input(&b, 12, 8, 1);
    inputs[1] = graph_add(b.graph, OPERATOR_INPUT, "other", &sides, NULL, 0, b.error);
    assert_int_equal(graph_add(b.graph, OPERATOR_ROTARY, "wrong", &heads, inputs, 2, b.error), -1);
    assert_non_null(strstr(test_error.message, "cosines need sines"));
    graph_destroy(b.graph);
}

/* Values that are moved keep their type, and who cannot take one refuses it by name. */
static void test_types(void **state) {
    (void)state;
    struct builder b = start();
    int tokens = build_tokens(&b, 6), first = build_slice(&b, tokens, "first", 0, 4);
    int both = build_concat(&b, (const int[]){first, first}, 2, "both"), one = build_slice(&b, tokens, "one", 4, 2);
    int vectors = build_embedding(&b, one, "vectors", 1 << 25, 3);
    assert_int_equal(b.graph->status, PS_OK);
    const struct node *nodes = b.graph->nodes;
    assert_int_equal(nodes[tokens].shape.type, TYPE_I32);
    assert_int_equal(nodes[first].shape.type, TYPE_I32);
    assert_int_equal(nodes[both].shape.type, TYPE_I32);
    assert_int_equal(nodes[vectors].shape.type, TYPE_F32);
    assert_true(nodes[both].data && !nodes[vectors].data);
    assert_int_equal(shape_bytes(&nodes[both].shape), 2 * 4 * 4);
    assert_int_equal(graph_value_bytes(b.graph, vectors), 3 * 2 * 4);
    build_linear(&b, first, "fc", 3);
    assert_status(b.graph->status, PS_USAGE, "node 'fc' (linear): its input 'first' is i32: f32 is accepted");
    graph_destroy(b.graph);

    b = start();
    build_embedding(&b, build_input(&b, 1, 6, 1), "vectors", 5, 3);
    assert_status(b.graph->status, PS_USAGE, "node 'vectors' (embedding): its input 'data' is f32: i32 is accepted");
    graph_destroy(b.graph);

    b = start();
    tokens = build_tokens(&b, 6);
    vectors = build_embedding(&b, tokens, "vectors", 5, 1);
    build_lstm_padded(&b, vectors, vectors, "lstm", 4, false);
    assert_status(b.graph->status, PS_USAGE, "node 'lstm' (lstm): its input 'vectors' is f32: i32 is accepted");
    graph_destroy(b.graph);

    b = start();
    tokens = build_tokens(&b, 6);
    build_concat(&b, (const int[]){tokens, build_embedding(&b, tokens, "vectors", 5, 1)}, 2, "both");
    assert_status(b.graph->status, PS_USAGE, "node 'both' (concat): its inputs must have one type, and are i32 and f32");
    graph_destroy(b.graph);

    b = start();
    struct attributes half = {.sides = {1, {3}}, .type = TYPE_BF16};
    graph_add(b.graph, OPERATOR_INPUT, "data", &half, NULL, 0, &test_error);
    assert_status(b.graph->status, PS_USAGE, "node 'data' (input): data of the type bf16: f32 and i32 are accepted");
    graph_destroy(b.graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_adaptive_pools),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_layers_and_memory),
        cmocka_unit_test(test_not_in_place),
        cmocka_unit_test(test_not_across_layers),
        cmocka_unit_test(test_long_chain_in_place),
        cmocka_unit_test(test_opaque_chain),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_refused_attributes),
        cmocka_unit_test(test_refused_inputs),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_unfinished),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
