/* Padding (graph/operators/pad.c): each element of y is one of x, or the value; dx is the sum of what its elements became. */
#include <string.h>

#include "compute/pad.h"
#include "compute/reference/reference.h"

/* The element of x for element `i` of y; -1: none. */
static int64_t source(const struct kernel *kernel, size_t i) {
    size_t features = kernel_features(kernel);
    int64_t row = pad_row(kernel, i / features), size = kernel_input(kernel, 0)->dim[0];
    int64_t feature = pad_source(&kernel->node->attributes, 0, size, (int64_t)(i % features));
    return row < 0 || feature < 0 ? -1 : row * size + feature;
}

static void forward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    for (size_t i = first; i < end; i++) {
        int64_t from = source(kernel, i);
        call->output[i] = from < 0 ? kernel->node->attributes.value : call->input[0][from];
    }
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call) {
    memset(call->input_gradient[0], 0, (size_t)(kernel->samples * shape_bytes(kernel_input(kernel, 0))));
    for (size_t i = 0; i < kernel_elements(kernel); i++) {
        int64_t from = source(kernel, i);
        if (from >= 0) call->input_gradient[0][from] += call->output_gradient[i];
    }
    return PS_OK;
}

const struct kernel_class reference_pad = {.forward_loop = {OVER_ELEMENTS, forward}, .backward_input = backward_input};
