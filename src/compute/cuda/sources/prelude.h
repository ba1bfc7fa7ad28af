/*
 * What all kernels share. They are written in what C17 and CUDA C++ have in common, so that one source runs on a GPU, compiled
 * by NVRTC, and in tests on the host, compiled by its C compiler (HOST), where a block is a single thread.
 *
 * Constants that the host's code defines for a node (source.c), where its source mentions them:
 *   X0, X1, ... Y, W0, ...      types of its inputs, its output, and the copies of its parameters: f32, bf16, i32
 *   SAMPLES, ROWS, FEATURES     of its output as a matrix (compute/kernel.h)
 *   X0_D0 .. X0_D5, X0_RANK, X0_ROWS, Y_D0 .. Y_RANK   sides of a sample's value; 1 beyond its rank
 *   A_name                      its attributes; of two sides and of lists A_name_0, A_name_1, ... and A_name_COUNT
 *   TEAM, VECTOR                threads that work on a row together, and elements that each takes at once
 * Values that are 16 bytes apart or less from a multiple of VECTOR elements are never read or written beyond their end.
 */
#ifdef HOST
#include <math.h>
#include <stdint.h>
#include <string.h>
#else
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#ifndef NULL
#define NULL 0
#endif
#endif
#include "call.h"

#ifdef HOST
static unsigned host_block, host_blocks;
#define KERNEL(name)                                                                                                           \
    static void name##_body(const struct call a);                                                                              \
    void name(const void *argument, unsigned block, unsigned blocks) {                                                         \
        struct call a;                                                                                                         \
        memcpy(&a, argument, sizeof a);                                                                                        \
        host_block = block, host_blocks = blocks;                                                                              \
        name##_body(a);                                                                                                        \
    }                                                                                                                          \
    static void name##_body(const struct call a)
#define DEVICE static inline
#define SHARED static
#define BARRIER() ((void)0)
#define THREAD 0
#define THREADS 1
#define BLOCK host_block
#define BLOCKS host_blocks
#define BOUNDED(name)
#undef TEAM
#define TEAM 1
#define UNROLL
#else
#define KERNEL(name) extern "C" __global__ void name(const struct call a)
/* Before a kernel: it takes no more registers than let several blocks run at once on a multiprocessor. */
#define BOUNDED(name)                                                                                                          \
    extern "C" __global__ void __launch_bounds__(TEAM > 256 ? TEAM : 256, TEAM > 256 ? 2 : 3) name(const struct call a);
#define DEVICE static __device__ __forceinline__
#define SHARED __shared__
#define BARRIER() __syncthreads()
#define THREAD ((int)threadIdx.x)
#define THREADS ((int)blockDim.x)
#define BLOCK blockIdx.x
#define BLOCKS gridDim.x
#define UNROLL _Pragma("unroll")
#endif
#ifndef TEAM
#define TEAM 32
#endif
#ifndef VECTOR
#define VECTOR 1
#endif

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

/* ------------------------------------------------------------------------ numbers */

typedef float f32;
typedef int32_t i32;
typedef uint16_t bf16; /* its bits */

DEVICE float bits_float(uint32_t bits) {
#ifdef HOST
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
#else
    return __uint_as_float(bits);
#endif
}

DEVICE uint32_t float_bits(float value) {
#ifdef HOST
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
#else
    return __float_as_uint(value);
#endif
}

DEVICE float bf16_value(bf16 number) { return bits_float((uint32_t)number << 16); }

/* To the nearest, of two equally near the even one; as base/number_type.h. */
DEVICE bf16 bf16_of(float value) {
    const uint32_t bits = float_bits(value), rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    return (bf16)(((bits & 0x7fffffffu) > 0x7f800000u ? bits | 0x400000u : rounded) >> 16);
}

DEVICE int32_t i32_of(float value) {
    if (value >= 2147483648.0f) return 2147483647;
    if (value < -2147483648.0f) return -2147483647 - 1;
    return value == value ? (int32_t)value : 0;
}

