/* Gradient of the weights of a convolution with one channel a group: see depthwise.c. */
#ifndef PENSTOCK_COMPUTE_CPU_DEPTHWISE_H
#define PENSTOCK_COMPUTE_CPU_DEPTHWISE_H

#include "compute/cpu/cpu.h"

/* Of one sample: x (in) C, H, W; y (out) C, OH, OW. */
struct depthwise {
    const struct device *device;
    const struct attributes *attributes;
    int64_t samples;
    const int64_t *in, *out;
};

/* dw (KH, KW, C) */
void depthwise_gradient(const struct depthwise *depthwise, const float *x, const float *dy, float *dw);

#endif
