/*
 * Compares a prediction with a measured timeline of the same programs, instruction by instruction.
 *
 * A measured timeline may show only the end of a segment. All figures are computed from the instructions that both have, in
 * the same way on both sides:
 *   makespan  from the first start to the last end
 *   period    slope of the mini-batches' last updates, of those that end before the last forward of the first stage begins
 *             (with flush, or if these are too few: of all); of a single mini-batch: the makespan
 * Errors are (predicted - measured) / measured. Each instruction has two absolute errors, whose quantiles are kept:
 *   duration  of forwards, backwards and recomputations, relative to their measured durations
 *   start     of every instruction, relative to the measured period; if only a part was measured, minus the median,
 *             since its position in the segment was not measured
 */
#ifndef PENSTOCK_SIMULATE_AGAINST_H
#define PENSTOCK_SIMULATE_AGAINST_H

#include "base/arena.h"
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
    int matched, unmatched; /* measured instructions that are, are not in the prediction */
    double measured_period_s, predicted_period_s, period_error;
    double measured_makespan_s, predicted_makespan_s, makespan_error;
    double duration_error[AGAINST_QUANTILES], start_error[AGAINST_QUANTILES];
    struct against_operation operation[OPCODE_COUNT];
    struct against_memory *memory; /* per worker; NULL: not in the trace. Set by against_compare_memory */
    int memory_count;
    double memory_error; /* of the worker with the largest error, with its sign */
};

/* PS_BAD_INPUT: they have no instruction in common. `flush`: the schedule drains. */
enum ps_status against_compare(const struct timeline *predicted, const struct timeline *measured, bool flush,
                               struct against *against, struct ps_error *error);
/* Adds the predicted and the measured memory of each worker, in the arena. */
enum ps_status against_compare_memory(struct against *against, struct arena *arena, int workers,
                                      const struct ps_simulation_worker *predicted, const int64_t *measured_bytes,
                                      struct ps_error *error);

#endif
