/*
 * More workers than cores: a thread for each core, and the workers take turns on them, as they do in the simulator. A turn is
 * one computation with the transfers that follow it. Left to themselves the threads of all workers would interrupt each other
 * in the middle of computations, and cores stand still, since systems move threads between cores by the millisecond and not
 * sooner.
 *
 * A worker that cannot go on is asked again when some other one has: only a turn's transfers can have changed that.
 */
#ifndef PENSTOCK_RUN_TURNS_H
#define PENSTOCK_RUN_TURNS_H

#include <stdbool.h>

#include "base/error.h"

/* Who waits looks on so long before it sleeps. A thread that slept goes on some 0.1 ms late on a virtual machine, and whoever
 * wakes it loses half as much; layers may be no longer than that. Most waits are shorter than this. */
#define LOOK_ON_S 5e-3

struct turns;

enum ps_status turns_create(int workers, struct turns **turns, struct ps_error *error);
/* NULL is fine. */
void turns_destroy(struct turns *turns);
/* All workers from `first` to before `end` may have a turn; nobody has one. */
void turns_start(struct turns *turns, int first, int end);
/* Whose turn it is: of those that may go on who came longest ago. Waits for one; -1: all have finished, or turns_stop was
 * called. */
int turns_take(struct turns *turns);

enum turn { TURN_CAME_ON, TURN_WAITS, TURN_FINISHED };
/* The worker's turn is over. */
void turns_give(struct turns *turns, int worker, enum turn turn);
void turns_stop(struct turns *turns);

#endif
