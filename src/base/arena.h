/*
 * Arenas: memory of what is created together and destroyed together. A creator takes all its arrays, checks once, and fills
 * them; the destroyer releases the arena. There is nothing else to check or to free.
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

#include "base/error.h"

/* All zeros: empty. */
struct arena {
    struct arena_chunk *newest;
    size_t refused; /* bytes that were not to be had; 0: all that was asked for was given */
};

/* Room for `count` elements of `size` bytes (0 is fine), zeroed and aligned for any type; it stays where it is until the
 * release. NULL where memory ran out, and from then on for every request. */
void *arena_take(struct arena *arena, size_t count, size_t size);
/* The same, filled with what stands at `from`. */
void *arena_copy(struct arena *arena, const void *from, size_t count, size_t size);
/* PS_FAILED where something was refused: "out of memory: WHAT needs SIZE". The arena is then released already. */
enum ps_status arena_check(struct arena *arena, const char *what, struct ps_error *error);
/* Frees all, and leaves the arena empty. */
void arena_release(struct arena *arena);

#endif
