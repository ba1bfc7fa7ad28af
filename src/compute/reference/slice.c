/* Positions first .. first + count - 1 of a sequence. x (N, T, D), y (N, count, D); dx is dy there and 0 elsewhere. Elements
 * may have any type: lengths are in bytes. */
#include <string.h>

#include "compute/reference/reference.h"

struct lengths {
    size_t before, inside, all; /* bytes of a sample: before the slice, in it, in all */
};

static struct lengths lengths_of(const struct kernel *kernel) {
    const struct shape *input = kernel_input(kernel, 0);
    size_t position = shape_channels(input) * number_types[input->type].bytes;
    return (struct lengths){(size_t)kernel->node->attributes.first * position, (size_t)kernel->node->shape.dim[1] * position,
                            (size_t)input->dim[1] * position};
}

static void forward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    struct lengths l = lengths_of(kernel);
    for (size_t n = first; n < end; n++) {
        memcpy((char *)call->output + n * l.inside, (const char *)call->input[0] + n * l.all + l.before, l.inside);
    }
}

static void backward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    struct lengths l = lengths_of(kernel);
    for (size_t n = first; n < end; n++) {
        char *to = (char *)call->input_gradient[0] + n * l.all;
        memset(to, 0, l.all);
        memcpy(to + l.before, (const char *)call->output_gradient + n * l.inside, l.inside);
    }
}

const struct kernel_class reference_slice = {.forward_loop = {OVER_SAMPLES, forward},
                                             .backward_input_loop = {OVER_SAMPLES, backward}};
