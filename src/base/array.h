/* Arrays in files: elements of any usual type, and their conversion to the types that Penstock computes with. */
#ifndef PENSTOCK_BASE_ARRAY_H
#define PENSTOCK_BASE_ARRAY_H

#include "base/error.h"

enum array_type {
    ARRAY_F32,
    ARRAY_F64,
    ARRAY_F16,
    ARRAY_BF16,
    ARRAY_I64,
    ARRAY_I32,
    ARRAY_I16,
    ARRAY_I8,
    ARRAY_U64,
    ARRAY_U32,
    ARRAY_U16,
    ARRAY_U8,
    ARRAY_BOOL,
    ARRAY_TYPE_COUNT
};

/* NULL where a format does not have the type. */
struct array_type_traits {
    const char *name;        /* in messages */
    const char *numpy;       /* descr of an .npy file, without '<' and '|' */
    const char *safetensors; /* dtype of a safetensors file */
    size_t bytes;
    bool whole; /* whole numbers */
};
extern const struct array_type_traits array_types[ARRAY_TYPE_COUNT];

enum { ARRAY_RANK_MAX = 8 };

/* In C order, little endian, at any address. */
struct array {
    const char *name;
    enum array_type type;
    int rank;
    int64_t shape[ARRAY_RANK_MAX];
    const void *data;
};

int64_t array_elements(const struct array *array);
/* SIZE_MAX where they would be more. */
size_t array_bytes(const struct array *array);
/* "2x3x8"; "a number" for rank 0. */
const char *array_shape_text(const struct array *array, char text[ARRAY_RANK_MAX * 21]);

/* Elements first .. first + count - 1 as f32 (rounded to the nearest) or as f64 (exact but for 64-bit whole numbers). */
void array_floats(const struct array *array, int64_t first, int64_t count, float *values);
void array_doubles(const struct array *array, int64_t first, int64_t count, double *values);
/* As i32. PS_BAD_INPUT names the array and the element that is no whole number or does not fit; truth values are 0 and 1. */
enum ps_status array_integers(const struct array *array, int64_t first, int64_t count, int32_t *values, struct ps_error *error);

#endif
