/*
 * Products of matrices (compute/reference/matmul.c). y = a b; da = dy b' or, where a is stored transposed, da' = b dy'; db = a'
 * dy or db' = dy' a. One call of the library multiplies the matrices along one side, the largest; the host goes through the
 * other sides that do not continue it. Of an operand whose matrices are repeated the gradient adds up all repetitions, one
 * after the other: in place in f32, else in the workspace.
 *
 * Where any of a, b and y is bf16 the factors are, and what is not is rounded into the workspace.
 */
#include "base/memory.h"
#include "base/number.h"
#include "compute/broadcast.h"
#include "compute/cuda/cuda.h"

enum { OUTPUT = 2, OPERANDS = 3 }; /* a product for the gradients of operand 0 and 1, and for the output */

struct matmul {
    struct cuda_kernel cuda;
    struct broadcast batch;
    enum number_type factors;
    int side[OPERANDS];               /* of `batch`, which one call goes along; -1: a single matrix */
    int64_t rounded_bytes, sum_bytes; /* of the workspace: factors, as far as they are rounded; sums of repetitions */
    struct cuda_product *products[OPERANDS];
};

/* `left` and `right` are operands, turned from how they are stored. */
struct plan {
    int left, right;
    bool left_turned, right_turned;
};

static struct plan plan_of(const struct kernel *kernel, int result) {
    const bool a = kernel->node->attributes.transpose_a, b = kernel->node->attributes.transpose_b;
    if (result == OUTPUT) return (struct plan){0, 1, a, b};
    if (result == 0) return a ? (struct plan){1, OUTPUT, b, true} : (struct plan){OUTPUT, 1, false, !b};
    return b ? (struct plan){OUTPUT, 0, true, a} : (struct plan){0, OUTPUT, !a, false};
}

static void release(struct kernel *kernel) {
    for (int p = 0; p < OPERANDS; p++) cuda_product_destroy(((struct matmul *)kernel)->products[p]);
}

static const struct shape *shape_of(const struct kernel *kernel, int operand) {
    return operand == OUTPUT ? &kernel->node->shape : kernel_input(kernel, operand);
}

static int64_t matrix_elements(const struct kernel *kernel, int operand) {
    const struct shape *shape = shape_of(kernel, operand);
    return shape->dim[0] * shape->dim[shape->rank - 1];
}

static size_t elements_of(const struct kernel *kernel, int operand) {
    return (size_t)kernel->samples * (size_t)shape_elements(shape_of(kernel, operand));
}

/* Bytes of the workspace that a rounded factor takes. */
static int64_t rounded_bytes(const struct matmul *m, int operand) {
    const struct kernel *kernel = &m->cuda.kernel;
    if (shape_of(kernel, operand)->type == m->factors) return 0;
    return (int64_t)memory_align(elements_of(kernel, operand) * number_types[m->factors].bytes);
}

static bool is_repeated(const struct matmul *m, int operand) {
    for (int d = 0; d < m->batch.rank; d++)
        if (m->batch.stride[operand][d] == 0 && m->batch.side[d] > 1) return true;
    return false;
}

/* Is the result computed in f32 in the workspace, and then rounded? */
static bool sums_aside(const struct matmul *m, int result) {
    return result != OUTPUT && shape_of(&m->cuda.kernel, result)->type != TYPE_F32 && is_repeated(m, result);
}

/* The largest side along which the result's matrices differ. */
static int side_of(const struct matmul *m, int result) {
    int best = -1;
    for (int d = 0; d < m->batch.rank; d++)
        if (m->batch.stride[result][d] != 0 && (best < 0 || m->batch.side[d] > m->batch.side[best])) best = d;
    return best;
}

static struct cuda_matrix matrix_of(const struct matmul *m, int result, int operand, bool turned) {
    const struct kernel *kernel = &m->cuda.kernel;
    const int side = m->side[result];
    const int64_t stride = side < 0 ? 0 : m->batch.stride[operand][side] * matrix_elements(kernel, operand);
    const bool plain = operand == result && !sums_aside(m, result);
    const enum number_type type = plain ? shape_of(kernel, operand)->type : operand == result ? TYPE_F32 : m->factors;
    return (struct cuda_matrix){type, turned, shape_of(kernel, operand)->dim[0], stride};
}

static enum ps_status make(struct matmul *m, int result, struct ps_error *error) {
    struct kernel *kernel = &m->cuda.kernel;
    const struct plan plan = plan_of(kernel, result);
    const struct shape *made = shape_of(kernel, result), *left = shape_of(kernel, plan.left);
    m->side[result] = side_of(m, result);
    const struct cuda_product_shape shape = {
        .rows = made->dim[made->rank - 1],
        .columns = made->dim[0],
        .depth = left->dim[plan.left_turned ? left->rank - 1 : 0],
        .batch = m->side[result] < 0 ? 1 : m->batch.side[m->side[result]],
        .a = matrix_of(m, result, plan.left, plan.left_turned),
        .b = matrix_of(m, result, plan.right, plan.right_turned),
        .c = matrix_of(m, result, result, false),
    };
    return cuda_product_create(cuda_device_of(kernel), &shape, &m->products[result], error);
}

