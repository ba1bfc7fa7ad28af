/* The same values in another type, see compute/reference/cast.c. */
#include "compute/cpu/cpu.h"

struct conversion {
    const char *from;
    char *to;
    enum number_type from_type, to_type;
};

static void convert_part(const void *context, int part, size_t first, size_t end) {
    (void)part;
    const struct conversion *c = context;
    numbers_convert(end - first, c->to_type, c->to + first * number_types[c->to_type].bytes, c->from_type,
                    c->from + first * number_types[c->from_type].bytes);
}

static enum number_type input_type(const struct kernel *kernel) {
    const struct plain_kernel *plain = plain_of(kernel);
    return plain->graph->nodes[plain->node->inputs[0]].shape.type;
}

static void convert(const struct kernel *kernel, const struct conversion *conversion) {
    cpu_parallel(plain_of(kernel)->device, plain_elements(kernel), 4096, convert_part, conversion);
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    convert(kernel, &(struct conversion){(const char *)call->input[0], (char *)call->output, input_type(kernel),
                                         plain_of(kernel)->node->shape.type});
    return PS_OK;
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    convert(kernel, &(struct conversion){(const char *)call->output_gradient, (char *)call->input_gradient[0],
                                         plain_of(kernel)->node->shape.type, input_type(kernel)});
    return PS_OK;
}

const struct kernel_class cpu_cast = {
    .create = plain_create,
    .destroy = plain_destroy,
    .forward = forward,
    .backward_input = backward_input,
};
