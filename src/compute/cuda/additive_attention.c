/*
 * Additive attention (formulas in compute/reference/additive_attention.c, kernels in sources/additive_attention.cu). Nearly all
 * of the time goes into the hyperbolic tangents, one for each query, key and unit: they are computed where they are needed, in
 * the forward, and in the backward once for the gradients of queries and parameters, once for those of the keys.
 */
#include "compute/cuda/cuda.h"

static int64_t units_of(const struct kernel *kernel) { return kernel_input(kernel, 0)->dim[0]; }
static int64_t keys_of(const struct kernel *kernel) { return kernel_input(kernel, 1)->dim[1]; }
static int64_t pairs(const struct kernel *kernel) { return (int64_t)kernel_rows(kernel) * keys_of(kernel); }
static int64_t query_elements(const struct kernel *kernel) { return (int64_t)kernel_rows(kernel) * units_of(kernel); }
static int64_t key_elements(const struct kernel *kernel) { return kernel->samples * keys_of(kernel) * units_of(kernel); }
static int64_t value_elements(const struct kernel *kernel) {
    return kernel->samples * keys_of(kernel) * (int64_t)kernel_features(kernel);
}

/* Inner: the weights p. Workspace: v and dv, two sums for each query and unit, ds. */
static void set_sizes(struct kernel *kernel) {
    const int64_t floats = 2 * units_of(kernel) + 2 * query_elements(kernel) + pairs(kernel);
    kernel->inner_bytes = pairs(kernel) * (int64_t)sizeof(float);
    kernel->workspace_bytes = floats * (int64_t)sizeof(float);
    cuda_take_columns(kernel, (int64_t)kernel_rows(kernel), units_of(kernel), 2);
}

static void define(const struct kernel *kernel, struct text *out) {
    text_add(out, "#define UNITS %lld\n#define QUERIES %lld\n#define KEYS %lld\n#define TOKENS %d\n",
             (long long)units_of(kernel), (long long)kernel->node->shape.dim[1], (long long)keys_of(kernel),
             kernel->node->input_count > 3);
}

const struct cuda_class cuda_additive_attention = {
    .type = {CUDA_KERNEL, .set_sizes = set_sizes, .forward = cuda_forward, .backward_shared = cuda_backward_shared,
             .backward_input = cuda_backward_input, .backward_weight = cuda_backward_weight},
    .source = "additive_attention",
    .row = units_of,
    .define = define,
    .forward = {{"normalize", GRID_TEAM}, {"score", GRID_TEAMS, pairs}, {"softmax", GRID_TEAMS}, {"output", GRID_ONES}},
    .backward_shared = {{"normalize", GRID_TEAM},
                        {"weight_gradient", GRID_TEAMS, pairs},
                        {"score_gradient", GRID_TEAMS},
                        {"query_sums", GRID_ONES, query_elements}},
    .backward_input = {{"query_gradient", GRID_ONES, query_elements},
                       {"key_gradient", GRID_ONES, key_elements},
                       {"value_gradient", GRID_ONES, value_elements}},
    .backward_weight = {{"column_partial", GRID_COLUMNS, units_of},
                        {"column_finish", GRID_TILES, units_of},
                        {"finish", GRID_TEAM}},
};
