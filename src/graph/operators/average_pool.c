/*
 * Mean of each window: reads kernel, stride (0: the kernel), pad, pad_extra (more of it after a side than before), dilation
 * (0: 1), ceiling (the last window may end outside), count_padding (the mean counts padding as zeros; otherwise only what lies
 * in the image). Every window covers a pixel. A kernel as large as the image is the global mean. With out_h and out_w it is
 * PyTorch's adaptive pooling instead: window i of n along a side of s covers floor(i s / n) up to ceil((i + 1) s / n), so
 * windows are of uneven sizes and may share elements.
 */
#include "graph/operators.h"

const struct operator_type operator_average_pool = {
    .name = "average_pool",
    .attributes = {SIDES("kernel", kernel_h, 0, SIDE_MAX, 0), SIDES("stride", stride_h, 0, SIDE_MAX, 0),
                   SIDES("pad", pad_h, 0, SIDE_MAX, 0), BOOLEAN(ceiling, 0), BOOLEAN(count_padding, 1),
                   SIDES("out", out_h, 0, SIDE_MAX, 0), SIDES("pad_extra", pad_extra_h, -SIDE_MAX, SIDE_MAX, 0),
                   SIDES("dilation", dilation_h, 1, SIDE_MAX, 1)},
    .flags = OPERATOR_IMAGES | OPERATOR_STARTS_LAYER,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = pool_infer,
    .flops = pool_flops,
};
