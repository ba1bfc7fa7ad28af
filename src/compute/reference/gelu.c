/*
 * y = x P(x), P the standard normal distribution function; dx = dy (P(x) + x p(x)), p its density. The tanh form has
 * P(x) = (1 + tanh(a (x + b x^3))) / 2 instead, a = sqrt(2 / pi), b = 0.044715.
 */
#include <math.h>

#include "compute/reference/reference.h"

struct share {
    double value, slope; /* P(x), P'(x) */
};

static struct share share_of(double x, bool tanh_form) {
    const double a = sqrt(2 / 3.14159265358979323846), b = 0.044715;
    if (!tanh_form) return (struct share){(1 + erf(x / sqrt(2))) / 2, a / 2 * exp(-x * x / 2)};
    double t = tanh(a * (x + b * x * x * x));
    return (struct share){(1 + t) / 2, (1 - t * t) / 2 * a * (1 + 3 * b * x * x)};
}

static int64_t elements_of(const struct kernel *kernel) {
    return kernel->samples * shape_elements(&reference_of(kernel)->output);
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    bool tanh_form = reference_of(kernel)->attributes->tanh_form;
    for (int64_t i = 0; i < elements_of(kernel); i++) {
        double x = (double)call->input[0][i];
        call->output[i] = (float)(x * share_of(x, tanh_form).value);
    }
    return PS_OK;
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    bool tanh_form = reference_of(kernel)->attributes->tanh_form;
    for (int64_t i = 0; i < elements_of(kernel); i++) {
        double x = (double)call->input[0][i];
        struct share share = share_of(x, tanh_form);
        call->input_gradient[0][i] = (float)((double)call->output_gradient[i] * (share.value + x * share.slope));
    }
    return PS_OK;
}

const struct kernel_class reference_gelu = {
    .create = reference_create, .destroy = reference_destroy, .forward = forward, .backward_input = backward_input};
