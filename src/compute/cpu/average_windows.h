/* Means over windows of different sizes: adaptive pooling, and windows of which a part is not counted (average_windows.c). */
#ifndef PENSTOCK_COMPUTE_CPU_AVERAGE_WINDOWS_H
#define PENSTOCK_COMPUTE_CPU_AVERAGE_WINDOWS_H

#include "compute/device.h"

struct average_windows {
    const struct device *device;
    const struct attributes *attributes;
    const int64_t *in, *out; /* C, H, W of a sample; borrowed */
    int samples;
};

void average_windows_forward(const struct average_windows *windows, const struct kernel_call *call);
void average_windows_backward(const struct average_windows *windows, const struct kernel_call *call);

#endif
