/*
 * NumPy's files: .npy, one array, and .npz, a zip archive of such files. Arrays are in C order and little endian. A file is
 * mapped: what is stored uncompressed is read from there as it is needed, what is deflated is unpacked when it is asked for.
 *
 * The reader trusts nothing: all that is wrong is PS_BAD_INPUT and names the file and the array.
 */
#ifndef PENSTOCK_DATA_NPZ_H
#define PENSTOCK_DATA_NPZ_H

#include "base/array.h"

struct npz;

/* Opens an .npz file or an .npy file, which holds one array, named as the file without directory and ending. */
enum ps_status npz_open(const char *path, struct npz **file, struct ps_error *error);
/* NULL is fine. */
void npz_close(struct npz *file);
int npz_count(const struct npz *file);
/* The name of array `number`, without ".npy"; in the order of the file. */
const char *npz_name(const struct npz *file, int number);
bool npz_has(const struct npz *file, const char *name);
/* The array lives as long as `file`. An array that is not there is PS_BAD_INPUT. One thread at a time. */
enum ps_status npz_get(struct npz *file, const char *name, struct array *array, struct ps_error *error);

/* Writes an .npz file of uncompressed arrays by file_write_pieces; every array's elements begin at a multiple of 64 bytes. */
enum ps_status npz_write(const char *path, const struct array *arrays, int count, struct ps_error *error);

#endif
