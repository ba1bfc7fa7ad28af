/* A rank that dies without taking the others' last words with it. */
#ifndef PENSTOCK_CLI_GUARD_H
#define PENSTOCK_CLI_GUARD_H

#include <penstock.h>

/*
 * Splits a process that a launcher started. The one that goes on from here is a child of it, and does the work; guard_done() is
 * to be called when the work has come to its end, good or bad. The other, the guard, never returns: it passes on signals, and
 * ends as the child does. Where that was killed, or left before its work was done, the guard stays, for the launcher knows
 * nothing then, and the other ranks can say who is missing and end everything with status 6; if nobody does within some
 * seconds, it ends with 6 itself. The child does not outlive its guard, and is stopped when it is.
 */
enum ps_status guard_split(struct ps_error *error);
void guard_done(void);

#endif
