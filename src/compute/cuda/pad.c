/* Padding: neighbouring sides that are not padded are one. */
#include "compute/cuda/cuda.h"
#include "compute/cuda/places.h"

static void define(const struct kernel *kernel, struct text *out) {
    const struct attributes *a = &kernel->node->attributes;
    const struct shape *x = kernel_input(kernel, 0), *y = &kernel->node->shape;
    const int64_t elements = (int64_t)kernel_elements(kernel) + kernel->samples * shape_elements(x);
    int64_t plain = 1; /* sides that are not padded and not yet written */
    const bool fours = a->before.at[0] == 0 && x->dim[0] == y->dim[0] && x->dim[0] % 4 == 0;
    text_add(out, "#define EACH_SIDE(X)");
    for (int s = 0; s < x->rank; s++) { /* from the fastest side on */
        const int d = s == 0 ? 0 : x->rank - s;
        if (a->before.at[d] == 0 && x->dim[d] == y->dim[d]) {
            plain *= x->dim[d];
            continue;
        }
        if (plain > 1) text_add(out, " X(%lld, %lld, 0)", (long long)plain, (long long)plain);
        text_add(out, " X(%lld, %lld, (%d))", (long long)x->dim[d], (long long)y->dim[d], a->before.at[d]);
        plain = 1;
    }
    text_add(out, "\n#define PLACE %s\n", elements < INT32_MAX / 2 ? "int" : "long long");
    cuda_define_index(out, 2 * elements);
    cuda_define_number(out, "WIDTH", fours ? 4 : 1);
}

static int64_t first_input(const struct kernel *kernel) { return kernel->samples * shape_elements(kernel_input(kernel, 0)); }

const struct cuda_class cuda_pad = {
    .type = {CUDA_KERNEL, .forward = cuda_forward, .backward_input = cuda_backward_input},
    .source = "pad",
    .define = define,
    .forward = {{"forward", GRID_FOURS, NULL}},
    .backward_input = {{"backward", GRID_FOURS, first_input}},
};
