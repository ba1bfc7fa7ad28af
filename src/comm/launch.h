/* How this process was started: alone, or as one of several by mpirun, srun or the like. */
#ifndef PENSTOCK_COMM_LAUNCH_H
#define PENSTOCK_COMM_LAUNCH_H

struct launch {
    const char *launcher; /* NULL: started alone */
    int rank, count;
};

/* Reads the environment variables that launchers set. */
struct launch launch_find(void);

#endif
