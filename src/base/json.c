/*
 * Strict reading of JSON, with messages that name the field. The path of a json_place is "FILE:" at the root and "FILE: a.b[2]"
 * below it; a colon at the end marks the root.
 */
#include "base/json.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/text.h"
#include "base/units.h"

static const char out_of_memory[] = "out of memory";

static const char *kind_of(const json_t *value) {
    static const char *const kinds[] = {[JSON_OBJECT] = "an object",
                                        [JSON_ARRAY] = "an array",
                                        [JSON_STRING] = "a string",
                                        [JSON_INTEGER] = "an integer",
                                        [JSON_REAL] = "a number with a fraction",
                                        [JSON_TRUE] = "a boolean",
                                        [JSON_FALSE] = "a boolean",
                                        [JSON_NULL] = "null"};
    return kinds[json_typeof(value)];
}

static bool at_root(const struct json_place *place) {
    size_t length = strlen(place->path);
    return length > 0 && place->path[length - 1] == ':';
}

enum ps_status json_error(const struct json_place *place, struct ps_error *error, const char *format, ...) {
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    number_vprint(message, sizeof message, format, arguments);
    va_end(arguments);
    return error_set(error, PS_BAD_INPUT, "%s%s %s", place->path, at_root(place) ? "" : ":", message);
}

struct json_place json_root(json_t *root, const char *file) {
    struct json_place place = {.value = root};
    /* A long path is shortened at its beginning: its end distinguishes files. */
    size_t length = strlen(file), most = sizeof place.path / 2;
    snprintf(place.path, sizeof place.path, "%s%s:", length > most ? "..." : "", length > most ? file + length - most : file);
    return place;
}

static enum ps_status check_format(json_t *root, const char *path, const char *format, struct ps_error *error) {
    struct json_place place = json_root(root, path);
    const char *found;
    int64_t version;
    if (!json_is_object(root)) return json_error(&place, error, "must be an object, not %s", kind_of(root));
    TRY(json_get_string(&place, "format", true, &found, error));
    if (strcmp(found, format) != 0) return json_error(&place, error, "format: '%s' is not '%s'", found, format);
    TRY(json_get_integer(&place, "version", true, 0, INT64_MAX, &version, error));
    if (version != 1)
        return json_error(&place, error, "version: %lld is not known; this program reads version 1", (long long)version);
    return PS_OK;
}

/* Fields that earlier versions wrote under other names, which are still read; also with "_spread" or "_spill" appended. */
static const struct {
    const char *old, *name;
} renamed_fields[] = {
    {"apart_input_s", "split_input_s"}, {"apart_s", "split_s"},    {"update_aside_s", "update_out_of_place_s"},
    {"hand_over_s", "core_transfer_s"}, {"medium", "shared_link"},
};

/* Writes the current name of a field to `name`; false: it has not been renamed. */
static bool current_name(const char *key, char name[64]) {
    for (size_t f = 0; f < sizeof renamed_fields / sizeof renamed_fields[0]; f++) {
        size_t length = strlen(renamed_fields[f].old);
        const char *rest = key + length;
        if (strncmp(key, renamed_fields[f].old, length) != 0) continue;
        if (*rest != '\0' && strcmp(rest, "_spread") != 0 && strcmp(rest, "_spill") != 0) continue;
        snprintf(name, 64, "%s%s", renamed_fields[f].name, rest);
        return true;
    }
    return false;
}

/* Renames all such fields below `value`; `old` becomes the old name of one of them. */
static enum ps_status rename_fields(json_t *value, const char *path, char old[64], struct ps_error *error) {
    const char *key;
    void *next;
    size_t index;
    json_t *item;
    char name[64];
    json_array_foreach(value, index, item) TRY(rename_fields(item, path, old, error));
    json_object_foreach_safe(value, next, key, item) {
        TRY(rename_fields(item, path, old, error));
        if (!current_name(key, name)) continue;
        if (json_object_get(value, name) != NULL)
            return error_set(error, PS_BAD_INPUT, "%s: field '%s' is an old name of '%s', which is present, too", path, key,
                             name);
        snprintf(old, 64, "%s", key);
        json_object_set(value, name, item);
        json_object_del(value, old);
    }
    return PS_OK;
}

