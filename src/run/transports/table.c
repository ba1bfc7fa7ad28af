/* All transports. */
#include "base/table.h"
#include "run/transport.h"

extern const struct transport_class transport_threads, transport_serial;

const struct transport_class *const transport_table[] = {&transport_threads, &transport_serial, NULL};

TABLE_FIND(transport_find, transport_class, transport_table, "--transport")
