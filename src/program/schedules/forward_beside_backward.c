/*
 * BaPipe's FBP-AS (Zhao et al., 2020, figure 5(b); first in FPDeep): a device runs a forward and a backward concurrently, and
 * streams their results while it computes them. Stage p of P holds 2(P-p) micro-batches, twice as many as with 1F1B.
 *
 * The program has both kinds in one list, in the order of 1F1B with twice as many warm-up forwards. A runtime with one lane
 * works in that order. The simulator splits the list into a lane of forwards and one of backwards, which wait for each other
 * only if one needs a result or a free block of the other (simulate/lanes.c). The proof of freedom from deadlock also holds for
 * the lanes: fewer instructions wait for each other than in the list.
 */
#include "program/schedules/orders.h"

static enum ps_status write(const struct ps_programs *programs, int worker, struct program *program, struct ps_error *error) {
    return straight_write_drained(programs, worker, 2, program, error);
}

const struct schedule schedule_fbp_as = {
    .name = "fbp-as",
    .summary = "a forward and a backward at the same time on each device, streaming their results (BaPipe's FBP-AS)",
    .flush = true,
    .streaming = true,
    .lanes = true,
    .micro_batches = straight_micro_batches,
    .write = write,
};
