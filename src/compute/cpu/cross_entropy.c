/*
 * Softmax and cross-entropy. x (N, D) logits, y (N, D) probabilities, labels (N); for sequences and images N also counts the
 * positions. A label of -1 is not counted. With label smoothing s the target is t_d = (1 - s) [d == label] + s / D, and since
 * the targets add up to one, with z_d = x_d - max x
 *
 *     loss of a label = log sum exp z - sum over d of t_d z_d,   dx = (y - t) * gradient_scale
 *
 * With class weights w each t_d is multiplied by w_d, and their sum by the logarithm and by y.
 *
 * Threads share the rows; losses are added in the order of rows, in double.
 */
#include <math.h>
#include <string.h>

#include "compute/cpu/activation.h"
#include "compute/cpu/cpu.h"

enum { LANES = 16 }; /* sums over a row have this many partial sums on every CPU: the same bits everywhere */

VECTOR_CLONES static float largest_of(int64_t classes, const float *x) {
    float lanes[LANES];
    int64_t d = 0;
    for (int l = 0; l < LANES; l++) lanes[l] = x[0];
    for (; d + LANES <= classes; d += LANES) {
        for (int l = 0; l < LANES; l++) lanes[l] = x[d + l] > lanes[l] ? x[d + l] : lanes[l];
    }
    for (; d < classes; d++) lanes[0] = x[d] > lanes[0] ? x[d] : lanes[0];
    for (int l = 1; l < LANES; l++) lanes[0] = lanes[l] > lanes[0] ? lanes[l] : lanes[0];
    return lanes[0];
}

/* y = exp(x - largest); returns the sum. */
VECTOR_CLONES static double exponentials(int64_t classes, const float *x, float largest, float *restrict y) {
    double lanes[LANES] = {0}, sum = 0;
    int64_t d = 0;
    for (; d + LANES <= classes; d += LANES) {
        for (int l = 0; l < LANES; l++) y[d + l] = activation_exp(x[d + l] - largest);
        for (int l = 0; l < LANES; l++) lanes[l] += (double)y[d + l];
    }
    for (; d < classes; d++) {
        y[d] = activation_exp(x[d] - largest);
        lanes[0] += (double)y[d];
    }
    for (int l = 0; l < LANES; l++) sum += lanes[l];
    return sum;
}

/* Softmax of one row; returns the first of the largest logits, and the logarithm of the sum. */
static int64_t softmax(int64_t classes, const float *x, float *y, double *logarithm) {
    float largest = largest_of(classes, x);
    int64_t best = 0;
    while (best < classes - 1 && x[best] != largest) best++; /* with a NaN none is equal */
    double sum = exponentials(classes, x, largest, y);
    vector_scale((size_t)classes, y, (float)(1 / sum));
    *logarithm = log(sum);
    return best;
}

static double row_loss(int64_t classes, const float *x, double largest, double logarithm, int64_t label, double smoothing) {
    double loss = logarithm - (1 - smoothing) * ((double)x[label] - largest);
    if (smoothing == 0) return loss;
    double mean = 0;
    for (int64_t d = 0; d < classes; d++) mean += (double)x[d] - largest;
    return loss - smoothing / (double)classes * mean;
}

static double weighted_loss(int64_t classes, const float *w, const float *x, double largest, double logarithm, int64_t label,
                            double smoothing) {
    double loss = (1 - smoothing) * (double)w[label] * (logarithm - ((double)x[label] - largest)), rest = 0;
    for (int64_t d = 0; d < classes && smoothing > 0; d++) rest += (double)w[d] * (logarithm - ((double)x[d] - largest));
    return loss + smoothing / (double)classes * rest;
}

static VECTOR_CLONES int32_t count_above(size_t count, const float *x, float bound) {
    int32_t above = 0;
    for (size_t i = 0; i < count; i++) above += x[i] > bound;
    return above;
}

/* The loss and hits of a row, kept in the workspace until they are added in order. */
struct row {
    double loss;
    int32_t label, best;
    bool in_five;
};

/* Rows whose labels may count. */
static size_t labelled_rows(const struct kernel *kernel, const struct kernel_call *call) {
    return shape_rows(&kernel->node->shape, call->counted);
}

static void forward_rows(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    const float *weights = kernel->graph->class_weights;
    const int32_t *labels = call->target;
    size_t classes = kernel_features(kernel), labelled = labelled_rows(kernel, call);
    double smoothing = call->training ? (double)kernel->node->attributes.smoothing : 0;
    for (size_t n = first; n < end; n++) {
        const float *x = call->input[0] + n * classes;
        double logarithm;
        int64_t best = softmax((int64_t)classes, x, call->output + n * classes, &logarithm);
        struct row *row = (struct row *)call->workspace + n;
        *row = (struct row){.label = n < labelled ? labels[n] : -1, .best = (int32_t)best};
        if (row->label < 0) continue;
        row->loss = weights != NULL
                        ? weighted_loss((int64_t)classes, weights, x, (double)x[best], logarithm, row->label, smoothing)
                        : row_loss((int64_t)classes, x, (double)x[best], logarithm, row->label, smoothing);
        row->in_five = count_above(classes, x, x[row->label]) < 5;
    }
}

static void set_sizes(struct kernel *kernel) { kernel->workspace_bytes = (int64_t)(kernel_rows(kernel) * sizeof(struct row)); }

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    kernel_parallel(kernel, call, kernel_rows(kernel), 16, forward_rows);
    const struct row *rows = call->workspace;
    for (size_t n = 0; n < labelled_rows(kernel, call); n++) {
        *call->loss += rows[n].loss;
        *call->correct += rows[n].label >= 0 && rows[n].best == rows[n].label;
        *call->correct5 += rows[n].in_five;
    }
    return PS_OK;
}

/* Of a row with class weights w. */
static void weighted_gradient(size_t classes, const float *w, size_t label, float smoothing, float scale, const float *y,
                              float *dx) {
    const float everywhere = smoothing / (float)classes, own = (1 - smoothing) * w[label];
    double all = (double)own;
    for (size_t d = 0; d < classes; d++) all += (double)(everywhere * w[d]);
    for (size_t d = 0; d < classes; d++) dx[d] = (y[d] * (float)all - (everywhere * w[d] + (d == label ? own : 0))) * scale;
}

static void backward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    const float *weights = kernel->graph->class_weights;
    const int32_t *labels = call->target;
    size_t classes = kernel_features(kernel), labelled = labelled_rows(kernel, call);
    float smoothing = kernel->node->attributes.smoothing, everywhere = smoothing / (float)classes;
    for (size_t n = first; n < end; n++) {
        const float *y = call->output + n * classes;
        float *dx = call->input_gradient[0] + n * classes;
        if (n >= labelled || labels[n] < 0) {
            memset(dx, 0, classes * sizeof *dx);
            continue;
        }
        size_t label = (size_t)labels[n];
        if (weights != NULL) {
            weighted_gradient(classes, weights, label, smoothing, call->gradient_scale, y, dx);
            continue;
        }
        for (size_t d = 0; d < classes; d++) dx[d] = (y[d] - everywhere) * call->gradient_scale;
        dx[label] = (y[label] - (1 - smoothing + everywhere)) * call->gradient_scale;
    }
}

const struct kernel_class cpu_cross_entropy = {
    .piecewise = true, .set_sizes = set_sizes, .forward = forward, .backward_input_loop = {OVER_ROWS, backward, 16}};
