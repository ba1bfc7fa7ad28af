/* Naive model parallelism: one micro-batch at a time passes through all stages and back; only one worker is busy at a time. */
#include "program/schedules/orders.h"

static enum ps_status write(const struct ps_programs *programs, int worker, struct program *program, struct ps_error *error) {
    int instance = straight_instance(programs, worker);
    for (int n = 0; instance != NO_INSTANCE && n < programs_taken(programs, instance); n++) {
        TRY(straight_append(programs, instance, OP_F, n, program, error));
        TRY(straight_append(programs, instance, OP_B, n, program, error));
    }
    return PS_OK;
}

const struct schedule schedule_naive = {
    .name = "naive",
    .summary = "one micro-batch at a time through all stages: no pipelining",
    .flush = true,
    .replicas = true,
    .split = true,
    .micro_batches = straight_one_micro_batch,
    .write = write,
};
