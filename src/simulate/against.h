/*
 * A prediction held against a measured timeline of the same programs, instruction by instruction.
 *
 * A measured timeline may show only the end of a segment. All figures are taken from the instructions that both have, in the
 * same way on either side:
 *   makespan  from the first start to the last end
 *   period    slope of the mini-batches' last updates, of those that end before the last forward of the first stage begins
 *             (with flush, or where they are too few: of all); one mini-batch alone: the makespan
 * Errors are (predicted - measured) / measured. Per instruction there are two, both without sign, whose quantiles are kept:
 *   duration  of what each micro-batch runs (forwards, backwards, recomputations), as a share of its own measured duration
 *   start     of every instruction, as a share of the measured period; where only a part was measured, the median is taken out,
 *             since where it lies in the segment was not measured
 */
#ifndef PENSTOCK_SIMULATE_AGAINST_H
#define PENSTOCK_SIMULATE_AGAINST_H

#include "program/timeline.h"

enum against_quantile { AGAINST_P50, AGAINST_P90, AGAINST_P99, AGAINST_MAX, AGAINST_QUANTILES };

struct against_operation {
    int count;
    double predicted_s, measured_s; /* mean durations */
};

struct against {
    int matched, unmatched; /* measured instructions that the prediction has, has not */
    double measured_period_s, predicted_period_s, period_error;
    double measured_makespan_s, predicted_makespan_s, makespan_error;
    double duration_error[AGAINST_QUANTILES], start_error[AGAINST_QUANTILES];
    struct against_operation operation[OPCODE_COUNT];
};

/* PS_BAD_INPUT: they have no instruction in common. `flush`: the schedule drains. */
enum ps_status against_compare(const struct timeline *predicted, const struct timeline *measured, bool flush,
                               struct against *against, struct ps_error *error);

#endif
