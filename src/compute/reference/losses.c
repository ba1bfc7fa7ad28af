/* Losses against numbers (graph/operators/losses.c): N samples of elements x with targets t and outputs y. */
#include <math.h>
#include <string.h>

#include "compute/reference/reference.h"

/* `slope`: of the loss, from the output. */
struct rule {
    double (*output)(double x), (*loss)(double x, double t), (*slope)(double y, double t);
};

static double identity(double x) { return x; }
static double logistic(double x) { return 1 / (1 + exp(-x)); }

static double mse_loss(double x, double t) { return (x - t) * (x - t); }
static double mse_slope(double y, double t) { return 2 * (y - t); }

static double l1_loss(double x, double t) { return fabs(x - t); }
static double l1_slope(double y, double t) { return y > t ? 1 : y < t ? -1 : 0; }

/* - t log y - (1 - t) log (1 - y), for x of any size */
static double bce_loss(double x, double t) { return fmax(x, 0) - x * t + log1p(exp(-fabs(x))); }
static double bce_slope(double y, double t) { return y - t; }

static const struct rule mse = {identity, mse_loss, mse_slope}, l1 = {identity, l1_loss, l1_slope},
                         bce = {logistic, bce_loss, bce_slope};

static enum ps_status forward(const struct rule *rule, struct kernel *kernel, const struct kernel_call *call) {
    const int64_t each = shape_elements(&kernel->node->shape);
    const float *target = call->target;
    for (int64_t i = 0; i < kernel->samples * each; i++) {
        const double x = (double)call->input[0][i];
        call->output[i] = (float)rule->output(x);
        if (i < call->counted * each) *call->loss += rule->loss(x, (double)target[i]);
    }
    return PS_OK;
}

static enum ps_status backward_input(const struct rule *rule, struct kernel *kernel, const struct kernel_call *call) {
    const int64_t each = shape_elements(&kernel->node->shape);
    const float *target = call->target;
    for (int64_t i = 0; i < kernel->samples * each; i++) {
        const bool counts = i < call->counted * each;
        const double slope = counts ? rule->slope((double)call->output[i], (double)target[i]) : 0;
        call->input_gradient[0][i] = (float)(slope * (double)call->gradient_scale);
    }
    return PS_OK;
}

#define LOSS(NAME)                                                                                                             \
    static enum ps_status NAME##_forward(struct kernel *kernel, const struct kernel_call *call) {                              \
        return forward(&NAME, kernel, call);                                                                                   \
    }                                                                                                                          \
    static enum ps_status NAME##_backward(struct kernel *kernel, const struct kernel_call *call) {                             \
        return backward_input(&NAME, kernel, call);                                                                            \
    }                                                                                                                          \
    const struct kernel_class reference_##NAME = {.forward = NAME##_forward, .backward_input = NAME##_backward}
LOSS(mse);
LOSS(l1);
LOSS(bce);
