/*
 * A report: runs, and plans that nobody trained, side by side on one HTML page that needs no network. The page is page.html,
 * page.css and page.js, which the build embeds; all figures are in one JSON document inside it, which is made here from what a
 * run directory holds (docs/formats.md) and from a simulation of its plan. page.js draws; it computes nothing but sums.
 *
 * Nothing from a file reaches the page as markup: strings stand in the JSON, without the characters that could end its element,
 * and the script makes text of them.
 */
#include "report/page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/versioned.h"
#include "program/lower.h"
#include "report/report.h"

#define PATH_SIZE 4096

/* What a page has at most, so that it stays small and quick. Of the first three all subjects of a page have a share. */
enum {
    COMPUTATIONS_MAX = 12000, /* of a timeline */
    TRANSFERS_MAX = 12000,
    MEMORY_POINTS_MAX = 16000,
    LOG_POINTS_MAX = 1500,
    LAYERS_MAX = 1000,
    STRING_MAX = 300,
    VALUES_MAX = 60000, /* of a file that is taken over as it is */
    LOG_LIMIT = 1 << 30,
    SUBJECTS_MAX = 8,
    SIMULATED_MAX = 1 << 18 /* computations; of a longer segment the end is simulated */
};

/* One column of the page: a run, or a plan. */
struct subject {
    const char *name, *path; /* path NULL: a plan */
    json_t *config, *summary, *log;
    int log_lines; /* of which log has LOG_POINTS_MAX at most */
    const struct ps_plan *plan;
    const struct ps_profile *profile; /* NULL: there is none, and no prediction */
    const struct ps_cluster *cluster;
    struct timeline measured; /* without events: there is no trace */
    int skipped;              /* mini-batches at the beginning of the trace's segment that are not simulated */
    /* What of that is its own. */
    struct ps_plan *own_plan;
    struct ps_profile *own_profile;
    struct ps_cluster *own_cluster;
};

static void subject_free(struct subject *subject) {
    json_decref(subject->config);
    json_decref(subject->summary);
    json_decref(subject->log);
    timeline_free(&subject->measured);
    ps_cluster_destroy(subject->own_cluster);
    ps_profile_destroy(subject->own_profile);
    ps_plan_destroy(subject->own_plan);
}

/* ---------------------------------------------------------------- what stands in files as it is */

/* Text that may come from anywhere, cut off after STRING_MAX bytes; bytes that are no UTF-8 become question marks. */
static json_t *safe_string(const char *text) {
    char copy[STRING_MAX + 8];
    size_t length = strlen(text);
    const bool cut = length > STRING_MAX;
    if (cut) length = utf8_whole(text, STRING_MAX);
    snprintf(copy, sizeof copy, "%.*s%s", (int)length, text, cut ? "\xe2\x80\xa6" : "");
    utf8_repair(copy, '?');
    return json_string(copy);
}

/* A copy of at most *left values, with short strings and names. */
static json_t *bounded_copy(const json_t *value, int depth, int *left) {
    const char *key;
    json_t *item;
    size_t i;
    if (--*left < 0 || depth == 0) return json_null();
    if (json_is_string(value)) return safe_string(json_string_value(value));
    if (json_is_array(value)) {
        json_t *array = json_array();
        json_array_foreach(value, i, item) if (*left > 0) json_array_append_new(array, bounded_copy(item, depth - 1, left));
        return array;
    }
    if (json_is_object(value)) {
        json_t *object = json_object();
        json_object_foreach((json_t *)value, key, item) if (*left > 0 && strlen(key) < STRING_MAX)
            json_object_set_new(object, key, bounded_copy(item, depth - 1, left));
        return object;
    }
    return json_copy((json_t *)value);
}

/* A file of the run, as it is but bounded; *out is not set if it is not there. */
static enum ps_status read_document(const char *run, const char *name, const char *format, json_t **out,
                                    struct ps_error *error) {
    char path[PATH_SIZE];
    json_t *root;
    int left = VALUES_MAX;
    if (!file_exists(file_join(path, run, name))) return PS_OK;
    TRY(json_read_file(path, format, &root, error));
    *out = bounded_copy(root, 5, &left);
    json_decref(root);
    return memory_check(*out, "a report", error);
}

