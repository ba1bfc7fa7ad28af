/*
 * The message of a failed call. It is formatted in a local buffer first, since its arguments may be the old message, and
 * reduced to one line of UTF-8, since names from users and files may contain any bytes.
 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "base/text.h"
#include "base/units.h"

#define MESSAGE_SIZE sizeof((struct ps_error){0}.message)
#define HINT_SIZE sizeof((struct ps_error){0}.hint)

const char *ps_status_text(enum ps_status status) {
    switch (status) {
#define X(name, value, text)                                                                                                   \
    case name:                                                                                                                 \
        return text;
        PS_STATUS_LIST(X)
#undef X
    }
    return "unknown status";
}

const char *ps_version(void) { return PENSTOCK_VERSION; }

_Thread_local bool error_memory_untold;

enum ps_status error_set(struct ps_error *error, enum ps_status status, const char *format, ...) {
    if (status == PS_OUT_OF_MEMORY) error_memory_untold = false;
    if (error == NULL) return status;
    char message[MESSAGE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    number_vprint(message, sizeof message, format, arguments);
    va_end(arguments);
    utf8_clean(message, ' ');
    error->status = status;
    memcpy(error->message, message, sizeof message);
    error->hint[0] = '\0';
    return status;
}

void error_hint(struct ps_error *error, const char *format, ...) {
    if (error == NULL) return;
    char hint[HINT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    number_vprint(hint, sizeof hint, format, arguments);
    va_end(arguments);
    size_t used = strlen(error->hint);
    if (used > 0 && used + 1 < sizeof error->hint) error->hint[used++] = '\n';
    snprintf(error->hint + used, sizeof error->hint - used, "%s", hint);
    utf8_clean(error->hint + used, ' ');
}

void error_hint_lines(struct ps_error *error, const char *text) {
    while (*text != '\0') {
        const size_t length = strcspn(text, "\n");
        error_hint(error, "%.*s", (int)length, text);
        text += length + (text[length] == '\n');
    }
}

void error_prefix(struct ps_error *error, const char *format, ...) {
    if (error == NULL) return;
    char message[MESSAGE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    number_vprint(message, sizeof message, format, arguments);
    va_end(arguments);
    size_t used = strlen(message);
    snprintf(message + used, sizeof message - used, ": %s", error->message);
    utf8_clean(message, ' ');
    memcpy(error->message, message, sizeof message);
}

enum ps_status error_unknown(struct ps_error *error, enum ps_status status, const char *what, const char *word,
                             const char *const *names, size_t count) {
    const char *near = nearest_name(word, names, count);
    error_set(error, status, "%s: '%s' is not known%s%s%s", what, word, near != NULL ? "; did you mean '" : "",
              near != NULL ? near : "", near != NULL ? "'?" : "");
    error_names(error, names, count);
    return status;
}

void error_names(struct ps_error *error, const char *const *names, size_t count) {
    if (error == NULL || count == 0) return;
    struct text list = {0};
    for (size_t i = 0; i < count; i++) text_add(&list, "%s%s", i > 0 ? ", " : "", names[i]);
    if (!list.failed) error_hint(error, "known: %s", list.data);
    text_free(&list);
}

enum ps_status error_memory(struct ps_error *error, const char *what, size_t bytes) {
    char size[32];
    int64_t shown = bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes;
    return error_set(error, PS_OUT_OF_MEMORY, "out of memory: %s needs %s", what, text_bytes(shown, size));
}
