/* All transports. */
#include "base/table.h"
#include "comm/launch.h"
#include "comm/transport.h"

extern const struct transport_class transport_threads, transport_serial, transport_mpi, transport_mpi_messages;

const struct transport_class *const transport_table[] = {&transport_threads, &transport_serial,
#if PENSTOCK_MPI
                                                         &transport_mpi, &transport_mpi_messages,
#endif
                                                         NULL};

/* The first with a process for each worker, where several processes were started; else the first of all. */
static enum ps_status transport_choose(const struct transport_class **transport, struct ps_error *error) {
    struct launch launch = launch_find();
    bool several = launch.count > 1;
    for (int t = 0; transport_table[t]; t++) {
        if (several != (transport_table[t]->processes != NULL)) continue;
        *transport = transport_table[t];
        return PS_OK;
    }
    return error_set(error, PS_USAGE, "%s started %d processes, but this program was built without MPI", launch.launcher,
                     launch.count);
}

static TABLE_FIND(find_named, transport_class, transport_table, "`transport`")

    enum ps_status transport_find(const char *name, const struct transport_class **transport, struct ps_error *error) {
    if (!name) return transport_choose(transport, error);
    enum ps_status status = find_named(name, transport, error);
    if (status != PS_OK && (strcmp(name, "mpi") == 0 || strcmp(name, "mpi-messages") == 0))
        error_set(error, status, "`transport`: this program was built without MPI");
    return status;
}

enum ps_status launch_fail(const char *name, enum ps_status status, struct ps_error *error) {
    const struct transport_class *transport;
    struct processes *processes;
    if (launch_find().count == 1) return status;
    /* A name that nobody knows may be what failed. */
    if (transport_find(name, &transport, NULL) != PS_OK && transport_find(NULL, &transport, NULL) != PS_OK) return status;
    if (processes_join(transport->processes, &processes, NULL) != PS_OK) return status;
    return processes_leave(processes, status, error);
}
