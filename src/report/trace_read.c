/*
 * Reading a trace back that chrome.c wrote: computations only, sorted as a timeline has them. What other tools may have added
 * is left alone.
 */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "plan/plan.h"
#include "report/report.h"

#define TIME_MAX_US 1e15

static enum ps_status find_opcode(const struct json_place *place, const char *text, enum opcode *opcode,
                                  struct ps_error *error) {
    for (int op = 0; op < OPCODE_COUNT; op++) {
        if (strcmp(opcode_table[op].text, text) != 0) continue;
        *opcode = (enum opcode)op;
        return PS_OK;
    }
    return json_error(place, error, "op '%s' is no instruction", text);
}

static enum ps_status read_event(const struct json_place *place, const struct timeline *timeline, struct timeline_event *event,
                                 struct ps_error *error) {
    struct json_place args;
    const char *text;
    enum opcode op;
    int stage, micro_batch;
    double start_us, length_us;
    TRY(json_field(place, "args", true, &args, error));
    int thread;
    TRY(json_get_int(place, "tid", true, 0, timeline->workers * timeline->lanes - 1, &thread, error));
    event->worker = thread % timeline->workers;
    TRY(json_get_number(place, "ts", true, 0, TIME_MAX_US, &start_us, error));
    TRY(json_get_number(place, "dur", true, 0, TIME_MAX_US, &length_us, error));
    TRY(json_get_string(&args, "op", true, &text, error));
    TRY(json_get_int(&args, "stage", true, 0, INT16_MAX, &stage, error));
    TRY(json_get_int(&args, "micro_batch", true, 0, INT32_MAX, &micro_batch, error));
    TRY(find_opcode(&args, text, &op, error));
    event->instruction = instruction_make(op, stage, micro_batch);
    event->start_s = start_us * 1e-6;
    event->end_s = (start_us + length_us) * 1e-6;
    return PS_OK;
}

static bool is_computation(const json_t *event) {
    const char *phase = json_string_value(json_object_get(event, "ph"));
    const json_t *process = json_object_get(event, "pid");
    return phase && strcmp(phase, "X") == 0 && json_is_integer(process) && json_integer_value(process) == TRACE_WORKERS;
}

static int by_worker_and_time(const void *a, const void *b) {
    const struct timeline_event *one = a, *other = b;
    if (one->worker != other->worker) return one->worker < other->worker ? -1 : 1;
    return one->start_s < other->start_s ? -1 : one->start_s > other->start_s;
}

/* What each worker took, where the trace says so. */
static enum ps_status read_memory(const struct json_place *about, struct timeline *timeline, struct ps_error *error) {
    struct json_place list, item;
    size_t count;
    TRY(json_field(about, "memory_bytes", false, &list, error));
    if (!list.value) return PS_OK;
    TRY(json_array_length(&list, &count, error));
    if (count != (size_t)timeline->workers)
        return json_error(&list, error, "%zu figures for %d workers", count, timeline->workers);
    timeline->memory_bytes = calloc(count, sizeof *timeline->memory_bytes);
    if (!timeline->memory_bytes) return error_memory(error, "a trace", count * sizeof *timeline->memory_bytes);
    for (size_t w = 0; w < count; w++) {
        TRY(json_item(&list, w, &item, error));
        if (!json_is_integer(item.value) || json_integer_value(item.value) < 0)
            return json_error(&item, error, "is no number of bytes");
        timeline->memory_bytes[w] = json_integer_value(item.value);
    }
    return PS_OK;
}

static enum ps_status read_document(const struct json_place *root, struct timeline *timeline, struct ps_error *error) {
    struct json_place events, about, item;
    size_t count;
    TRY(json_field(root, "otherData", true, &about, error));
    TRY(json_get_int(&about, "workers", true, 1, PLAN_WORKERS_MAX, &timeline->workers, error));
    timeline->lanes = 1;
    TRY(json_get_int(&about, "lanes", false, 1, 2, &timeline->lanes, error));
    TRY(json_get_int(&about, "batches", true, 0, INT32_MAX, &timeline->batches, error));
    TRY(json_get_int(&about, "micro_batches", true, 0, INT32_MAX, &timeline->micro_batches, error));
    TRY(read_memory(&about, timeline, error));
    TRY(json_field(root, "traceEvents", true, &events, error));
    TRY(json_array_length(&events, &count, error));
    for (size_t i = 0; i < count; i++) {
        struct timeline_event event;
        TRY(json_item(&events, i, &item, error));
        if (!is_computation(item.value)) continue;
        TRY(read_event(&item, timeline, &event, error));
        TRY(timeline_add(timeline, &event, error));
    }
    if (timeline->event_count == 0) return json_error(&events, error, "holds no computation");
    qsort(timeline->events, (size_t)timeline->event_count, sizeof *timeline->events, by_worker_and_time);
    return PS_OK;
}

enum ps_status report_trace_read(const char *path, struct timeline *timeline, struct ps_error *error) {
    json_t *document;
    struct timeline read = {0};
    TRY(json_read_file(path, NULL, &document, error));
    struct json_place root = json_root(document, path);
    enum ps_status status = read_document(&root, &read, error);
    json_decref(document);
    if (status != PS_OK) {
        timeline_free(&read);
        return status;
    }
    *timeline = read;
    return PS_OK;
}
