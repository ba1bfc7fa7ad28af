/* A growing string, numbers with units, UTF-8, and tables. */
#include "base/text.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"

/* Room for `more` bytes and the terminating 0. */
static bool reserve(struct text *text, size_t more) {
    if (text->failed) return false;
    if (text->capacity - text->length > more) return true;
    size_t capacity = text->capacity > 0 ? text->capacity : 64;
    while (capacity - text->length <= more) capacity *= 2;
    char *data = realloc(text->data, capacity);
    if (data == NULL) {
        text->failed = true;
        return false;
    }
    text->data = data;
    text->capacity = capacity;
    return true;
}

void text_add(struct text *text, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = number_vprint(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0) text->failed = true;
    if (length >= 0 && reserve(text, (size_t)length)) {
        number_vprint(text->data + text->length, (size_t)length + 1, format, again);
        text->length += (size_t)length;
    }
    va_end(again);
}

void text_add_raw(struct text *text, const char *bytes, size_t length) {
    if (!reserve(text, length)) return;
    if (length > 0) memcpy(text->data + text->length, bytes, length);
    text->length += length;
    text->data[text->length] = '\0';
}

char *text_take(struct text *text) {
    if (text->data == NULL) text_add_raw(text, "", 0);
    char *data = text->data;
    if (text->failed) {
        free(data);
        data = NULL;
    }
    *text = (struct text){0};
    return data;
}

enum ps_status text_status(const struct text *text, const char *what, struct ps_error *error) {
    return text->failed ? error_memory(error, what, text->capacity) : PS_OK;
}

void text_free(struct text *text) {
    free(text->data);
    *text = (struct text){0};
}

/* Three significant digits. */
static const char *three_digits(double value, const char *unit, char out[32]) {
    int decimals = fabs(value) < 9.995 ? 2 : fabs(value) < 99.95 ? 1 : 0;
    number_print(out, 32, "%.*f %s", decimals, value, unit);
    return out;
}

const char *text_bytes(int64_t bytes, char out[32]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t unit = 0;
    double value = (double)bytes;
    for (; fabs(value) >= 1023.5 && unit + 1 < sizeof units / sizeof units[0]; unit++) value /= 1024;
    if (unit > 0) return three_digits(value, units[unit], out);
    snprintf(out, 32, "%lld B", (long long)bytes);
    return out;
}

const char *text_seconds(double seconds, char out[32]) {
    static const struct {
        double size;
        const char *name;
    } units[] = {{1e-9, "ns"}, {1e-6, "us"}, {1e-3, "ms"}, {1, "s"}, {60, "min"}, {3600, "h"}};
    if (seconds == 0) {
        snprintf(out, 32, "0 s");
        return out;
    }
    size_t unit = 0, count = sizeof units / sizeof units[0];
    /* Minutes and hours only from two on: "90.0 s" is clearer than "1.50 min". */
    while (unit + 1 < count && fabs(seconds) >= 0.9995 * units[unit + 1].size * (units[unit + 1].size > 1 ? 2 : 1)) unit++;
    return three_digits(seconds / units[unit].size, units[unit].name, out);
}

/* -------------------------------------------------------------------- UTF-8 */

/*
 * UTF-8 as in RFC 3629: the shortest form of each number, no surrogates, nothing above U+10FFFF. A zero byte counts as invalid,
 * since texts end there.
 */

/* The number of the character at `text`; returns its bytes, 0 where there is none. */
static size_t utf8_take(const char *text, size_t length, uint32_t *point) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; /* shorter forms must be used for smaller numbers */
    const unsigned char *byte = (const unsigned char *)text;
    const size_t bytes = *byte < 0x80 ? 1 : *byte >> 5 == 6 ? 2 : *byte >> 4 == 14 ? 3 : *byte >> 3 == 30 ? 4 : 0;
    if (bytes == 0 || length < bytes || *byte == 0) return 0;
    uint32_t made = bytes == 1 ? *byte : *byte & (0x7fu >> bytes);
    for (size_t i = 1; i < bytes; i++) {
        if (byte[i] >> 6 != 2) return 0;
        made = made << 6 | (byte[i] & 0x3fu);
    }
    if (made < least[bytes] || made > 0x10ffff || (made >= 0xd800 && made < 0xe000)) return 0;
    *point = made;
    return bytes;
}

const char *utf8_invalid(const char *text, size_t length) {
    uint32_t point;
    for (size_t bytes; length > 0; text += bytes, length -= bytes)
        if ((bytes = utf8_take(text, length, &point)) == 0) return text;
    return NULL;
}

static bool is_control(uint32_t point) {
    return point < ' ' || (point >= 0x7f && point < 0xa0) || point == 0xfffe || point == 0xffff;
}

const char *utf8_control(const char *text) {
    uint32_t point;
    for (size_t length = strlen(text), bytes; length > 0; text += bytes, length -= bytes) {
        bytes = utf8_take(text, length, &point);
        if (bytes > 0 && is_control(point)) return text;
        if (bytes == 0) bytes = 1;
    }
    return NULL;
}

