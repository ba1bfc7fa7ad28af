/*
 * Layer normalisation, see compute/reference/layer_norm.c. Inner: mean and inverse of each row. Threads share the rows; for the
 * gradients of gamma and beta they share the features, and each reads all rows.
 */
#include <math.h>
#include <string.h>

#include "base/vector.h"
#include "compute/cpu/cpu.h"

struct norm {
    const struct kernel_call *call;
    size_t features, rows;
    float epsilon;
    float *mean, *inverse; /* by row */
};

static struct norm norm_of(const struct kernel *kernel, const struct kernel_call *call) {
    const struct node *node = plain_of(kernel)->node;
    size_t rows = shape_rows(&node->shape, kernel->samples);
    return (struct norm){call, (size_t)node->shape.dim[0], rows, node->attributes.epsilon, call->inner, call->inner + rows};
}

static enum ps_status create(struct device *device, const struct graph *graph, const struct node *node, int samples,
                             bool relu_follows, struct kernel **kernel, struct ps_error *error) {
    TRY(plain_create(device, graph, node, samples, relu_follows, kernel, error));
    (*kernel)->inner_bytes = 2 * (int64_t)(shape_rows(&node->shape, samples) * sizeof(float));
    return PS_OK;
}

static VECTOR_CLONES void normalise(size_t count, float *y, const float *x, float mean, float inverse, const float *gamma,
                                    const float *beta) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) y[i] = (x[i] - mean) * inverse * gamma[i] + beta[i];
}

static void forward_part(const void *context, int part, size_t first, size_t end) {
    (void)part;
    const struct norm *n = context;
    for (size_t row = first; row < end; row++) {
        const float *x = n->call->input[0] + row * n->features;
        float mean = vector_sum(n->features, x) / (float)n->features;
        float variance = vector_distance(n->features, x, mean) / (float)n->features;
        n->mean[row] = mean;
        n->inverse[row] = 1 / sqrtf(variance + n->epsilon);
        normalise(n->features, n->call->output + row * n->features, x, mean, n->inverse[row], n->call->weights[0],
                  n->call->weights[1]);
    }
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    struct norm norm = norm_of(kernel, call);
    cpu_parallel(plain_of(kernel)->device, norm.rows, 16, forward_part, &norm);
    return PS_OK;
}

/* g = gamma dy into dx. */
static VECTOR_CLONES void weigh(size_t count, float *g, const float *gamma, const float *dy) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) g[i] = gamma[i] * dy[i];
}

static VECTOR_CLONES void finish(size_t count, float *dx, const float *x, float mean, float inverse, float shift, float slope) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) dx[i] = inverse * (dx[i] - shift - (x[i] - mean) * slope);
}

static void input_part(const void *context, int part, size_t first, size_t end) {
    (void)part;
    const struct norm *n = context;
    size_t count = n->features;
    for (size_t row = first; row < end; row++) {
        const float *x = n->call->input[0] + row * count;
        float *dx = n->call->input_gradient[0] + row * count, mean = n->mean[row], inverse = n->inverse[row];
        weigh(count, dx, n->call->weights[0], n->call->output_gradient + row * count);
        float sum = vector_sum(count, dx), product = (vector_dot(count, dx, x) - mean * sum) * inverse;
        finish(count, dx, x, mean, inverse, sum / (float)count, product / (float)count * inverse);
    }
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    struct norm norm = norm_of(kernel, call);
    cpu_parallel(plain_of(kernel)->device, norm.rows, 16, input_part, &norm);
    return PS_OK;
}

static VECTOR_CLONES void add_row(size_t count, float *dgamma, float *dbeta, const float *x, const float *dy, float mean,
                                  float inverse) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        dgamma[i] += dy[i] * ((x[i] - mean) * inverse);
        dbeta[i] += dy[i];
    }
}

static void weight_part(const void *context, int part, size_t first, size_t end) {
    (void)part;
    const struct norm *n = context;
    float *dgamma = n->call->gradients[0] + first, *dbeta = n->call->gradients[1] + first;
    memset(dgamma, 0, (end - first) * sizeof *dgamma);
    memset(dbeta, 0, (end - first) * sizeof *dbeta);
    for (size_t row = 0; row < n->rows; row++) {
        size_t at = row * n->features + first;
        add_row(end - first, dgamma, dbeta, n->call->input[0] + at, n->call->output_gradient + at, n->mean[row],
                n->inverse[row]);
    }
}

static enum ps_status backward_weight(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    struct norm norm = norm_of(kernel, call);
    cpu_parallel(plain_of(kernel)->device, norm.features, 64, weight_part, &norm);
    return PS_OK;
}

const struct kernel_class cpu_layer_norm = {
    .create = create,
    .destroy = plain_destroy,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};
