/*
 * Attention (graph/operators/attention.c; formulas in compute/reference/attention.c). The products are oneDNN's, all samples
 * and heads in one call, on queries, keys and values where they lie: heads are strides. Between them, softmax and its
 * derivative are loops over rows.
 *
 * Inner: the weights p (N, heads, Tq, Tk). Workspace: as much for the scores' gradients, with dropout as much again for the
 * dropped weights d, and then oneDNN's. Since d dp' = p dp, where dp is dp' with the same dropout, the scores' gradients need
 * no random numbers: ds = d dp' - p sum(d dp').
 */
#include <math.h>

#include "base/memory.h"
#include "compute/attention.h"
#include "compute/cpu/activation.h"
#include "compute/cpu/cpu.h"

enum product { SCORES, OUTPUT, VALUE_GRADIENT, WEIGHT_GRADIENT, QUERY_GRADIENT, KEY_GRADIENT, PRODUCTS };

struct attention {
    struct kernel kernel;
    struct attention_shape shape;
    struct primitive products[PRODUCTS];
};

static void release(struct kernel *kernel) {
    struct attention *attention = (struct attention *)kernel;
    for (int p = 0; p < PRODUCTS; p++) primitive_release(&attention->products[p]);
}

/* The arrays of a product: rows x columns for every sample and head. */
static const struct layout *part_layout(struct draft *draft, const struct attention_shape *s, int64_t positions, int64_t stride,
                                        bool transposed) {
    int64_t dims[] = {s->samples, s->heads, positions, s->each}, strides[] = {positions * stride, s->each, stride, 1};
    int64_t turned[] = {s->samples, s->heads, s->each, positions}, turned_strides[] = {positions * stride, s->each, 1, stride};
    return transposed ? draft_layout_strided(draft, 4, turned, turned_strides) : draft_layout_strided(draft, 4, dims, strides);
}

static const struct layout *score_layout(struct draft *draft, const struct attention_shape *s, bool transposed) {
    int64_t all = s->queries * s->keys;
    int64_t dims[] = {s->samples, s->heads, s->queries, s->keys}, strides[] = {s->heads * all, all, s->keys, 1};
    int64_t turned[] = {s->samples, s->heads, s->keys, s->queries}, turned_strides[] = {s->heads * all, all, 1, s->keys};
    return transposed ? draft_layout_strided(draft, 4, turned, turned_strides) : draft_layout_strided(draft, 4, dims, strides);
}

static void make(struct draft *draft, struct attention *attention) {
    const struct attention_shape *s = &attention->shape;
    const struct layout *query = part_layout(draft, s, s->queries, s->stride, false),
                        *key = part_layout(draft, s, s->keys, s->stride, false),
                        *key_turned = part_layout(draft, s, s->keys, s->stride, true),
                        *output = part_layout(draft, s, s->queries, s->features, false),
                        *scores = score_layout(draft, s, false), *scores_turned = score_layout(draft, s, true);
    const struct {
        const struct layout *left, *right, *product;
        const char *part;
    } products[PRODUCTS] = {
        [SCORES] = {query, key_turned, scores, "scores"},
        [OUTPUT] = {scores, key, output, "output"},
        [VALUE_GRADIENT] = {scores_turned, output, key, "gradient of the values"},
        [WEIGHT_GRADIENT] = {output, key_turned, scores, "gradient of the weights"},
        [QUERY_GRADIENT] = {scores, key, query, "gradient of the queries"},
        [KEY_GRADIENT] = {scores_turned, query, key, "gradient of the keys"},
    };
    for (int p = 0; p < PRODUCTS; p++) {
        dnnl_primitive_desc_t plan = draft_product(draft, products[p].left, products[p].right, products[p].product);
        draft_primitive(draft, plan, products[p].part, (int[]){DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, 0},
                        &attention->products[p]);
    }
}

static size_t score_bytes(const struct attention_shape *s) { return (size_t)attention_scores(s) * sizeof(float); }

/* The workspace without oneDNN's. */
static size_t own_workspace(const struct attention *attention) {
    size_t arrays = attention->kernel.node->attributes.rate > 0 ? 2 : 1;
    return arrays * memory_align(score_bytes(&attention->shape));
}

static enum ps_status prepare(struct kernel *kernel, struct ps_error *error) {
    struct attention *attention = (struct attention *)kernel;
    attention->shape = attention_shape(kernel);
    struct draft draft;
    draft_start(&draft, kernel->device, kernel->node);
    make(&draft, attention);
    kernel->inner_bytes = (int64_t)score_bytes(&attention->shape);
    kernel->workspace_bytes = (int64_t)own_workspace(attention) + largest_scratchpad(attention->products, PRODUCTS);
    return draft_finish(&draft, error);
}

static enum ps_status multiply(const struct attention *attention, enum product product, const struct kernel_call *call,
                               const float *left, const float *right, float *result, struct ps_error *error) {
    struct primitive *primitive = (struct primitive *)&attention->products[product];
    void *scratchpad = (char *)call->workspace + own_workspace(attention);
    const void *addresses[] = {left, right, result};
    return primitive_run(primitive, cpu_of(&attention->kernel), addresses, scratchpad, error);
}

/* --------------------------------------------------------------------- rows */

struct rows {
    const struct attention *attention;
    const struct kernel_call *call;
    float *scores;        /* gradients, in the backward */
    const float *weights; /* backward: dropped */
    float scale;
};

