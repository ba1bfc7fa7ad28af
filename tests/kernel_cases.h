/* Every operator in small random forms: what the tests of kernels go through. A case builds a graph whose node `node` is looked
 * at. */
#ifndef PENSTOCK_TESTS_KERNEL_CASES_H
#define PENSTOCK_TESTS_KERNEL_CASES_H

#include "base/random.h"
#include "graph/model.h"

enum { REPEATS = 10, SAMPLES_MAX = 5, POSITIONS_MAX = 7 };

/* Draws numbers from a stream one after the other. */
struct draw {
    struct random_key key;
    uint64_t index;
};

static inline int draw(struct draw *draw, int low, int high) {
    return low + (int)random_below(draw->key, draw->index++, (uint64_t)(high - low + 1));
}

static inline int draw_image(struct builder *b, struct draw *d) {
    return build_input(b, draw(d, 1, 9), draw(d, 3, 9), draw(d, 3, 9));
}

static inline int add_one(struct builder *b, enum operator_id id, const struct attributes *attributes, int input) {
    return graph_add(b->graph, id, "node", attributes, &input, 1, b->error);
}

static inline struct attributes draw_window(struct draw *d) {
    struct attributes a = {.kernel_h = draw(d, 1, 3), .kernel_w = draw(d, 1, 3), .stride_h = draw(d, 1, 3)};
    a.stride_w = draw(d, 1, 3);
    a.pad_h = draw(d, 0, a.kernel_h / 2);
    a.pad_w = draw(d, 0, a.kernel_w / 2);
    return a;
}

static inline int case_convolution(struct builder *b, struct draw *d) {
    struct attributes a = draw_window(d);
    a.channels = draw(d, 1, 20);
    a.bias = draw(d, 0, 1) == 1;
    return add_one(b, OPERATOR_CONVOLUTION, &a, draw_image(b, d));
}

/* Dilated, with other padding after a side than before it, in groups or one channel a group. */
static inline struct attributes draw_wide_window(struct draw *d) {
    struct attributes a = draw_window(d);
    a.dilation_h = draw(d, 1, 2);
    a.dilation_w = draw(d, 1, 3);
    a.pad_extra_h = draw(d, -a.pad_h, 2);
    a.pad_extra_w = draw(d, -a.pad_w, 2);
    return a;
}

static inline int case_convolution_dilated(struct builder *b, struct draw *d) {
    struct attributes a = draw_wide_window(d);
    a.groups = draw(d, 1, 2);
    a.channels = a.groups * draw(d, 1, 20);
    a.bias = draw(d, 0, 1) == 1;
    return add_one(b, OPERATOR_CONVOLUTION, &a, build_input(b, a.groups * draw(d, 1, 9), draw(d, 5, 9), draw(d, 7, 9)));
}

static inline int case_depthwise(struct builder *b, struct draw *d) {
    struct attributes a = draw_wide_window(d);
    a.kernel_h = draw(d, 1, 5);
    a.kernel_w = draw(d, 2, 7);
    a.dilation_h = a.dilation_w = draw(d, 1, 2);
    a.groups = a.channels = draw(d, 2, 90);
    a.bias = draw(d, 0, 1) == 1;
    return add_one(b, OPERATOR_CONVOLUTION, &a, build_input(b, a.channels, draw(d, 9, 12), draw(d, 13, 15)));
}

static inline int case_convolution_sequence(struct builder *b, struct draw *d) {
    struct attributes a = {.kernel_h = draw(d, 1, 3), .kernel_w = 1, .pad_h = draw(d, 0, 1), .bias = true, .dims = 1};
    a.channels = draw(d, 1, 20);
    a.dilation_h = draw(d, 1, 2);
    a.dilation_w = 1;
    return add_one(b, OPERATOR_CONVOLUTION, &a, build_input(b, draw(d, 1, 9), draw(d, 5, 9), 1));
}

static inline int case_deconvolution(struct builder *b, struct draw *d) {
    struct attributes a = draw_wide_window(d);
    bool depthwise = draw(d, 0, 3) == 0;
    a.groups = draw(d, 1, 3);
    a.channels = a.groups * (depthwise ? 1 : draw(d, 1, 9));
    a.bias = draw(d, 0, 1) == 1;
    a.output_pad_h = draw(d, 0, a.stride_h - 1);
    a.output_pad_w = draw(d, 0, a.stride_w - 1);
    int channels = a.groups * (depthwise ? 1 : draw(d, 1, 9));
    return add_one(b, OPERATOR_DECONVOLUTION, &a, build_input(b, channels, draw(d, 4, 7), draw(d, 4, 7)));
}

static inline int case_groups(struct builder *b, struct draw *d) {
    struct attributes a = draw_window(d);
    a.groups = draw(d, 2, 4);
    a.channels = a.groups * draw(d, 1, 4);
    a.bias = true;
    int input = build_input(b, a.groups * draw(d, 1, 4), draw(d, 3, 9), draw(d, 3, 9));
    return add_one(b, OPERATOR_CONVOLUTION, &a, input);
}

static inline int case_convolution_relu(struct builder *b, struct draw *d) {
    int node = case_convolution(b, d);
    build_relu(b, node, "relu");
    return node;
}

static inline int case_linear(struct builder *b, struct draw *d) {
    struct attributes a = {.channels = draw(d, 1, 40), .bias = draw(d, 0, 1) == 1};
    return add_one(b, OPERATOR_LINEAR, &a, build_input(b, draw(d, 1, 50), 0, 0));
}

/* Weights as GPT-2 has them. */
static inline int case_linear_transposed(struct builder *b, struct draw *d) {
    struct attributes a = {.channels = draw(d, 1, 40), .bias = draw(d, 0, 1) == 1, .transposed = true};
    return add_one(b, OPERATOR_LINEAR, &a, build_input(b, draw(d, 1, 50), 0, 0));
}

static inline int case_linear_relu(struct builder *b, struct draw *d) {
    int node = case_linear(b, d);
    build_relu(b, node, "relu");
    return node;
}

/* Columns of the weights are in another order than the features in memory. */
static inline int case_linear_flattened(struct builder *b, struct draw *d) {
    return build_linear(b, build_flatten(b, draw_image(b, d), "flatten"), "node", draw(d, 1, 30));
}

static inline int case_max_pool(struct builder *b, struct draw *d) {
    struct attributes a = draw_window(d);
    return add_one(b, OPERATOR_MAX_POOL, &a, draw_image(b, d));
}

static inline int case_average_pool(struct builder *b, struct draw *d) {
    struct attributes a = draw_window(d);
    a.count_padding = draw(d, 0, 1) == 1;
    return add_one(b, OPERATOR_AVERAGE_POOL, &a, draw_image(b, d));
}