static enum ps_status read_old_names(json_t *root, const char *path, struct ps_error *error) {
    char old[64] = "", name[64];
    TRY(rename_fields(root, path, old, error));
    if (old[0] != '\0' && current_name(old, name))
        log_warn("%s: written by an earlier version: '%s' is called '%s' now; the old names are read as well", path, old, name);
    return PS_OK;
}

/*
 * Where jansson gets no memory, a field is missing from the document: makers of documents do not check every call, and
 * jansson's own json_pack omits an optional field then. So its allocations say when they fail, and no such document becomes
 * text.
 *
 * While it reads, jansson does not survive that: it loses characters of the string that it reads, and then looks for the
 * string's end behind it. So it gets the memory from a reserve, and no more of the text.
 */
static _Thread_local struct {
    char *begin;
    size_t size, used;
} reserve;
static json_malloc_t allocate_plain;
static json_free_t release_plain;

static void *allocate(size_t size) {
    void *memory = allocate_plain(size);
    if (memory != NULL) return memory;
    error_memory_untold = true;
    if (size > reserve.size - reserve.used) return NULL;
    memory = reserve.begin + reserve.used;
    reserve.used += (size + 15) / 16 * 16;
    if (reserve.used > reserve.size) reserve.used = reserve.size;
    return memory;
}

static void release(void *memory) {
    const uintptr_t at = (uintptr_t)memory, begin = (uintptr_t)reserve.begin;
    if (reserve.size == 0 || at < begin || at >= begin + reserve.size) release_plain(memory);
}

struct feed {
    const char *text;
    size_t left;
};

/* The next piece of the text. */
static size_t feed_next(void *buffer, size_t size, void *data) {
    enum { PIECE = 256 };
    struct feed *feed = data;
    if (size > PIECE) size = PIECE;
    if (size > feed->left) size = feed->left;
    if (error_memory_untold) size = 0;
    memcpy(buffer, feed->text, size);
    feed->text += size;
    feed->left -= size;
    return size;
}

/* Before any document is made, by whatever function of the library. */
__attribute__((constructor)) static void watch_memory(void) {
    json_get_alloc_funcs(&allocate_plain, &release_plain);
    json_set_alloc_funcs(allocate, release);
}

/* A program that closes the library (dlclose) may go on with jansson. */
__attribute__((destructor)) static void leave_memory(void) {
    json_malloc_t now;
    json_free_t free_now;
    json_get_alloc_funcs(&now, &free_now);
    if (now == allocate) json_set_alloc_funcs(allocate_plain, release_plain);
}

bool json_memory_failed(void) {
    const bool failed = error_memory_untold;
    error_memory_untold = false;
    return failed;
}

json_t *json_load_text(const char *text, size_t size, size_t flags, json_error_t *trouble) {
    const bool failed_before = error_memory_untold;
    const locale_t before = number_locale_enter();
    struct feed feed = {text, size};
    json_t *root = NULL;
    /* The longest string, its buffer doubled, and what the rest of a piece may need. */
    reserve.begin = malloc(3 * size + (1 << 16));
    reserve.size = 3 * size + (1 << 16);
    reserve.used = 0;
    error_memory_untold = reserve.begin == NULL;
    if (reserve.begin != NULL) root = json_load_callback(feed_next, &feed, flags, trouble);
    number_locale_leave(before);
    if (error_memory_untold) {
        json_decref(root);
        root = NULL;
        if (trouble != NULL) snprintf(trouble->text, sizeof trouble->text - 1, "%s", out_of_memory);
    }
    free(reserve.begin);
    reserve.begin = NULL;
    reserve.size = reserve.used = 0;
    error_memory_untold = failed_before;
    return root;
}

char *json_dump_text(const json_t *root, size_t flags) {
    const locale_t before = number_locale_enter();
    char *text = json_dumps(root, flags);
    number_locale_leave(before);
    if (!json_memory_failed()) return text;
    free(text);
    return NULL;
}

