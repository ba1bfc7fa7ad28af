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

struct against_memory {
    int64_t predicted_bytes, measured_bytes; /* of one worker's blocks */
};

struct against {
    int matched, unmatched; /* measured instructions that the prediction has, has not */
    double measured_period_s, predicted_period_s, period_error;
    double measured_makespan_s, predicted_makespan_s, makespan_error;
    double duration_error[AGAINST_QUANTILES], start_error[AGAINST_QUANTILES];
    struct against_operation operation[OPCODE_COUNT];
    struct against_memory *memory; /* per worker; NULL: the trace does not say. From against_memory_compare, owned */
    int memory_count;
    double memory_error; /* of the worker where it is largest, with its sign */
};

/* Frees it; NULL is fine. */
void against_destroy(struct against *against);
/* Takes in what each of the workers was predicted to take and took. */
enum ps_status against_memory_compare(struct against *against, int workers, const int64_t *predicted_bytes,
                                      const int64_t *measured_bytes, struct ps_error *error);

/* PS_BAD_INPUT: they have no instruction in common. `flush`: the schedule drains. */
enum ps_status against_compare(const struct timeline *predicted, const struct timeline *measured, bool flush,
                               struct against *against, struct ps_error *error);

#endif
