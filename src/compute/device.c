/* Devices by name. */
#include "compute/device.h"

#include "base/table.h"

TABLE_FIND(device_find, device_class, device_table, "device")

enum ps_status device_open(const char *name, const struct device_options *options, struct device **device,
                           struct ps_error *error) {
    const struct device_class *type;
    struct device *opened;
    if (options->threads < 1)
        return error_set(error, PS_USAGE, "device %s: %d threads: at least 1 is needed", name, options->threads);
    TRY(device_find(name, &type, error));
    TRY(type->open(options, &opened, error));
    opened->type = type;
    opened->threads = options->threads;
    *device = opened;
    return PS_OK;
}

void device_close(struct device *device) {
    if (device == NULL) return;
    device->type->close(device);
}
