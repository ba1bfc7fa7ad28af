/*
 * Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011): ten rounds of two
 * 32x32 -> 64-bit multiplications turn a 128-bit counter and a 64-bit key into 128 random bits.
 *
 * Keys are themselves generated, so that streams of adjacent seeds, uses and indices are unrelated: the seed and the use give a
 * 64-bit key, and with that key the block of counter (a, b) is the key of the stream. For one seed and use, different (a, b)
 * always give different keys, since Philox is a bijection of the counter.
 */
#include "base/random.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/vector.h"
#ifdef VECTOR_CLONED
#include <immintrin.h>
#endif

/* One round for counter c and key k, in scalars, so that a loop around it can be vectorised. */
static inline void philox_round(uint32_t *c0, uint32_t *c1, uint32_t *c2, uint32_t *c3, uint32_t k0, uint32_t k1) {
    uint64_t left = (uint64_t)0xD2511F53u * *c0, right = (uint64_t)0xCD9E8D57u * *c2;
    *c0 = (uint32_t)(right >> 32) ^ *c1 ^ k0;
    *c2 = (uint32_t)(left >> 32) ^ *c3 ^ k1;
    *c1 = (uint32_t)right;
    *c3 = (uint32_t)left;
}

#define ROUNDS(c0, c1, c2, c3, k0, k1)                                                                                         \
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) philox_round(&c0, &c1, &c2, &c3, k0, k1);

static void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
    ROUNDS(c0, c1, c2, c3, k0, k1)
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

static uint32_t low(uint64_t value) { return (uint32_t)value; }
static uint32_t high(uint64_t value) { return (uint32_t)(value >> 32); }

struct random_key random_key(uint64_t seed, enum random_use use, uint64_t a, uint64_t b) {
    static const uint32_t domain[2] = {0x50656E73, 0x746F636B}; /* "Penstock" */
    uint32_t root[4];
    philox((const uint32_t[4]){low(seed), high(seed), (uint32_t)use, 0}, domain, root);
    struct random_key key;
    philox((const uint32_t[4]){low(a), high(a), low(b), high(b)}, root, key.word);
    return key;
}

struct random_key random_key_named(uint64_t seed, enum random_use use, const char *name) {
    return random_key(seed, use, hash_text(HASH_BEGIN, name), strlen(name));
}

void random_block(struct random_key key, uint64_t index, uint32_t words[4]) {
    philox((const uint32_t[4]){low(index), high(index), key.word[2], key.word[3]}, key.word, words);
}

/* philox for consecutive counters: lane i adds i to the first word, which must not overflow. */
static void philox_lanes(const uint32_t counter[4], const uint32_t key[2], uint32_t words[4][RANDOM_LANES]) {
    const uint32_t first = counter[0], second = counter[1], third = counter[2], fourth = counter[3], left_key = key[0],
                   right_key = key[1];
#pragma omp simd
    for (uint32_t lane = 0; lane < RANDOM_LANES; lane++) {
        uint32_t c0 = first + lane, c1 = second, c2 = third, c3 = fourth, k0 = left_key, k1 = right_key;
        ROUNDS(c0, c1, c2, c3, k0, k1)
        words[0][lane] = c0, words[1][lane] = c1, words[2][lane] = c2, words[3][lane] = c3;
    }
}

#ifdef VECTOR_CLONED
/*
 * The same with each word of a counter in 64 bits, whose upper halves may hold anything. Thus a multiplication of halves is one
 * instruction, which MULTIPLY names: of plain C, compilers make several multiplications of 64 bits. A round waits for the one
 * before, so all lanes go through it together.
 */
