/* How this process was started: alone, or as one of several by mpirun, srun or the like. */
#ifndef PENSTOCK_COMM_LAUNCH_H
#define PENSTOCK_COMM_LAUNCH_H

struct launch {
    const char *launcher; /* NULL: started alone */
    int rank, count;
};

/* Reads the environment variables that launchers set. */
struct launch launch_find(void);

/* Where a process of a run of several is. While processes meet and leave, MPI waits for all of them, without end if one is
 * lost. */
enum launch_phase { LAUNCH_ALONE, LAUNCH_MEETING, LAUNCH_MET, LAUNCH_LEAVING, LAUNCH_LEFT };

/* Calls the listener, if there is one, with the phase that begins. */
void launch_tell(enum launch_phase phase);
void launch_set_listener(void (*hear)(enum launch_phase phase));

/* After a run of several processes that failed: ends this process and, through the launcher, all others, with `status`. Returns
 * if there was no such run. For programs that end then; the second says how. */
void launch_abort(int status);
void launch_set_abort(void (*abort_all)(int status));

#endif
