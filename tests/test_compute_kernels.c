/*
 * Every kernel of every device that computes numbers, on random shapes: `reference` against finite differences, the others
 * against `reference`. One list of cases serves all: a new device or a new case is tested unasked.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compute/device.h"
#include "graph/model.h"
#include "support.h"

enum { REPEATS = 10, SAMPLES_MAX = 5, POSITIONS_MAX = 7 };

/* ------------------------------------------------------------------- cases */

/* Draws numbers from a stream one after the other. */
struct draw {
    struct random_key key;
    uint64_t index;
};

static int draw(struct draw *draw, int low, int high) {
    return low + (int)random_below(draw->key, draw->index++, (uint64_t)(high - low + 1));
}

static int draw_image(struct builder *b, struct draw *d) { return build_input(b, draw(d, 1, 9), draw(d, 3, 9), draw(d, 3, 9)); }

static int add_one(struct builder *b, enum operator_id id, const struct attributes *attributes, int input) {
    return graph_add(b->graph, id, "node", attributes, &input, 1, b->error);
}

static struct attributes draw_window(struct draw *d) {
    struct attributes a = {.kernel_h = draw(d, 1, 3), .kernel_w = draw(d, 1, 3), .stride_h = draw(d, 1, 3)};
    a.stride_w = draw(d, 1, 3);
    a.pad_h = draw(d, 0, a.kernel_h / 2);
    a.pad_w = draw(d, 0, a.kernel_w / 2);
    return a;
}

static int case_convolution(struct builder *b, struct draw *d) {
    struct attributes a = draw_window(d);
    a.channels = draw(d, 1, 20);
    a.bias = draw(d, 0, 1) == 1;
    return add_one(b, OPERATOR_CONVOLUTION, &a, draw_image(b, d));
}

static int case_groups(struct builder *b, struct draw *d) {
    struct attributes a = draw_window(d);
    a.groups = draw(d, 2, 4);
    a.channels = a.groups * draw(d, 1, 4);
    a.bias = true;
    int input = build_input(b, a.groups * draw(d, 1, 4), draw(d, 3, 9), draw(d, 3, 9));
    return add_one(b, OPERATOR_CONVOLUTION, &a, input);
}

static int case_convolution_relu(struct builder *b, struct draw *d) {
    int node = case_convolution(b, d);
    build_relu(b, node, "relu");
    return node;
}

static int case_linear(struct builder *b, struct draw *d) {
    struct attributes a = {.channels = draw(d, 1, 40), .bias = draw(d, 0, 1) == 1};
    return add_one(b, OPERATOR_LINEAR, &a, build_input(b, draw(d, 1, 50), 0, 0));
}

static int case_linear_relu(struct builder *b, struct draw *d) {
    int node = case_linear(b, d);
    build_relu(b, node, "relu");
    return node;
}

/* Columns of the weights are in another order than the features in memory. */
static int case_linear_flattened(struct builder *b, struct draw *d) {
    return build_linear(b, build_flatten(b, draw_image(b, d), "flatten"), "node", draw(d, 1, 30));
}

static int case_max_pool(struct builder *b, struct draw *d) {
    struct attributes a = draw_window(d);
    return add_one(b, OPERATOR_MAX_POOL, &a, draw_image(b, d));
}

static int case_average_pool(struct builder *b, struct draw *d) {
    struct attributes a = draw_window(d);
    a.count_padding = draw(d, 0, 1) == 1;
    return add_one(b, OPERATOR_AVERAGE_POOL, &a, draw_image(b, d));
}

static int case_max_pool_ceiling(struct builder *b, struct draw *d) {
    struct attributes a = draw_window(d);
    a.ceiling = true;
    return add_one(b, OPERATOR_MAX_POOL, &a, draw_image(b, d));
}

static int case_average_pool_ceiling(struct builder *b, struct draw *d) {
    struct attributes a = draw_window(d);
    a.ceiling = true;
    a.count_padding = draw(d, 0, 1) == 1;
    return add_one(b, OPERATOR_AVERAGE_POOL, &a, draw_image(b, d));
}

/* Windows of uneven sizes, and more of them than pixels. */
static int case_adaptive_pool(struct builder *b, struct draw *d) {
    struct attributes a = {.out_h = draw(d, 1, 7), .out_w = draw(d, 1, 11)};
    return add_one(b, OPERATOR_AVERAGE_POOL, &a, draw_image(b, d));
}

static int case_response_norm(struct builder *b, struct draw *d) {
    struct attributes a = {.window = draw(d, 1, 6), .alpha = 0.5f, .beta = draw(d, 0, 1) == 1 ? 0.75f : 0.6f, .shift = 2};
    return add_one(b, OPERATOR_LOCAL_RESPONSE_NORM, &a, draw_image(b, d));
}

static int case_response_norm_default(struct builder *b, struct draw *d) {
    return add_one(b, OPERATOR_LOCAL_RESPONSE_NORM, NULL, draw_image(b, d));
}

static int case_global_pool(struct builder *b, struct draw *d) { return build_global_pool(b, draw_image(b, d), "node"); }

