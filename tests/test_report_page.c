/*
 * What a page is drawn from, to the byte: the documents of plans with and without a trace and of runs made by hand, and the
 * tables and documents of the same simulations. All times are sums of powers of two, so that no machine rounds them in its own
 * way. What stands in the file is looked at by eye when it changes.
 *
 *   PENSTOCK_REGENERATE=1 build/release/tests/test_report_page     writes tests/golden/pages.txt anew
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "report/page.h"
#include "report/report.h"
#include "simulate/simulate.h"
#include "support.h"

enum { WORKERS = 3, LAYERS = 6 };

/* ------------------------------------------------------------------------- what is reported */

struct work {
    struct ps_profile *profile;
    struct ps_plan *plan;
    struct ps_cluster *cluster;
};

/* The middle stage is the slowest; its links take as long as a forward. */
static struct work work_make(const char *schedule, const char *weights, int micro_batches) {
    struct work work;
    struct ps_cluster_options options = {.struct_size = sizeof options,
                                         .workers = WORKERS,
                                         .memory_bytes = 1 << 26,
                                         .bandwidth_bytes_per_s = 1 << 20,
                                         .latency_s = 0x1p-7};
    assert_ok(profile_create(1, LAYERS, &work.profile, &test_error));
    strcpy(work.profile->model, "six");
    strcpy(work.profile->device, "hand");
    work.profile->threads = 1;
    work.profile->tables[0].micro_batch = 4;
    for (int l = 0; l < LAYERS; l++) {
        struct layer_cost *layer = &work.profile->tables[0].layers[l];
        const double times = l == 2 || l == 3 ? 2 : 1;
        layer->time = (struct layer_times){
            .forward_s = times * 0.0625, .backward_input_s = times * 0.0625, .backward_weight_s = 0.0625, .update_s = 0x1p-6};
        layer->size = (struct layer_sizes){.parameter_bytes = (int64_t)(l + 1) << 18,
                                           .delta_bytes = l < LAYERS - 1 ? 1 << 16 : 0,
                                           .output_bytes = 1 << 16,
                                           .value_bytes = 1 << 16,
                                           .stash_bytes = (int64_t)(l + 1) << 16};
        snprintf(layer->name, sizeof layer->name, "layer%d", l);
        strcpy(layer->kind, l % 2 ? "relu" : "linear");
    }
    assert_ok(ps_cluster_uniform(&options, &work.cluster, &test_error));
    assert_ok(plan_create(WORKERS, WORKERS, &work.plan, &test_error));
    strcpy(work.plan->model, "six");
    strcpy(work.plan->schedule, schedule);
    strcpy(work.plan->weights, weights);
    strcpy(work.plan->optimizer, "sgdm");
    work.plan->micro_batch = 4;
    work.plan->micro_batches = micro_batches;
    for (int s = 0; s < WORKERS; s++) assert_ok(plan_stage_set(work.plan, s, 2 * s, 2 * s + 1, s, &test_error));
    return work;
}

static void work_free(struct work *work) {
    ps_plan_destroy(work->plan);
    ps_cluster_destroy(work->cluster);
    ps_profile_destroy(work->profile);
}

/* Leaves a trace of so many mini-batches of the plan: times are `factor` of those that are predicted, and only what begins at
 * from_s or later is in it. */
static void leave_trace(const struct work *work, int batches, double factor, double from_s, const char *path) {
    struct ps_simulation *simulation;
    assert_ok(ps_simulate(work->plan, work->profile, work->cluster, batches, &simulation, &test_error));
    struct timeline *timeline = &simulation->timeline;
    int events = 0, transfers = 0;
    for (int i = 0; i < timeline->event_count; i++) {
        struct timeline_event event = timeline->events[i];
        if (event.start_s < from_s) continue;
        event.start_s = (event.start_s - from_s) * factor;
        event.end_s = (event.end_s - from_s) * factor;
        timeline->events[events++] = event;
    }
    for (int i = 0; i < timeline->transfer_count; i++) {
        struct timeline_transfer transfer = timeline->transfers[i];
        if (transfer.start_s < from_s) continue;
        transfer.start_s = (transfer.start_s - from_s) * factor;
        transfer.end_s = (transfer.end_s - from_s) * factor;
        timeline->transfers[transfers++] = transfer;
    }
    timeline->event_count = events;
    timeline->transfer_count = transfers;
    timeline->memory_bytes = calloc(WORKERS, sizeof *timeline->memory_bytes);
    assert_non_null(timeline->memory_bytes);
    for (int w = 0; w < WORKERS; w++) timeline->memory_bytes[w] = simulation->worker[w].memory_bytes + (w << 20);
    assert_ok(ps_simulation_write_trace(simulation, path, &test_error));
    ps_simulation_destroy(simulation);
}

/* A file of the run's directory. */
static const char *in_run(const char *name, char path[4096]) { return file_join(path, test_directory, name); }

static void put(const char *name, const char *text) {
    char path[4096];
    test_file_write(in_run(name, path), text, strlen(text));
}

/* ------------------------------------------------------------------------- how it is shown */

/* What is only rounded away from 0 is 0. */
static void settle(json_t *value) {
    const char *key;
    json_t *item;
    size_t i;
    if (json_is_real(value) && fabs(json_real_value(value)) < 1e-9) json_real_set(value, 0);
    json_array_foreach(value, i, item) settle(item);
    json_object_foreach(value, key, item) settle(item);
}