static inline int case_max_pool_ceiling(struct builder *b, struct draw *d) {
    struct attributes a = draw_window(d);
    a.ceiling = true;
    return add_one(b, OPERATOR_MAX_POOL, &a, draw_image(b, d));
}

static inline int case_average_pool_ceiling(struct builder *b, struct draw *d) {
    struct attributes a = draw_window(d);
    a.ceiling = true;
    a.count_padding = draw(d, 0, 1) == 1;
    return add_one(b, OPERATOR_AVERAGE_POOL, &a, draw_image(b, d));
}

/* Every window covers a pixel: so much padding and so large steps that rarely one does not. */
static inline struct attributes draw_wide_pool(struct draw *d) {
    struct attributes a = draw_wide_window(d);
    a.kernel_h = draw(d, 2, 3);
    a.kernel_w = draw(d, 2, 3);
    a.pad_h = draw(d, 0, a.kernel_h - 1);
    a.pad_w = draw(d, 0, a.kernel_w - 1);
    a.pad_extra_h = draw(d, -a.pad_h, a.kernel_h - 1 - a.pad_h);
    a.pad_extra_w = draw(d, -a.pad_w, a.kernel_w - 1 - a.pad_w);
    a.ceiling = draw(d, 0, 3) == 0;
    return a;
}

static inline int case_max_pool_dilated(struct builder *b, struct draw *d) {
    struct attributes a = draw_wide_pool(d);
    return add_one(b, OPERATOR_MAX_POOL, &a, build_input(b, draw(d, 1, 20), draw(d, 7, 9), draw(d, 7, 9)));
}

static inline int case_average_pool_dilated(struct builder *b, struct draw *d) {
    struct attributes a = draw_wide_pool(d);
    a.count_padding = draw(d, 0, 1) == 1;
    if (draw(d, 0, 1) == 0) a.dilation_h = a.dilation_w = 1;
    return add_one(b, OPERATOR_AVERAGE_POOL, &a, build_input(b, draw(d, 1, 20), draw(d, 7, 9), draw(d, 7, 9)));
}

/* Windows of uneven sizes, and more of them than pixels. */
static inline int case_adaptive_pool(struct builder *b, struct draw *d) {
    struct attributes a = {.out_h = draw(d, 1, 7), .out_w = draw(d, 1, 11)};
    return add_one(b, OPERATOR_AVERAGE_POOL, &a, draw_image(b, d));
}

static inline int case_response_norm(struct builder *b, struct draw *d) {
    struct attributes a = {.window = draw(d, 1, 6), .alpha = 0.5f, .beta = draw(d, 0, 1) == 1 ? 0.75f : 0.6f, .shift = 2};
    return add_one(b, OPERATOR_LOCAL_RESPONSE_NORM, &a, draw_image(b, d));
}

static inline int case_response_norm_default(struct builder *b, struct draw *d) {
    struct attributes a = attributes_usual(operator_get(OPERATOR_LOCAL_RESPONSE_NORM));
    return add_one(b, OPERATOR_LOCAL_RESPONSE_NORM, &a, draw_image(b, d));
}

static inline int case_global_pool(struct builder *b, struct draw *d) { return build_global_pool(b, draw_image(b, d), "node"); }

static inline int case_relu(struct builder *b, struct draw *d) { return build_relu(b, draw_image(b, d), "node"); }

static inline int case_relu_in_place(struct builder *b, struct draw *d) {
    int pool = build_max_pool(b, draw_image(b, d), "pool", 1, 1, 0);
    return build_relu(b, pool, "node");
}

static inline int case_batch_norm(struct builder *b, struct draw *d) { return build_batch_norm(b, draw_image(b, d), "node"); }

static inline int case_batch_norm_double(struct builder *b, struct draw *d) {
    struct attributes a = {.epsilon = 1e-5f, .momentum = 0.25f * (float)draw(d, 0, 4), .double_precision = true};
    a.weight = draw(d, 0, 2) > 0;
    a.bias = draw(d, 0, 2) > 0;
    int node = add_one(b, OPERATOR_BATCH_NORM, &a, draw_image(b, d));
    if (draw(d, 0, 1) == 1) build_relu(b, node, "relu");
    return node;
}

static inline int case_batch_norm_vector(struct builder *b, struct draw *d) {
    return build_batch_norm(b, build_input(b, draw(d, 1, 20), 0, 0), "node");
}

static inline int case_batch_norm_relu(struct builder *b, struct draw *d) {
    int node = case_batch_norm(b, d);
    build_relu(b, node, "relu");
    return node;
}

static inline int case_add(struct builder *b, struct draw *d) {
    int a = draw_image(b, d), c = build_relu(b, a, "other"), inputs[] = {a, c, a};
    return graph_add(b->graph, OPERATOR_ADD, "node", NULL, inputs, draw(d, 2, 3), b->error);
}

static inline int case_concat(struct builder *b, struct draw *d) {
    int a = draw_image(b, d), c = build_convolution(b, a, "other", draw(d, 1, 9), 1, 1, 0, true), inputs[] = {c, a, c, a};
    return build_concat(b, inputs, draw(d, 1, 4), "node");
}

static inline int case_concat_vectors(struct builder *b, struct draw *d) {
    int a = build_input(b, draw(d, 1, 20), 0, 0), c = build_linear(b, a, "other", draw(d, 1, 20));
    return build_concat(b, (const int[]){a, c}, 2, "node");
}

static inline int case_dropout(struct builder *b, struct draw *d) {
    return build_dropout(b, draw_image(b, d), "node", (float)draw(d, 1, 9) / 10);
}

static inline int case_dropout_in_place(struct builder *b, struct draw *d) {
    int pool = build_max_pool(b, draw_image(b, d), "pool", 1, 1, 0);
    return build_dropout(b, pool, "node", 0.5f);
}

static inline int case_cross_entropy(struct builder *b, struct draw *d) {
    struct attributes a = {.smoothing = draw(d, 0, 1) == 1 ? 0.1f : 0};
    return add_one(b, OPERATOR_CROSS_ENTROPY, &a, build_input(b, draw(d, 2, 30), 0, 0));
}

static inline int case_cross_entropy_image(struct builder *b, struct draw *d) {
    struct attributes a = {.smoothing = draw(d, 0, 1) == 1 ? 0.1f : 0};
    return add_one(b, OPERATOR_CROSS_ENTROPY, &a, build_input(b, draw(d, 2, 9), draw(d, 2, 5), draw(d, 2, 5)));
}

