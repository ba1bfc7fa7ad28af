/*
 * Softmax and cross-entropy. x (N, D) logits, y (N, D) probabilities, labels (N); for sequences N also counts the positions.
 * With label smoothing s the target t is (1 - s) at the label plus s / D everywhere, in training; evaluation takes the label
 * alone. A label of -1 is not counted.
 *
 *     loss of a label = - sum over d of t_d log y_d,   dx = (y - t) * gradient_scale
 */
#include <math.h>
#include <string.h>

#include "compute/reference/reference.h"

static double target(const struct kernel *kernel, const struct kernel_call *call, int64_t d, int64_t label) {
    const struct reference_kernel *k = reference_of(kernel);
    double smoothing = call->training ? (double)k->attributes->smoothing : 0;
    return (d == label ? 1 - smoothing : 0) + smoothing / (double)k->output.dim[0];
}

/* The number of labels of counted samples; and whether label `n` counts. */
static int64_t labels_of(const struct kernel *kernel, const struct kernel_call *call) {
    return reference_rows(kernel, &reference_of(kernel)->output) / kernel->samples * call->counted;
}

static bool counts(const struct kernel *kernel, const struct kernel_call *call, int64_t n) {
    return n < labels_of(kernel, call) && call->labels[n] >= 0;
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    int64_t classes = reference_of(kernel)->output.dim[0];
    for (int64_t n = 0; n < reference_rows(kernel, &reference_of(kernel)->output); n++) {
        const float *x = call->input[0] + n * classes;
        int64_t best = 0;
        for (int64_t d = 1; d < classes; d++) {
            if (x[d] > x[best]) best = d;
        }
        double sum = 0;
        for (int64_t d = 0; d < classes; d++) sum += exp((double)x[d] - (double)x[best]);
        for (int64_t d = 0; d < classes; d++) {
            double logarithm = (double)x[d] - (double)x[best] - log(sum);
            call->output[n * classes + d] = (float)exp(logarithm);
            if (counts(kernel, call, n)) *call->loss -= target(kernel, call, d, call->labels[n]) * logarithm;
        }
        if (!counts(kernel, call, n)) continue;
        int64_t higher = 0;
        for (int64_t d = 0; d < classes; d++) higher += x[d] > x[call->labels[n]];
        *call->correct += best == call->labels[n];
        *call->correct5 += higher < 5;
    }
    return PS_OK;
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    int64_t classes = reference_of(kernel)->output.dim[0];
    float *dx = call->input_gradient[0];
    memset(dx, 0, (size_t)(reference_rows(kernel, &reference_of(kernel)->output) * classes) * sizeof(float));
    for (int64_t n = 0; n < labels_of(kernel, call); n++) {
        for (int64_t d = 0; d < classes && counts(kernel, call, n); d++) {
            double difference = (double)call->output[n * classes + d] - target(kernel, call, d, call->labels[n]);
            dx[n * classes + d] = (float)(difference * (double)call->gradient_scale);
        }
    }
    return PS_OK;
}

const struct kernel_class reference_cross_entropy = {
    .create = reference_create, .destroy = reference_destroy, .forward = forward, .backward_input = backward_input};
