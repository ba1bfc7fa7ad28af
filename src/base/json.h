/*
 * Strict reading of Penstock's JSON files: readers list the fields of each object, an unknown field is an error that suggests
 * the nearest name, and messages contain the path of the field ("plan.json: stages[2].layers: ..."). jansson parses and writes
 * JSON.
 */
#ifndef PENSTOCK_BASE_JSON_H
#define PENSTOCK_BASE_JSON_H

#include <jansson.h>

#include "base/error.h"

/* Far above the size of any file that Penstock writes; a wrong file must not fill the memory. */
#define JSON_FILE_LIMIT ((size_t)1 << 30)

/* json_loadb and json_dumps, with a decimal point in numbers whatever the program's locale. The second also returns NULL if
 * jansson got no memory since this thread's last text: something may be missing from the document, or `root` is NULL. */
json_t *json_load_text(const char *text, size_t size, size_t flags, json_error_t *trouble);
char *json_dump_text(const json_t *root, size_t flags);
/* Whether jansson got no memory in this thread since the last text, call, or PS_OUT_OF_MEMORY, for documents that are not
 * written as text. Who makes a document need not check: it ends in one of these, or in json_text, json_write_file or
 * json_table, or an error is told that memory ran out. */
bool json_memory_failed(void);

/* Parses a file; syntax errors name line and column. `format` is the required value of its "format" field, with "version": 1;
 * NULL: neither is checked. */
enum ps_status json_read_file(const char *path, const char *format, json_t **root, struct ps_error *error);
/* The same for a text in memory; `name` is its name in messages. */
enum ps_status json_parse(const char *text, size_t size, const char *name, const char *format, json_t **root,
                          struct ps_error *error);
/* Adds " (line 12)" to a PS_BAD_INPUT message that names a field, "FILE: stages[2].layers: ...": the line of the field or, if
 * it is missing, of the object that should have it. The first function searches `text`, which ends with a zero byte; the second
 * reads the file again, and returns `status`. */
void json_add_line(const char *text, struct ps_error *error);
enum ps_status json_tell_line(const char *path, enum ps_status status, struct ps_error *error);
/* The document as text with an indentation of two spaces and a final newline (free()); consumes the reference `root`. Reading a
 * number back gives the same double. */
char *json_text(json_t *root);
/* Sets the field of an object; `text` NULL: it stays without. One that is not UTF-8 is set, too, so that no file is written
 * without it: neither as text nor by json_write_file can such a document be written. */
void json_set_text(json_t *object, const char *field, const char *text);
/* Returns `array` if it has `count` items; else, since memory ran out, frees it and returns NULL, so that json_pack fails and
 * no incomplete file is written. */
json_t *json_whole(json_t *array, int count);
/* Writes the text of json_text to a file by file_write. Consumes `root`; PS_FAILED: NULL though there was memory, since a
 * number is not finite or a text not UTF-8; PS_USAGE: a text that json_set_text set is not. */
enum ps_status json_write_file(json_t *root, const char *path, struct ps_error *error);

/* A place in a document: the value, and the path that messages name. */
struct json_place {
    json_t *value; /* borrowed; NULL if an optional field is missing */
    char path[256];
};

struct json_place json_root(json_t *root, const char *file);
/* Fails unless `place` is an object whose fields are all among `fields`. */
enum ps_status json_object_fields(const struct json_place *place, const char *const *fields, size_t count,
                                  struct ps_error *error);
/* A field of an object. Missing: an error if `required`, else OK with value NULL. */
enum ps_status json_field(const struct json_place *place, const char *name, bool required, struct json_place *field,
                          struct ps_error *error);
enum ps_status json_item(const struct json_place *array, size_t index, struct json_place *item, struct ps_error *error);
/* The length of an array; an error if the value is not an array. */
enum ps_status json_array_length(const struct json_place *place, size_t *length, struct ps_error *error);

/* Typed reads of a field with the accepted range in the message. If the field is missing and not `required`, the output is
 * unchanged. Strings are borrowed from the document. */
enum ps_status json_get_integer(const struct json_place *place, const char *name, bool required, int64_t low, int64_t high,
                                int64_t *out, struct ps_error *error);
enum ps_status json_get_int(const struct json_place *place, const char *name, bool required, int low, int high, int *out,
                            struct ps_error *error);
enum ps_status json_get_number(const struct json_place *place, const char *name, bool required, double low, double high,
                               double *out, struct ps_error *error);
enum ps_status json_get_string(const struct json_place *place, const char *name, bool required, const char **out,
                               struct ps_error *error);
enum ps_status json_get_bool(const struct json_place *place, const char *name, bool required, bool *out,
                             struct ps_error *error);
/* A JSON error at a place: "PATH: MESSAGE", PS_BAD_INPUT. */
enum ps_status json_error(const struct json_place *place, struct ps_error *error, const char *format, ...) PS_PRINTF(3, 4);

/* Sets a field if the number is finite; JSON has no representation of others. */
void json_set_finite(json_t *object, const char *field, double number);

/* -------------------------------------------------------------- tables from JSON */

struct text;

/* A column of a table: its heading, the field that it shows ("idle_s.dependency", below the row; "": the row itself;
 * NULL: the row's number), how, and what stands where there is no such field (NULL: "-"). */
struct json_column {
    const char *heading, *path;
    void (*show)(struct text *out, const json_t *value); /* NULL: a number */
    int digits;                                          /* of a number after the point */
    double factor;                                       /* that it is multiplied by; 0: 1 */
    const char *unit;                                    /* behind it; NULL: none */
    const char *missing;
    int first; /* path NULL: the row's number, counted from here */
};

#define JSON_COLUMN(head, field, shown, ...)                                                                                   \
    { .heading = head, .path = field, .show = shown, __VA_ARGS__ }
#define JSON_NUMBER(head, field, places) JSON_COLUMN(head, field, NULL, .digits = places)
#define JSON_PERCENT(head, field, places) JSON_COLUMN(head, field, NULL, .digits = places, .factor = 100, .unit = " %")

void json_show_text(struct text *out, const json_t *value);
void json_show_integer(struct text *out, const json_t *value);
void json_show_seconds(struct text *out, const json_t *value);
void json_show_bytes(struct text *out, const json_t *value);

/* Adds the headings and a row for each item of `array`, as text_add_table wants them; one more row, with `number` in place of
 * the rows' own. */
void json_table(struct text *rows, const json_t *array, const struct json_column *columns, size_t count);
void json_table_row(struct text *rows, const char *number, const json_t *row, const struct json_column *columns, size_t count);

#endif
