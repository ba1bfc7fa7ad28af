/* Softmax and cross-entropy, a team of threads for each row: sources/cross_entropy.cu. */
#include "compute/cuda/cuda.h"

/* The class weights, and their sum, are constants of the source. */
static void define(const struct kernel *kernel, struct text *out) {
    const float *weights = kernel->graph->class_weights;
    double all = 0;
    if (!weights) return;
    text_add(out, "#define CLASS_WEIGHTS ");
    for (size_t d = 0; d < kernel_features(kernel); d++) {
        text_add(out, "%af,", (double)weights[d]);
        all += (double)weights[d];
    }
    text_add(out, "\n#define ALL_WEIGHTS %af\n", (double)(float)all);
}

/* The number of blocks, and what each has: 32 of them at most for each multiprocessor (source.c). */
static void set_sizes(struct kernel *kernel) {
    enum { BEFORE = 64, TALLY = 24, BLOCKS = 32 };
    kernel->workspace_bytes = BEFORE + (int64_t)TALLY * BLOCKS * cuda_device_of(kernel)->gpu->multiprocessors;
}

static int64_t labelled(const struct kernel *kernel, const struct kernel_call *call) {
    return (int64_t)shape_rows(&kernel->node->shape, call->counted);
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    TRY(cuda_run(kernel, call, &(struct cuda_launch){"forward", GRID_TEAMS, NULL},
                 &(struct cuda_extra){.number = {0, labelled(kernel, call)}}));
    return cuda_run(kernel, call, &(struct cuda_launch){"finish", GRID_BLOCKS, NULL}, &(struct cuda_extra){.count = 1});
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call) {
    return cuda_run(kernel, call, &(struct cuda_launch){"backward_input", GRID_FOURS, NULL},
                    &(struct cuda_extra){.number = {0, labelled(kernel, call)}});
}

const struct cuda_class cuda_cross_entropy = {
    .type = {CUDA_KERNEL, .set_sizes = set_sizes, .forward = forward, .backward_input = backward_input},
    .source = "cross_entropy",
    .define = define,
};
