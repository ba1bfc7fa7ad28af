/* Rows of tables from JSON: the document is made once, and what people see of it is drawn from there. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"

/* The field at a path like "idle_s.dependency" below `value`; NULL: there is none. */
static const json_t *follow(const json_t *value, const char *path) {
    while (value != NULL && *path != '\0') {
        char name[64];
        size_t length = strcspn(path, ".");
        if (length >= sizeof name) return NULL;
        memcpy(name, path, length);
        name[length] = '\0';
        value = json_object_get(value, name);
        path += length + (path[length] == '.');
    }
    return value;
}

void json_show_text(struct text *out, const json_t *value) { text_add(out, "%s", json_string_value(value)); }

void json_show_integer(struct text *out, const json_t *value) { text_add(out, "%lld", (long long)json_integer_value(value)); }

void json_show_seconds(struct text *out, const json_t *value) {
    char shown[32];
    text_add(out, "%s", text_seconds(json_number_value(value), shown));
}

void json_show_bytes(struct text *out, const json_t *value) {
    char shown[32];
    text_add(out, "%s", text_bytes(json_integer_value(value), shown));
}

static void show_number(struct text *out, const struct json_column *column, const json_t *value) {
    const double factor = column->factor != 0 ? column->factor : 1;
    text_add(out, "%.*f%s", column->digits, factor * json_number_value(value), column->unit != NULL ? column->unit : "");
}

void json_table_row(struct text *rows, const char *number, const json_t *row, const struct json_column *columns, size_t count) {
    for (size_t c = 0; c < count; c++) {
        const struct json_column *column = &columns[c];
        const json_t *value = column->path != NULL ? follow(row, column->path) : NULL;
        if (c > 0) text_add(rows, "\t");
        if (value != NULL && column->show != NULL)
            column->show(rows, value);
        else if (value != NULL)
            show_number(rows, column, value);
        else
            text_add(rows, "%s", column->path == NULL ? number : column->missing != NULL ? column->missing : "-");
    }
    text_add(rows, "\n");
}

void json_table(struct text *rows, const json_t *array, const struct json_column *columns, size_t count) {
    for (size_t c = 0; c < count; c++) text_add(rows, "%s%s", c > 0 ? "\t" : "", columns[c].heading);
    text_add(rows, "\n");
    for (size_t r = 0; r < json_array_size(array); r++) {
        char number[24];
        snprintf(number, sizeof number, "%zu", r + (size_t)columns[0].first);
        json_table_row(rows, number, json_array_get(array, r), columns, count);
    }
    if (json_memory_failed()) rows->failed = true;
}
