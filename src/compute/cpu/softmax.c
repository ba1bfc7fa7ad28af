/* Softmax of rows and its logarithm, see compute/reference/softmax.c. Both may be in place. */
#include <math.h>

#include "compute/cpu/activation.h"
#include "compute/cpu/cpu.h"

static VECTOR_CLONES float largest_of(size_t count, const float *x) {
    float largest = x[0];
#pragma omp simd reduction(max : largest)
    for (size_t i = 0; i < count; i++) largest = x[i] > largest ? x[i] : largest;
    return largest;
}

/* Below -87 the exponential is 0. */
static VECTOR_CLONES void exponentials(size_t count, float *y, const float *x, float less) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        const float from = x[i] - less;
        y[i] = from < -87.0f ? 0 : activation_exp(from);
    }
}

static VECTOR_CLONES float sum_of_exponentials(size_t count, const float *x, float less) {
    enum { PIECE = 256 };
    float piece[PIECE], sum = 0;
    for (size_t i = 0; i < count; i += PIECE) {
        const size_t length = count - i < PIECE ? count - i : PIECE;
        exponentials(length, piece, x + i, less);
        sum += vector_sum(length, piece);
    }
    return sum;
}

/* Twice, since the logarithm of the sum is small beside the largest. */
static VECTOR_CLONES void subtract(size_t count, float *y, const float *x, float largest, float less) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) y[i] = x[i] - largest - less;
}

static void softmax(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    const size_t count = kernel_features(kernel);
    for (size_t row = first; row < end; row++) {
        const float *x = call->input[0] + row * count;
        float *y = call->output + row * count;
        exponentials(count, y, x, largest_of(count, x));
        vector_scale(count, y, 1 / vector_sum(count, y));
    }
}

static void log_softmax(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    const size_t count = kernel_features(kernel);
    for (size_t row = first; row < end; row++) {
        const float *x = call->input[0] + row * count, largest = largest_of(count, x);
        subtract(count, call->output + row * count, x, largest, logf(sum_of_exponentials(count, x, largest)));
    }
}

static VECTOR_CLONES void softmax_row(size_t count, float *dx, const float *dy, const float *y, float mean) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) dx[i] = y[i] * (dy[i] - mean);
}

static VECTOR_CLONES void log_softmax_row(size_t count, float *dx, const float *dy, const float *y, float sum) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) dx[i] = dy[i] - activation_exp(y[i]) * sum;
}

static void softmax_backward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    const size_t count = kernel_features(kernel);
    for (size_t at = first * count; at < end * count; at += count) {
        const float *dy = call->output_gradient + at, *y = call->output + at;
        softmax_row(count, call->input_gradient[0] + at, dy, y, vector_dot(count, dy, y));
    }
}

static void log_softmax_backward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    const size_t count = kernel_features(kernel);
    for (size_t at = first * count; at < end * count; at += count) {
        const float *dy = call->output_gradient + at;
        log_softmax_row(count, call->input_gradient[0] + at, dy, call->output + at, vector_sum(count, dy));
    }
}

const struct kernel_class cpu_softmax = {
    .piecewise = true, .forward_loop = {OVER_ROWS, softmax, 8}, .backward_input_loop = {OVER_ROWS, softmax_backward, 8}};
const struct kernel_class cpu_log_softmax = {.piecewise = true,
                                             .forward_loop = {OVER_ROWS, log_softmax, 8},
                                             .backward_input_loop = {OVER_ROWS, log_softmax_backward, 8}};
