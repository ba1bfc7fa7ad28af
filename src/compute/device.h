/*
 * Devices: where stages run. A device is a table of kernels, one per operator; an empty slot means that it declines the
 * operator. `cpu` is oneDNN, `reference` plain C for checking, `clock` only waits as long as the profile says.
 */
#ifndef PENSTOCK_COMPUTE_DEVICE_H
#define PENSTOCK_COMPUTE_DEVICE_H

#include "compute/kernel.h"
#include "compute/optimizer.h"

struct device_options {
    int threads;  /* that compute together; at least 1 */
    double speed; /* of a clock: times of the profile are divided by it; 0: 1 */
};

struct device_class {
    const char *name, *summary;
    bool real; /* computes numbers (clock does not) */
    const struct kernel_class *kernels[OPERATOR_COUNT];
    /* One device per worker; used by one thread at a time, not always the one that made it. */
    enum ps_status (*open)(const struct device_options *options, struct device **device, struct ps_error *error);
    void (*close)(struct device *device);
    /* Called by the worker's thread before it uses the device: sets how many threads compute. NULL: nothing to do. */
    void (*attach)(struct device *device);
    /* Applies an optimizer to flat blocks: `predict_only` runs rule->predict. `seconds` is what a clock device waits. */
    void (*update)(struct device *device, const struct optimizer *rule, const struct optimizer_settings *settings,
                   const struct optimizer_call *call, bool predict_only, double seconds);
    /* Returns when all that was started on the device is done. NULL: calls are finished when they return. */
    void (*finish)(struct device *device);
    /* What the next work reads was there at `time` (as clock_now counts). A device that keeps its own time starts the work
     * then, or at the end of the work before it, however late the thread woke up to ask for it. NULL: work starts when it is
     * asked for. */
    void (*not_before)(struct device *device, double time);
    /* When the work asked for so far is done, by the time that the device keeps. NULL: it keeps none, now is the time. */
    double (*done_at)(struct device *device);
};

/* Devices extend this as their first member. */
struct device {
    const struct device_class *type;
    int threads;
};

extern const struct device_class *const device_table[]; /* NULL-terminated */
enum ps_status device_find(const char *name, const struct device_class **device, struct ps_error *error);
enum ps_status device_open(const char *name, const struct device_options *options, struct device **device,
                           struct ps_error *error);
void device_close(struct device *device);

#endif
