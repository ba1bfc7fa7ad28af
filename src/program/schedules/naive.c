/* Naive model parallelism: one micro-batch at a time goes through all stages and back; only one worker is ever busy. */
#include "program/schedules/straight.h"

static int one(int workers) {
    (void)workers;
    return 1;
}

static enum ps_status write(const struct ps_programs *programs, int worker, struct program *program, struct ps_error *error) {
    int stage = straight_stage(programs, worker);
    for (int k = 0; stage >= 0 && k < programs_micro_batches(programs); k++) {
        TRY(straight_compute(program, OP_F, stage, k, error));
        TRY(straight_compute(program, OP_B, stage, k, error));
    }
    return PS_OK;
}

const struct schedule schedule_naive = {
    .name = "naive",
    .summary = "one micro-batch at a time through all stages: no pipelining",
    .flush = true,
    .micro_batches = one,
    .write = write,
};
