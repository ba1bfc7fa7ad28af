/*
 * Arenas: memory that is allocated together and freed together. A creator takes all its arrays, checks once, and fills them;
 * the destroyer releases the arena. Nothing else needs to be checked or freed.
 *
 *     struct arena arena = {0};
 *     struct row *rows = arena_take(&arena, count, sizeof *rows);
 *     double *times = arena_take(&arena, count, sizeof *times);
 *     TRY(arena_check(&arena, "a table", error));
 *
 * A single allocation needs no arena: memory_new (base/memory.h). An arena is used by one thread at a time.
 */
#ifndef PENSTOCK_BASE_ARENA_H
#define PENSTOCK_BASE_ARENA_H

#include <stdbool.h>

#include "base/error.h"

/* A zeroed arena is empty. */
struct arena {
    struct arena_chunk *newest;
    size_t refused; /* bytes of the first request that failed; 0: none failed */
};

/* Does each request get a block of its own, of its very size? So sanitizers see what is read and written beside it, and each
 * one can fail. True in builds of GCC for the address sanitizer; tests set it before they take anything. */
extern bool arena_apart;

/* Room for `count` elements of `size` bytes (0 is fine), zeroed and aligned for any type; it does not move until the release.
 * NULL if memory ran out, and from then on for every request. */
void *arena_take(struct arena *arena, size_t count, size_t size);
/* The same, filled with a copy of the elements at `from`. */
void *arena_copy(struct arena *arena, const void *from, size_t count, size_t size);
/* PS_OUT_OF_MEMORY if a request failed: "out of memory: WHAT needs SIZE". arena_check also releases the arena then. */
enum ps_status arena_status(const struct arena *arena, const char *what, struct ps_error *error);
enum ps_status arena_check(struct arena *arena, const char *what, struct ps_error *error);
/* Frees everything; the arena is empty then. */
void arena_release(struct arena *arena);

#endif