/* A name and its value in a line; objects in more, indented, if they are large. */
static void show(struct text *out, const json_t *value, int depth) {
    const char *key;
    json_t *item;
    size_t i;
    char *line = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
    assert_non_null(line);
    if (strlen(line) < 100 || depth > 4 || !json_is_object(value)) {
        const bool list = json_is_array(value) && json_is_object(json_array_get(value, 0));
        if (!list) text_add(out, "%s\n", line);
        if (list) text_add(out, "\n");
        if (list) json_array_foreach(value, i, item) {
                text_add(out, "%*s%zu: ", 2 * depth, "", i);
                show(out, item, depth + 1);
            }
    } else {
        text_add(out, "\n");
        json_object_foreach((json_t *)value, key, item) {
            text_add(out, "%*s%s: ", 2 * depth, "", key);
            show(out, item, depth + 1);
        }
    }
    free(line);
}

static json_t *document_of(const struct ps_report_options *options) {
    char *text = ps_report_json(options, &test_error);
    if (!text) fail_msg("%s", test_error.message);
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    free(text);
    return root;
}

/* All subjects, without the version of the program and without what says where the run is. */
static void add_document(const char *name, const struct ps_report_options *options, struct text *out) {
    json_t *root = document_of(options);
    assert_string_equal(json_string_value(json_object_get(root, "penstock")), ps_version());
    json_object_del(root, "penstock");
    for (size_t s = 0; s < json_array_size(json_object_get(root, "subjects")); s++) {
        json_t *subject = json_array_get(json_object_get(root, "subjects"), s);
        /* Once is enough. */
        if (out->length > 0) json_object_del(subject, "layers");
        if (!json_object_get(subject, "path")) continue;
        assert_string_equal(json_string_value(json_object_get(subject, "path")), options->runs[s]);
        assert_string_equal(json_string_value(json_object_get(subject, "name")), strrchr(test_directory, '/') + 1);
        json_object_del(subject, "path");
        json_object_del(subject, "name");
    }
    text_add(out, "=== %s\n", name);
    settle(root);
    show(out, root, 0);
    json_decref(root);
}

/* ----------------------------------------------------------------------------- the tests */

static void add_plan(const struct work *work, const char *name, const char *trace_path, struct text *out) {
    struct ps_report_options options;
    struct ps_simulation *simulation;
    struct ps_trace *trace = NULL;
    ps_report_options_init(&options);
    options.plan = work->plan;
    options.profile = work->profile;
    options.cluster = work->cluster;
    if (trace_path) {
        assert_ok(ps_trace_read(trace_path, &trace, &test_error));
        assert_ok(ps_simulate_against(work->plan, work->profile, work->cluster, 0, trace, &simulation, &test_error));
    } else {
        assert_ok(ps_simulate(work->plan, work->profile, work->cluster, 0, &simulation, &test_error));
    }
    options.trace = trace;
    add_document(name, &options, out);
    char *table = ps_simulation_table(simulation);
    text_add(out, "%s", table);
    free(table);
    ps_simulation_destroy(simulation);
    ps_trace_destroy(trace);
}

/* The directory of a run of the plan, in test_directory; what a run may lack is not in it yet. */
static void make_run(const struct work *work, const char *config) {
    char path[4096];
    put("config.json", config);
    assert_ok(ps_plan_write(work->plan, in_run("plan.json", path), &test_error));
    assert_ok(ps_profile_write(work->profile, in_run("profile.json", path), &test_error));
}

static const char config[] = "{\"format\": \"penstock-config\", \"version\": 1, \"model\": \"six\", \"cores\": 2}";

static void test_texts(void **state) {
    (void)state;
    struct text texts = {0};
    char path[4096];
    const char *const runs[] = {test_directory, test_directory};
    struct ps_report_options options;
    ps_report_options_init(&options);
    options.runs = runs;
    options.run_count = 1;
    struct work flush = work_make("1f1b", "sync", 2), late = work_make("1f1b-async", "pipeoptim", 1);
    add_plan(&flush, "a plan", NULL, &texts);
    leave_trace(&flush, 3, 2, 0, in_run("trace.json", path));
    add_plan(&flush, "a plan and a trace, all of which took twice as long", path, &texts);
    leave_trace(&late, 8, 1, 2.25, path);
    add_plan(&late, "a plan and the end of a segment", path, &texts);
    /* Runs: with links of no cost, on two cores; with those that it emulates; and one that has all files. */
    make_run(&late, config);
    assert_int_equal(remove(path), 0);
    add_document("a run", &options, &texts);
    put("config.json",
        "{\"format\": \"penstock-config\", \"version\": 1, \"model\": \"six\", \"emulate\": true, \"cores\": 5000, "
        "\"cluster_options\": {\"memory_bytes\": 67108864, \"bandwidth_bytes_per_s\": 524288, \"latency_s\": "
        "0.0078125, \"overlap\": false}}");
    put("log.jsonl", "{\"step\": 1, \"loss\": 2.5}\n{\"step\": 2, \"loss\": 1.5, \"valid_loss\": 1.75}\n{\"step\": 3, \"los");
    put("summary.json", "{\"format\": \"penstock-summary\", \"version\": 1, \"samples_per_s\": 8}");
    add_document("a run whose links are emulated", &options, &texts);
    make_run(&flush, config);
    leave_trace(&flush, 3, 1, 0, path);
    options.run_count = 2;
    options.plan = flush.plan;
    add_document("a run with a trace, twice, and a plan without a profile", &options, &texts);
    work_free(&late);
    work_free(&flush);
    test_golden(TEST_DIRECTORY "/golden/pages.txt", text_take(&texts));
}

