/*
 * Attention (graph/operators/attention.c) for one head of one sample; q, k, v, y are rows of E = D / heads features.
 *
 *     p = softmax over the keys of q k^T / sqrt(E), 0 where a key is not seen;   d = dropped p;   y = d v
 *     dv = d^T dy,   dp = dropped dy v^T,   ds = p (dp - sum over keys of p dp) / sqrt(E),   dq = ds k,   dk = ds^T q
 *
 * Inner: p (N, heads, Tq, Tk). Dropout's random numbers are counted along p.
 */
#include <math.h>
#include <string.h>

#include "compute/attention.h"
#include "compute/reference/reference.h"

static enum ps_status prepare(struct kernel *kernel, struct ps_error *error) {
    (void)error;
    struct attention_shape s = attention_shape(kernel);
    kernel->inner_bytes = attention_scores(&s) * (int64_t)sizeof(float);
    return PS_OK;
}

/* The weight with this number after dropout. */
static double dropped(const struct kernel *kernel, const struct kernel_call *call, int64_t number, double value) {
    float rate = kernel->node->attributes.rate;
    if (!call->training || rate == 0) return value;
    return random_uniform(call->key, (uint64_t)number) >= rate ? value / (1 - (double)rate) : 0;
}

static void weigh(const struct attention_shape *s, const struct kernel_call *call, int64_t n, int64_t head, int64_t query,
                  float *weights) {
    double largest = -INFINITY, sum = 0;
    const float *q = attention_row(s, call->input, ATTENTION_QUERY, n, query, head);
    for (int64_t key = 0; key < s->keys; key++) {
        const float *k = attention_row(s, call->input, ATTENTION_KEY, n, key, head);
        double product = 0;
        for (int64_t e = 0; e < s->each; e++) product += (double)q[e] * (double)k[e];
        weights[key] = (float)(product / sqrt((double)s->each));
        if (attention_sees(s, call->input, n, query, key)) largest = fmax(largest, (double)weights[key]);
    }
    for (int64_t key = 0; key < s->keys; key++) {
        bool sees = attention_sees(s, call->input, n, query, key);
        weights[key] = sees ? (float)exp((double)weights[key] - largest) : 0;
        sum += (double)weights[key];
    }
    for (int64_t key = 0; key < s->keys && sum > 0; key++) weights[key] = (float)((double)weights[key] / sum);
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    struct attention_shape s = attention_shape(kernel);
    for (int64_t row = 0; row < s.samples * s.heads * s.queries; row++) {
        int64_t query = row % s.queries, head = row / s.queries % s.heads, n = row / s.queries / s.heads;
        float *p = call->inner + row * s.keys, *y = call->output + (n * s.queries + query) * s.features + head * s.each;
        weigh(&s, call, n, head, query, p);
        for (int64_t e = 0; e < s.each; e++) {
            double sum = 0;
            for (int64_t key = 0; key < s.keys; key++) {
                double weight = dropped(kernel, call, row * s.keys + key, (double)p[key]);
                sum += weight * (double)attention_row(&s, call->input, ATTENTION_VALUE, n, key, head)[e];
            }
            y[e] = (float)sum;
        }
    }
    return PS_OK;
}

/* Adds the contribution of one query to the gradients of query, keys and values; those that are not needed are NULL. */
static void backward_row(const struct kernel *kernel, const struct kernel_call *call, const struct attention_shape *s,
                         int64_t row) {
    int64_t query = row % s->queries, head = row / s->queries % s->heads, n = row / s->queries / s->heads;
    const float *p = call->inner + row * s->keys, *q = attention_row(s, call->input, ATTENTION_QUERY, n, query, head);
    const float *dy = call->output_gradient + (n * s->queries + query) * s->features + head * s->each;
    float *dq = attention_gradient(s, call->input_gradient, ATTENTION_QUERY, n, query, head);
    double mean = 0;
    for (int pass = 0; pass < 2; pass++) { /* the second one knows the mean */
        for (int64_t key = 0; key < s->keys; key++) {
            const float *k = attention_row(s, call->input, ATTENTION_KEY, n, key, head);
            const float *v = attention_row(s, call->input, ATTENTION_VALUE, n, key, head);
            float *dk = attention_gradient(s, call->input_gradient, ATTENTION_KEY, n, key, head);
            float *dv = attention_gradient(s, call->input_gradient, ATTENTION_VALUE, n, key, head);
            double product = 0;
            for (int64_t e = 0; e < s->each; e++) product += (double)dy[e] * (double)v[e];
            double dp = dropped(kernel, call, row * s->keys + key, product);
            if (pass == 0) mean += (double)p[key] * dp;
            double ds = (double)p[key] * (dp - mean) / sqrt((double)s->each);
            double weight = dropped(kernel, call, row * s->keys + key, (double)p[key]);
            for (int64_t e = 0; e < s->each && pass == 1; e++) {
                if (dq != NULL) dq[e] += (float)(ds * (double)k[e]);
                if (dk != NULL) dk[e] += (float)(ds * (double)q[e]);
                if (dv != NULL) dv[e] += (float)(weight * (double)dy[e]);
            }
        }
    }
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    struct attention_shape s = attention_shape(kernel);
    for (int i = 0; i < kernel->node->input_count; i++) {
        size_t bytes = (size_t)(kernel->samples * shape_bytes(kernel_input(kernel, i)));
        if (call->input_gradient[i] != NULL) memset(call->input_gradient[i], 0, bytes);
    }
    for (int64_t row = 0; row < s.samples * s.heads * s.queries; row++) backward_row(kernel, call, &s, row);
    return PS_OK;
}

const struct kernel_class reference_attention = {.prepare = prepare, .forward = forward, .backward_input = backward_input};
