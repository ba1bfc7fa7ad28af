/* Numbers as text, independent of the program's locale: the calling thread uses the C locale meanwhile. */
#include "base/number.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static locale_t c_locale;

static void make_c_locale(void) { c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

locale_t number_locale_enter(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_c_locale);
    return uselocale(c_locale);
}

void number_locale_leave(locale_t before) { uselocale(before); }

double number_read(const char *text, char **rest) {
    /* "0x2" are two numbers, as in lists of sides: C would read the hexadecimal 2. */
    const char *first = text + strspn(text, " \t\n\v\f\r");
    if (*first == '+' || *first == '-') first++;
    if (first[0] == '0' && (first[1] == 'x' || first[1] == 'X')) {
        if (rest) *rest = (char *)(uintptr_t)(first + 1);
        return 0;
    }
    const locale_t before = number_locale_enter();
    const double number = strtod(text, rest);
    number_locale_leave(before);
    return number;
}

int number_vprint(char *out, size_t size, const char *format, va_list arguments) {
    const locale_t before = number_locale_enter();
    const int length = vsnprintf(out, size, format, arguments);
    number_locale_leave(before);
    if (length > 0 && size > 0 && (size_t)length >= size) out[utf8_whole(out, size - 1)] = '\0';
    return length;
}

int number_print(char *out, size_t size, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int length = number_vprint(out, size, format, arguments);
    va_end(arguments);
    return length;
}
