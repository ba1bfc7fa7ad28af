/* Positions first .. first + count - 1 of a sequence, see compute/reference/slice.c: a copy for each sample. */
#include <string.h>

#include "compute/cpu/cpu.h"

/* Bytes of a sample before the slice, in it, and after it. */
struct lengths {
    size_t before, inside, after;
};

static struct lengths lengths_of(const struct kernel *kernel) {
    const struct plain_kernel *plain = plain_of(kernel);
    const struct shape *input = &plain->graph->nodes[plain->node->inputs[0]].shape;
    size_t all = (size_t)shape_bytes(input), position = all / (size_t)input->dim[1];
    struct lengths lengths = {.before = (size_t)plain->node->attributes.first * position,
                              .inside = (size_t)plain->node->attributes.count * position};
    lengths.after = all - lengths.before - lengths.inside;
    return lengths;
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    struct lengths l = lengths_of(kernel);
    const char *from = (const char *)call->input[0];
    char *to = (char *)call->output;
    for (int n = 0; n < kernel->samples; n++, from += l.inside + l.after, to += l.inside) {
        from += l.before;
        memcpy(to, from, l.inside);
    }
    return PS_OK;
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    struct lengths l = lengths_of(kernel);
    const char *from = (const char *)call->output_gradient;
    char *to = (char *)call->input_gradient[0];
    for (int n = 0; n < kernel->samples; n++, from += l.inside, to += l.after) {
        memset(to, 0, l.before);
        memcpy(to + l.before, from, l.inside);
        to += l.before + l.inside;
        memset(to, 0, l.after);
    }
    return PS_OK;
}

const struct kernel_class cpu_slice = {
    .create = plain_create,
    .destroy = plain_destroy,
    .forward = forward,
    .backward_input = backward_input,
};
