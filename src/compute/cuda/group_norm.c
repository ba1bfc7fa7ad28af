/* Group normalisation, a team of threads for each group of a sample: sources/group_norm.cu. */
#include "compute/cuda/cuda.h"

static int64_t groups_of(const struct kernel *kernel) { return (int64_t)kernel->samples * kernel->node->attributes.groups; }

/* Elements of a group; made odd where its channels are no vectors, although all its elements would be. */
static int64_t row(const struct kernel *kernel) {
    const int64_t channels = (int64_t)kernel_features(kernel) / kernel->node->attributes.groups,
                  count = (int64_t)kernel_rows(kernel) / kernel->samples * channels;
    return channels % 4 == 0 ? count : count | 1;
}

static void set_sizes(struct kernel *kernel) {
    kernel->inner_bytes = 2 * groups_of(kernel) * (int64_t)sizeof(float);
    cuda_take_columns(kernel, (int64_t)kernel_rows(kernel), (int64_t)kernel_features(kernel), 2);
}

const struct cuda_class cuda_group_norm = {
    .type = {CUDA_KERNEL, .set_sizes = set_sizes, .forward = cuda_forward, .backward_input = cuda_backward_input,
             .backward_weight = cuda_backward_weight},
    .source = "group_norm",
    .forward = {{"forward", GRID_TEAMS, groups_of}},
    .backward_input = {{"backward_input", GRID_TEAMS, groups_of}},
    .backward_weight = {{"column_partial", GRID_COLUMNS, NULL}, {"column_finish", GRID_TILES, NULL}},
    .row = row,
};