enum ps_status json_parse(const char *text, size_t size, const char *name, const char *format, json_t **root,
                          struct ps_error *error) {
    json_error_t trouble;
    const size_t mark = utf8_mark(text, size);
    json_t *document = json_load_text(text + mark, size - mark, JSON_REJECT_DUPLICATES, &trouble);
    if (document == NULL && strcmp(trouble.text, out_of_memory) == 0) return error_memory(error, name, size);
    if (document == NULL) {
        const bool nul = json_error_code(&trouble) == json_error_null_character;
        return error_set(error, PS_BAD_INPUT, "%s: line %d, column %d: %s", name, trouble.line, trouble.column,
                         nul ? "a string has the character \\u0000" : trouble.text);
    }
    if (format != NULL) {
        const bool failed_before = json_memory_failed();
        enum ps_status status = check_format(document, name, format, error);
        if (status == PS_OK) status = read_old_names(document, name, error);
        if (json_memory_failed() && status == PS_OK) status = error_memory(error, name, size);
        error_memory_untold = failed_before;
        if (status != PS_OK) {
            json_decref(document);
            return status;
        }
    }
    *root = document;
    return PS_OK;
}

enum ps_status json_read_file(const char *path, const char *format, json_t **root, struct ps_error *error) {
    char *data;
    size_t size;
    TRY(file_read(path, JSON_FILE_LIMIT, &data, &size, error));
    enum ps_status status = json_parse(data, size, path, format, root, error);
    if (status != PS_OK) json_add_line(data, error);
    free(data);
    return status;
}

/* Appends a number token with the fewest digits that give the same double; an integer is appended unchanged. */
static void add_number(struct text *out, const char *token, size_t length) {
    char *end;
    double value = number_read(token, &end);
    if (memchr(token, '.', length) != NULL && end == token + length) {
        for (int digits = 15; digits < 17; digits++) {
            char shorter[40];
            number_print(shorter, sizeof shorter, "%.*g", digits, value);
            if (number_read(shorter, NULL) != value) continue;
            text_add(out, "%s%s", shorter, strpbrk(shorter, ".e") == NULL ? ".0" : "");
            return;
        }
    }
    text_add_raw(out, token, length);
}

/* The length of the string token that starts at `quote`. */
static size_t string_length(const char *quote) {
    const char *c = quote + 1;
    while (*c != '"') c += *c == '\\' ? 2 : 1;
    return (size_t)(c + 1 - quote);
}

char *json_text(json_t *root) {
    char *dump = root != NULL ? json_dump_text(root, JSON_INDENT(2) | JSON_ENCODE_ANY) : NULL;
    json_decref(root);
    json_memory_failed(); /* a document that could not be made is reported here */
    if (dump == NULL) return NULL;
    /* jansson writes doubles with 17 digits, always: 0.10000000000000001. */
    struct text out = {0};
    for (const char *c = dump; *c != '\0';) {
        size_t number = strspn(c, "+-.0123456789eE");
        bool is_number = number > 0 && *c != 'e' && *c != 'E';
        size_t length = is_number ? number : *c == '"' ? string_length(c) : 1;
        if (is_number) add_number(&out, c, length);
        if (!is_number) text_add_raw(&out, c, length);
        c += length;
    }
    text_add_raw(&out, "\n", 1);
    free(dump);
    return text_take(&out);
}

void json_set_text(json_t *object, const char *field, const char *text) {
    if (text != NULL) json_object_set_new(object, field, json_string_nocheck(text));
}

json_t *json_whole(json_t *array, int count) {
    if (json_array_size(array) == (size_t)count) return array;
    json_decref(array);
    return NULL;
}

/* Whether all texts below a field are UTF-8. */
static enum ps_status check_texts(const char *field, const json_t *value, const char *path, struct ps_error *error) {
    const char *key;
    size_t index;
    json_t *item;
    const char *text = json_string_value(value);
    if (text != NULL && utf8_invalid(text, strlen(text)) != NULL)
        return error_set(error, PS_USAGE, "%.800s: `%s`: '%s' is not UTF-8, and cannot be kept there", path, field, text);
    json_array_foreach(value, index, item) TRY(check_texts(field, item, path, error));
    json_object_foreach((json_t *)(uintptr_t)value, key, item) TRY(check_texts(key, item, path, error));
    return PS_OK;
}