static inline int case_cross_entropy_weighted(struct builder *b, struct draw *d) {
    float weights[9];
    const int classes = draw(d, 2, 9);
    struct attributes a = {.smoothing = draw(d, 0, 1) == 1 ? 0.1f : 0};
    for (int c = 0; c < classes; c++) weights[c] = 0.25f * (float)draw(d, 1, 12);
    if (graph_weigh_classes(b->graph, weights, classes, b->error) != PS_OK) return -1;
    return add_one(b, OPERATOR_CROSS_ENTROPY, &a, build_input(b, classes, draw(d, 1, POSITIONS_MAX), 1));
}

static inline int case_mse(struct builder *b, struct draw *d) { return add_one(b, OPERATOR_MSE, NULL, draw_image(b, d)); }

static inline int case_l1(struct builder *b, struct draw *d) { return add_one(b, OPERATOR_L1, NULL, draw_image(b, d)); }

static inline int case_bce(struct builder *b, struct draw *d) {
    return add_one(b, OPERATOR_BCE, NULL, build_input(b, draw(d, 1, 2000), 0, 0));
}

/* ------------------------------------------------------------ sequences */

static inline int draw_sequence(struct builder *b, struct draw *d) {
    return build_input(b, draw(d, 1, 9), draw(d, 1, POSITIONS_MAX), 1);
}

static inline int case_linear_sequence(struct builder *b, struct draw *d) {
    struct attributes a = {.channels = draw(d, 1, 20), .bias = draw(d, 0, 1) == 1};
    return add_one(b, OPERATOR_LINEAR, &a, draw_sequence(b, d));
}

static inline int case_cross_entropy_sequence(struct builder *b, struct draw *d) {
    struct attributes a = {.smoothing = draw(d, 0, 1) == 1 ? 0.1f : 0};
    return add_one(b, OPERATOR_CROSS_ENTROPY, &a, build_input(b, draw(d, 2, 30), draw(d, 2, POSITIONS_MAX), 1));
}

static inline int case_embedding(struct builder *b, struct draw *d) {
    return build_embedding(b, build_tokens(b, draw(d, 1, POSITIONS_MAX)), "node", draw(d, 1, 20), draw(d, 1, 20));
}

static inline int case_embedding_padded(struct builder *b, struct draw *d) {
    struct attributes a = {.channels = draw(d, 1, 9), .vocabulary = draw(d, 2, 5), .padded = true};
    a.padding = draw(d, 0, a.vocabulary - 1);
    return add_one(b, OPERATOR_EMBEDDING, &a, build_tokens(b, draw(d, 2, POSITIONS_MAX)));
}

static inline int case_slice(struct builder *b, struct draw *d) {
    struct attributes a = {.first = draw(d, 0, 3), .axis = 1};
    a.count = draw(d, 1, 4);
    return add_one(b, OPERATOR_SLICE, &a, build_input(b, draw(d, 1, 9), a.first + a.count + draw(d, 0, 3), 1));
}

static inline int case_slice_tokens(struct builder *b, struct draw *d) {
    int positions = draw(d, 2, POSITIONS_MAX);
    return build_slice(b, build_tokens(b, positions), "node", draw(d, 0, 1), positions - 1);
}

static inline int case_concat_tokens(struct builder *b, struct draw *d) {
    int tokens = build_tokens(b, draw(d, 1, POSITIONS_MAX));
    return build_concat(b, (const int[]){tokens, tokens, tokens}, draw(d, 1, 3), "node");
}

static inline int add_lstm(struct builder *b, struct draw *d, const int *inputs, int count) {
    struct attributes a = {.channels = draw(d, 1, 20), .reverse = draw(d, 0, 1) == 1};
    return graph_add(b->graph, OPERATOR_LSTM, "node", &a, inputs, count, b->error);
}

static inline int case_lstm(struct builder *b, struct draw *d) {
    return add_lstm(b, d, (const int[]){build_input(b, draw(d, 1, 20), draw(d, 1, 7), 1)}, 1);
}

/* The tokens are the input; a layer makes features of them. */
static inline int case_lstm_padded(struct builder *b, struct draw *d) {
    int tokens = build_tokens(b, draw(d, 1, 7)), x = build_embedding(b, tokens, "x", 5, draw(d, 1, 9));
    return add_lstm(b, d, (const int[]){x, tokens}, 2);
}

static inline int case_additive_attention(struct builder *b, struct draw *d) {
    int keys = draw(d, 1, 7), units = draw(d, 2, 40), tokens = build_tokens(b, keys);
    struct attributes a = {0};
    int key = build_embedding(b, tokens, "key", 5, units);
    int value = build_embedding(b, tokens, "value", 5, draw(d, 1, 20));
    int query = build_slice(b, key, "query", 0, draw(d, 1, keys));
    return graph_add(b->graph, OPERATOR_ADDITIVE_ATTENTION, "node", &a, (const int[]){query, key, value, tokens}, draw(d, 3, 4),
                     b->error);
}

static inline int case_position_embedding(struct builder *b, struct draw *d) {
    int input = draw_sequence(b, d);
    struct attributes a = {.everywhere = draw(d, 0, 2) == 0};
    a.count = draw(d, 0, 3) + (a.everywhere ? 1 : (int)b->graph->nodes[input].shape.dim[1]);
    return add_one(b, OPERATOR_POSITION_EMBEDDING, &a, input);
}

static inline int case_position_embedding_in_place(struct builder *b, struct draw *d) {
    int x = build_embedding(b, build_tokens(b, draw(d, 1, POSITIONS_MAX)), "x", 5, draw(d, 1, 9));
    return build_position_embedding(b, x, "node", POSITIONS_MAX);
}

static inline int case_layer_norm(struct builder *b, struct draw *d) {
    return build_layer_norm(b, build_input(b, draw(d, 3, 40), draw(d, 1, POSITIONS_MAX), 1), "node", 0.01f);
}

static inline int case_layer_norm_vector(struct builder *b, struct draw *d) {
    return build_layer_norm(b, build_input(b, draw(d, 3, 20), 0, 0), "node", 0.01f);
}

static inline int case_gelu(struct builder *b, struct draw *d) { return build_gelu(b, draw_image(b, d), "node", false); }

static inline int case_gelu_tanh(struct builder *b, struct draw *d) { return build_gelu(b, draw_sequence(b, d), "node", true); }

/* Queries, keys and values side by side in the data. */
/* All heads, or a part of them as of a layer that was split. */
static inline void draw_heads(struct draw *d, struct attributes *a) {
    int key_heads = a->key_heads > 0 ? a->key_heads : a->heads, group = a->heads / key_heads, kept = draw(d, 1, key_heads);
    if (draw(d, 0, 1) == 0) return;
    a->count = a->heads;
    a->first = group * draw(d, 0, key_heads - kept);
    a->heads = group * kept;
    if (a->key_heads > 0) a->key_heads = kept;
}

