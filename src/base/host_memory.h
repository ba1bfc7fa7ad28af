/* The memory that this process may have: the machine's, or less where a control group (cgroup) limits it, as containers and
 * Slurm jobs are limited. */
#ifndef PENSTOCK_BASE_HOST_MEMORY_H
#define PENSTOCK_BASE_HOST_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* In bytes; 0: not known. */
struct host_memory {
    int64_t installed, total, free; /* the machine's, of which the process may use `total`, and may still use `free` */
};
struct host_memory host_memory_read(void);
/* The same with all files under `root`, for tests. */
struct host_memory host_memory_read_under(const char *root);

/* Warns where `bytes`, which `whose` take, are more than the memory in all; says whether it has. */
bool host_memory_warn(const struct host_memory *memory, int64_t bytes, const char *whose);

#endif
