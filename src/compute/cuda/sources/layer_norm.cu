/*
 * Layer normalisation, and RMS normalisation, whose mean is 0 (CENTRED 0); as reference/layer_norm.c. For each row
 *
 *     n = (x - mean) inverse,   inverse = 1 / sqrt(variance + epsilon),   y = gamma n + beta
 *     dx = inverse (g - mean(g) - n mean(g n))  with g = gamma dy;   dgamma = sum dy n,  dbeta = sum dy  over the rows
 *
 * gamma and beta are there where HAS_GAMMA and HAS_BETA say so. Inner memory holds mean and inverse of each row. A team has a
 * row, which is read once where it fits in the registers.
 */

/* So few registers that several blocks run at once. */
BOUNDED(forward) BOUNDED(backward_input)

/* A thread's share of its row: PARTS vectors that are TEAM vectors apart, in GROUPS groups whose GROUP vectors are loaded
 * together. A single group stays in registers from one pass to the next. */
#define PARTS ((FEATURES + TEAM * VECTOR - 1) / (TEAM * VECTOR))
#define GROUPS (PARTS * VECTOR <= 32 ? 1 : (PARTS * VECTOR + 15) / 16)
#define GROUP ((PARTS + GROUPS - 1) / GROUPS)
#define AT(g, p) ((((g) * GROUP + (p)) * TEAM + TEAM_RANK) * VECTOR)
#define EACH_PART(g, p) UNROLL for (int p = 0; p < GROUP; p++) if (AT(g, p) < FEATURES)
#define EACH_NUMBER(j) UNROLL for (int j = 0; j < VECTOR; j++)
#define LOAD(type, block, start, g, numbers)                                                                                   \
    EACH_PART(g, p) { GET_VECTOR(type, block, (start) + AT(g, 0) + (int64_t)(p * TEAM * VECTOR), numbers[p]); }

DEVICE void get_gamma(const struct call *a, int i, float gamma[VECTOR]) {
#if HAS_GAMMA
    GET_VECTOR(W0, a->weights[0], i, gamma);
#else
    (void)a, (void)i;
    EACH_NUMBER(j) gamma[j] = 1;
#endif
}

DEVICE void get_beta(const struct call *a, int i, float beta[VECTOR]) {
#if HAS_BETA
    GET_VECTOR(W1, a->weights[1], i, beta);
#else
    (void)a, (void)i;
    EACH_NUMBER(j) beta[j] = 0;
#endif
}

KERNEL(forward) {
    TEAM_ROWS(row, a.count) {
        const int64_t start = row * FEATURES;
        float x[GROUP][VECTOR], sum = 0, squares = 0, mean = 0;
        for (int g = 0; g < GROUPS && CENTRED; g++) {
            LOAD(X0, a.input[0].value, start, g, x)
            EACH_PART(g, p) EACH_NUMBER(j) sum += x[p][j];
        }
        if (CENTRED) mean = team_sum(sum) / (float)FEATURES;
        for (int g = 0; g < GROUPS; g++) {
            if (GROUPS > 1 || !CENTRED) { LOAD(X0, a.input[0].value, start, g, x) }
            EACH_PART(g, p) EACH_NUMBER(j) squares += (x[p][j] - mean) * (x[p][j] - mean);
        }
        const float inverse = 1 / sqrtf(team_sum(squares) / (float)FEATURES + A_epsilon);
        if (TEAM_RANK == 0) ((float *)a.inner)[2 * row] = mean, ((float *)a.inner)[2 * row + 1] = inverse;
        for (int g = 0; g < GROUPS; g++) {
            if (GROUPS > 1) { LOAD(X0, a.input[0].value, start, g, x) }
            EACH_PART(g, p) {
                float gamma[VECTOR], y[VECTOR];
                get_gamma(&a, AT(g, p), gamma);
                get_beta(&a, AT(g, p), y);
                EACH_NUMBER(j) y[j] += (x[p][j] - mean) * inverse * gamma[j];
                PUT_VECTOR(Y, a.output, start + AT(g, p), y);
            }
        }
    }
}

/* n and g of a group of the thread's share. */
DEVICE void load_slopes(const struct call *a, int64_t start, int g, float mean, float inverse, float n[GROUP][VECTOR],
                        float slope[GROUP][VECTOR]) {
    LOAD(X0, a->input[0].value, start, g, n)
    LOAD(Y, a->output_gradient, start, g, slope)
    EACH_PART(g, p) {
        float gamma[VECTOR];
        get_gamma(a, AT(g, p), gamma);
        EACH_NUMBER(j) n[p][j] = (n[p][j] - mean) * inverse, slope[p][j] *= gamma[j];
    }
}

KERNEL(backward_input) {
    TEAM_ROWS(row, a.count) {
        const int64_t start = row * FEATURES;
        const float mean = ((const float *)a.inner)[2 * row], inverse = ((const float *)a.inner)[2 * row + 1];
        float n[GROUP][VECTOR], slope[GROUP][VECTOR], sum = 0, product = 0;
        for (int g = 0; g < GROUPS; g++) {
            load_slopes(&a, start, g, mean, inverse, n, slope);
            EACH_PART(g, p) EACH_NUMBER(j) sum += slope[p][j], product += slope[p][j] * n[p][j];
        }
        sum = CENTRED ? team_sum(sum) / (float)FEATURES : 0;
        product = team_sum(product) / (float)FEATURES;
        for (int g = 0; g < GROUPS; g++) {
            if (GROUPS > 1) load_slopes(&a, start, g, mean, inverse, n, slope);
            EACH_PART(g, p) {
                float dx[VECTOR];
                EACH_NUMBER(j) dx[j] = inverse * (slope[p][j] - sum - n[p][j] * product);
                PUT_VECTOR(X0, a.input[0].gradient, start + AT(g, p), dx);
            }
        }
    }
}

#if HAS_GAMMA
#if HAS_BETA
#define COLUMN_SUMS 2
#else
#define COLUMN_SUMS 1
#endif
DEVICE void column_terms(const struct call *a, int64_t row, int64_t column, float terms[COLUMN_SUMS]) {
    const float mean = ((const float *)a->inner)[2 * row], inverse = ((const float *)a->inner)[2 * row + 1];
    const float dy = GET(Y, a->output_gradient, row * FEATURES + column);
    terms[0] = dy * (GET(X0, a->input[0].value, row * FEATURES + column) - mean) * inverse;
    terms[COLUMN_SUMS - 1] = COLUMN_SUMS == 2 ? dy : terms[0];
}
DEVICE void column_store(const struct call *a, int64_t column, const float sums[COLUMN_SUMS]) {
    if (a->gradients[0]) a->gradients[0][column] = sums[0];
    if (COLUMN_SUMS == 2 && a->gradients[1]) a->gradients[1][column] = sums[COLUMN_SUMS - 1];
}
#include "columns.h"
#endif
