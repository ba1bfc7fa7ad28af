/* Positions first .. first + count - 1 of a sequence, see compute/reference/slice.c: a copy for each sample. */
#include <string.h>

#include "compute/cpu/cpu.h"

/* Bytes of a sample before the slice, in it, and after it. */
struct lengths {
    size_t before, inside, after;
};

static struct lengths lengths_of(const struct kernel *kernel) {
    const struct shape *input = kernel_input(kernel, 0);
    size_t all = (size_t)shape_bytes(input), position = all / (size_t)input->dim[1];
    struct lengths lengths = {.before = (size_t)kernel->node->attributes.first * position,
                              .inside = (size_t)kernel->node->attributes.count * position};
    lengths.after = all - lengths.before - lengths.inside;
    return lengths;
}

static void forward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    struct lengths l = lengths_of(kernel);
    for (size_t n = first; n < end; n++) {
        const char *from = (const char *)call->input[0] + n * (l.before + l.inside + l.after);
        memcpy((char *)call->output + n * l.inside, from + l.before, l.inside);
    }
}

static void backward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    struct lengths l = lengths_of(kernel);
    for (size_t n = first; n < end; n++) {
        char *to = (char *)call->input_gradient[0] + n * (l.before + l.inside + l.after);
        memset(to, 0, l.before);
        memcpy(to + l.before, (const char *)call->output_gradient + n * l.inside, l.inside);
        memset(to + l.before + l.inside, 0, l.after);
    }
}

const struct kernel_class cpu_slice = {
    .forward_loop = {OVER_SAMPLES, forward, 16},
    .backward_input_loop = {OVER_SAMPLES, backward, 16},
};
