/*
 * What is particular to the cpu device: every way in which it computes (small images by taps, several blocks of rows, one or
 * more threads) against the reference device, the same bits at every run, and padding that stays zero.
 */
#include <float.h>
#include <math.h>

#include "chain.h"
#include "graph/model.h"

/* ---------------------------------------------------------------- networks */

static int convolution(struct builder *b, int x, const char *name, int channels, int height, int width, int pad_h, int pad_w) {
    struct attributes a = {
        .channels = channels, .kernel_h = height, .kernel_w = width, .pad_h = pad_h, .pad_w = pad_w, .bias = true};
    return graph_add(b->graph, OPERATOR_CONVOLUTION, name, &a, &x, 1, b->error);
}

static void finish_network(struct builder *b, int x) {
    x = build_linear(b, build_flatten(b, x, "flatten"), "fc", 10);
    build_cross_entropy(b, x, "loss");
}

/* Many channels on 4x4 pixels and less, kernels of all forms, some reaching over the whole image. */
static void build_small_images(struct builder *b) {
    int x = build_input(b, 70, 4, 4);
    x = build_relu(b, convolution(b, x, "square", 64, 3, 3, 1, 1), "relu1");
    x = convolution(b, x, "unpadded", 80, 2, 1, 0, 0);
    x = build_relu(b, convolution(b, x, "uneven", 65, 2, 3, 1, 0), "relu2");
    x = convolution(b, x, "wide", 64, 5, 5, 2, 3);
    x = build_max_pool(b, x, "pool", 4, 4, 0);
    x = convolution(b, x, "point", 96, 3, 3, 1, 1);
    finish_network(b, x);
}

/* Enough rows for several blocks a thread; odd numbers of channels. */
static void build_normalised(struct builder *b) {
    int x = build_input(b, 3, 30, 30);
    x = build_convolution(b, x, "conv1", 37, 3, 1, 1, false);
    x = build_relu(b, build_batch_norm(b, x, "norm1"), "relu1");
    int shortcut = build_max_pool(b, x, "pool", 2, 2, 0);
    x = build_convolution(b, shortcut, "conv2", 37, 3, 1, 1, true);
    x = build_batch_norm(b, x, "norm2");
    x = build_relu(b, build_add(b, x, shortcut, "add"), "relu2");
    x = build_concat(b, (const int[]){x, shortcut}, 2, "concat");
    x = build_average_pool(b, x, "average", 3, 2, 1);
    finish_network(b, build_dropout(b, x, "dropout", 0.3f));
}

/* Few channels and large images: blocks are padded. */
static void build_padded(struct builder *b) {
    int x = build_input(b, 1, 24, 20);
    x = build_relu(b, build_convolution(b, x, "conv1", 6, 5, 1, 2, true), "relu1");
    x = build_max_pool(b, x, "pool1", 2, 2, 0);
    x = build_relu(b, build_convolution(b, x, "conv2", 17, 5, 2, 0, true), "relu2");
    x = build_relu(b, build_linear(b, build_flatten(b, x, "flatten1"), "fc1", 33), "relu3");
    build_cross_entropy(b, build_linear(b, x, "fc2", 10), "loss");
}

/* Tokens: enough rows and words for several parts a thread. */
static void build_sequence(struct builder *b) {
    int tokens = build_tokens(b, 31), x = build_embedding(b, build_slice(b, tokens, "half", 4, 27), "embedding", 90, 33);
    x = build_relu(b, build_linear(b, x, "fc1", 50), "relu");
    x = build_slice(b, x, "some", 3, 20);
    build_cross_entropy(b, build_linear(b, x, "fc2", 10), "loss");
}

/* A transformer's block, with enough rows and features for several parts a thread. */
static void build_block(struct builder *b) {
    int x = build_position_embedding(b, build_embedding(b, build_tokens(b, 27), "embedding", 70, 132), "positions", 30);
    int y = build_linear(b, build_layer_norm(b, x, "norm1", 1e-5f), "qkv", 3 * 132);
    struct attributes attention = {.heads = 3, .causal = true, .rate = 0.1f};
    y = graph_add(b->graph, OPERATOR_ATTENTION, "attention", &attention, &y, 1, b->error);
    x = build_add(b, x, build_dropout(b, y, "dropout", 0.1f), "add1");
    y = build_gelu(b, build_linear(b, build_layer_norm(b, x, "norm2", 1e-5f), "fc1", 200), "gelu", true);
    x = build_add(b, x, build_linear(b, y, "fc2", 132), "add2");
    build_cross_entropy(b, build_linear(b, x, "head", 10), "loss");
}