#define DEFINE_LANES(name, feature, bytes, MULTIPLY)                                                                           \
    typedef uint64_t name##_longs __attribute__((vector_size(bytes)));                                                         \
    typedef uint32_t name##_words __attribute__((vector_size(bytes / 2)));                                                     \
    __attribute__((target(feature))) static void name(const uint32_t counter[4], const uint32_t key[2],                        \
                                                      uint32_t words[4][RANDOM_LANES]) {                                       \
        enum { COUNT = bytes / 8, SETS = RANDOM_LANES / COUNT };                                                               \
        const name##_longs none = {0}, left = none + 0xD2511F53u, right = none + 0xCD9E8D57u;                                  \
        name##_longs first = none + counter[0], c[SETS][4];                                                                    \
        uint64_t left_key = key[0], right_key = key[1];                                                                        \
        for (int i = 0; i < COUNT; i++) first[i] += (uint64_t)i;                                                               \
        for (int s = 0; s < SETS; s++, first += COUNT) {                                                                       \
            c[s][0] = first;                                                                                                   \
            for (int w = 1; w < 4; w++) c[s][w] = none + counter[w];                                                           \
        }                                                                                                                      \
        for (int round = 0; round < 10; round++, left_key += 0x9E3779B9u, right_key += 0xBB67AE85u) {                          \
            _Pragma("GCC unroll 8") for (int s = 0; s < SETS; s++) {                                                           \
                const name##_longs l = MULTIPLY(c[s][0], left), r = MULTIPLY(c[s][2], right);                                  \
                c[s][0] = r >> 32 ^ c[s][1] ^ left_key;                                                                        \
                c[s][2] = l >> 32 ^ c[s][3] ^ right_key;                                                                       \
                c[s][1] = r;                                                                                                   \
                c[s][3] = l;                                                                                                   \
            }                                                                                                                  \
        }                                                                                                                      \
        for (int s = 0; s < SETS; s++)                                                                                         \
            for (int w = 0; w < 4; w++) {                                                                                      \
                const name##_words lower = __builtin_convertvector(c[s][w], name##_words);                                     \
                memcpy(words[w] + s * COUNT, &lower, sizeof lower);                                                            \
            }                                                                                                                  \
    }
#define MULTIPLY_512(a, b) (wide_lanes_longs) _mm512_mul_epu32((__m512i)(a), (__m512i)(b))
#define MULTIPLY_256(a, b) (half_lanes_longs) _mm256_mul_epu32((__m256i)(a), (__m256i)(b))
DEFINE_LANES(wide_lanes, "avx512f", 64, MULTIPLY_512)
DEFINE_LANES(half_lanes, "avx2", 32, MULTIPLY_256)
#endif

void random_blocks(struct random_key key, uint64_t first, uint32_t words[4][RANDOM_LANES]) {
    assert(first % RANDOM_LANES == 0);
    const uint32_t counter[4] = {low(first), high(first), key.word[2], key.word[3]};
#ifdef VECTOR_CLONED
    if (__builtin_cpu_supports("avx512f"))
        wide_lanes(counter, key.word, words);
    else if (__builtin_cpu_supports("avx2"))
        half_lanes(counter, key.word, words);
    else
#endif
        philox_lanes(counter, key.word, words);
}

float random_uniform(struct random_key key, uint64_t index) {
    uint32_t words[4];
    random_block(key, index / 4, words);
    return (float)(words[index % 4] >> 8) * 0x1p-24f;
}

float random_normal(struct random_key key, uint64_t index) {
    uint32_t words[4];
    random_block(key, index / 4, words);
    const uint32_t *pair = words + (index % 4 / 2) * 2;
    double radius = sqrt(-2.0 * log(((double)pair[0] + 1.0) * 0x1p-32));
    double angle = 6.283185307179586477 * 0x1p-32 * (double)pair[1];
    return (float)(radius * (index % 2 == 0 ? cos(angle) : sin(angle)));
}

uint64_t random_below(struct random_key key, uint64_t index, uint64_t bound) {
    uint32_t words[4];
    random_block(key, index / 2, words);
    const uint32_t *pair = words + index % 2 * 2;
    uint64_t x = (uint64_t)pair[1] << 32 | pair[0];
    return (uint64_t)((unsigned __int128)x * bound >> 64);
}

void random_permutation(struct random_key key, uint32_t *order, size_t count) {
    for (size_t i = 0; i < count; i++) {
        size_t other = (size_t)random_below(key, i, i + 1);
        order[i] = order[other];
        order[other] = (uint32_t)i;
    }
}
