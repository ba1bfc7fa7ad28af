/*
 * Additive attention: queries (N, Q, U), keys (N, K, U), values (N, K, V), tokens (N, K), y (N, Q, V). v = scalar a / |a|,
 * t_qku = tanh(query_qu + key_ku + bias_u), p = softmax over k of the sum over u of v_u t_qku; y = p values. Backward:
 *
 *     dp_qk = dy_q value_k,  ds = p (dp - sum over k of p dp),  dvalue_k = sum over q of p_qk dy_q,
 *     e_qu = sum over k of ds (1 - t^2),  f_qu = sum over k of ds t,  dquery = v e,  dkey_ku = v_u sum over q of ds (1 - t^2),
 *     dbias = sums of v e,  dv = sums of f,  dscalar = dv a / |a|,  da = scalar / |a| (dv - dscalar a / |a|)
 */
#if TOKENS
#define PADDING(key) (((const int32_t *)a.input[3].value)[key] == 0)
#else
#define PADDING(key) 0
#endif

/* Of the workspace. */
DEVICE float *v_of(const struct call *a) { return (float *)a->workspace; }
DEVICE float *dv_of(const struct call *a) { return v_of(a) + UNITS; }
DEVICE float *e_of(const struct call *a) { return dv_of(a) + UNITS; }
DEVICE float *f_of(const struct call *a) { return e_of(a) + (int64_t)SAMPLES * QUERIES * UNITS; }
DEVICE float *ds_of(const struct call *a) { return f_of(a) + (int64_t)SAMPLES * QUERIES * UNITS; }

/* |a|, the same for all threads of a team. */
DEVICE float norm_of(const float *weights) {
    float squares = 0;
    for (int u = TEAM_RANK; u < UNITS; u += TEAM) squares += weights[u] * weights[u];
    return sqrtf(team_sum(squares));
}

KERNEL(normalize) {
    const float *weights = (const float *)a.weights[0], scale = ((const float *)a.weights[1])[0] / norm_of(weights);
    for (int u = TEAM_RANK; u < UNITS; u += TEAM) v_of(&a)[u] = weights[u] * scale;
}

/* A team for each query and key: the score, at first in p's place. */
KERNEL(score) {
    TEAM_ROWS(pair, a.count) {
        const int64_t query = pair / KEYS, key = query / QUERIES * KEYS + pair % KEYS;
        float sum = 0;
        if (PADDING(key)) continue;
        TEAM_EACH(u, UNITS) {
            float q[VECTOR], k[VECTOR], bias[VECTOR], v[VECTOR];
            GET_VECTOR(X0, a.input[0].value, query * UNITS + u, q);
            GET_VECTOR(X1, a.input[1].value, key * UNITS + u, k);
            GET_VECTOR(f32, a.weights[2], u, bias);
            GET_VECTOR(f32, v_of(&a), u, v);
            for (int j = 0; j < VECTOR; j++) sum += v[j] * tanhf(q[j] + k[j] + bias[j]);
        }
        sum = team_sum(sum);
        if (TEAM_RANK == 0) ((float *)a.inner)[pair] = sum;
    }
}

KERNEL(softmax) {
    TEAM_ROWS(query, a.count) {
        float *p = (float *)a.inner + query * KEYS;
        const float least = bits_float(0xff800000u);
        float largest = least, sum = 0;
        for (int k = TEAM_RANK; k < KEYS; k += TEAM)
            if (!PADDING(query / QUERIES * KEYS + k)) largest = LARGER_OF(p[k], largest);
        largest = team_max(largest);
        for (int k = TEAM_RANK; k < KEYS; k += TEAM) {
            p[k] = PADDING(query / QUERIES * KEYS + k) ? 0 : expf(p[k] - largest);
            sum += p[k];
        }
        sum = team_sum(sum);
        for (int k = TEAM_RANK; k < KEYS; k += TEAM) p[k] = sum > 0 ? p[k] / sum : p[k];
    }
}

KERNEL(output) {
    EACH(i, a.count) {
        const int64_t query = i / FEATURES, first = query / QUERIES * KEYS, feature = i % FEATURES;
        const float *p = (const float *)a.inner + query * KEYS;
        float sum = 0;
        for (int k = 0; k < KEYS; k++)
            if (p[k] != 0) sum += p[k] * GET(X2, a.input[2].value, (first + k) * FEATURES + feature);
        PUT(Y, a.output, i, sum);
    }
}

