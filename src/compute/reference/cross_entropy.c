/*
 * Softmax and cross-entropy. x (N, D) logits, y (N, D) probabilities, labels (N). With label smoothing s the target t is
 * (1 - s) at the label plus s / D everywhere.
 *
 *     loss of a sample = - sum over d of t_d log y_d,   dx = (y - t) * gradient_scale
 */
#include <math.h>
#include <string.h>

#include "compute/reference/reference.h"

static double target(const struct kernel *kernel, int64_t d, int64_t label) {
    const struct reference_kernel *k = reference_of(kernel);
    double smoothing = (double)k->attributes->smoothing;
    return (d == label ? 1 - smoothing : 0) + smoothing / (double)k->output.dim[0];
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    int64_t classes = reference_of(kernel)->output.dim[0];
    for (int n = 0; n < kernel->samples; n++) {
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
            if (n < call->counted) *call->loss -= target(kernel, d, call->labels[n]) * logarithm;
        }
        if (n < call->counted) *call->correct += best == call->labels[n];
    }
    return PS_OK;
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    int64_t classes = reference_of(kernel)->output.dim[0];
    float *dx = call->input_gradient[0];
    memset(dx, 0, (size_t)(kernel->samples * classes) * sizeof(float));
    for (int n = 0; n < call->counted; n++) {
        for (int64_t d = 0; d < classes; d++) {
            double difference = (double)call->output[n * classes + d] - target(kernel, d, call->labels[n]);
            dx[n * classes + d] = (float)(difference * (double)call->gradient_scale);
        }
    }
    return PS_OK;
}

const struct kernel_class reference_cross_entropy = {
    .create = reference_create, .destroy = reference_destroy, .forward = forward, .backward_input = backward_input};
