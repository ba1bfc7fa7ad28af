/*
 * BaPipe's FBP-AS (Zhao et al., 2020, figure 5(b); first in FPDeep): a device runs a forward and a backward beside each
 * other, and sends results from their first part on. Stage p of P holds 2(P-p) micro-batches, twice as many as with 1F1B.
 *
 * The program has both kinds in one list, in the order of 1F1B with twice the forwards ahead. That is the order in which a
 * runtime works that has one lane. The simulator takes it apart into a lane of forwards and one of backwards, which wait for
 * each other only where one needs what the other makes or gives back (simulate/lanes.c); so does the proof hold that nothing
 * can stand still: fewer instructions wait for each other than in the list.
 */
#include "program/schedules/orders.h"

static enum ps_status write(const struct ps_programs *programs, int worker, struct program *program, struct ps_error *error) {
    return straight_write_drained(programs, worker, 2, program, error);
}

const struct schedule schedule_fbp_as = {
    .name = "fbp-as",
    .summary = "a forward beside a backward on each device, streaming their results (BaPipe's FBP-AS)",
    .flush = true,
    .streaming = true,
    .lanes = true,
    .micro_batches = straight_micro_batches,
    .write = write,
};
