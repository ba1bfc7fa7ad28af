/* Sum of the inputs, each of a type of its own, and a ReLU that follows. */
#include "compute/cuda/cuda.h"
#include "compute/cuda/places.h"

static void define(const struct kernel *kernel, struct text *out) {
    cuda_define_inputs(out, kernel, false, NULL);
    text_add(out, "#define RELU %d\n", kernel->relu_follows);
}

static void set_sizes(struct kernel *kernel) { kernel->fuses_relu = kernel->relu_follows; }

const struct cuda_class cuda_add = {
    .type = {CUDA_KERNEL, .set_sizes = set_sizes, .forward = cuda_forward, .backward_input = cuda_backward_input},
    .source = "add",
    .define = define,
    .forward = {{"forward", GRID_FOURS, NULL}},
    .backward_input = {{"backward", GRID_FOURS, NULL}},
};
