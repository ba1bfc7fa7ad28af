/*
 * Launchers give a process its rank and the number of processes in environment variables, which differ: Open MPI's mpirun,
 * Slurm's srun (which also sets PMI's variables if it supports PMI), and launchers with PMI: MPICH's and Intel's mpirun.
 */
#include "comm/launch.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

static const char srun[] = "srun";

static const struct {
    const char *launcher, *rank, *count, *here;
} launchers[] = {
    {"Open MPI's mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {srun, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", ""},
    {"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
};

/* The value as a whole number, or -1 if it is not one. */
static int number_of(const char *variable) {
    const char *text = getenv(variable);
    if (!text || *text < '0' || *text > '9') return -1;
    char *end;
    long number = strtol(text, &end, 10);
    return *end == '\0' && number >= 0 && number < 1 << 24 ? (int)number : -1;
}

struct launch launch_find(void) {
    for (size_t l = 0; l < sizeof launchers / sizeof *launchers; l++) {
        const int here = number_of(launchers[l].here);
        struct launch launch = {.launcher = launchers[l].launcher,
                                .rank = number_of(launchers[l].rank),
                                .count = number_of(launchers[l].count),
                                .here = here > 0 ? here : 0};
        if (launch.rank >= 0 && launch.count > launch.rank) return launch;
    }
    return (struct launch){.launcher = NULL, .rank = 0, .count = 1};
}

bool launch_by_srun(void) {
    const struct launch launch = launch_find();
    return launch.launcher == srun && launch.count > 1;
}

const char *launch_advice(void) {
    if (!launch_by_srun()) return "start it with the mpirun of the MPI library that it was built with";
    return "srun --mpi=pmix starts programs of Open MPI, srun --mpi=pmi2 those of MPICH, where srun --mpi=list shows these; "
           "mpirun within the job starts either";
}

static _Atomic(void (*)(enum launch_phase)) listener;

static atomic_bool met;

bool launch_has_met(void) { return atomic_load(&met); }

void launch_set_listener(void (*hear)(enum launch_phase phase)) { atomic_store(&listener, hear); }

void launch_tell(enum launch_phase phase) {
    void (*hear)(enum launch_phase) = atomic_load(&listener);
    if (phase == LAUNCH_MET) atomic_store(&met, true);
    if (hear != NULL) hear(phase);
}

static _Atomic(void (*)(int)) abort_run;

void launch_set_abort(void (*abort_all)(int status)) { atomic_store(&abort_run, abort_all); }

void launch_abort(int status) {
    void (*abort_all)(int) = atomic_load(&abort_run);
    if (abort_all != NULL) abort_all(status);
}
