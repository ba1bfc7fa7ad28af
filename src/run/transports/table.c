/* All transports. */
#include <string.h>

#include "run/transport.h"

extern const struct transport_class transport_threads, transport_serial;

const struct transport_class *const transport_table[] = {&transport_threads, &transport_serial, NULL};

enum ps_status transport_find(const char *name, const struct transport_class **transport, struct ps_error *error) {
    const char *names[8];
    size_t count = 0;
    for (; transport_table[count]; count++) {
        names[count] = transport_table[count]->name;
        if (strcmp(names[count], name) != 0) continue;
        *transport = transport_table[count];
        return PS_OK;
    }
    return error_unknown(error, PS_USAGE, "--transport", name, names, count);
}
