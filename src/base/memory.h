/*
 * Memory: single allocations that report failure, and blocks, each an aligned allocation that is divided into pieces. For
 * several allocations that are freed together see base/arena.h.
 */
#ifndef PENSTOCK_BASE_MEMORY_H
#define PENSTOCK_BASE_MEMORY_H

#include <penstock.h>

/* Sets *pointer to room for `count` elements (0 is fine), zeroed; free() frees it. PS_OUT_OF_MEMORY, with *pointer NULL: "out
 * of memory: WHAT needs SIZE". */
#define memory_new(pointer, count, what, error)                                                                                \
    memory_new_bytes((pointer), (size_t)(count), sizeof **(pointer), (what), (error))
enum ps_status memory_new_bytes(void *pointer, size_t count, size_t size, const char *what, struct ps_error *error);

/* PS_OUT_OF_MEMORY where an allocation gave NULL: "out of memory: WHAT". */
enum ps_status memory_check(const void *allocated, const char *what, struct ps_error *error);
/* Sets *copy to a copy of the first `length` bytes of the text, as text; free() frees it. */
enum ps_status memory_text(const char *text, size_t length, char **copy, const char *what, struct ps_error *error);

/* Makes room for `needed` elements in the array *pointer, which has room for *capacity (a size_t): at least twice the old
 * capacity if it must grow. New elements are not zeroed. PS_OUT_OF_MEMORY as above, and both are unchanged. */
#define memory_grow(pointer, capacity, needed, what, error)                                                                    \
    memory_grow_bytes((pointer), (capacity), (size_t)(needed), sizeof **(pointer), (what), (error))
enum ps_status memory_grow_bytes(void *pointer, size_t *capacity, size_t needed, size_t size, const char *what,
                                 struct ps_error *error);

#define MEMORY_ALIGNMENT 64

/* `bytes` rounded up to the alignment: every piece of a block has such a size, so sums of sizes are exact. */
static inline size_t memory_align(size_t bytes) { return (bytes + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT; }

struct memory_block {
    char *base;
    size_t size, used;
};

/* Allocates `size` bytes (0 is fine), zeroed; pages that are never touched use no memory. PS_OUT_OF_MEMORY names the size. */
enum ps_status memory_block_take(struct memory_block *block, size_t size, const char *what, struct ps_error *error);
/* Lets the system back the block by large pages (Linux's transparent huge pages), whose addresses processors translate faster.
 * For a block that will be used in full: each large page, which lies within the block, uses memory as a whole. */
void memory_block_prefer_large_pages(struct memory_block *block);
/* The next `bytes` (rounded up) of the block; asserts that they fit: sizes are computed in advance, so a failure is a bug. */
void *memory_block_carve(struct memory_block *block, size_t bytes);
/* Touches every page of the block without changing it, so that no page fault occurs later. */
void memory_block_touch(struct memory_block *block);
void memory_block_release(struct memory_block *block);

/* Returns freed memory that the C library keeps to the system, if the C library supports that. */
void memory_trim(void);

#endif
