/* Small arithmetic that C's library lacks and several modules need, and numbers as text. */
#ifndef PENSTOCK_BASE_NUMBER_H
#define PENSTOCK_BASE_NUMBER_H

#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>

#include "base/error.h"

/* strtod (of decimal numbers alone: "0x2" is 0, and "x2" the rest), snprintf and vsnprintf as in the C locale: "1.5" in every
 * locale of the program, never "1,5". The library reads and writes numbers with a fraction only by these functions (text_add,
 * error_set and log_line use them). What `out` has no room for is cut off between two characters of UTF-8. */
double number_read(const char *text, char **rest);
int number_print(char *out, size_t size, const char *format, ...) PS_PRINTF(3, 4);
int number_vprint(char *out, size_t size, const char *format, va_list arguments);
/* For calls of other libraries that read or write numbers: gives the calling thread the C locale; restores the one before. */
locale_t number_locale_enter(void);
void number_locale_leave(locale_t before);

static inline int64_t number_larger(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int number_larger_int(int a, int b) { return a > b ? a : b; }
static inline int64_t number_smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* The greatest common divisor of two positive numbers. */
static inline int number_common_divisor(int a, int b) {
    while (b != 0) {
        int rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The least common multiple of two positive numbers. */
static inline int number_common_multiple(int a, int b) { return a / number_common_divisor(a, b) * b; }

/* whole * some / of, rounded up; all are positive. */
static inline int number_share_up(int whole, int some, int of) { return (int)(((int64_t)whole * some + of - 1) / of); }

/* Times in whole nanoseconds, so that sums and comparisons in searches are exact. */
static inline int64_t number_nanoseconds(double seconds) { return llround(seconds * 1e9); }

/* The order of doubles, for qsort. */
static inline int number_compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

#endif
