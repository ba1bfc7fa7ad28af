/*
 * Softmax and cross-entropy. x (N, D) logits, y (N, D) probabilities, labels (N). With label smoothing s the target is
 * t_d = (1 - s) [d == label] + s / D, and since the targets add up to one, with z_d = x_d - max x
 *
 *     loss of a sample = log sum exp z - sum over d of t_d z_d,   dx = (y - t) * gradient_scale
 *
 * It is small beside all else: one thread, sums in double.
 */
#include <math.h>
#include <string.h>

#include "compute/cpu/cpu.h"

/* Softmax of one sample; returns the first of the largest logits, and the logarithm of the sum. */
static int64_t softmax(int64_t classes, const float *x, float *y, double *logarithm) {
    int64_t best = 0;
    for (int64_t d = 1; d < classes; d++) {
        if (x[d] > x[best]) best = d;
    }
    double sum = 0;
    for (int64_t d = 0; d < classes; d++) {
        y[d] = expf(x[d] - x[best]);
        sum += (double)y[d];
    }
    float factor = (float)(1 / sum);
    for (int64_t d = 0; d < classes; d++) y[d] *= factor;
    *logarithm = log(sum);
    return best;
}

static double sample_loss(int64_t classes, const float *x, double largest, double logarithm, int64_t label, double smoothing) {
    double loss = logarithm - (1 - smoothing) * ((double)x[label] - largest);
    if (smoothing == 0) return loss;
    double mean = 0;
    for (int64_t d = 0; d < classes; d++) mean += (double)x[d] - largest;
    return loss - smoothing / (double)classes * mean;
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    const struct node *node = plain_of(kernel)->node;
    int64_t classes = node->shape.dim[0];
    for (int n = 0; n < kernel->samples; n++) {
        const float *x = call->input[0] + n * classes;
        double logarithm;
        int64_t best = softmax(classes, x, call->output + n * classes, &logarithm);
        if (n >= call->counted) continue;
        double smoothing = (double)node->attributes.smoothing;
        *call->loss += sample_loss(classes, x, (double)x[best], logarithm, call->labels[n], smoothing);
        *call->correct += best == call->labels[n];
    }
    return PS_OK;
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    const struct node *node = plain_of(kernel)->node;
    int64_t classes = node->shape.dim[0];
    float smoothing = node->attributes.smoothing, everywhere = smoothing / (float)classes;
    for (int n = 0; n < call->counted; n++) {
        const float *y = call->output + n * classes;
        float *dx = call->input_gradient[0] + n * classes;
        for (int64_t d = 0; d < classes; d++) {
            float target = d == call->labels[n] ? 1 - smoothing + everywhere : everywhere;
            dx[d] = (y[d] - target) * call->gradient_scale;
        }
    }
    size_t rest = (size_t)(kernel->samples - call->counted) * (size_t)classes;
    memset(call->input_gradient[0] + call->counted * classes, 0, rest * sizeof(float));
    return PS_OK;
}

const struct kernel_class cpu_cross_entropy = {
    .create = plain_create,
    .destroy = plain_destroy,
    .forward = forward,
    .backward_input = backward_input,
};