/* dp in ds's place. */
KERNEL(weight_gradient) {
    TEAM_ROWS(pair, a.count) {
        const int64_t query = pair / KEYS, key = query / QUERIES * KEYS + pair % KEYS;
        float sum = 0;
        if (!PADDING(key))
            for (int i = TEAM_RANK; i < FEATURES; i += TEAM)
                sum += GET(Y, a.output_gradient, query * FEATURES + i) * GET(X2, a.input[2].value, key * FEATURES + i);
        sum = team_sum(sum);
        if (TEAM_RANK == 0) ds_of(&a)[pair] = sum;
    }
}

KERNEL(score_gradient) {
    TEAM_ROWS(query, a.count) {
        const float *p = (const float *)a.inner + query * KEYS;
        float *ds = ds_of(&a) + query * KEYS, mean = 0;
        for (int k = TEAM_RANK; k < KEYS; k += TEAM) mean += p[k] * ds[k];
        mean = team_sum(mean);
        for (int k = TEAM_RANK; k < KEYS; k += TEAM) ds[k] = p[k] * (ds[k] - mean);
    }
}

/* e and f of each query and unit. */
KERNEL(query_sums) {
    EACH(i, a.count) {
        const int64_t query = i / UNITS, first = query / QUERIES * KEYS, unit = i % UNITS;
        const float *ds = ds_of(&a) + query * KEYS,
                    sum = GET(X0, a.input[0].value, i) + ((const float *)a.weights[2])[unit];
        float e = 0, f = 0;
        for (int k = 0; k < KEYS; k++) {
            if (ds[k] == 0) continue;
            const float t = tanhf(sum + GET(X1, a.input[1].value, (first + k) * UNITS + unit));
            e += ds[k] * (1 - t * t);
            f += ds[k] * t;
        }
        e_of(&a)[i] = e;
        f_of(&a)[i] = f;
    }
}

KERNEL(query_gradient) {
    if (!a.input[0].gradient) return;
    EACH(i, a.count) PUT(X0, a.input[0].gradient, i, v_of(&a)[i % UNITS] * e_of(&a)[i]);
}

KERNEL(key_gradient) {
    if (!a.input[1].gradient) return;
    EACH(i, a.count) {
        const int64_t key = i / UNITS, n = key / KEYS, unit = i % UNITS;
        const float *ds = ds_of(&a) + n * QUERIES * KEYS + key % KEYS,
                    sum = GET(X1, a.input[1].value, i) + ((const float *)a.weights[2])[unit];
        float e = 0;
        for (int q = 0; q < QUERIES; q++) {
            if (ds[q * KEYS] == 0) continue;
            const float t = tanhf(sum + GET(X0, a.input[0].value, (n * QUERIES + q) * UNITS + unit));
            e += ds[q * KEYS] * (1 - t * t);
        }
        PUT(X1, a.input[1].gradient, i, v_of(&a)[unit] * e);
    }
}

KERNEL(value_gradient) {
    if (!a.input[2].gradient) return;
    EACH(i, a.count) {
        const int64_t key = i / FEATURES, n = key / KEYS, feature = i % FEATURES;
        const float *p = (const float *)a.inner + n * QUERIES * KEYS + key % KEYS;
        float sum = 0;
        for (int q = 0; q < QUERIES; q++)
            sum += p[q * KEYS] * GET(Y, a.output_gradient, (n * QUERIES + q) * FEATURES + feature);
        PUT(X2, a.input[2].gradient, i, sum);
    }
}

#define COLUMN_SUMS 2

DEVICE void column_terms(const struct call *a, int64_t row, int64_t column, float terms[COLUMN_SUMS]) {
    terms[0] = f_of(a)[row * UNITS + column];
    terms[1] = e_of(a)[row * UNITS + column];
}

DEVICE void column_store(const struct call *a, int64_t column, const float sums[COLUMN_SUMS]) {
    dv_of(a)[column] = sums[0];
    if (a->gradients[2]) a->gradients[2][column] = v_of(a)[column] * sums[1];
}

#include "columns.h"

KERNEL(finish) {
    const float *weights = (const float *)a.weights[0], scalar = ((const float *)a.weights[1])[0], norm = norm_of(weights);
    float along = 0;
    for (int u = TEAM_RANK; u < UNITS; u += TEAM) along += dv_of(&a)[u] * (weights[u] / norm);
    along = team_sum(along);
    if (TEAM_RANK == 0 && a.gradients[1]) a.gradients[1][0] = along;
    for (int u = TEAM_RANK; u < UNITS && a.gradients[0]; u += TEAM)
        a.gradients[0][u] = scalar / norm * (dv_of(&a)[u] - along * (weights[u] / norm));
}
