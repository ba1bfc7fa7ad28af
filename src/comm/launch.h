/* How this process was started: alone, or as one of several by mpirun, srun or the like. */
#ifndef PENSTOCK_COMM_LAUNCH_H
#define PENSTOCK_COMM_LAUNCH_H

struct launch {
    const char *launcher; /* NULL: started alone */
    int rank, count;
};

/* Reads the environment variables that launchers set. */
struct launch launch_find(void);

/* After a run of several processes that failed: ends this process and, through the launcher, all others, with `status`. Returns
 * if there was no such run. For programs that end then; the second says how. */
void launch_abort(int status);
void launch_set_abort(void (*abort_all)(int status));

#endif
