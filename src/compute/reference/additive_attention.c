/*
 * Additive attention (graph/operators/additive_attention.c). Queries (N, Q, U), keys (N, K, U), values (N, K, V), tokens (N,
 * K), y (N, Q, V). Inner: the weights p (N, Q, K). Backward, with dp_qk = dy_q . value_k and ds = p (dp - sum over k of p dp):
 *
 *     dvalue_k = sum over q of p_qk dy_q,   e_qku = ds_qk v_u (1 - t_qku^2),   t_qku the tanh,
 *     dquery_q = sum over k of e_qk,  dkey_k = sum over q of e_qk,  dbias = sum of e,  dv = sum of ds t,
 *     dscalar = dv . a / |a|,  da = scalar / |a| (dv - (dv . a) a / |a|^2)   where v = scalar a / |a|
 */
#include <math.h>
#include <string.h>

#include "compute/reference/reference.h"

struct sizes {
    int64_t samples, queries, keys, units, values; /* N, Q, K, U, V */
};

static struct sizes sizes_of(const struct kernel *kernel) {
    return (struct sizes){kernel->samples, kernel_input(kernel, 0)->dim[1], kernel_input(kernel, 1)->dim[1],
                          kernel_input(kernel, 0)->dim[0], kernel_input(kernel, 2)->dim[0]};
}

static void set_sizes(struct kernel *kernel) {
    struct sizes s = sizes_of(kernel);
    kernel->inner_bytes = s.samples * s.queries * s.keys * (int64_t)sizeof(float);
    kernel->workspace_bytes = kernel->inner_bytes; /* ds */
}

static bool is_padding(const struct kernel_call *call, int64_t key) {
    return call->input[3] != NULL && token_numbers(call->input[3])[key] == 0;
}

static double norm_of(const struct sizes *s, const float *a) {
    double squares = 0;
    for (int64_t u = 0; u < s->units; u++) squares += (double)a[u] * (double)a[u];
    return sqrt(squares);
}

static double tanh_of(const struct sizes *s, const struct kernel_call *call, int64_t query, int64_t key, int64_t u) {
    return tanh((double)call->input[0][query * s->units + u] + (double)call->input[1][key * s->units + u] +
                (double)call->weights[2][u]);
}

static double score(const struct sizes *s, const struct kernel_call *call, int64_t query, int64_t key) {
    double sum = 0;
    for (int64_t u = 0; u < s->units; u++) sum += (double)call->weights[0][u] * tanh_of(s, call, query, key, u);
    return sum * (double)call->weights[1][0] / norm_of(s, call->weights[0]);
}

/* The attention weights of one query; `first` is its sample's first key. */
static void softmax(const struct sizes *s, const struct kernel_call *call, int64_t query, int64_t first, float *p) {
    double largest = -INFINITY, sum = 0;
    for (int64_t k = 0; k < s->keys; k++) {
        p[k] = is_padding(call, first + k) ? -INFINITY : (float)score(s, call, query, first + k);
        largest = fmax(largest, (double)p[k]);
    }
    for (int64_t k = 0; k < s->keys; k++) {
        p[k] = isinf(p[k]) ? 0 : (float)exp((double)p[k] - largest);
        sum += (double)p[k];
    }
    for (int64_t k = 0; k < s->keys && sum > 0; k++) p[k] = (float)((double)p[k] / sum);
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    struct sizes s = sizes_of(kernel);
    for (int64_t q = 0; q < s.samples * s.queries; q++) {
        int64_t first = q / s.queries * s.keys;
        float *p = call->inner + q * s.keys;
        softmax(&s, call, q, first, p);
        for (int64_t v = 0; v < s.values; v++) {
            double sum = 0;
            for (int64_t k = 0; k < s.keys; k++) sum += (double)p[k] * (double)call->input[2][(first + k) * s.values + v];
            call->output[q * s.values + v] = (float)sum;
        }
    }
    return PS_OK;
}

