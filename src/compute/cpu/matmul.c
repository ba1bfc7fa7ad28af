/*
 * Products of matrices by oneDNN, see compute/reference/matmul.c: all of them in one call, transposed where they lie by their
 * strides, repeated ones as sides of 1. The gradient of a value whose matrices are repeated is computed for each repetition in
 * the workspace, in f32, and then summed.
 */
#include "base/memory.h"
#include "compute/broadcast.h"
#include "compute/cpu/cpu.h"

enum { OUTPUT = 2, PRODUCTS = 3 }; /* the gradients of operand 0 and 1, and the output: what a product computes */

struct matmul {
    struct kernel kernel;
    struct broadcast batch;
    struct primitive products[PRODUCTS];
};

static void release(struct kernel *kernel) {
    for (int p = 0; p < PRODUCTS; p++) primitive_release(&((struct matmul *)kernel)->products[p]);
}

/* How a value lies: its matrices, as they are stored or turned. With `whole` there is one for each of the output's. */
static const struct layout *layout_of(struct draft *draft, const struct matmul *m, int operand, bool turned, bool whole) {
    const struct shape *shape = operand == OUTPUT ? &m->kernel.node->shape : kernel_input(&m->kernel, operand);
    const int rank = m->batch.rank, own = whole ? OUTPUT : operand;
    const int64_t rows = shape->dim[shape->rank - 1], columns = shape->dim[0];
    int64_t sides[BROADCAST_RANK + 2], strides[BROADCAST_RANK + 2];
    for (int d = 0; d < rank; d++) {
        const bool repeated = m->batch.stride[own][d] == 0;
        sides[d] = repeated ? 1 : m->batch.side[d];
        strides[d] = repeated ? rows * columns : m->batch.stride[own][d] * rows * columns;
    }
    sides[rank] = turned ? columns : rows;
    sides[rank + 1] = turned ? rows : columns;
    strides[rank] = turned ? 1 : columns;
    strides[rank + 1] = turned ? columns : 1;
    return draft_layout_strided(draft, rank + 2, sides, strides);
}

/* y = a b; da = dy b' or, where a is stored transposed, da' = b dy'; db = a' dy or db' = dy' a. `left` and `right` are
 * operands, turned from how they are stored. */
struct product {
    int left, right;
    bool left_turned, right_turned;
};

static struct product product_of(const struct kernel *kernel, int result) {
    const bool a = kernel->node->attributes.transpose_a, b = kernel->node->attributes.transpose_b;
    if (result == OUTPUT) return (struct product){0, 1, a, b};
    if (result == 0) return a ? (struct product){1, OUTPUT, b, true} : (struct product){OUTPUT, 1, false, !b};
    return b ? (struct product){OUTPUT, 0, true, a} : (struct product){0, OUTPUT, !a, false};
}

static bool is_repeated(const struct matmul *m, int operand) {
    for (int d = 0; d < m->batch.rank; d++)
        if (m->batch.stride[operand][d] == 0 && m->batch.side[d] > 1) return true;
    return false;
}

static size_t matrix_elements(const struct kernel *kernel, int input) {
    const struct shape *shape = kernel_input(kernel, input);
    return (size_t)(shape->dim[0] * shape->dim[shape->rank - 1]);
}

/* Of the gradients of an operand for each repetition; 0: it is not repeated. */
static size_t repeated_bytes(const struct matmul *m, int operand) {
    const size_t count = (size_t)broadcast_count(&m->batch, m->batch.rank);
    return is_repeated(m, operand) ? memory_align(count * matrix_elements(&m->kernel, operand) * sizeof(float)) : 0;
}

static bool native(const struct kernel *kernel) {
    return cpu_multiplies_narrow(kernel) && kernel_input(kernel, 0)->type == TYPE_BF16 &&
           kernel_input(kernel, 1)->type == TYPE_BF16;
}

static dnnl_primitive_desc_t plan(struct draft *draft, const struct matmul *m, int result) {
    const struct product product = product_of(&m->kernel, result);
    const bool narrow = cpu_is_narrow(&m->kernel), sums = result != OUTPUT && is_repeated(m, result);
    draft->type = m->kernel.node->shape.type;
    const struct layout *left = layout_of(draft, m, product.left, product.left_turned, false),
                        *right = layout_of(draft, m, product.right, product.right_turned, false);
    if (sums) draft->type = TYPE_F32;
    const struct layout *made = layout_of(draft, m, result, false, true);
    return draft_product_finished(draft, left, right, NULL, made, narrow ? m->kernel.node->attributes.scale : 1, false);
}

