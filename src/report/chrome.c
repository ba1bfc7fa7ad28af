/*
 * A timeline in Chrome's trace event format, which Perfetto and chrome://tracing open: process 0 holds the workers, process 1
 * the links, one thread each; arrows lead from the computation that made a block over its transfer to the one that reads it.
 * Times are microseconds. The data for `simulate --against` are in each computation's args (op, stage, micro_batch) and in
 * otherData (mini-batches of the segment, micro-batches in each).
 *
 * Format: "Trace Event Format" (Chromium project); complete events (X), flow events (s, t, f), counters (C), metadata (M).
 */
#include "report/report.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "plan/plan.h"
#include "program/routes.h"

/* Of the instructions that compute. */
static const char *const categories[ACTION_COUNT] = {
    [ACTION_FORWARD] = "forward",         [ACTION_BACKWARD] = "backward",
    [ACTION_BACKWARD_INPUT] = "backward", [ACTION_BACKWARD_WEIGHT] = "weights",
    [ACTION_RECOMPUTE] = "recompute",     [ACTION_UPDATE] = "update",
    [ACTION_PREDICT] = "predict",         [ACTION_ENCODE] = "encode",
    [ACTION_DECODE] = "decode",           [ACTION_ROUND] = "encode",
};

struct tracing {
    struct text text;
    const struct timeline *timeline;
    struct timeline_index index;
    bool begun;
};

const char *report_traffic_name(int traffic) { return traffic == TRAFFIC_SUM ? "all-reduce" : traffic_table[traffic].name; }

static double microseconds(double seconds) { return seconds * 1e6; }

/* Starts the next event. */
static struct text *next(struct tracing *tracing) {
    text_add(&tracing->text, tracing->begun ? ",\n" : "\n");
    tracing->begun = true;
    return &tracing->text;
}

/* Any string as JSON, quotes included. */
static void add_string(struct text *text, const char *words) {
    json_t *string = json_string(words);
    char *quoted = json_dump_text(string, JSON_ENCODE_ANY);
    if (quoted)
        text_add(text, "%s", quoted);
    else
        text->failed = true;
    free(quoted);
    json_decref(string);
}

static void add_name(struct tracing *tracing, int process, int thread, const char *name) {
    struct text *text = next(tracing);
    text_add(text, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":",
             thread < 0 ? "process_name" : "thread_name", process, thread < 0 ? 0 : thread);
    add_string(text, name);
    text_add(text, "}}");
    if (thread >= 0)
        text_add(next(tracing),
                 "{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":%d,\"tid\":%d,\"args\":{\"sort_index\":%d}}", process,
                 thread, thread);
}

static void add_slot(struct text *text, const char *name, int value) {
    if (value != NO_SLOT) text_add(text, ",\"%s\":%d", name, value);
}

/* The thread that shows an event: the worker's or, for its second lane, a thread after those of all workers. */
static int thread_of(const struct timeline *timeline, const struct timeline_event *event) {
    return timeline_lane(timeline, event) * timeline->workers + event->worker;
}

static void add_event(struct tracing *tracing, const struct timeline_event *event) {
    const struct instruction *instruction = &event->instruction;
    const struct opcode_info *info = &opcode_table[instruction->op];
    struct text *text = next(tracing);
    text_add(text, "{\"ph\":\"X\",\"name\":\"%s%d\",\"cat\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f", info->text,
             instruction->micro_batch, categories[info->action], TRACE_WORKERS, thread_of(tracing->timeline, event),
             microseconds(event->start_s), microseconds(event->end_s - event->start_s));
    text_add(text, ",\"args\":{\"op\":\"%s\",\"stage\":%d,\"micro_batch\":%d", info->text, instruction->stage,
             instruction->micro_batch);
    add_slot(text, "slot", instruction->slot);
    add_slot(text, "to", instruction->to);
    add_slot(text, "predict_to", instruction->predict_to);
    if (instruction->predict_to != NO_SLOT) text_add(text, ",\"ahead\":%d", instruction->ahead);
    text_add(text, "}}");
}

static void add_flow(struct tracing *tracing, const char *phase, int id, int process, int thread, double start_s,
                     double end_s) {
    /* The middle of a box is inside it: viewers find the ends of an arrow by their times. */
    text_add(next(tracing),
             "{\"ph\":\"%s\",%s\"name\":\"transfer\",\"cat\":\"transfer\",\"id\":%d,\"pid\":%d,\"tid\":%d,\"ts\":%.3f}", phase,
             *phase == 'f' ? "\"bp\":\"e\"," : "", id, process, thread, microseconds((start_s + end_s) / 2));
}

