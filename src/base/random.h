/*
 * Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011). A number
 * depends on (seed, stream, counter) alone: there is no state to save.
 */
#ifndef PENSTOCK_BASE_RANDOM_H
#define PENSTOCK_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* The use of a stream of numbers; part of the key, so that uses never share numbers. */
enum random_use {
    RANDOM_WEIGHTS = 1,
    RANDOM_ORDER,
    RANDOM_AUGMENT,
    RANDOM_DROPOUT,
    RANDOM_SYNTHETIC,
    RANDOM_TEST,
    RANDOM_SAMPLING
};

struct random_key {
    uint32_t word[4]; /* key (2 words) and the high half of the counter (2 words) */
};

/* A key for (seed, use, a, b): for example (seed, RANDOM_ORDER, epoch, 0). */
struct random_key random_key(uint64_t seed, enum random_use use, uint64_t a, uint64_t b);
/* A key for (seed, use, name): initial weights are keyed by the parameter's name. */
struct random_key random_key_named(uint64_t seed, enum random_use use, const char *name);

/* Four independent 32-bit words for `index`. */
void random_block(struct random_key key, uint64_t index, uint32_t words[4]);
enum { RANDOM_LANES = 64 };
/* The same for RANDOM_LANES indices from `first` on, a multiple of RANDOM_LANES: words[w][i] is word w of index first + i.
 * Several times faster. */
void random_blocks(struct random_key key, uint64_t first, uint32_t words[4][RANDOM_LANES]);
/* Uniform in [0, 1) with 24 bits, element `index` of the stream: the upper bits of word `index % 4` of block `index / 4`. */
float random_uniform(struct random_key key, uint64_t index);
/* Standard normal (Box-Muller), element `index` of the stream. */
float random_normal(struct random_key key, uint64_t index);
/* Uniform integer in [0, bound), bound >= 1, without bias that matters (64-bit multiply). */
uint64_t random_below(struct random_key key, uint64_t index, uint64_t bound);
/* A permutation of 0..count-1. */
void random_permutation(struct random_key key, uint32_t *order, size_t count);

#endif