static json_int_t int_of(const json_t *object, const char *field) {
    const json_t *value = json_object_get(object, field);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static size_t length_of(const json_t *object, const char *field) {
    assert_true(json_is_array(json_object_get(object, field)));
    return json_array_size(json_object_get(object, field));
}

/* Of the memory's points, of which there is no room for all, those that stay are as high as all that follow up to the next. */
static void test_memory(void **state) {
    (void)state;
    enum { BATCHES = 200, RUNS = 7 };
    char path[4096];
    const char *runs[RUNS];
    struct ps_report_options options;
    struct ps_simulation *simulation;
    struct ps_trace *trace;
    struct work work = work_make("1f1b", "sync", 4);
    int checked = 0, higher = 0;
    for (int r = 0; r < RUNS; r++) runs[r] = test_directory;
    make_run(&work, config);
    leave_trace(&work, BATCHES, 1, 0, in_run("of_plan.json", path));
    assert_ok(ps_trace_read(path, &trace, &test_error));
    ps_report_options_init(&options);
    options.runs = runs; /* which take their share of the room */
    options.run_count = RUNS;
    options.plan = work.plan;
    options.profile = work.profile;
    options.cluster = work.cluster;
    options.trace = trace;
    json_t *root = document_of(&options);
    const json_t *timeline = json_object_get(json_array_get(json_object_get(root, "subjects"), RUNS), "timeline");
    const double from_s = json_number_value(json_object_get(timeline, "from_s")),
                 tick_s = json_number_value(json_object_get(timeline, "tick_s"));
    assert_ok(ps_simulate(work.plan, work.profile, work.cluster, BATCHES, &simulation, &test_error));
    struct memory_curve *curves = memory_curves_make(simulation);
    assert_non_null(curves);
    for (int w = 0; w < WORKERS; w++) {
        const json_t *points = json_array_get(json_object_get(timeline, "memory_kib"), (size_t)w);
        const size_t count = json_array_size(points) / 2;
        for (size_t at = 1; at + 1 < count; at++) {
            const json_int_t begin = json_integer_value(json_array_get(points, 2 * at)),
                             end = json_integer_value(json_array_get(points, 2 * at + 2)),
                             kib = json_integer_value(json_array_get(points, 2 * at + 1));
            int64_t most = 0, last = 0;
            for (int p = 0; p < curves[w].count; p++) {
                const double tick = (curves[w].points[p].time_s - from_s) / tick_s;
                if (tick < (double)begin + 1 || tick > (double)end - 1) continue;
                last = curves[w].points[p].bytes;
                if (last > most) most = last;
            }
            checked += most > 0;
            higher += most > last;
            assert_true(kib >= most >> 10);
        }
    }
    assert_true(checked > 100 && higher > 20);
    json_decref(root);
    memory_curves_free(curves, WORKERS);
    ps_simulation_destroy(simulation);
    ps_trace_destroy(trace);
    work_free(&work);
}

/* Of long runs and large files a page shows so much that it stays small; subjects share it. */
static void test_bounds(void **state) {
    (void)state;
    enum { BATCHES = 100, SUBJECTS = 8, COMPUTATIONS = 12000, TRANSFERS = 12000, POINTS = 16000 };
    char path[4096],
        deep[] = "{\"format\":\"penstock-config\",\"version\":1,\"a\":{\"b\":{\"c\":{\"d\":{\"e\":5}}}},\"emulate\":true}";
    const char *runs[SUBJECTS];
    struct text large = {0};
    struct ps_report_options options;
    struct work work = work_make("1f1b", "sync", 4);
    for (int s = 0; s < SUBJECTS; s++) runs[s] = test_directory;
    make_run(&work, deep);
    leave_trace(&work, BATCHES, 1, 0, in_run("trace.json", path));
    text_add(&large, "{\"format\": \"penstock-summary\", \"version\": 1, \"list\": [");
    for (int i = 0; i < 70000; i++) text_add(&large, "%s1", i > 0 ? "," : "");
    text_add(&large, "], \"after\": 3}");
    put("summary.json", large.data);
    ps_report_options_init(&options);
    options.runs = runs;
    for (int count = 1; count <= SUBJECTS; count += SUBJECTS - 1) {
        options.run_count = count;
        json_t *root = document_of(&options);
        assert_int_equal(length_of(root, "subjects"), count);
        const json_t *subject = json_array_get(json_object_get(root, "subjects"), (size_t)count - 1),
                     *timeline = json_object_get(subject, "timeline"), *measured = json_object_get(timeline, "measured");
        if (count == 1) {
            assert_int_equal(length_of(json_object_get(subject, "summary"), "list"), 60000 - 4);
            assert_null(json_object_get(json_object_get(subject, "summary"), "after"));
            assert_int_equal(remove(in_run("summary.json", path)), 0); /* once is enough */
        }
        char *inner = json_dumps(json_object_get(json_object_get(subject, "config"), "a"), JSON_COMPACT);
        assert_string_equal(inner, "{\"b\":{\"c\":{\"d\":{\"e\":null}}}}");
        free(inner);
        const json_int_t all = BATCHES * WORKERS * (4 * 2 + 1), most = COMPUTATIONS / count;
        assert_int_equal(int_of(timeline, "all"), all);
        assert_int_equal(int_of(timeline, "measured_all"), all);
        assert_int_equal(int_of(timeline, "measured_shown"), all < most ? all : most);
        assert_true(int_of(timeline, "shown") <= int_of(timeline, "measured_shown") && int_of(timeline, "shown") > most / 5);
        size_t fields = 0, points = 0;
        for (size_t w = 0; w < WORKERS; w++) {
            fields += json_array_size(json_array_get(measured, w));
            points += json_array_size(json_array_get(json_object_get(timeline, "memory_kib"), w)) / 2;
        }
        assert_int_equal(fields, 7 * int_of(timeline, "measured_shown"));
        assert_true(points > 100 && points <= (size_t)(POINTS / count + 2 * WORKERS));
        const size_t transfers = count > 1 ? TRANSFERS / SUBJECTS / 2 : BATCHES * 4 * 4;
        assert_int_equal(length_of(timeline, "transfers"), 8 * transfers);
        assert_int_equal(length_of(timeline, "measured_transfers"), 8 * transfers);
        assert_int_equal(int_of(timeline, "transfers_left_out") > 0, count > 1);
        assert_int_equal(json_number_value(json_object_get(timeline, "from_s")) > 0, count > 1);
        json_decref(root);
    }
    text_free(&large);
    work_free(&work);
    /* Without a trace the prediction's first computations are shown; some begin at the same time as the last of them. All begin
     * within a second. */
    work = work_make("1f1b", "sync", 3000);
    for (int l = 0; l < LAYERS; l++) {
        struct layer_times *time = &work.profile->tables[0].layers[l].time;
        *time = (struct layer_times){.forward_s = time->forward_s * 0x1p-12,
                                     .backward_input_s = time->backward_input_s * 0x1p-12,
                                     .backward_weight_s = time->backward_weight_s * 0x1p-12,
                                     .update_s = time->update_s * 0x1p-12};
    }
    make_run(&work, config);
    assert_int_equal(remove(in_run("trace.json", path)), 0);
    options.run_count = 1;
    json_t *root = document_of(&options);
    const json_t *timeline = json_object_get(json_array_get(json_object_get(root, "subjects"), 0), "timeline");
    assert_true(int_of(timeline, "all") > COMPUTATIONS + WORKERS);
    assert_in_range(int_of(timeline, "shown"), COMPUTATIONS, COMPUTATIONS + WORKERS - 1);
    json_decref(root);
    work_free(&work);
}

/* Of a run that took so much longer than predicted that the end which is shown lies behind all of the prediction; and of one
 * micro-batch alone. */
static void test_versions(void **state) {
    (void)state;
    char path[4096];
    const char *runs[8];
    struct ps_report_options options;
    struct work work = work_make("1f1b-async", "stash", 1);
    for (int s = 0; s < 8; s++) runs[s] = test_directory;
    ps_report_options_init(&options);
    options.runs = runs;
    make_run(&work, config);
    for (int late = 0; late < 2; late++) {
        leave_trace(&work, late ? 200 : 1, late ? 30 : 1, 0, in_run("trace.json", path));
        options.run_count = late ? 8 : 1;
        json_t *root = document_of(&options);
        const json_t *timeline = json_object_get(json_array_get(json_object_get(root, "subjects"), 0), "timeline"),
                     *versions = json_object_get(timeline, "versions");
        assert_int_equal(int_of(timeline, "shown"), late ? 0 : 3 * WORKERS);
        assert_int_equal(int_of(timeline, "measured_shown"), late ? 12000 / 8 : 3 * WORKERS);
        if (late) assert_null(versions);
        if (!late) assert_int_equal(int_of(versions, "first"), 0);
        if (!late) assert_int_equal(int_of(versions, "count"), 1);
        json_decref(root);
    }
    work_free(&work);
}

/* Of a long log every so many lines, and the last; evaluations, wherever they lie, for as long as there is room. */
static void test_log(void **state) {
    (void)state;
    static const struct {
        int lines, first, every; /* evaluations: after the first of these lines each so many; 0: none */
        int shown, evaluated;
    } cases[] = {{1, 0, 0, 1, 0},        {1497, 0, 0, 1497, 0},      {1498, 0, 0, 750, 0},        {749, 0, 1, 749, 749},
                 {1498, 0, 1, 750, 750}, {4000, 500, 1000, 1337, 4}, {2000, 1999, 2000, 1001, 1}, {2900, 99, 100, 1465, 29},
                 {3000, 0, 1, 601, 601}};
    struct ps_report_options options;
    struct work work = work_make("1f1b-async", "stash", 1);
    const char *const runs[] = {test_directory};
    make_run(&work, config);
    ps_report_options_init(&options);
    options.runs = runs;
    options.run_count = 1;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct text log = {0};
        for (int l = 0; l < cases[c].lines; l++)
            text_add(&log, "{\"step\": %d%s}\n", l + 1,
                     cases[c].every > 0 && l % cases[c].every == cases[c].first ? ", \"valid_loss\": 1" : "");
        put("log.jsonl", log.data);
        text_free(&log);
        json_t *root = document_of(&options);
        const json_t *subject = json_array_get(json_object_get(root, "subjects"), 0), *lines = json_object_get(subject, "log");
        const int shown = (int)length_of(subject, "log");
        int evaluated = 0, step = 0;
        for (int l = 0; l < shown; l++) {
            const json_t *line = json_array_get(lines, (size_t)l);
            evaluated += json_object_get(line, "valid_loss") != NULL;
            assert_true(int_of(line, "step") > step);
            step = (int)int_of(line, "step");
        }
        if (shown != cases[c].shown || evaluated != cases[c].evaluated)
            fail_msg("of %d lines %d, with %d evaluations", cases[c].lines, shown, evaluated);
        assert_int_equal(int_of(subject, "log_lines"), cases[c].lines);
        assert_int_equal(step, cases[c].lines);
        json_decref(root);
    }
    work_free(&work);
}

