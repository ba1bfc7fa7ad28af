/* Processes of the command line: the state of others, signals that end a command, the guard of a rank, time. */
#ifndef PENSTOCK_CLI_PROCESS_H
#define PENSTOCK_CLI_PROCESS_H

#include <penstock.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

/* -------------------------------------------------------------------- state */

/* What the kernel says of another process. */

/* As in /proc/PID/stat: 'T' is stopped, 'Z' has ended; '\0': nobody knows. *parent (NULL is fine) is the process that it is
 * below. */
char process_state(pid_t process, pid_t *parent);
/* Is a process below this one, at any depth, stopped? */
bool process_stopped_below(pid_t process);

/* ------------------------------------------------------------------ signals */

/* Signals that ask a command to end. */

/* From now on SIGTERM, SIGINT and SIGHUP set what is returned; a second one ends the process at once. SIGXFSZ becomes an error
 * of the write that causes it. */
const volatile int *stop_on_signals(void);

/* -------------------------------------------------------------------- guard */

/* A rank that dies without taking the others' last words with it. */

/*
 * Splits a process that a launcher started. The one that goes on from here is a child of it, and does the work; guard_done() is
 * to be called when the work has come to its end, good or bad. The other, the guard, never returns: it passes on signals, and
 * ends as the child does. Where that was killed, or left before its work was done, the guard stays, for the launcher knows
 * nothing then, and the other ranks can say who is missing and end everything with status 6; if nobody does within some
 * seconds, it ends with 6 itself. The child does not outlive its guard, and is stopped when it is.
 */
enum ps_status guard_split(struct ps_error *error);
void guard_done(void);

/* --------------------------------------------------------------------- time */

/* The time that has passed, by a clock that nobody sets. */

static inline double seconds_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

#endif
