/* Softmax and its logarithm, a team of threads for each row: sources/softmax.cu. */
#include "compute/cuda/cuda.h"

static void define(const struct kernel *kernel, struct text *out) {
    text_add(out, "#define LOG %d\n", kernel->node->id == OPERATOR_LOG_SOFTMAX);
}

#define SOFTMAX                                                                                                                \
    {                                                                                                                          \
        .type = {CUDA_KERNEL, .forward = cuda_forward, .backward_input = cuda_backward_input}, .source = "softmax",            \
        .forward = {{"forward", GRID_TEAMS, NULL}}, .backward_input = {{"backward_input", GRID_TEAMS, NULL}}, .define = define \
    }
const struct cuda_class cuda_softmax = SOFTMAX;
const struct cuda_class cuda_log_softmax = SOFTMAX;
