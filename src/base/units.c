/*
 * Reads sizes, rates and times with units, and finds the nearest name to a misspelt one (edit distance with transpositions:
 * Damerau 1964).
 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/number.h"
#include "base/units.h"

struct unit {
    const char *name;
    double size;
};

#define KIB 1024.0
static const struct unit size_units[] = {
    {"", 1},
    {"B", 1},
    {"kB", 1e3},
    {"KB", 1e3},
    {"MB", 1e6},
    {"GB", 1e9},
    {"TB", 1e12},
    {"KiB", KIB},
    {"kiB", KIB},
    {"MiB", KIB *KIB},
    {"GiB", KIB *KIB *KIB},
    {"TiB", KIB *KIB *KIB *KIB},
    {"K", KIB}, /* as launchers and containers count memory */
    {"k", KIB},
    {"M", KIB *KIB},
    {"G", KIB *KIB *KIB},
    {"T", KIB *KIB *KIB *KIB},
};
static const struct unit rate_units[] = {
    {"bit/s", 0.125},
    {"kbit/s", 125},
    {"Mbit/s", 125e3},
    {"Gbit/s", 125e6},
    {"B/s", 1},
    {"kB/s", 1e3},
    {"MB/s", 1e6},
    {"GB/s", 1e9},
    {"KiB/s", KIB},
    {"MiB/s", KIB *KIB},
    {"GiB/s", KIB *KIB *KIB},
    {"bps", 0.125},
    {"kbps", 125},
    {"Kbps", 125},
    {"Mbps", 125e3},
    {"Gbps", 125e6},
    {"Tbps", 125e9},
    {"K", 125},
    {"k", 125},
    {"M", 125e3},
    {"G", 125e6},
    {"T", 125e9}, /* as networks are named: 10G */
};
static const struct unit time_units[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}};

/* One kind of quantity: its units, its largest value, and its description in messages. */
static const struct quantity {
    const struct unit *units;
    size_t count;
    double most;
    const char *what, *most_text, *examples;
} sizes = {size_units,   sizeof size_units / sizeof size_units[0],
           0x1p60,       "a size",
           "1048576TiB", "1024, 512MiB, 1.5GB, 1G (units: B, kB, MB, GB, TB, KiB, MiB, GiB, TiB; K, M, G, T are KiB to TiB)"},
  rates = {rate_units,
           sizeof rate_units / sizeof rate_units[0],
           1e15,
           "a rate",
           "1000000GB/s",
           "100Mbit/s, 12GB/s, 100Gbps (units: bit/s, kbit/s, Mbit/s, Gbit/s, B/s, kB/s, MB/s, GB/s, KiB/s, MiB/s, GiB/s; "
           "bps, kbps, Mbps, Gbps and K, M, G are bits per second)"},
  times = {time_units, sizeof time_units / sizeof time_units[0],        1e9, "a time",
           "1e9s",     "50us, 1.5ms, 2s (units: ns, us, ms, s, min, h)"};

static enum ps_status refuse(const struct quantity *quantity, const char *text, const char *name, struct ps_error *error) {
    return error_set(error, PS_USAGE, "%s: '%s' is not %s; accepted are %s", name, text, quantity->what, quantity->examples);
}

/* Reads a number and the unit after it. 0 needs no unit. */
static enum ps_status parse(const struct quantity *quantity, const char *text, const char *name, double *number,
                            const struct unit **unit, struct ps_error *error) {
    bool starts_well = isdigit((unsigned char)text[0]) || (text[0] == '.' && isdigit((unsigned char)text[1]));
    if (!starts_well) return refuse(quantity, text, name, error);
    char *rest;
    double value = number_read(text, &rest);
    while (*rest == ' ') rest++;
    if (value == 0 && *rest == '\0') rest = (char *)quantity->units[0].name;
    for (size_t i = 0; i < quantity->count; i++) {
        if (strcmp(rest, quantity->units[i].name) != 0) continue;
        if (!(value * quantity->units[i].size <= quantity->most)) {
            return error_set(error, PS_USAGE, "%s: '%s' is too much; the most is %s", name, text, quantity->most_text);
        }
        *number = value;
        *unit = &quantity->units[i];
        return PS_OK;
    }
    return refuse(quantity, text, name, error);
}

enum ps_status units_parse_size(const char *text, const char *name, int64_t *bytes, struct ps_error *error) {
    double number;
    const struct unit *unit;
    TRY(parse(&sizes, text, name, &number, &unit, error));
    size_t digits = strspn(text, "0123456789");
    bool whole = text[digits] == '\0' || strchr(".eE", text[digits]) == NULL;
    if (whole) {
        /* Integers exactly, also above 2^53. */
        *bytes = strtoll(text, NULL, 10) * (int64_t)unit->size;
        return PS_OK;
    }
    if (unit->size == 1 && number != floor(number)) {
        return error_set(error, PS_USAGE, "%s: '%s' is not a whole number of bytes", name, text);
    }
    *bytes = llround(number * unit->size);
    return PS_OK;
}

enum ps_status units_parse_rate(const char *text, const char *name, double *bytes_per_s, struct ps_error *error) {
    double number;
    const struct unit *unit;
    TRY(parse(&rates, text, name, &number, &unit, error));
    *bytes_per_s = number * unit->size;
    return PS_OK;
}

enum ps_status units_parse_time(const char *text, const char *name, double *seconds, struct ps_error *error) {
    double number;
    const struct unit *unit;
    TRY(parse(&times, text, name, &number, &unit, error));
    *seconds = number * unit->size;
    return PS_OK;
}

#define NAME_MAX_LENGTH 64

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* The number of insertions, deletions, replacements and transpositions of adjacent letters; case is ignored. */
static size_t edit_distance(const char *a, const char *b) {
    size_t a_length = strlen(a), b_length = strlen(b);
    if (a_length > NAME_MAX_LENGTH || b_length > NAME_MAX_LENGTH) return SIZE_MAX;
    size_t rows[3][NAME_MAX_LENGTH + 1];
    for (size_t j = 0; j <= b_length; j++) rows[0][j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t *now = rows[i % 3], *before = rows[(i + 2) % 3], *two_before = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
            now[j] = least(least(before[j], now[j - 1]) + 1, before[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) && y == tolower((unsigned char)a[i - 2])) {
                now[j] = least(now[j], two_before[j - 2] + 1);
            }
        }
    }
    return rows[a_length % 3][b_length];
}

const char *nearest_name(const char *word, const char *const *names, size_t count) {
    const char *nearest = NULL;
    size_t length = strlen(word), nearest_distance = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        size_t distance = edit_distance(word, names[i]);
        /* A third of the letters may be wrong; a name without a common letter is not near, even if it is short. */
        if (distance > (length + 3) / 3 || distance >= strlen(names[i]) || distance >= nearest_distance) continue;
        nearest = names[i];
        nearest_distance = distance;
    }
    return nearest;
}
