/*
 * Layer normalisation. x, y (R, D), one row a sample or position; gamma, beta (D). For each row
 *
 *     n = (x - mean) inverse,   inverse = 1 / sqrt(variance + epsilon),   y = gamma n + beta
 *     dx = inverse (g - mean(g) - n mean(g n))  with g = gamma dy;   dgamma = sum dy n,  dbeta = sum dy  over the rows
 */
#include <math.h>

#include "compute/reference/reference.h"

struct row {
    double mean, inverse;
};

static int64_t features_of(const struct kernel *kernel) { return reference_of(kernel)->output.dim[0]; }
static int64_t rows_of(const struct kernel *kernel) { return reference_rows(kernel, &reference_of(kernel)->output); }

static struct row measure(const struct kernel *kernel, const float *x) {
    int64_t features = features_of(kernel);
    double sum = 0, squares = 0;
    for (int64_t d = 0; d < features; d++) sum += (double)x[d];
    double mean = sum / (double)features;
    for (int64_t d = 0; d < features; d++) squares += ((double)x[d] - mean) * ((double)x[d] - mean);
    double epsilon = (double)reference_of(kernel)->attributes->epsilon;
    return (struct row){mean, 1 / sqrt(squares / (double)features + epsilon)};
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    int64_t features = features_of(kernel);
    for (int64_t r = 0; r < rows_of(kernel); r++) {
        const float *x = call->input[0] + r * features;
        struct row row = measure(kernel, x);
        for (int64_t d = 0; d < features; d++) {
            double n = ((double)x[d] - row.mean) * row.inverse;
            call->output[r * features + d] = (float)(n * (double)call->weights[0][d] + (double)call->weights[1][d]);
        }
    }
    return PS_OK;
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    int64_t features = features_of(kernel);
    for (int64_t r = 0; r < rows_of(kernel); r++) {
        const float *x = call->input[0] + r * features, *dy = call->output_gradient + r * features, *gamma = call->weights[0];
        struct row row = measure(kernel, x);
        double sum = 0, product = 0;
        for (int64_t d = 0; d < features; d++) {
            double g = (double)gamma[d] * (double)dy[d];
            sum += g;
            product += g * ((double)x[d] - row.mean) * row.inverse;
        }
        for (int64_t d = 0; d < features; d++) {
            double n = ((double)x[d] - row.mean) * row.inverse;
            double rest = (double)gamma[d] * (double)dy[d] - (sum + n * product) / (double)features;
            call->input_gradient[0][r * features + d] = (float)(row.inverse * rest);
        }
    }
    return PS_OK;
}

static enum ps_status backward_weight(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    int64_t features = features_of(kernel);
    for (int64_t d = 0; d < features; d++) {
        double gamma = 0, beta = 0;
        for (int64_t r = 0; r < rows_of(kernel); r++) {
            const float *x = call->input[0] + r * features;
            struct row row = measure(kernel, x);
            double dy = (double)call->output_gradient[r * features + d];
            gamma += dy * ((double)x[d] - row.mean) * row.inverse;
            beta += dy;
        }
        call->gradients[0][d] = (float)gamma;
        call->gradients[1][d] = (float)beta;
    }
    return PS_OK;
}

const struct kernel_class reference_layer_norm = {
    .create = reference_create,
    .destroy = reference_destroy,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};