static inline int case_attention_packed(struct builder *b, struct draw *d) {
    struct attributes a = {.heads = draw(d, 1, 3), .causal = draw(d, 0, 1) == 1, .rate = (float)draw(d, 0, 1) * 0.3f};
    int x = build_input(b, 3 * a.heads * draw(d, 1, 6), draw(d, 1, POSITIONS_MAX), 1);
    draw_heads(d, &a);
    return add_one(b, OPERATOR_ATTENTION, &a, x);
}

/* From one sequence to another; the padding of the keys is not seen. */
static inline int case_attention_padded(struct builder *b, struct draw *d) {
    struct attributes a = {.heads = draw(d, 1, 3), .rate = (float)draw(d, 0, 1) * 0.3f};
    int features = a.heads * draw(d, 1, 6), keys = draw(d, 1, POSITIONS_MAX), queries = draw(d, 1, keys);
    int tokens = build_tokens(b, keys), x = build_embedding(b, tokens, "x", 5, features);
    int query = build_slice(b, x, "query", 0, queries), value = build_linear(b, x, "value", features);
    return graph_add(b->graph, OPERATOR_ATTENTION, "node", &a, (const int[]){query, x, value, tokens}, draw(d, 3, 4), b->error);
}

static inline int case_attention_causal(struct builder *b, struct draw *d) {
    struct attributes a = {.heads = draw(d, 1, 3), .causal = true};
    int tokens = build_tokens(b, draw(d, 1, POSITIONS_MAX)), x = build_embedding(b, tokens, "x", 5, a.heads * draw(d, 1, 6));
    int key = build_gelu(b, x, "key", false), value = build_gelu(b, x, "value", true);
    return graph_add(b->graph, OPERATOR_ATTENTION, "node", &a, (const int[]){x, key, value, tokens}, 4, b->error);
}

/* The mask is of integers or of numbers, the same for all heads or queries or not, and heads share keys and values. */
static inline int case_attention_masked(struct builder *b, struct draw *d) {
    struct attributes a = {.heads = draw(d, 1, 6), .rate = (float)draw(d, 0, 1) * 0.3f, .scale = (float)draw(d, 0, 1) * 0.8f};
    a.key_heads = draw(d, 1, a.heads);
    while (a.heads % a.key_heads != 0) a.key_heads--;
    a.cap = (float)draw(d, 0, 1) * 1.5f;
    int each = draw(d, 1, 5), keys = draw(d, 1, POSITIONS_MAX), queries = draw(d, 1, POSITIONS_MAX);
    a.causal = queries == keys;
    struct attributes mask = {.sides = {3, {keys, draw(d, 0, 1) == 1 ? a.heads : 1, draw(d, 0, 1) == 1 ? queries : 1}}};
    mask.type = draw(d, 0, 2) == 0 ? TYPE_I32 : TYPE_F32;
    struct attributes key = {.sides = {3, {a.key_heads * each, keys, 1}}};
    struct attributes value = {.sides = {3, {a.key_heads * draw(d, 1, 4), keys, 1}}};
    int inputs[] = {build_input(b, a.heads * each, queries, 1),
                    graph_add(b->graph, OPERATOR_INPUT, "key", &key, NULL, 0, b->error),
                    graph_add(b->graph, OPERATOR_INPUT, "value", &value, NULL, 0, b->error),
                    graph_add(b->graph, OPERATOR_INPUT, "mask", &mask, NULL, 0, b->error)};
    draw_heads(d, &a);
    return graph_add(b->graph, OPERATOR_ATTENTION, "node", &a, inputs, 4, b->error);
}

/* Heads side by side in one input, of keys and values fewer. */
static inline int case_attention_packed_groups(struct builder *b, struct draw *d) {
    struct attributes a = {.key_heads = draw(d, 1, 2), .causal = draw(d, 0, 1) == 1};
    a.heads = a.key_heads * draw(d, 2, 3);
    struct attributes mask = {.sides = {3, {draw(d, 1, POSITIONS_MAX), 1, 1}}};
    int features = (a.heads + 2 * a.key_heads) * draw(d, 1, 6), x = build_input(b, features, mask.sides.at[0], 1);
    draw_heads(d, &a);
    if (draw(d, 0, 1) == 0) return add_one(b, OPERATOR_ATTENTION, &a, x);
    int inputs[] = {x, graph_add(b->graph, OPERATOR_INPUT, "mask", &mask, NULL, 0, b->error)};
    return graph_add(b->graph, OPERATOR_ATTENTION, "node", &a, inputs, 2, b->error);
}

static inline int case_rms_norm(struct builder *b, struct draw *d) {
    struct attributes a = {.epsilon = 0.01f, .weight = draw(d, 0, 2) > 0};
    return add_one(b, OPERATOR_RMS_NORM, &a, draw_image(b, d));
}

static inline int case_layer_norm_plain(struct builder *b, struct draw *d) {
    struct attributes a = {.epsilon = 0.01f, .weight = draw(d, 0, 1) > 0};
    return add_one(b, OPERATOR_LAYER_NORM, &a, build_input(b, draw(d, 3, 20), draw(d, 1, 4), draw(d, 1, 4)));
}

static inline int case_group_norm(struct builder *b, struct draw *d) {
    struct attributes a = {.groups = draw(d, 1, 4), .epsilon = 0.01f, .weight = draw(d, 0, 2) > 0};
    a.bias = a.weight && draw(d, 0, 2) > 0;
    return add_one(b, OPERATOR_GROUP_NORM, &a, build_input(b, a.groups * draw(d, 1, 9), draw(d, 3, 5), draw(d, 2, 5)));
}

/* Tables given or computed, all features of a head or some, halves or neighbours. */
static inline int case_rotary(struct builder *b, struct draw *d) {
    struct attributes a = {.heads = draw(d, 1, 3), .base = 100, .features = 2 * draw(d, 1, 2), .first = draw(d, 0, 3)};
    a.interleaved = draw(d, 0, 1) == 1;
    int each = a.features + draw(d, 0, 2), positions = draw(d, 1, POSITIONS_MAX);
    struct attributes table = {.sides = {3, {a.features / draw(d, 1, 2), positions, 1}}};
    int x = build_input(b, a.heads * each, positions, 1);
    if (draw(d, 0, 1) == 0) return add_one(b, OPERATOR_ROTARY, &a, x);
    int cosine = graph_add(b->graph, OPERATOR_INPUT, "cosine", &table, NULL, 0, b->error);
    int sine = graph_add(b->graph, OPERATOR_INPUT, "sine", &table, NULL, 0, b->error);
    return graph_add(b->graph, OPERATOR_ROTARY, "node", &a, (const int[]){x, cosine, sine}, 3, b->error);
}

