/* Elementwise operators: ReLU, add, dropout, functions of one and of two values. */
#include <math.h>

#include "compute/broadcast.h"
#include "compute/reference/reference.h"

static int64_t elements_of(const struct kernel *kernel) {
    return kernel->samples * shape_elements(&reference_of(kernel)->output);
}

/* -------------------------------------------------------------------- relu */

/* Written so that a NaN stays a NaN. */
static enum ps_status relu_forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    for (int64_t i = 0; i < elements_of(kernel); i++) call->output[i] = call->input[0][i] < 0 ? 0 : call->input[0][i];
    return PS_OK;
}

static enum ps_status relu_backward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    for (int64_t i = 0; i < elements_of(kernel); i++) {
        call->input_gradient[0][i] = call->output[i] > 0 ? call->output_gradient[i] : 0;
    }
    return PS_OK;
}

const struct kernel_class reference_relu = {
    .create = reference_create, .destroy = reference_destroy, .forward = relu_forward, .backward_input = relu_backward};

/* --------------------------------------------------------------------- add */

static enum ps_status add_forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    int count = reference_of(kernel)->input_count;
    for (int64_t i = 0; i < elements_of(kernel); i++) {
        double sum = 0;
        for (int j = 0; j < count; j++) sum += (double)call->input[j][i];
        call->output[i] = (float)sum;
    }
    return PS_OK;
}

static enum ps_status add_backward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    for (int j = 0; j < reference_of(kernel)->input_count; j++) {
        if (call->input_gradient[j] == NULL) continue;
        for (int64_t i = 0; i < elements_of(kernel); i++) call->input_gradient[j][i] = call->output_gradient[i];
    }
    return PS_OK;
}

const struct kernel_class reference_add = {
    .create = reference_create, .destroy = reference_destroy, .forward = add_forward, .backward_input = add_backward};

/* ----------------------------------------------------------------- dropout */

/* y = x * mask / (1 - rate); the backward is the same with the gradients. */
static void drop(const struct kernel *kernel, const struct kernel_call *call, const float *from, float *to) {
    float rate = reference_of(kernel)->attributes->rate, factor = 1 / (1 - rate);
    for (int64_t i = 0; i < elements_of(kernel); i++) {
        bool kept = !call->training || random_uniform(call->key, (uint64_t)i) >= rate;
        to[i] = kept ? from[i] * (call->training ? factor : 1) : 0;
    }
}

static enum ps_status dropout_forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    drop(kernel, call, call->input[0], call->output);
    return PS_OK;
}

static enum ps_status dropout_backward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    drop(kernel, call, call->output_gradient, call->input_gradient[0]);
    return PS_OK;
}

const struct kernel_class reference_dropout = {
    .create = reference_create, .destroy = reference_destroy, .forward = dropout_forward, .backward_input = dropout_backward};

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

static enum ps_status unary_forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    const struct attributes *a = &kernel->node->attributes;
    for (int64_t i = 0; i < (int64_t)kernel_elements(kernel); i++)
        call->output[i] = (float)unary_value(a->kind, (double)call->input[0][i], (double)a->alpha, (double)a->beta);
    return PS_OK;
}

static enum ps_status unary_backward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    const struct attributes *a = &kernel->node->attributes;
    for (int64_t i = 0; i < (int64_t)kernel_elements(kernel); i++) {
        double x = call->input[0] != NULL ? (double)call->input[0][i] : NAN, y = call->output ? (double)call->output[i] : NAN;
        double slope = unary_slope(a->kind, x, y, (double)a->alpha, (double)a->beta);
        call->input_gradient[0][i] = (float)((double)call->output_gradient[i] * slope);
    }
    return PS_OK;
}

const struct kernel_class reference_unary = {.forward = unary_forward, .backward_input = unary_backward};

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

static struct broadcast broadcast_of(const struct kernel *kernel) {
    struct broadcast_operand operands[BROADCAST_OPERANDS];
    for (int i = 0; i < kernel->node->input_count; i++)
        operands[i] = (struct broadcast_operand){kernel_input(kernel, i), kernel->samples};
    return broadcast_make(&kernel->node->shape, kernel->samples, operands, kernel->node->input_count);
}

/* The workspace sums gradients of repeated elements in double. */
static enum ps_status binary_prepare(struct kernel *kernel, struct ps_error *error) {
    (void)error;
    kernel->workspace_bytes = (int64_t)(kernel_elements(kernel) * sizeof(double));
    return PS_OK;
}

static enum ps_status binary_forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    const struct broadcast b = broadcast_of(kernel);
    struct cursor at = {0};
    for (int64_t i = 0; i < (int64_t)kernel_elements(kernel); i++, cursor_next(&b, b.rank, &at))
        call->output[i] = (float)binary_value(kernel->node->attributes.kind, (double)call->input[0][at.offset[0]],
                                              (double)call->input[1][at.offset[1]]);
    return PS_OK;
}

/* The gradient of an operand: each element is the sum over those that it was repeated for. */
static void binary_gradient(struct kernel *kernel, const struct kernel_call *call, int operand, float *result) {
    const struct broadcast b = broadcast_of(kernel);
    const int64_t count = kernel->samples * shape_elements(kernel_input(kernel, operand));
    double *sums = call->workspace;
    struct cursor at = {0};
    for (int64_t i = 0; i < count; i++) sums[i] = 0;
    for (int64_t i = 0; i < (int64_t)kernel_elements(kernel); i++, cursor_next(&b, b.rank, &at)) {
        double x[2];
        for (int o = 0; o < 2; o++) x[o] = call->input[o] != NULL ? (double)call->input[o][at.offset[o]] : NAN;
        double slope = binary_slope(kernel->node->attributes.kind, operand, x[0], x[1]);
        sums[at.offset[operand]] += (double)call->output_gradient[i] * slope;
    }
    for (int64_t i = 0; i < count; i++) result[i] = (float)sums[i];
}

/* The second one first: the first may be written over the output's. */
static enum ps_status binary_backward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    for (int i = 1; i >= 0; i--)
        if (call->input_gradient[i] != NULL) binary_gradient(kernel, call, i, call->input_gradient[i]);
    return PS_OK;
}

const struct kernel_class reference_binary = {
    .prepare = binary_prepare, .forward = binary_forward, .backward_input = binary_backward};
