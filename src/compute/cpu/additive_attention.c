/*
 * Additive attention (graph/operators/additive_attention.c, formulas in reference/additive_attention.c). Nearly all of the time
 * goes into the hyperbolic tangents, one for each query, key and unit: they are computed where they are needed, once in the
 * forward and once in the backward, and never stored; keys that are padding are skipped.
 *
 * Inner: the weights p (N, Q, K). Workspace: v (U), then for each sample its dquery (Q, U), dkey (K, U) and dv (U), and a row
 * of K. Samples are independent, so threads share them, and each is a piece in bf16; dv is summed in their order.
 */
#include <math.h>
#include <string.h>

#include "base/number.h"
#include "compute/cpu/activation.h"
#include "compute/cpu/cpu.h"

struct sizes {
    size_t samples, queries, keys, units, values; /* N, Q, K, U, V */
};

static struct sizes sizes_of(const struct kernel *kernel) {
    const struct shape *query = kernel_input(kernel, 0), *value = kernel_input(kernel, 2);
    return (struct sizes){(size_t)kernel->samples, (size_t)query->dim[1], (size_t)value->dim[1], (size_t)query->dim[0],
                          (size_t)value->dim[0]};
}

/* Of one sample, in floats. */
static size_t share_of(const struct sizes *s) { return (s->queries + s->keys + 1) * s->units + s->keys; }

static void set_sizes(struct kernel *kernel) {
    struct sizes s = sizes_of(kernel);
    kernel->inner_bytes = (int64_t)(s.samples * s.queries * s.keys * sizeof(float));
    kernel->workspace_bytes = (int64_t)((s.units + s.samples * share_of(&s)) * sizeof(float));
    const int64_t most = number_larger((int64_t)s.queries, (int64_t)s.keys);
    kernel->piece_floats = most * number_larger((int64_t)s.units, (int64_t)s.values);
}

struct work {
    struct sizes sizes;
    const struct kernel *kernel;
    const struct kernel_call *call;
    float *v, *shares;
};

/* One sample's part of everything. */
struct sample {
    const struct sizes *sizes;
    const float *query, *key, *value, *bias, *v;
    const int32_t *tokens; /* may be NULL */
    float *p, *dquery, *dkey, *dv, *row;
};

static struct sample sample_of(const struct work *work, size_t n) {
    const struct sizes *s = &work->sizes;
    const struct kernel_call *call = work->call;
    float *share = work->shares + n * share_of(s);
    return (struct sample){
        .sizes = s,
        .query = call->input[0] + n * s->queries * s->units,
        .key = call->input[1] + n * s->keys * s->units,
        .value = call->input[2] + n * s->keys * s->values,
        .bias = call->weights[2],
        .v = work->v,
        .tokens = call->input[3] != NULL ? token_numbers(call->input[3]) + n * s->keys : NULL,
        .p = call->inner + n * s->queries * s->keys,
        .dquery = share,
        .dkey = share + s->queries * s->units,
        .dv = share + (s->queries + s->keys) * s->units,
        .row = share + (s->queries + s->keys + 1) * s->units,
    };
}

static bool is_padding(const struct sample *sample, size_t k) { return sample->tokens != NULL && sample->tokens[k] == 0; }

static double norm_of(size_t units, const float *a) {
    double squares = 0;
    for (size_t u = 0; u < units; u++) squares += (double)a[u] * (double)a[u];
    return sqrt(squares);
}

static struct work work_of(const struct kernel *kernel, const struct kernel_call *call) {
    struct work work = {sizes_of(kernel), kernel, call, call->workspace, NULL};
    work.shares = work.v + work.sizes.units;
    return work;
}

/* Computes v. */
static struct work start(const struct kernel *kernel, const struct kernel_call *call) {
    struct work work = work_of(kernel, call);
    float scale = (float)((double)call->weights[1][0] / norm_of(work.sizes.units, call->weights[0]));
    for (size_t u = 0; u < work.sizes.units; u++) work.v[u] = call->weights[0][u] * scale;
    return work;
}

/* ----------------------------------------------------------------- forward */

enum { LANES = 16 }; /* sums have this many partial sums on every CPU: the same bits everywhere */

static float add_lanes(const float lanes[LANES]) {
    float sum = 0;
    for (int l = 0; l < LANES; l++) sum += lanes[l];
    return sum;
}

/* sum over u of v_u tanh(query_u + key_u + bias_u) */
VECTOR_CLONES static float score(size_t units, const float *query, const float *key, const float *bias, const float *v) {
    float lanes[LANES] = {0};
    size_t u = 0;
    for (; u + LANES <= units; u += LANES) {
        for (size_t l = 0; l < LANES; l++) lanes[l] += v[u + l] * activation_tanh(query[u + l] + key[u + l] + bias[u + l]);
    }
    for (size_t l = 0; u < units; u++, l++) lanes[l] += v[u] * activation_tanh(query[u] + key[u] + bias[u]);
    return add_lanes(lanes);
}

VECTOR_CLONES static float dot(size_t count, const float *a, const float *b) {
    float lanes[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        for (size_t l = 0; l < LANES; l++) lanes[l] += a[i + l] * b[i + l];
    }
    for (size_t l = 0; i < count; i++, l++) lanes[l] += a[i] * b[i];
    return add_lanes(lanes);
}

/* The weights of one query. */
static void softmax(const struct sample *sample, size_t q) {
    const struct sizes *s = sample->sizes;
    float *p = sample->p + q * s->keys, largest = -INFINITY, sum = 0;
    for (size_t k = 0; k < s->keys; k++) {
        if (is_padding(sample, k)) continue;
        p[k] = score(s->units, sample->query + q * s->units, sample->key + k * s->units, sample->bias, sample->v);
        if (p[k] > largest) largest = p[k];
    }
    for (size_t k = 0; k < s->keys; k++) {
        p[k] = is_padding(sample, k) ? 0 : expf(p[k] - largest);
        sum += p[k];
    }
    for (size_t k = 0; k < s->keys && sum > 0; k++) p[k] /= sum;
}