/* ------------------------------------------------------------------------------ the log */

enum ps_status report_log_read(const char *run, json_t **lines, struct ps_error *error) {
    char path[PATH_SIZE], *text;
    size_t size, number = 1;
    enum ps_status status = PS_OK;
    json_t *list = json_array();
    if (!file_exists(file_join(path, run, "log.jsonl"))) {
        *lines = list;
        return memory_check(list, "a log", error);
    }
    status = file_read(path, LOG_LIMIT, &text, &size, error);
    if (status != PS_OK) {
        json_decref(list);
        return status;
    }
    for (char *line = text, *end; status == PS_OK && (end = strchr(line, '\n')) != NULL; line = end + 1, number++) {
        json_t *entry = NULL;
        status = json_parse(line, (size_t)(end - line), path, NULL, &entry, error);
        if (status == PS_BAD_INPUT || (status == PS_OK && !json_is_integer(json_object_get(entry, "step"))))
            status = error_set(error, PS_BAD_INPUT, "%s: line %zu is not a line of a log: an object with a step is expected",
                               path, number);
        else if (status == PS_OK)
            json_array_append(list, entry);
        json_decref(entry);
    }
    if (json_memory_failed() && status == PS_OK) status = error_memory(error, path, size);
    /* What follows the last line's end is being written. */
    free(text);
    if (status == PS_OK)
        *lines = list;
    else
        json_decref(list);
    return status;
}

/* Of a long log every so many lines, but of those with an evaluation more, and the last one. */
static enum ps_status take_log(struct subject *subject, struct ps_error *error) {
    json_t *lines, *line;
    size_t i, count[2] = {0}, each[2], seen[2] = {0}; /* of lines without and with an evaluation */
    TRY(report_log_read(subject->path, &lines, error));
    subject->log = json_array();
    subject->log_lines = (int)json_array_size(lines);
    json_array_foreach(lines, i, line) count[json_object_get(line, "valid_loss") != NULL]++;
    each[1] = 1 + count[1] / (LOG_POINTS_MAX / 2);
    each[0] = 1 + count[0] / (LOG_POINTS_MAX - 2 - count[1] / each[1]);
    int left = VALUES_MAX;
    json_array_foreach(lines, i, line) {
        const bool evaluated = json_object_get(line, "valid_loss") != NULL;
        const bool kept = seen[evaluated]++ % each[evaluated] == 0 || i + 1 == json_array_size(lines);
        if (kept && left > 0) json_array_append_new(subject->log, bounded_copy(line, 3, &left));
    }
    json_decref(lines);
    return memory_check(subject->log, "a log", error);
}

/* ------------------------------------------------------------------------------ a run's directory */

static bool flag_of(const json_t *config, const char *field) { return json_is_true(json_object_get(config, field)); }

static double number_of(const json_t *object, const char *field) {
    const json_t *value = json_object_get(object, field);
    return json_is_number(value) ? json_number_value(value) : 0;
}

/* The cluster that the run was planned for, or none was said. */
static enum ps_status open_cluster(const struct subject *subject, struct ps_cluster **cluster, struct ps_error *error) {
    const json_t *said = json_object_get(subject->config, "cluster_options");
    char path[PATH_SIZE];
    if (file_exists(file_join(path, subject->path, "cluster.json"))) return ps_cluster_read(path, cluster, error);
    struct ps_cluster_options options;
    ps_cluster_options_init(&options);
    options.workers = subject->plan->workers;
    options.memory_bytes = (int64_t)fmin(fmax(0, number_of(said, "memory_bytes")), 1e18);
    options.bandwidth_bytes_per_s = number_of(said, "bandwidth_bytes_per_s");
    options.latency_s = number_of(said, "latency_s");
    options.no_overlap = json_is_false(json_object_get(said, "overlap"));
    options.streaming = flag_of(said, "streaming");
    return ps_cluster_uniform(&options, cluster, error);
}

/*
 * The machine that the run is predicted on, as train does it (train/predict_run.c): the cluster, if its links are emulated or
 * lie between hosts, or else one on which blocks change hands for nothing; `cores` workers compute at the same time.
 */
