/* Reductions: sources/reduce.cu. */
#include "compute/cuda/cuda.h"

static int64_t elements(const struct kernel *kernel) {
    return (int64_t)kernel->samples * shape_elements(kernel_input(kernel, 0));
}

/* Is the side whose elements lie beside each other reduced? */
static bool reduces_inner(const struct kernel *kernel) { return kernel->node->shape.dim[0] < kernel_input(kernel, 0)->dim[0]; }

/* Results of a block at once; each has CUDA_BLOCK / lanes threads. */
static int64_t lanes_of(const struct kernel *kernel) {
    const int64_t count = elements(kernel) / (int64_t)kernel_elements(kernel);
    if (reduces_inner(kernel) && count >= 4096) return 1;
    return count >= 512 ? 8 : count >= 64 ? 32 : CUDA_BLOCK;
}

static void define(const struct kernel *kernel, struct text *out) {
    text_add(out, "#define LANES %d\n#define INNER %d\n", (int)lanes_of(kernel), reduces_inner(kernel));
}

static enum ps_status run(struct kernel *kernel, const struct kernel_call *call, const struct cuda_launch *launch) {
    const int64_t results = (int64_t)kernel_elements(kernel), lanes = lanes_of(kernel);
    return cuda_run(kernel, call, launch, &(struct cuda_extra){.count = (results + lanes - 1) / lanes, .number = {results}});
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    return run(kernel, call, &(struct cuda_launch){"forward", GRID_BLOCKS, NULL});
}

static bool looks(const struct kernel *kernel) {
    const int kind = kernel->node->attributes.kind;
    return kind == REDUCE_MAX || kind == REDUCE_MIN || kind == REDUCE_PROD;
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call) {
    if (looks(kernel)) TRY(run(kernel, call, &(struct cuda_launch){"look", GRID_BLOCKS, NULL}));
    return cuda_run(kernel, call, &(struct cuda_launch){"backward_input", GRID_FOURS, elements}, NULL);
}

static void set_sizes(struct kernel *kernel) {
    kernel->workspace_bytes = looks(kernel) ? 2 * (int64_t)(kernel_elements(kernel) * sizeof(float)) : 0;
}

const struct cuda_class cuda_reduce = {
    .type = {CUDA_KERNEL, .set_sizes = set_sizes, .forward = forward, .backward_input = backward_input},
    .source = "reduce",
    .define = define,
};
