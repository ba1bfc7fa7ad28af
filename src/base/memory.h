/* Blocks of memory: one aligned allocation that is handed out piece by piece. */
#ifndef PENSTOCK_BASE_MEMORY_H
#define PENSTOCK_BASE_MEMORY_H

#include <penstock.h>

#define MEMORY_ALIGNMENT 64

/* `bytes` rounded up to the alignment: every piece of every block is of such a size, so sums of sizes are exact. */
static inline size_t memory_align(size_t bytes) { return (bytes + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT; }

struct memory_block {
    char *base;
    size_t size, used;
};

/* Takes `size` bytes (0 is fine), zeroed; pages that are never touched cost nothing. PS_FAILED with the size when refused. */
enum ps_status memory_block_take(struct memory_block *block, size_t size, const char *what, struct ps_error *error);
/* The next `bytes` (rounded up) of the block; asserts that they fit: sizes are planned, so not fitting is our bug. */
void *memory_block_carve(struct memory_block *block, size_t bytes);
/* Makes the system back the whole block now, whatever stands in it: nothing of it costs a page fault later. */
void memory_block_touch(struct memory_block *block);
void memory_block_release(struct memory_block *block);

/* Gives the system what the C library keeps of large pieces that were freed, where it can be told to. */
void memory_trim(void);

#endif
