/* All devices. A new one is a directory next to cpu/ with a struct device_class, and a line here. */
#include "compute/device.h"

extern const struct device_class device_cpu, device_reference, device_clock, device_far, device_cuda;

const struct device_class *const device_table[] = {
    &device_cpu, &device_reference, &device_clock, &device_far, &device_cuda, NULL,
};
