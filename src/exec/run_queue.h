/*
 * More workers than cores: a thread for each core, and the workers take turns on them, as they do in the simulator. A turn is
 * one computation with the transfers that follow it. Left to themselves the threads of all workers would interrupt each other
 * in the middle of computations, and cores stand still, since systems move threads between cores by the millisecond and not
 * sooner.
 *
 * A worker that cannot go on is asked again when some other one has: only a turn's transfers can have changed that.
 */
#ifndef PENSTOCK_EXEC_RUN_QUEUE_H
#define PENSTOCK_EXEC_RUN_QUEUE_H

#include <stdbool.h>

#include "base/error.h"

/* Who waits looks on so long before it sleeps. A thread that slept goes on some 0.1 ms late on a virtual machine, and whoever
 * wakes it loses half as much; layers may be no longer than that. Most waits are shorter than this. */
#define SPIN_S 5e-3

struct run_queue;

enum ps_status run_queue_create(int workers, struct run_queue **turns, struct ps_error *error);
/* NULL is fine. */
void run_queue_destroy(struct run_queue *turns);
/* All workers from `first` to before `end` may have a turn; nobody has one. */
void run_queue_start(struct run_queue *turns, int first, int end);
/* Whose turn it is: of those that may go on who came longest ago. Waits for one; -1: all have finished, or run_queue_stop was
 * called. */
int run_queue_take(struct run_queue *turns);

enum slice { SLICE_PROGRESSED, SLICE_WAITS, SLICE_FINISHED };
/* The worker's turn is over. */
void run_queue_give(struct run_queue *turns, int worker, enum slice turn);
void run_queue_stop(struct run_queue *turns);

#endif
