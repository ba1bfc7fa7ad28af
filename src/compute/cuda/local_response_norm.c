/* Local response normalisation: sources/local_response_norm.cu. */
#include "compute/cuda/cuda.h"

static void set_sizes(struct kernel *kernel) { kernel->workspace_bytes = (int64_t)(kernel_elements(kernel) * sizeof(float)); }

const struct cuda_class cuda_local_response_norm = {
    .type = {CUDA_KERNEL, .set_sizes = set_sizes, .forward = cuda_forward, .backward_input = cuda_backward_input},
    .source = "local_response_norm",
    .forward = {{"forward", GRID_ONES, NULL}},
    .backward_input = {{"backward_terms", GRID_ONES, NULL}, {"backward_input", GRID_ONES, NULL}},
};
