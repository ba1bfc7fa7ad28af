/* Preloaded into a program it refuses the memory that REFUSER_RANK would share with other ranks, as old kernels and some
 * containers do. With REFUSER_TAGS it says that the MPI library has no greater tag. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int memfd_create(const char *name, unsigned flags) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK") ? getenv("OMPI_COMM_WORLD_RANK") : getenv("PMI_RANK");
    const char *refused = getenv("REFUSER_RANK");
    if (rank && refused && strcmp(rank, refused) == 0 && strcmp(name, "penstock") == 0) {
        errno = ENOSYS;
        return -1;
    }
    return (int)syscall(SYS_memfd_create, name, flags);
}

/* MPI's own function, as both libraries call it: pointers and numbers in registers. */
int MPI_Comm_get_attr(void *communicator, long key, void *value, int *found);
int MPI_Comm_get_attr(void *communicator, long key, void *value, int *found) {
    static int greatest;
    (void)communicator, (void)key;
    *found = getenv("REFUSER_TAGS") != NULL;
    if (*found) greatest = atoi(getenv("REFUSER_TAGS")), *(int **)value = &greatest;
    return 0;
}