enum ps_status json_write_file(json_t *root, const char *path, struct ps_error *error) {
    const bool wrong = root == NULL && !error_memory_untold;
    enum ps_status told = check_texts("", root, path, error);
    if (told != PS_OK) {
        json_decref(root);
        return told;
    }
    char *text = json_text(root);
    if (wrong) return error_set(error, PS_FAILED, "%s: a number in it is not finite, or a text not UTF-8", path);
    TRY(memory_check(text, path, error));
    enum ps_status status = file_write(path, text, strlen(text), error);
    free(text);
    return status;
}

enum ps_status json_object_fields(const struct json_place *place, const char *const *fields, size_t count,
                                  struct ps_error *error) {
    if (!json_is_object(place->value)) return json_error(place, error, "must be an object, not %s", kind_of(place->value));
    const char *key;
    json_t *value;
    json_object_foreach(place->value, key, value) {
        bool known = false;
        for (size_t i = 0; i < count && !known; i++) known = strcmp(key, fields[i]) == 0;
        if (known) continue;
        const char *near = nearest_name(key, fields, count);
        json_error(place, error, "field '%s' is not known%s%s%s", key, near != NULL ? "; did you mean '" : "",
                   near != NULL ? near : "", near != NULL ? "'?" : "");
        error_names(error, fields, count);
        return PS_BAD_INPUT;
    }
    return PS_OK;
}

enum ps_status json_field(const struct json_place *place, const char *name, bool required, struct json_place *field,
                          struct ps_error *error) {
    if (!json_is_object(place->value)) return json_error(place, error, "must be an object, not %s", kind_of(place->value));
    struct json_place found = {.value = json_object_get(place->value, name)};
    snprintf(found.path, sizeof found.path, "%.200s%c%.50s", place->path, at_root(place) ? ' ' : '.', name);
    if (found.value == NULL && required) return json_error(&found, error, "is missing");
    *field = found;
    return PS_OK;
}

enum ps_status json_item(const struct json_place *array, size_t index, struct json_place *item, struct ps_error *error) {
    size_t length;
    TRY(json_array_length(array, &length, error));
    struct json_place found = {.value = json_array_get(array->value, index)};
    snprintf(found.path, sizeof found.path, "%.200s%s[%zu]", array->path, at_root(array) ? " " : "", index);
    if (found.value == NULL) return json_error(&found, error, "is missing; the array has %zu items", length);
    *item = found;
    return PS_OK;
}

enum ps_status json_array_length(const struct json_place *place, size_t *length, struct ps_error *error) {
    if (!json_is_array(place->value)) return json_error(place, error, "must be an array, not %s", kind_of(place->value));
    *length = json_array_size(place->value);
    return PS_OK;
}

/* "from 1 to 8", "of at least 1", "of at most 8" or nothing. */
static void describe_range(char out[80], bool has_low, bool has_high, const char *low, const char *high) {
    if (has_low && has_high) snprintf(out, 80, " from %s to %s", low, high);
    if (has_low && !has_high) snprintf(out, 80, " of at least %s", low);
    if (!has_low && has_high) snprintf(out, 80, " of at most %s", high);
    if (!has_low && !has_high) out[0] = '\0';
}

enum ps_status json_get_integer(const struct json_place *place, const char *name, bool required, int64_t low, int64_t high,
                                int64_t *out, struct ps_error *error) {
    struct json_place field;
    TRY(json_field(place, name, required, &field, error));
    if (field.value == NULL) return PS_OK;
    char range[80], low_text[24], high_text[24];
    snprintf(low_text, sizeof low_text, "%lld", (long long)low);
    snprintf(high_text, sizeof high_text, "%lld", (long long)high);
    describe_range(range, low != INT64_MIN, high != INT64_MAX, low_text, high_text);
    if (!json_is_integer(field.value)) {
        return json_error(&field, error, "must be an integer%s, not %s", range, kind_of(field.value));
    }
    int64_t value = json_integer_value(field.value);
    if (value < low || value > high) return json_error(&field, error, "%lld is not an integer%s", (long long)value, range);
    *out = value;
    return PS_OK;
}