enum ps_status utf8_check(const char *what, const char *text, struct ps_error *error) {
    if (text == NULL || utf8_invalid(text, strlen(text)) == NULL) return PS_OK;
    return error_set(error, PS_USAGE, "%s: '%s' is not UTF-8, and could not be kept in the files; rename it", what, text);
}

void utf8_repair(char *text, char with) {
    const char *end = text + strlen(text);
    for (const char *bad = text; (bad = utf8_invalid(bad, (size_t)(end - bad))) != NULL;) text[bad - text] = with;
}

size_t utf8_whole(const char *text, size_t length) {
    size_t rest = 0; /* bytes that go on with a character */
    while (rest < 3 && rest < length && ((unsigned char)text[length - 1 - rest] & 0xc0) == 0x80) rest++;
    if (rest == length) return length;
    const unsigned char first = (unsigned char)text[length - 1 - rest];
    const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
    return rest + 1 < bytes ? length - 1 - rest : length;
}

void utf8_clean(char *text, char control) {
    uint32_t point;
    for (size_t length = strlen(text), bytes; length > 0; text += bytes, length -= bytes) {
        bytes = utf8_take(text, length, &point);
        if (bytes > 0 && is_control(point)) memset(text, control, bytes);
        if (bytes > 0) continue;
        *text = '?';
        bytes = 1;
    }
}

size_t utf8_mark(const char *text, size_t length) { return length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; }

size_t utf8_drop_mark(char *text, size_t length) {
    const size_t mark = utf8_mark(text, length);
    memmove(text, text + mark, length - mark);
    return length - mark;
}

/* ------------------------------------------------------------------- tables */

/*
 * A column of numbers is right-aligned under its heading, any other left-aligned; widths are counted in UTF-8 code points.
 */

struct column {
    size_t width;
    bool filled, words; /* has a body cell; has one that is not a number */
};

/* Code points in `length` bytes of UTF-8. */
static size_t count_points(const char *bytes, size_t length) {
    size_t points = 0;
    for (size_t i = 0; i < length; i++) points += ((unsigned char)bytes[i] & 0xC0) != 0x80;
    return points;
}

/* "12", "-1.5e3", "3.2 ms", "45%", "3/4" are numbers, and so is "-" for none; "1f1b" is a name, since digits follow a letter.
 */
static bool is_number(const char *cell, size_t length) {
    if (strchr("+-.0123456789", cell[0]) == NULL) return false;
    bool letters = false;
    for (size_t i = 0; i < length && cell[i] != ' '; i++) {
        unsigned char c = (unsigned char)cell[i];
        bool exponent = (c == 'e' || c == 'E') && i > 0 && i + 1 < length && strchr("+-", cell[i + 1]) != NULL;
        if (letters && isdigit(c)) return false;
        if (isalpha(c) && !exponent) letters = true;
    }
    return true;
}

static size_t cell_length(const char *cell) { return strcspn(cell, "\t\n"); }

static size_t count_columns(const char *source) {
    size_t most = 1, here = 1;
    for (const char *c = source; *c != '\0'; c++) {
        if (*c == '\t') here++;
        if (here > most) most = here;
        if (*c == '\n') here = 1;
    }
    return most;
}

static void measure(const char *source, struct column *columns) {
    size_t row = 0, index = 0;
    for (const char *cell = source; *cell != '\0';) {
        size_t length = cell_length(cell), points = count_points(cell, length);
        struct column *column = &columns[index];
        if (points > column->width) column->width = points;
        if (row > 0 && length > 0) {
            column->filled = true;
            column->words |= !is_number(cell, length);
        }
        cell += length;
        if (*cell == '\t') index++;
        if (*cell == '\n') row++, index = 0;
        if (*cell != '\0') cell++;
    }
}

static void add_spaces(struct text *out, size_t count) { text_add(out, "%*s", (int)count, ""); }

static void add_rows(struct text *out, const char *source, const struct column *columns) {
    size_t index = 0, padding = 0; /* padding that is written only if a cell follows in the row */
    for (const char *cell = source; *cell != '\0';) {
        size_t length = cell_length(cell);
        size_t pad = columns[index].width - count_points(cell, length);
        bool right = columns[index].filled && !columns[index].words;
        if (length > 0) {
            add_spaces(out, padding + (right ? pad : 0));
            text_add_raw(out, cell, length);
            padding = right ? 0 : pad;
        } else {
            padding += pad;
        }
        cell += length;
        if (*cell == '\t') index++, padding += 2;
        if (*cell == '\n' || *cell == '\0') {
            text_add_raw(out, "\n", 1);
            index = padding = 0;
        }
        if (*cell != '\0') cell++;
    }
}

char *text_table(const char *source) {
    struct column *columns = calloc(count_columns(source), sizeof *columns);
    if (columns == NULL) return NULL;
    struct text out = {0};
    measure(source, columns);
    add_rows(&out, source, columns);
    free(columns);
    return text_take(&out);
}

char *text_take_table(struct text *rows) {
    char *source = text_take(rows), *table = source ? text_table(source) : NULL;
    free(source);
    return table;
}

void text_add_table(struct text *out, struct text *rows) {
    char *table = text_take_table(rows);
    if (table)
        text_add(out, "%s", table);
    else
        out->failed = true;
    free(table);
}
