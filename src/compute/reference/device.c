/* The reference device's table, and functions that its kernels share. */
#include <stdlib.h>

#include "base/memory.h"
#include "compute/reference/reference.h"

#define OPERATOR(NAME, name) extern const struct kernel_class reference_##name;
#include "graph/operators.def"
#undef OPERATOR

struct window reference_window(const struct kernel *kernel) {
    const struct attributes *a = &kernel->node->attributes;
    const int64_t *in = kernel_input(kernel, 0)->dim, *out = kernel->node->shape.dim;
    return (struct window){kernel->samples, in[0],    in[1],       in[2],         out[0],
                           out[1],          out[2],   a->kernel_h, a->kernel_w,   a->stride_h,
                           a->stride_w,     a->pad_h, a->pad_w,    a->dilation_h, a->dilation_w};
}

static enum ps_status open_device(const struct device_options *options, struct device **device, struct ps_error *error) {
    (void)options;
    return memory_new(device, 1, "a device", error);
}

static void close_device(struct device *device) { free(device); }

static void update(struct device *device, const struct optimizer *rule, const struct optimizer_settings *settings,
                   const struct optimizer_call *call, bool predict_only, double seconds) {
    (void)seconds;
    if (!optimizer_run(rule, settings, call, predict_only)) device_spoil(device);
}

const struct device_class device_reference = {
    .name = "reference",
    .summary = "plain C, one thread: slow, for checking",
    .real = true,
    .kernels =
        {
#define OPERATOR(NAME, name)
#define COMPUTED(NAME, name) [OPERATOR_##NAME] = &reference_##name,
#include "graph/operators.def"
#undef OPERATOR
        },
    .open = open_device,
    .close = close_device,
    .update = update,
};
