/*
 * Blocks are allocated with mmap: zeroed and aligned to a page; a page uses memory only after it is touched. A request that the
 * system cannot satisfy fails here, at the start of a run, and not during a step.
 */
#include "base/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"

/* `pointer` is the address of a pointer of any type, so that pointer is read and written as bytes. */
enum ps_status memory_new_bytes(void *pointer, size_t count, size_t size, const char *what, struct ps_error *error) {
    bool possible = count <= SIZE_MAX / 2 / size;
    void *made = possible ? calloc(count > 0 ? count : 1, size) : NULL;
    memcpy(pointer, &made, sizeof made);
    return made ? PS_OK : error_memory(error, what, possible ? count * size : SIZE_MAX);
}

enum ps_status memory_check(const void *allocated, const char *what, struct ps_error *error) {
    return allocated ? PS_OK : error_set(error, PS_OUT_OF_MEMORY, "out of memory: %s", what);
}

enum ps_status memory_text(const char *text, size_t length, char **copy, const char *what, struct ps_error *error) {
    TRY(memory_new(copy, length + 1, what, error));
    memcpy(*copy, text, length);
    return PS_OK;
}

enum ps_status memory_grow_bytes(void *pointer, size_t *capacity, size_t needed, size_t size, const char *what,
                                 struct ps_error *error) {
    enum { LEAST = 16 };
    if (needed <= *capacity) return PS_OK;
    if (needed > SIZE_MAX / 2 / size) return error_memory(error, what, SIZE_MAX);
    size_t count = needed > 2 * *capacity ? needed : 2 * *capacity;
    if (count < LEAST) count = LEAST;
    void *old;
    memcpy(&old, pointer, sizeof old);
    void *larger = realloc(old, count * size);
    if (!larger) return error_memory(error, what, count * size);
    memcpy(pointer, &larger, sizeof larger);
    *capacity = count;
    return PS_OK;
}

enum ps_status memory_block_take(struct memory_block *block, size_t size, const char *what, struct ps_error *error) {
    if (size > SIZE_MAX - MEMORY_ALIGNMENT) return error_memory(error, what, size);
    size_t rounded = size > 0 ? memory_align(size) : MEMORY_ALIGNMENT;
    void *base = mmap(NULL, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return error_memory(error, what, size);
    *block = (struct memory_block){.base = base, .size = memory_align(size), .used = 0};
    return PS_OK;
}

void memory_block_prefer_large_pages(struct memory_block *block) {
#ifdef MADV_HUGEPAGE
    if (block->size > 0) madvise(block->base, block->size, MADV_HUGEPAGE); /* a system without them refuses; nothing changes */
#else
    (void)block;
#endif
}

void *memory_block_carve(struct memory_block *block, size_t bytes) {
    assert(block->base != NULL && memory_align(bytes) <= block->size - block->used);
    void *piece = block->base + block->used;
    block->used += memory_align(bytes);
    return piece;
}

void memory_block_touch(struct memory_block *block) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    volatile char *bytes = block->base;
    for (size_t i = 0; i < block->size; i += page) bytes[i] = bytes[i];
}

void memory_block_release(struct memory_block *block) {
    if (block->base != NULL) munmap(block->base, block->size > 0 ? block->size : MEMORY_ALIGNMENT);
    *block = (struct memory_block){0};
}

void memory_trim(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}
