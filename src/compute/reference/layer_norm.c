/*
 * Layer normalisation, and RMS normalisation, whose mean is 0. x, y (R, D), one row a sample or position; gamma, beta (D), 1
 * and 0 where there are none. For each row
 *
 *     n = (x - mean) inverse,   inverse = 1 / sqrt(variance + epsilon),   y = gamma n + beta
 *     dx = inverse (g - mean(g) - n mean(g n))  with g = gamma dy;   dgamma = sum dy n,  dbeta = sum dy  over the rows
 *
 * Without the subtraction of the mean dx has no mean(g).
 */
#include <math.h>

#include "compute/reference/reference.h"

struct row {
    double mean, inverse;
};

static bool is_centred(const struct kernel *kernel) { return kernel->node->id == OPERATOR_LAYER_NORM; }

static struct row measure(const struct kernel *kernel, const float *x) {
    size_t features = kernel_features(kernel);
    double sum = 0, squares = 0;
    for (size_t d = 0; d < features && is_centred(kernel); d++) sum += (double)x[d];
    double mean = sum / (double)features;
    for (size_t d = 0; d < features; d++) squares += ((double)x[d] - mean) * ((double)x[d] - mean);
    double epsilon = (double)kernel->node->attributes.epsilon;
    return (struct row){mean, 1 / sqrt(squares / (double)features + epsilon)};
}

/* Element `d` of a parameter that may not be there. */
static double element(const float *parameter, size_t d, double missing) {
    return parameter != NULL ? (double)parameter[d] : missing;
}

static void forward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    size_t features = kernel_features(kernel);
    for (size_t r = first; r < end; r++) {
        const float *x = call->input[0] + r * features;
        struct row row = measure(kernel, x);
        for (size_t d = 0; d < features; d++) {
            double n = ((double)x[d] - row.mean) * row.inverse;
            call->output[r * features + d] = (float)(n * element(call->weights[0], d, 1) + element(call->weights[1], d, 0));
        }
    }
}

static void backward_input(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    size_t features = kernel_features(kernel);
    for (size_t r = first; r < end; r++) {
        const float *x = call->input[0] + r * features, *dy = call->output_gradient + r * features, *gamma = call->weights[0];
        struct row row = measure(kernel, x);
        double sum = 0, product = 0;
        for (size_t d = 0; d < features; d++) {
            double g = element(gamma, d, 1) * (double)dy[d];
            sum += is_centred(kernel) ? g : 0;
            product += g * ((double)x[d] - row.mean) * row.inverse;
        }
        for (size_t d = 0; d < features; d++) {
            double n = ((double)x[d] - row.mean) * row.inverse;
            double rest = element(gamma, d, 1) * (double)dy[d] - (sum + n * product) / (double)features;
            call->input_gradient[0][r * features + d] = (float)(row.inverse * rest);
        }
    }
}

static void backward_weight(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    size_t features = kernel_features(kernel), rows = kernel_rows(kernel);
    for (size_t d = first; d < end; d++) {
        double gamma = 0, beta = 0;
        for (size_t r = 0; r < rows; r++) {
            const float *x = call->input[0] + r * features;
            struct row row = measure(kernel, x);
            double dy = (double)call->output_gradient[r * features + d];
            gamma += dy * ((double)x[d] - row.mean) * row.inverse;
            beta += dy;
        }
        if (call->gradients[0] != NULL) call->gradients[0][d] = (float)gamma;
        if (call->gradients[1] != NULL) call->gradients[1][d] = (float)beta;
    }
}

const struct kernel_class reference_layer_norm = {
    .forward_loop = {OVER_ROWS, forward},
    .backward_input_loop = {OVER_ROWS, backward_input},
    .backward_weight_loop = {OVER_FEATURES, backward_weight},
};

const struct kernel_class reference_rms_norm = {
    .forward_loop = {OVER_ROWS, forward},
    .backward_input_loop = {OVER_ROWS, backward_input},
    .backward_weight_loop = {OVER_FEATURES, backward_weight},
};
