/* What schedules with one stage per worker share. */
#ifndef PENSTOCK_PROGRAM_SCHEDULES_STRAIGHT_H
#define PENSTOCK_PROGRAM_SCHEDULES_STRAIGHT_H

#include "program/lower.h"

/* The stage that a worker holds, or -1. */
int straight_stage(const struct ps_programs *programs, int worker);
enum ps_status straight_compute(struct program *program, enum opcode op, int stage, int micro_batch, struct ps_error *error);
/* `warm_up` forwards, then one forward and one backward in turn, then the remaining backwards, over micro-batches
 * first .. first + count - 1. */
enum ps_status straight_one_forward_one_backward(struct program *program, int stage, int first, int count, int warm_up,
                                                 struct ps_error *error);
/* The same with the backward split: behind each I, from the `lag`-th on, the W of the micro-batch `lag` before, and the others'
 * at the end. */
enum ps_status straight_split_backward(struct program *program, int stage, int first, int count, int warm_up, int lag,
                                       struct ps_error *error);
/* The smallest power of two that is at least twice the workers: it divides the usual batch sizes. 1 for one worker. */
int straight_micro_batches(int workers);

#endif
