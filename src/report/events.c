/*
 * Event files of TensorBoard, written without its libraries. A file is a list of TFRecords: the length of the data as a
 * little-endian uint64, the masked CRC-32C of these eight bytes, the data, and the masked CRC-32C of the data. The data are an
 * `Event` of protocol buffers (tensorflow/core/util/event.proto), of which these fields are used:
 *
 *   1 wall_time (double)   2 step (int64)   3 file_version (string), in the first record
 *   5 summary: 1 value: 1 tag (string), 2 simple_value (float)
 *   7 session_log: 1 status; 1 (START) tells readers to forget what earlier files have from this step on
 */
#include "report/events.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/text.h"
#include "report/page.h"

enum { WORKERS_SHOWN = 64 };

struct event_file {
    FILE *stream;
    char path[4096];
    int workers;                              /* of the last line that had their times; 0: there was none */
    double training_s, busy_s[WORKERS_SHOWN]; /* as that line said */
};

static const struct {
    const char *field, *tag;
} scalars[] = {
    {"loss", "loss/training"},
    {"valid_loss", "loss/validation"},
    {"accuracy", "accuracy/training"},
    {"valid_accuracy", "accuracy/validation"},
    {"top5", "top5/training"},
    {"valid_top5", "top5/validation"},
    {"perplexity", "perplexity/training"},
    {"valid_perplexity", "perplexity/validation"},
    {"valid_bleu", "bleu/validation"},
    {"lr", "learning_rate"},
    {"samples_per_s", "samples_per_s"},
    {"epoch", "epoch"},
};

/* ---------------------------------------------------------------- records and messages */

