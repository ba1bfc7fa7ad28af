/*
 * The line of a field in a JSON file that parses but says something wrong. jansson keeps no places, so the text is looked
 * through again, along the field that the message names: "plan.json: stages[2].layers: ..." Only where there is an error to
 * tell.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"

/* The text ends with a zero, at which every step stops. */
static const char *skip_space(const char *c) {
    while (*c && isspace((unsigned char)*c)) c++;
    return c;
}

static const char *skip_string(const char *c) {
    for (c++; *c && *c != '"'; c++)
        if (*c == '\\' && c[1]) c++;
    return *c ? c + 1 : c;
}

static const char *skip_value(const char *c) {
    int depth = 0;
    do {
        c = skip_space(c);
        if (*c == '"') {
            c = skip_string(c);
            continue;
        }
        if (*c == '{' || *c == '[') depth++;
        if (*c == '}' || *c == ']') depth--;
        if (*c) c++;
        /* A number or a word has more letters. */
        while (isalnum((unsigned char)*c) || *c == '.' || *c == '-' || *c == '+') c++;
    } while (*c && depth > 0);
    return c;
}

/* The value of an object's field, or of an array's item where `name` is NULL; NULL: there is none. */
static const char *enter(const char *c, const char *name, size_t length, long item) {
    bool object = *c == '{';
    if (object != (name != NULL) || (!object && *c != '[')) return NULL;
    for (c = skip_space(c + 1); *c && *c != '}' && *c != ']'; item--) {
        bool found = item == 0;
        if (object) {
            const char *key = c + 1;
            c = skip_string(c);
            found = (size_t)(c - key) == length + 1 && memcmp(key, name, length) == 0;
            c = skip_space(c);
            if (*c == ':') c = skip_space(c + 1);
        }
        if (found) return c;
        c = skip_space(skip_value(c));
        if (*c == ',') c = skip_space(c + 1);
    }
    return NULL;
}

/* How far the path leads: to the field, or to what has no such field. */
static const char *follow(const char *text, const char *path) {
    const char *place = skip_space(text), *next = place;
    while (next && *path && *path != ':') {
        char *end;
        if (*path == '[') {
            next = enter(place, NULL, 0, strtol(path + 1, &end, 10));
            path = *end == ']' ? end + 1 : end;
        } else {
            path += *path == '.';
            size_t length = strcspn(path, ".[: ");
            if (length == 0) break;
            next = enter(place, path, length, -1);
            path += length;
        }
        if (next) place = next;
    }
    return place;
}

void json_add_line(const char *text, struct ps_error *error) {
    if (!error || error->status != PS_BAD_INPUT || strstr(error->message, ": line ")) return;
    const char *path = strstr(error->message, ": ");
    size_t used = strlen(error->message);
    int line = 1;
    for (const char *place = follow(text, path ? path + 2 : ""), *c = text; c < place; c++) line += *c == '\n';
    snprintf(error->message + used, sizeof error->message - used, " (line %d)", line);
}

enum ps_status json_tell_line(const char *path, enum ps_status status, struct ps_error *error) {
    char *data;
    size_t size;
    if (status != PS_BAD_INPUT || file_read(path, JSON_FILE_LIMIT, &data, &size, NULL) != PS_OK) return status;
    json_add_line(data, error);
    free(data);
    return status;
}
