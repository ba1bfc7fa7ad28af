/* "name,key=value,...", split in place in the struct's own buffer. */
#include "base/spec.h"
#include "base/units.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"

static enum ps_status add_pair(struct spec *options, char *text, const char *spec, const char *what, struct ps_error *error) {
    char *equals = strchr(text, '=');
    if (equals == NULL || equals == text) {
        return error_set(error, PS_USAGE, "%s: '%s' in '%s' is not of the form key=value", what, text, spec);
    }
    *equals = '\0';
    for (int i = 0; i < options->count; i++) {
        if (strcmp(options->pair[i].key, text) == 0) {
            return error_set(error, PS_USAGE, "%s: '%s' gives '%s' twice", what, spec, text);
        }
    }
    if (options->count == SPEC_OPTIONS_MAX) {
        return error_set(error, PS_USAGE, "%s: '%s' has more than %d options", what, spec, SPEC_OPTIONS_MAX);
    }
    options->pair[options->count++] = (struct spec_option){.key = text, .value = equals + 1};
    return PS_OK;
}

enum ps_status spec_parse(const char *spec, const char *what, struct spec *options, struct ps_error *error) {
    size_t length = strlen(spec);
    if (length >= sizeof options->buffer) {
        return error_set(error, PS_USAGE, "%s: '%.40s...' is longer than %zu characters", what, spec,
                         sizeof options->buffer - 1);
    }
    memset(options, 0, sizeof *options);
    memcpy(options->buffer, spec, length + 1);
    options->name = options->buffer;
    char *comma = strchr(options->buffer, ',');
    if (comma == options->buffer || length == 0) {
        return error_set(error, PS_USAGE, "%s: '%s' has no name; accepted is NAME[,key=value...]", what, spec);
    }
    while (comma != NULL) {
        *comma = '\0';
        char *text = comma + 1;
        comma = strchr(text, ',');
        if (comma != NULL) *comma = '\0';
        TRY(add_pair(options, text, spec, what, error));
    }
    return PS_OK;
}

/* The value of a key, marked as used, or NULL. */
static const char *find(struct spec *options, const char *key) {
    for (int i = 0; i < options->count; i++) {
        if (strcmp(options->pair[i].key, key) != 0) continue;
        options->pair[i].used = true;
        return options->pair[i].value;
    }
    return NULL;
}

static bool starts_with_space(const char *text) { return text[0] == ' ' || (text[0] >= '\t' && text[0] <= '\r'); }

enum ps_status spec_int(struct spec *options, const char *key, int low, int high, int *out, struct ps_error *error) {
    const char *text = find(options, key);
    if (text == NULL) return PS_OK;
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || starts_with_space(text) || errno != 0 || value < low || value > high) {
        return error_set(error, PS_USAGE, "%s: %s=%s: must be an integer from %d to %d", options->name, key, text, low, high);
    }
    *out = (int)value;
    return PS_OK;
}

enum ps_status spec_number(struct spec *options, const char *key, double low, double high, double *out,
                           struct ps_error *error) {
    const char *text = find(options, key);
    if (text == NULL) return PS_OK;
    char *end;
    double value = number_read(text, &end);
    if (end == text || *end != '\0' || starts_with_space(text) || !isfinite(value) || value < low || value > high) {
        return error_set(error, PS_USAGE, "%s: %s=%s: must be a number from %g to %g", options->name, key, text, low, high);
    }
    *out = value;
    return PS_OK;
}

enum ps_status spec_string(struct spec *options, const char *key, const char **out, struct ps_error *error) {
    const char *text = find(options, key);
    if (text == NULL) return PS_OK;
    if (*text == '\0') return error_set(error, PS_USAGE, "%s: %s=: has no value", options->name, key);
    *out = text;
    return PS_OK;
}

enum ps_status spec_finish(const struct spec *options, const char *what, const char *const *keys, size_t count,
                           struct ps_error *error) {
    for (int i = 0; i < options->count; i++) {
        if (options->pair[i].used) continue;
        const char *key = options->pair[i].key, *near = nearest_name(key, keys, count);
        error_set(error, PS_USAGE, "%s: '%s' has no option '%s'%s%s%s", what, options->name, key,
                  near != NULL ? "; did you mean '" : "", near != NULL ? near : "", near != NULL ? "'?" : "");
        error_names(error, keys, count);
        return PS_USAGE;
    }
    return PS_OK;
}
