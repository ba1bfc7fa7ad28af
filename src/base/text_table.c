/*
 * Tables for people. A column of numbers stands right-aligned under its heading, any other left-aligned; widths are counted in
 * UTF-8 code points.
 */
#include "base/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct column {
    size_t width;
    bool filled, words; /* has a body cell; has one that is no number */
};

/* Code points in `length` bytes of UTF-8. */
static size_t count_points(const char *bytes, size_t length) {
    size_t points = 0;
    for (size_t i = 0; i < length; i++) points += ((unsigned char)bytes[i] & 0xC0) != 0x80;
    return points;
}

/* "12", "-1.5e3", "3.2 ms", "45%", "3/4" are numbers and so is "-" for none; "1f1b" is a name: letters, then digits again. */
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
    size_t most = 0, here = 1;
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
    size_t index = 0, owed = 0; /* spaces that are due only if something follows in the row */
    for (const char *cell = source; *cell != '\0';) {
        size_t length = cell_length(cell);
        size_t pad = columns[index].width - count_points(cell, length);
        bool right = columns[index].filled && !columns[index].words;
        if (length > 0) {
            add_spaces(out, owed + (right ? pad : 0));
            text_add_raw(out, cell, length);
            owed = right ? 0 : pad;
        } else {
            owed += pad;
        }
        cell += length;
        if (*cell == '\t') index++, owed += 2;
        if (*cell == '\n' || *cell == '\0') {
            text_add_raw(out, "\n", 1);
            index = owed = 0;
        }
        if (*cell != '\0') cell++;
    }
}

char *text_table(const char *source) {
    struct column *columns = calloc(count_columns(source) + 1, sizeof *columns);
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
