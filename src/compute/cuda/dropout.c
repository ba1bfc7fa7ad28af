/* Dropout: one launch for each direction. */
#include "compute/cuda/cuda.h"

const struct cuda_class cuda_dropout = {
    .type = {CUDA_KERNEL, .forward = cuda_forward, .backward_input = cuda_backward_input},
    .source = "dropout",
    .forward = {{"forward", GRID_FOURS, NULL}},
    .backward_input = {{"backward", GRID_FOURS, NULL}},
};
