/* The same values in another type, see compute/reference/cast.c. */
#include "compute/cpu/cpu.h"

static void forward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    cpu_convert(end - first, &kernel->node->shape, call->output, kernel_input(kernel, 0), call->input[0], first);
}

static void backward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    cpu_convert(end - first, kernel_input(kernel, 0), call->input_gradient[0], &kernel->node->shape, call->output_gradient,
                first);
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
