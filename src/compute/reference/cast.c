/* The same values in another type: y = x rounded to y's type, dx = dy rounded to x's. */
#include "compute/reference/reference.h"

static float load(enum number_type type, const void *from, size_t i) {
    if (type == TYPE_I32) return (float)((const int32_t *)from)[i];
    return type == TYPE_BF16 ? bf16_value(((const uint16_t *)from)[i]) : ((const float *)from)[i];
}

static void store(enum number_type type, void *to, size_t i, float value) {
    if (type == TYPE_I32)
        ((int32_t *)to)[i] = i32_of(value);
    else if (type == TYPE_BF16)
        ((uint16_t *)to)[i] = bf16_of(value);
    else
        ((float *)to)[i] = value;
}

static void forward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    enum number_type from = kernel_input(kernel, 0)->type, to = kernel->node->shape.type;
    for (size_t i = first; i < end; i++) store(to, call->output, i, load(from, call->input[0], i));
}

static void backward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    enum number_type from = kernel->node->shape.type, to = kernel_input(kernel, 0)->type;
    for (size_t i = first; i < end; i++) store(to, call->input_gradient[0], i, load(from, call->output_gradient, i));
}

const struct kernel_class reference_cast = {.forward_loop = {OVER_ELEMENTS, forward},
                                            .backward_input_loop = {OVER_ELEMENTS, backward}};
