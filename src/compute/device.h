/*
 * Devices: where stages run. A device is a table of kernels, one per operator; an empty slot means that it declines the
 * operator. `cpu` is oneDNN, `reference` plain C for checking, `clock` only waits as long as the profile says.
 *
 * A device may have memory of its own, which the host cannot read, and a queue: kernels, updates and copies are then asked for,
 * and come later, in the order in which they were asked for. The functions device_* below serve both kinds; where blocks lie in
 * the host's memory, they are plain loops and all is done when a call returns. NULL as their device stands for such a one.
 */
#ifndef PENSTOCK_COMPUTE_DEVICE_H
#define PENSTOCK_COMPUTE_DEVICE_H

#include "base/memory.h"
#include "base/number_type.h"
#include "compute/kernel.h"
#include "compute/optimizer.h"

struct device_options {
    int threads;  /* that compute together; at least 1 */
    double speed; /* of a clock: times of the profile are divided by it; 0: 1 */
};

/* When something is done, or will be. {0}: long ago. */
struct moment {
    double time;           /* as clock_now counts: by the device that keeps its own time, else when it was asked for */
    struct device *device; /* whose queue has it; NULL: none, it is done */
    uint64_t work;         /* where in that queue, as the device counts */
};

/* Floats of a block. */
struct stretch {
    float *at;
    size_t count;
};

/* What a device with memory of its own does with it. Addresses are the device's; all but `take` and `give` is asked for. */
struct device_memory {
    /* Takes zeroed memory, aligned to 64 bytes; PS_OUT_OF_MEMORY with the size, named `what`, when refused. `give` waits for
     * all that was asked for. */
    enum ps_status (*take)(struct device *device, size_t size, const char *what, void **base, struct ps_error *error);
    void (*give)(struct device *device, void *base, size_t size);
    /* Either address may be the host's: what is read there is read before the call returns, what is written there is there when
     * the copy is done. */
    void (*copy)(struct device *device, void *to, const void *from, size_t bytes);
    void (*zero)(struct device *device, void *to, size_t bytes);
    void (*add)(struct device *device, enum number_type type, size_t count, void *y, const void *x); /* y += x */
    void (*scale)(struct device *device, size_t count, float *y, float factor, float divisor); /* y = y * factor / divisor */
    /* Shortens stretches that together have a greater norm than `limit` to that norm. Their squares are added up as
     * vector_squares does. */
    void (*clip)(struct device *device, const struct stretch *stretches, int count, double limit);
};

struct device_class {
    const char *name, *summary;
    bool real; /* computes numbers (clock does not) */
    const struct kernel_class *kernels[OPERATOR_COUNT];
    const struct device_memory *memory; /* NULL: blocks lie in the host's */
    /* One device per worker; used by one thread at a time, not always the one that made it. `close` waits for its work. */
    enum ps_status (*open)(const struct device_options *options, struct device **device, struct ps_error *error);
    void (*close)(struct device *device);
    /* Called by the worker's thread before it uses the device: sets how many threads compute. NULL: nothing to do. */
    void (*attach)(struct device *device);
    /* Applies an optimizer to flat blocks: `predict_only` runs rule->predict. What is pointed to but for blocks is read before
     * it returns, `rule` apart. `seconds` is what a clock device waits. */
    void (*update)(struct device *device, const struct optimizer *rule, const struct optimizer_settings *settings,
                   const struct optimizer_call *call, bool predict_only, double seconds);
    /* The queue. NULL, all of them: work is done when it was asked for. */
    struct moment (*mark)(struct device *device);                           /* when all that was asked for so far is done */
    void (*after)(struct device *device, const struct moment *moment);      /* work asked for next begins then, or later */
    bool (*reached)(const struct moment *moment);                           /* of this type of device */
    void (*wait)(const struct moment *moment);                              /* blocks until then */
    double (*time_of)(const struct moment *moment);                         /* when it was reached, lately; NULL: not known */
    enum ps_status (*check)(struct device *device, struct ps_error *error); /* what work found wrong; NULL: calls say it */
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

/* Do blocks lie in memory that the host reads and writes? */
static inline bool device_in_host(const struct device *device) { return device == NULL || device->type->memory == NULL; }
/* A block in the device's memory, zeroed, as memory_block_take and memory_block_release do it. */
enum ps_status device_take(struct device *device, struct memory_block *block, size_t size, const char *what,
                           struct ps_error *error);
void device_give(struct device *device, struct memory_block *block);
/* As struct device_memory says. */
void device_copy(struct device *device, void *to, const void *from, size_t bytes);
void device_zero(struct device *device, void *to, size_t bytes);
void device_add(struct device *device, enum number_type type, size_t count, void *y, const void *x);
void device_scale(struct device *device, size_t count, float *y, float factor, float divisor);
void device_clip(struct device *device, const struct stretch *stretches, int count, double limit);

/* As struct device_class says. A moment of a device without a queue is now, and always reached. */
struct moment device_mark(struct device *device);
void device_after(struct device *device, const struct moment *moment);
bool device_reached(const struct moment *moment);
void device_wait(const struct moment *moment);
enum ps_status device_check(struct device *device, struct ps_error *error);
/* Waits for all that was asked for. */
void device_finish(struct device *device);

#endif