static enum ps_status predicted_cluster(struct subject *subject, struct ps_error *error) {
    struct ps_cluster *planned;
    TRY(open_cluster(subject, &planned, error));
    subject->cluster = subject->own_cluster = planned;
    if (planned->workers < subject->plan->workers)
        return error_set(error, PS_BAD_INPUT, "%s/cluster.json: has %d of the %d workers of the plan", subject->path,
                         planned->workers, subject->plan->workers);
    if (!flag_of(subject->config, "emulate") && !flag_of(subject->config, "links")) {
        planned->link_count = 0;
        planned->overlap = true;
        planned->streaming = false;
        for (int w = 0; w < planned->workers; w++) planned->devices[w].speed = 1;
    }
    const double cores = number_of(subject->config, "cores");
    planned->cores = cores >= 1 && cores <= PLAN_WORKERS_MAX ? (int)cores : 0;
    return PS_OK;
}

/* The profile, and those of further types of devices. */
static enum ps_status open_profile(struct subject *subject, struct ps_error *error) {
    char path[PATH_SIZE], name[96];
    if (!file_exists(file_join(path, subject->path, "profile.json"))) return PS_OK;
    TRY(profile_read_json(path, &subject->own_profile, error));
    subject->profile = subject->own_profile;
    for (int w = 0; w < subject->own_cluster->workers; w++) {
        const char *type = subject->own_cluster->devices[w].type;
        bool known = !*type || strchr(type, '/');
        for (const struct ps_profile *of = subject->profile; of; of = of->other_device)
            known = known || strcmp(of->device, type) == 0;
        snprintf(name, sizeof name, "profile-%s.json", type);
        if (known || !file_exists(file_join(path, subject->path, name))) continue;
        struct ps_profile *other;
        TRY(profile_read_json(path, &other, error));
        TRY(profile_add_device(subject->own_profile, other, error));
    }
    return PS_OK;
}

/* The trace's memory is that of summary.json; computations that the plan does not have come from another run. */
static enum ps_status open_trace(struct subject *subject, struct ps_error *error) {
    char path[PATH_SIZE];
    if (!file_exists(file_join(path, subject->path, "trace.json"))) return PS_OK;
    TRY(report_trace_read(path, &subject->measured, error));
    if (subject->measured.workers != subject->plan->workers)
        return error_set(error, PS_BAD_INPUT, "%s: is of %d workers; the run's plan has %d", path, subject->measured.workers,
                         subject->plan->workers);
    return PS_OK;
}

static const char *last_name(const char *path, char out[PATH_SIZE]) {
    snprintf(out, PATH_SIZE, "%s", path);
    for (size_t length = strlen(out); length > 1 && out[length - 1] == '/';) out[--length] = '\0';
    const char *slash = strrchr(out, '/');
    return slash && slash[1] ? slash + 1 : out;
}

static enum ps_status open_run(struct subject *subject, struct ps_error *error) {
    char path[PATH_SIZE];
    if (!file_exists(file_join(path, subject->path, "config.json"))) {
        error_set(error, PS_BAD_INPUT, "%s: is not a run's directory: there is no config.json", subject->path);
        error_hint(error, "train --out DIR writes one");
        return PS_BAD_INPUT;
    }
    TRY(read_document(subject->path, "config.json", "penstock-config", &subject->config, error));
    TRY(read_document(subject->path, "summary.json", "penstock-summary", &subject->summary, error));
    TRY(ps_plan_read(file_join(path, subject->path, "plan.json"), &subject->own_plan, error));
    subject->plan = subject->own_plan;
    TRY(predicted_cluster(subject, error));
    TRY(open_profile(subject, error));
    TRY(open_trace(subject, error));
    return take_log(subject, error);
}

/* ------------------------------------------------------------------------------ layers and plan */

static json_t *layers_json(const struct cost_table *table) {
    json_t *layers = json_array();
    for (int l = 0; l < table->layer_count && l < LAYERS_MAX; l++) {
        const struct layer_cost *layer = &table->layers[l];
        json_t *object = json_pack(
            "{s:o, s:o, s:f, s:f, s:f, s:I, s:I, s:I}", "name", safe_string(layer->name), "kind", safe_string(layer->kind),
            "forward_s", layer->time.forward_s, "backward_s", layer->time.backward_input_s + layer->time.backward_weight_s,
            "update_s", layer->time.update_s, "parameter_bytes", (json_int_t)layer->size.parameter_bytes, "output_bytes",
            (json_int_t)layer->size.output_bytes, "stash_bytes", (json_int_t)layer->size.stash_bytes);
        json_array_append_new(layers, object);
    }
    return layers;
}