static int case_relu(struct builder *b, struct draw *d) { return build_relu(b, draw_image(b, d), "node"); }

static int case_relu_in_place(struct builder *b, struct draw *d) {
    int pool = build_max_pool(b, draw_image(b, d), "pool", 1, 1, 0);
    return build_relu(b, pool, "node");
}

static int case_batch_norm(struct builder *b, struct draw *d) { return build_batch_norm(b, draw_image(b, d), "node"); }

static int case_batch_norm_vector(struct builder *b, struct draw *d) {
    return build_batch_norm(b, build_input(b, draw(d, 1, 20), 0, 0), "node");
}

static int case_batch_norm_relu(struct builder *b, struct draw *d) {
    int node = case_batch_norm(b, d);
    build_relu(b, node, "relu");
    return node;
}

static int case_add(struct builder *b, struct draw *d) {
    int a = draw_image(b, d), c = build_relu(b, a, "other"), inputs[] = {a, c, a};
    return graph_add(b->graph, OPERATOR_ADD, "node", NULL, inputs, draw(d, 2, 3), b->error);
}

static int case_concat(struct builder *b, struct draw *d) {
    int a = draw_image(b, d), c = build_convolution(b, a, "other", draw(d, 1, 9), 1, 1, 0, true), inputs[] = {c, a, c, a};
    return build_concat(b, inputs, draw(d, 1, 4), "node");
}

static int case_concat_vectors(struct builder *b, struct draw *d) {
    int a = build_input(b, draw(d, 1, 20), 0, 0), c = build_linear(b, a, "other", draw(d, 1, 20));
    return build_concat(b, (const int[]){a, c}, 2, "node");
}

static int case_dropout(struct builder *b, struct draw *d) {
    return build_dropout(b, draw_image(b, d), "node", (float)draw(d, 1, 9) / 10);
}

static int case_dropout_in_place(struct builder *b, struct draw *d) {
    int pool = build_max_pool(b, draw_image(b, d), "pool", 1, 1, 0);
    return build_dropout(b, pool, "node", 0.5f);
}

static int case_cross_entropy(struct builder *b, struct draw *d) {
    struct attributes a = {.smoothing = draw(d, 0, 1) == 1 ? 0.1f : 0};
    return add_one(b, OPERATOR_CROSS_ENTROPY, &a, build_input(b, draw(d, 2, 30), 0, 0));
}

/* ------------------------------------------------------------ sequences */

static int draw_sequence(struct builder *b, struct draw *d) {
    return build_input(b, draw(d, 1, 9), draw(d, 1, POSITIONS_MAX), 1);
}

static int case_linear_sequence(struct builder *b, struct draw *d) {
    struct attributes a = {.channels = draw(d, 1, 20), .bias = draw(d, 0, 1) == 1};
    return add_one(b, OPERATOR_LINEAR, &a, draw_sequence(b, d));
}

static int case_cross_entropy_sequence(struct builder *b, struct draw *d) {
    struct attributes a = {.smoothing = draw(d, 0, 1) == 1 ? 0.1f : 0};
    return add_one(b, OPERATOR_CROSS_ENTROPY, &a, build_input(b, draw(d, 2, 30), draw(d, 2, POSITIONS_MAX), 1));
}

static int case_embedding(struct builder *b, struct draw *d) {
    return build_embedding(b, build_tokens(b, draw(d, 1, POSITIONS_MAX)), "node", draw(d, 1, 20), draw(d, 1, 20));
}

static int case_embedding_padded(struct builder *b, struct draw *d) {
    struct attributes a = {.channels = draw(d, 1, 9), .vocabulary = draw(d, 2, 5), .padded = true};
    a.padding = draw(d, 0, a.vocabulary - 1);
    return add_one(b, OPERATOR_EMBEDDING, &a, build_tokens(b, draw(d, 2, POSITIONS_MAX)));
}

static int case_slice(struct builder *b, struct draw *d) {
    struct attributes a = {.first = draw(d, 0, 3)};
    a.count = draw(d, 1, 4);
    return add_one(b, OPERATOR_SLICE, &a, build_input(b, draw(d, 1, 9), a.first + a.count + draw(d, 0, 3), 1));
}

static int add_lstm(struct builder *b, struct draw *d, const int *inputs, int count) {
    struct attributes a = {.channels = draw(d, 1, 20), .reverse = draw(d, 0, 1) == 1};
    return graph_add(b->graph, OPERATOR_LSTM, "node", &a, inputs, count, b->error);
}

static int case_lstm(struct builder *b, struct draw *d) {
    return add_lstm(b, d, (const int[]){build_input(b, draw(d, 1, 20), draw(d, 1, 7), 1)}, 1);
}

/* The tokens are the input; a layer makes features of them. */
static int case_lstm_padded(struct builder *b, struct draw *d) {
    int tokens = build_input(b, 1, draw(d, 1, 7), 1), x = build_convolution(b, tokens, "x", draw(d, 1, 9), 1, 1, 0, true);
    return add_lstm(b, d, (const int[]){x, tokens}, 2);
}

