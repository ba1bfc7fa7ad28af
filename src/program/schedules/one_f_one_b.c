/*
 * 1F1B with flush (DAPPLE, Fan et al. 2021; BaPipe's 1F1B-SNO): stage p of P runs P-1-p warm-up forwards, then one forward and
 * one backward alternately, and drains at the end of each mini-batch. The bubble is GPipe's; a stage holds at most P-p stashes.
 */
#include "program/schedules/orders.h"

static enum ps_status write(const struct ps_programs *programs, int worker, struct program *program, struct ps_error *error) {
    return straight_write_drained(programs, worker, 1, program, error);
}

const struct schedule schedule_1f1b = {
    .name = "1f1b",
    .summary = "one forward, one backward alternately, drained at each update (DAPPLE, 1F1B-SNO)",
    .flush = true,
    .replicas = true,
    .split = true,
    .micro_batches = straight_micro_batches,
    .write = write,
};
