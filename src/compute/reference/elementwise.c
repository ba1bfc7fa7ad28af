/* Elementwise operators: ReLU, add, dropout, functions of one and of two values. */
#include <math.h>

#include "compute/broadcast.h"
#include "compute/reference/reference.h"

/* -------------------------------------------------------------------- relu */

/* Written so that a NaN stays a NaN. */
ELEMENTWISE(relu_forward, y[i] = x[i] < 0 ? 0 : x[i])
ELEMENTWISE(relu_backward, dx[i] = y[i] > 0 ? dy[i] : 0)

const struct kernel_class reference_relu = {.forward_loop = {OVER_ELEMENTS, relu_forward},
                                            .backward_input_loop = {OVER_ELEMENTS, relu_backward}};

/* --------------------------------------------------------------------- add */

static void add_forward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    for (size_t i = first; i < end; i++) {
        double sum = 0;
        for (int j = 0; j < kernel->node->input_count; j++) sum += (double)call->input[j][i];
        call->output[i] = (float)sum;
    }
}

static void add_backward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    for (int j = 0; j < kernel->node->input_count; j++) {
        if (call->input_gradient[j] == NULL) continue;
        for (size_t i = first; i < end; i++) call->input_gradient[j][i] = call->output_gradient[i];
    }
}

const struct kernel_class reference_add = {.forward_loop = {OVER_ELEMENTS, add_forward},
                                           .backward_input_loop = {OVER_ELEMENTS, add_backward}};

/* ----------------------------------------------------------------- dropout */

/* y = x * mask / (1 - rate); the backward is the same with the gradients. */
static float drop(const struct attributes *a, const struct kernel_call *call, size_t i, float value) {
    if (!call->training) return value;
    return random_uniform(call->key, i) >= a->rate ? value * (1 / (1 - a->rate)) : 0;
}

ELEMENTWISE(dropout_forward, y[i] = drop(a, call, i, x[i]))
ELEMENTWISE(dropout_backward, dx[i] = drop(a, call, i, dy[i]))

const struct kernel_class reference_dropout = {.forward_loop = {OVER_ELEMENTS, dropout_forward},
                                               .backward_input_loop = {OVER_ELEMENTS, dropout_backward}};

/* ------------------------------------------------ functions of one and two values */

/* The formulas of graph/functions.def in double. */
#define NUMBER(constant) constant
#define SELU_ALPHA 1.67326324235437728
#define SELU_SCALE 1.05070098735548049
#define EXP exp
#define LOG log
#define TANH tanh
#define SIGMOID(x) (1 / (1 + exp(-(x))))
#define POWER pow
#define SQRT sqrt
#define ABS fabs
#define FLOOR floor
#define CEIL ceil
#define RINT rint
#define ERF erf
#define SIN sin
#define COS cos
#define TAN tan
#define ASIN asin
#define ACOS acos
#define ATAN atan
#define SINH sinh
#define COSH cosh
#define ASINH asinh
#define ACOSH acosh
#define ATANH atanh
#define SIGN(x) ((double)((x) > 0) - (double)((x) < 0))
#define CLIP(least, x, largest) ((x) < (least) ? (least) : (x) > (largest) ? (largest) : (x))
#define SOFTPLUS(x) (fmax(x, 0) + log1p(exp(-fabs(x))))

static double unary_value(int kind, double x, double alpha, double beta) {
    switch (kind) {
#define UNARY(NAME, name, value, slope, reads, flops)                                                                          \
    case UNARY_##NAME:                                                                                                         \
        return value;
#include "graph/functions.def"
    }
    return NAN;
}

static double unary_slope(int kind, double x, double y, double alpha, double beta) {
    (void)beta;
    switch (kind) {
#define UNARY(NAME, name, value, slope, reads, flops)                                                                          \
    case UNARY_##NAME:                                                                                                         \
        return slope;
#include "graph/functions.def"
    }
    return NAN;
}

static double slope_at(const struct attributes *a, const struct kernel_call *call, size_t i) {
    double x = call->input[0] != NULL ? (double)call->input[0][i] : NAN, y = call->output ? (double)call->output[i] : NAN;
    return unary_slope(a->kind, x, y, (double)a->alpha, (double)a->beta);
}

