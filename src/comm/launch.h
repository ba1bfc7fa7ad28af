/* How this process was started: alone, or as one of several by mpirun, srun or the like. */
#ifndef PENSTOCK_COMM_LAUNCH_H
#define PENSTOCK_COMM_LAUNCH_H

#include <penstock.h>
#include <stdbool.h>

struct launch {
    const char *launcher; /* NULL: started alone */
    int rank, count;
    int here; /* of them on this host; 0: the launcher does not say */
};

/* Reads the environment variables that launchers set. */
struct launch launch_find(void);

/* Whether srun started this process as one of several, of which it tells MPI only as its --mpi says. */
bool launch_by_srun(void);
/* What to do where MPI does not know of the processes that a launcher started. */
const char *launch_advice(void);

/* Where a process of a run of several is. While processes meet and leave, MPI waits for all of them, without end if one is
 * lost. */
enum launch_phase { LAUNCH_ALONE, LAUNCH_MEETING, LAUNCH_MET, LAUNCH_LEAVING, LAUNCH_LEFT };

/* Calls the listener, if there is one, with the phase that begins. */
void launch_tell(enum launch_phase phase);
void launch_set_listener(void (*hear)(enum launch_phase phase));

/* Whether this process and the others of its run have met. */
bool launch_has_met(void);

/* For a process of several that fails before it has met the others, who would wait for it without end: meets them and ends the
 * run for all (processes_leave). `transport` as transport_find takes it. Alone it does nothing. Returns the status of the run.
 */
enum ps_status launch_fail(const char *transport, enum ps_status status, struct ps_error *error);

/* After a run of several processes that failed: ends this process and, through the launcher, all others, with `status`. Returns
 * if there was no such run. For programs that end then; the second says how. */
void launch_abort(int status);
void launch_set_abort(void (*abort_all)(int status));

#endif