static int case_additive_attention(struct builder *b, struct draw *d) {
    int keys = draw(d, 1, 7), units = draw(d, 2, 40), tokens = build_input(b, 1, keys, 1);
    struct attributes a = {0};
    int key = build_convolution(b, tokens, "key", units, 1, 1, 0, true);
    int value = build_convolution(b, tokens, "value", draw(d, 1, 20), 1, 1, 0, true);
    struct attributes window = {.channels = units, .kernel_h = draw(d, 1, keys), .kernel_w = 1, .bias = true};
    int query = graph_add(b->graph, OPERATOR_CONVOLUTION, "query", &window, &tokens, 1, b->error);
    return graph_add(b->graph, OPERATOR_ADDITIVE_ATTENTION, "node", &a, (const int[]){query, key, value, tokens}, draw(d, 3, 4),
                     b->error);
}

static int case_position_embedding(struct builder *b, struct draw *d) {
    int input = draw_sequence(b, d);
    struct attributes a = {.everywhere = draw(d, 0, 2) == 0};
    a.count = draw(d, 0, 3) + (a.everywhere ? 1 : (int)b->graph->nodes[input].shape.dim[1]);
    return add_one(b, OPERATOR_POSITION_EMBEDDING, &a, input);
}

static int case_position_embedding_in_place(struct builder *b, struct draw *d) {
    int x = build_embedding(b, build_tokens(b, draw(d, 1, POSITIONS_MAX)), "x", 5, draw(d, 1, 9));
    return build_position_embedding(b, x, "node", POSITIONS_MAX);
}

static int case_layer_norm(struct builder *b, struct draw *d) {
    return build_layer_norm(b, build_input(b, draw(d, 3, 40), draw(d, 1, POSITIONS_MAX), 1), "node", 0.01f);
}

static int case_layer_norm_vector(struct builder *b, struct draw *d) {
    return build_layer_norm(b, build_input(b, draw(d, 3, 20), 0, 0), "node", 0.01f);
}

static int case_gelu(struct builder *b, struct draw *d) { return build_gelu(b, draw_image(b, d), "node", false); }

static int case_gelu_tanh(struct builder *b, struct draw *d) { return build_gelu(b, draw_sequence(b, d), "node", true); }

/* Queries, keys and values side by side in the data. */
static int case_attention_packed(struct builder *b, struct draw *d) {
    struct attributes a = {.heads = draw(d, 1, 3), .causal = draw(d, 0, 1) == 1, .rate = (float)draw(d, 0, 1) * 0.3f};
    return add_one(b, OPERATOR_ATTENTION, &a, build_input(b, 3 * a.heads * draw(d, 1, 6), draw(d, 1, POSITIONS_MAX), 1));
}

/* From one sequence to another; the padding of the keys is not seen. */
static int case_attention_padded(struct builder *b, struct draw *d) {
    struct attributes a = {.heads = draw(d, 1, 3), .rate = (float)draw(d, 0, 1) * 0.3f};
    int features = a.heads * draw(d, 1, 6), keys = draw(d, 1, POSITIONS_MAX), queries = draw(d, 1, keys);
    int tokens = build_tokens(b, keys), x = build_embedding(b, tokens, "x", 5, features);
    int query = build_slice(b, x, "query", 0, queries), value = build_linear(b, x, "value", features);
    return graph_add(b->graph, OPERATOR_ATTENTION, "node", &a, (const int[]){query, x, value, tokens}, draw(d, 3, 4), b->error);
}

static int case_attention_causal(struct builder *b, struct draw *d) {
    struct attributes a = {.heads = draw(d, 1, 3), .causal = true};
    int tokens = build_tokens(b, draw(d, 1, POSITIONS_MAX)), x = build_embedding(b, tokens, "x", 5, a.heads * draw(d, 1, 6));
    int key = build_gelu(b, x, "key", false), value = build_gelu(b, x, "value", true);
    return graph_add(b->graph, OPERATOR_ATTENTION, "node", &a, (const int[]){x, key, value, tokens}, 4, b->error);
}

struct test_case {
    const char *name;
    int (*build)(struct builder *b, struct draw *d); /* returns the node to test */
    bool spread;                                     /* the inputs are all well apart and away from 0: the operator has kinks */
};