/* ------------------------------------------------------------------------------ the timeline */

/* What is shown of a timeline: all that begins from from_s to to_s. */
struct window {
    double from_s, to_s, tick_s;
    double shift_s; /* what is added to measured times */
};

static int64_t ticks(const struct window *window, double seconds) {
    return llround((seconds - window->from_s) / window->tick_s);
}

static bool shown(const struct window *window, double start_s) { return start_s >= window->from_s && start_s <= window->to_s; }

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Narrows the window until at most `most` of the timeline's events begin in it: the last ones or the first ones. */
static enum ps_status narrow(const struct timeline *timeline, double shift_s, int most, bool last, struct window *window,
                             struct ps_error *error) {
    double *starts;
    int count = 0;
    TRY(memory_new(&starts, timeline->event_count, "a timeline", error));
    for (int i = 0; i < timeline->event_count; i++)
        if (shown(window, timeline->events[i].start_s + shift_s)) starts[count++] = timeline->events[i].start_s + shift_s;
    if (count > most) {
        qsort(starts, (size_t)count, sizeof *starts, by_size);
        if (last)
            window->from_s = starts[count - most];
        else
            window->to_s = starts[most - 1];
    }
    free(starts);
    return PS_OK;
}

static double end_of(const struct timeline *timeline) {
    double end_s = 0;
    for (int i = 0; i < timeline->event_count; i++) end_s = fmax(end_s, timeline->events[i].end_s);
    return end_s;
}

/* The median of how much later computations begin in the prediction, where the trace shows only the end of a segment. */
static enum ps_status align(const struct timeline *predicted, const struct timeline *measured, double *shift_s,
                            struct ps_error *error) {
    struct timeline_index index;
    double *shifts;
    int count = 0;
    bool whole = false;
    *shift_s = 0;
    TRY(timeline_index_create(predicted, &index, error));
    enum ps_status status = memory_new(&shifts, measured->event_count, "a timeline", error);
    for (int i = 0; status == PS_OK && i < measured->event_count; i++) {
        const struct instruction *instruction = &measured->events[i].instruction;
        if (instruction->op != OP_F && !instruction_takes_gradient(instruction)) continue;
        whole = whole || (instruction->stage == 0 && instruction->micro_batch == 0);
        const int other = timeline_index_find(&index, instruction->stage, instruction->micro_batch, instruction->op != OP_F);
        if (other != TIMELINE_NONE) shifts[count++] = predicted->events[other].start_s - measured->events[i].start_s;
    }
    if (status == PS_OK && count > 0 && !whole) {
        qsort(shifts, (size_t)count, sizeof *shifts, by_size);
        *shift_s = shifts[count / 2];
    }
    free(shifts);
    timeline_index_free(&index);
    return status;
}

/* The fields of a computation, one after the other: operation, stage, micro-batch, ticks from the end of the one before to its
 * start, ticks that it takes, flags, and ticks of waiting for another worker's computation. */
enum { FLAG_REST = 7, FLAG_CRITICAL = 8, FLAG_MAKER = 16 };

static json_t *events_json(const struct timeline *timeline, const bool *critical, const struct timeline_wait *waits,
                           const struct window *window, double shift_s, int *count) {
    json_t *workers = json_array();
    *count = 0;
    for (int w = 0; w < timeline->workers; w++) json_array_append_new(workers, json_array());
    int64_t end[2] = {0};
    for (int i = 0; i < timeline->event_count; i++) {
        const struct timeline_event *event = &timeline->events[i];
        if (i > 0 && event->worker != timeline->events[i - 1].worker) end[0] = end[1] = 0;
        if (!shown(window, event->start_s + shift_s)) continue;
        const int lane = timeline_lane(timeline, event);
        const int64_t start = ticks(window, event->start_s + shift_s), stop = ticks(window, event->end_s + shift_s);
        const struct timeline_wait *wait = &waits[i];
        const int flags =
            (int)wait->rest + (critical && critical[i] ? FLAG_CRITICAL : 0) + (wait->maker != TIMELINE_NONE ? FLAG_MAKER : 0);
        const int64_t fields[] = {event->instruction.op,
                                  event->instruction.stage,
                                  event->instruction.micro_batch,
                                  start - end[lane],
                                  stop - start,
                                  flags,
                                  llround(wait->input_s / window->tick_s)};
        for (size_t f = 0; f < sizeof fields / sizeof *fields; f++)
            json_array_append_new(json_array_get(workers, (size_t)event->worker), json_integer((json_int_t)fields[f]));
        end[lane] = stop;
        ++*count;
    }
    return workers;
}

