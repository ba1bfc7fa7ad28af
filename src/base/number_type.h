/*
 * Number types: the types of the elements of values and parameters. One table holds a type's name in files and the size of an
 * element.
 */
#ifndef PENSTOCK_BASE_NUMBER_TYPE_H
#define PENSTOCK_BASE_NUMBER_TYPE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The first type is the default. */
enum number_type {
    TYPE_F32,  /* IEEE 754 single precision */
    TYPE_BF16, /* the upper half of an f32: its exponents with 8 bits of precision */
    TYPE_I32,  /* whole numbers: tokens. They have no gradient. */
    TYPE_COUNT
};

struct number_type_traits {
    const char *name; /* in Penstock's files and messages */
    size_t bytes;     /* of an element */
};

extern const struct number_type_traits number_types[TYPE_COUNT];

/* The nearest bf16; of two equally near the one whose last bit is 0. Larger numbers become infinite, a NaN stays a NaN of the
 * same sign. */
static inline uint16_t bf16_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1), nan = bits | 0x400000;
    return (uint16_t)(((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded) >> 16);
}

/* Exact. */
static inline float bf16_value(uint16_t number) {
    uint32_t bits = (uint32_t)number << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Without the fraction; the largest and the smallest where there is no such number, 0 of a NaN. */
static inline int32_t i32_of(float value) {
    if (value >= 2147483648.0f) return INT32_MAX;
    if (value < -2147483648.0f) return INT32_MIN;
    return value == value ? (int32_t)value : 0;
}

/* Converts between f32 and bf16 or i32, or copies within one type; other conversions are not supported. `to` must not overlap
 * `from`.
 */
void numbers_convert(size_t count, enum number_type to_type, void *to, enum number_type from_type, const void *from);
/* y[i] += x[i], rounded to the type, which is f32 or bf16; they do not overlap. */
void numbers_add(enum number_type type, size_t count, void *y, const void *x);

#endif
