/* Losses against numbers: sources/losses.cu. Blocks of threads add pieces, and one block what they have. */
#include "base/number.h"
#include "compute/cuda/cuda.h"

static int64_t pieces_of(const struct kernel *kernel) {
    enum { BLOCKS = 4 /* for each multiprocessor */, EACH = 4 * CUDA_BLOCK };
    const int64_t wanted = ((int64_t)kernel_elements(kernel) + EACH - 1) / EACH;
    return number_smaller(wanted, (int64_t)cuda_device_of(kernel)->gpu->multiprocessors * BLOCKS);
}

static void set_sizes(struct kernel *kernel) { kernel->workspace_bytes = pieces_of(kernel) * (int64_t)sizeof(double); }

static int64_t counted(const struct kernel *kernel, const struct kernel_call *call) {
    return call->counted * shape_elements(&kernel->node->shape);
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    const int64_t pieces = pieces_of(kernel);
    const struct cuda_extra sum = {.count = pieces, .number = {(int64_t)kernel_elements(kernel), counted(kernel, call)}};
    TRY(cuda_run(kernel, call, &(struct cuda_launch){"forward", GRID_BLOCKS, NULL}, &sum));
    return cuda_run(kernel, call, &(struct cuda_launch){"finish", GRID_BLOCKS, NULL},
                    &(struct cuda_extra){.count = 1, .number = {pieces}});
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call) {
    return cuda_run(kernel, call, &(struct cuda_launch){"backward_input", GRID_FOURS, NULL},
                    &(struct cuda_extra){.number = {0, counted(kernel, call)}});
}

static void define(const struct kernel *kernel, struct text *out) {
    text_add(out, "#define LOSS %d\n", kernel->node->id == OPERATOR_MSE ? 0 : kernel->node->id == OPERATOR_L1 ? 1 : 2);
}

#define LOSS_CLASS                                                                                                             \
    {                                                                                                                          \
        .type = {CUDA_KERNEL, .set_sizes = set_sizes, .forward = forward, .backward_input = backward_input},                   \
        .source = "losses", .define = define                                                                                   \
    }
const struct cuda_class cuda_mse = LOSS_CLASS;
const struct cuda_class cuda_l1 = LOSS_CLASS;
const struct cuda_class cuda_bce = LOSS_CLASS;
