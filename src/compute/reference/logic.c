/* Conditions: `compare`, `logical`, and `where`, which chooses by one; its gradient goes to what was chosen. */
#include <math.h>
#include <string.h>

#include "compute/broadcast.h"
#include "compute/reference/reference.h"

static double number(const struct kernel *kernel, const struct kernel_call *call, int input, const struct cursor *at) {
    const float *from = call->input[input] + at->offset[input];
    return kernel_input(kernel, input)->type == TYPE_I32 ? (double)*token_numbers(from) : (double)*from;
}

static bool compare(int kind, double a, double b) {
    switch (kind) {
    case COMPARE_EQUAL:
        return a == b;
    case COMPARE_NOT_EQUAL:
        return a != b;
    case COMPARE_LESS:
        return a < b;
    case COMPARE_LESS_EQUAL:
        return a <= b;
    case COMPARE_GREATER:
        return a > b;
    case COMPARE_GREATER_EQUAL:
        return a >= b;
    case COMPARE_ISNAN:
        return isnan(a);
    default:
        return isinf(a);
    }
}

static bool connect(int kind, bool a, bool b) {
    return kind == LOGICAL_AND ? a && b : kind == LOGICAL_OR ? a || b : kind == LOGICAL_XOR ? a != b : !a;
}

static enum ps_status condition(struct kernel *kernel, const struct kernel_call *call) {
    const struct attributes *a = &kernel->node->attributes;
    const struct broadcast b = inputs_shape(kernel);
    int32_t *y = (int32_t *)(void *)call->output;
    struct cursor at = {0};
    for (size_t i = 0; i < kernel_elements(kernel); i++, cursor_next(&b, b.rank, &at)) {
        const double first = number(kernel, call, 0, &at);
        const double second = kernel->node->input_count > 1 ? number(kernel, call, 1, &at) : (double)a->alpha;
        y[i] =
            kernel->node->id == OPERATOR_COMPARE ? compare(a->kind, first, second) : connect(a->kind, first != 0, second != 0);
    }
    return PS_OK;
}

const struct kernel_class reference_compare = {.forward = condition};
const struct kernel_class reference_logical = {.forward = condition};

static enum ps_status where_forward(struct kernel *kernel, const struct kernel_call *call) {
    const struct broadcast b = inputs_shape(kernel);
    struct cursor at = {0};
    for (size_t i = 0; i < kernel_elements(kernel); i++, cursor_next(&b, b.rank, &at)) {
        const int chosen = token_numbers(call->input[0])[at.offset[0]] != 0 ? 1 : 2;
        memcpy(&call->output[i], &call->input[chosen][at.offset[chosen]], sizeof(float)); /* of any type */
    }
    return PS_OK;
}

static enum ps_status where_backward(struct kernel *kernel, const struct kernel_call *call) {
    const struct broadcast b = inputs_shape(kernel);
    for (int input = 1; input < 3; input++) {
        const int64_t count = kernel->samples * shape_elements(kernel_input(kernel, input));
        double *sums = call->workspace;
        struct cursor at = {0};
        if (call->input_gradient[input] == NULL) continue;
        for (int64_t i = 0; i < count; i++) sums[i] = 0;
        for (size_t i = 0; i < kernel_elements(kernel); i++, cursor_next(&b, b.rank, &at))
            if ((token_numbers(call->input[0])[at.offset[0]] != 0) == (input == 1))
                sums[at.offset[input]] += (double)call->output_gradient[i];
        for (int64_t i = 0; i < count; i++) call->input_gradient[input][i] = (float)sums[i];
    }
    return PS_OK;
}

/* The workspace sums gradients in double. */
static void where_sizes(struct kernel *kernel) {
    kernel->workspace_bytes = (int64_t)(kernel_elements(kernel) * sizeof(double));
}

const struct kernel_class reference_where = {
    .set_sizes = where_sizes, .forward = where_forward, .backward_input = where_backward};