/* The page holds the document, without characters that could end its element, and with what stands around it. */
static void test_page(void **state) {
    (void)state;
    char path[4096], *page;
    size_t size;
    struct ps_report_options options;
    struct work work = work_make("1f1b-async", "stash", 1);
    const char *const runs[] = {test_directory};
    make_run(&work,
             "{\"format\": \"penstock-config\", \"version\": 1, \"data\": \"</script><!-- a & b >>&\", \"<>\": \"\u2028\"}");
    ps_report_options_init(&options);
    options.runs = runs;
    options.run_count = 1;
    assert_ok(ps_report_write(&options, in_run("page.html", path), &test_error));
    assert_ok(file_read(path, 1 << 24, &page, &size, &test_error));
    assert_true(size > page_head_size + page_tail_size);
    assert_memory_equal(page, page_head, page_head_size);
    assert_memory_equal(page + size - page_tail_size, page_tail, page_tail_size);
    page[size - page_tail_size] = '\0';
    assert_null(strpbrk(page + page_head_size, "<>&"));
    for (const char *c = page + page_head_size; *c; c++) assert_true((unsigned char)*c < 128);
    json_t *there = json_loads(page + page_head_size, JSON_REJECT_DUPLICATES, NULL), *wanted = document_of(&options);
    assert_true(json_equal(there, wanted));
    json_decref(there);
    json_decref(wanted);
    free(page);
    work_free(&work);
}