static const struct test_case cases[] = {
    {"convolution", case_convolution, false},
    {"convolution in groups", case_groups, false},
    {"convolution with relu", case_convolution_relu, false},
    {"linear", case_linear, false},
    {"linear with relu", case_linear_relu, false},
    {"linear on a flattened image", case_linear_flattened, false},
    {"max pool", case_max_pool, true},
    {"average pool", case_average_pool, false},
    {"global pool", case_global_pool, false},
    {"relu", case_relu, true},
    {"relu in place", case_relu_in_place, true},
    {"batch norm", case_batch_norm, false},
    {"batch norm on vectors", case_batch_norm_vector, false},
    {"batch norm with relu", case_batch_norm_relu, false},
    {"add", case_add, false},
    {"concat", case_concat, false},
    {"concat of vectors", case_concat_vectors, false},
    {"dropout", case_dropout, false},
    {"dropout in place", case_dropout_in_place, false},
    {"cross entropy", case_cross_entropy, false},
    {"linear on a sequence", case_linear_sequence, false},
    {"cross entropy on a sequence", case_cross_entropy_sequence, false},
    {"embedding", case_embedding, false},
    {"embedding with padding", case_embedding_padded, false},
    {"slice", case_slice, false},
    {"position embedding", case_position_embedding, false},
    {"position embedding in place", case_position_embedding_in_place, false},
    {"layer norm", case_layer_norm, false},
    {"layer norm on vectors", case_layer_norm_vector, false},
    {"gelu", case_gelu, false},
    {"gelu by tanh", case_gelu_tanh, false},
    {"attention, packed", case_attention_packed, false},
    {"attention, padded", case_attention_padded, false},
    {"attention, causal", case_attention_causal, false},
    {"lstm", case_lstm, false},
    {"lstm with padding", case_lstm_padded, false},
    {"additive attention", case_additive_attention, false},
    {"max pool rounding up", case_max_pool_ceiling, true},
    {"average pool rounding up", case_average_pool_ceiling, false},
    {"adaptive pool", case_adaptive_pool, false},
    {"local response norm", case_response_norm, false},
    {"local response norm as usual", case_response_norm_default, false},
};

/* ----------------------------------------------- one kernel and its memory */

/* A case made concrete, with data in plain arrays (canonical order): the same for every device. */
struct problem {
    struct graph *graph;
    const struct node *node;
    bool in_place, relu_follows;
    int samples, counted;
    bool training;
    int64_t inputs[GRAPH_INPUTS_MAX], output, parameters[GRAPH_PARAMETERS_MAX]; /* elements */
    float *input[GRAPH_INPUTS_MAX], *output_gradient, *parameter[GRAPH_PARAMETERS_MAX];
    bool statistic[GRAPH_PARAMETERS_MAX];
    int32_t labels[SAMPLES_MAX * POSITIONS_MAX];
    struct random_key key;
};

/* What a device makes of it, in canonical order. */
struct answer {
    float *output, *input_gradient[GRAPH_INPUTS_MAX], *gradient[GRAPH_PARAMETERS_MAX], *statistic[GRAPH_PARAMETERS_MAX];
    double loss;
    int64_t correct, correct5;
};

static float *new_floats(int64_t count) {
    float *floats = calloc((size_t)count + 1, sizeof *floats);
    assert_non_null(floats);
    return floats;
}

/* Memory as kernels get it; filled with numbers that are none, to see that all is written. */
static void *new_block(int64_t bytes) {
    size_t size = memory_align((size_t)bytes + 1);
    void *block = aligned_alloc(MEMORY_ALIGNMENT, size);
    assert_non_null(block);
    memset(block, 0xff, size);
    return block;
}

static float *random_floats(struct random_key key, int64_t count) {
    float *floats = new_floats(count);
    for (int64_t i = 0; i < count; i++) floats[i] = 2 * random_uniform(key, (uint64_t)i) - 1;
    return floats;
}

/* All different by at least 0.04, none nearer to 0 than 0.02, in random order. */
static float *spread_floats(struct random_key key, int64_t count) {
    float *floats = new_floats(count);
    uint32_t *order = calloc((size_t)count, sizeof *order);
    assert_non_null(order);
    random_permutation(key, order, (size_t)count);
    for (int64_t i = 0; i < count; i++) floats[i] = 0.04f * ((float)order[i] - (float)(count / 2)) + 0.02f;
    free(order);
    return floats;
}

/* Inputs that only say where a sequence is padding. */
static bool is_mask(const struct node *node, int input) {
    return (node->id == OPERATOR_LSTM && input == 1) || (node->id == OPERATOR_ADDITIVE_ATTENTION && input == 3) ||
           (node->id == OPERATOR_ATTENTION && input % 2 == 1 && input == node->input_count - 1);
}

