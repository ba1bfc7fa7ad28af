/*
 * Group normalisation, see compute/reference/group_norm.c. Threads share the samples; for the gradients of gamma and beta they
 * share the channels. Sums over the positions are made channel by channel, row by row, in double, and then over the groups.
 *
 * Inner: mean and inverse for each channel of each sample (N, 2, C). Workspace: two sums in double for each (N, 2, C).
 */
#include <math.h>
#include <string.h>

#include "compute/cpu/cpu.h"

static size_t positions_of(const struct kernel *kernel) { return kernel_rows(kernel) / (size_t)kernel->samples; }

static void set_sizes(struct kernel *kernel) {
    int64_t channels = (int64_t)kernel_features(kernel) * kernel->samples;
    kernel->inner_bytes = 2 * channels * (int64_t)sizeof(float);
    kernel->workspace_bytes = 2 * channels * (int64_t)sizeof(double);
}

static VECTOR_CLONES void add_values(size_t count, const float *restrict x, double *restrict sums) {
#pragma omp simd
    for (size_t c = 0; c < count; c++) sums[c] += (double)x[c];
}

static VECTOR_CLONES void add_squares(size_t count, const float *restrict x, const float *restrict mean,
                                      double *restrict sums) {
#pragma omp simd
    for (size_t c = 0; c < count; c++) {
        double distance = (double)x[c] - (double)mean[c];
        sums[c] += distance * distance;
    }
}

static VECTOR_CLONES void normalise(size_t count, const float *restrict x, const float *restrict mean,
                                    const float *restrict inverse, const float *gamma, const float *beta, float *restrict y) {
#pragma omp simd
    for (size_t c = 0; c < count; c++) y[c] = (x[c] - mean[c]) * inverse[c];
    for (size_t c = 0; c < count && gamma != NULL; c++) y[c] *= gamma[c];
    for (size_t c = 0; c < count && beta != NULL; c++) y[c] += beta[c];
}

/* The mean of the channels' sums over each group, for each of its channels. */
static double group_mean(const double *sums, size_t channel, size_t each, size_t positions) {
    double sum = 0;
    for (size_t c = channel; c < channel + each; c++) sum += sums[c];
    return sum / (double)(each * positions);
}

static void forward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    size_t channels = kernel_features(kernel), positions = positions_of(kernel);
    size_t each = channels / (size_t)kernel->node->attributes.groups;
    for (size_t n = first; n < end; n++) {
        const float *x = call->input[0] + n * positions * channels;
        float *y = call->output + n * positions * channels, *mean = call->inner + 2 * n * channels, *inverse = mean + channels;
        double *sums = (double *)call->workspace + 2 * n * channels, *squares = sums + channels;
        memset(sums, 0, 2 * channels * sizeof *sums);
        for (size_t p = 0; p < positions; p++) add_values(channels, x + p * channels, sums);
        for (size_t c = 0; c < channels; c++) mean[c] = (float)group_mean(sums, c / each * each, each, positions);
        for (size_t p = 0; p < positions; p++) add_squares(channels, x + p * channels, mean, squares);
        for (size_t c = 0; c < channels; c++) {
            double variance = group_mean(squares, c / each * each, each, positions);
            inverse[c] = (float)(1 / sqrt(variance + (double)kernel->node->attributes.epsilon));
        }
        for (size_t p = 0; p < positions; p++) {
            size_t at = p * channels;
            normalise(channels, x + at, mean, inverse, call->weights[0], call->weights[1], y + at);
        }
    }
}

/* g = gamma dy into dx, and the sums of g and g n. */
static VECTOR_CLONES void weigh(size_t count, const float *restrict x, const float *restrict dy, const float *gamma,
                                const float *restrict mean, const float *restrict inverse, float *restrict dx,
                                double *restrict sums, double *restrict products) {
    for (size_t c = 0; c < count; c++) dx[c] = gamma != NULL ? gamma[c] * dy[c] : dy[c];
#pragma omp simd
    for (size_t c = 0; c < count; c++) {
        sums[c] += (double)dx[c];
        products[c] += (double)(dx[c] * ((x[c] - mean[c]) * inverse[c]));
    }
}

static VECTOR_CLONES void finish(size_t count, const float *restrict x, const float *restrict mean,
                                 const float *restrict inverse, const double *restrict shift, const double *restrict slope,
                                 float *restrict dx) {
#pragma omp simd
    for (size_t c = 0; c < count; c++) {
        float n = (x[c] - mean[c]) * inverse[c];
        dx[c] = inverse[c] * (dx[c] - (float)shift[c] - n * (float)slope[c]);
    }
}

/* Each channel's sum becomes its group's mean. */
static void share(double *sums, size_t channels, size_t each, size_t positions) {
    for (size_t group = 0; group < channels; group += each) {
        double mean = group_mean(sums, group, each, positions);
        for (size_t c = group; c < group + each; c++) sums[c] = mean;
    }
}

static void backward_input(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    size_t channels = kernel_features(kernel), positions = positions_of(kernel);
    size_t each = channels / (size_t)kernel->node->attributes.groups;
    for (size_t n = first; n < end; n++) {
        size_t start = n * positions * channels;
        const float *x = call->input[0] + start, *dy = call->output_gradient + start;
        const float *mean = call->inner + 2 * n * channels, *inverse = mean + channels;
        float *dx = call->input_gradient[0] + start;
        double *sums = (double *)call->workspace + 2 * n * channels, *products = sums + channels;
        memset(sums, 0, 2 * channels * sizeof *sums);
        for (size_t at = 0; at < positions * channels; at += channels)
            weigh(channels, x + at, dy + at, call->weights[0], mean, inverse, dx + at, sums, products);
        share(sums, channels, each, positions);
        share(products, channels, each, positions);
        for (size_t at = 0; at < positions * channels; at += channels)
            finish(channels, x + at, mean, inverse, sums, products, dx + at);
    }
}

static VECTOR_CLONES void add_row(size_t count, const float *restrict x, const float *restrict dy, const float *restrict mean,
                                  const float *restrict inverse, float *restrict dgamma, float *restrict dbeta) {
#pragma omp simd
    for (size_t c = 0; c < count; c++) dgamma[c] += dy[c] * ((x[c] - mean[c]) * inverse[c]);
    for (size_t c = 0; c < count && dbeta != NULL; c++) dbeta[c] += dy[c];
}

static void backward_weight(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    size_t channels = kernel_features(kernel), positions = positions_of(kernel), count = end - first;
    if (call->gradients[0] == NULL) return;
    float *dgamma = call->gradients[0] + first, *dbeta = call->gradients[1] != NULL ? call->gradients[1] + first : NULL;
    for (size_t row = call->first_row; row < call->end_row; row++) {
        size_t at = row * channels + first;
        const float *mean = call->inner + 2 * (row / positions) * channels + first;
        add_row(count, call->input[0] + at, call->output_gradient + at, mean, mean + channels, dgamma, dbeta);
    }
}

const struct kernel_class cpu_group_norm = {
    .set_sizes = set_sizes,
    .piecewise = true,
    .forward_loop = {OVER_SAMPLES, forward},
    .backward_input_loop = {OVER_SAMPLES, backward_input},
    .backward_weight_loop = {OVER_SUMS, backward_weight, 16},
};
