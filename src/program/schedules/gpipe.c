/*
 * GPipe (Huang et al., 2019): all forwards of a mini-batch, then all its backwards, then the update. The backwards run in
 * micro-batch order, not in reverse, so that gradients are added in the order of every other schedule; the bubble is the same.
 */
#include "program/schedules/straight.h"

static enum ps_status write(const struct ps_programs *programs, int worker, struct program *program, struct ps_error *error) {
    int stage = straight_stage(programs, worker), m = programs->micro_batches;
    for (int batch = 0; stage >= 0 && batch < programs->batches; batch++) {
        for (int k = 0; k < m; k++) TRY(straight_compute(program, OP_F, stage, batch * m + k, error));
        for (int k = 0; k < m; k++) TRY(straight_compute(program, OP_B, stage, batch * m + k, error));
    }
    return PS_OK;
}

const struct schedule schedule_gpipe = {
    .name = "gpipe",
    .summary = "all forwards of a mini-batch, then all backwards",
    .flush = true,
    .micro_batches = straight_micro_batches,
    .write = write,
};