ELEMENTWISE(unary_forward, y[i] = (float)unary_value(a->kind, (double)x[i], (double)a->alpha, (double)a->beta))
ELEMENTWISE(unary_backward, dx[i] = (float)((double)dy[i] * slope_at(a, call, i)))

const struct kernel_class reference_unary = {.forward_loop = {OVER_ELEMENTS, unary_forward},
                                             .backward_input_loop = {OVER_ELEMENTS, unary_backward}};

static double binary_value(int kind, double a, double b) {
    switch (kind) {
#define BINARY(NAME, name, value, slope_a, slope_b, reads, flops)                                                              \
    case BINARY_##NAME:                                                                                                        \
        return value;
#include "graph/functions.def"
    }
    return NAN;
}

/* By `a` (operand 0) or by `b`. */
static double binary_slope(int kind, int operand, double a, double b) {
    switch (kind) {
#define BINARY(NAME, name, value, slope_a, slope_b, reads, flops)                                                              \
    case BINARY_##NAME:                                                                                                        \
        return operand == 0 ? slope_a : slope_b;
#include "graph/functions.def"
    }
    return NAN;
}

static void binary_sizes(struct kernel *kernel) {
    kernel->workspace_bytes = (int64_t)(kernel_elements(kernel) * sizeof(double));
}

/* An argument, of which one may be the node's own parameter; NAN where it is not read. */
static double binary_argument(const struct kernel *kernel, const struct kernel_call *call, int i, const struct cursor *at) {
    const float *from = i == binary_parameter(kernel) ? call->weights[0] : call->input[binary_input(kernel, i)];
    return from != NULL ? (double)from[at->offset[i]] : NAN;
}

static enum ps_status binary_forward(struct kernel *kernel, const struct kernel_call *call) {
    const struct broadcast b = binary_shape(kernel);
    struct cursor at = {0};
    for (size_t i = 0; i < kernel_elements(kernel); i++, cursor_next(&b, b.rank, &at))
        call->output[i] = (float)binary_value(kernel->node->attributes.kind, binary_argument(kernel, call, 0, &at),
                                              binary_argument(kernel, call, 1, &at));
    return PS_OK;
}

/* The gradient of an argument: each element is the sum over those that it was repeated for. */
static void binary_gradient(struct kernel *kernel, const struct kernel_call *call, int operand, float *result) {
    const struct broadcast b = binary_shape(kernel);
    double *sums = call->workspace;
    struct cursor at = {0};
    size_t count = 0;
    for (size_t i = 0; i < kernel_elements(kernel); i++) sums[i] = 0;
    for (size_t i = 0; i < kernel_elements(kernel); i++, cursor_next(&b, b.rank, &at)) {
        double slope = binary_slope(kernel->node->attributes.kind, operand, binary_argument(kernel, call, 0, &at),
                                    binary_argument(kernel, call, 1, &at));
        sums[at.offset[operand]] += (double)call->output_gradient[i] * slope;
        if ((size_t)at.offset[operand] >= count) count = (size_t)at.offset[operand] + 1;
    }
    for (size_t i = 0; i < count; i++) result[i] = (float)sums[i];
}

/* The second one first: the first may be written over the output's. */
static enum ps_status binary_backward(struct kernel *kernel, const struct kernel_call *call) {
    for (int i = 1; i >= 0; i--) {
        float *result = i == binary_parameter(kernel) ? NULL : call->input_gradient[binary_input(kernel, i)];
        if (result != NULL) binary_gradient(kernel, call, i, result);
    }
    return PS_OK;
}

static enum ps_status binary_backward_weight(struct kernel *kernel, const struct kernel_call *call) {
    binary_gradient(kernel, call, binary_parameter(kernel), call->gradients[0]);
    return PS_OK;
}

const struct kernel_class reference_binary = {.set_sizes = binary_sizes,
                                              .forward = binary_forward,
                                              .backward_input = binary_backward,
                                              .backward_weight = binary_backward_weight};