/* Element i of a block of a type: GET(X0, a.input[0].value, i), PUT(Y, a.output, i, number). */
DEVICE float get_f32(const void *block, int64_t i) { return ((const float *)block)[i]; }
DEVICE float get_bf16(const void *block, int64_t i) { return bf16_value(((const bf16 *)block)[i]); }
DEVICE float get_i32(const void *block, int64_t i) { return (float)((const int32_t *)block)[i]; }
DEVICE void put_f32(void *block, int64_t i, float number) { ((float *)block)[i] = number; }
DEVICE void put_bf16(void *block, int64_t i, float number) { ((bf16 *)block)[i] = bf16_of(number); }
DEVICE void put_i32(void *block, int64_t i, float number) { ((int32_t *)block)[i] = i32_of(number); }
#define GET(type, block, i) JOIN(get_, type)((block), (i))
#define PUT(type, block, i, number) JOIN(put_, type)((block), (i), (number))

/* Four elements from i on, a multiple of 4, or fewer where the block has only `count`: GET4(X0, block, i, count, numbers). */
#ifdef HOST
#define QUAD(type, name) typedef struct { type at[4]; } name
#else
#define QUAD(type, name) typedef struct __align__(4 * sizeof(type)) { type at[4]; } name
#endif
QUAD(f32, quad_f32);
QUAD(bf16, quad_bf16);
QUAD(i32, quad_i32);
#define GET4_OF(type, value)                                                                                                   \
    DEVICE void get4_##type(const void *block, int64_t i, int64_t count, float numbers[4]) {                                   \
        if (i + 4 <= count) {                                                                                                  \
            const quad_##type quad = ((const quad_##type *)block)[i / 4];                                                      \
            UNROLL for (int j = 0; j < 4; j++) numbers[j] = value(quad.at[j]);                                                 \
        } else {                                                                                                               \
            UNROLL for (int j = 0; j < 4; j++) numbers[j] = i + j < count ? value(((const type *)block)[i + j]) : 0;           \
        }                                                                                                                      \
    }
