/* BaPipe's 1F1B-AS (Zhao et al., 2020, figure 5(a)): the order of 1F1B with flush on devices that stream a result while they
 * compute it, so that the transfer overlaps with the computation that makes the block. */
#include "program/schedules/orders.h"

static enum ps_status write(const struct ps_programs *programs, int worker, struct program *program, struct ps_error *error) {
    return straight_write_drained(programs, worker, 1, program, error);
}

const struct schedule schedule_1f1b_as = {
    .name = "1f1b-as",
    .summary = "1f1b on devices that stream their results (BaPipe's 1F1B-AS)",
    .flush = true,
    .replicas = true,
    .streaming = true,
    .micro_batches = straight_micro_batches,
    .write = write,
};
