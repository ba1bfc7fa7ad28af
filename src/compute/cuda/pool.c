/* Pooling: sources/pool.cu. */
#include "base/number.h"
#include "compute/cuda/cuda.h"
#include "compute/cuda/places.h"

static void max_sizes(struct kernel *kernel) {
    const struct attributes *a = &kernel->node->attributes;
    const bool small = a->kernel_h * a->kernel_w <= 256; /* as the source has it */
    kernel->inner_bytes = (int64_t)kernel_elements(kernel) * (small ? 1 : (int64_t)sizeof(uint32_t));
}

static int64_t pixels(const struct kernel *kernel) { return kernel->samples * shape_elements(kernel_input(kernel, 0)); }

static void define(const struct kernel *kernel, struct text *out) {
    cuda_define_index(out, number_larger((int64_t)kernel_elements(kernel), pixels(kernel)));
}

const struct cuda_class cuda_max_pool = {
    .type = {CUDA_KERNEL, .set_sizes = max_sizes, .forward = cuda_forward, .backward_input = cuda_backward_input},
    .source = "pool",
    .define = define,
    .forward = {{"max_forward", GRID_ONES}},
    .backward_input = {{"max_backward", GRID_ONES, pixels}},
};

const struct cuda_class cuda_average_pool = {
    .type = {CUDA_KERNEL, .forward = cuda_forward, .backward_input = cuda_backward_input},
    .source = "pool",
    .define = define,
    .forward = {{"average_forward", GRID_ONES}},
    .backward_input = {{"average_backward", GRID_ONES, pixels}},
};