static struct problem make_problem(const struct test_case *which, uint64_t number) {
    struct draw d = {test_key(number), 0};
    struct builder b = {graph_create(), &test_error};
    int index = which->build(&b, &d);
    assert_ok(graph_finish(b.graph, &test_error));
    const struct graph *g = b.graph;
    const struct node *node = &g->nodes[index];
    struct problem p = {.graph = b.graph, .node = node, .training = true, .samples = draw(&d, 1, SAMPLES_MAX)};
    if (node->id == OPERATOR_BATCH_NORM && p.samples < 2) p.samples = 2;
    p.counted = p.samples - draw(&d, 0, p.samples - 1);
    p.in_place = node->root != index;
    p.relu_follows = index + 1 < g->node_count && g->nodes[index + 1].root == node->root;
    p.output = p.samples * shape_elements(&node->shape);
    for (int i = 0; i < node->input_count; i++) {
        struct random_key key = random_key(number, RANDOM_TEST, test_seed(), (uint64_t)i + 10);
        p.inputs[i] = p.samples * shape_elements(&g->nodes[node->inputs[i]].shape);
        p.input[i] = which->spread ? spread_floats(key, p.inputs[i]) : random_floats(key, p.inputs[i]);
        for (int64_t e = 0; e < p.inputs[i] && node->id == OPERATOR_EMBEDDING; e++)
            p.input[i][e] = (float)draw(&d, 0, node->attributes.vocabulary - 1);
        for (int64_t e = 0; e < p.inputs[i] && is_mask(node, i); e++) p.input[i][e] = p.input[i][e] < 0 ? 0 : 5;
        /* Channels whose values are all but equal have derivatives without bound: every second position is moved away. */
        int64_t channels = node->id == OPERATOR_BATCH_NORM ? node->shape.dim[0] : INT64_MAX;
        for (int64_t e = channels; e < p.inputs[i]; e++) p.input[i][e] += e / channels % 2 == 1 ? 3.0f : 0;
    }
    for (int i = 0; i < node->parameter_count; i++) {
        const struct parameter *parameter = &g->parameters[node->parameter_first + i];
        p.parameters[i] = shape_elements(&parameter->shape);
        p.parameter[i] = random_floats(random_key(number, RANDOM_TEST, test_seed(), (uint64_t)i + 20), p.parameters[i]);
        p.statistic[i] = parameter->statistic;
        for (int64_t e = 0; e < p.parameters[i] && p.statistic[i]; e++) p.parameter[i][e] = fabsf(p.parameter[i][e]) + 0.1f;
    }
    p.output_gradient = random_floats(random_key(number, RANDOM_TEST, test_seed(), 30), p.output);
    int each = (int)(shape_elements(&node->shape) / node->shape.dim[0]), none = each > 1 ? -1 : 0; /* -1: not counted */
    for (int n = 0; n < SAMPLES_MAX * POSITIONS_MAX && node->id == OPERATOR_CROSS_ENTROPY; n++)
        p.labels[n] = n < p.counted * each ? draw(&d, none, (int)node->shape.dim[0] - 1) : -12345; /* not looked at */
    p.key = random_key(number, RANDOM_DROPOUT, 7, 8);
    return p;
}

static void free_problem(struct problem *p) {
    for (int i = 0; i < GRAPH_INPUTS_MAX; i++) free(p->input[i]);
    for (int i = 0; i < GRAPH_PARAMETERS_MAX; i++) free(p->parameter[i]);
    free(p->output_gradient);
    graph_destroy(p->graph);
}

static void free_answer(struct answer *a) {
    free(a->output);
    for (int i = 0; i < GRAPH_INPUTS_MAX; i++) free(a->input_gradient[i]);
    for (int i = 0; i < GRAPH_PARAMETERS_MAX; i++) free(a->gradient[i]), free(a->statistic[i]);
}

static float *copy_floats(const float *from, int64_t count) {
    float *floats = new_floats(count);
    memcpy(floats, from, (size_t)count * sizeof *floats);
    return floats;
}

/* A kernel with its blocks. */
struct bench {
    struct kernel *kernel;
    struct kernel_call call;
    float *blocks[32]; /* all that was taken */
    int block_count;
    float *gradient[GRAPH_PARAMETERS_MAX]; /* in the kernel's layout */
    double loss;
    int64_t correct, correct5;
};

static float *take(struct bench *bench, int64_t bytes) {
    assert_true(bench->block_count < 32);
    return bench->blocks[bench->block_count++] = new_block(bytes);
}

static float *take_copy(struct bench *bench, const float *from, int64_t count) {
    float *block = take(bench, count * (int64_t)sizeof *from);
    memcpy(block, from, (size_t)count * sizeof *from);
    return block;
}

static void set_up(struct bench *bench, struct device *device, const struct problem *p) {
    const struct kernel_class *class = device->class->kernels[p->node->id];
    memset(bench, 0, sizeof *bench);
    assert_ok(class->create(device, p->graph, p->node, p->samples, p->relu_follows, &bench->kernel, &test_error));
    assert_ptr_equal(bench->kernel->class, class);
    assert_int_equal(bench->kernel->samples, p->samples);
    struct kernel_call *call = &bench->call;
    for (int i = 0; i < p->node->input_count; i++) call->input[i] = take_copy(bench, p->input[i], p->inputs[i]);
    call->output = p->in_place ? bench->blocks[0] : take(bench, p->output * 4);
    call->inner = take(bench, bench->kernel->inner_bytes);
    call->workspace = take(bench, bench->kernel->workspace_bytes);
    for (int i = 0; i < p->node->parameter_count; i++) {
        int64_t bytes = bench->kernel->parameter_bytes[i];
        if (p->statistic[i]) {
            assert_int_equal(bytes, p->parameters[i] * 4);
            call->statistics[i] = take_copy(bench, p->parameter[i], p->parameters[i]);
            continue;
        }
        assert_true(bytes >= p->parameters[i] * 4);
        float *own = take(bench, bytes);
        if (class->import != NULL)
            assert_ok(class->import(bench->kernel, i, p->parameter[i], own, &test_error));
        else
            memcpy(own, p->parameter[i], (size_t)bytes);
        call->weights[i] = own;
        bench->gradient[i] = take(bench, bytes);
    }
    call->labels = p->labels;
    call->counted = p->counted;
    call->gradient_scale = 0.25f;
    call->training = call->update_statistics = p->training;
    call->key = p->key;
    call->loss = &bench->loss;
    call->correct = &bench->correct;
    call->correct5 = &bench->correct5;
}

