/*
 * BaPipe's 1F1B-SO: 1F1B with flush and twice the forwards ahead, so that stage p of P holds 2 (P-p) micro-batches and each
 * transfer has a forward and a backward's time to run beside them.
 */
#include "program/schedules/straight.h"

static enum ps_status write(const struct ps_programs *programs, int worker, struct program *program, struct ps_error *error) {
    int part = straight_part(programs, worker);
    for (int batch = 0; part != NO_PART && batch < programs->batches; batch++) {
        int m = programs_share(programs, part, batch), ahead = straight_ahead(programs, programs->parts[part].stage);
        TRY(straight_one_forward_one_backward(programs, part, program, batch * m, m, 2 * (ahead + 1) - 1, error));
    }
    return PS_OK;
}

const struct schedule schedule_1f1b_so = {
    .name = "1f1b-so",
    .summary = "1f1b with twice the forwards ahead, which hides transfers (BaPipe's 1F1B-SO)",
    .flush = true,
    .replicas = true,
    .micro_batches = straight_micro_batches,
    .write = write,
};
