/*
 * Largest value of each window: reads kernel, stride (0: the kernel), pad (it never wins, and every window covers a pixel),
 * pad_extra (more of it after a side than before), dilation (0: 1), ceiling (the last window may end outside).
 * The forward keeps what its backward needs (which element won) in the kernel's inner memory.
 */
#include "graph/operators.h"

const struct operator_type operator_max_pool = {
    .name = "max_pool",
    .attributes = {SIDES("kernel", kernel_h, 1, SIDE_MAX, REQUIRED), SIDES("stride", stride_h, 0, SIDE_MAX, 0),
                   SIDES("pad", pad_h, 0, SIDE_MAX, 0), BOOLEAN(ceiling, 0),
                   SIDES("pad_extra", pad_extra_h, -SIDE_MAX, SIDE_MAX, 0), SIDES("dilation", dilation_h, 1, SIDE_MAX, 1)},
    .flags = OPERATOR_IMAGES | OPERATOR_STARTS_LAYER,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = pool_infer,
    .flops = pool_flops,
};
