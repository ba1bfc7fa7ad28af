/* Memory that processes of one host share: a file without a name, freed with the last process that has it open or mapped. */
#ifndef PENSTOCK_BASE_SHARED_BLOCK_H
#define PENSTOCK_BASE_SHARED_BLOCK_H

#include "base/memory.h"

/* The name of the file in the system's list of a process's mappings. */
#define SHARED_BLOCK_NAME "penstock"

/* A block that other processes can open. */
struct shared_block {
    struct memory_block memory;
    int file; /* the descriptor by which they open it */
};

/* Takes `size` bytes (0 is fine), zeroed. With `backed` all pages are allocated now; else a page uses memory only after it is
 * touched. PS_FAILED with the reason. */
enum ps_status shared_block_take(struct shared_block *block, size_t size, bool backed, const char *what,
                                 struct ps_error *error);
/* After this no process can open the block any more; existing mappings stay valid. */
void shared_block_close(struct shared_block *block);
/* Closes and unmaps the block; a zeroed one is fine. */
void shared_block_release(struct shared_block *block);

/* Maps a block that another process has taken with `size`, by that process's number and its file descriptor;
 * memory_block_release unmaps it. With `mapped` no page fault occurs later; the block must be backed then. PS_FAILED with the
 * reason. The caller must check that it is the right process: another PID namespace may use the same number. */
enum ps_status shared_block_open(int32_t process, int file, size_t size, bool mapped, struct memory_block *block,
                                 struct ps_error *error);

#endif
