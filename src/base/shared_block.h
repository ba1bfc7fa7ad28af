/* Memory that processes of one host share: a file without a name, gone with the last process that has it open or mapped. */
#ifndef PENSTOCK_BASE_SHARED_BLOCK_H
#define PENSTOCK_BASE_SHARED_BLOCK_H

#include "base/memory.h"

/* What the system calls the file where it lists what a process has mapped. */
#define SHARED_BLOCK_NAME "penstock"

/* A block that other processes can open. */
struct shared_block {
    struct memory_block memory;
    int file; /* by which they find it */
};

/* Takes `size` bytes (0 is fine), zeroed. With `backed` the system gives every page now or refuses; else a page costs nothing
 * until it is touched. PS_FAILED, with the reason, where there is no such memory. */
enum ps_status shared_block_take(struct shared_block *block, size_t size, bool backed, const char *what,
                                 struct ps_error *error);
/* Nobody can open it any more; who has stays unharmed. */
void shared_block_close(struct shared_block *block);
/* Closes it, too; a zeroed one is fine. */
void shared_block_release(struct shared_block *block);

/* A block that another process has taken with `size`, found by that one's number and its number of the file;
 * memory_block_release gives it back. With `mapped` no page of it costs a fault later; then it must be backed. PS_FAILED, with
 * the reason. That it is the right process's is for the caller to see: another number space than the caller's may have the
 * number, too. */
enum ps_status shared_block_open(int32_t process, int file, size_t size, bool mapped, struct memory_block *block,
                                 struct ps_error *error);

#endif
