/* Elements are read through memcpy, since files do not align them. */
#include "base/array.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number_type.h"

const struct array_type_traits array_types[ARRAY_TYPE_COUNT] = {
    [ARRAY_F32] = {"f32", "f4", "F32", 4, false},  [ARRAY_F64] = {"f64", "f8", "F64", 8, false},
    [ARRAY_F16] = {"f16", "f2", "F16", 2, false},  [ARRAY_BF16] = {"bf16", NULL, "BF16", 2, false},
    [ARRAY_I64] = {"i64", "i8", "I64", 8, true},   [ARRAY_I32] = {"i32", "i4", "I32", 4, true},
    [ARRAY_I16] = {"i16", "i2", "I16", 2, true},   [ARRAY_I8] = {"i8", "i1", "I8", 1, true},
    [ARRAY_U64] = {"u64", "u8", "U64", 8, true},   [ARRAY_U32] = {"u32", "u4", "U32", 4, true},
    [ARRAY_U16] = {"u16", "u2", "U16", 2, true},   [ARRAY_U8] = {"u8", "u1", "U8", 1, true},
    [ARRAY_BOOL] = {"bool", "b1", "BOOL", 1, true}};

int64_t array_elements(const struct array *array) {
    int64_t elements = 1;
    for (int d = 0; d < array->rank; d++)
        if (array->shape[d] == 0) return 0;
    for (int d = 0; d < array->rank; d++) elements *= array->shape[d];
    return elements;
}

size_t array_bytes(const struct array *array) {
    size_t bytes = array_types[array->type].bytes;
    bool empty = false;
    for (int d = 0; d < array->rank; d++) empty |= array->shape[d] == 0;
    for (int d = 0; d < array->rank && !empty; d++)
        if (__builtin_mul_overflow(bytes, (size_t)array->shape[d], &bytes)) return SIZE_MAX;
    return empty ? 0 : bytes;
}

const char *array_shape_text(const struct array *array, char text[ARRAY_RANK_MAX * 21]) {
    const size_t size = ARRAY_RANK_MAX * 21;
    size_t used = 0;
    snprintf(text, size, "a number");
    for (int d = 0; d < array->rank; d++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", d > 0 ? "x" : "", (long long)array->shape[d]);
    return text;
}

static double f16_value(uint16_t bits) {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double sign = bits >> 15 ? -1 : 1;
    if (exponent == 31) return fraction != 0 ? (double)NAN : sign * (double)INFINITY;
    return sign * (exponent == 0 ? ldexp(fraction, -24) : ldexp(fraction + 1024, exponent - 25));
}

/* Defines the loop over elements of a type in the file; VALUE is made of an `element`. */
#define CONVERT(TYPE, element, VALUE)                                                                                          \
    for (int64_t i = 0; i < count; i++) {                                                                                      \
        TYPE element;                                                                                                          \
        memcpy(&element, from + (size_t)i * sizeof element, sizeof element);                                                   \
        values[i] = (VALUE);                                                                                                   \
    }                                                                                                                          \
    break

/* Defines array_floats and array_doubles. */
#define CONVERSION(NAME, REAL)                                                                                                 \
    void NAME(const struct array *array, int64_t first, int64_t count, REAL *values) {                                         \
        const char *from = (const char *)array->data + (size_t)first * array_types[array->type].bytes;                         \
        switch (array->type) {                                                                                                 \
        case ARRAY_F32:                                                                                                        \
            CONVERT(float, x, (REAL)x);                                                                                        \
        case ARRAY_F64:                                                                                                        \
            CONVERT(double, x, (REAL)x);                                                                                       \
        case ARRAY_F16:                                                                                                        \
            CONVERT(uint16_t, x, (REAL)f16_value(x));                                                                          \
        case ARRAY_BF16:                                                                                                       \
            CONVERT(uint16_t, x, (REAL)bf16_value(x));                                                                         \
        case ARRAY_I64:                                                                                                        \
            CONVERT(int64_t, x, (REAL)x);                                                                                      \
        case ARRAY_I32:                                                                                                        \
            CONVERT(int32_t, x, (REAL)x);                                                                                      \
        case ARRAY_I16:                                                                                                        \
            CONVERT(int16_t, x, (REAL)x);                                                                                      \
        case ARRAY_I8:                                                                                                         \
            CONVERT(int8_t, x, (REAL)x);                                                                                       \
        case ARRAY_U64:                                                                                                        \
            CONVERT(uint64_t, x, (REAL)x);                                                                                     \
        case ARRAY_U32:                                                                                                        \
            CONVERT(uint32_t, x, (REAL)x);                                                                                     \
        case ARRAY_U16:                                                                                                        \
            CONVERT(uint16_t, x, (REAL)x);                                                                                     \
        case ARRAY_U8:                                                                                                         \
            CONVERT(uint8_t, x, (REAL)x);                                                                                      \
        case ARRAY_BOOL:                                                                                                       \
            CONVERT(uint8_t, x, (REAL)(x != 0));                                                                               \
        case ARRAY_TYPE_COUNT:                                                                                                 \
            break;                                                                                                             \
        }                                                                                                                      \
    }

CONVERSION(array_floats, float)
CONVERSION(array_doubles, double)

enum ps_status array_integers(const struct array *array, int64_t first, int64_t count, int32_t *values,
                              struct ps_error *error) {
    if (array->type == ARRAY_I32) {
        memcpy(values, (const char *)array->data + (size_t)first * 4, (size_t)count * 4);
        return PS_OK;
    }
    enum { PIECE = 256 };
    double numbers[PIECE];
    for (int64_t done = 0; done < count; done += PIECE) {
        const int64_t piece = count - done < PIECE ? count - done : PIECE;
        array_doubles(array, first + done, piece, numbers);
        for (int64_t i = 0; i < piece; i++) {
            if (!(numbers[i] >= INT32_MIN && numbers[i] <= INT32_MAX) || numbers[i] != floor(numbers[i]))
                return error_set(error, PS_BAD_INPUT,
                                 "array '%.100s': element %lld is %g; whole numbers of 32 bits are accepted", array->name,
                                 (long long)(first + done + i), numbers[i]);
            values[done + i] = (int32_t)numbers[i];
        }
    }
    return PS_OK;
}
