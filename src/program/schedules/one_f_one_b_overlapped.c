/* BaPipe's 1F1B-SO: 1F1B with flush and twice the warm-up forwards. Stage p of P holds 2 (P-p) micro-batches, and each transfer
 * can overlap with a forward and a backward. */
#include "program/schedules/orders.h"

static enum ps_status write(const struct ps_programs *programs, int worker, struct program *program, struct ps_error *error) {
    return straight_write_drained(programs, worker, 2, program, error);
}

const struct schedule schedule_1f1b_so = {
    .name = "1f1b-so",
    .summary = "1f1b with twice the warm-up forwards, which hides transfers (BaPipe's 1F1B-SO)",
    .flush = true,
    .replicas = true,
    .micro_batches = straight_micro_batches,
    .write = write,
};