/* Without tables nothing else is read, so that it may run in place. */
static inline int case_rotary_in_place(struct builder *b, struct draw *d) {
    struct attributes a = {.heads = draw(d, 1, 3), .base = 100, .features = 2, .interleaved = draw(d, 0, 1) == 1};
    int x = build_input(b, a.heads * draw(d, 2, 5), draw(d, 1, POSITIONS_MAX), 1);
    return add_one(b, OPERATOR_ROTARY, &a, build_max_pool(b, x, "pool", 1, 1, 0));
}

static inline int case_resize(struct builder *b, struct draw *d) {
    struct attributes a = {.out_h = draw(d, 1, 9), .out_w = draw(d, 1, 9), .mode = draw(d, 0, 2)};
    a.coordinates = draw(d, 0, 3);
    a.rounding = draw(d, 0, 3);
    a.cubic = draw(d, 0, 1) == 1 ? -0.5f : -0.75f;
    a.scale_h = draw(d, 0, 2) == 0 ? 1.3f : 0;
    return add_one(b, OPERATOR_RESIZE, &a, draw_image(b, d));
}

static inline int case_pad(struct builder *b, struct draw *d) {
    struct attributes a = {.mode = draw(d, 0, 3), .value = 0.5f}, input = {.sides = {.count = draw(d, 1, 4)}};
    for (int s = 0; s < input.sides.count; s++) {
        input.sides.at[s] = draw(d, 3, 5);
        a.before.at[s] = draw(d, a.mode == PAD_CONSTANT ? -1 : 0, 2);
        a.after.at[s] = draw(d, a.mode == PAD_CONSTANT ? -1 : 0, 2);
    }
    a.before.count = a.after.count = input.sides.count;
    return add_one(b, OPERATOR_PAD, &a, graph_add(b->graph, OPERATOR_INPUT, "data", &input, NULL, 0, b->error));
}

static inline int add_gru(struct builder *b, struct draw *d, const int *inputs, int count) {
    struct attributes a = {.channels = draw(d, 1, 20), .reverse = draw(d, 0, 1) == 1};
    return graph_add(b->graph, OPERATOR_GRU, "node", &a, inputs, count, b->error);
}

static inline int case_gru(struct builder *b, struct draw *d) {
    return add_gru(b, d, (const int[]){build_input(b, draw(d, 1, 20), draw(d, 1, 7), 1)}, 1);
}

static inline int case_gru_padded(struct builder *b, struct draw *d) {
    int tokens = build_tokens(b, draw(d, 1, 7)), x = build_embedding(b, tokens, "x", 5, draw(d, 1, 9));
    return add_gru(b, d, (const int[]){x, tokens}, 2);
}

static inline int case_cast_narrow(struct builder *b, struct draw *d) {
    return build_cast(b, draw_image(b, d), "node", TYPE_BF16);
}

static inline int case_cast_wide(struct builder *b, struct draw *d) {
    return build_cast(b, build_cast(b, draw_image(b, d), "narrow", TYPE_BF16), "node", TYPE_F32);
}

static inline int case_concat_narrow(struct builder *b, struct draw *d) {
    int x = build_cast(b, draw_image(b, d), "narrow", TYPE_BF16);
    return build_concat(b, (const int[]){x, x, x}, draw(d, 1, 3), "node");
}

static inline int case_slice_narrow(struct builder *b, struct draw *d) {
    int positions = draw(d, 2, POSITIONS_MAX), x = build_input(b, draw(d, 1, 9), positions, 1);
    return build_slice(b, build_cast(b, x, "narrow", TYPE_BF16), "node", draw(d, 0, 1), positions - 1);
}

/* ----------------------------------------------------------------- functions */

/* Where a function is defined and smooth, and its attributes; others are tested from -1 to 1 with alpha 0.7 and beta 0.3. */
struct domain {
    int kind;
    float low, high; /* equal: numbers that are spread, with the function's kinks between them */
    float alpha, beta;
};
static inline struct domain unary_domain(int kind) {
    static const struct domain domains[] = {
        {UNARY_LOG, 0.5f, 4, 1, 0},         {UNARY_SQRT, 0.5f, 4, 1, 0},      {UNARY_RECIPROCAL, 0.5f, 3, 1, 0},
        {UNARY_ASIN, -0.7f, 0.7f, 1, 0},    {UNARY_ACOS, -0.7f, 0.7f, 1, 0},  {UNARY_ACOSH, 1.5f, 4, 1, 0},
        {UNARY_ATANH, -0.7f, 0.7f, 1, 0},   {UNARY_SIGMOID, -9, 9, 1, 0},     {UNARY_TANH, -4, 4, 1, 0},
        {UNARY_SOFTPLUS, -9, 9, 1, 0},      {UNARY_MISH, -9, 9, 1, 0},        {UNARY_SILU, -9, 9, 1, 0},
        {UNARY_SIN, -9, 9, 1, 0},           {UNARY_COS, -9, 9, 1, 0},         {UNARY_ERF, -3, 3, 1, 0},
        {UNARY_ROUND, 0.6f, 1.4f, 1, 0},    {UNARY_POWER, 0.5f, 2, 1.7f, 0},  {UNARY_ABS, 0, 0, 1, 0},
        {UNARY_SIGN, 0, 0, 1, 0},           {UNARY_FLOOR, 0, 0, 1, 0},        {UNARY_CEIL, 0, 0, 1, 0},
        {UNARY_SOFTSIGN, 0, 0, 1, 0},       {UNARY_HARDSWISH, 0, 0, 1, 0},    {UNARY_HARDSIGMOID, 0, 0, 0.25f, 0.5f},
        {UNARY_LEAKY_RELU, 0, 0, 0.01f, 0}, {UNARY_CLIP, 0, 0, -0.4f, 0.6f},  {UNARY_THRESHOLD, 0, 0, 0.4f, 0},
        {UNARY_ELU, 0.1f, 3, 0.8f, 0},      {UNARY_CELU, -3, -0.1f, 0.8f, 0}, {UNARY_SELU, -3, -0.1f, 1, 0},
    };
    for (size_t i = 0; i < sizeof domains / sizeof *domains; i++)
        if (domains[i].kind == kind) return domains[i];
    return (struct domain){kind, -1, 1, 0.7f, 0.3f};
}

static inline struct attributes unary_attributes(int kind) {
    const struct domain domain = unary_domain(kind);
    return (struct attributes){.kind = kind, .alpha = domain.alpha, .beta = domain.beta};
}

