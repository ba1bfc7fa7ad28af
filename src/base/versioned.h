/*
 * Structs of options begin with their size as the caller's program knows them, so that the library can get new fields at their
 * ends: what it reads is a copy of its own size, in which what the caller does not know has its default.
 */
#ifndef PENSTOCK_BASE_VERSIONED_H
#define PENSTOCK_BASE_VERSIONED_H

#include "base/error.h"

/* Copies `given`, which begins with its size_t struct_size, over the defaults that stand in `own`, a struct of `size` bytes
 * whose first version had `least`. PS_USAGE: it is smaller than that, or larger than this library knows. */
enum ps_status versioned_take(const void *given, size_t least, void *own, size_t size, const char *name,
                              struct ps_error *error);

/* Of a struct that is still as its first version. */
#define VERSIONED_TAKE(type, given, own, error)                                                                                \
    versioned_take(given, sizeof(struct type), own, sizeof(struct type), #type, error)

/* Fills a result of the caller's size; what it has beyond `own` is 0. */
void versioned_give(const void *own, size_t own_size, void *result, size_t size);
#define VERSIONED_GIVE(own, result, size) versioned_give(&(own), sizeof(own), result, size)

#endif
