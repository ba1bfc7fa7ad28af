/* The same values in another type, see compute/reference/cast.c. */
#include "compute/cpu/cpu.h"

static void convert(enum number_type from_type, const float *from, enum number_type to_type, float *to, size_t first,
                    size_t end) {
    numbers_convert(end - first, to_type, (char *)to + first * number_types[to_type].bytes, from_type,
                    (const char *)from + first * number_types[from_type].bytes);
}

static void forward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    convert(kernel_input(kernel, 0)->type, call->input[0], kernel->node->shape.type, call->output, first, end);
}

static void backward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    convert(kernel->node->shape.type, call->output_gradient, kernel_input(kernel, 0)->type, call->input_gradient[0], first,
            end);
}

/* numbers_convert is between f32 and another type. */
static bool native(const struct kernel *kernel) {
    return kernel_input(kernel, 0)->type == TYPE_F32 || kernel->node->shape.type == TYPE_F32;
}

const struct kernel_class cpu_cast = {
    .native = native,
    .forward_loop = {OVER_ELEMENTS, forward, 4096},
    .backward_input_loop = {OVER_ELEMENTS, backward, 4096},
};
