/* Structs as documents keep them; see fields.h. */
#include "base/fields.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t sizes[] = {
    [FIELD_TEXT] = sizeof(char *),     [FIELD_INT] = sizeof(int),   [FIELD_INT64] = sizeof(int64_t),
    [FIELD_UINT64] = sizeof(uint64_t), [FIELD_BOOL] = sizeof(bool), [FIELD_SWITCH] = sizeof(int),
    [FIELD_DOUBLE] = sizeof(double),
};

/* Any member, by its kind. */
union value {
    const char *text;
    int integer;
    int64_t large;
    uint64_t seed;
    bool flag;
    double number;
};

static union value value_of(const void *of, const struct field *field) {
    union value value = {0};
    memcpy(&value, (const char *)of + field->offset, sizes[field->kind]);
    return value;
}

/* NULL: it is left out. */
static json_t *value_json(enum field_kind kind, const union value *value) {
    char digits[32];
    switch (kind) {
    case FIELD_TEXT:
        return value->text ? json_string_nocheck(value->text) : NULL; /* see json_set_text */
    case FIELD_INT:
        return json_integer(value->integer);
    case FIELD_INT64:
        return json_integer((json_int_t)value->large);
    case FIELD_UINT64: /* JSON integers end at 2^63 */
        snprintf(digits, sizeof digits, "%llu", (unsigned long long)value->seed);
        return json_string(digits);
    case FIELD_BOOL:
        return json_boolean(value->flag);
    case FIELD_SWITCH:
        return json_boolean(value->integer);
    case FIELD_DOUBLE:
        return json_real(value->number); /* NULL: it is not finite */
    }
    return NULL;
}

void fields_add(json_t *document, const void *of, const struct fields *fields) {
    for (size_t f = 0; f < fields->count; f++) {
        const union value value = value_of(of, &fields->list[f]);
        json_t *json = value_json(fields->list[f].kind, &value);
        if (json) json_object_set_new(document, fields->list[f].name, json);
    }
}

static enum ps_status read_value(const struct json_place *place, const struct field *field, bool required, union value *value,
                                 struct ps_error *error) {
    const char *digits = NULL;
    bool on = false;
    switch (field->kind) {
    case FIELD_TEXT:
        return json_get_string(place, field->name, false, &value->text, error);
    case FIELD_INT:
        return json_get_int(place, field->name, required, 0, INT32_MAX, &value->integer, error);
    case FIELD_INT64:
        return json_get_integer(place, field->name, required, 0, INT64_MAX, &value->large, error);
    case FIELD_UINT64:
        TRY(json_get_string(place, field->name, required, &digits, error));
        if (digits) value->seed = strtoull(digits, NULL, 10);
        return PS_OK;
    case FIELD_BOOL:
        return json_get_bool(place, field->name, required, &value->flag, error);
    case FIELD_SWITCH:
        TRY(json_get_bool(place, field->name, required, &on, error));
        if (json_object_get(place->value, field->name)) value->integer = on;
        return PS_OK;
    case FIELD_DOUBLE:
        value->number = NAN;
        return json_get_number(place, field->name, false, -INFINITY, INFINITY, &value->number, error);
    }
    return PS_OK;
}

enum ps_status fields_read(const struct json_place *place, const struct fields *fields, bool required, void *of,
                           struct ps_error *error) {
    for (size_t f = 0; f < fields->count; f++) {
        const struct field *field = &fields->list[f];
        union value value = value_of(of, field);
        TRY(read_value(place, field, required, &value, error));
        memcpy((char *)of + field->offset, &value, sizes[field->kind]);
    }
    return PS_OK;
}

static bool is_given(const void *of, const struct field *field) {
    static const union value nothing;
    const union value value = value_of(of, field);
    return memcmp(&value, &nothing, sizes[field->kind]) != 0;
}

const char *fields_given(const void *of, const struct fields *fields) {
    for (size_t f = 0; f < fields->count; f++)
        if (is_given(of, &fields->list[f])) return fields->list[f].name;
    return NULL;
}

void fields_merge(const void *from, const struct fields *fields, void *to) {
    for (size_t f = 0; f < fields->count; f++) {
        const struct field *field = &fields->list[f];
        if (is_given(from, field)) memcpy((char *)to + field->offset, (const char *)from + field->offset, sizes[field->kind]);
    }
}
