/* Shared by the schedules with one stage per worker, also if Bi-Partition cuts forwards and backwards at different layers. */
#ifndef PENSTOCK_PROGRAM_SCHEDULES_ORDERS_H
#define PENSTOCK_PROGRAM_SCHEDULES_ORDERS_H

#include "program/lower.h"

/* The stage that a worker holds, or -1. */
int straight_stage(const struct ps_programs *programs, int worker);
/* The instance that it holds, or NO_INSTANCE. */
int straight_instance(const struct ps_programs *programs, int worker);
enum ps_status straight_compute(struct program *program, enum opcode op, int stage, int micro_batch, struct ps_error *error);
/* The warm-up forwards of 1F1B on each instance of a stage: enough that all micro-batches which the later stages hold can come
 * from here while one more is available, and with slack so many more. On worker p of P workers with one stage each P-1-p times
 * 1 plus the slack, also with split stages. */
int straight_ahead(const struct ps_programs *programs, int instance);
/* Appends one computation of the instance's n-th micro-batch; with split stages, of all stages whose forwards (backwards) its
 * worker runs, one after the other. */
enum ps_status straight_append(const struct ps_programs *programs, int instance, enum opcode op, int n, struct program *program,
                               struct ps_error *error);
/* Appends `warm_up` forwards, then one forward and one backward alternately, then the remaining backwards, over the instance's
 * micro-batches first .. first + count - 1, counted through those it runs. */
enum ps_status straight_one_forward_one_backward(const struct ps_programs *programs, int instance, struct program *program,
                                                 int first, int count, int warm_up, struct ps_error *error);
/* The smallest power of two that is at least twice the workers: it divides the usual batch sizes. 1 for one worker. */
int straight_micro_batches(int workers);
/* 1, for schedules that are not drained, and for naive. */
int straight_one_micro_batch(int workers);

/* Orders found by search: all workers together in units of time. At every time each free worker starts the best computation
 * that can run. */

struct greedy_rules {
    int forward, backward; /* durations in units of time */
    int under_way;         /* micro-batches between the first stage's forward and its backward, at most */
    int patience;          /* a forward precedes a backward if its micro-batch is less than this many later */
};

/* Writes every mini-batch in the order found for one, by the set of rules with the shortest order. */
enum ps_status greedy_write(struct ps_programs *programs, const struct greedy_rules *rules, int count, struct ps_error *error);

/* Placement in waves: the stages go from the first worker to the last, then back, and so on. Returns the worker of a stage. */
int wave_worker(int stage, int stages, int workers);

#endif
