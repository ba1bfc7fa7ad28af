/*
 * Tables of what is chosen by name: arrays of pointers to constant structs that have a `name`, NULL at the end. The public view
 * of all of them is in run/tables.c.
 */
#ifndef PENSTOCK_BASE_TABLE_H
#define PENSTOCK_BASE_TABLE_H

#include <string.h>

#include "base/error.h"

enum { TABLE_NAMES_MAX = 64 };

/* Defines enum ps_status function(const char *name, const struct type **entry, struct ps_error *error): PS_USAGE names `what`,
 * the nearest entry and all others where there is none of that name. */
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
