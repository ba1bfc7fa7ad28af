/* Vectors of tokens and of positions, rotary embedding: sources/embedding.cu, sources/rotary.cu. */
#include <math.h>

#include "compute/cuda/cuda.h"
#include "compute/cuda/places.h"
#include "compute/rotary.h"

static int64_t vocabulary(const struct kernel *kernel) { return kernel->node->attributes.vocabulary; }

const struct cuda_class cuda_embedding = {
    .type = {CUDA_KERNEL, .forward = cuda_forward, .backward_weight = cuda_backward_weight},
    .source = "embedding",
    .forward = {{"forward", GRID_TEAMS}},
    .backward_weight = {{"backward_weight", GRID_TEAMS, vocabulary}},
};

/* ------------------------------------------------------------------ position_embedding */

/* Of the table, and of dy as so many vectors as large as what of the table is added to a sample. */
static int64_t table_elements(const struct kernel *kernel) {
    return kernel->node->attributes.count * (int64_t)kernel_features(kernel);
}

static int64_t table_rows(const struct kernel *kernel) {
    return kernel->node->attributes.everywhere ? (int64_t)kernel_rows(kernel) : kernel->samples;
}

static void define_position(const struct kernel *kernel, struct text *out) {
    cuda_define_index(out, (int64_t)kernel_elements(kernel));
}

static void position_sizes(struct kernel *kernel) { cuda_take_columns(kernel, table_rows(kernel), table_elements(kernel), 1); }

static enum ps_status position_backward_weight(struct kernel *kernel, const struct kernel_call *call) {
    return cuda_run_all(kernel, call, cuda_class_of(kernel)->backward_weight,
                        &(struct cuda_extra){.number = {table_rows(kernel)}});
}

const struct cuda_class cuda_position_embedding = {
    .type = {CUDA_KERNEL, .set_sizes = position_sizes, .forward = cuda_forward, .backward_input = cuda_backward_input,
             .backward_weight = position_backward_weight},
    .source = "embedding",
    .define = define_position,
    .forward = {{"add_forward", GRID_FOURS}},
    .backward_input = {{"add_backward_input", GRID_FOURS}},
    .backward_weight = {{"column_partial", GRID_COLUMNS, table_elements}, {"column_finish", GRID_TILES, table_elements}},
};

/* ------------------------------------------------------------------------------ rotary */

static void define_rotary(const struct kernel *kernel, struct text *out) {
    const struct rotary r = rotary_of(kernel);
    text_add(out,
             "#define EACH_HEAD %zu\n#define PAIRS %zu\n#define STEP %zu\n#define OTHER %zu\n#define WIDTH %zu\n"
             "#define TABLE_STEP %zu\n#define TABLE_OTHER %zu\n#define FREQUENCIES ",
             r.each, r.pairs, r.step, r.other, r.width, r.table_step, r.table_other);
    for (size_t j = 0; j < r.pairs; j++)
        text_add(out, "%a, ", pow((double)kernel->node->attributes.base, -(double)j / (double)r.pairs));
    text_add(out, "\n");
}

static int64_t units(const struct kernel *kernel) {
    const struct rotary r = rotary_of(kernel);
    return (int64_t)(kernel_rows(kernel) * r.heads * (r.each - r.pairs));
}

static enum ps_status rotary_backward(struct kernel *kernel, const struct kernel_call *call) {
    static const struct cuda_launch tables = {"backward_tables", GRID_ONES, NULL};
    const struct rotary r = rotary_of(kernel);
    TRY(cuda_backward_input(kernel, call));
    if (kernel->node->input_count == 1) return PS_OK;
    return cuda_run(kernel, call, &tables, &(struct cuda_extra){.count = (int64_t)(kernel_rows(kernel) * r.pairs)});
}

const struct cuda_class cuda_rotary = {
    .type = {CUDA_KERNEL, .forward = cuda_forward, .backward_input = rotary_backward},
    .source = "rotary",
    .define = define_rotary,
    .forward = {{"forward", GRID_ONES, units}},
    .backward_input = {{"backward_input", GRID_ONES, units}},
};