static void add_transfer(struct tracing *tracing, int id) {
    const struct timeline_transfer *transfer = &tracing->timeline->transfers[id];
    int link = transfer->from * tracing->timeline->workers + transfer->to;
    text_add(next(tracing), "{\"ph\":\"X\",\"name\":\"%s %d\",\"cat\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f",
             report_traffic_name(transfer->traffic), transfer->micro_batch, report_traffic_name(transfer->traffic), TRACE_LINKS,
             link, microseconds(transfer->start_s), microseconds(transfer->end_s - transfer->start_s));
    text_add(&tracing->text, ",\"args\":{\"from\":%d,\"to\":%d,\"stage\":%d,\"micro_batch\":%d,\"bytes\":%lld}}",
             transfer->from, transfer->to, transfer->stage, transfer->micro_batch, (long long)transfer->bytes);
    /* Blocks of updates belong to a mini-batch, not to a micro-batch. */
    if (transfer->traffic == TRAFFIC_WEIGHTS || transfer->traffic == TRAFFIC_SUM) return;
    const struct traffic_info *traffic = &traffic_table[transfer->traffic];
    const int from = timeline_index_find(&tracing->index, transfer->stage, transfer->micro_batch, !traffic->from_forward);
    const int to =
        timeline_index_find(&tracing->index, transfer->stage + traffic->step, transfer->micro_batch, !traffic->to_forward);
    if (from == TIMELINE_NONE || to == TIMELINE_NONE) return;
    const struct timeline_event *maker = &tracing->timeline->events[from], *taker = &tracing->timeline->events[to];
    add_flow(tracing, "s", id, TRACE_WORKERS, thread_of(tracing->timeline, maker), maker->start_s, maker->end_s);
    add_flow(tracing, "t", id, TRACE_LINKS, link, transfer->start_s, transfer->end_s);
    add_flow(tracing, "f", id, TRACE_WORKERS, thread_of(tracing->timeline, taker), taker->start_s, taker->end_s);
}

static void add_memory(struct tracing *tracing, int worker, const struct memory_curve *curve) {
    for (int i = 0; i < curve->count; i++)
        text_add(next(tracing),
                 "{\"ph\":\"C\",\"name\":\"memory of worker %d\",\"pid\":%d,\"ts\":%.3f,\"args\":{\"bytes\":%lld}}", worker,
                 TRACE_WORKERS, microseconds(curve->points[i].time_s), (long long)curve->points[i].bytes);
}

static bool name_threads(struct tracing *tracing, const struct timeline_caption *caption) {
    const struct timeline *timeline = tracing->timeline;
    int workers = timeline->workers;
    char name[64];
    add_name(tracing, TRACE_WORKERS, -1, "workers");
    for (int w = 0; w < workers; w++) {
        struct text label = {0};
        text_add(&label, "worker %d%s%s", w, caption->notes ? ": " : "", caption->notes ? caption->notes[w] : "");
        if (!label.failed) add_name(tracing, TRACE_WORKERS, w, label.data);
        text_free(&label);
        snprintf(name, sizeof name, "worker %d, backwards", w);
        if (timeline_lanes(timeline) > 1) add_name(tracing, TRACE_WORKERS, workers + w, name);
    }
    bool *named = calloc((size_t)workers * (size_t)workers + 1, sizeof *named);
    if (!named) return false;
    if (timeline->transfer_count > 0) add_name(tracing, TRACE_LINKS, -1, "links");
    for (int i = 0; i < timeline->transfer_count; i++) {
        const struct timeline_transfer *transfer = &timeline->transfers[i];
        int link = transfer->from * workers + transfer->to;
        if (named[link]) continue;
        named[link] = true;
        snprintf(name, sizeof name, "%d to %d", transfer->from, transfer->to);
        add_name(tracing, TRACE_LINKS, link, name);
    }
    free(named);
    return true;
}