static const struct network {
    const char *name;
    void (*build)(struct builder *b);
    int samples;
} networks[] = {
    {"small images", build_small_images, 5}, {"normalised", build_normalised, 7}, {"padded", build_padded, 6},
    {"sequence", build_sequence, 9},         {"block", build_block, 9},
};

enum { NETWORKS = sizeof networks / sizeof *networks, PARAMETERS_MAX = 16 };

/* ---------------------------------------------------------------- one step */

/* What a step leaves, in canonical order. */
struct outcome {
    double loss;
    int parameters;
    int64_t counts[PARAMETERS_MAX];
    float *values[PARAMETERS_MAX];
};

static struct graph *make_graph(const struct network *network) {
    struct builder b = {graph_create(), &test_error};
    network->build(&b);
    assert_ok(graph_finish(b.graph, &test_error));
    return b.graph;
}

/* Padding of a block in kernel layout is where a block of canonical ones has none. */
static void check_padding(struct chain *chain, const char *network) {
    struct stage *stage = chain->stages[0];
    int64_t bytes = chain->sizes[0].parameter_bytes;
    float *ones = chain_take(chain, bytes), *plain = chain_take(chain, 4 << 20);
    memset(ones, 0, (size_t)bytes);
    for (int i = 0; i < 1 << 20; i++) plain[i] = 1;
    for (int p = 0; p < stage_parameter_count(stage); p++) {
        if (stage_parameter(stage, p)->role == PARAMETER_STATISTIC) continue;
        assert_ok(stage_import(stage, p, plain, ones, chain->blocks[0][0].statistics, &test_error));
    }
    /* Bytes between parameters belong to nobody: they are never looked at, but may not turn into numbers either. */
    for (int64_t i = 0; i < bytes / 4; i++) {
        float gradient = chain->blocks[0][0].gradients[i];
        if (ones[i] == 0 && gradient != 0 && !isnan(gradient)) fail_msg("%s: padding became %g", network, (double)gradient);
    }
}

static struct outcome run(const char *device_name, int threads, const struct network *network) {
    struct device *device = NULL;
    assert_ok(device_open(device_name, &(struct device_options){.threads = threads}, &device, &test_error));
    struct graph *graph = make_graph(network);
    struct chain *chain = chain_create(device, graph, network->samples, 1, NULL, 0);
    for (int64_t i = 0; i < chain->sizes[0].input_bytes / 4; i++) {
        uint64_t tokens = (uint64_t)graph_vocabulary(graph), element = (uint64_t)i;
        if (tokens > 0)
            ((int32_t *)chain->blocks[0][0].input)[i] = (int32_t)random_below(test_key(1), element, tokens);
        else
            ((float *)chain->blocks[0][0].input)[i] = random_normal(test_key(1), element);
    }
    int32_t labels[256];
    for (int i = 0; i < 256; i++) labels[i] = i % 11 - (i % 11 == 10 ? 11 : 0); /* -1: not counted */
    struct stage_step step = {.seed = 1, .target = labels, .gradient_scale = 0.1f, .training = true, .update_statistics = true};
    struct outcome outcome = {.loss = chain_forward(chain, 0, &step).loss};
    chain_backward(chain, 0, &step);
    if (strcmp(device_name, "cpu") == 0) check_padding(chain, network->name);
    for (int p = 0; p < stage_parameter_count(chain->stages[0]); p++) {
        const struct parameter *parameter = stage_parameter(chain->stages[0], p);
        assert_true(p < PARAMETERS_MAX);
        outcome.values[p] = malloc((size_t)shape_elements(&parameter->shape) * sizeof(float));
        assert_non_null(outcome.values[p]);
        outcome.counts[p] = chain_export(chain, parameter->name, NULL, outcome.values[p]);
        outcome.parameters = p + 1;
    }
    chain_destroy(chain);
    graph_destroy(graph);
    device_close(device);
    return outcome;
}

