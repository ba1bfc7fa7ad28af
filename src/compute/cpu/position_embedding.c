/* A vector added at each position, see compute/reference/position_embedding.c. */
#include "compute/cpu/cpu.h"

/* The vector that the table has for a row. */
static size_t vector_of(const struct kernel *kernel, size_t row) {
    return kernel->node->attributes.everywhere ? 0 : row % (size_t)kernel->node->shape.dim[1];
}

static VECTOR_CLONES void add_two(size_t count, float *y, const float *a, const float *b) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) y[i] = a[i] + b[i];
}

static void forward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    size_t features = kernel_features(kernel);
    for (size_t row = first; row < end; row++) {
        const float *vector = call->weights[0] + vector_of(kernel, row) * features;
        add_two(features, call->output + row * features, call->input[0] + row * features, vector);
    }
}

static void backward_input(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    if (call->input_gradient[0] != call->output_gradient)
        cpu_convert(end - first, kernel_input(kernel, 0), call->input_gradient[0], &kernel->node->shape, call->output_gradient,
                    first);
}

static void backward_weight(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    size_t features = kernel_features(kernel);
    float *gradient = call->gradients[0] + first;
    for (size_t row = call->first_row; row < call->end_row; row++) {
        float *to = gradient + vector_of(kernel, row) * features;
        vector_add(end - first, to, call->output_gradient + row * features + first);
    }
}

const struct kernel_class cpu_position_embedding = {
    .piecewise = true,
    .forward_loop = {OVER_ROWS, forward, 32},
    .backward_input_loop = {OVER_ELEMENTS, backward_input, 4096, .typed = true},
    .backward_weight_loop = {OVER_SUMS, backward_weight, 64},
};
