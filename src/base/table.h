/*
 * Tables of entries that are selected by name: arrays of pointers to constant structs that have a `name`, NULL at the end.
 */
#ifndef PENSTOCK_BASE_TABLE_H
#define PENSTOCK_BASE_TABLE_H

#include <string.h>

#include "base/error.h"

enum { TABLE_NAMES_MAX = 64 };

/* Defines enum ps_status function(const char *name, const struct type **entry, struct ps_error *error): PS_USAGE if there is no
 * entry of that name; the message names `what`, the nearest entry and all others. */
#define TABLE_FIND(function, type, table, what)                                                                                \
    enum ps_status function(const char *name, const struct type **entry, struct ps_error *error) {                             \
        const char *names[TABLE_NAMES_MAX];                                                                                    \
        size_t count = 0;                                                                                                      \
        for (; table[count] && count < TABLE_NAMES_MAX; count++) {                                                             \
            names[count] = table[count]->name;                                                                                 \
            if (strcmp(names[count], name) != 0) continue;                                                                     \
            *entry = table[count];                                                                                             \
            return PS_OK;                                                                                                      \
        }                                                                                                                      \
        return error_unknown(error, PS_USAGE, what, name, names, count);                                                       \
    }

#endif