#define UNARY(NAME, name, value, slope, reads, flops)                                                                          \
    static inline int case_unary_##name(struct builder *b, struct draw *d) {                                                   \
        struct attributes a = unary_attributes(UNARY_##NAME);                                                                  \
        return add_one(b, OPERATOR_UNARY, &a, draw_image(b, d));                                                               \
    }
#include "graph/functions.def"

/* Where the function reads its output, or nothing, it may run in place. */
static inline int case_unary_in_place(struct builder *b, struct draw *d) {
    static const int kinds[] = {UNARY_SIGMOID, UNARY_NEG, UNARY_CLIP, UNARY_AFFINE};
    struct attributes a = unary_attributes(kinds[draw(d, 0, 3)]);
    int pool = build_max_pool(b, draw_image(b, d), "pool", 1, 1, 0);
    return add_one(b, OPERATOR_UNARY, &a, pool);
}

/* An input of the network of so many sides, each drawn, or from `whole`, or sometimes 1. */
static inline int draw_value(struct builder *b, struct draw *d, const char *name, enum number_type type,
                             const struct integers *whole, int ones) {
    struct attributes a = {.type = type, .sides = *whole};
    for (int s = 0; s < a.sides.count; s++)
        if (draw(d, 1, 100) <= ones) a.sides.at[s] = 1;
    return graph_add(b->graph, OPERATOR_INPUT, name, &a, NULL, 0, b->error);
}

static inline struct integers draw_sides(struct draw *d, int least, int most) {
    struct integers sides = {.count = draw(d, least, most)};
    for (int s = 0; s < sides.count; s++) sides.at[s] = draw(d, 1, s == 0 ? 9 : 4);
    return sides;
}

static inline int add_binary(struct builder *b, struct draw *d, int kind) {
    struct attributes a = {.kind = kind};
    struct integers sides = draw_sides(d, 1, SHAPE_RANK_MAX);
    int ones = draw(d, 0, 2) * 30, left = draw_value(b, d, "left", TYPE_F32, &sides, ones),
        right = draw_value(b, d, "right", TYPE_F32, &sides, ones);
    return graph_add(b->graph, OPERATOR_BINARY, "node", &a, (const int[]){left, right}, 2, b->error);
}

#define BINARY(NAME, name, value, slope_a, slope_b, reads, flops)                                                              \
    static inline int case_binary_##name(struct builder *b, struct draw *d) { return add_binary(b, d, BINARY_##NAME); }
#include "graph/functions.def"

/* Rows longer than the pieces that kernels work in. */
static inline int case_binary_long(struct builder *b, struct draw *d) {
    struct attributes a = {.kind = draw(d, 0, 1) == 1 ? BINARY_MUL : BINARY_SUB};
    struct integers sides = {2, {draw(d, 500, 1300), draw(d, 1, 3)}};
    int left = draw_value(b, d, "left", TYPE_F32, &sides, 40), right = draw_value(b, d, "right", TYPE_F32, &sides, 40);
    return graph_add(b->graph, OPERATOR_BINARY, "node", &a, (const int[]){left, right}, 2, b->error);
}

static inline int case_binary_in_place(struct builder *b, struct draw *d) {
    struct attributes a = {.kind = draw(d, 0, 1) == 1 ? BINARY_ADD : BINARY_SUB};
    int data = draw_image(b, d), left = build_max_pool(b, data, "pool", 1, 1, 0);
    return graph_add(b->graph, OPERATOR_BINARY, "node", &a, (const int[]){left, data}, 2, b->error);
}

/* With a parameter of its own, which may be repeated. */
static inline int add_scaled(struct builder *b, struct draw *d, bool trained) {
    static const int kinds[] = {BINARY_ADD, BINARY_SUB, BINARY_MUL, BINARY_DIV};
    struct attributes a = {.kind = kinds[draw(d, 0, trained ? 2 : 3)], .trained = trained, .swapped = draw(d, 0, 1) == 1};
    struct integers sides = draw_sides(d, 1, SHAPE_RANK_MAX);
    int input = draw_value(b, d, "data", TYPE_F32, &sides, 20), ones = draw(d, 0, 2) * 40;
    a.sides = b->graph->nodes[input].attributes.sides;
    if (a.kind == BINARY_DIV) a.swapped = false;
    for (int s = 0; s < a.sides.count; s++)
        if (draw(d, 1, 100) <= ones) a.sides.at[s] = 1;
    return add_one(b, OPERATOR_BINARY, &a, input);
}

static inline int case_binary_parameter(struct builder *b, struct draw *d) { return add_scaled(b, d, true); }
static inline int case_binary_constant(struct builder *b, struct draw *d) { return add_scaled(b, d, false); }

static inline int case_binary_parameter_in_place(struct builder *b, struct draw *d) {
    int pool = build_max_pool(b, draw_image(b, d), "pool", 1, 1, 0);
    struct attributes a = {.kind = BINARY_ADD, .trained = true, .sides = {3, {1, 1, 1}}};
    if (draw(d, 0, 1) == 1) a.sides.at[0] = (int)b->graph->nodes[pool].shape.dim[0];
    return add_one(b, OPERATOR_BINARY, &a, pool);
}

static inline int case_parameter(struct builder *b, struct draw *d) {
    struct attributes a = {.trained = true, .sides = draw_sides(d, 1, SHAPE_RANK_MAX)};
    struct integers sides = a.sides;
    int input = draw_value(b, d, "data", TYPE_F32, &sides, 50);
    int node = graph_add(b->graph, OPERATOR_PARAMETER, "node", &a, NULL, 0, b->error);
    struct attributes sum = {.kind = BINARY_ADD};
    graph_add(b->graph, OPERATOR_BINARY, "sum", &sum, (const int[]){input, node}, 2, b->error);
    return node;
}

static inline int case_parameter_tokens(struct builder *b, struct draw *d) {
    struct attributes a = {.type = TYPE_I32, .sides = {3, {1, draw(d, 1, POSITIONS_MAX), 1}}};
    build_tokens(b, 3);
    int node = graph_add(b->graph, OPERATOR_PARAMETER, "node", &a, NULL, 0, b->error);
    struct attributes both = {.axis = 1};
    graph_add(b->graph, OPERATOR_CONCAT, "both", &both, (const int[]){0, node}, 2, b->error);
    return node;
}

/* --------------------------------------------------------------- arrangement */

static inline enum number_type draw_type(struct draw *d) {
    static const enum number_type types[] = {TYPE_F32, TYPE_F32, TYPE_I32, TYPE_BF16};
    return types[draw(d, 0, 3)];
}