static enum ps_status prepare(struct kernel *kernel, struct ps_error *error) {
    struct matmul *m = (struct matmul *)kernel;
    int64_t most = 0;
    m->batch = matmul_batch(kernel);
    m->factors = TYPE_F32;
    for (int o = 0; o < OPERANDS; o++)
        if (shape_of(kernel, o)->type == TYPE_BF16) m->factors = TYPE_BF16;
    for (int r = 0; r < OPERANDS; r++) {
        const struct plan plan = plan_of(kernel, r);
        TRY(make(m, r, error));
        most = number_larger(most, cuda_product_workspace(m->products[r]));
        m->rounded_bytes = number_larger(m->rounded_bytes, rounded_bytes(m, plan.left) + rounded_bytes(m, plan.right));
        if (sums_aside(m, r))
            m->sum_bytes = number_larger(m->sum_bytes, (int64_t)memory_align(elements_of(kernel, r) * sizeof(float)));
    }
    kernel->workspace_bytes = m->rounded_bytes + m->sum_bytes + most;
    return PS_OK;
}

/* A factor in the type of all, at `room` of the workspace where it was rounded. */
static const char *factor(const struct matmul *m, int operand, const void *from, char *room) {
    const struct kernel *kernel = &m->cuda.kernel;
    const enum number_type type = shape_of(kernel, operand)->type;
    if (type == m->factors) return from;
    device_convert(kernel->device, elements_of(kernel, operand), m->factors, room, type, from);
    return room;
}

/* All sides but the one that a call goes along. */
static struct broadcast other_sides(const struct matmul *m, int result) {
    struct broadcast sides = m->batch;
    if (m->side[result] >= 0) sides.side[m->side[result]] = 1;
    return sides;
}

/* Is it the first of the products that are added up in its place? */
static bool is_first(const struct matmul *m, int result, const struct cursor *at) {
    for (int d = 0; d < m->batch.rank; d++)
        if (m->batch.stride[result][d] == 0 && at->index[d] > 0) return false;
    return true;
}

static enum ps_status multiply(const struct matmul *m, int result, const struct kernel_call *call, void *into) {
    const struct kernel *kernel = &m->cuda.kernel;
    const struct plan plan = plan_of(kernel, result);
    const struct broadcast sides = other_sides(m, result);
    const void *const from[OPERANDS] = {call->input[0], call->input[1], call->output_gradient};
    const int64_t count = broadcast_count(&sides, sides.rank);
    const size_t element = number_types[m->factors].bytes;
    const bool aside = sums_aside(m, result);
    const enum number_type type = shape_of(kernel, result)->type;
    char *room = call->workspace, *sums = room + m->rounded_bytes, *rest = sums + m->sum_bytes, *to = aside ? sums : into;
    const char *left = factor(m, plan.left, from[plan.left], room),
               *right = factor(m, plan.right, from[plan.right], room + rounded_bytes(m, plan.left));
    struct cursor at = {0};
    for (int64_t i = 0; i < count; i++, cursor_next(&sides, sides.rank, &at)) {
        const size_t a = (size_t)(at.offset[plan.left] * matrix_elements(kernel, plan.left)),
                     b = (size_t)(at.offset[plan.right] * matrix_elements(kernel, plan.right)),
                     c = (size_t)(at.offset[result] * matrix_elements(kernel, result));
        TRY(cuda_product_run(cuda_device_of(kernel), m->products[result], kernel->node->attributes.scale, left + a * element,
                             right + b * element, is_first(m, result, &at) ? 0 : 1,
                             to + c * number_types[aside ? TYPE_F32 : type].bytes, rest, call->error));
    }
    if (aside) device_convert(kernel->device, elements_of(kernel, result), type, into, TYPE_F32, sums);
    return PS_OK;
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    return multiply((struct matmul *)kernel, OUTPUT, call, call->output);
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call) {
    for (int i = 0; i < 2; i++)
        if (call->input_gradient[i]) TRY(multiply((struct matmul *)kernel, i, call, call->input_gradient[i]));
    return PS_OK;
}

const struct cuda_class cuda_matmul = {
    .type = {.size = sizeof(struct matmul),
             .native = cuda_native,
             .prepare = prepare,
             .release = release,
             .forward = forward,
             .backward_input = backward_input},
};
