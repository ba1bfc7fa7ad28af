/*
 * The run queue, for more workers than cores: one thread per core takes runnable workers from it, as in the simulator, and runs
 * each for a slice: one computation with the transfers that follow it. With a thread per worker the threads would interrupt
 * each other during computations, and cores would idle, since operating systems move threads between cores only every few
 * milliseconds.
 *
 * A worker that cannot continue is tried again when another one has progressed: only the transfers of a slice can have changed
 * that.
 */
#ifndef PENSTOCK_EXEC_RUN_QUEUE_H
#define PENSTOCK_EXEC_RUN_QUEUE_H

#include <stdbool.h>

#include "base/error.h"

/* A waiting thread spins this long before it sleeps. A thread that slept continues some 0.1 ms late on a virtual machine, and
 * the thread that wakes it loses half as much; layers may take no longer than that. Most waits are shorter than this. It sleeps
 * earlier where another thread wants the core (clock_spin). */
#define SPIN_S 5e-3

struct run_queue;

enum ps_status run_queue_create(int workers, struct run_queue **turns, struct ps_error *error);
/* NULL is fine. */
void run_queue_destroy(struct run_queue *turns);
/* Workers `first` to `end` - 1 are runnable; none is running. */
void run_queue_start(struct run_queue *turns, int first, int end);
/* Takes the runnable worker that has waited longest. Blocks until there is one; -1: all have finished, or run_queue_stop was
 * called. */
int run_queue_take(struct run_queue *turns);

enum slice { SLICE_PROGRESSED, SLICE_WAITS, SLICE_FINISHED };
/* The worker's slice is over. */
void run_queue_give(struct run_queue *turns, int worker, enum slice turn);
void run_queue_stop(struct run_queue *turns);

#endif
