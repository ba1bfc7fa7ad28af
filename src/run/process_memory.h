/* What this process holds in memory beside the blocks of its workers, which alone the plan counts. */
#ifndef PENSTOCK_RUN_PROCESS_MEMORY_H
#define PENSTOCK_RUN_PROCESS_MEMORY_H

#include <stdint.h>

/* Bytes; 0 where the system does not tell. */
struct process_memory {
    int64_t peak;    /* the most that it ever held: blocks, code, stacks, everything */
    int64_t now;     /* what it holds */
    int64_t of_code; /* of that, pages of the program's and the libraries' files, which processes share */
};

struct process_memory process_memory_read(void);

#endif