char *report_timeline_trace(const struct timeline *timeline, const struct timeline_caption *caption) {
    struct tracing tracing = {.timeline = timeline};
    text_add(&tracing.text, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"title\":");
    add_string(&tracing.text, caption->title);
    text_add(&tracing.text, ",\"workers\":%d,\"batches\":%d,\"micro_batches\":%d,\"lanes\":%d", timeline->workers,
             timeline->batches, timeline->micro_batches, timeline_lanes(timeline));
    for (int w = 0; timeline->memory_bytes && w < timeline->workers; w++)
        text_add(&tracing.text, "%s%lld", w ? "," : ",\"memory_bytes\":[", (long long)timeline->memory_bytes[w]);
    text_add(&tracing.text, "%s},\"traceEvents\":[", timeline->memory_bytes ? "]" : "");
    if (timeline_index_create(timeline, &tracing.index, NULL) == PS_OK && name_threads(&tracing, caption)) {
        for (int i = 0; i < timeline->event_count; i++) add_event(&tracing, &timeline->events[i]);
        for (int i = 0; i < timeline->transfer_count; i++) add_transfer(&tracing, i);
        for (int w = 0; caption->memory && w < timeline->workers; w++) add_memory(&tracing, w, &caption->memory[w]);
    } else {
        tracing.text.failed = true;
    }
    timeline_index_free(&tracing.index);
    text_add(&tracing.text, "\n]}\n");
    return text_take(&tracing.text);
}

/* -------------------------------------------------------------------- reading */

/*
 * Reads the computations and the transfers of a trace that was written above, in the order of a timeline. Events that other
 * tools added are ignored.
 */

#define TIME_MAX_US 1e15

static enum ps_status find_opcode(const struct json_place *place, const char *text, enum opcode *opcode,
                                  struct ps_error *error) {
    for (int op = 0; op < OPCODE_COUNT; op++) {
        if (strcmp(opcode_table[op].text, text) != 0) continue;
        *opcode = (enum opcode)op;
        return PS_OK;
    }
    return json_error(place, error, "op '%s' is not an instruction", text);
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

static enum ps_status read_transfer(const struct json_place *place, const struct timeline *timeline,
                                    struct timeline_transfer *transfer, struct ps_error *error) {
    struct json_place args;
    const char *name;
    double start_us, length_us;
    int link;
    TRY(json_get_int(place, "tid", true, 0, timeline->workers * timeline->workers - 1, &link, error));
    transfer->from = link / timeline->workers;
    transfer->to = link % timeline->workers;
    TRY(json_get_string(place, "cat", true, &name, error));
    transfer->traffic = 0;
    while (transfer->traffic <= TRAFFIC_SUM && strcmp(report_traffic_name(transfer->traffic), name) != 0) transfer->traffic++;
    if (transfer->traffic > TRAFFIC_SUM) return json_error(place, error, "cat '%s' is nothing that is transferred", name);
    TRY(json_get_number(place, "ts", true, 0, TIME_MAX_US, &start_us, error));
    TRY(json_get_number(place, "dur", true, 0, TIME_MAX_US, &length_us, error));
    TRY(json_field(place, "args", true, &args, error));
    TRY(json_get_int(&args, "stage", true, 0, INT16_MAX, &transfer->stage, error));
    TRY(json_get_int(&args, "micro_batch", true, 0, INT32_MAX, &transfer->micro_batch, error));
    TRY(json_get_integer(&args, "bytes", true, 0, INT64_MAX, &transfer->bytes, error));
    transfer->start_s = start_us * 1e-6;
    transfer->end_s = (start_us + length_us) * 1e-6;
    return PS_OK;
}

static bool is_of(const json_t *event, int wanted) {
    const char *phase = json_string_value(json_object_get(event, "ph"));
    const json_t *process = json_object_get(event, "pid");
    return phase && strcmp(phase, "X") == 0 && json_is_integer(process) && json_integer_value(process) == wanted;
}

static int by_worker_and_time(const void *a, const void *b) {
    const struct timeline_event *one = a, *other = b;
    if (one->worker != other->worker) return one->worker < other->worker ? -1 : 1;
    return one->start_s < other->start_s ? -1 : one->start_s > other->start_s;
}

/* The memory of each worker, if the trace has it. */
static enum ps_status read_memory(const struct json_place *about, struct timeline *timeline, struct ps_error *error) {
    struct json_place list, item;
    size_t count;
    TRY(json_field(about, "memory_bytes", false, &list, error));
    if (!list.value) return PS_OK;
    TRY(json_array_length(&list, &count, error));
    if (count != (size_t)timeline->workers)
        return json_error(&list, error, "%zu figures for %d workers", count, timeline->workers);
    TRY(memory_new(&timeline->memory_bytes, count, "a trace", error));
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
        struct timeline_transfer transfer;
        TRY(json_item(&events, i, &item, error));
        if (is_of(item.value, TRACE_WORKERS)) {
            TRY(read_event(&item, timeline, &event, error));
            TRY(timeline_add(timeline, &event, error));
        } else if (is_of(item.value, TRACE_LINKS)) {
            TRY(read_transfer(&item, timeline, &transfer, error));
            TRY(timeline_add_transfer(timeline, &transfer, error));
        }
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