/* Text of any length, cut where a character begins; bytes that are no text. */
static void test_strings(void **state) {
    (void)state;
    struct text texts = {0};
    struct ps_report_options options;
    struct work work = work_make("1f1b-async", "stash", 1);
    const char *const runs[] = {test_directory};
    static const struct {
        int letters;
        const char *after, *shown;
    } cases[] = {
        {298, "bc", "bc"}, {299, "bc", "b\xe2\x80\xa6"}, {299, "\xc3\xa9", "\xe2\x80\xa6"}, {298, "\xc3\xa9", "\xc3\xa9"}};
    ps_report_options_init(&options);
    options.runs = runs;
    options.run_count = 1;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char letters[300];
        memset(letters, 'a', sizeof letters);
        texts.length = 0;
        text_add(&texts, "{\"format\": \"penstock-config\", \"version\": 1, \"data\": \"%.*s%s\"}", cases[c].letters, letters,
                 cases[c].after);
        make_run(&work, texts.data);
        json_t *root = document_of(&options);
        const char *data = json_string_value(
            json_object_get(json_object_get(json_array_get(json_object_get(root, "subjects"), 0), "config"), "data"));
        assert_true(data && strncmp(data, letters, (size_t)cases[c].letters) == 0);
        assert_string_equal(data + cases[c].letters, cases[c].shown);
        json_decref(root);
    }
    text_free(&texts);
    /* Lists and objects in each other, so deep. */
    make_run(&work, "{\"format\": \"penstock-config\", \"version\": 1, \"data\": [1.5, true, [\"a\", {\"b\": [2, [3]]}]]}");
    json_t *root = document_of(&options);
    char *data =
        json_dumps(json_object_get(json_object_get(json_array_get(json_object_get(root, "subjects"), 0), "config"), "data"), 0);
    assert_string_equal(data, "[1.5, true, [\"a\", {\"b\": [null, null]}]]");
    free(data);
    json_decref(root);
    work_free(&work);
}

/* A stage of one layer on each worker. */
static struct work work_of_many(int workers, int micro_batches) {
    struct work work;
    struct ps_cluster_options options = {.struct_size = sizeof options, .workers = workers};
    assert_ok(profile_create(1, workers, &work.profile, &test_error));
    assert_ok(ps_cluster_uniform(&options, &work.cluster, &test_error));
    assert_ok(plan_create(workers, workers, &work.plan, &test_error));
    strcpy(work.profile->model, "many");
    strcpy(work.profile->device, "hand");
    work.profile->threads = 1;
    for (int l = 0; l < workers; l++) {
        struct layer_cost *layer = &work.profile->tables[0].layers[l];
        layer->time = (struct layer_times){.forward_s = 0.5, .backward_input_s = 0.25, .backward_weight_s = 0.25};
        snprintf(layer->name, sizeof layer->name, "layer%d", l);
        strcpy(layer->kind, "linear");
        assert_ok(plan_stage_set(work.plan, l, l, l, l, &test_error));
    }
    strcpy(work.plan->model, "many");
    strcpy(work.plan->schedule, "1f1b");
    strcpy(work.plan->weights, "sync");
    work.plan->micro_batches = micro_batches;
    work.plan->micro_batch = work.profile->tables[0].micro_batch = 1;
    return work;
}

/* Of a run longer than what is simulated the end, numbered as if it were a run of its own; what lies before is left out. */
static void test_long_segment(void **state) {
    (void)state;
    enum {
        MANY = 64,
        MICRO_BATCHES = 2,
        MOST = (1 << 18) / (2 * MANY * MICRO_BATCHES),
        SKIPPED = MOST + 100,
        MADE = 6,
        EARLY = 2
    };
    char path[4096];
    const char *const runs[] = {test_directory};
    struct ps_report_options options;
    struct ps_simulation *simulation;
    struct work work = work_of_many(MANY, MICRO_BATCHES);
    make_run(&work, config);
    assert_ok(ps_simulate(work.plan, work.profile, work.cluster, MADE, &simulation, &test_error));
    struct timeline *timeline = &simulation->timeline;
    int late = 0, first = INT32_MAX;
    timeline->batches = MOST + SKIPPED;
    for (int i = 0; i < timeline->event_count; i++) {
        struct instruction *instruction = &timeline->events[i].instruction;
        const int each = instruction_is_of_update(instruction) ? 1 : MICRO_BATCHES;
        if (instruction->micro_batch < EARLY * each) continue;
        instruction->micro_batch += (timeline->batches - MADE) * each;
        late++;
        if (each > 1 && instruction->micro_batch < first) first = instruction->micro_batch;
    }
    assert_ok(ps_simulation_write_trace(simulation, in_run("trace.json", path), &test_error));
    ps_simulation_destroy(simulation);
    ps_report_options_init(&options);
    options.runs = runs;
    options.run_count = 1;
    json_t *root = document_of(&options);
    const json_t *subject = json_array_get(json_object_get(root, "subjects"), 0), *shown = json_object_get(subject, "timeline");
    assert_int_equal(int_of(shown, "batches"), MOST);
    assert_int_equal(int_of(shown, "skipped_batches"), SKIPPED);
    assert_int_equal(int_of(shown, "measured_all"), late);
    json_int_t least[2] = {INT32_MAX, INT32_MAX}; /* of computations, of updates */
    for (size_t w = 0; w < MANY; w++) {
        const json_t *list = json_array_get(json_object_get(shown, "measured"), w);
        for (size_t f = 0; f < json_array_size(list); f += 7) {
            const bool update = json_integer_value(json_array_get(list, f)) == OP_U;
            const json_int_t number = json_integer_value(json_array_get(list, f + 2));
            if (number < least[update]) least[update] = number;
        }
    }
    assert_int_equal(least[0], first - MICRO_BATCHES * SKIPPED);
    assert_int_equal(least[1], first / MICRO_BATCHES - SKIPPED);
    json_decref(root);
    work_free(&work);
}

