/* Opening a device by name. */
#include "compute/device.h"

#include <string.h>

enum ps_status device_open(const char *name, const struct device_options *options, struct device **device,
                           struct ps_error *error) {
    if (options->threads < 1) {
        return error_set(error, PS_USAGE, "device %s: %d threads: at least 1 is needed", name, options->threads);
    }
    const char *names[16];
    size_t count = 0;
    for (; device_table[count] != NULL && count < sizeof names / sizeof *names; count++) {
        const struct device_class *class = device_table[count];
        names[count] = class->name;
        if (strcmp(class->name, name) != 0) continue;
        struct device *opened;
        TRY(class->open(options, &opened, error));
        opened->class = class;
        opened->threads = options->threads;
        *device = opened;
        return PS_OK;
    }
    return error_unknown(error, PS_USAGE, "device", name, names, count);
}

void device_close(struct device *device) {
    if (device == NULL) return;
    device->class->close(device);
}
