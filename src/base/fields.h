/* Members of a struct that documents keep by their names: a table of them writes, reads and merges all. */
#ifndef PENSTOCK_BASE_FIELDS_H
#define PENSTOCK_BASE_FIELDS_H

#include <stddef.h>

#include "base/json.h"

/* FIELD_TEXT: borrowed; FIELD_SWITCH: an int that is 0 or 1, or something else where nothing is said. */
enum field_kind { FIELD_TEXT, FIELD_INT, FIELD_INT64, FIELD_UINT64, FIELD_BOOL, FIELD_SWITCH, FIELD_DOUBLE };

struct field {
    const char *name;
    enum field_kind kind;
    size_t offset;
};
struct fields {
    const struct field *list;
    size_t count;
};
#define FIELD(type, member, of_kind)                                                                                           \
    { #member, of_kind, offsetof(struct type, member) }
#define FIELDS(array)                                                                                                          \
    { array, sizeof(array) / sizeof *(array) }

/* Adds the members of `of` to a document; a text that is NULL and a number that is not finite are left out. */
void fields_add(json_t *document, const void *of, const struct fields *fields);
/* Sets the members from a document, where integers are not negative. What is missing is an error if `required`, else it keeps
 * its value, but for numbers, which become NaN, and texts, which keep theirs. */
enum ps_status fields_read(const struct json_place *place, const struct fields *fields, bool required, void *of,
                           struct ps_error *error);
/* The name of the first member that is not 0, false or NULL; NULL: there is none. */
const char *fields_given(const void *of, const struct fields *fields);
/* Copies the members that are not 0, false or NULL. */
void fields_merge(const void *from, const struct fields *fields, void *to);

#endif