enum ps_status json_get_int(const struct json_place *place, const char *name, bool required, int low, int high, int *out,
                            struct ps_error *error) {
    int64_t value = required ? 0 : *out;
    TRY(json_get_integer(place, name, required, low, high, &value, error));
    *out = (int)value;
    return PS_OK;
}

enum ps_status json_get_number(const struct json_place *place, const char *name, bool required, double low, double high,
                               double *out, struct ps_error *error) {
    struct json_place field;
    TRY(json_field(place, name, required, &field, error));
    if (field.value == NULL) return PS_OK;
    char range[80], low_text[32], high_text[32];
    number_print(low_text, sizeof low_text, "%g", low);
    number_print(high_text, sizeof high_text, "%g", high);
    describe_range(range, isfinite(low), isfinite(high), low_text, high_text);
    if (!json_is_number(field.value)) {
        return json_error(&field, error, "must be a number%s, not %s", range, kind_of(field.value));
    }
    double value = json_number_value(field.value);
    if (!(value >= low && value <= high)) return json_error(&field, error, "%g is not a number%s", value, range);
    *out = value;
    return PS_OK;
}

enum ps_status json_get_string(const struct json_place *place, const char *name, bool required, const char **out,
                               struct ps_error *error) {
    struct json_place field;
    TRY(json_field(place, name, required, &field, error));
    if (field.value == NULL) return PS_OK;
    if (!json_is_string(field.value)) return json_error(&field, error, "must be a string, not %s", kind_of(field.value));
    *out = json_string_value(field.value);
    return PS_OK;
}

enum ps_status json_get_bool(const struct json_place *place, const char *name, bool required, bool *out,
                             struct ps_error *error) {
    struct json_place field;
    TRY(json_field(place, name, required, &field, error));
    if (field.value == NULL) return PS_OK;
    if (!json_is_boolean(field.value)) return json_error(&field, error, "must be true or false, not %s", kind_of(field.value));
    *out = json_is_true(field.value);
    return PS_OK;
}

void json_set_finite(json_t *object, const char *field, double number) {
    if (isfinite(number)) json_object_set_new(object, field, json_real(number));
}

/* -------------------------------------------------------------------- lines */

/*
 * The line of a field with a wrong value in a JSON file without syntax errors. jansson does not keep positions, so the text is
 * searched again for the field that the message names: "plan.json: stages[2].layers: ..." This is done only after an error.
 */

/* The text ends with a zero byte, at which each of these functions stops. */
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
        /* The other characters of a number or a word. */
        while (isalnum((unsigned char)*c) || *c == '.' || *c == '-' || *c == '+') c++;
    } while (*c && depth > 0);
    return c;
}

/* The value of an object's field or, if `name` is NULL, of an array's item; NULL: there is none. */
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

/* Follows the path to the field, or to the last value on the path that exists. */
static const char *follow(const char *text, const char *path) {
    const char *position = skip_space(text), *next = position;
    while (next && *path && *path != ':') {
        char *end;
        if (*path == '[') {
            next = enter(position, NULL, 0, strtol(path + 1, &end, 10));
            path = *end == ']' ? end + 1 : end;
        } else {
            path += *path == '.';
            size_t length = strcspn(path, ".[: ");
            if (length == 0) break;
            next = enter(position, path, length, -1);
            path += length;
        }
        if (next) position = next;
    }
    return position;
}

void json_add_line(const char *text, struct ps_error *error) {
    if (!error || error->status != PS_BAD_INPUT || strstr(error->message, ": line ")) return;
    const char *path = strstr(error->message, ": ");
    size_t used = strlen(error->message);
    int line = 1;
    text += utf8_mark(text, strlen(text));
    for (const char *field = follow(text, path ? path + 2 : ""), *c = text; c < field; c++) line += *c == '\n';
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