static void release(struct outcome *outcome) {
    for (int p = 0; p < outcome->parameters; p++) free(outcome->values[p]);
}

/* ------------------------------------------------------------------- tests */

/* By the norm of the difference: where rounding decides whether a ReLU passes, a single gradient may differ. */
static void assert_agree(const struct network *network, int threads, const struct outcome *wanted, const struct outcome *got) {
    assert_true(fabs(wanted->loss - got->loss) <= 1e-5 * fabs(wanted->loss));
    double norms[PARAMETERS_MAX] = {0}, largest = 0;
    for (int p = 0; p < wanted->parameters; p++) {
        for (int64_t i = 0; i < wanted->counts[p]; i++) norms[p] += pow((double)wanted->values[p][i], 2);
        largest = fmax(largest, norms[p]);
    }
    for (int p = 0; p < wanted->parameters; p++) {
        double difference = 0;
        for (int64_t i = 0; i < wanted->counts[p]; i++) {
            difference += pow((double)wanted->values[p][i] - (double)got->values[p][i], 2);
        }
        /* A bias before a normalisation has gradient 0 but for rounding. */
        double scale = fmax(norms[p], 1e-6 * largest);
        if (!(difference <= 1e-6 * scale)) {
            fail_msg("%s, %d threads, parameter %d: off by %g of its norm", network->name, threads, p,
                     sqrt(difference / scale));
        }
    }
}

static void test_against_reference(void **state) {
    (void)state;
    for (int n = 0; n < NETWORKS; n++) {
        struct outcome wanted = run("reference", 1, &networks[n]);
        for (int threads = 1; threads <= 3; threads++) {
            struct outcome got = run("cpu", threads, &networks[n]);
            assert_agree(&networks[n], threads, &wanted, &got);
            release(&got);
        }
        release(&wanted);
    }
}

static void test_same_bits(void **state) {
    (void)state;
    for (int n = 0; n < NETWORKS; n++) {
        for (int threads = 1; threads <= 2; threads++) {
            struct outcome first = run("cpu", threads, &networks[n]), second = run("cpu", threads, &networks[n]);
            assert_memory_equal(&first.loss, &second.loss, sizeof first.loss);
            for (int p = 0; p < first.parameters; p++) {
                assert_memory_equal(first.values[p], second.values[p], (size_t)first.counts[p] * sizeof(float));
            }
            release(&first);
            release(&second);
        }
    }
}

enum { NORM_CHANNELS = 3, NORM_SIDE = 40, NORM_SAMPLES = 8, NORM_COUNT = NORM_SAMPLES * NORM_SIDE * NORM_SIDE * NORM_CHANNELS };

/* A batch norm forward and backward; `y` and `dx` have NORM_COUNT elements, the others are (C). */
struct norm_outcome {
    float *y, *dx, mean[NORM_CHANNELS], variance[NORM_CHANNELS], weight[NORM_CHANNELS], bias[NORM_CHANNELS];
    struct memory_block memory;
};