static enum ps_status prepare(struct kernel *kernel, struct ps_error *error) {
    static const char *const parts[] = {"gradient of the first value", "gradient of the second value", "forward"};
    struct matmul *m = (struct matmul *)kernel;
    struct draft draft;
    m->batch = matmul_batch(kernel);
    draft_start(&draft, kernel->device, kernel->node);
    for (int p = 0; p < PRODUCTS; p++) {
        draft_primitive(&draft, plan(&draft, m, p), parts[p], (int[]){DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, 0},
                        &m->products[p]);
        const int64_t bytes = m->products[p].scratchpad_bytes + (p == OUTPUT ? 0 : (int64_t)repeated_bytes(m, p));
        if (bytes > kernel->workspace_bytes) kernel->workspace_bytes = bytes;
    }
    return draft_finish(&draft, error);
}

static void scale_part(const void *context, size_t first, size_t end) {
    const struct { float *values, factor; } *scaled = context;
    vector_scale(end - first, scaled->values + first, scaled->factor);
}

/* Computes a product into `result`, with the scale. */
static enum ps_status multiply(struct matmul *m, const struct kernel_call *call, int which, float *result, size_t count,
                               void *scratchpad) {
    const struct product product = product_of(&m->kernel, which);
    const float *const values[] = {call->input[0], call->input[1], call->output_gradient};
    const void *addresses[] = {values[product.left], values[product.right], result};
    TRY(primitive_run(&m->products[which], cpu_of(&m->kernel), addresses, scratchpad, call->error));
    const struct { float *values, factor; } scaled = {result, m->kernel.node->attributes.scale};
    if (scaled.factor != 1 && !cpu_is_narrow(&m->kernel)) device_parallel(m->kernel.device, count, 4096, scale_part, &scaled);
    return PS_OK;
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    struct matmul *m = (struct matmul *)kernel;
    return multiply(m, call, OUTPUT, call->output, kernel_elements(kernel), call->workspace);
}

/* Adds up the gradients of all repetitions, which lie like the output, to the first one, and writes the sum. */
static void sum_repetitions(const struct matmul *m, int operand, float *each, void *result) {
    const enum number_type type = m->kernel.node->shape.type;
    struct broadcast kept, repeated;
    const size_t size = matrix_elements(&m->kernel, operand);
    broadcast_split(&m->batch, operand, &kept, &repeated);
    const int64_t count = broadcast_count(&kept, kept.rank), times = broadcast_count(&repeated, repeated.rank);
    struct cursor at = {0};
    for (int64_t i = 0; i < count; i++, cursor_next(&kept, kept.rank, &at)) {
        float *sum = each + (size_t)at.offset[OUTPUT] * size;
        struct cursor again = {0};
        for (int64_t t = 0; t < times; t++, cursor_next(&repeated, repeated.rank, &again)) {
            const float *from = each + (size_t)(at.offset[OUTPUT] + again.offset[OUTPUT]) * size;
            if (t > 0) vector_add(size, sum, from);
        }
        numbers_convert(size, type, (char *)result + (size_t)at.offset[operand] * size * number_types[type].bytes, TYPE_F32,
                        sum);
    }
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call) {
    struct matmul *m = (struct matmul *)kernel;
    const size_t matrices = (size_t)broadcast_count(&m->batch, m->batch.rank);
    for (int i = 0; i < 2; i++) {
        const size_t own = repeated_bytes(m, i);
        float *result = own > 0 ? call->workspace : call->input_gradient[i];
        if (call->input_gradient[i] == NULL) continue;
        TRY(multiply(m, call, i, result, matrices * matrix_elements(kernel, i), (char *)call->workspace + own));
        if (own > 0) sum_repetitions(m, i, result, call->input_gradient[i]);
    }
    return PS_OK;
}

const struct kernel_class cpu_matmul = {.size = sizeof(struct matmul),
                                        .native = native,
                                        .prepare = prepare,
                                        .release = release,
                                        .forward = forward,
                                        .backward_input = backward_input};
