/*
 * Losses against numbers (graph/operators/losses.c): elements x with targets t and outputs y. Threads share pieces of PIECE
 * elements; a piece's loss is kept in the workspace and added in order, in double, so that the number of threads changes no
 * bit.
 */
#include <math.h>
#include <string.h>

#include "base/vector.h"
#include "compute/cpu/activation.h"
#include "compute/cpu/cpu.h"

enum { PIECE = 1024, LANES = 16 };

/* Both over `count` elements; `slope` writes the gradient. */
typedef double loss_forward(size_t count, const float *x, const float *t, float *restrict y);
typedef void loss_slope(size_t count, const float *y, const float *t, float scale, float *restrict dx);

/* Sums TERM, of the elements x[i] and t[i], in partial sums that are the same on every CPU. */
#define SUM_OF(TERM)                                                                                                           \
    double lanes[LANES] = {0}, sum = 0;                                                                                        \
    size_t i = 0;                                                                                                              \
    for (; i + LANES <= count; i += LANES) {                                                                                   \
        for (size_t l = 0; l < LANES; l++) lanes[l] += (double)(TERM(x[i + l], t[i + l]));                                     \
    }                                                                                                                          \
    for (; i < count; i++) sum += (double)(TERM(x[i], t[i]));                                                                  \
    for (size_t l = 0; l < LANES; l++) sum += lanes[l];                                                                        \
    return sum

#define SQUARE(x, t) (((x) - (t)) * ((x) - (t)))
#define DISTANCE(x, t) ((x) > (t) ? (x) - (t) : (t) - (x))

static VECTOR_CLONES double mse_forward(size_t count, const float *x, const float *t, float *restrict y) {
    memcpy(y, x, count * sizeof *y);
    SUM_OF(SQUARE);
}

static VECTOR_CLONES void mse_slope(size_t count, const float *y, const float *t, float scale, float *restrict dx) {
    for (size_t i = 0; i < count; i++) dx[i] = 2 * (y[i] - t[i]) * scale;
}

static VECTOR_CLONES double l1_forward(size_t count, const float *x, const float *t, float *restrict y) {
    memcpy(y, x, count * sizeof *y);
    SUM_OF(DISTANCE);
}

static VECTOR_CLONES void l1_slope(size_t count, const float *y, const float *t, float scale, float *restrict dx) {
    for (size_t i = 0; i < count; i++) dx[i] = y[i] > t[i] ? scale : y[i] < t[i] ? -scale : 0;
}

static VECTOR_CLONES void logistic(size_t count, const float *x, float *restrict y) {
    for (size_t i = 0; i < count; i++) y[i] = activation_sigmoid(x[i]);
}

static double bce_forward(size_t count, const float *x, const float *t, float *restrict y) {
    double sum = 0;
    logistic(count, x, y);
    for (size_t i = 0; i < count; i++) {
        const float size = fabsf(x[i]);
        sum += (double)((x[i] > 0 ? x[i] : 0) - x[i] * t[i]) + (double)log1pf(expf(-size));
    }
    return sum;
}

static VECTOR_CLONES void bce_slope(size_t count, const float *y, const float *t, float scale, float *restrict dx) {
    for (size_t i = 0; i < count; i++) dx[i] = (y[i] - t[i]) * scale;
}

/* ------------------------------------------------------------- all elements */

static size_t pieces_of(size_t elements) { return (elements + PIECE - 1) / PIECE; }

/* Of the samples that count. */
static size_t counted_elements(const struct kernel *kernel, const struct kernel_call *call) {
    return kernel_elements(kernel) / (size_t)kernel->samples * (size_t)call->counted;
}

static void set_sizes(struct kernel *kernel) {
    kernel->workspace_bytes = (int64_t)(pieces_of(kernel_elements(kernel)) * sizeof(double));
}

/* The pieces of the elements [first, end), where a piece begins. Of padding only the output is wanted; its targets are not
 * read. */
static void forward_pieces(loss_forward *rule, const struct kernel *kernel, const struct kernel_call *call, size_t first,
                           size_t end) {
    const size_t labelled = counted_elements(kernel, call);
    const float *x = call->input[0], *t = call->target;
    double *losses = call->workspace;
    for (size_t p = first / PIECE; p < pieces_of(end); p++) {
        const size_t start = p * PIECE, last = start + PIECE < end ? start + PIECE : end;
        const size_t counted = labelled < start ? start : labelled < last ? labelled : last;
        losses[p] = counted > start ? rule(counted - start, x + start, t + start, call->output + start) : 0;
        if (counted < last) rule(last - counted, x + counted, x + counted, call->output + counted);
    }
}

static enum ps_status forward(kernel_body *pieces, struct kernel *kernel, const struct kernel_call *call) {
    const double *losses = call->workspace;
    kernel_parallel(kernel, call, kernel_elements(kernel), PIECE, pieces);
    for (size_t p = 0; p < pieces_of(counted_elements(kernel, call)); p++) *call->loss += losses[p];
    return PS_OK;
}

static void backward_elements(loss_slope *rule, const struct kernel *kernel, const struct kernel_call *call, size_t first,
                              size_t end) {
    const size_t labelled = counted_elements(kernel, call);
    const size_t counted = labelled < first ? first : labelled < end ? labelled : end;
    const float *t = call->target;
    float *dx = call->input_gradient[0];
    if (counted > first) rule(counted - first, call->output + first, t + first, call->gradient_scale, dx + first);
    memset(dx + counted, 0, (end - counted) * sizeof *dx);
}

#define LOSS(NAME)                                                                                                             \
    static void NAME##_pieces(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {         \
        forward_pieces(NAME##_forward, kernel, call, first, end);                                                              \
    }                                                                                                                          \
    static enum ps_status NAME##_kernel(struct kernel *kernel, const struct kernel_call *call) {                               \
        return forward(NAME##_pieces, kernel, call);                                                                           \
    }                                                                                                                          \
    static void NAME##_backward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {       \
        backward_elements(NAME##_slope, kernel, call, first, end);                                                             \
    }                                                                                                                          \
    const struct kernel_class cpu_##NAME = {.piecewise = true,                                                                 \
                                            .set_sizes = set_sizes,                                                            \
                                            .forward = NAME##_kernel,                                                          \
                                            .backward_input_loop = {OVER_ELEMENTS, NAME##_backward, PIECE}}
LOSS(mse);
LOSS(l1);
LOSS(bce);