static void forward_samples(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    const struct work work = work_of(kernel, call);
    const struct sizes *s = &work.sizes;
    for (size_t n = first; n < end; n++) {
        struct sample sample = sample_of(&work, n);
        for (size_t q = 0; q < s->queries; q++) {
            softmax(&sample, q);
            float *y = call->output + (n * s->queries + q) * s->values;
            memset(y, 0, s->values * sizeof *y);
            for (size_t k = 0; k < s->keys; k++) {
                if (!is_padding(&sample, k)) vector_axpy(s->values, y, sample.p[q * s->keys + k], sample.value + k * s->values);
            }
        }
    }
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    (void)start(kernel, call);
    kernel_parallel(kernel, call, (size_t)kernel->samples, 1, forward_samples);
    return PS_OK;
}

/* ---------------------------------------------------------------- backward */

/* Adds the gradients of one pair of query and key; `ds` is the gradient of its score. */
VECTOR_CLONES static void add_pair(size_t units, float ds, const float *restrict query, const float *restrict key,
                                   const float *restrict bias, const float *restrict v, float *restrict dquery,
                                   float *restrict dkey, float *restrict dv) {
    for (size_t u = 0; u < units; u++) {
        float t = activation_tanh(query[u] + key[u] + bias[u]), e = ds * v[u] * (1 - t * t);
        dquery[u] += e;
        dkey[u] += e;
        dv[u] += ds * t;
    }
}

static void backward_query(const struct sample *sample, size_t q, const float *dy) {
    const struct sizes *s = sample->sizes;
    const float *p = sample->p + q * s->keys;
    float mean = 0;
    for (size_t k = 0; k < s->keys; k++) {
        if (is_padding(sample, k)) continue;
        sample->row[k] = dot(s->values, dy, sample->value + k * s->values);
        mean += p[k] * sample->row[k];
    }
    for (size_t k = 0; k < s->keys; k++) {
        if (is_padding(sample, k)) continue;
        add_pair(s->units, p[k] * (sample->row[k] - mean), sample->query + q * s->units, sample->key + k * s->units,
                 sample->bias, sample->v, sample->dquery + q * s->units, sample->dkey + k * s->units, sample->dv);
    }
}

static void backward_samples(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    const struct work work = work_of(kernel, call);
    const struct sizes *s = &work.sizes;
    for (size_t n = first; n < end; n++) {
        struct sample sample = sample_of(&work, n);
        memset(sample.dquery, 0, (s->queries + s->keys + 1) * s->units * sizeof(float));
        for (size_t q = 0; q < s->queries; q++) {
            backward_query(&sample, q, call->output_gradient + (n * s->queries + q) * s->values);
        }
    }
}

static enum ps_status backward_shared(struct kernel *kernel, const struct kernel_call *call) {
    (void)start(kernel, call);
    kernel_parallel(kernel, call, (size_t)kernel->samples, 1, backward_samples);
    return PS_OK;
}

static void input_samples(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    const struct work work = work_of(kernel, call);
    const struct sizes *s = &work.sizes;
    float *const *gradient = call->input_gradient;
    for (size_t n = first; n < end; n++) {
        struct sample sample = sample_of(&work, n);
        size_t query = s->queries * s->units, key = s->keys * s->units, value = s->keys * s->values;
        if (gradient[0] != NULL) memcpy(gradient[0] + n * query, sample.dquery, query * sizeof(float));
        if (gradient[1] != NULL) memcpy(gradient[1] + n * key, sample.dkey, key * sizeof(float));
        if (gradient[2] == NULL) continue;
        memset(gradient[2] + n * value, 0, value * sizeof(float));
        for (size_t q = 0; q < s->queries; q++) {
            const float *dy = call->output_gradient + (n * s->queries + q) * s->values;
            for (size_t k = 0; k < s->keys; k++) {
                if (is_padding(&sample, k)) continue;
                vector_axpy(s->values, gradient[2] + n * value + k * s->values, sample.p[q * s->keys + k], dy);
            }
        }
    }
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call) {
    (void)start(kernel, call);
    kernel_parallel(kernel, call, (size_t)kernel->samples, 1, input_samples);
    return PS_OK;
}

static enum ps_status backward_weight(struct kernel *kernel, const struct kernel_call *call) {
    struct work work = start(kernel, call);
    const struct sizes *s = &work.sizes;
    float *da = call->gradients[0], *bias = call->gradients[2];
    memset(da, 0, s->units * sizeof *da);
    memset(bias, 0, s->units * sizeof *bias);
    for (size_t n = 0; n < s->samples; n++) {
        struct sample sample = sample_of(&work, n);
        vector_add(s->units, da, sample.dv);
        for (size_t q = 0; q < s->queries; q++) vector_add(s->units, bias, sample.dquery + q * s->units);
    }
    const float *a = call->weights[0];
    double norm = norm_of(s->units, a), along = 0;
    for (size_t u = 0; u < s->units; u++) along += (double)da[u] * (double)a[u] / norm;
    double scale = (double)call->weights[1][0] / norm;
    for (size_t u = 0; u < s->units; u++) da[u] = (float)(scale * ((double)da[u] - along * (double)a[u] / norm));
    call->gradients[1][0] = (float)along;
    return PS_OK;
}

const struct kernel_class cpu_additive_attention = {
    .piecewise = true,
    .set_sizes = set_sizes,
    .forward = forward,
    .backward_shared = backward_shared,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};
