/*
 * GPipe (Huang et al., 2019): all forwards of a mini-batch, then all its backwards, then the update. The backwards run in
 * micro-batch order, not in reverse, so that gradients are added in the order of every other schedule; the bubble is the same.
 */
#include "program/schedules/orders.h"

static enum ps_status write(const struct ps_programs *programs, int worker, struct program *program, struct ps_error *error) {
    int instance = straight_instance(programs, worker);
    for (int batch = 0; instance != NO_INSTANCE && batch < programs->batches; batch++) {
        int m = programs_share(programs, instance, batch);
        for (int n = 0; n < m; n++) TRY(straight_append(programs, instance, OP_F, batch * m + n, program, error));
        for (int n = 0; n < m; n++) TRY(straight_append(programs, instance, OP_B, batch * m + n, program, error));
    }
    return PS_OK;
}

const struct schedule schedule_gpipe = {
    .name = "gpipe",
    .summary = "all forwards of a mini-batch, then all backwards",
    .flush = true,
    .replicas = true,
    .split = true,
    .micro_batches = straight_micro_batches,
    .write = write,
};
