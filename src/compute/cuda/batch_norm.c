/*
 * Batch normalisation. Blocks of threads share the rows in pieces, and the columns in tiles; sums over a piece, then over the
 * pieces, then a pass over the rows: sources/batch_norm.cu. The workspace holds the two sums of the backward, and behind them
 * those of the pieces.
 */
#include "base/memory.h"
#include "base/number.h"
#include "compute/cuda/cuda.h"

/* Vectors of a tile: a power of two. */
static int64_t lanes_of(const struct kernel *kernel) {
    const int64_t features = (int64_t)kernel_features(kernel), vectors = features % 4 == 0 ? features / 4 : features;
    int64_t lanes = 1;
    while (lanes < 32 && lanes < vectors) lanes *= 2;
    return lanes;
}

static void define(const struct kernel *kernel, struct text *out) {
    text_add(out, "#define LANES %d\n#define RELU %d\n", (int)lanes_of(kernel), kernel->relu_follows);
}

/* So many blocks that all run at once, each of at least DEPTH steps. */
static struct cuda_extra work_of(const struct kernel *kernel, const struct kernel_call *call) {
    enum { BLOCKS = 4 /* for each multiprocessor */, DEPTH = 4 };
    const int64_t features = (int64_t)kernel_features(kernel), width = lanes_of(kernel) * (features % 4 == 0 ? 4 : 1),
                  tiles = (features + width - 1) / width, step = CUDA_BLOCK / lanes_of(kernel) * DEPTH,
                  rows = (int64_t)kernel_rows(kernel),
                  wanted = number_larger(cuda_device_of(kernel)->gpu->multiprocessors * BLOCKS / tiles, 1);
    const int64_t pieces = number_smaller(wanted, (rows + step - 1) / step),
                  real = kernel->node->attributes.double_precision ? sizeof(double) : sizeof(float);
    return (struct cuda_extra){.count = tiles * pieces,
                               .number = {rows, pieces},
                               .more = {call ? (char *)call->workspace + memory_align((size_t)(2 * features * real)) : NULL}};
}

static void set_sizes(struct kernel *kernel) {
    const size_t pieces = (size_t)work_of(kernel, NULL).number[1],
                 vectors =
                     2 * kernel_features(kernel) * (kernel->node->attributes.double_precision ? sizeof(double) : sizeof(float));
    kernel->fuses_relu = kernel->relu_follows;
    kernel->inner_bytes = (int64_t)vectors;
    kernel->workspace_bytes = (int64_t)(memory_align(vectors) + pieces * vectors);
}

/* Sums over pieces by the first launch, over all pieces by the second. */
static enum ps_status add_up(struct kernel *kernel, const struct kernel_call *call, const struct cuda_launch *pieces,
                             const struct cuda_launch *all) {
    enum { FINISH_LANES = 8 }; /* as the source */
    struct cuda_extra extra = work_of(kernel, call);
    TRY(cuda_run(kernel, call, pieces, &extra));
    extra.count = ((int64_t)kernel_features(kernel) + FINISH_LANES - 1) / FINISH_LANES;
    return cuda_run(kernel, call, all, &extra);
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    static const struct cuda_launch measure = {"measure", GRID_BLOCKS, NULL}, finish = {"finish_measure", GRID_BLOCKS, NULL},
                                    normalise = {"normalise", GRID_BLOCKS, NULL};
    const struct cuda_extra extra = work_of(kernel, call);
    if (call->training) TRY(add_up(kernel, call, &measure, &finish));
    return cuda_run(kernel, call, &normalise, &extra);
}

static enum ps_status backward_shared(struct kernel *kernel, const struct kernel_call *call) {
    static const struct cuda_launch sum = {"sum_gradients", GRID_BLOCKS, NULL},
                                    finish = {"finish_gradients", GRID_BLOCKS, NULL};
    return add_up(kernel, call, &sum, &finish);
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call) {
    static const struct cuda_launch launch = {"backward_input", GRID_BLOCKS, NULL};
    const struct cuda_extra extra = work_of(kernel, call);
    return cuda_run(kernel, call, &launch, &extra);
}

static int64_t features_of(const struct kernel *kernel) { return (int64_t)kernel_features(kernel); }

const struct cuda_class cuda_batch_norm = {
    .type = {CUDA_KERNEL, .set_sizes = set_sizes, .forward = forward, .backward_input = backward_input,
             .backward_weight = cuda_backward_weight, .backward_shared = backward_shared},
    .source = "batch_norm",
    .backward_weight = {{"backward_weight", GRID_ONES, features_of}},
    .define = define,
};
