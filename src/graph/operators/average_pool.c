/*
 * Mean of each window: reads kernel, stride (0: the kernel), pad (at most half the kernel), count_padding (the mean counts
 * padding as zeros; otherwise only what lies in the image). A kernel as large as the image is the global mean.
 */
#include "graph/operators.h"

const struct operator operator_average_pool = {
    .name = "average_pool",
    .flags = OPERATOR_STARTS_LAYER,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = pool_infer,
    .flops = pool_flops,
};