static void tear_down(struct bench *bench) {
    bench->kernel->class->destroy(bench->kernel);
    for (int i = 0; i < bench->block_count; i++) free(bench->blocks[i]);
}

static void run_forward(struct bench *bench, const struct problem *p, struct answer *answer) {
    assert_ok(bench->kernel->class->forward(bench->kernel, &bench->call, &test_error));
    answer->output = copy_floats(bench->call.output, p->output);
    for (int64_t i = 0; i < p->output && p->relu_follows; i++) {
        if (bench->kernel->fuses_relu)
            assert_true(answer->output[i] >= 0);
        else if (answer->output[i] < 0)
            answer->output[i] = 0;
    }
    for (int i = 0; i < p->node->parameter_count; i++) {
        if (p->statistic[i]) answer->statistic[i] = copy_floats(bench->call.statistics[i], p->parameters[i]);
    }
    answer->loss = bench->loss;
    answer->correct = bench->correct;
    answer->correct5 = bench->correct5;
}

/* Takes away what the operator says that its backward does not read, as a stage does. */
static void hide_unread(struct bench *bench, unsigned flags) {
    if (!(flags & OPERATOR_USES_INPUT)) memset(bench->call.input, 0, sizeof bench->call.input);
    if (!(flags & OPERATOR_USES_OUTPUT)) bench->call.output = NULL;
}

static void run_backward(struct bench *bench, const struct problem *p, struct answer *answer) {
    const struct kernel_class *class = bench->kernel->class;
    unsigned flags = operator_get(p->node->id)->flags;
    struct kernel_call *call = &bench->call;
    hide_unread(bench, flags);
    float *output_gradient = take_copy(bench, p->output_gradient, p->output);
    if (!(flags & OPERATOR_LOSS)) call->output_gradient = output_gradient;
    if (class->backward_shared != NULL) assert_ok(class->backward_shared(bench->kernel, call, &test_error));
    if (class->backward_weight != NULL) {
        memcpy(call->gradients, bench->gradient, sizeof call->gradients);
        assert_ok(class->backward_weight(bench->kernel, call, &test_error));
        memset(call->gradients, 0, sizeof call->gradients);
    }
    for (int i = 0; i < p->node->input_count; i++) {
        call->input_gradient[i] = p->in_place ? output_gradient : take(bench, p->inputs[i] * 4);
    }
    bool has_input = class->backward_input != NULL;
    if (has_input) assert_ok(class->backward_input(bench->kernel, call, &test_error));
    for (int i = 0; i < p->node->input_count && has_input; i++) {
        answer->input_gradient[i] = copy_floats(call->input_gradient[i], p->inputs[i]);
    }
    for (int i = 0; i < p->node->parameter_count; i++) {
        if (p->statistic[i]) continue;
        answer->gradient[i] = new_floats(p->parameters[i]);
        if (class->export != NULL) {
            assert_ok(class->export(bench->kernel, i, bench->gradient[i], answer->gradient[i], &test_error));
        } else {
            memcpy(answer->gradient[i], bench->gradient[i], (size_t)p->parameters[i] * 4);
        }
    }
}

static struct answer solve(struct device *device, const struct problem *p) {
    struct bench bench;
    struct answer answer = {0};
    set_up(&bench, device, p);
    run_forward(&bench, p, &answer);
    if (p->training) run_backward(&bench, p, &answer);
    tear_down(&bench);
    return answer;
}

static struct device *open_device(const char *name) {
    struct device *device = NULL;
    assert_ok(device_open(name, &(struct device_options){.threads = 1}, &device, &test_error));
    if (device->class->attach != NULL) device->class->attach(device);
    return device;
}

/* --------------------------------------------------------- devices compared */

/* Differences are measured against the largest element, or against data of about 1: sums in float lose what is small beside. */
static void assert_close(const char *what, const char *name, uint64_t number, const float *wanted, const float *got,
                         int64_t count, double tolerance) {
    double largest = 0.05;
    for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs((double)wanted[i]));
    for (int64_t i = 0; i < count; i++) {
        double difference = fabs((double)got[i] - (double)wanted[i]);
        if (difference <= tolerance * largest) continue;
        fail_msg("%s, case %llu: %s[%lld] is %g, not %g (largest %g)", name, (unsigned long long)number, what, (long long)i,
                 (double)got[i], (double)wanted[i], largest);
    }
}

