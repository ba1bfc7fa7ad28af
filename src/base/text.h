/* A growing string: tables, JSON-free listings and drawings are made in one of these and returned as `char *`. */
#ifndef PENSTOCK_BASE_TEXT_H
#define PENSTOCK_BASE_TEXT_H

#include "base/error.h"

struct text {
    char *data; /* always terminated once anything was added; NULL before */
    size_t length, capacity;
    bool failed; /* out of memory: later additions do nothing, text_take returns NULL */
};

void text_add(struct text *text, const char *format, ...) PS_PRINTF(2, 3);
void text_add_raw(struct text *text, const char *bytes, size_t length);
/* The string, owned by the caller (free()); "" where nothing was added; NULL when memory ran out. Leaves `text` empty. */
char *text_take(struct text *text);
void text_free(struct text *text);

/* "1.23 MiB", "45.6 us": into `out`, returned. */
const char *text_bytes(int64_t bytes, char out[32]);
const char *text_seconds(double seconds, char out[32]);

/* What stands behind "stage" where there are so many of them: "s" or nothing. */
static inline const char *text_plural(int64_t count) { return count == 1 ? "" : "s"; }

/* The first byte of `text` that is not part of valid UTF-8, or NULL. */
const char *utf8_invalid(const char *text, size_t length);
/* Takes away the mark that some programs begin UTF-8 files with; returns the length that remains. */
size_t utf8_drop_mark(char *text, size_t length);

/* A table for people: cells separated by '\t', rows by '\n' in `source`; the first row is the heading. Columns in which every
 * cell is a number, with or without a unit, are right-aligned. NULL when memory ran out. */
char *text_table(const char *source);
/* The rows gathered in `rows` as such a table, and `rows` left empty: as a string (free()), NULL when memory ran out; at the
 * end of `out`. */
char *text_take_table(struct text *rows);
void text_add_table(struct text *out, struct text *rows);

#endif
