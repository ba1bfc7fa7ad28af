/*
 * Reductions: y is one number of all x along some dims. Each element's derivative is of the definition; of several that are the
 * largest (smallest) each has an equal share, and that of a product is the product of the others.
 */
#include <math.h>
#include <stdlib.h>

#include "compute/broadcast.h"
#include "compute/reference/reference.h"

/* What an element adds to the sum, or does to the largest, smallest or product. */
static double combine(int kind, double so_far, double x) {
    switch (kind) {
    case REDUCE_MAX:
        return fmax(so_far, x);
    case REDUCE_MIN:
        return fmin(so_far, x);
    case REDUCE_PROD:
        return so_far * x;
    case REDUCE_L1:
        return so_far + fabs(x);
    case REDUCE_L2:
    case REDUCE_SUM_SQUARE:
        return so_far + x * x;
    case REDUCE_LOG_SUM_EXP:
        return so_far == -INFINITY ? x : fmax(so_far, x) + log1p(exp(-fabs(so_far - x)));
    default:
        return so_far + x;
    }
}

static double nothing(int kind) {
    return kind == REDUCE_PROD                                ? 1
           : kind == REDUCE_MIN                               ? INFINITY
           : kind == REDUCE_MAX || kind == REDUCE_LOG_SUM_EXP ? -INFINITY
                                                              : 0;
}

static double finish(int kind, double all, double count) {
    return kind == REDUCE_MEAN ? all / count : kind == REDUCE_L2 ? sqrt(all) : kind == REDUCE_LOG_SUM ? log(all) : all;
}

/* dy/dx; `ties`: how many are as large (small). A product's is `others`. */
static double slope(int kind, double x, double y, double count, double ties, double others) {
    switch (kind) {
    case REDUCE_MEAN:
        return 1 / count;
    case REDUCE_MAX:
    case REDUCE_MIN:
        return x == y ? 1 / ties : 0;
    case REDUCE_PROD:
        return others;
    case REDUCE_L1:
        return x > 0 ? 1 : x < 0 ? -1 : 0;
    case REDUCE_L2:
        return y > 0 ? x / y : 0;
    case REDUCE_SUM_SQUARE:
        return 2 * x;
    case REDUCE_LOG_SUM:
        return exp(-y);
    case REDUCE_LOG_SUM_EXP:
        return exp(x - y);
    default:
        return 1;
    }
}

/* Operand 0 is y, which is repeated, and operand 1 is x. */
static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    const struct broadcast b = reduce_shape(kernel);
    const int kind = kernel->node->attributes.kind;
    const int64_t count = broadcast_count(&b, b.rank), results = (int64_t)kernel_elements(kernel);
    double *all = call->workspace;
    struct cursor at = {0};
    for (int64_t i = 0; i < results; i++) all[i] = nothing(kind);
    for (int64_t i = 0; i < count; i++, cursor_next(&b, b.rank, &at))
        all[at.offset[0]] = combine(kind, all[at.offset[0]], (double)call->input[0][i]);
    for (int64_t i = 0; i < results; i++) call->output[i] = (float)finish(kind, all[i], (double)(count / results));
    return PS_OK;
}

/* Of each result: how many x are equal to it; or zeros among the factors, and the product of the other factors. */
static void look(const struct kernel *kernel, const struct kernel_call *call, const struct broadcast *b, double *ties,
                 double *product) {
    const int64_t count = broadcast_count(b, b->rank);
    struct cursor at = {0};
    for (int64_t i = 0; i < (int64_t)kernel_elements(kernel); i++) ties[i] = 0, product[i] = 1;
    for (int64_t i = 0; i < count && call->input[0] != NULL; i++, cursor_next(b, b->rank, &at)) {
        const float x = call->input[0][i], of = call->output != NULL ? call->output[at.offset[0]] : 0;
        ties[at.offset[0]] += x == of;
        if (x != 0) product[at.offset[0]] *= (double)x;
    }
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call) {
    const struct broadcast b = reduce_shape(kernel);
    const int64_t count = broadcast_count(&b, b.rank), results = (int64_t)kernel_elements(kernel);
    double *ties = call->workspace, *product = ties + results;
    struct cursor at = {0};
    look(kernel, call, &b, ties, product);
    for (int64_t i = 0; i < count; i++, cursor_next(&b, b.rank, &at)) {
        const int64_t r = at.offset[0];
        const double x = call->input[0] != NULL ? (double)call->input[0][i] : NAN;
        const double y = call->output != NULL ? (double)call->output[r] : NAN;
        const double zeros = ties[r] - (x == 0); /* among the other factors */
        const double others = zeros > 0 ? 0 : x == 0 ? product[r] : product[r] / x;
        call->input_gradient[0][i] =
            (float)((double)call->output_gradient[r] *
                    slope(kernel->node->attributes.kind, x, y, (double)(count / results), ties[r], others));
    }
    return PS_OK;
}

static void set_sizes(struct kernel *kernel) {
    kernel->workspace_bytes = 2 * (int64_t)(kernel_elements(kernel) * sizeof(double));
}

const struct kernel_class reference_reduce = {.set_sizes = set_sizes, .forward = forward, .backward_input = backward_input};
