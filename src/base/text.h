/* A growing string, in which tables, listings and drawings are built. */
#ifndef PENSTOCK_BASE_TEXT_H
#define PENSTOCK_BASE_TEXT_H

#include "base/error.h"

struct text {
    char *data; /* terminated after the first addition; NULL before */
    size_t length, capacity;
    bool failed; /* out of memory: later additions do nothing, text_take returns NULL */
};

void text_add(struct text *text, const char *format, ...) PS_PRINTF(2, 3);
void text_add_raw(struct text *text, const char *bytes, size_t length);
/* The string, owned by the caller (free()); "" if nothing was added; NULL if memory ran out. `text` is empty afterwards. */
char *text_take(struct text *text);
/* PS_OUT_OF_MEMORY if memory ran out: "out of memory: WHAT needs SIZE". */
enum ps_status text_status(const struct text *text, const char *what, struct ps_error *error);
void text_free(struct text *text);

/* Write "1.23 MiB", "45.6 us" to `out` and return it. */
const char *text_bytes(int64_t bytes, char out[32]);
const char *text_seconds(double seconds, char out[32]);

/* The plural ending for a count: "s", or "" for 1. */
static inline const char *text_plural(int64_t count) { return count == 1 ? "" : "s"; }

/* The first byte of `text` that is not part of valid UTF-8, or NULL. */
const char *utf8_invalid(const char *text, size_t length);
/* PS_USAGE: what the user calls so ("`data`") is not UTF-8, as the files have to be that keep it. NULL is fine. */
enum ps_status utf8_check(const char *what, const char *text, struct ps_error *error);
/* Puts `with` in place of every byte that is not part of valid UTF-8. */
void utf8_repair(char *text, char with);
/* `length`, or less where the character at the end of these bytes is not all there: so texts are cut between characters. */
size_t utf8_whole(const char *text, size_t length);
/* The first control character of `text` (U+0000 to U+001F, U+007F to U+009F), or U+FFFE or U+FFFF, which XML has not: terminals
 * obey the ones, and nobody can read either. NULL: it has none. */
const char *utf8_control(const char *text);
/* Makes `text` one line of UTF-8 that can be shown, of the same length: bytes of such characters become `control`, those that
 * are no UTF-8 '?'. */
void utf8_clean(char *text, char control);
/* The length of the byte order mark that some programs write at the beginning of UTF-8 files: 3, or 0 where there is none. */
size_t utf8_mark(const char *text, size_t length);
/* Removes it; returns the remaining length. */
size_t utf8_drop_mark(char *text, size_t length);

/* Formats a table: cells in `source` are separated by '\t', rows by '\n'; the first row is the heading. Columns in which every
 * cell is a number, with or without a unit, are right-aligned. NULL if memory ran out. */
char *text_table(const char *source);
/* Format the rows in `rows` as such a table and empty `rows`. The first returns it (free()), NULL if memory ran out; the second
 * appends it to `out`. */
char *text_take_table(struct text *rows);
void text_add_table(struct text *out, struct text *rows);

#endif
