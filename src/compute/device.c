/* Devices by name; and the operations of all devices that work in the host's memory. */
#include "compute/device.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/table.h"
#include "base/vector.h"

static TABLE_FIND(find_by_name, device_class, device_table, "device")

    /* Classes of names with settings, which stay until the process ends. */
    struct named_class {
    struct named_class *next;
    struct device_class type;
    char name[64];
};

static enum ps_status find_with_settings(const struct device_class *plain, const char *name, const struct device_class **device,
                                         struct ps_error *error) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct named_class *first;
    struct named_class *found;
    enum ps_status status = PS_OK;
    pthread_mutex_lock(&lock);
    for (found = first; found && strcmp(found->name, name) != 0;) found = found->next;
    if (!found) status = memory_new(&found, 1, "a device", error);
    if (status == PS_OK && found->name[0] == '\0') {
        snprintf(found->name, sizeof found->name, "%s", name);
        found->type = *plain;
        found->type.name = found->name;
        found->next = first;
        first = found;
    }
    pthread_mutex_unlock(&lock);
    if (status == PS_OK) *device = &found->type;
    return status;
}

enum ps_status device_find(const char *name, const struct device_class **device, struct ps_error *error) {
    char plain[64];
    const size_t length = strcspn(name, ":,");
    snprintf(plain, sizeof plain, "%.*s", (int)(length < sizeof plain ? length : sizeof plain - 1), name);
    TRY(find_by_name(plain, device, error));
    if (name[length] == '\0') return PS_OK;
    if (!(*device)->settings || strlen(name) >= sizeof plain)
        return error_set(error, PS_USAGE, "device '%s': %s takes no settings", name, (*device)->name);
    return find_with_settings(*device, name, device, error);
}

enum ps_status device_check_real(const struct device_class *device, struct ps_error *error) {
    if (device->real) return PS_OK;
    return error_set(error, PS_USAGE, "`device`: %s computes no numbers", device->name);
}

enum ps_status device_open(const char *name, const struct device_options *options, struct device **device,
                           struct ps_error *error) {
    const struct device_class *type;
    struct device *opened;
    if (options->threads < 1)
        return error_set(error, PS_USAGE, "device %s: %d threads: at least 1 is needed", name, options->threads);
    TRY(device_find(name, &type, error));
    struct device_options named = *options;
    named.name = name;
    TRY(type->open(&named, &opened, error));
    opened->type = type;
    opened->threads = options->threads;
    *device = opened;
    return PS_OK;
}

void device_close(struct device *device) {
    if (device == NULL) return;
    device->type->close(device);
}

/* ------------------------------------------------------------------- memory */

enum ps_status device_take(struct device *device, struct memory_block *block, size_t size, const char *what,
                           struct ps_error *error) {
    void *base;
    if (device_in_host(device)) {
        TRY(memory_block_take(block, size, what, error));
        memory_block_prefer_large_pages(block);
        return PS_OK;
    }
    TRY(device->type->memory->take(device, memory_align(size), what, &base, error));
    *block = (struct memory_block){.base = base, .size = memory_align(size)};
    return PS_OK;
}

void device_give(struct device *device, struct memory_block *block) {
    if (device_in_host(device)) {
        memory_block_release(block);
        return;
    }
    if (block->base != NULL) device->type->memory->give(device, block->base, block->size);
    *block = (struct memory_block){0};
}

void device_copy(struct device *device, void *to, const void *from, size_t bytes) {
    if (bytes == 0) return;
    if (device_in_host(device))
        memcpy(to, from, bytes);
    else
        device->type->memory->copy(device, to, from, bytes);
}

void device_zero(struct device *device, void *to, size_t bytes) {
    if (bytes == 0) return;
    if (device_in_host(device))
        memset(to, 0, bytes);
    else
        device->type->memory->zero(device, to, bytes);
}

void device_add(struct device *device, enum number_type type, size_t count, void *y, const void *x) {
    if (device_in_host(device))
        numbers_add(type, count, y, x);
    else
        device->type->memory->add(device, type, count, y, x);
}

void wire_call_run(const struct wire_call *call) {
    if (!call->encoded)
        wire_round(call->wire, call->runs, call->run_count, call->block, call->feedback);
    else if (call->decode)
        wire_decode(call->wire, call->runs, call->run_count, call->encoded, call->block);
    else
        wire_encode(call->wire, call->runs, call->run_count, call->block, call->feedback, call->encoded);
}

void device_code(struct device *device, const struct wire_call *call) {
    if (device != NULL && device->type->code)
        device->type->code(device, call);
    else
        wire_call_run(call);
}

void device_convert(struct device *device, size_t count, enum number_type to_type, void *to, enum number_type from_type,
                    const void *from) {
    if (count == 0) return;
    if (device_in_host(device))
        numbers_convert(count, to_type, to, from_type, from);
    else
        device->type->memory->convert(device, count, to_type, to, from_type, from);
}

void device_scale(struct device *device, size_t count, float *y, float factor, float divisor) {
    if (!device_in_host(device))
        device->type->memory->scale(device, count, y, factor, divisor);
    else if (divisor == 1)
        vector_scale(count, y, factor);
    else
        for (size_t i = 0; i < count; i++) y[i] = y[i] * factor / divisor;
}

void device_clip(struct device *device, const struct stretch *stretches, int count, double limit) {
    if (!device_in_host(device)) {
        device->type->memory->clip(device, stretches, count, limit);
        return;
    }
    double squares = 0;
    for (int s = 0; s < count; s++) squares += vector_squares(stretches[s].count, stretches[s].at);
    const double norm = sqrt(squares);
    for (int s = 0; s < count && norm > limit; s++) vector_scale(stretches[s].count, stretches[s].at, (float)(limit / norm));
}

/* -------------------------------------------------------------------- queue */

struct moment device_mark(struct device *device) {
    if (device != NULL && device->type->mark) return device->type->mark(device);
    return (struct moment){.time = clock_now()};
}

void device_after(struct device *device, const struct moment *moment) {
    if (device != NULL && device->type->after) device->type->after(device, moment);
}

bool device_reached(const struct moment *moment) { return moment->device == NULL || moment->device->type->reached(moment); }

void device_wait(const struct moment *moment) {
    if (moment->device != NULL) moment->device->type->wait(moment);
}

enum ps_status device_check(struct device *device, struct ps_error *error) {
    return device != NULL && device->type->check ? device->type->check(device, error) : PS_OK;
}

void device_finish(struct device *device) {
    struct moment all = device_mark(device);
    device_wait(&all);
}
