/*
 * Attention (graph/operators/attention.c) for one head of one sample; q, k are rows of E features, v, y of V.
 *
 *     p = softmax over the keys of q k^T scale + mask, 0 where a key is not seen;   d = dropped p;   y = d v
 *     dv = d^T dy,   dp = dropped dy v^T,   dmask = p (dp - sum over keys of p dp),   ds = dmask scale,   dq = ds k,   dk =
 * ds^T q
 *
 * With a cap the scores before the mask are c tanh(q k^T scale / c), so that ds has the factor 1 - tanh^2. Where heads share
 * keys and values, or queries a mask, the gradients are added up. Inner: p (N, heads, Tq, Tk). Dropout's random numbers are
 * counted along p, of a part of the heads along the p of all.
 */
#include <math.h>
#include <string.h>

#include "compute/attention.h"
#include "compute/reference/reference.h"

static void set_sizes(struct kernel *kernel) {
    struct attention_shape s = attention_shape(kernel);
    kernel->inner_bytes = attention_scores(&s) * (int64_t)sizeof(float);
}

/* What products are divided by. */
static double divisor(const struct kernel *kernel, const struct attention_shape *s) {
    float scale = kernel->node->attributes.scale;
    return scale > 0 ? 1 / (double)scale : sqrt((double)s->each[ATTENTION_KEY]);
}

/* A weight of the row after dropout. */
static double dropped(const struct kernel *kernel, const struct attention_shape *s, const struct kernel_call *call, int64_t row,
                      int64_t key, double value) {
    float rate = kernel->node->attributes.rate;
    if (!call->training || rate == 0) return value;
    return random_uniform(call->key, (uint64_t)(attention_place(s, row) + key)) >= rate ? value / (1 - (double)rate) : 0;
}

/* The score of a query and a key before the mask, and its derivative by their product times the scale. */
static double score(const struct kernel *kernel, const struct attention_shape *s, const struct kernel_call *call, int64_t row,
                    int64_t key, double *slope) {
    const struct attributes *a = &kernel->node->attributes;
    int64_t query = row % s->queries, head = row / s->queries % s->heads, n = row / s->queries / s->heads;
    const float *q = attention_row(s, call->input, ATTENTION_QUERY, n, query, head);
    const float *k = attention_row(s, call->input, ATTENTION_KEY, n, key, head);
    double product = 0, cap = (double)a->cap;
    for (int64_t e = 0; e < s->each[ATTENTION_KEY]; e++) product += (double)q[e] * (double)k[e];
    double scaled = product / divisor(kernel, s), bounded = cap > 0 ? tanh(scaled / cap) : 0;
    *slope = 1 - bounded * bounded;
    return cap > 0 ? cap * bounded : scaled;
}

static void weigh(const struct kernel *kernel, const struct attention_shape *s, const struct kernel_call *call, int64_t row,
                  float *weights) {
    double largest = -INFINITY, sum = 0, slope;
    const float *added = s->added ? call->input[s->mask] + attention_mask_offset(s, row) : NULL;
    for (int64_t key = 0; key < s->keys; key++) {
        double value = score(kernel, s, call, row, key, &slope);
        weights[key] = (float)(added != NULL ? value + (double)added[key] : value);
        if (attention_sees(s, call->input, row, key)) largest = fmax(largest, (double)weights[key]);
    }
    for (int64_t key = 0; key < s->keys; key++) {
        bool sees = attention_sees(s, call->input, row, key);
        weights[key] = sees ? (float)exp((double)weights[key] - largest) : 0;
        sum += (double)weights[key];
    }
    for (int64_t key = 0; key < s->keys && sum > 0; key++) weights[key] = (float)((double)weights[key] / sum);
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    struct attention_shape s = attention_shape(kernel);
    int64_t each = s.each[ATTENTION_VALUE];
    for (int64_t row = 0; row < s.samples * s.heads * s.queries; row++) {
        int64_t query = row % s.queries, head = row / s.queries % s.heads, n = row / s.queries / s.heads;
        float *p = call->inner + row * s.keys, *y = call->output + (n * s.queries + query) * s.features + head * each;
        weigh(kernel, &s, call, row, p);
        for (int64_t e = 0; e < each; e++) {
            double sum = 0;
            for (int64_t key = 0; key < s.keys; key++) {
                double weight = dropped(kernel, &s, call, row, key, (double)p[key]);
                sum += weight * (double)attention_row(&s, call->input, ATTENTION_VALUE, n, key, head)[e];
            }
            y[e] = (float)sum;
        }
    }
    return PS_OK;
}

/* Adds the contribution of one query to the gradients of query, keys, values and mask; those that are not needed are NULL. */
static void backward_row(const struct kernel *kernel, const struct kernel_call *call, const struct attention_shape *s,
                         int64_t row) {
    int64_t query = row % s->queries, head = row / s->queries % s->heads, n = row / s->queries / s->heads;
    int64_t each = s->each[ATTENTION_VALUE];
    const float *p = call->inner + row * s->keys, *q = attention_row(s, call->input, ATTENTION_QUERY, n, query, head);
    const float *dy = call->output_gradient + (n * s->queries + query) * s->features + head * each;
    float *dq = attention_gradient(s, call->input_gradient, ATTENTION_QUERY, n, query, head);
    float *dmask = s->added ? call->input_gradient[s->mask] : NULL;
    double mean = 0, slope = 1, cap = (double)kernel->node->attributes.cap;
    for (int pass = 0; pass < 2; pass++) { /* the second one knows the mean */
        for (int64_t key = 0; key < s->keys; key++) {
            const float *k = attention_row(s, call->input, ATTENTION_KEY, n, key, head);
            const float *v = attention_row(s, call->input, ATTENTION_VALUE, n, key, head);
            float *dk = attention_gradient(s, call->input_gradient, ATTENTION_KEY, n, key, head);
            float *dv = attention_gradient(s, call->input_gradient, ATTENTION_VALUE, n, key, head);
            double product = 0;
            for (int64_t e = 0; e < each; e++) product += (double)dy[e] * (double)v[e];
            double dp = dropped(kernel, s, call, row, key, product);
            if (pass == 0) mean += (double)p[key] * dp;
            if (pass == 0) continue;
            double ds = (double)p[key] * (dp - mean), weight = dropped(kernel, s, call, row, key, (double)p[key]);
            if (dmask != NULL) dmask[attention_mask_offset(s, row) + key] += (float)ds;
            if (cap > 0) score(kernel, s, call, row, key, &slope);
            ds = ds * slope / divisor(kernel, s);
            for (int64_t e = 0; e < s->each[ATTENTION_KEY]; e++) {
                if (dq != NULL) dq[e] += (float)(ds * (double)k[e]);
                if (dk != NULL) dk[e] += (float)(ds * (double)q[e]);
            }
            for (int64_t e = 0; e < each && dv != NULL; e++) dv[e] += (float)(weight * (double)dy[e]);
        }
    }
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call) {
    struct attention_shape s = attention_shape(kernel);
    for (int i = 0; i < kernel->node->input_count; i++) {
        size_t bytes = (size_t)(kernel->samples * shape_bytes(kernel_input(kernel, i)));
        if (call->input_gradient[i] != NULL) memset(call->input_gradient[i], 0, bytes);
    }
    for (int64_t row = 0; row < s.samples * s.heads * s.queries; row++) backward_row(kernel, call, &s, row);
    return PS_OK;
}

const struct kernel_class reference_attention = {.set_sizes = set_sizes, .forward = forward, .backward_input = backward_input};