static struct rows rows_of(const struct attention *attention, const struct kernel_call *call, float *scores,
                           const float *weights) {
    return (struct rows){attention, call, scores, weights, 1 / sqrtf((float)attention->shape.each)};
}

static size_t row_count(const struct attention_shape *s) { return (size_t)(s->samples * s->heads * s->queries); }

static VECTOR_CLONES float largest_of(size_t count, const float *x) {
    float largest = x[0];
#pragma omp simd reduction(max : largest)
    for (size_t i = 0; i < count; i++) largest = x[i] > largest ? x[i] : largest;
    return largest;
}

static VECTOR_CLONES void exponentials(size_t count, float *x, float largest, float scale) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) x[i] = activation_exp((x[i] - largest) * scale);
}

static void softmax_part(const void *context, int part, size_t first, size_t end) {
    (void)part;
    const struct rows *r = context;
    const struct attention_shape *s = &r->attention->shape;
    size_t keys = (size_t)s->keys, queries = (size_t)s->queries;
    for (size_t row = first; row < end; row++) {
        float *x = r->scores + row * keys;
        size_t seen = s->causal ? row % queries + 1 : keys;
        const int32_t *tokens =
            s->tokens < 0 ? NULL : token_numbers(r->call->input[s->tokens]) + row / queries / (size_t)s->heads * keys;
        for (size_t i = 0; tokens != NULL && i < seen; i++) x[i] = tokens[i] != 0 ? x[i] : -INFINITY;
        float largest = largest_of(seen, x);
        exponentials(seen, x, largest > -INFINITY ? largest : 0, r->scale); /* -INFINITY: all of them are padding */
        for (size_t i = 0; tokens != NULL && i < seen; i++) x[i] = tokens[i] != 0 ? x[i] : 0;
        float sum = vector_sum(seen, x);
        vector_scale(seen, x, sum > 0 ? 1 / sum : 0);
        for (size_t i = seen; i < keys; i++) x[i] = 0;
    }
}

static VECTOR_CLONES void score_gradients(size_t count, float *dp, const float *d, const float *p, float mean, float scale) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) dp[i] = (d[i] * dp[i] - p[i] * mean) * scale;
}

static void gradient_part(const void *context, int part, size_t first, size_t end) {
    (void)part;
    const struct rows *r = context;
    size_t keys = (size_t)r->attention->shape.keys;
    for (size_t row = first; row < end; row++) {
        float *dp = r->scores + row * keys;
        const float *d = r->weights + row * keys;
        score_gradients(keys, dp, d, r->call->inner + row * keys, vector_dot(keys, d, dp), r->scale);
    }
}

/* --------------------------------------------------------------------- both */

static const float *input_of(const struct attention_shape *s, const struct kernel_call *call, enum attention_part part) {
    return attention_row(s, call->input, part, 0, 0, 0);
}

/* The weights by which the values are multiplied: with dropout those in the workspace after the scores' gradients. */
static const float *drop_weights(const struct attention *attention, const struct kernel_call *call) {
    float rate = attention->kernel.node->attributes.rate;
    if (!call->training || rate == 0) return call->inner;
    float *dropped = (float *)((char *)call->workspace + memory_align(score_bytes(&attention->shape)));
    cpu_drop(attention->kernel.device, call->key, rate, (size_t)attention_scores(&attention->shape), call->inner, dropped);
    return dropped;
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    const struct attention *attention = (const struct attention *)kernel;
    const struct attention_shape *s = &attention->shape;
    TRY(multiply(attention, SCORES, call, input_of(s, call, ATTENTION_QUERY), input_of(s, call, ATTENTION_KEY), call->inner,
                 error));
    struct rows rows = rows_of(attention, call, call->inner, NULL);
    device_parallel(attention->kernel.device, row_count(s), 8, softmax_part, &rows);
    const float *weights = drop_weights(attention, call);
    return multiply(attention, OUTPUT, call, weights, input_of(s, call, ATTENTION_VALUE), call->output, error);
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    const struct attention *attention = (const struct attention *)kernel;
    const struct attention_shape *s = &attention->shape;
    float *query = attention_gradient(s, call->input_gradient, ATTENTION_QUERY, 0, 0, 0),
          *key = attention_gradient(s, call->input_gradient, ATTENTION_KEY, 0, 0, 0),
          *value = attention_gradient(s, call->input_gradient, ATTENTION_VALUE, 0, 0, 0), *scores = call->workspace;
    const float *dy = call->output_gradient;
    const float *weights = drop_weights(attention, call);
    if (value != NULL) TRY(multiply(attention, VALUE_GRADIENT, call, weights, dy, value, error));
    if (query == NULL && key == NULL) return PS_OK;
    TRY(multiply(attention, WEIGHT_GRADIENT, call, dy, input_of(s, call, ATTENTION_VALUE), scores, error));
    struct rows rows = rows_of(attention, call, scores, weights);
    device_parallel(attention->kernel.device, row_count(s), 8, gradient_part, &rows);
    if (query != NULL) TRY(multiply(attention, QUERY_GRADIENT, call, scores, input_of(s, call, ATTENTION_KEY), query, error));
    if (key == NULL) return PS_OK;
    return multiply(attention, KEY_GRADIENT, call, scores, input_of(s, call, ATTENTION_QUERY), key, error);
}

const struct kernel_class cpu_attention = {
    .size = sizeof(struct attention),
    .prepare = prepare,
    .release = release,
    .forward = forward,
    .backward_input = backward_input,
};
