/* The table of types, and the loops that depend on one. */
#include "base/number_type.h"

#include <assert.h>

#include "base/vector.h"

const struct number_type_traits number_types[TYPE_COUNT] = {
    [TYPE_F32] = {"f32", 4},
    [TYPE_BF16] = {"bf16", 2},
    [TYPE_I32] = {"i32", 4},
};

/* Vectors of LANES elements, which compilers map to those of the processor: of plain loops they make several times as many
 * instructions. */
enum { LANES = 16 };
typedef float floats __attribute__((vector_size(4 * LANES)));
typedef uint32_t words __attribute__((vector_size(4 * LANES)));
typedef uint16_t halves __attribute__((vector_size(2 * LANES)));

/* bf16_of, and bf16_value. */
VECTOR_CLONES static void narrow(size_t count, uint16_t *restrict to, const float *restrict from) {
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        floats value;
        words bits;
        memcpy(&value, from + i, sizeof value);
        memcpy(&bits, from + i, sizeof bits);
        const words is_nan = (words)(value != value), nan = bits | 0x400000, rounded = bits + 0x7fff + (bits >> 16 & 1);
        const words chosen = (nan & is_nan) | (rounded & ~is_nan);
        const halves result = __builtin_convertvector(chosen >> 16, halves);
        memcpy(to + i, &result, sizeof result);
    }
    for (; i < count; i++) to[i] = bf16_of(from[i]);
}

VECTOR_CLONES static void widen(size_t count, float *restrict to, const uint16_t *restrict from) {
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        halves numbers;
        memcpy(&numbers, from + i, sizeof numbers);
        const words bits = __builtin_convertvector(numbers, words) << 16;
        memcpy(to + i, &bits, sizeof bits);
    }
    for (; i < count; i++) to[i] = bf16_value(from[i]);
}

static void truncate_all(size_t count, int32_t *restrict to, const float *restrict from) {
    for (size_t i = 0; i < count; i++) to[i] = i32_of(from[i]);
}

VECTOR_CLONES static void float_all(size_t count, float *restrict to, const int32_t *restrict from) {
    for (size_t i = 0; i < count; i++) to[i] = (float)from[i];
}

VECTOR_CLONES static void add_bf16(size_t count, uint16_t *restrict y, const uint16_t *restrict x) {
    for (size_t i = 0; i < count; i++) y[i] = bf16_of(bf16_value(y[i]) + bf16_value(x[i]));
}

void numbers_convert(size_t count, enum number_type to_type, void *to, enum number_type from_type, const void *from) {
    if (to_type == from_type) {
        memcpy(to, from, count * number_types[to_type].bytes);
        return;
    }
    assert(to_type == TYPE_F32 || from_type == TYPE_F32);
    if (to_type == TYPE_I32)
        truncate_all(count, to, from);
    else if (from_type == TYPE_I32)
        float_all(count, to, from);
    else if (to_type == TYPE_BF16)
        narrow(count, to, from);
    else
        widen(count, to, from);
}

void numbers_add(enum number_type type, size_t count, void *y, const void *x) {
    assert(type != TYPE_I32);
    if (type == TYPE_BF16)
        add_bf16(count, y, x);
    else
        vector_add(count, y, x);
}
