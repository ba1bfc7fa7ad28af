/* A growing string, numbers with units for people, and tables. */
#include "base/text.h"

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

void text_free(struct text *text) {
    free(text->data);
    *text = (struct text){0};
}

/* Three digits that count. */
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
    /* Minutes and hours only from two on: "90.0 s" says more than "1.50 min". */
    while (unit + 1 < count && fabs(seconds) >= 0.9995 * units[unit + 1].size * (units[unit + 1].size > 1 ? 2 : 1)) unit++;
    return three_digits(seconds / units[unit].size, units[unit].name, out);
}
