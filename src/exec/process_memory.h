/* The resident memory of this process: the blocks of its workers, which the plan counts, and everything else. */
#ifndef PENSTOCK_EXEC_PROCESS_MEMORY_H
#define PENSTOCK_EXEC_PROCESS_MEMORY_H

#include <stdint.h>

/* Bytes; 0 where the system does not report them. */
struct process_memory {
    int64_t peak;    /* the peak: blocks, code, stacks, everything */
    int64_t now;     /* the present size */
    int64_t of_code; /* of that, pages of the program's and the libraries' files, which processes share */
    int64_t others;  /* of that, pages of other processes' shared blocks (base/shared_block.h) */
};

/* `own`: where its own shared block is mapped; NULL: it has none, and those of others are not counted. */
struct process_memory process_memory_read(const void *own);

#endif
