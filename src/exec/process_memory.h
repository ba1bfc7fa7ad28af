/* What this process holds in memory: the blocks of its workers, which alone the plan counts, and all beside them. */
#ifndef PENSTOCK_EXEC_PROCESS_MEMORY_H
#define PENSTOCK_EXEC_PROCESS_MEMORY_H

#include <stdint.h>

/* Bytes; 0 where the system does not tell. */
struct process_memory {
    int64_t peak;    /* the most that it ever held: blocks, code, stacks, everything */
    int64_t now;     /* what it holds */
    int64_t of_code; /* of that, pages of the program's and the libraries' files, which processes share */
    int64_t others;  /* of that, pages of blocks that it shares with other processes (base/shared_block.h), but its own */
};

/* `own`: where its own shared block is mapped; NULL: it has none, and the others' are not looked for. */
struct process_memory process_memory_read(const void *own);

#endif
