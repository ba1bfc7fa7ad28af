/*
 * A vector added at each position. x, y (N, T, D), w (count, D); w row of position t is t, or 0 with `everywhere`.
 *
 *     y[n, t] = x[n, t] + w[row(t)],   dx = dy,   dw[r] = sum of dy[n, t] over all n, t with row(t) = r
 */
#include "compute/reference/reference.h"

static size_t row_of(const struct kernel *kernel, size_t element) {
    size_t position = element / kernel_features(kernel) % (size_t)kernel->node->shape.dim[1];
    return kernel->node->attributes.everywhere ? 0 : position;
}

static void forward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    size_t features = kernel_features(kernel);
    for (size_t i = first; i < end; i++)
        call->output[i] = call->input[0][i] + call->weights[0][row_of(kernel, i) * features + i % features];
}

ELEMENTWISE(backward_input, dx[i] = dy[i])

static void backward_weight(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    size_t features = kernel_features(kernel), elements = kernel_elements(kernel);
    for (size_t d = first; d < end; d++) {
        for (size_t row = 0; row < (size_t)kernel->node->attributes.count; row++) {
            double sum = 0;
            for (size_t i = d; i < elements; i += features) {
                if (row_of(kernel, i) == row) sum += (double)call->output_gradient[i];
            }
            call->gradients[0][row * features + d] = (float)sum;
        }
    }
}

const struct kernel_class reference_position_embedding = {
    .forward_loop = {OVER_ELEMENTS, forward},
    .backward_input_loop = {OVER_ELEMENTS, backward_input},
    .backward_weight_loop = {OVER_FEATURES, backward_weight},
};