#define PUT4_OF(type, value)                                                                                                   \
    DEVICE void put4_##type(void *block, int64_t i, int64_t count, const float numbers[4]) {                                   \
        if (i + 4 <= count) {                                                                                                  \
            quad_##type quad;                                                                                                  \
            UNROLL for (int j = 0; j < 4; j++) quad.at[j] = value(numbers[j]);                                                 \
            ((quad_##type *)block)[i / 4] = quad;                                                                              \
        } else {                                                                                                               \
            UNROLL for (int j = 0; j < 4; j++) if (i + j < count)((type *)block)[i + j] = value(numbers[j]);                   \
        }                                                                                                                      \
    }
#define SAME(value) (value)
#define AS_FLOAT(value) ((float)(value))
GET4_OF(f32, SAME)
GET4_OF(bf16, bf16_value)
GET4_OF(i32, AS_FLOAT)
PUT4_OF(f32, SAME)
PUT4_OF(bf16, bf16_of)
PUT4_OF(i32, i32_of)
#define GET4(type, block, i, count, numbers) JOIN(get4_, type)((block), (i), (count), (numbers))
#define PUT4(type, block, i, count, numbers) JOIN(put4_, type)((block), (i), (count), (numbers))

/* VECTOR elements from i on, a multiple of VECTOR (1 or 4), all in the block. */
#if VECTOR == 4
#define GET_VECTOR(type, block, i, numbers) GET4(type, (block), (i), (i) + 4, (numbers))
#define PUT_VECTOR(type, block, i, numbers) PUT4(type, (block), (i), (i) + 4, (numbers))
#else
#define GET_VECTOR(type, block, i, numbers) ((numbers)[0] = GET(type, (block), (i)))
#define PUT_VECTOR(type, block, i, numbers) PUT(type, (block), (i), (numbers)[0])
#endif

/* -------------------------------------------------------------------------- loops */

/* A grid over the elements [0, count): EACH(i, count) one by one; EACH4(i, count) in fours, the last ones perhaps fewer. */
#define EACH(i, count)                                                                                                         \
    for (int64_t i = (int64_t)BLOCK * THREADS + THREAD, each_end = (count); i < each_end; i += (int64_t)BLOCKS * THREADS)
#define EACH4(i, count)                                                                                                        \
    for (int64_t i = 4 * ((int64_t)BLOCK * THREADS + THREAD), each_end = (count); i < each_end;                                \
         i += 4 * (int64_t)BLOCKS * THREADS)

/*
 * Rows, each of a team of TEAM threads: a part of a warp, or a whole block. TEAM_ROWS(row, rows) { TEAM_EACH(i, columns) ... }:
 * i goes over the columns that are this thread's, in steps of VECTOR. All threads of a team call team_sum and its like together
 * and get the same result; its order is fixed.
 */
#define TEAM_RANK (THREAD % TEAM)
#define TEAMS_OF_BLOCK (THREADS / TEAM)
#define TEAM_ROWS(row, rows)                                                                                                   \
    for (int64_t row = (int64_t)BLOCK * TEAMS_OF_BLOCK + THREAD / TEAM, team_end = (rows); row < team_end;                     \
         row += (int64_t)BLOCKS * TEAMS_OF_BLOCK)
#define TEAM_EACH(i, columns)                                                                                                  \
    for (int i = TEAM_RANK * VECTOR, team_columns = (int)(columns); i < team_columns; i += TEAM * VECTOR)

#ifdef HOST
#define TEAM_REDUCE(name, type, combine)                                                                                       \
    DEVICE type name(type value) { return value; }
#elif TEAM <= 32
#define TEAM_MASK (TEAM == 32 ? 0xffffffffu : ((1u << (TEAM % 32)) - 1u) << (THREAD % 32 / TEAM * TEAM))
#define TEAM_REDUCE(name, type, combine)                                                                                       \
    DEVICE type name(type value) {                                                                                             \
        UNROLL for (int step = TEAM / 2; step > 0; step /= 2) {                                                                \
            const type other = __shfl_xor_sync(TEAM_MASK, value, step);                                                        \
            value = combine(value, other);                                                                                     \
        }                                                                                                                      \
        return value;                                                                                                          \
    }
#else
#define TEAM_REDUCE(name, type, combine)                                                                                       \
    DEVICE type name(type value) {                                                                                             \
        __shared__ type parts[TEAM / 32];                                                                                      \
        UNROLL for (int step = 16; step > 0; step /= 2) {                                                                      \
            const type other = __shfl_xor_sync(0xffffffffu, value, step);                                                      \
            value = combine(value, other);                                                                                     \
        }                                                                                                                      \
        __syncthreads();                                                                                                       \
        if (THREAD % 32 == 0) parts[THREAD / 32] = value;                                                                      \
        __syncthreads();                                                                                                       \
        value = parts[0];                                                                                                      \
        UNROLL for (int w = 1; w < TEAM / 32; w++) value = combine(value, parts[w]);                                           \
        return value;                                                                                                          \
    }
#endif
#define SUM_OF(a, b) ((a) + (b))
#define LARGER_OF(a, b) ((a) > (b) ? (a) : (b))
#define SMALLER_OF(a, b) ((a) < (b) ? (a) : (b))
TEAM_REDUCE(team_sum, float, SUM_OF)
TEAM_REDUCE(team_sum_double, double, SUM_OF)
TEAM_REDUCE(team_sum_int, int, SUM_OF)
TEAM_REDUCE(team_max, float, LARGER_OF)
TEAM_REDUCE(team_min_int, int, SMALLER_OF)

/* ------------------------------------------------------------------ random numbers */

/* Four numbers in [0, 1), elements 4 block to 4 block + 3 of a stream: random_uniform of base/random.h (Philox4x32-10). */
DEVICE void random_uniform4(const unsigned key[4], uint64_t block, float numbers[4]) {
    uint32_t k0 = key[0], k1 = key[1], c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32), c2 = key[2], c3 = key[3];
    UNROLL for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        const uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1, c3 = (uint32_t)p0, c0 = n0, c2 = n2;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    numbers[0] = (float)(c0 >> 8) * 0x1p-24f, numbers[1] = (float)(c1 >> 8) * 0x1p-24f;
    numbers[2] = (float)(c2 >> 8) * 0x1p-24f, numbers[3] = (float)(c3 >> 8) * 0x1p-24f;
}

DEVICE float random_uniform(const unsigned key[4], uint64_t i) {
    float numbers[4];
    random_uniform4(key, i / 4, numbers);
    return numbers[i % 4];
}
