/* Sum of the inputs, from the first to the last, with the ReLU that follows. Every input's gradient is the output's. */
#include <string.h>

#include "base/vector.h"
#include "compute/cpu/cpu.h"

struct sum {
    const struct kernel_call *call;
    int inputs;
    bool relu;
};

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

static void add_part(const void *context, int part, size_t first, size_t end) {
    (void)part;
    const struct sum *sum = context;
    const float *so_far = sum->call->input[0] + first;
    float *y = sum->call->output + first;
    for (int i = 1; i < sum->inputs; i++) {
        add_two(end - first, y, so_far, sum->call->input[i] + first, sum->relu && i == sum->inputs - 1);
        so_far = y;
    }
}

static void copy_part(const void *context, int part, size_t first, size_t end) {
    (void)part;
    const struct sum *sum = context;
    for (int i = 0; i < sum->inputs; i++) {
        float *dx = sum->call->input_gradient[i];
        if (dx != NULL) memcpy(dx + first, sum->call->output_gradient + first, (end - first) * sizeof *dx);
    }
}

static enum ps_status create(struct device *device, const struct graph *graph, const struct node *node, int samples,
                             bool relu_follows, struct kernel **kernel, struct ps_error *error) {
    TRY(plain_create(device, graph, node, samples, relu_follows, kernel, error));
    (*kernel)->fuses_relu = relu_follows;
    return PS_OK;
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    struct sum sum = {call, plain_of(kernel)->node->input_count, kernel->fuses_relu};
    cpu_parallel(plain_of(kernel)->device, plain_elements(kernel), 4096, add_part, &sum);
    return PS_OK;
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    struct sum sum = {.call = call, .inputs = plain_of(kernel)->node->input_count};
    cpu_parallel(plain_of(kernel)->device, plain_elements(kernel), 4096, copy_part, &sum);
    return PS_OK;
}

const struct kernel_class cpu_add = {
    .create = create,
    .destroy = plain_destroy,
    .forward = forward,
    .backward_input = backward_input,
};