/* From, to, stage, micro-batch, traffic, start, duration, bytes. */
static json_t *transfers_json(const struct timeline *timeline, const struct window *window, double shift_s, int most,
                              int *left_out) {
    json_t *list = json_array();
    for (int i = 0, count = 0; i < timeline->transfer_count; i++) {
        const struct timeline_transfer *transfer = &timeline->transfers[i];
        if (!shown(window, transfer->start_s + shift_s)) continue;
        if (++count > most) {
            ++*left_out;
            continue;
        }
        const int64_t fields[] = {transfer->from,
                                  transfer->to,
                                  transfer->stage,
                                  transfer->micro_batch,
                                  transfer->traffic,
                                  ticks(window, transfer->start_s + shift_s),
                                  llround((transfer->end_s - transfer->start_s) / window->tick_s),
                                  transfer->bytes};
        for (size_t f = 0; f < sizeof fields / sizeof *fields; f++)
            json_array_append_new(list, json_integer((json_int_t)fields[f]));
    }
    return list;
}

/* Of each worker: ticks and KiB, by turns. Where there are more points than `most` only the larger of neighbours stay. */
static json_t *memory_json(const struct ps_simulation *simulation, const struct window *window, int most) {
    const int workers = simulation->timeline.workers;
    struct memory_curve *curves = memory_curves_make(simulation);
    json_t *list = curves ? json_array() : NULL;
    int count = 0;
    for (int w = 0; curves && w < workers; w++) count += curves[w].count;
    const int each = 1 + count / most;
    for (int w = 0; curves && w < workers; w++) {
        json_t *points = json_array();
        int64_t before = curves[w].count ? curves[w].points[0].bytes : 0;
        for (int p = 0; p < curves[w].count; p += each) {
            struct memory_point point = curves[w].points[p];
            for (int more = p; more < p + each && more < curves[w].count; more++)
                if (curves[w].points[more].bytes > point.bytes) point.bytes = curves[w].points[more].bytes;
            if (point.time_s > window->to_s) break;
            if (point.time_s >= window->from_s) {
                if (json_array_size(points) == 0 && point.time_s > window->from_s) {
                    json_array_append_new(points, json_integer(0));
                    json_array_append_new(points, json_integer((json_int_t)(before >> 10)));
                }
                json_array_append_new(points, json_integer((json_int_t)ticks(window, point.time_s)));
                json_array_append_new(points, json_integer((json_int_t)(point.bytes >> 10)));
            }
            before = point.bytes;
        }
        json_array_append_new(list, points);
    }
    memory_curves_free(curves, workers);
    return list;
}

/* ------------------------------------------------------------------------------ versions of weights */

/*
 * Of each stage, for the micro-batches of the window: the version that its forward reads, how far ahead that is predicted, the
 * updates done before it; and the same three of its backward.
 */
