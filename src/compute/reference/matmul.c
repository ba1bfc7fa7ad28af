/*
 * Products of matrices: y[m, n] = scale sum over k of a[m, k] b[k, n], for each matrix of y, whose numbers of a's and b's
 * matrix `matmul_batch` tells. da[m, k] = scale sum over n of dy[m, n] b[k, n], db[k, n] = scale sum over m of a[m, k] dy[m,
 * n], each summed over all matrices of y that it was read for.
 */
#include "compute/broadcast.h"
#include "compute/reference/reference.h"

/* Element (row, column) of a matrix: at row * by_row + column * by_column. */
struct matrix {
    int64_t rows, columns, by_row, by_column;
};

static struct matrix matrix_of(const struct shape *shape, bool transposed) {
    const int64_t rows = shape->dim[shape->rank - 1], columns = shape->dim[0];
    if (transposed) return (struct matrix){columns, rows, 1, columns};
    return (struct matrix){rows, columns, columns, 1};
}

static struct matrix operand(const struct kernel *kernel, int input) {
    const struct attributes *a = &kernel->node->attributes;
    return matrix_of(kernel_input(kernel, input), input == 0 ? a->transpose_a : a->transpose_b);
}

/* Goes through all products of an element of a and one of b: adds to sums[], by `to` (0: of a, 1: of b, 2: of y). */
static void multiply(const struct kernel *kernel, const float *const values[3], int to, double *sums) {
    const struct broadcast batch = matmul_batch(kernel);
    const struct matrix a = operand(kernel, 0), b = operand(kernel, 1), y = matrix_of(&kernel->node->shape, false);
    const int64_t count = broadcast_count(&batch, batch.rank);
    const double scale = (double)kernel->node->attributes.scale;
    struct cursor at = {0};
    for (int64_t i = 0; i < count; i++, cursor_next(&batch, batch.rank, &at))
        for (int64_t m = 0; m < y.rows; m++)
            for (int64_t n = 0; n < y.columns; n++)
                for (int64_t k = 0; k < a.columns; k++) {
                    const int64_t place[3] = {at.offset[0] * a.rows * a.columns + m * a.by_row + k * a.by_column,
                                              at.offset[1] * b.rows * b.columns + k * b.by_row + n * b.by_column,
                                              at.offset[2] * y.rows * y.columns + m * y.by_row + n * y.by_column};
                    double product = scale;
                    for (int v = 0; v < 3; v++) product *= v == to ? 1 : (double)values[v][place[v]];
                    sums[place[to]] += product;
                }
}

static void compute(const struct kernel *kernel, const struct kernel_call *call, int to, int64_t count, float *result) {
    const float *const values[3] = {call->input[0], call->input[1], call->output_gradient};
    double *sums = call->workspace;
    for (int64_t i = 0; i < count; i++) sums[i] = 0;
    multiply(kernel, values, to, sums);
    for (int64_t i = 0; i < count; i++) result[i] = (float)sums[i];
}

static int64_t input_elements(const struct kernel *kernel, int input) {
    return kernel->samples * shape_elements(kernel_input(kernel, input));
}

static void set_sizes(struct kernel *kernel) {
    int64_t most = (int64_t)kernel_elements(kernel);
    for (int i = 0; i < 2; i++)
        if (input_elements(kernel, i) > most) most = input_elements(kernel, i);
    kernel->workspace_bytes = most * (int64_t)sizeof(double);
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    compute(kernel, call, 2, (int64_t)kernel_elements(kernel), call->output);
    return PS_OK;
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call) {
    for (int i = 0; i < 2; i++)
        if (call->input_gradient[i] != NULL) compute(kernel, call, i, input_elements(kernel, i), call->input_gradient[i]);
    return PS_OK;
}

const struct kernel_class reference_matmul = {.set_sizes = set_sizes, .forward = forward, .backward_input = backward_input};
