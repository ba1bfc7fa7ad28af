/* Sum of the inputs, from the first to the last, with the ReLU that follows. Every input's gradient is the output's. */
#include "compute/cpu/cpu.h"

static VECTOR_CLONES void add_two(size_t count, float *y, const float *a, const float *b, bool relu) {
    if (relu) {
#pragma omp simd
        for (size_t i = 0; i < count; i++) {
            float sum = a[i] + b[i];
            y[i] = sum < 0 ? 0 : sum;
        }
    } else {
#pragma omp simd
        for (size_t i = 0; i < count; i++) y[i] = a[i] + b[i];
    }
}

static void set_sizes(struct kernel *kernel) { kernel->fuses_relu = kernel->relu_follows; }

static void forward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    const float *so_far = call->input[0] + first;
    float *y = call->output + first;
    int inputs = kernel->node->input_count;
    for (int i = 1; i < inputs; i++) {
        add_two(end - first, y, so_far, call->input[i] + first, kernel->fuses_relu && i == inputs - 1);
        so_far = y;
    }
}

static void backward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    for (int i = 0; i < kernel->node->input_count; i++) {
        if (call->input_gradient[i] == NULL) continue;
        cpu_convert(end - first, kernel_input(kernel, i), call->input_gradient[i], &kernel->node->shape, call->output_gradient,
                    first);
    }
}

const struct kernel_class cpu_add = {
    .set_sizes = set_sizes,
    .piecewise = true,
    .forward_loop = {OVER_ELEMENTS, forward, 4096},
    .backward_input_loop = {OVER_ELEMENTS, backward, 4096, .typed = true},
};
