/* Positions first .. first + count - 1 of a sequence. x (N, T, D), y (N, count, D); dx is dy there and 0 elsewhere. Elements
 * may have any type: lengths are in bytes. */
#include <string.h>

#include "compute/reference/reference.h"

struct lengths {
    size_t before, inside, all; /* bytes of a sample: before the slice, in it, in all */
};

static struct lengths lengths_of(const struct kernel *kernel) {
    const struct reference_kernel *k = reference_of(kernel);
    size_t position = (size_t)k->input[0].dim[0] * number_types[k->input[0].type].bytes;
    return (struct lengths){(size_t)k->attributes->first * position, (size_t)k->output.dim[1] * position,
                            (size_t)k->input[0].dim[1] * position};
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    struct lengths l = lengths_of(kernel);
    for (size_t n = 0; n < (size_t)kernel->samples; n++) {
        memcpy((char *)call->output + n * l.inside, (const char *)call->input[0] + n * l.all + l.before, l.inside);
    }
    return PS_OK;
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    struct lengths l = lengths_of(kernel);
    memset(call->input_gradient[0], 0, (size_t)kernel->samples * l.all);
    for (size_t n = 0; n < (size_t)kernel->samples; n++) {
        memcpy((char *)call->input_gradient[0] + n * l.all + l.before, (const char *)call->output_gradient + n * l.inside,
               l.inside);
    }
    return PS_OK;
}

const struct kernel_class reference_slice = {
    .create = reference_create, .destroy = reference_destroy, .forward = forward, .backward_input = backward_input};
