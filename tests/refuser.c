/* Preloaded into a program it refuses the memory that REFUSER_RANK would share with other ranks, as old kernels and some
 * containers do. */
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
