/* max(x, 0), where the kernel before has not applied it. The backward passes the gradient on where the output is positive; in
 * place it overwrites the output's gradient with the input's. */
#include "compute/cpu/cpu.h"

/* Written so that a NaN stays a NaN. */
ELEMENTWISE(forward, y[i] = x[i] < 0 ? 0 : x[i])
/* The gradient is always read: a conditional read would not be vectorised. */
ELEMENTWISE(backward, float gradient = dy[i]; dx[i] = y[i] > 0 ? gradient : 0)

const struct kernel_class cpu_relu = {
    .piecewise = true,
    .forward_loop = {OVER_ELEMENTS, forward, 4096},
    .backward_input_loop = {OVER_ELEMENTS, backward, 4096},
};
