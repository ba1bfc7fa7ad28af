/*
 * The clock device: computes nothing and takes as long as the profile says. Each call moves a deadline by its seconds, as work
 * in the queue of an accelerator would, and its moments are times. So real programs with real messages run at the planned
 * speed, also with more workers than cores. Its networks consist of opaque nodes; nodes of other operators have sizes and take
 * no time.
 */
#include "base/clock.h"

#include <stdlib.h>

#include "base/memory.h"
#include "compute/device.h"

struct clock_device {
    struct device device;
    double deadline; /* as clock_now counts */
    bool ordered;    /* `after` was called: it says when work can start */
    double speed;
};

/* Work starts when the work before it ends and, where `after` says when its data arrived, not before that. Only without such a
 * call the time of the call counts, too: threads wake up some microseconds late, and with many short pieces of work that would
 * add up. */
static void spend(struct clock_device *device, double seconds) {
    double now = clock_now();
    bool late = device->deadline < now && !device->ordered;
    device->deadline = (late ? now : device->deadline) + seconds / device->speed;
}

static struct moment mark(struct device *device) {
    return (struct moment){.time = ((struct clock_device *)device)->deadline, .device = device};
}

static void after(struct device *device, const struct moment *moment) {
    struct clock_device *clock = (struct clock_device *)device;
    clock->ordered = true;
    if (clock->deadline < moment->time) clock->deadline = moment->time;
}

static bool reached(const struct moment *moment) { return clock_now() >= moment->time; }

static void wait(const struct moment *moment) { clock_wait_until(moment->time); }

static void set_sizes(struct kernel *kernel) { kernel->inner_bytes = kernel->node->attributes.inner_bytes; }

static enum ps_status spend_kernel(const struct kernel *kernel, double seconds) {
    spend((struct clock_device *)kernel->device, seconds);
    return PS_OK;
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    (void)call;
    return spend_kernel(kernel, kernel->node->attributes.time.forward_s);
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call) {
    const struct layer_times *time = &kernel->node->attributes.time;
    return spend_kernel(kernel, time->backward_input_s + (call->split ? time->split_input_s : 0));
}

static enum ps_status backward_weight(struct kernel *kernel, const struct kernel_call *call) {
    const struct layer_times *time = &kernel->node->attributes.time;
    return spend_kernel(kernel,
                        time->backward_weight_s + (call->split ? time->split_s : 0) + (call->adds ? time->accumulate_s : 0));
}

static const struct kernel_class clock_kernel = {
    .set_sizes = set_sizes,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};

static enum ps_status open_device(const struct device_options *options, struct device **device, struct ps_error *error) {
    struct clock_device *made;
    TRY(memory_new(&made, 1, "a device", error));
    made->speed = options->speed > 0 ? options->speed : 1;
    *device = &made->device;
    return PS_OK;
}

static void close_device(struct device *device) { free(device); }

static void update(struct device *device, const struct optimizer *rule, const struct optimizer_settings *settings,
                   const struct optimizer_call *call, bool predict_only, double seconds) {
    (void)rule, (void)settings, (void)call, (void)predict_only;
    spend((struct clock_device *)device, seconds);
}

static void code(struct device *device, const struct wire_call *call) { spend((struct clock_device *)device, call->seconds); }

const struct device_class device_clock = {
    .name = "clock",
    .summary = "computes nothing, takes as long as the profile says",
    .real = false,
    .kernels =
        {
#define OPERATOR(NAME, name) [OPERATOR_##NAME] = &clock_kernel,
#include "graph/operators.def"
#undef OPERATOR
        },
    .open = open_device,
    .close = close_device,
    .update = update,
    .code = code,
    .mark = mark,
    .after = after,
    .reached = reached,
    .wait = wait,
};