/* A value of any rank and type. */
static inline int draw_any(struct builder *b, struct draw *d) {
    struct integers sides = draw_sides(d, 1, SHAPE_RANK_MAX);
    enum number_type type = draw_type(d);
    int input = draw_value(b, d, "data", type == TYPE_I32 ? TYPE_I32 : TYPE_F32, &sides, 10);
    return type == TYPE_BF16 ? build_cast(b, input, "narrow", TYPE_BF16) : input;
}

static inline int case_permute(struct builder *b, struct draw *d) {
    int input = draw_any(b, d), rank = b->graph->nodes[input].shape.rank;
    struct attributes a = {.order = {rank, {0, 1, 2, 3, 4, 5}}};
    for (int i = rank - 1; i > 0; i--) {
        int j = draw(d, 0, i), kept = a.order.at[i];
        a.order.at[i] = a.order.at[j];
        a.order.at[j] = kept;
    }
    return add_one(b, OPERATOR_PERMUTE, &a, input);
}

/* Larger than the tiles that kernels work in. */
static inline int case_permute_large(struct builder *b, struct draw *d) {
    struct integers sides = {3, {draw(d, 15, 40), draw(d, 15, 40), draw(d, 1, 3)}};
    struct attributes a = {.order = {3, {1, 0, 2}}};
    return add_one(b, OPERATOR_PERMUTE, &a, draw_value(b, d, "data", TYPE_F32, &sides, 0));
}

static inline int case_slice_axis(struct builder *b, struct draw *d) {
    int input = draw_any(b, d);
    struct attributes a = {.axis = draw(d, 0, b->graph->nodes[input].shape.rank - 1), .step = draw(d, -2, 2)};
    int all = (int)b->graph->nodes[input].shape.dim[a.axis];
    if (a.step == 0) a.step = 1;
    a.first = draw(d, 0, all - 1);
    a.count = draw(d, 1, a.step > 0 ? (all - 1 - a.first) / a.step + 1 : a.first / -a.step + 1);
    return add_one(b, OPERATOR_SLICE, &a, input);
}

static inline int case_concat_axis(struct builder *b, struct draw *d) {
    int inputs[GRAPH_INPUTS_MAX], count = draw(d, 1, draw(d, 0, 1) == 1 ? GRAPH_INPUTS_MAX : 3), data = draw_any(b, d);
    struct attributes a = {.axis = draw(d, 0, b->graph->nodes[data].shape.rank - 1)};
    struct attributes part = {.axis = a.axis, .count = 1};
    int one = graph_add(b->graph, OPERATOR_SLICE, "one", &part, &data, 1, b->error);
    for (int i = 0; i < count; i++) inputs[i] = i % 3 == 1 ? one : data;
    if (count < 2) inputs[count++] = one;
    return graph_add(b->graph, OPERATOR_CONCAT, "node", &a, inputs, count, b->error);
}

static inline int case_expand(struct builder *b, struct draw *d) {
    struct attributes a = {.sides = draw_sides(d, 1, SHAPE_RANK_MAX)};
    enum number_type type = draw(d, 0, 3) == 0 ? TYPE_I32 : TYPE_F32;
    return add_one(b, OPERATOR_EXPAND, &a, draw_value(b, d, "data", type, &a.sides, 50));
}

/* ------------------------------------------------- products, rows, reductions */

/* Matrices, some of them transposed and some repeated. */
static inline int case_matmul(struct builder *b, struct draw *d) {
    struct attributes a = {
        .transpose_a = draw(d, 0, 1) == 1, .transpose_b = draw(d, 0, 1) == 1, .scale = draw(d, 0, 1) == 1 ? 0.5f : 1};
    struct integers left = {.count = draw(d, 2, 5)}, right;
    int rows = draw(d, 1, 9), columns = draw(d, 1, 9), inner = draw(d, 1, 20), last = left.count - 1, ones = draw(d, 0, 1) * 40;
    for (int s = 1; s < last; s++) left.at[s] = draw(d, 1, 3);
    right = left;
    for (int s = 1; s < last; s++) {
        if (draw(d, 1, 100) <= ones) left.at[s] = 1;
        if (draw(d, 1, 100) <= ones) right.at[s] = 1;
    }
    left.at[0] = a.transpose_a ? rows : inner, left.at[last] = a.transpose_a ? inner : rows;
    right.at[0] = a.transpose_b ? inner : columns, right.at[last] = a.transpose_b ? columns : inner;
    int inputs[] = {draw_value(b, d, "left", TYPE_F32, &left, 0), draw_value(b, d, "right", TYPE_F32, &right, 0)};
    return graph_add(b->graph, OPERATOR_MATMUL, "node", &a, inputs, 2, b->error);
}

static inline int add_rows(struct builder *b, struct draw *d, enum operator_id id) {
    struct integers sides = draw_sides(d, 1, SHAPE_RANK_MAX);
    sides.at[0] = draw(d, 1, draw(d, 0, 3) == 0 ? 600 : 20);
    int input = draw_value(b, d, "data", TYPE_F32, &sides, 0);
    if (sides.count == 3 && draw(d, 0, 1) == 1) input = build_max_pool(b, input, "pool", 1, 1, 0); /* in place */
    return add_one(b, id, NULL, input);
}

static inline int case_softmax(struct builder *b, struct draw *d) { return add_rows(b, d, OPERATOR_SOFTMAX); }
static inline int case_log_softmax(struct builder *b, struct draw *d) { return add_rows(b, d, OPERATOR_LOG_SOFTMAX); }

static inline int add_reduce(struct builder *b, struct draw *d, int kind) {
    struct attributes a = {.kind = kind};
    struct integers sides = draw_sides(d, 1, 4);
    for (int s = 0; s < sides.count; s++)
        if (draw(d, 0, 1) == 1) a.axes.at[a.axes.count++] = s;
    if (kind <= REDUCE_MEAN && draw(d, 0, 3) == 0) sides.at[0] = 700;
    return add_one(b, OPERATOR_REDUCE, &a, draw_value(b, d, "data", TYPE_F32, &sides, 0));
}

#define REDUCE(NAME, name)                                                                                                     \
    static inline int case_reduce_##name(struct builder *b, struct draw *d) { return add_reduce(b, d, REDUCE_##NAME); }
REDUCE(SUM, sum)
REDUCE(MEAN, mean)
REDUCE(MAX, max)
REDUCE(MIN, min)
REDUCE(PROD, prod)
REDUCE(L1, l1)
REDUCE(L2, l2)
REDUCE(SUM_SQUARE, sum_square)
REDUCE(LOG_SUM, log_sum)
REDUCE(LOG_SUM_EXP, log_sum_exp)
#undef REDUCE

/* -------------------------------------------------------------- conditions */