/* What no report can be made of. */
static void refuse(const char *const *runs, int count, enum ps_status status, const char *part) {
    char path[4096];
    struct ps_report_options options;
    ps_report_options_init(&options);
    options.runs = runs;
    options.run_count = count;
    assert_status(ps_report_write(&options, in_run("page.html", path), &test_error), status, part);
    assert_false(file_exists(path));
    assert_null(ps_report_json(&options, &test_error));
    test_error = (struct ps_error){0};
}

static void test_refusals(void **state) {
    (void)state;
    char path[4096], message[4200];
    const char *runs[9];
    struct work work = work_make("1f1b-async", "stash", 1);
    for (int r = 0; r < 9; r++) runs[r] = test_directory;
    refuse(runs, 0, PS_USAGE, "`runs`: 0; a report is of 1 to 8");
    refuse(runs, 9, PS_USAGE, "`runs`: 9; a report is of 1 to 8");
    refuse(runs, 1, PS_BAD_INPUT, "is not a run's directory: there is no config.json\ntrain --out DIR writes one");
    put("config.json", config);
    refuse(runs, 1, PS_BAD_INPUT, "plan.json: cannot open: No such file");
    make_run(&work, config);
    /* A profile of another size: the message says of which run. */
    work.profile->tables[0].micro_batch = 8;
    assert_ok(ps_profile_write(work.profile, in_run("profile.json", path), &test_error));
    snprintf(message, sizeof message, "%s: micro-batch 4: the profile has no such size, but 8", test_directory);
    refuse(runs, 2, PS_USAGE, message);
    work.profile->tables[0].micro_batch = 4;
    make_run(&work, config);
    put("log.jsonl", "{\"step\": 1}\n{\n");
    refuse(runs, 1, PS_BAD_INPUT, "log.jsonl: line 2 is not a line of a log: an object with a step is expected");
    assert_int_equal(remove(in_run("log.jsonl", path)), 0);
    put("summary.json", "{\"format\": \"penstock-summary\"}");
    refuse(runs, 1, PS_BAD_INPUT, "summary.json: ");
    assert_int_equal(remove(in_run("summary.json", path)), 0);
    /* A trace and a cluster of other workers. */
    leave_trace(&work, 3, 1, 0, in_run("trace.json", path));
    struct text changed = {0};
    char *text;
    size_t size;
    assert_ok(file_read(path, 1 << 20, &text, &size, &test_error));
    const char *memory = strstr(text, "\"memory_bytes\":["), *workers = strstr(text, "\"workers\":3");
    assert_true(memory && workers);
    for (const char *c = text; *c; c++) text_add(&changed, "%c%s", c == workers + 10 ? '4' : *c, c == memory + 15 ? "1," : "");
    test_file_write(path, changed.data, changed.length);
    text_free(&changed);
    free(text);
    refuse(runs, 1, PS_BAD_INPUT, "trace.json: is of 4 workers; the run's plan has 3");
    struct ps_cluster *two;
    assert_ok(ps_cluster_uniform(&(struct ps_cluster_options){.struct_size = sizeof(struct ps_cluster_options), .workers = 2},
                                 &two, &test_error));
    assert_ok(ps_cluster_write(two, in_run("cluster.json", path), &test_error));
    refuse(runs, 1, PS_BAD_INPUT, "cluster.json: has 2 of the 3 workers of the plan");
    ps_cluster_destroy(two);
    work_free(&work);
}