static enum ps_status versions_json(const struct subject *subject, int batches, const struct timeline *timeline,
                                    const struct window *window, json_t **out, struct ps_error *error) {
    struct ps_programs *programs;
    struct version_table table = {0};
    int first = INT32_MAX, last = -1;
    for (int i = 0; i < timeline->event_count; i++) {
        const struct timeline_event *event = &timeline->events[i];
        if (instruction_is_of_update(&event->instruction) || event->instruction.op == OP_P || !shown(window, event->start_s))
            continue;
        if (event->instruction.micro_batch < first) first = event->instruction.micro_batch;
        if (event->instruction.micro_batch > last) last = event->instruction.micro_batch;
    }
    *out = NULL;
    if (last < first) return PS_OK;
    TRY(lower_plan(subject->plan, batches, &programs, error));
    const enum ps_status status = version_table_count(programs, &table, error);
    json_t *stages = status == PS_OK ? json_array() : NULL;
    for (int s = 0; stages && s < programs->stages; s++) {
        json_t *list = json_array();
        for (int m = first; m <= last; m++) {
            const struct reading_context context = version_table_context(&table, programs, s, m, programs->schedule->flush);
            const struct reading forward = programs->policy->forward(&context), backward = programs->policy->backward(&context);
            const int fields[] = {forward.version,  forward.ahead,  context.forward_version,
                                  backward.version, backward.ahead, context.backward_version};
            for (size_t f = 0; f < sizeof fields / sizeof *fields; f++) json_array_append_new(list, json_integer(fields[f]));
        }
        json_array_append_new(stages, json_pack("{s:i, s:o}", "staleness", version_table_staleness(&table, s), "reads", list));
    }
    version_table_free(&table);
    ps_programs_destroy(programs);
    if (status == PS_OK) *out = json_pack("{s:i, s:i, s:o}", "first", first, "count", last - first + 1, "stages", stages);
    return status;
}

/* ------------------------------------------------------------------------------ the prediction */

static json_t *operations_json(void) {
    json_t *names = json_array();
    for (int op = 0; op < OPCODE_COUNT; op++) json_array_append_new(names, json_string(opcode_table[op].text));
    return names;
}

static json_t *traffics_json(void) {
    json_t *names = json_array();
    for (int traffic = 0; traffic <= TRAFFIC_SUM; traffic++)
        json_array_append_new(names, json_string(report_traffic_name(traffic)));
    return names;
}

/* Ticks so long that the window has fewer than ten million. */
static double choose_tick(double span_s) { return span_s > 0 ? pow(10, ceil(log10(span_s)) - 7) : 1e-9; }

static enum ps_status timeline_json(const struct subject *subject, const struct ps_simulation *simulation, int share,
                                    json_t **out, struct ps_error *error) {
    const struct timeline *predicted = &simulation->timeline, *measured = &subject->measured;
    const bool traced = measured->event_count > 0;
    struct arena arena = {0};
    struct timeline_wait *waits, *measured_waits = NULL;
    struct window window = {.to_s = INFINITY, .from_s = 0};
    json_t *versions = NULL;
    int shown_predicted, shown_measured = 0, transfers_left = 0;
    enum ps_status status;
    TRY_OUT(timeline_find_waits(predicted, &arena, &waits, error));
    if (traced) {
        TRY_OUT(timeline_find_waits(measured, &arena, &measured_waits, error));
        TRY_OUT(align(predicted, measured, &window.shift_s, error));
        TRY_OUT(narrow(measured, window.shift_s, COMPUTATIONS_MAX / share, true, &window, error));
        /* What happened before the trace begins has nothing beside it. */
        double first_s = INFINITY;
        for (int i = 0; i < measured->event_count; i++) first_s = fmin(first_s, measured->events[i].start_s);
        if (window.shift_s != 0) window.from_s = fmax(window.from_s, first_s + window.shift_s);
    }
    TRY_OUT(narrow(predicted, 0, COMPUTATIONS_MAX / share, traced, &window, error));
    double end_s = end_of(predicted);
    if (traced) end_s = fmax(end_s, end_of(measured) + window.shift_s);
    window.tick_s = choose_tick(fmin(end_s, window.to_s) - window.from_s);
    TRY_OUT(versions_json(subject, simulation->info.batches, predicted, &window, &versions, error));
    json_t *predicted_events = events_json(predicted, simulation->critical.holds, waits, &window, 0, &shown_predicted);
    const int transfers_most = TRANSFERS_MAX / share / (traced ? 2 : 1);
    json_t *transfers = transfers_json(predicted, &window, 0, transfers_most, &transfers_left);
    json_t *measured_transfers =
        traced ? transfers_json(measured, &window, window.shift_s, transfers_most, &transfers_left) : NULL;
    json_t *root = json_pack("{s:f, s:f, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:o, s:o, s:o, s:o, s:o*, s:o, s:o*}", "tick_s",
                             window.tick_s, "from_s", window.from_s, "lanes", timeline_lanes(predicted), "batches",
                             simulation->info.batches, "skipped_batches", subject->skipped, "micro_batches",
                             subject->plan->micro_batches, "all", predicted->event_count, "shown", shown_predicted,
                             "transfers_left_out", transfers_left, "operations", operations_json(), "traffics", traffics_json(),
                             "predicted", predicted_events, "transfers", transfers, "measured_transfers", measured_transfers,
                             "memory_kib", memory_json(simulation, &window, MEMORY_POINTS_MAX / share), "versions", versions);
    if (root && traced) {
        json_object_set_new(root, "measured",
                            events_json(measured, NULL, measured_waits, &window, window.shift_s, &shown_measured));
        json_object_set_new(root, "measured_all", json_integer(measured->event_count));
        json_object_set_new(root, "measured_shown", json_integer(shown_measured));
        json_object_set_new(root, "shift_s", json_real(window.shift_s));
    }
    *out = root;
    status = memory_check(root, "a report", error);
out:
    arena_release(&arena);
    return status;
}