static inline int add_condition(struct builder *b, struct draw *d, enum operator_id id, enum number_type type,
                                const struct attributes *a, int count) {
    struct integers sides = draw_sides(d, 1, SHAPE_RANK_MAX);
    int inputs[2] = {draw_value(b, d, "left", type, &sides, 30)};
    if (count == 2) inputs[1] = draw_value(b, d, "right", type, &sides, 30);
    return graph_add(b->graph, id, "node", a, inputs, count, b->error);
}

static inline int case_compare(struct builder *b, struct draw *d) {
    struct attributes a = {.kind = draw(d, 0, COMPARE_ISINF), .alpha = (float)draw(d, -1, 1)};
    enum number_type type = draw(d, 0, 1) == 1 ? TYPE_I32 : TYPE_F32;
    return add_condition(b, d, OPERATOR_COMPARE, type, &a, a.kind < COMPARE_ISNAN ? draw(d, 1, 2) : 1);
}

static inline int case_logical(struct builder *b, struct draw *d) {
    struct attributes a = {.kind = draw(d, 0, LOGICAL_NOT)};
    return add_condition(b, d, OPERATOR_LOGICAL, TYPE_I32, &a, a.kind == LOGICAL_NOT ? 1 : 2);
}

static inline int case_where(struct builder *b, struct draw *d) {
    struct integers sides = draw_sides(d, 1, SHAPE_RANK_MAX);
    enum number_type type = draw(d, 0, 3) == 0 ? TYPE_I32 : TYPE_F32;
    int ones = draw(d, 0, 1) * 40, condition = draw_value(b, d, "condition", TYPE_I32, &sides, ones),
        left = draw_value(b, d, "left", type, &sides, ones), right = draw_value(b, d, "right", type, &sides, ones);
    return graph_add(b->graph, OPERATOR_WHERE, "node", NULL, (const int[]){condition, left, right}, 3, b->error);
}

static inline int case_cast_whole(struct builder *b, struct draw *d) {
    struct integers sides = draw_sides(d, 1, SHAPE_RANK_MAX);
    bool to = draw(d, 0, 1) == 1;
    struct attributes a = {.type = to ? TYPE_I32 : TYPE_F32};
    return add_one(b, OPERATOR_CAST, &a, draw_value(b, d, "data", to ? TYPE_F32 : TYPE_I32, &sides, 20));
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
    {"linear, transposed", case_linear_transposed, false},
    {"linear on a flattened image", case_linear_flattened, false},
    {"max pool", case_max_pool, true},
    {"average pool", case_average_pool, false},
    {"global pool", case_global_pool, false},
    {"relu", case_relu, true},
    {"relu in place", case_relu_in_place, true},
    {"batch norm", case_batch_norm, false},
    {"batch norm on vectors", case_batch_norm_vector, false},
    {"batch norm with relu", case_batch_norm_relu, false},
    {"batch norm in double precision", case_batch_norm_double, false},
    {"add", case_add, false},
#define UNARY(NAME, name, value, slope, reads, flops) {"unary " #name, case_unary_##name, false},
#define BINARY(NAME, name, value, slope_a, slope_b, reads, flops) {"binary " #name, case_binary_##name, false},
#include "graph/functions.def"
    {"unary in place", case_unary_in_place, false},
    {"binary of long rows", case_binary_long, false},
    {"binary in place", case_binary_in_place, false},
    {"binary with a parameter", case_binary_parameter, true},
    {"binary with a parameter in place", case_binary_parameter_in_place, false},
    {"binary with a constant", case_binary_constant, true},
    {"parameter", case_parameter, false},
    {"parameter of tokens", case_parameter_tokens, false},
    {"permute", case_permute, false},
    {"permute, large", case_permute_large, false},
    {"slice along an axis", case_slice_axis, false},
    {"concat along an axis", case_concat_axis, false},
    {"expand", case_expand, false},
    {"compare", case_compare, false},
    {"logical", case_logical, false},
    {"where", case_where, false},
    {"cast of whole numbers", case_cast_whole, true},
    {"matmul", case_matmul, false},
    {"softmax", case_softmax, false},
    {"log softmax", case_log_softmax, false},
    {"reduce: sum", case_reduce_sum, false},
    {"reduce: mean", case_reduce_mean, false},
    {"reduce: max", case_reduce_max, true},
    {"reduce: min", case_reduce_min, true},
    {"reduce: prod", case_reduce_prod, false},
    {"reduce: l1", case_reduce_l1, true},
    {"reduce: l2", case_reduce_l2, false},
    {"reduce: sum of squares", case_reduce_sum_square, false},
    {"reduce: log of the sum", case_reduce_log_sum, false},
    {"reduce: log of the sum of exponentials", case_reduce_log_sum_exp, false},
    {"concat", case_concat, false},
    {"concat of vectors", case_concat_vectors, false},
    {"dropout", case_dropout, false},
    {"dropout in place", case_dropout_in_place, false},
    {"cross entropy", case_cross_entropy, false},
    {"cross entropy of pixels", case_cross_entropy_image, false},
    {"cross entropy with class weights", case_cross_entropy_weighted, false},
    {"mse", case_mse, false},
    {"l1", case_l1, true},
    {"bce", case_bce, false},
    {"linear on a sequence", case_linear_sequence, false},
    {"cross entropy on a sequence", case_cross_entropy_sequence, false},
    {"embedding", case_embedding, false},
    {"embedding with padding", case_embedding_padded, false},
    {"slice", case_slice, false},
    {"slice of tokens", case_slice_tokens, false},
    {"concat of tokens", case_concat_tokens, false},
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
    {"cast to bf16", case_cast_narrow, false},
    {"cast from bf16", case_cast_wide, false},
    {"concat of bf16", case_concat_narrow, false},
    {"slice of bf16", case_slice_narrow, false},
    {"convolution, dilated", case_convolution_dilated, false},
    {"convolution, depthwise", case_depthwise, false},
    {"convolution of a sequence", case_convolution_sequence, false},
    {"deconvolution", case_deconvolution, false},
    {"max pool, dilated", case_max_pool_dilated, true},
    {"average pool, dilated", case_average_pool_dilated, false},
    {"resize", case_resize, false},
    {"pad", case_pad, false},
    {"gru", case_gru, false},
    {"gru with padding", case_gru_padded, false},
    {"rms norm", case_rms_norm, false},
    {"layer norm without bias", case_layer_norm_plain, false},
    {"group norm", case_group_norm, false},
    {"rotary", case_rotary, false},
    {"rotary in place", case_rotary_in_place, false},
    {"attention, masked", case_attention_masked, false},
    {"attention, packed with shared heads", case_attention_packed_groups, false},
};

#endif
