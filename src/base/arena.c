/* Chunks from calloc, each twice as large as the one before up to a limit; a larger request gets a chunk of its own. */
#include "base/arena.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_LEAST = 1 << 10, CHUNK_MOST = 1 << 20 };

#ifdef __SANITIZE_ADDRESS__
bool arena_apart = true;
#else
bool arena_apart = false;
#endif

struct arena_chunk {
    struct arena_chunk *older;
    size_t size, used;
    max_align_t bytes[];
};

static size_t aligned(size_t bytes) {
    return (bytes + _Alignof(max_align_t) - 1) / _Alignof(max_align_t) * _Alignof(max_align_t);
}

/* Adds a chunk with room for `bytes` at the head of the list. */
static bool grow(struct arena *arena, size_t bytes) {
    const struct arena_chunk *newest = arena->newest;
    size_t size = newest ? 2 * newest->size : CHUNK_LEAST;
    if (size > CHUNK_MOST) size = CHUNK_MOST;
    if (size < bytes || arena_apart) size = bytes;
    struct arena_chunk *chunk = calloc(1, sizeof *chunk + size);
    if (!chunk) return false;
    *chunk = (struct arena_chunk){.older = arena->newest, .size = size};
    arena->newest = chunk;
    return true;
}

void *arena_take(struct arena *arena, size_t count, size_t size) {
    if (arena->refused > 0) return NULL;
    bool possible = size == 0 || count <= (SIZE_MAX / 2) / size;
    size_t bytes = possible ? count * size : SIZE_MAX;
    if (possible && !arena_apart) bytes = aligned(bytes);
    const struct arena_chunk *newest = arena->newest;
    const bool full = !newest || arena_apart || bytes > newest->size - newest->used;
    if (!possible || (full && !grow(arena, bytes))) {
        arena->refused = bytes > 0 ? bytes : 1;
        return NULL;
    }
    struct arena_chunk *chunk = arena->newest;
    void *piece = (char *)chunk->bytes + chunk->used;
    chunk->used += bytes;
    return piece;
}

void *arena_copy(struct arena *arena, const void *from, size_t count, size_t size) {
    void *piece = arena_take(arena, count, size);
    if (piece && count > 0) memcpy(piece, from, count * size);
    return piece;
}

void arena_release(struct arena *arena) {
    for (struct arena_chunk *chunk = arena->newest, *older; chunk; chunk = older) {
        older = chunk->older;
        free(chunk);
    }
    *arena = (struct arena){0};
}

enum ps_status arena_status(const struct arena *arena, const char *what, struct ps_error *error) {
    return arena->refused > 0 ? error_memory(error, what, arena->refused) : PS_OK;
}

enum ps_status arena_check(struct arena *arena, const char *what, struct ps_error *error) {
    enum ps_status status = arena_status(arena, what, error);
    if (status != PS_OK) arena_release(arena);
    return status;
}