/* Per worker: the parts of its memory, and its limit. */
static json_t *memory_parts_json(const struct ps_simulation *simulation, const struct ps_cluster *cluster) {
    json_t *workers = json_array();
    for (int w = 0; w < simulation->info.workers; w++) {
        const struct worker_memory *memory = &simulation->memory[w];
        json_t *parts = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "weights", (json_int_t)memory->weights, "gradients",
                                  (json_int_t)memory->gradients, "optimizer", (json_int_t)memory->optimizer, "stash",
                                  (json_int_t)memory->stash, "buffers", (json_int_t)memory->buffers, "workspace",
                                  (json_int_t)memory->workspace);
        json_array_append_new(
            workers, json_pack("{s:o, s:I}", "parts", parts, "limit_bytes", (json_int_t)cluster->devices[w].memory_bytes));
    }
    return workers;
}

/* The end of a long segment is numbered as if it were one of its own. */
static void renumber(struct subject *subject, int batches) {
    struct timeline *measured = &subject->measured;
    const int skipped = subject->skipped = measured->batches - batches;
    int kept = 0;
    if (skipped <= 0) subject->skipped = 0;
    if (skipped <= 0) return;
    measured->batches = batches;
    for (int i = 0; i < measured->event_count; i++) {
        struct instruction *instruction = &measured->events[i].instruction;
        instruction->micro_batch -= skipped * (instruction_is_of_update(instruction) ? 1 : subject->plan->micro_batches);
        if (instruction->micro_batch >= 0) measured->events[kept++] = measured->events[i];
    }
    measured->event_count = kept;
}

static enum ps_status predict(struct subject *subject, int share, json_t *root, struct ps_error *error) {
    const int64_t each = 2 * (int64_t)subject->plan->stage_count * subject->plan->micro_batches;
    const int most = each > SIMULATED_MAX / 4 ? 4 : (int)(SIMULATED_MAX / each);
    struct ps_simulation *simulation;
    const struct cost_table *table;
    json_t *timeline = NULL;
    TRY(profile_table(subject->profile, subject->plan->micro_batch, &table, error));
    json_object_set_new(root, "layers", layers_json(table));
    json_object_set_new(root, "layer_count", json_integer(table->layer_count));
    if (subject->measured.event_count > 0 && subject->measured.batches > 0)
        renumber(subject, subject->measured.batches < most ? subject->measured.batches : most);
    /* So long that no timeline of it is simulated, even of a few mini-batches: then there is nothing to hold the trace against.
     */
    if (each * subject->measured.batches > SIMULATE_EVENTS_MAX) subject->measured.event_count = 0;
    enum ps_status status;
    if (subject->measured.event_count > 0)
        status = report_simulate_against(subject->plan, subject->profile, subject->cluster, 0, &subject->measured, &simulation,
                                         error);
    else
        status = ps_simulate(subject->plan, subject->profile, subject->cluster, 0, &simulation, error);
    if (status != PS_OK) return status;
    if (simulation->timeline.event_count > 0) status = timeline_json(subject, simulation, share, &timeline, error);
    if (status == PS_OK) {
        json_object_set_new(root, "simulation", simulation_document(simulation));
        json_object_set_new(root, "memory", memory_parts_json(simulation, subject->cluster));
        if (timeline) json_object_set_new(root, "timeline", timeline);
    }
    ps_simulation_destroy(simulation);
    return status;
}