static enum ps_status backward_shared(struct kernel *kernel, const struct kernel_call *call) {
    struct sizes s = sizes_of(kernel);
    for (int64_t q = 0; q < s.samples * s.queries; q++) {
        int64_t first = q / s.queries * s.keys;
        const float *p = call->inner + q * s.keys;
        float *ds = (float *)call->workspace + q * s.keys;
        double mean = 0;
        for (int64_t k = 0; k < s.keys; k++) {
            double dp = 0;
            for (int64_t v = 0; v < s.values; v++) {
                dp += (double)call->output_gradient[q * s.values + v] * (double)call->input[2][(first + k) * s.values + v];
            }
            ds[k] = (float)dp;
            mean += dp * (double)p[k];
        }
        for (int64_t k = 0; k < s.keys; k++) ds[k] = (float)((double)p[k] * ((double)ds[k] - mean));
    }
    return PS_OK;
}

static void value_gradient(const struct sizes *s, const struct kernel_call *call, int64_t key) {
    int64_t n = key / s->keys, k = key % s->keys;
    for (int64_t v = 0; v < s->values; v++) {
        double sum = 0;
        for (int64_t q = n * s->queries; q < (n + 1) * s->queries; q++) {
            sum += (double)call->inner[q * s->keys + k] * (double)call->output_gradient[q * s->values + v];
        }
        call->input_gradient[2][key * s->values + v] = (float)sum;
    }
}

/* e without v's factor */
static double slope(const struct sizes *s, const struct kernel_call *call, int64_t query, int64_t key, int64_t u) {
    double t = tanh_of(s, call, query, key, u);
    return (double)((const float *)call->workspace)[query * s->keys + key % s->keys] * (1 - t * t);
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call) {
    struct sizes s = sizes_of(kernel);
    double scale = (double)call->weights[1][0] / norm_of(&s, call->weights[0]);
    for (int64_t i = 0; i < s.samples * s.queries * s.units && call->input_gradient[0] != NULL; i++) {
        int64_t q = i / s.units, u = i % s.units, first = q / s.queries * s.keys;
        double sum = 0;
        for (int64_t k = first; k < first + s.keys; k++) sum += slope(&s, call, q, k, u);
        call->input_gradient[0][i] = (float)(sum * scale * (double)call->weights[0][u]);
    }
    for (int64_t i = 0; i < s.samples * s.keys * s.units && call->input_gradient[1] != NULL; i++) {
        int64_t k = i / s.units, u = i % s.units, first = k / s.keys * s.queries;
        double sum = 0;
        for (int64_t q = first; q < first + s.queries; q++) sum += slope(&s, call, q, k, u);
        call->input_gradient[1][i] = (float)(sum * scale * (double)call->weights[0][u]);
    }
    for (int64_t k = 0; k < s.samples * s.keys && call->input_gradient[2] != NULL; k++) value_gradient(&s, call, k);
    return PS_OK;
}

static enum ps_status backward_weight(struct kernel *kernel, const struct kernel_call *call) {
    struct sizes s = sizes_of(kernel);
    const float *ds = call->workspace, *a = call->weights[0];
    double norm = norm_of(&s, a), scalar = (double)call->weights[1][0], along = 0; /* dv . a / |a| */
    for (int64_t u = 0; u < s.units; u++) {
        double dv = 0, bias = 0;
        for (int64_t i = 0; i < s.samples * s.queries * s.keys; i++) {
            int64_t q = i / s.keys, k = q / s.queries * s.keys + i % s.keys;
            dv += (double)ds[i] * tanh_of(&s, call, q, k, u);
            bias += slope(&s, call, q, k, u);
        }
        call->gradients[0][u] = (float)dv;
        call->gradients[2][u] = (float)(bias * scalar / norm * (double)a[u]);
        along += dv * (double)a[u] / norm;
    }
    call->gradients[1][0] = (float)along;
    for (int64_t u = 0; u < s.units; u++) {
        call->gradients[0][u] = (float)(scalar / norm * ((double)call->gradients[0][u] - along * (double)a[u] / norm));
    }
    return PS_OK;
}

const struct kernel_class reference_additive_attention = {
    .set_sizes = set_sizes,
    .forward = forward,
    .backward_shared = backward_shared,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};
