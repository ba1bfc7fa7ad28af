/*
 * FNV-1a of 64 bits (Fowler, Noll and Vo): the same on all machines and in all versions, for tables and for numbers that files
 * keep. Whoever looks for two texts of one hash finds them.
 */
#ifndef PENSTOCK_BASE_HASH_H
#define PENSTOCK_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Of nothing, which all begin with. */
static const uint64_t HASH_BEGIN = 0xcbf29ce484222325u;

/* One step, which is by a byte in the algorithm's own definition. */
static inline uint64_t hash_step(uint64_t hash, uint64_t value) { return (hash ^ value) * 0x100000001b3u; }

static inline uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size) {
    for (size_t i = 0; i < size; i++) hash = hash_step(hash, ((const unsigned char *)bytes)[i]);
    return hash;
}

static inline uint64_t hash_text(uint64_t hash, const char *text) {
    for (; *text != '\0'; text++) hash = hash_step(hash, (unsigned char)*text);
    return hash;
}

#endif
