/* Processes and signals: the state of other processes, signals that end a command, the guard of a rank, and the time. */
#ifndef PENSTOCK_CLI_PROCESS_H
#define PENSTOCK_CLI_PROCESS_H

#include <penstock.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

/* -------------------------------------------------------------------- state */

/* The state of a process, as in /proc/PID/stat: 'T' is stopped, 'Z' has ended; '\0': unknown. Sets *parent (NULL is fine) to
 * its parent process. */
char process_state(pid_t process, pid_t *parent);
/* A descendant of a process, at any depth, that is stopped; 0: there is none. */
pid_t process_stopped_below(pid_t process);
/* Whether a descendant of a process, at any depth, runs the program that this process runs. */
bool process_runs_below(pid_t process);

/* ------------------------------------------------------------------ signals */

/* From now on SIGTERM, SIGINT and SIGHUP request a stop; a second signal ends the process at once. */
void stop_on_signals(void);
/* Whether one was requested; any thread may ask. */
bool stop_requested(void);

/* -------------------------------------------------------------------- guard */

/* Launchers end all processes of a run when one of them ends. The guard delays that, so that the other ranks can report the
 * loss. */

/*
 * Forks a process that a launcher started. The function returns in the child, which does the work and calls guard_done() when
 * the work has ended, with success or not. In the parent, the guard, it never returns: the guard forwards signals and exits
 * with the child's status, which is 128 and the signal's number if it ended by one that was forwarded. If the child was killed,
 * or exited before guard_done(), the guard waits, so that the launcher notices nothing, while the other ranks report the loss
 * and end the run with status 6; if they do not within 15 s, it says so and exits with 6 itself; where srun has started the
 * ranks without PMIx, and MPI ends the child while they meet, it exits with 2 at once. While ranks meet and leave, MPI does not
 * notice losses: then the guard also ends the child, and the run with status 6, if the child alone, or while they meet a rank
 * beside it, is stopped, or if that takes too long. The child is killed when its guard ends, and stopped when its guard is
 * stopped. After a failure or SIGTERM a process of its own stays behind and ends an mpirun that does not end although all that
 * it began on this host have.
 */
enum ps_status guard_split(struct ps_error *error);
void guard_done(void);

/* --------------------------------------------------------------------- time */

/* Monotonic time in seconds. */

static inline double seconds_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

#endif
