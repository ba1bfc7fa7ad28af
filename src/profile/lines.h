/* Reading text line by line and field by field, with messages that name the line. */
#ifndef PENSTOCK_PROFILE_LINES_H
#define PENSTOCK_PROFILE_LINES_H

#include "base/error.h"

/* A piece of the text, not terminated. */
struct span {
    const char *text;
    size_t length;
};

struct lines {
    struct span rest;
    int number; /* of the line last read, from 1 */
};

/* The next line that is not blank, without spaces at its ends; false at the end of the text. */
bool lines_next(struct lines *lines, struct span *line);
struct span span_trim(struct span span);
bool span_is(struct span span, const char *text);
bool span_starts(struct span span, const char *text);
/* Splits at the first `separator` (a string): the piece before it, and `rest` after it (length 0 where there is none). */
struct span span_split(struct span *rest, const char *separator);
/* How often `separator` occurs. */
int span_count(struct span span, const char *separator);

/* "line N: NAME: 'TEXT' MESSAGE", PS_BAD_INPUT. */
enum ps_status span_error(struct ps_error *error, int line, const char *name, struct span span, const char *message);
/* A number in [0, high]; all of the span must be one. */
enum ps_status span_number(struct span span, int line, const char *name, double high, double *out, struct ps_error *error);
/* Bytes: a whole number (also "4.000"). */
enum ps_status span_bytes(struct span span, int line, const char *name, int64_t *out, struct ps_error *error);
/* Copies what fits, with a question mark for all that is not printable ASCII. */
void span_copy_printable(struct span span, char *out, size_t size);
/* Printable ASCII that is not empty and fits into `size` bytes. */
enum ps_status span_name(struct span span, int line, const char *name, char *out, size_t size, struct ps_error *error);

#endif
