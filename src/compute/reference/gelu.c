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

static double value(double x, bool tanh_form) { return x * share_of(x, tanh_form).value; }

static double slope(double x, bool tanh_form) {
    struct share share = share_of(x, tanh_form);
    return share.value + x * share.slope;
}

ELEMENTWISE(forward, y[i] = (float)value((double)x[i], a->tanh_form))
ELEMENTWISE(backward, dx[i] = (float)((double)dy[i] * slope((double)x[i], a->tanh_form)))

const struct kernel_class reference_gelu = {.forward_loop = {OVER_ELEMENTS, forward},
                                            .backward_input_loop = {OVER_ELEMENTS, backward}};