static void compare(const char *name, uint64_t number, const struct problem *p, const struct answer *wanted,
                    const struct answer *got) {
    assert_close("output", name, number, wanted->output, got->output, p->output, 2e-5);
    assert_int_equal(got->correct, wanted->correct);
    assert_int_equal(got->correct5, wanted->correct5);
    assert_true(got->correct5 >= got->correct);
    assert_true(fabs(got->loss - wanted->loss) <= 1e-5 * (1 + fabs(wanted->loss)));
    for (int i = 0; i < p->node->parameter_count; i++) {
        if (p->statistic[i])
            assert_close("statistic", name, number, wanted->statistic[i], got->statistic[i], p->parameters[i], 2e-5);
        else if (p->training)
            assert_close("gradient", name, number, wanted->gradient[i], got->gradient[i], p->parameters[i], 1e-4);
    }
    for (int i = 0; i < p->node->input_count && p->training; i++) {
        assert_int_equal(wanted->input_gradient[i] == NULL, got->input_gradient[i] == NULL);
        if (wanted->input_gradient[i] == NULL || is_mask(p->node, i)) continue;
        assert_close("input gradient", name, number, wanted->input_gradient[i], got->input_gradient[i], p->inputs[i], 1e-4);
    }
}

static void compare_case(struct device *device, struct device *reference, size_t which) {
    char name[96];
    snprintf(name, sizeof name, "%s on %s", cases[which].name, device->class->name);
    for (uint64_t r = 0; r < REPEATS; r++) {
        uint64_t number = which * 100 + r;
        struct problem p = make_problem(&cases[which], number);
        for (int training = 1; training >= 0; training--) {
            p.training = training == 1;
            struct answer wanted = solve(reference, &p), got = solve(device, &p), again = solve(device, &p);
            compare(name, number, &p, &wanted, &got);
            assert_memory_equal(got.output, again.output, (size_t)p.output * 4);
            free_answer(&wanted);
            free_answer(&got);
            free_answer(&again);
        }
        free_problem(&p);
    }
}

static void test_devices_agree(void **state) {
    (void)state;
    struct device *reference = open_device("reference");
    for (int i = 0; device_table[i] != NULL; i++) {
        if (!device_table[i]->real || device_table[i] == reference->class) continue;
        struct device *device = open_device(device_table[i]->name);
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) compare_case(device, reference, c);
        device_close(device);
    }
    device_close(reference);
}

/* Every operator that a device computes is in the list of cases, and `reference` computes all but those that nobody does. */
static void test_cases_complete(void **state) {
    (void)state;
    bool tested[OPERATOR_COUNT] = {[OPERATOR_INPUT] = true, [OPERATOR_OPAQUE] = true};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct problem p = make_problem(&cases[c], c * 100);
        tested[p.node->id] = true;
        free_problem(&p);
    }
    for (int id = 0; id < OPERATOR_COUNT; id++) {
        if (!(operator_get((enum operator_id)id)->flags & OPERATOR_VIEW)) assert_true(tested[id]);
    }
}

/* ------------------------------------------------------ finite differences */

/* What is differentiated: the loss, or the output's product with the output gradient. */
static double objective(struct device *device, const struct problem *p) {
    struct bench bench;
    struct answer answer = {0};
    set_up(&bench, device, p);
    run_forward(&bench, p, &answer);
    double sum = 0.25 * answer.loss;
    bool loss = (operator_get(p->node->id)->flags & OPERATOR_LOSS) != 0;
    for (int64_t i = 0; i < p->output && !loss; i++) sum += (double)answer.output[i] * (double)p->output_gradient[i];
    free_answer(&answer);
    tear_down(&bench);
    return sum;
}

static void check_derivatives(struct device *device, const struct problem *p, const char *what, float *values,
                              const float *gradient, int64_t count, struct draw *d) {
    double largest = 0.1;
    for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs((double)gradient[i]));
    for (int k = 0; k < 6; k++) {
        int64_t i = draw(d, 0, (int)count - 1);
        float kept = values[i], up = kept + 0.01f, down = kept - 0.01f;
        values[i] = up;
        double above = objective(device, p);
        values[i] = down;
        double below = objective(device, p);
        values[i] = kept;
        double slope = (above - below) / ((double)up - (double)down);
        if (fabs(slope - (double)gradient[i]) <= 5e-3 * largest) continue;
        fail_msg("%s: gradient of %s[%lld] is %g, the slope %g", p->node->name, what, (long long)i, (double)gradient[i], slope);
    }
}

static void test_finite_differences(void **state) {
    (void)state;
    struct device *reference = open_device("reference");
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        for (uint64_t r = 0; r < REPEATS; r++) {
            struct problem p = make_problem(&cases[c], c * 100 + r);
            p.relu_follows = false;          /* the node alone */
            if (p.node->attributes.padded) { /* padding has no gradient on purpose */
                free_problem(&p);
                continue;
            }
            struct answer answer = solve(reference, &p);
            struct draw d = {test_key(c * 100 + r + 50), 0};
            for (int i = 0; i < p.node->input_count; i++) {
                if (answer.input_gradient[i] == NULL || is_mask(p.node, i)) continue;
                check_derivatives(reference, &p, cases[c].name, p.input[i], answer.input_gradient[i], p.inputs[i], &d);
            }
            for (int i = 0; i < p.node->parameter_count; i++) {
                if (p.statistic[i]) continue;
                check_derivatives(reference, &p, cases[c].name, p.parameter[i], answer.gradient[i], p.parameters[i], &d);
            }
            free_answer(&answer);
            free_problem(&p);
        }
    }
    device_close(reference);
}