/* ------------------------------------------------------------------------------ the page */

static enum ps_status subject_json(struct subject *subject, int share, json_t **out, struct ps_error *error) {
    char name[PATH_SIZE];
    json_t *root = json_pack("{s:o, s:o*, s:O*, s:O*, s:O*, s:i, s:o, s:b}", "name",
                             safe_string(subject->path ? last_name(subject->path, name) : subject->name), "path",
                             subject->path ? safe_string(subject->path) : NULL, "config", subject->config, "summary",
                             subject->summary, "log", subject->log, "log_lines", subject->log_lines, "plan",
                             plan_document(subject->plan), "traced", subject->measured.event_count > 0);
    TRY(memory_check(root, "a report", error));
    enum ps_status status = PS_OK;
    if (subject->profile) status = predict(subject, share, root, error);
    if (status != PS_OK && subject->path) error_prefix(error, "%s", subject->path);
    if (status == PS_OK)
        *out = root;
    else
        json_decref(root);
    return status;
}

/* JSON for an element of a page: no character of it can end the element. Consumes `root`. */
static enum ps_status add_data(json_t *root, struct text *page, struct ps_error *error) {
    char *data = json_dump_text(root, JSON_COMPACT | JSON_ENSURE_ASCII);
    json_decref(root);
    TRY(memory_check(data, "a report", error));
    const char *from = data;
    for (const char *at = data; *at; at++) {
        if (!strchr("<>&", *at)) continue;
        text_add_raw(page, from, (size_t)(at - from));
        text_add(page, "\\u%04x", (unsigned)*at);
        from = at + 1;
    }
    text_add_raw(page, from, strlen(from));
    free(data);
    return text_status(page, "a report", error);
}

void ps_report_options_init(struct ps_report_options *options) {
    *options = (struct ps_report_options){.struct_size = sizeof *options};
}

static enum ps_status make_document(const struct ps_report_options *given, json_t **out, struct ps_error *error) {
    struct ps_report_options options;
    struct subject subjects[SUBJECTS_MAX] = {0};
    ps_report_options_init(&options);
    TRY(VERSIONED_TAKE(ps_report_options, given, &options, error));
    const int count = options.run_count + (options.plan != NULL);
    json_t *list = json_array(), *item;
    enum ps_status status = PS_OK;
    if (count < 1 || count > SUBJECTS_MAX) {
        json_decref(list);
        return error_set(error, PS_USAGE, "`runs`: %d; a report is of 1 to %d", count, SUBJECTS_MAX);
    }
    for (int s = 0; status == PS_OK && s < count; s++) {
        struct subject *subject = &subjects[s];
        if (s < options.run_count) {
            subject->path = options.runs[s];
            status = open_run(subject, error);
        } else {
            subject->name = "plan";
            subject->plan = options.plan;
            subject->profile = options.profile;
            subject->cluster = options.cluster;
            if (options.trace) status = report_trace_copy(options.trace, &subject->measured, error);
        }
        if (status == PS_OK) status = subject_json(subject, count, &item, error);
        if (status == PS_OK) json_array_append_new(list, item);
    }
    for (int s = 0; s < count; s++) subject_free(&subjects[s]);
    if (status != PS_OK) {
        json_decref(list);
        return status;
    }
    *out = json_pack("{s:s, s:i, s:s, s:o}", "format", "penstock-report", "version", 1, "penstock", ps_version(), "subjects",
                     json_whole(list, count));
    return memory_check(*out, "a report", error);
}

char *ps_report_json(const struct ps_report_options *options, struct ps_error *error) {
    json_t *root;
    return make_document(options, &root, error) == PS_OK ? json_text(root) : NULL;
}

enum ps_status ps_report_write(const struct ps_report_options *options, const char *path, struct ps_error *error) {
    struct text page = {0};
    json_t *root;
    TRY(make_document(options, &root, error));
    text_add_raw(&page, (const char *)page_head, page_head_size);
    enum ps_status status = add_data(root, &page, error);
    text_add_raw(&page, (const char *)page_tail, page_tail_size);
    if (status == PS_OK) status = file_write_text(path, &page, "a report", error);
    text_free(&page);
    return status;
}
