/*
 * Safetensors: named tensors in one file, as the Hugging Face library of that name defines it. Eight bytes with the length of
 * the header (little endian), the header (a JSON object: name -> dtype, shape, data_offsets), then the data.
 *
 * The reader trusts nothing: the header fits the file, every tensor's offsets fit its shape and the data, tensors fill the data
 * without gap or overlap. Everything that is wrong is PS_BAD_INPUT and names the file and the tensor.
 */
#ifndef PENSTOCK_BASE_SAFETENSORS_H
#define PENSTOCK_BASE_SAFETENSORS_H

#include "base/array.h"
#include "base/file.h"
#include "base/number_type.h"

struct safetensor {
    char *name;
    enum array_type type;
    const float *values; /* NULL: they cannot be read, which safetensors_values explains */
    int rank;
    int64_t *shape;
    size_t offset, bytes; /* in the data */
};

/* A mapped file, tensors in the order of their data. */
struct safetensors {
    char *path;
    struct file_map contents;
    const char *data;
    float *widened; /* numbers of the tensors of BF16 */
    struct safetensor *tensors;
    int count;
};

enum ps_status safetensors_read(const char *path, struct safetensors *file, struct ps_error *error);
/* The same, to read tensors as arrays alone: their `values` stay NULL. */
enum ps_status safetensors_open(const char *path, struct safetensors *file, struct ps_error *error);
/* The tensor as an array, which lives as long as `file`. False: it has more sides than an array can have. */
bool safetensors_array(const struct safetensors *file, const struct safetensor *tensor, struct array *array);
void safetensors_free(struct safetensors *file);
/* The tensor's numbers, of F32 as they are or of BF16 as f32; `shape` must be its shape. A missing tensor, another dtype or
 * shape is PS_BAD_INPUT. The pointer lives as long as `file`. */
enum ps_status safetensors_get(const struct safetensors *file, const char *name, const int64_t *shape, int rank,
                               const float **values, struct ps_error *error);
/* The tensor or NULL. */
const struct safetensor *safetensors_find(const struct safetensors *file, const char *name);
/* The same for a tensor in hand, whatever its shape. */
enum ps_status safetensors_values(const struct safetensors *file, const struct safetensor *tensor, const float **values,
                                  struct ps_error *error);

struct json_t;

/* One tensor to be written; `values` are borrowed. */
struct safetensor_source {
    const char *name;
    const int64_t *shape;
    int rank;
    const void *values;
    enum array_type type; /* of the values, and so the tensor's dtype */
};

/* The bytes before the data of such tensors (their values are not read): header length and header (free()), and the size of the
 * data. NULL when memory ran out. */
char *safetensors_header(const struct safetensor_source *tensors, int count, size_t *length, size_t *data_bytes);

/* Writes the tensors in order by file_write (to a temporary file, synced, renamed). `total_bytes` (may be NULL): data without
 * the header. */
enum ps_status safetensors_write(const char *path, const struct safetensor_source *tensors, int count, int64_t *total_bytes,
                                 struct ps_error *error);
/* The same, with an object of strings that stand in the header's __metadata__; NULL: none. */
enum ps_status safetensors_write_about(const char *path, const struct safetensor_source *tensors, int count,
                                       const struct json_t *metadata, int64_t *total_bytes, struct ps_error *error);

#endif
