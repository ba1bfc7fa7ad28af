/* Resizing: a launch that finds the taps, and one over the pixels. */
#include "compute/cuda/cuda.h"
#include "compute/cuda/places.h"

static int64_t first_input(const struct kernel *kernel) { return kernel->samples * shape_elements(kernel_input(kernel, 0)); }

/* Of y, and of x. */
static int64_t rows_and_columns(const struct shape *shape) { return shape->dim[1] + shape->dim[2]; }
static int64_t taps_count(const struct kernel *kernel) {
    return rows_and_columns(&kernel->node->shape) + rows_and_columns(kernel_input(kernel, 0));
}

static void set_sizes(struct kernel *kernel) {
    enum { TAPS_BYTES = 32, RANGE_BYTES = 8 }; /* structs of the source */
    kernel->workspace_bytes =
        rows_and_columns(&kernel->node->shape) * TAPS_BYTES + rows_and_columns(kernel_input(kernel, 0)) * RANGE_BYTES;
}

static void define(const struct kernel *kernel, struct text *out) {
    cuda_define_index(out, (int64_t)kernel_elements(kernel) + first_input(kernel) + 4 * INT16_MAX);
    cuda_define_number(out, "WIDTH", kernel_features(kernel) % 4 == 0 ? 4 : 1);
}

const struct cuda_class cuda_resize = {
    .type = {CUDA_KERNEL, .set_sizes = set_sizes, .forward = cuda_forward, .backward_input = cuda_backward_input},
    .source = "resize",
    .define = define,
    .forward = {{"taps", GRID_ONES, taps_count}, {"forward", GRID_FOURS, NULL}},
    .backward_input = {{"taps", GRID_ONES, taps_count}, {"backward", GRID_FOURS, first_input}},
};
