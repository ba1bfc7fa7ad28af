/*
 * Orders found by trying: all workers together in units of time, each taking at every moment the best of what it could run.
 */
#ifndef PENSTOCK_PROGRAM_SCHEDULES_GREEDY_H
#define PENSTOCK_PROGRAM_SCHEDULES_GREEDY_H

#include "program/lower.h"

struct greedy_rules {
    int forward, backward; /* units of time that they take */
    int under_way;         /* micro-batches between the first stage's forward and its backward, at most */
    int patience;          /* a backward lets forwards go first, but not those of micro-batches so many later or more */
};

/* Writes every mini-batch in the order found for one, by that of the rules which gives the shortest. */
enum ps_status greedy_write(struct ps_programs *programs, const struct greedy_rules *rules, int count, struct ps_error *error);

/* Placement in waves: the stages go from the first worker to the last, then back, and so on. Worker of a stage. */
int wave_worker(int stage, int stages, int workers);

#endif