/* Devices of other types than the profile's have profiles of their own in the directory, which the prediction takes. */
static void test_types(void **state) {
    (void)state;
    char path[4096];
    const char *const runs[] = {test_directory};
    struct ps_report_options options;
    struct ps_simulation *simulation;
    struct ps_profile *fast;
    struct work work = work_make("1f1b-async", "stash", 1);
    make_run(&work, "{\"format\": \"penstock-config\", \"version\": 1, \"model\": \"six\", \"emulate\": true}");
    for (int w = 0; w < WORKERS; w++) strcpy(work.cluster->devices[w].type, w > 0 ? "fast" : "hand");
    assert_ok(ps_cluster_write(work.cluster, in_run("cluster.json", path), &test_error));
    assert_ok(ps_profile_read(in_run("profile.json", path), &fast, &test_error));
    strcpy(fast->device, "fast");
    for (int l = 0; l < LAYERS; l++) layer_times_scale(&fast->tables[0].layers[l].time, 0.25);
    assert_ok(ps_profile_write(fast, in_run("profile-fast.json", path), &test_error));
    assert_ok(profile_add_device(work.profile, fast, &test_error));
    ps_report_options_init(&options);
    options.runs = runs;
    options.run_count = 1;
    assert_ok(ps_simulate(work.plan, work.profile, work.cluster, 0, &simulation, &test_error));
    json_t *root = document_of(&options);
    const json_t *shown = json_object_get(json_array_get(json_object_get(root, "subjects"), 0), "simulation");
    const double period_s = ps_simulation_info(simulation).period_s,
                 shown_s = json_number_value(json_object_get(shown, "period_s"));
    assert_true(fabs(shown_s - period_s) <= 1e-12 * period_s);
    json_decref(root);
    ps_simulation_destroy(simulation);
    /* What is no profile of a further type is not read: that of the known type, that of none, and one in another directory. */
    char directory[4096];
    assert_ok(file_make_directory(in_run("profile-a", directory), &test_error));
    put("profile-hand.json", "{");
    put("profile-.json", "{");
    put("profile-a/b.json", "{");
    json_decref(document_of(&options));
    strcpy(work.cluster->devices[0].type, "a/b");
    assert_ok(ps_cluster_write(work.cluster, in_run("cluster.json", path), &test_error));
    refuse(runs, 1, PS_USAGE, "devices[0].type: 'a/b' has no profile");
    for (int w = 0; w < WORKERS; w++) work.cluster->devices[w].type[0] = '\0';
    assert_ok(ps_cluster_write(work.cluster, in_run("cluster.json", path), &test_error));
    json_decref(document_of(&options));
    for (int w = 0; w < WORKERS; w++) strcpy(work.cluster->devices[w].type, "fast");
    assert_ok(ps_cluster_write(work.cluster, in_run("cluster.json", path), &test_error));
    /* It has the same sizes. */
    fast->tables[0].micro_batch = 8;
    assert_ok(ps_profile_write(fast, in_run("profile-fast.json", path), &test_error));
    refuse(runs, 1, PS_BAD_INPUT, "costs[0].micro_batch: 8, but the profile on hand has 4");
    work_free(&work);
}

/* What the run with this configuration is predicted to take. */
static json_t *prediction(const char *about, int64_t *limit_bytes) {
    const char *const runs[] = {test_directory};
    struct ps_report_options options;
    struct text text = {0};
    text_add(&text, "{\"format\": \"penstock-config\", \"version\": 1, \"model\": \"six\"%s}", about);
    put("config.json", text.data);
    text_free(&text);
    ps_report_options_init(&options);
    options.runs = runs;
    options.run_count = 1;
    json_t *root = document_of(&options), *subject = json_array_get(json_object_get(root, "subjects"), 0);
    json_t *simulation = json_incref(json_object_get(subject, "simulation"));
    assert_non_null(simulation);
    *limit_bytes = int_of(json_array_get(json_object_get(subject, "memory"), 0), "limit_bytes");
    json_decref(root);
    return simulation;
}

static json_t *simulated(const struct work *work) {
    struct ps_simulation *simulation;
    assert_ok(ps_simulate(work->plan, work->profile, work->cluster, 0, &simulation, &test_error));
    char *text = ps_simulation_json(simulation);
    json_t *root = json_loads(text, 0, NULL);
    assert_non_null(root);
    free(text);
    ps_simulation_destroy(simulation);
    return root;
}

static bool take_equal(json_t *one, json_t *other) {
    settle(one);
    settle(other);
    const bool equal = json_equal(one, other);
    json_decref(one);
    json_decref(other);
    return equal;
}

/* A run is predicted on the cluster it was planned for only if its links are emulated, or lie between hosts; else nothing that
 * the cluster is said to have counts but its memory and the cores that there are. */
static void test_machines(void **state) {
    (void)state;
#define LINKS "\"bandwidth_bytes_per_s\": 524288, \"latency_s\": 0.0078125"
    char path[4096];
    int64_t limit;
    struct work work = work_make("1f1b-async", "stash", 1);
    make_run(&work, config);
    struct cluster_link *links = work.cluster->links;
    const int link_count = work.cluster->link_count;
    assert_int_equal(link_count, 1);
    json_t *const free_links = prediction("", &limit);
    assert_int_equal(limit, 0);
    static const char *const unused[] = {"\"overlap\": false", "\"streaming\": true"};
    for (int u = 0; u < 2; u++) {
        char about[512];
        snprintf(about, sizeof about, ", \"cluster_options\": {" LINKS ", %s, \"memory_bytes\": 1e30}", unused[u]);
        assert_true(take_equal(json_incref(free_links), prediction(about, &limit)));
    }
    assert_true(limit == (int64_t)1e18);
    assert_true(take_equal(json_incref(free_links), prediction(", \"cluster_options\": {\"memory_bytes\": -5}", &limit)));
    assert_int_equal(limit, 0);
    /* One after the other on one core. */
    work.cluster->link_count = 0;
    work.cluster->cores = 1;
    assert_true(take_equal(simulated(&work), prediction(", \"cores\": 1", &limit)));
    assert_false(take_equal(json_incref(free_links), prediction(", \"cores\": 1", &limit)));
    assert_true(take_equal(json_incref(free_links), prediction(", \"cores\": 0.5", &limit)));
    assert_true(take_equal(json_incref(free_links), prediction(", \"cores\": -1", &limit)));
    work.cluster->cores = 0;
    work.cluster->link_count = link_count;
    links->bandwidth_bytes_per_s = 524288;
    static const char *const flags[] = {"emulate", "links"};
    for (int streaming = 0; streaming < 2; streaming++)
        for (int overlap = streaming; overlap < 2; overlap++)
            for (int f = 0; f < 2; f++) {
                char about[512];
                snprintf(about, sizeof about,
                         ", \"%s\": true, \"cluster_options\": {" LINKS ", \"overlap\": %s, \"streaming\": %s}", flags[f],
                         overlap ? "true" : "false", streaming ? "true" : "false");
                work.cluster->overlap = overlap;
                work.cluster->streaming = streaming;
                assert_true(take_equal(simulated(&work), prediction(about, &limit)));
                assert_false(take_equal(json_incref(free_links), simulated(&work)));
            }
    /* The same of a file of the cluster. */
    work.cluster->overlap = work.cluster->streaming = false;
    for (int w = 0; w < WORKERS; w++) work.cluster->devices[w].speed = 2;
    assert_ok(ps_cluster_write(work.cluster, in_run("cluster.json", path), &test_error));
    assert_true(take_equal(json_incref(free_links), prediction("", &limit)));
    assert_int_equal(limit, 1 << 26);
    assert_true(take_equal(simulated(&work), prediction(", \"emulate\": true", &limit)));
    json_decref(free_links);
    work_free(&work);
}

