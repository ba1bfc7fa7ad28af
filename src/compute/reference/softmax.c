/*
 * Softmax of each row, and its logarithm: y = exp(x) / sum(exp(x)), dx = y (dy - sum(dy y)); log y = x - log(sum(exp(x))),
 * dx = dy - y sum(dy). The largest element is subtracted before, which changes nothing and keeps the exponentials finite.
 */
#include <math.h>

#include "compute/reference/reference.h"

static void forward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    const size_t count = kernel_features(kernel);
    for (size_t row = first; row < end; row++) {
        const float *x = call->input[0] + row * count;
        float *y = call->output + row * count;
        double largest = (double)x[0], sum = 0;
        for (size_t i = 0; i < count; i++) largest = fmax(largest, (double)x[i]);
        for (size_t i = 0; i < count; i++) sum += exp((double)x[i] - largest);
        for (size_t i = 0; i < count; i++) {
            const double log_y = (double)x[i] - largest - log(sum);
            y[i] = (float)(kernel->node->id == OPERATOR_SOFTMAX ? exp(log_y) : log_y);
        }
    }
}

static void backward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    const size_t count = kernel_features(kernel);
    const bool softmax = kernel->node->id == OPERATOR_SOFTMAX;
    for (size_t row = first; row < end; row++) {
        const float *y = call->output + row * count, *dy = call->output_gradient + row * count;
        float *dx = call->input_gradient[0] + row * count;
        double sum = 0;
        for (size_t i = 0; i < count; i++) sum += (double)dy[i] * (softmax ? (double)y[i] : 1);
        for (size_t i = 0; i < count; i++)
            dx[i] = (float)(softmax ? (double)y[i] * ((double)dy[i] - sum) : (double)dy[i] - exp((double)y[i]) * sum);
    }
}

const struct kernel_class reference_softmax = {.forward_loop = {OVER_ROWS, forward},
                                               .backward_input_loop = {OVER_ROWS, backward}};
const struct kernel_class reference_log_softmax = {.forward_loop = {OVER_ROWS, forward},
                                                   .backward_input_loop = {OVER_ROWS, backward}};
