/* Lines, fields and numbers of text files. */
#include "profile/lines.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "profile/profile.h"

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

struct span span_trim(struct span span) {
    while (span.length > 0 && is_space(span.text[0])) span.text++, span.length--;
    while (span.length > 0 && is_space(span.text[span.length - 1])) span.length--;
    return span;
}

bool span_is(struct span span, const char *text) {
    return strlen(text) == span.length && memcmp(span.text, text, span.length) == 0;
}

bool span_starts(struct span span, const char *text) {
    size_t length = strlen(text);
    return span.length >= length && memcmp(span.text, text, length) == 0;
}

struct span span_split(struct span *rest, const char *separator) {
    size_t length = strlen(separator);
    const char *found = memmem(rest->text, rest->length, separator, length);
    struct span piece = {rest->text, found ? (size_t)(found - rest->text) : rest->length};
    size_t used = found ? piece.length + length : piece.length;
    *rest = (struct span){rest->text + used, rest->length - used};
    return piece;
}

int span_count(struct span span, const char *separator) {
    int count = 0;
    size_t length = strlen(separator);
    for (const char *found; (found = memmem(span.text, span.length, separator, length)); count++) {
        span.length -= (size_t)(found - span.text) + length;
        span.text = found + length;
    }
    return count;
}

void span_copy_printable(struct span span, char *out, size_t size) {
    size_t length = span.length < size ? span.length : size - 1;
    for (size_t i = 0; i < length; i++) out[i] = span.text[i] < ' ' || span.text[i] > '~' ? '?' : span.text[i];
    out[length] = '\0';
}

bool lines_next(struct lines *lines, struct span *line) {
    while (lines->rest.length > 0) {
        *line = span_trim(span_split(&lines->rest, "\n"));
        lines->number++;
        if (line->length > 0) return true;
    }
    return false;
}

enum ps_status span_error(struct ps_error *error, int line, const char *name, struct span span, const char *message) {
    int shown = span.length < 60 ? (int)span.length : 60;
    return error_set(error, PS_BAD_INPUT, "line %d: %s: '%.*s'%s %s", line, name, shown, span.text,
                     span.length > 60 ? "..." : "", message);
}

enum ps_status span_number(struct span span, int line, const char *name, double high, double *out, struct ps_error *error) {
    char copy[64], *end, message[80];
    span = span_trim(span);
    if (span.length == 0) return span_error(error, line, name, span, "is empty where a number must stand");
    if (span.length >= sizeof copy) return span_error(error, line, name, span, "is not a number");
    memcpy(copy, span.text, span.length);
    copy[span.length] = '\0';
    double value = number_read(copy, &end);
    if (*end != '\0' || end == copy) return span_error(error, line, name, span, "is not a number");
    number_print(message, sizeof message, "is not a number from 0 to %g", high);
    if (!(value >= 0 && value <= high)) return span_error(error, line, name, span, message);
    *out = value;
    return PS_OK;
}

enum ps_status span_bytes(struct span span, int line, const char *name, int64_t *out, struct ps_error *error) {
    double value = 0;
    TRY(span_number(span, line, name, (double)PROFILE_BYTES_MAX, &value, error));
    if (value != floor(value)) return span_error(error, line, name, span_trim(span), "is not a whole number of bytes");
    *out = (int64_t)value;
    return PS_OK;
}

enum ps_status span_name(struct span span, int line, const char *name, char *out, size_t size, struct ps_error *error) {
    span = span_trim(span);
    if (span.length == 0) return span_error(error, line, name, span, "is empty");
    if (span.length >= size) return span_error(error, line, name, span, "is too long (63 characters at most)");
    for (size_t i = 0; i < span.length; i++)
        if (span.text[i] < ' ' || span.text[i] > '~')
            return error_set(error, PS_BAD_INPUT, "line %d: %s: has a character that is not printable ASCII", line, name);
    memcpy(out, span.text, span.length);
    out[span.length] = '\0';
    return PS_OK;
}
