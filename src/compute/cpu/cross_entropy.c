/*
 * Softmax and cross-entropy. x (N, D) logits, y (N, D) probabilities, labels (N); for sequences N also counts the positions. A
 * label of -1 is not counted. With label smoothing s the target is t_d = (1 - s) [d == label] + s / D, and since the targets
 * add up to one, with z_d = x_d - max x
 *
 *     loss of a label = log sum exp z - sum over d of t_d z_d,   dx = (y - t) * gradient_scale
 *
 * Threads share the rows; losses are added in the order of rows, in double.
 */
#include <math.h>
#include <string.h>

#include "base/vector.h"
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

struct rows {
    const struct plain_kernel *kernel;
    const struct kernel_call *call;
    int64_t classes;
    size_t count; /* of rows whose labels may count */
    struct row *rows;
};

static struct rows rows_of(const struct kernel *kernel, const struct kernel_call *call) {
    const struct shape *shape = &plain_of(kernel)->node->shape;
    return (struct rows){plain_of(kernel), call, shape->dim[0], shape_rows(shape, call->counted), call->workspace};
}

static void forward_part(const void *context, int part, size_t first, size_t end) {
    (void)part;
    const struct rows *r = context;
    double smoothing = r->call->training ? (double)r->kernel->node->attributes.smoothing : 0;
    for (size_t n = first; n < end; n++) {
        const float *x = r->call->input[0] + n * (size_t)r->classes;
        double logarithm;
        int64_t best = softmax(r->classes, x, r->call->output + n * (size_t)r->classes, &logarithm);
        struct row *row = &r->rows[n];
        *row = (struct row){.label = n < r->count ? r->call->labels[n] : -1, .best = (int32_t)best};
        if (row->label < 0) continue;
        row->loss = row_loss(r->classes, x, (double)x[best], logarithm, row->label, smoothing);
        row->in_five = count_above((size_t)r->classes, x, x[row->label]) < 5;
    }
}

static enum ps_status create(struct device *device, const struct graph *graph, const struct node *node, int samples,
                             bool relu_follows, struct kernel **kernel, struct ps_error *error) {
    TRY(plain_create(device, graph, node, samples, relu_follows, kernel, error));
    (*kernel)->workspace_bytes = (int64_t)(shape_rows(&node->shape, samples) * sizeof(struct row));
    return PS_OK;
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    struct rows rows = rows_of(kernel, call);
    cpu_parallel(plain_of(kernel)->device, shape_rows(&plain_of(kernel)->node->shape, kernel->samples), 16, forward_part,
                 &rows);
    for (size_t n = 0; n < rows.count; n++) {
        *call->loss += rows.rows[n].loss;
        *call->correct += rows.rows[n].label >= 0 && rows.rows[n].best == rows.rows[n].label;
        *call->correct5 += rows.rows[n].in_five;
    }
    return PS_OK;
}

static void backward_part(const void *context, int part, size_t first, size_t end) {
    (void)part;
    const struct rows *r = context;
    size_t classes = (size_t)r->classes;
    float smoothing = r->kernel->node->attributes.smoothing, everywhere = smoothing / (float)classes;
    for (size_t n = first; n < end; n++) {
        const float *y = r->call->output + n * classes;
        float *dx = r->call->input_gradient[0] + n * classes;
        if (n >= r->count || r->call->labels[n] < 0) {
            memset(dx, 0, classes * sizeof *dx);
            continue;
        }
        for (size_t d = 0; d < classes; d++) dx[d] = (y[d] - everywhere) * r->call->gradient_scale;
        size_t label = (size_t)r->call->labels[n];
        dx[label] = (y[label] - (1 - smoothing + everywhere)) * r->call->gradient_scale;
    }
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    struct rows rows = rows_of(kernel, call);
    cpu_parallel(plain_of(kernel)->device, shape_rows(&plain_of(kernel)->node->shape, kernel->samples), 16, backward_part,
                 &rows);
    return PS_OK;
}

const struct kernel_class cpu_cross_entropy = {
    .create = create,
    .destroy = plain_destroy,
    .forward = forward,
    .backward_input = backward_input,
};