/* CRC-32C (Castagnoli), bit by bit: a few hundred bytes every second or so. */
static uint32_t masked_checksum(const void *data, size_t size) {
    const unsigned char *bytes = data;
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static void add_little_endian(struct text *out, uint64_t value, int size) {
    for (int i = 0; i < size; i++) text_add_raw(out, &(char){(char)(value >> 8 * i)}, 1);
}

static void add_varint(struct text *out, uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_add_raw(out, &(char){(char)(value | 0x80)}, 1);
    text_add_raw(out, &(char){(char)value}, 1);
}

enum wire_type { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };
static void add_key(struct text *out, int field, enum wire_type type) { add_varint(out, (uint64_t)(field << 3 | (int)type)); }

static void add_bytes(struct text *out, int field, const char *data, size_t size) {
    add_key(out, field, BYTES);
    add_varint(out, size);
    text_add_raw(out, data, size);
}

/* A scalar in a summary. */
static void add_scalar(struct text *summary, const char *tag, double number) {
    const float value = (float)number;
    uint32_t bits;
    struct text one = {0};
    memcpy(&bits, &value, sizeof bits);
    add_bytes(&one, 1, tag, strlen(tag));
    add_key(&one, 2, FIXED32);
    add_little_endian(&one, bits, 4);
    add_bytes(summary, 1, one.data ? one.data : "", one.length);
    summary->failed = summary->failed || one.failed;
    text_free(&one);
}

/* An event with one more field; empties `content`. */
static enum ps_status write_event(struct event_file *file, int64_t step, int field, struct text *content,
                                  struct ps_error *error) {
    struct text event = {0}, record = {0};
    struct timespec now;
    double wall_s;
    uint64_t bits;
    clock_gettime(CLOCK_REALTIME, &now);
    wall_s = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    memcpy(&bits, &wall_s, sizeof bits);
    add_key(&event, 1, FIXED64);
    add_little_endian(&event, bits, 8);
    add_key(&event, 2, VARINT);
    add_varint(&event, (uint64_t)step);
    add_bytes(&event, field, content->data ? content->data : "", content->length);
    add_little_endian(&record, event.length, 8);
    add_little_endian(&record, masked_checksum(record.data, record.length), 4);
    text_add_raw(&record, event.data ? event.data : "", event.length);
    add_little_endian(&record, masked_checksum(event.data, event.length), 4);
    record.failed = record.failed || event.failed || content->failed;
    enum ps_status status = text_status(&record, "an event", error);
    if (status == PS_OK && (fwrite(record.data, 1, record.length, file->stream) != record.length || fflush(file->stream) != 0))
        status = error_set(error, PS_IO, "%s: cannot write: %s", file->path, strerror(errno));
    text_free(&event);
    text_free(&record);
    text_free(content);
    return status;
}

/* ------------------------------------------------------------------------------ files */

enum ps_status event_file_open(const char *directory, int64_t step, struct event_file **file, struct ps_error *error) {
    static const char version[] = "brain.Event:2";
    struct event_file *made;
    TRY(memory_new(&made, 1, "an event file", error));
    /* The time orders the files of a run; that of one that is there is not taken again. */
    for (long long second = (long long)time(NULL), tries = 0; !made->stream && tries < 100; second++, tries++) {
        char name[64];
        snprintf(name, sizeof name, "events.out.tfevents.%lld.penstock", second);
        file_join(made->path, directory, name);
        made->stream = fopen(made->path, "wxe");
        if (!made->stream && errno != EEXIST) break;
    }
    if (!made->stream) {
        const enum ps_status status = error_set(error, PS_IO, "%s: cannot write: %s", made->path, strerror(errno));
        free(made);
        return status;
    }
    struct text content = {0};
    text_add_raw(&content, version, sizeof version - 1);
    enum ps_status status = write_event(made, 0, 3, &content, error);
    if (status == PS_OK && step > 0) {
        add_key(&content, 1, VARINT);
        add_varint(&content, 1);
        status = write_event(made, step + 1, 7, &content, error);
    }
    made->training_s = step > 0 ? NAN : 0;
    if (status == PS_OK)
        *file = made;
    else
        event_file_close(made);
    return status;
}

void event_file_close(struct event_file *file) {
    if (!file) return;
    fclose(file->stream);
    free(file);
}

/* The share of the training since the line before in which each worker computed nothing. */
static void add_idle(struct event_file *file, const json_t *line, struct text *summary) {
    const json_t *busy = json_object_get(line, "busy_s"), *training = json_object_get(line, "training_s");
    if (!json_is_array(busy) || !json_is_number(training)) return;
    const double passed_s = json_number_value(training) - file->training_s;
    for (size_t w = 0; w < json_array_size(busy) && w < WORKERS_SHOWN; w++) {
        const double busy_s = json_number_value(json_array_get(busy, w));
        char tag[32];
        snprintf(tag, sizeof tag, "idle/worker_%zu", w);
        if (passed_s > 0) add_scalar(summary, tag, fmax(0, 1 - (busy_s - file->busy_s[w]) / passed_s));
        file->busy_s[w] = busy_s;
    }
    file->training_s = json_number_value(training);
}

enum ps_status event_file_add(struct event_file *file, const json_t *line, struct ps_error *error) {
    struct text summary = {0};
    for (size_t s = 0; s < sizeof scalars / sizeof *scalars; s++) {
        const json_t *value = json_object_get(line, scalars[s].field);
        if (json_is_number(value)) add_scalar(&summary, scalars[s].tag, json_number_value(value));
    }
    add_idle(file, line, &summary);
    return write_event(file, json_integer_value(json_object_get(line, "step")), 5, &summary, error);
}

/* -------------------------------------------------------------------------------- CSV */

static void add_number(struct text *out, const json_t *value) {
    char number[40] = "";
    if (json_is_integer(value)) snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
    if (json_is_real(value)) number_print(number, sizeof number, "%.9g", json_real_value(value));
    text_add(out, "%s", number);
}

/* A column for each field that a line has, in the order of their first lines; of a list one for each worker. */
static void find_columns(const json_t *lines, json_t *columns) {
    const char *key;
    json_t *line, *value;
    size_t i;
    json_array_foreach(lines, i, line) json_object_foreach(line, key, value) {
        const json_t *known = json_object_get(columns, key);
        const json_int_t width = json_is_array(value) ? (json_int_t)json_array_size(value) : 0;
        if (!known || json_integer_value(known) < width) json_object_set_new(columns, key, json_integer(width));
    }
}

enum ps_status ps_report_csv(const char *run, const char *path, struct ps_error *error) {
    struct text out = {0};
    json_t *lines, *columns = json_object(), *line, *width;
    const char *key;
    size_t i;
    char place[4096];
    if (!file_exists(file_join(place, run, "config.json"))) {
        json_decref(columns);
        return error_set(error, PS_BAD_INPUT, "%s: is not a run's directory: there is no config.json", run);
    }
    enum ps_status status = report_log_read(run, &lines, error);
    if (status != PS_OK) {
        json_decref(columns);
        return status;
    }
    find_columns(lines, columns);
    json_object_foreach(columns, key, width) {
        const json_int_t count = json_integer_value(width);
        if (count == 0) text_add(&out, "%s%s", out.length ? "," : "", key);
        for (json_int_t w = 0; w < count; w++) text_add(&out, "%s%s_%lld", out.length ? "," : "", key, (long long)w);
    }
    text_add(&out, "\n");
    json_array_foreach(lines, i, line) {
        bool first = true;
        json_object_foreach(columns, key, width) {
            const json_t *value = json_object_get(line, key);
            const json_int_t count = json_integer_value(width);
            for (json_int_t w = 0; w < (count ? count : 1); w++, first = false) {
                if (!first) text_add(&out, ",");
                add_number(&out, count ? json_array_get(value, (size_t)w) : value);
            }
        }
        text_add(&out, "\n");
    }
    json_decref(columns);
    json_decref(lines);
    status = file_write_text(path, &out, "a log as CSV", error);
    text_free(&out);
    return status;
}