/* A gradient that nobody needs is not computed. */
static void test_unwanted_gradients(void **state) {
    (void)state;
    for (int i = 0; device_table[i] != NULL; i++) {
        if (!device_table[i]->real) continue;
        struct device *device = open_device(device_table[i]->name);
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            struct problem p = make_problem(&cases[c], c * 100 + 3);
            struct bench bench;
            struct answer answer = {0}, all = solve(device, &p);
            set_up(&bench, device, &p);
            run_forward(&bench, &p, &answer);
            if (p.node->input_count > 1) {
                int last = p.node->input_count - 1;
                hide_unread(&bench, operator_get(p.node->id)->flags);
                bench.call.output_gradient = take_copy(&bench, p.output_gradient, p.output);
                bench.call.input_gradient[last] = take(&bench, p.inputs[last] * 4);
                const struct kernel_class *class = bench.kernel->class;
                if (class->backward_shared != NULL) {
                    assert_ok(class->backward_shared(bench.kernel, &bench.call, &test_error));
                }
                assert_ok(bench.kernel->class->backward_input(bench.kernel, &bench.call, &test_error));
                assert_memory_equal(bench.call.input_gradient[last], all.input_gradient[last], (size_t)p.inputs[last] * 4);
            }
            tear_down(&bench);
            free_answer(&answer);
            free_answer(&all);
            free_problem(&p);
        }
        device_close(device);
    }
}

/* ------------------------------------------------------------------ update */

enum { UPDATED = 1003 };

struct update {
    float weights[UPDATED], predicted[UPDATED], moments[OPTIMIZER_MOMENTS_MAX][UPDATED];
};

/* Two updates, where the rule can with a prediction each and another alone at last; by the device, or (NULL) by the rule. */
static void apply(struct device *device, const struct optimizer *rule, struct update *update, float *ahead) {
    static float gradient[UPDATED];
    struct optimizer_settings settings = rule->defaults;
    memset(update, 0, sizeof *update);
    bool predicts = rule->predict != NULL;
    for (int step = 1; step <= (predicts ? 3 : 2); step++) {
        for (uint64_t i = 0; i < UPDATED; i++) {
            gradient[i] = random_normal(test_key(7000 + (uint64_t)step), i);
            if (step == 1) update->weights[i] = random_normal(test_key(7000), i);
        }
        struct optimizer_call call = {.count = UPDATED,
                                      .weights = update->weights,
                                      .updated = update->weights,
                                      .gradient = gradient,
                                      .moment = {update->moments[0], update->moments[1]},
                                      .predicted = !predicts  ? NULL
                                                   : step < 3 ? update->predicted
                                                              : ahead,
                                      .lr = 0.01,
                                      .step = step < 3 ? step : 2,
                                      .ahead = {0.03, 0.99}};
        bool predict_only = step == 3;
        if (device != NULL)
            device->class->update(device, rule, &settings, &call, predict_only, 0);
        else
            (predict_only ? rule->predict : rule->update)(&settings, &call);
    }
}

/* A device updates as the optimizer says, bit for bit. */
static void test_updates(void **state) {
    (void)state;
    static struct update wanted, got;
    static float wanted_ahead[UPDATED], got_ahead[UPDATED];
    for (int i = 0; device_table[i] != NULL; i++) {
        if (!device_table[i]->real) continue;
        struct device *device = open_device(device_table[i]->name);
        for (int o = 0; optimizer_table[o] != NULL; o++) {
            apply(NULL, optimizer_table[o], &wanted, wanted_ahead);
            apply(device, optimizer_table[o], &got, got_ahead);
            assert_memory_equal(&wanted, &got, sizeof got);
            assert_memory_equal(wanted_ahead, got_ahead, sizeof got_ahead);
        }
        device_close(device);
    }
}

/* ----------------------------------------------------------------- devices */

static void test_device_table(void **state) {
    (void)state;
    struct device *device = NULL;
    struct device_options options = {.threads = 1};
    assert_status(device_open("cpuu", &options, &device, &test_error), PS_USAGE, "did you mean 'cpu'");
    options.threads = 0;
    assert_status(device_open("cpu", &options, &device, &test_error), PS_USAGE, "0 threads");
    assert_null(device);
    for (int i = 0; device_table[i] != NULL; i++) {
        assert_true(strlen(device_table[i]->summary) > 10);
        device = open_device(device_table[i]->name);
        assert_ptr_equal(device->class, device_table[i]);
        assert_int_equal(device->threads, 1);
        device_close(device);
    }
    device_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_device_table),       cmocka_unit_test(test_cases_complete),
        cmocka_unit_test(test_finite_differences), cmocka_unit_test(test_devices_agree),
        cmocka_unit_test(test_unwanted_gradients), cmocka_unit_test(test_updates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
