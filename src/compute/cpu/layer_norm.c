/*
 * Layer and RMS normalisation, see compute/reference/layer_norm.c. Inner: mean and inverse of each row. Threads share the rows;
 * for the gradients of gamma and beta they share the features, and each reads all rows.
 */
#include <math.h>

#include "compute/cpu/cpu.h"

static bool is_centred(const struct kernel *kernel) { return kernel->node->id == OPERATOR_LAYER_NORM; }

static void set_sizes(struct kernel *kernel) { kernel->inner_bytes = 2 * (int64_t)(kernel_rows(kernel) * sizeof(float)); }

/* A shift without a scale there is not. */
static VECTOR_CLONES void normalise(size_t count, float *y, const float *x, float mean, float inverse, const float *gamma,
                                    const float *beta) {
    if (gamma != NULL && beta != NULL) {
#pragma omp simd
        for (size_t i = 0; i < count; i++) y[i] = (x[i] - mean) * inverse * gamma[i] + beta[i];
    } else if (gamma != NULL) {
#pragma omp simd
        for (size_t i = 0; i < count; i++) y[i] = (x[i] - mean) * inverse * gamma[i];
    } else {
#pragma omp simd
        for (size_t i = 0; i < count; i++) y[i] = (x[i] - mean) * inverse;
    }
}

static void forward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    size_t features = kernel_features(kernel);
    float *means = call->inner, *inverses = means + kernel_rows(kernel);
    for (size_t row = first; row < end; row++) {
        const float *x = call->input[0] + row * features;
        float mean = is_centred(kernel) ? vector_sum(features, x) / (float)features : 0;
        float variance = vector_distance(features, x, mean) / (float)features;
        means[row] = mean;
        inverses[row] = 1 / sqrtf(variance + kernel->node->attributes.epsilon);
        normalise(features, call->output + row * features, x, mean, inverses[row], call->weights[0], call->weights[1]);
    }
}

/* g = gamma dy into dx. */
static VECTOR_CLONES void weigh(size_t count, float *g, const float *gamma, const float *dy) {
    if (gamma == NULL) {
        for (size_t i = 0; i < count; i++) g[i] = dy[i];
        return;
    }
#pragma omp simd
    for (size_t i = 0; i < count; i++) g[i] = gamma[i] * dy[i];
}

static VECTOR_CLONES void finish(size_t count, float *dx, const float *x, float mean, float inverse, float shift, float slope) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) dx[i] = inverse * (dx[i] - shift - (x[i] - mean) * slope);
}

static void backward_input(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    size_t count = kernel_features(kernel);
    const float *means = call->inner, *inverses = means + kernel_rows(kernel);
    for (size_t row = first; row < end; row++) {
        const float *x = call->input[0] + row * count;
        float *dx = call->input_gradient[0] + row * count, mean = means[row], inverse = inverses[row];
        weigh(count, dx, call->weights[0], call->output_gradient + row * count);
        float sum = is_centred(kernel) ? vector_sum(count, dx) : 0;
        float product = (vector_dot(count, dx, x) - mean * sum) * inverse;
        finish(count, dx, x, mean, inverse, sum / (float)count, product / (float)count * inverse);
    }
}

static VECTOR_CLONES void add_row(size_t count, float *dgamma, float *dbeta, const float *x, const float *dy, float mean,
                                  float inverse) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) dgamma[i] += dy[i] * ((x[i] - mean) * inverse);
    if (dbeta == NULL) return;
#pragma omp simd
    for (size_t i = 0; i < count; i++) dbeta[i] += dy[i];
}

static void backward_weight(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    size_t rows = kernel_rows(kernel), features = kernel_features(kernel);
    const float *means = call->inner, *inverses = means + rows;
    if (call->gradients[0] == NULL) return;
    float *dgamma = call->gradients[0] + first, *dbeta = call->gradients[1] != NULL ? call->gradients[1] + first : NULL;
    for (size_t row = call->first_row; row < call->end_row; row++) {
        size_t at = row * features + first;
        add_row(end - first, dgamma, dbeta, call->input[0] + at, call->output_gradient + at, means[row], inverses[row]);
    }
}

const struct kernel_class cpu_layer_norm = {
    .set_sizes = set_sizes,
    .piecewise = true,
    .forward_loop = {OVER_ROWS, forward, 16},
    .backward_input_loop = {OVER_ROWS, backward_input, 16},
    .backward_weight_loop = {OVER_SUMS, backward_weight, 64},
};

const struct kernel_class cpu_rms_norm = {
    .set_sizes = set_sizes,
    .piecewise = true,
    .forward_loop = {OVER_ROWS, forward, 16},
    .backward_input_loop = {OVER_ROWS, backward_input, 16},
    .backward_weight_loop = {OVER_SUMS, backward_weight, 64},
};
