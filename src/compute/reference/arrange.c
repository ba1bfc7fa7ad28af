/* Operators that only move elements (compute/arrange.h), of any type, one by one: permute, slice, concat. A parameter, too,
 * which is repeated for each sample, and values that are repeated along sides of 1. */
#include <string.h>

#include "compute/arrange.h"
#include "compute/reference/reference.h"

static void move(const struct arrangement *where, size_t size, const char *input, char *output, char *input_gradient,
                 const char *output_gradient) {
    const int64_t count = broadcast_count(&where->all, where->all.rank);
    struct cursor at = {0};
    for (int64_t i = 0; i < count; i++, cursor_next(&where->all, where->all.rank, &at)) {
        const size_t x = (size_t)(where->from + at.offset[0]) * size, y = (size_t)(where->to + at.offset[1]) * size;
        if (input_gradient != NULL)
            memcpy(input_gradient + x, output_gradient + y, size);
        else
            memcpy(output + y, input + x, size);
    }
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    const size_t size = number_types[kernel->node->shape.type].bytes;
    for (int i = 0; i < kernel->node->input_count; i++) {
        const struct arrangement where = arrangement_of(kernel, i);
        move(&where, size, (const char *)call->input[i], (char *)call->output, NULL, NULL);
    }
    return PS_OK;
}

/* What a slice leaves out has the gradient 0. */
static enum ps_status backward(struct kernel *kernel, const struct kernel_call *call) {
    const size_t size = number_types[kernel->node->shape.type].bytes;
    for (int i = 0; i < kernel->node->input_count; i++) {
        const struct arrangement where = arrangement_of(kernel, i);
        if (call->input_gradient[i] == NULL) continue;
        memset(call->input_gradient[i], 0, (size_t)(kernel->samples * shape_bytes(kernel_input(kernel, i))));
        move(&where, size, NULL, NULL, (char *)call->input_gradient[i], (const char *)call->output_gradient);
    }
    return PS_OK;
}

const struct kernel_class reference_permute = {.native = kernel_one_type, .forward = forward, .backward_input = backward};
const struct kernel_class reference_slice = {.native = kernel_one_type, .forward = forward, .backward_input = backward};
const struct kernel_class reference_concat = {.native = kernel_one_type, .forward = forward, .backward_input = backward};

/* --------------------------------------------------------------- parameter */

static void repeat(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    const size_t each = (size_t)shape_elements(&kernel->node->shape);
    const float *from = call->weights[0];
    int32_t *whole = (int32_t *)(void *)call->output;
    for (size_t i = first; i < end; i++) {
        if (kernel->node->shape.type == TYPE_I32)
            whole[i] = (int32_t)from[i % each];
        else
            call->output[i] = from[i % each];
    }
}

static enum ps_status sum_samples(struct kernel *kernel, const struct kernel_call *call) {
    const size_t each = (size_t)shape_elements(&kernel->node->shape);
    for (size_t i = 0; i < each; i++) {
        double sum = 0;
        for (size_t n = 0; n < (size_t)kernel->samples; n++) sum += (double)call->output_gradient[n * each + i];
        call->gradients[0][i] = (float)sum;
    }
    return PS_OK;
}

const struct kernel_class reference_parameter = {.forward_loop = {OVER_ELEMENTS, repeat, 0}, .backward_weight = sum_samples};

/* ------------------------------------------------------------------ expand */

static struct broadcast expanded_shape(const struct kernel *kernel) {
    return broadcast_make(&kernel->node->shape, kernel->samples,
                          &(struct broadcast_operand){kernel_input(kernel, 0), kernel->samples}, 1);
}

static enum ps_status expand(struct kernel *kernel, const struct kernel_call *call) {
    const struct broadcast b = expanded_shape(kernel);
    struct cursor at = {0};
    for (size_t i = 0; i < kernel_elements(kernel); i++, cursor_next(&b, b.rank, &at))
        memcpy(&call->output[i], &call->input[0][at.offset[0]], sizeof(float)); /* of any type */
    return PS_OK;
}

/* An element's gradient is the sum over those that it was repeated for. */
static enum ps_status expand_backward(struct kernel *kernel, const struct kernel_call *call) {
    const struct broadcast b = expanded_shape(kernel);
    const int64_t count = kernel->samples * shape_elements(kernel_input(kernel, 0));
    double *sums = call->workspace;
    struct cursor at = {0};
    for (int64_t i = 0; i < count; i++) sums[i] = 0;
    for (size_t i = 0; i < kernel_elements(kernel); i++, cursor_next(&b, b.rank, &at))
        sums[at.offset[0]] += (double)call->output_gradient[i];
    for (int64_t i = 0; i < count; i++) call->input_gradient[0][i] = (float)sums[i];
    return PS_OK;
}

/* The workspace sums gradients in double. */
static void expand_sizes(struct kernel *kernel) {
    kernel->workspace_bytes = kernel->samples * shape_elements(kernel_input(kernel, 0)) * (int64_t)sizeof(double);
}

const struct kernel_class reference_expand = {.set_sizes = expand_sizes, .forward = expand, .backward_input = expand_backward};