static struct norm_outcome run_norm(const char *device_name, bool double_precision, const float *x, const float *dy) {
    struct device *device = chain_device(device_name);
    struct builder b = {graph_create(), &test_error};
    struct attributes attributes = {
        .epsilon = 1e-5f, .momentum = 0.1f, .weight = true, .bias = true, .double_precision = double_precision};
    int input = build_input(&b, NORM_CHANNELS, NORM_SIDE, NORM_SIDE);
    int norm = graph_add(b.graph, OPERATOR_BATCH_NORM, "norm", &attributes, &input, 1, b.error);
    assert_true(norm > 0);
    assert_ok(graph_finish(b.graph, &test_error));
    struct kernel *kernel;
    assert_ok(kernel_create(device, b.graph, &b.graph->nodes[norm], NORM_SAMPLES, false, &kernel, &test_error));
    struct norm_outcome made = {.mean = {0}};
    struct memory_block room;
    assert_ok(memory_block_take(&made.memory, 2 * memory_align(NORM_COUNT * 4), "a test", &test_error));
    assert_ok(memory_block_take(&room, (size_t)(kernel->inner_bytes + kernel->workspace_bytes) + 256, "a test", &test_error));
    made.y = memory_block_carve(&made.memory, NORM_COUNT * 4);
    made.dx = memory_block_carve(&made.memory, NORM_COUNT * 4);
    float weight[NORM_CHANNELS] = {1, 1, 1}, bias[NORM_CHANNELS] = {0};
    struct kernel_call call = {.input = {(float *)(uintptr_t)x},
                               .output = made.y,
                               .output_gradient = (float *)(uintptr_t)dy,
                               .input_gradient = {made.dx},
                               .weights = {weight, bias},
                               .gradients = {made.weight, made.bias},
                               .statistics = {NULL, NULL, made.mean, made.variance},
                               .training = true,
                               .update_statistics = true,
                               .error = &test_error};
    call.inner = memory_block_carve(&room, (size_t)kernel->inner_bytes);
    call.workspace = memory_block_carve(&room, (size_t)kernel->workspace_bytes);
    assert_ok(kernel_run(kernel, KERNEL_FORWARD, &call));
    assert_ok(kernel_run(kernel, KERNEL_BACKWARD_INPUT, &call));
    assert_ok(kernel_run(kernel, KERNEL_BACKWARD_WEIGHT, &call));
    kernel_destroy(kernel);
    memory_block_release(&room);
    graph_destroy(b.graph);
    device_close(device);
    return made;
}

/* A normalisation far from 0: what is close to the mean must not drown in it. */
static void test_large_mean(void **state) {
    (void)state;
    static float x[NORM_COUNT], dy[NORM_COUNT];
    for (int i = 0; i < NORM_COUNT; i++) x[i] = 1000 + (i / 3 % 2 == 0 ? 0.5f : -0.5f);
    for (int wide = 0; wide < 2; wide++) {
        struct norm_outcome made = run_norm("cpu", wide, x, dy);
        for (int i = 0; i < NORM_COUNT; i++) assert_true(fabsf(fabsf(made.y[i]) - 1) < 1e-4f);
        for (int c = 0; c < NORM_CHANNELS; c++) {
            assert_true(fabsf(made.mean[c] - 100) < 1e-3f);
            assert_true(fabsf(made.variance[c] - 0.025f) < 1e-5f);
        }
        memory_block_release(&made.memory);
    }
}

static bool within_rounding(const float *a, const float *b, int count, float largest) {
    for (int i = 0; i < count; i++)
        if (!(fabsf(a[i] - b[i]) <= FLT_EPSILON * fmaxf(fabsf(b[i]), largest))) return false;
    return true;
}

/* What a norm in double precision writes is rounded once, however many rows there are, as `reference` does it. */
static void test_norm_in_double(void **state) {
    (void)state;
    static float x[NORM_COUNT], dy[NORM_COUNT];
    for (uint64_t i = 0; i < NORM_COUNT; i++) {
        x[i] = 100 + random_uniform(random_key(1, RANDOM_TEST, test_seed(), 0), i);
        dy[i] = random_uniform(random_key(1, RANDOM_TEST, test_seed(), 1), i);
    }
    struct norm_outcome wanted = run_norm("reference", false, x, dy), made = run_norm("cpu", true, x, dy),
                        single = run_norm("cpu", false, x, dy);
    assert_true(within_rounding(made.y, wanted.y, NORM_COUNT, 1e-9f));
    assert_true(within_rounding(made.dx, wanted.dx, NORM_COUNT, 1e-9f));
    assert_true(within_rounding(made.weight, wanted.weight, NORM_CHANNELS, 0));
    assert_true(within_rounding(made.bias, wanted.bias, NORM_CHANNELS, 0));
    assert_true(within_rounding(made.mean, wanted.mean, NORM_CHANNELS, 0));
    assert_true(within_rounding(made.variance, wanted.variance, NORM_CHANNELS, 0));
    assert_false(within_rounding(single.y, wanted.y, NORM_COUNT, 1e-9f));
    memory_block_release(&made.memory);
    memory_block_release(&wanted.memory);
    memory_block_release(&single.memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_reference),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_large_mean),
        cmocka_unit_test(test_norm_in_double),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
