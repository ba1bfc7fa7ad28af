/* Naive model parallelism: one micro-batch at a time goes through all stages and back; only one worker is ever busy. */
#include "program/schedules/straight.h"

static int one(int workers) {
    (void)workers;
    return 1;
}

static enum ps_status write(const struct ps_programs *programs, int worker, struct program *program, struct ps_error *error) {
    int part = straight_part(programs, worker);
    for (int n = 0; part != NO_PART && n < programs_taken(programs, part); n++) {
        TRY(straight_append(programs, part, OP_F, n, program, error));
        TRY(straight_append(programs, part, OP_B, n, program, error));
    }
    return PS_OK;
}

const struct schedule schedule_naive = {
    .name = "naive",
    .summary = "one micro-batch at a time through all stages: no pipelining",
    .flush = true,
    .replicas = true,
    .micro_batches = one,
    .write = write,
};
