/*
 * Group normalisation; as reference/group_norm.c. x, y (N, P, C) with P positions. For each group of C / G channels of a
 * sample, over these and all positions,
 *
 *     n = (x - mean) inverse,   inverse = 1 / sqrt(variance + epsilon),   y = gamma n + beta
 *     dx = inverse (g - mean(g) - n mean(g n))  with g = gamma dy;   dgamma = sum dy n,  dbeta = sum dy
 *
 * A team has a group of a sample; VECTOR divides its channels. Sums are of x - k with k its first element. Inner memory holds
 * mean and inverse of each.
 */
#define POSITIONS (Y_D1 * Y_D2 * Y_D3 * Y_D4 * Y_D5)
#define CHANNELS (FEATURES / A_groups)
#define COUNT (POSITIONS * CHANNELS)
#define EACH_NUMBER(j) UNROLL for (int j = 0; j < VECTOR; j++)

/* Where element i of a group lies, and its channel. */
#define FIRST(group) ((group) / A_groups * POSITIONS * FEATURES + (group) % A_groups * CHANNELS)
#define AT(group, i) (FIRST(group) + (int64_t)((i) / CHANNELS) * FEATURES + (i) % CHANNELS)
#define CHANNEL(group, i) ((group) % A_groups * CHANNELS + (i) % CHANNELS)

DEVICE void get_gamma(const struct call *a, int64_t channel, float gamma[VECTOR]) {
#if A_weight
    GET_VECTOR(W0, a->weights[0], channel, gamma);
#else
    (void)a, (void)channel;
    EACH_NUMBER(j) gamma[j] = 1;
#endif
}

DEVICE void get_beta(const struct call *a, int64_t channel, float beta[VECTOR]) {
#if A_bias
    GET_VECTOR(W1, a->weights[1], channel, beta);
#else
    (void)a, (void)channel;
    EACH_NUMBER(j) beta[j] = 0;
#endif
}

KERNEL(forward) {
    TEAM_ROWS(group, a.count) {
        const float shift = GET(X0, a.input[0].value, FIRST(group));
        float sum = 0, squares = 0;
        TEAM_EACH(i, COUNT) {
            float x[VECTOR];
            GET_VECTOR(X0, a.input[0].value, AT(group, i), x);
            EACH_NUMBER(j) {
                const float distance = x[j] - shift;
                sum += distance, squares += distance * distance;
            }
        }
        const double all = (double)team_sum(sum) / COUNT, apart = (double)team_sum(squares) / COUNT - all * all;
        const float mean = (float)((double)shift + all);
        const float inverse = 1 / sqrtf((float)(apart < 0 ? 0 : apart) + A_epsilon);
        if (TEAM_RANK == 0) ((float *)a.inner)[2 * group] = mean, ((float *)a.inner)[2 * group + 1] = inverse;
        TEAM_EACH(i, COUNT) {
            float x[VECTOR], gamma[VECTOR], y[VECTOR];
            GET_VECTOR(X0, a.input[0].value, AT(group, i), x);
            get_gamma(&a, CHANNEL(group, i), gamma);
            get_beta(&a, CHANNEL(group, i), y);
            EACH_NUMBER(j) y[j] += (x[j] - mean) * inverse * gamma[j];
            PUT_VECTOR(Y, a.output, AT(group, i), y);
        }
    }
}

/* n and g of VECTOR elements. */
DEVICE void get_slopes(const struct call *a, int64_t group, int i, float mean, float inverse, float n[VECTOR],
                       float slope[VECTOR]) {
    float gamma[VECTOR];
    GET_VECTOR(X0, a->input[0].value, AT(group, i), n);
    GET_VECTOR(Y, a->output_gradient, AT(group, i), slope);
    get_gamma(a, CHANNEL(group, i), gamma);
    EACH_NUMBER(j) n[j] = (n[j] - mean) * inverse, slope[j] *= gamma[j];
}

KERNEL(backward_input) {
    TEAM_ROWS(group, a.count) {
        const float mean = ((const float *)a.inner)[2 * group], inverse = ((const float *)a.inner)[2 * group + 1];
        float n[VECTOR], slope[VECTOR], sum = 0, product = 0;
        TEAM_EACH(i, COUNT) {
            get_slopes(&a, group, i, mean, inverse, n, slope);
            EACH_NUMBER(j) sum += slope[j], product += slope[j] * n[j];
        }
        sum = team_sum(sum) / (float)COUNT;
        product = team_sum(product) / (float)COUNT;
        TEAM_EACH(i, COUNT) {
            float dx[VECTOR];
            get_slopes(&a, group, i, mean, inverse, n, slope);
            EACH_NUMBER(j) dx[j] = inverse * (slope[j] - sum - n[j] * product);
            PUT_VECTOR(X0, a.input[0].gradient, AT(group, i), dx);
        }
    }
}

#if A_weight
#define COLUMN_SUMS 2
DEVICE void column_terms(const struct call *a, int64_t row, int64_t column, float terms[COLUMN_SUMS]) {
    const int64_t group = row / POSITIONS * A_groups + column / CHANNELS;
    const float mean = ((const float *)a->inner)[2 * group], inverse = ((const float *)a->inner)[2 * group + 1];
    const float dy = GET(Y, a->output_gradient, row * FEATURES + column);
    terms[0] = dy * (GET(X0, a->input[0].value, row * FEATURES + column) - mean) * inverse;
    terms[1] = dy;
}
DEVICE void column_store(const struct call *a, int64_t column, const float sums[COLUMN_SUMS]) {
    if (a->gradients[0]) a->gradients[0][column] = sums[0];
    if (a->gradients[1]) a->gradients[1][column] = sums[1];
}
#include "columns.h"
#endif
