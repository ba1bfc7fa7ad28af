/*
 * Softmax and cross-entropy. x (N, D) logits, y (N, D) probabilities, labels (N); for sequences and images N also counts the
 * positions. With label smoothing s the target t is (1 - s) at the label plus s / D everywhere, in training; evaluation takes
 * the label alone. With class weights w each t_d is multiplied by w_d, as PyTorch's. A label of -1 is not counted.
 *
 *     loss of a label = - sum over d of t_d log y_d,   dx = (y sum t - t) * gradient_scale
 */
#include <math.h>
#include <string.h>

#include "compute/reference/reference.h"

static int32_t label_of(const struct kernel_call *call, int64_t n) { return ((const int32_t *)call->target)[n]; }

static double target(const struct kernel *kernel, const struct kernel_call *call, int64_t d, int64_t label) {
    double smoothing = call->training ? (double)kernel->node->attributes.smoothing : 0;
    double share = (d == label ? 1 - smoothing : 0) + smoothing / (double)kernel_features(kernel);
    return share * graph_label_weight(kernel->graph, (int32_t)d);
}

/* The number of labels of counted samples; and whether label `n` counts. */
static int64_t labels_of(const struct kernel *kernel, const struct kernel_call *call) {
    return (int64_t)shape_rows(&kernel->node->shape, call->counted);
}

static bool counts(const struct kernel *kernel, const struct kernel_call *call, int64_t n) {
    return n < labels_of(kernel, call) && label_of(call, n) >= 0;
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    int64_t classes = (int64_t)kernel_features(kernel);
    for (int64_t n = 0; n < (int64_t)kernel_rows(kernel); n++) {
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
            if (counts(kernel, call, n)) *call->loss -= target(kernel, call, d, label_of(call, n)) * logarithm;
        }
        if (!counts(kernel, call, n)) continue;
        int64_t higher = 0;
        for (int64_t d = 0; d < classes; d++) higher += x[d] > x[label_of(call, n)];
        *call->correct += best == label_of(call, n);
        *call->correct5 += higher < 5;
    }
    return PS_OK;
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call) {
    int64_t classes = (int64_t)kernel_features(kernel);
    float *dx = call->input_gradient[0];
    memset(dx, 0, kernel_elements(kernel) * sizeof(float));
    for (int64_t n = 0; n < labels_of(kernel, call); n++) {
        double sum = 1;
        if (kernel->graph->class_weights != NULL && counts(kernel, call, n)) {
            sum = 0;
            for (int64_t d = 0; d < classes; d++) sum += target(kernel, call, d, label_of(call, n));
        }
        for (int64_t d = 0; d < classes && counts(kernel, call, n); d++) {
            double difference = (double)call->output[n * classes + d] * sum - target(kernel, call, d, label_of(call, n));
            dx[n * classes + d] = (float)(difference * (double)call->gradient_scale);
        }
    }
    return PS_OK;
}

const struct kernel_class reference_cross_entropy = {.forward = forward, .backward_input = backward_input};
