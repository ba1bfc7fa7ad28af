/* Layer normalisation and RMS normalisation, a team of threads for each row: sources/layer_norm.cu. */
#include "compute/cuda/cuda.h"

static void define(const struct kernel *kernel, struct text *out) {
    const int parameters = kernel->node->parameter_count;
    text_add(out, "#define CENTRED %d\n#define HAS_GAMMA %d\n#define HAS_BETA %d\n", kernel->node->id == OPERATOR_LAYER_NORM,
             parameters > 0, parameters > 1);
}

static void set_sizes(struct kernel *kernel) {
    const int64_t rows = (int64_t)kernel_rows(kernel);
    kernel->inner_bytes = 2 * rows * (int64_t)sizeof(float);
    cuda_take_columns(kernel, rows, (int64_t)kernel_features(kernel), 2);
}

#define NORM                                                                                                                   \
    {                                                                                                                          \
        .type = {CUDA_KERNEL, .set_sizes = set_sizes, .forward = cuda_forward, .backward_input = cuda_backward_input,          \
                 .backward_weight = cuda_backward_weight},                                                                     \
        .source = "layer_norm", .forward = {{"forward", GRID_TEAMS, NULL}},                                                    \
        .backward_input = {{"backward_input", GRID_TEAMS, NULL}},                                                              \
        .backward_weight = {{"column_partial", GRID_COLUMNS, NULL}, {"column_finish", GRID_TILES, NULL}}, .define = define     \
    }
const struct cuda_class cuda_layer_norm = NORM;
const struct cuda_class cuda_rms_norm = NORM;
