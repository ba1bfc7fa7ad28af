/*
 * Devices: where stages run. A device is a table of kernels, one per operator; an empty slot means that it declines the
 * operator. `cpu` is oneDNN, `reference` plain C for checking, `clock` only waits as long as the profile says.
 *
 * A device may have memory of its own, which the host cannot read, and a queue: a call then enqueues a kernel, an update or a
 * copy and returns, and the queue executes its work in order. The functions device_* below serve both kinds. For a device that
 * works in the host's memory they are plain loops, and the work is done when the call returns; NULL as the device also means
 * the host's memory.
 */
#ifndef PENSTOCK_COMPUTE_DEVICE_H
#define PENSTOCK_COMPUTE_DEVICE_H

#include "base/memory.h"
#include "base/number_type.h"
#include "base/wire.h"
#include "compute/kernel.h"
#include "compute/optimizer.h"

struct device_options {
    int threads;  /* that compute together; at least 1 */
    double speed; /* of a clock: times of the profile are divided by it; 0: 1 */
};

/* When something is done, or will be: an event in a device's queue, or a time. {0}: in the past. */
struct moment {
    double time; /* as clock_now counts: for a device that keeps its own time, of the event; else when the event was enqueued */
    struct device *device; /* in whose queue it is; NULL: in none, it is done */
    uint64_t work;         /* position in that queue, as the device counts */
};

/* A range of floats in a block. */
struct stretch {
    float *at;
    size_t count;
};

/* One encoding, one decoding, or where `encoded` is NULL one rounding in place, of a block for the wire (base/wire.h). */
struct wire_call {
    const struct wire *wire;
    const struct wire_run *runs; /* of the block; like `wire` they must stay until the work is done */
    int run_count;
    bool decode;
    void *block, *encoded;
    float *feedback; /* NULL: none */
    double seconds;  /* what a clock device takes */
};
/* In the host's memory. */
void wire_call_run(const struct wire_call *call);

/* Operations on a device's own memory. Addresses are the device's. All but `take` and `give` are enqueued. */
struct device_memory {
    /* Takes zeroed memory, aligned to 64 bytes; PS_OUT_OF_MEMORY with the size and the name `what` when refused. `give` waits
     * for all enqueued work. */
    enum ps_status (*take)(struct device *device, size_t size, const char *what, void **base, struct ps_error *error);
    void (*give)(struct device *device, void *base, size_t size);
    /* Either address may be the host's. A source on the host is read before the call returns; a destination on the host is
     * valid when the copy is done. */
    void (*copy)(struct device *device, void *to, const void *from, size_t bytes);
    void (*zero)(struct device *device, void *to, size_t bytes);
    void (*add)(struct device *device, enum number_type type, size_t count, void *y, const void *x); /* y += x */
    /* As numbers_convert; `to` may be the host's. */
    void (*convert)(struct device *device, size_t count, enum number_type to_type, void *to, enum number_type from_type,
                    const void *from);
    void (*scale)(struct device *device, size_t count, float *y, float factor, float divisor); /* y = y * factor / divisor */
    /* Scales the ranges so that their common norm is at most `limit`. Their squares are summed as vector_squares does. */
    void (*clip)(struct device *device, const struct stretch *stretches, int count, double limit);
};

struct device_class {
    const char *name, *summary;
    bool real; /* computes values (clock does not) */
    const struct kernel_class *kernels[OPERATOR_COUNT];
    const struct device_memory *memory; /* NULL: blocks lie in the host's memory */
    /* One device per worker; used by one thread at a time, not always the one that made it. `close` waits for its work. */
    enum ps_status (*open)(const struct device_options *options, struct device **device, struct ps_error *error);
    void (*close)(struct device *device);
    /* Applies an optimizer to flat blocks: `predict_only` runs rule->predict. The structs are read before the call returns; the
     * blocks and `rule` must stay until the work is done. `seconds` is what a clock device takes. Spoils the device where an
     * updated weight is not finite. */
    void (*update)(struct device *device, const struct optimizer *rule, const struct optimizer_settings *settings,
                   const struct optimizer_call *call, bool predict_only, double seconds);
    /* Encodes or decodes; NULL: wire_call_run. The struct is read before the call returns. */
    void (*code)(struct device *device, const struct wire_call *call);
    /* The queue. All of them NULL: there is none, and work is done when a call returns. */
    struct moment (*mark)(struct device *device);                      /* when all work enqueued so far is done */
    void (*after)(struct device *device, const struct moment *moment); /* work enqueued next waits for it */
    bool (*reached)(const struct moment *moment);                      /* of this type of device */
    void (*wait)(const struct moment *moment);                         /* blocks the calling thread until then */
    double (*time_of)(const struct moment *moment);                    /* when a recent one was reached; NULL: not known */
    enum ps_status (*check)(struct device *device,
                            struct ps_error *error); /* the first error of enqueued work; NULL: calls return errors */
};

/* Devices extend this as their first member. */
struct device {
    const struct device_class *type;
    int threads;
    bool spoilt; /* an update has made a weight that is infinite or not a number: device_spoil, device_is_spoilt */
};

/* From any thread. */
static inline void device_spoil(struct device *device) { __atomic_store_n(&device->spoilt, true, __ATOMIC_RELAXED); }
static inline bool device_is_spoilt(const struct device *device) { return __atomic_load_n(&device->spoilt, __ATOMIC_RELAXED); }

extern const struct device_class *const device_table[]; /* NULL-terminated */
enum ps_status device_find(const char *name, const struct device_class **device, struct ps_error *error);
/* Refuses one that computes no numbers. */
enum ps_status device_check_real(const struct device_class *device, struct ps_error *error);
enum ps_status device_open(const char *name, const struct device_options *options, struct device **device,
                           struct ps_error *error);
void device_close(struct device *device);

/* Do blocks lie in memory that the host reads and writes? */
static inline bool device_in_host(const struct device *device) { return device == NULL || device->type->memory == NULL; }
/* A zeroed block in the device's memory; otherwise as memory_block_take and memory_block_release. */
enum ps_status device_take(struct device *device, struct memory_block *block, size_t size, const char *what,
                           struct ps_error *error);
void device_give(struct device *device, struct memory_block *block);
/* As struct device_memory says. */
void device_copy(struct device *device, void *to, const void *from, size_t bytes);
void device_zero(struct device *device, void *to, size_t bytes);
void device_add(struct device *device, enum number_type type, size_t count, void *y, const void *x);
void device_convert(struct device *device, size_t count, enum number_type to_type, void *to, enum number_type from_type,
                    const void *from);
void device_scale(struct device *device, size_t count, float *y, float factor, float divisor);
void device_clip(struct device *device, const struct stretch *stretches, int count, double limit);
void device_code(struct device *device, const struct wire_call *call);

/* As struct device_class says. For a device without a queue device_mark returns the present time, which is always reached. */
struct moment device_mark(struct device *device);
void device_after(struct device *device, const struct moment *moment);
bool device_reached(const struct moment *moment);
void device_wait(const struct moment *moment);
enum ps_status device_check(struct device *device, struct ps_error *error);
/* Waits for all enqueued work. */
void device_finish(struct device *device);

#endif
