/* What schedules with one stage per worker share, also where Bi-Partition cuts the two directions in different places. */
#ifndef PENSTOCK_PROGRAM_SCHEDULES_ORDERS_H
#define PENSTOCK_PROGRAM_SCHEDULES_ORDERS_H

#include "program/lower.h"

/* The stage that a worker holds, or -1. */
int straight_stage(const struct ps_programs *programs, int worker);
/* What it holds of it, or NO_INSTANCE. */
int straight_instance(const struct ps_programs *programs, int worker);
enum ps_status straight_compute(struct program *program, enum opcode op, int stage, int micro_batch, struct ps_error *error);
/* The forwards that 1F1B runs ahead on each instance of a stage: so many that all which the later stages hold can have come
 * from here while one more is at hand. On worker p of P workers with one stage each, P-1-p; so too where stages are split. */
int straight_ahead(const struct ps_programs *programs, int instance);
/* One computation of the instance's n-th micro-batch; where stages are split, of all stages whose forwards (backwards) its
 * worker runs, one after the other. */
enum ps_status straight_append(const struct ps_programs *programs, int instance, enum opcode op, int n, struct program *program,
                               struct ps_error *error);
/* `warm_up` forwards, then one forward and one backward in turn, then the remaining backwards, over the instance's
 * micro-batches first .. first + count - 1, counted through those it takes. */
enum ps_status straight_one_forward_one_backward(const struct ps_programs *programs, int instance, struct program *program,
                                                 int first, int count, int warm_up, struct ps_error *error);
/* All of a worker's mini-batches in that way, drained after each. The micro-batches that it holds are those of 1F1B,
 * straight_ahead + 1, so many `times`. */
enum ps_status straight_write_drained(const struct ps_programs *programs, int worker, int times, struct program *program,
                                      struct ps_error *error);
/* One mini-batch with the backward split: `warm_up` as above; behind each I, from the `lag`-th on, the W of the micro-batch
 * `lag` before, and the others' at the end. */
enum ps_status straight_split_backward(const struct ps_programs *programs, int instance, struct program *program, int first,
                                       int count, int warm_up, int lag, struct ps_error *error);
/* The smallest power of two that is at least twice the workers: it divides the usual batch sizes. 1 for one worker. */
int straight_micro_batches(int workers);

/*
 * Orders found by trying: all workers together in units of time, each taking at every moment the best of what it could run.
 */

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