/* A directory's name is the last part of its path. */
static void test_names(void **state) {
    (void)state;
    struct ps_report_options options;
    struct work work = work_make("1f1b-async", "stash", 1);
    make_run(&work, config);
    static const char *const ends[] = {"", "/", "//", "/."};
    for (size_t e = 0; e < sizeof ends / sizeof *ends; e++) {
        char run[4200];
        snprintf(run, sizeof run, "%s%s", test_directory, ends[e]);
        const char *const runs[] = {run};
        ps_report_options_init(&options);
        options.runs = runs;
        options.run_count = 1;
        json_t *root = document_of(&options), *subject = json_array_get(json_object_get(root, "subjects"), 0);
        assert_string_equal(json_string_value(json_object_get(subject, "path")), run);
        assert_string_equal(json_string_value(json_object_get(subject, "name")),
                            e == 3 ? "." : strrchr(test_directory, '/') + 1);
        json_decref(root);
    }
    work_free(&work);
}

/* Of many layers the first, and of the values of a log so many. */
static void test_most(void **state) {
    (void)state;
    enum { LAYERS_SHOWN = 1000, LIST = 97, VALUES = 60000 };
    struct ps_report_options options;
    const char *const runs[] = {test_directory};
    struct ps_profile *profile;
    struct work work = work_make("1f1b-async", "stash", 1);
    ps_report_options_init(&options);
    make_run(&work, config);
    /* An object, its step, and a list: a hundred values in a line. */
    struct text log = {0};
    for (int l = 0; l < 700; l++) {
        text_add(&log, "{\"step\": %d, \"list\": [", l + 1);
        for (int v = 0; v < LIST; v++) text_add(&log, "%s%d", v > 0 ? "," : "", v);
        text_add(&log, "]}\n");
    }
    put("log.jsonl", log.data);
    text_free(&log);
    options.runs = runs;
    options.run_count = 1;
    json_t *root = document_of(&options);
    const json_t *lines = json_object_get(json_array_get(json_object_get(root, "subjects"), 0), "log");
    assert_int_equal(json_array_size(lines), VALUES / (LIST + 3));
    for (size_t l = 0; l < json_array_size(lines); l++) {
        assert_int_equal(length_of(json_array_get(lines, l), "list"), LIST);
        for (size_t v = 0; v < LIST; v++)
            assert_int_equal(json_integer_value(json_array_get(json_object_get(json_array_get(lines, l), "list"), v)), v);
    }
    json_decref(root);
    for (int more = 0; more < 2; more++) {
        assert_ok(profile_create(1, LAYERS_SHOWN + more, &profile, &test_error));
        strcpy(profile->model, "six");
        strcpy(profile->device, "hand");
        profile->tables[0].micro_batch = 4;
        for (int l = 0; l < LAYERS_SHOWN + more; l++) {
            struct layer_cost *layer = &profile->tables[0].layers[l];
            layer->time.forward_s = 0x1p-10;
            snprintf(layer->name, sizeof layer->name, "layer%d", l);
            strcpy(layer->kind, "linear");
        }
        assert_ok(plan_stage_set(work.plan, WORKERS - 1, 4, LAYERS_SHOWN + more - 1, WORKERS - 1, &test_error));
        options.run_count = 0;
        options.plan = work.plan;
        options.profile = profile;
        options.cluster = work.cluster;
        root = document_of(&options);
        const json_t *subject = json_array_get(json_object_get(root, "subjects"), 0);
        assert_int_equal(length_of(subject, "layers"), LAYERS_SHOWN);
        assert_int_equal(int_of(subject, "layer_count"), LAYERS_SHOWN + more);
        json_decref(root);
        ps_profile_destroy(profile);
    }
    work_free(&work);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_texts, test_directory_set_up, test_directory_tear_down),
        cmocka_unit_test_setup_teardown(test_bounds, test_directory_set_up, test_directory_tear_down),
        cmocka_unit_test_setup_teardown(test_page, test_directory_set_up, test_directory_tear_down),
        cmocka_unit_test_setup_teardown(test_log, test_directory_set_up, test_directory_tear_down),
        cmocka_unit_test_setup_teardown(test_memory, test_directory_set_up, test_directory_tear_down),
        cmocka_unit_test_setup_teardown(test_versions, test_directory_set_up, test_directory_tear_down),
        cmocka_unit_test_setup_teardown(test_long_segment, test_directory_set_up, test_directory_tear_down),
        cmocka_unit_test_setup_teardown(test_refusals, test_directory_set_up, test_directory_tear_down),
        cmocka_unit_test_setup_teardown(test_types, test_directory_set_up, test_directory_tear_down),
        cmocka_unit_test_setup_teardown(test_machines, test_directory_set_up, test_directory_tear_down),
        cmocka_unit_test_setup_teardown(test_names, test_directory_set_up, test_directory_tear_down),
        cmocka_unit_test_setup_teardown(test_most, test_directory_set_up, test_directory_tear_down),
        cmocka_unit_test_setup_teardown(test_strings, test_directory_set_up, test_directory_tear_down)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
