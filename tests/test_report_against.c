/* simulate --against: a trace of the prediction itself, one stretched by a known factor, a part of one, and ones that are
 * no traces. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "report/report.h"
#include "simulate/simulate.h"
#include "support.h"

enum { LAYERS = 6, BATCHES = 12 };

struct work {
    struct ps_profile *profile;
    struct ps_plan *plan;
    struct ps_cluster *cluster;
    char directory[4096], path[4200];
};

static void work_make(struct work *work, const char *schedule, const char *weights, int micro_batches) {
    struct ps_cluster_options options = {.struct_size = sizeof options, .workers = 3};
    assert_ok(profile_create(1, LAYERS, &work->profile, &test_error));
    for (int l = 0; l < LAYERS; l++)
        work->profile->tables[0].layers[l] = (struct layer_cost){
            .time = {.forward_s = 0.25, .backward_input_s = 0.25, .backward_weight_s = 0.25, .update_s = 0.125}};
    assert_ok(ps_cluster_uniform(&options, &work->cluster, &test_error));
    assert_ok(plan_create(3, 3, &work->plan, &test_error));
    strcpy(work->plan->schedule, schedule);
    strcpy(work->plan->weights, weights);
    work->plan->micro_batches = micro_batches;
    for (int s = 0; s < 3; s++) assert_ok(plan_stage_set(work->plan, s, 2 * s, 2 * s + 1, s, &test_error));
    test_directory_make(work->directory);
    snprintf(work->path, sizeof work->path, "%s/trace.json", work->directory);
}

static void work_free(struct work *work) {
    test_directory_remove(work->directory);
    ps_plan_destroy(work->plan);
    ps_cluster_destroy(work->cluster);
    ps_profile_destroy(work->profile);
}

/* Leaves a trace of the run with all times multiplied by `factor`, of the computations that begin at `from_s` or later. */
static void leave_trace(const struct work *work, double factor, double from_s) {
    struct ps_simulation *simulation;
    assert_ok(ps_simulate(work->plan, work->profile, work->cluster, BATCHES, &simulation, &test_error));
    struct timeline *timeline = &simulation->timeline;
    int kept = 0;
    timeline->transfer_count = 0;
    for (int i = 0; i < timeline->event_count; i++) {
        struct timeline_event event = timeline->events[i];
        if (event.start_s < from_s) continue;
        event.start_s = (event.start_s - from_s) * factor;
        event.end_s = (event.end_s - from_s) * factor;
        timeline->events[kept++] = event;
    }
    timeline->event_count = kept;
    assert_ok(ps_simulation_write_trace(simulation, work->path, &test_error));
    ps_simulation_destroy(simulation);
}

/* Simulates the plan beside the trace at the path. */
static enum ps_status simulate_against(const struct work *work, struct ps_simulation **simulation) {
    struct ps_trace *trace = NULL;
    enum ps_status status = ps_trace_read(work->path, &trace, &test_error);
    assert_true((status == PS_OK) == (trace != NULL));
    TRY(status);
    status = ps_simulate_against(work->plan, work->profile, work->cluster, 0, trace, simulation, &test_error);
    ps_trace_destroy(trace);
    return status;
}

static struct against compare(const struct work *work) {
    struct ps_simulation *simulation;
    assert_ok(simulate_against(work, &simulation));
    assert_int_equal(ps_simulation_info(simulation).batches, BATCHES);
    struct against against = *simulation->against;
    ps_simulation_destroy(simulation);
    return against;
}

static void assert_near(double value, double wanted) {
    if (!(fabs(value - wanted) <= 1e-6)) fail_msg("%.9g is not %.9g", value, wanted);
}

static const struct {
    const char *schedule, *weights;
    int micro_batches, instructions;
    double period_s;
} cases[] = {
    {"1f1b", "sync", 4, BATCHES *(4 * 2 + 1) * 3, 6 * 1.5 + 0.25},
    {"1f1b-async", "stash", 1, BATCHES * 3 * 3, 1.75},
};

static void test_itself(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct work work;
        work_make(&work, cases[i].schedule, cases[i].weights, cases[i].micro_batches);
        leave_trace(&work, 1, 0);
        struct against against = compare(&work);
        assert_int_equal(against.matched, cases[i].instructions);
        assert_int_equal(against.unmatched, 0);
        assert_near(against.measured_period_s, cases[i].period_s);
        assert_near(against.period_error, 0);
        assert_near(against.makespan_error, 0);
        assert_near(against.duration_error[AGAINST_MAX], 0);
        assert_near(against.start_error[AGAINST_MAX], 0);
        work_free(&work);
    }
}

static void test_stretched(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct work work;
        work_make(&work, cases[i].schedule, cases[i].weights, cases[i].micro_batches);
        leave_trace(&work, 1.25, 0);
        struct against against = compare(&work);
        assert_near(against.period_error, 1 / 1.25 - 1);
        assert_near(against.makespan_error, 1 / 1.25 - 1);
        assert_near(against.duration_error[AGAINST_P50], 0.2);
        assert_near(against.duration_error[AGAINST_MAX], 0.2);
        assert_near(against.operation[OP_F].predicted_s, 0.5);
        assert_near(against.operation[OP_F].measured_s, 0.625);
        for (int op = 0; op < OPCODE_COUNT; op++) {
            const struct against_operation *operation = &against.operation[op];
            assert_near(operation->measured_s, operation->count > 0 ? 1.25 * operation->predicted_s : 0);
            assert_true(operation->count > 0 || operation->predicted_s == 0);
        }
        assert_true(against.start_error[AGAINST_MAX] > against.start_error[AGAINST_P50]);
        work_free(&work);
    }
}

/* A run remembers its last computations only: where they lie in the segment does not count as an error. */
static void test_part(void **state) {
    (void)state;
    struct work work;
    work_make(&work, "1f1b-async", "stash", 1);
    leave_trace(&work, 1, 10);
    struct against against = compare(&work);
    assert_true(against.matched > 20 && against.matched < cases[1].instructions);
    assert_near(against.period_error, 0);
    assert_near(against.makespan_error, 0);
    assert_near(against.start_error[AGAINST_MAX], 0);
    work_free(&work);
}

/* Nine computations that were predicted to take 1 to 9 % too long, and as much of the period too late: the first the
 * longest, the last the median. */
static void test_quantiles(void **state) {
    (void)state;
    enum { COUNT = 9 };
    struct timeline_event predicted_events[COUNT] = {0}, measured_events[COUNT] = {0};
    struct timeline predicted = {.events = predicted_events, .event_count = COUNT, .workers = 1, .batches = 1},
                    measured = predicted;
    struct against against;
    measured.events = measured_events;
    for (int i = 0; i < COUNT; i++) {
        const double percent = 1 + (4 * i + 8) % COUNT;
        predicted_events[i].instruction = measured_events[i].instruction = instruction_make(OP_F, 0, i);
        predicted_events[i].start_s = 2 * i;
        predicted_events[i].end_s = 2 * i + 1;
        measured_events[i].start_s = 2 * i - percent / 100 * 16;
        measured_events[i].end_s = measured_events[i].start_s + 1 / (1 + percent / 100);
    }
    assert_ok(against_compare(&predicted, &measured, true, &against, &test_error));
    static const double wanted[AGAINST_QUANTILES] = {0.05, 0.09, 0.09, 0.09};
    for (int q = 0; q < AGAINST_QUANTILES; q++) {
        assert_near(against.duration_error[q], wanted[q]);
        assert_near(against.start_error[q], wanted[q] * 16 / against.measured_makespan_s);
    }
}

/* Each worker's blocks, where the trace says what they took. */
static void test_memory(void **state) {
    (void)state;
    struct work work;
    struct ps_simulation *simulation;
    work_make(&work, "1f1b", "sync", 4);
    for (int l = 0; l < LAYERS; l++) work.profile->tables[0].layers[l].size.parameter_bytes = 64 * (l + 1);
    assert_ok(ps_simulate(work.plan, work.profile, work.cluster, BATCHES, &simulation, &test_error));
    int64_t *measured = calloc(3, sizeof *measured);
    assert_non_null(measured);
    for (int w = 0; w < 3; w++) measured[w] = simulation->worker[w].memory_bytes;
    assert_true(measured[1] > 0 && measured[1] % 4 == 0);
    measured[1] = measured[1] / 4 * 5;
    simulation->timeline.memory_bytes = measured;
    assert_ok(ps_simulation_write_trace(simulation, work.path, &test_error));
    ps_simulation_destroy(simulation);
    assert_ok(simulate_against(&work, &simulation));
    assert_near(simulation->against->memory_error, -0.2);
    char *table = ps_simulation_table(simulation), *text = ps_simulation_json(simulation);
    assert_non_null(strstr(table, "memory of worker 1"));
    json_t *root = json_loads(text, 0, NULL);
    assert_near(json_number_value(json_object_get(root, "memory_error")), -0.2);
    assert_int_equal(json_array_size(json_object_get(root, "memory")), 3);
    json_decref(root);
    free(text);
    free(table);
    ps_simulation_destroy(simulation);
    work_free(&work);
}

static void test_shown(void **state) {
    (void)state;
    struct work work;
    struct ps_simulation *simulation;
    work_make(&work, "1f1b", "sync", 4);
    leave_trace(&work, 1.25, 0);
    assert_ok(simulate_against(&work, &simulation));
    char *table = ps_simulation_table(simulation), *text = ps_simulation_json(simulation);
    assert_non_null(strstr(table, "-20.0%"));
    json_t *root = json_loads(text, 0, NULL);
    assert_near(json_number_value(json_object_get(root, "period_error")), -0.2);
    assert_near(json_number_value(json_object_get(json_object_get(root, "duration_error"), "p99")), 0.2);
    assert_int_equal(json_array_size(json_object_get(root, "operations")), 3);
    json_decref(root);
    free(text);
    free(table);
    ps_simulation_destroy(simulation);
    work_free(&work);
}

/* What was measured and is in no program is counted, and nothing else is said of it. */
static void test_unmatched(void **state) {
    (void)state;
    struct work work;
    struct timeline timeline;
    struct ps_simulation *simulation;
    work_make(&work, "1f1b", "sync", 4);
    for (int unmatched = 0; unmatched < 3; unmatched++) {
        char line[128];
        leave_trace(&work, 1, 0);
        assert_ok(report_trace_read(work.path, &timeline, &test_error));
        for (int i = 0; i < unmatched; i++) timeline.events[i].instruction.micro_batch = 1000 + i;
        assert_ok(report_simulate_against(work.plan, work.profile, work.cluster, 0, &timeline, &simulation, &test_error));
        assert_int_equal(simulation->against->unmatched, unmatched);
        assert_int_equal(simulation->against->matched, cases[0].instructions - unmatched);
        char *table = ps_simulation_table(simulation);
        snprintf(line, sizeof line, "\n%d of the measured instructions are not in the plan's programs\n", unmatched);
        assert_int_equal(strstr(table, "measured instructions") != NULL, unmatched > 0);
        assert_true(unmatched == 0 || strstr(table, line));
        free(table);
        timeline_free(&timeline);
        ps_simulation_destroy(simulation);
    }
    work_free(&work);
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *part;
    } broken[] = {
        {"{\"traceEvents\": []}", "otherData: is missing"},
        {"{\"otherData\": {\"workers\": 3, \"batches\": 1, \"micro_batches\": 1}, \"traceEvents\": []}",
         "holds no computation"},
        {"{\"otherData\": {\"workers\": 3, \"batches\": 1, \"micro_batches\": 1}, \"traceEvents\": [{\"ph\": \"X\", \"pid\": "
         "0, "
         "\"tid\": 5, \"ts\": 0, \"dur\": 1, \"args\": {}}]}",
         "traceEvents[0].tid: 5"},
        {"{\"otherData\": {\"workers\": 3, \"batches\": 1, \"micro_batches\": 1}, \"traceEvents\": [{\"ph\": \"X\", \"pid\": "
         "0, "
         "\"tid\": 0, \"ts\": 0, \"dur\": 1, \"args\": {\"op\": \"Q\", \"stage\": 0, \"micro_batch\": 0}}]}",
         "'Q' is not an instruction"},
        {"{\"otherData\": {\"workers\": 3, \"batches\": 1, \"micro_batches\": 1, \"memory_bytes\": [1, 2]}, \"traceEvents\": "
         "[]}",
         "memory_bytes: 2 figures for 3 workers"},
        {"{\"otherData\": {\"workers\": 2, \"batches\": 1, \"micro_batches\": 1}, \"traceEvents\": [{\"ph\": \"X\", \"pid\": "
         "0, "
         "\"tid\": 0, \"ts\": 0, \"dur\": 1, \"args\": {\"op\": \"F\", \"stage\": 0, \"micro_batch\": 0}}]}",
         "is of 2 workers; the plan has 3"},
        {"{\"otherData\": {\"workers\": 3, \"batches\": 1, \"micro_batches\": 1}, \"traceEvents\": [{\"ph\": \"X\", \"pid\": "
         "0, "
         "\"tid\": 0, \"ts\": 0, \"dur\": 1, \"args\": {\"op\": \"F\", \"stage\": 0, \"micro_batch\": 99}}]}",
         "none of the 1 measured instructions"},
    };
    struct work work;
    work_make(&work, "1f1b", "sync", 4);
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        struct ps_simulation *simulation;
        test_file_write(work.path, broken[i].text, strlen(broken[i].text));
        assert_status(simulate_against(&work, &simulation), PS_BAD_INPUT, broken[i].part);
    }
    work_free(&work);
    /* A run of which no timeline is simulated. */
    struct ps_simulation *simulation;
    struct ps_trace *trace;
    work_make(&work, "1f1b-async", "latest", 1);
    leave_trace(&work, 1, 0);
    assert_ok(ps_trace_read(work.path, &trace, &test_error));
    assert_status(ps_simulate_against(work.plan, work.profile, work.cluster, 350 * 1000, trace, &simulation, &test_error),
                  PS_USAGE, "a run of 5950000 instructions is too long to compare");
    ps_trace_destroy(trace);
    work_free(&work);
}

/* Each number of a trace, at and beyond its bounds. */
static void test_fields(void **state) {
    (void)state;
    static const char whole[] =
        "{\"otherData\": {\"workers\": 3, \"batches\": 2, \"micro_batches\": 2, \"lanes\": 1, \"memory_bytes\": "
        "[7, 8, 9]}, \"traceEvents\": [{\"ph\": \"X\", \"pid\": 1, \"tid\": 5, \"cat\": \"gradient\", \"ts\": "
        "3, \"dur\": 4, \"args\": {\"stage\": 1, \"micro_batch\": 1, \"bytes\": 2}}, {\"ph\": \"X\", \"pid\": "
        "0, \"tid\": 1, \"ts\": 2, \"dur\": 3, \"args\": {\"op\": \"F\", \"stage\": 1, \"micro_batch\": 1}}]}";
    static const struct {
        const char *at, *field, *value, *said; /* the field's value behind the first `at`; NULL: it is taken */
    } changes[] = {
        {"other", "workers", "0", "otherData.workers: 0 is not an integer from 1 to 4096"},
        {"other", "workers", "4097", "otherData.workers: 4097 is not"},
        {"other", "workers", "1", "otherData.memory_bytes: 3 figures for 1 workers"},
        {"other", "workers", "4096", "otherData.memory_bytes: 3 figures for 4096 workers"},
        {"other", "batches", "-1", "otherData.batches: -1 is not an integer from 0 to 2147483647"},
        {"other", "batches", "0", NULL},
        {"other", "micro_batches", "-1", "otherData.micro_batches: -1 is not an integer from 0 to"},
        {"other", "micro_batches", "0", NULL},
        {"other", "lanes", "0", "otherData.lanes: 0 is not an integer from 1 to 2"},
        {"other", "lanes", "3", "otherData.lanes: 3 is not"},
        {"other", "lanes", "2", NULL},
        {"other", "memory_bytes", "[7, -1, 9]", "otherData.memory_bytes[1]: is no number of bytes"},
        {"other", "memory_bytes", "[7, 8, 9.5]", "otherData.memory_bytes[2]: is no number of bytes"},
        {"other", "memory_bytes", "[0, 0, 0]", NULL},
        {"pid\": 1", "tid", "-1", "traceEvents[0].tid: -1 is not an integer from 0 to 8"},
        {"pid\": 1", "tid", "9", "traceEvents[0].tid: 9 is not"},
        {"pid\": 1", "tid", "8", NULL},
        {"pid\": 1", "tid", "0", NULL},
        {"pid\": 1", "cat", "\"parcel\"", "traceEvents[0]: cat 'parcel' is nothing that is transferred"},
        {"pid\": 1", "cat", "\"all-reduce\"", NULL},
        {"pid\": 1", "cat", "\"activation\"", NULL},
        {"pid\": 1", "ts", "-0.5", "traceEvents[0].ts: -0.5 is not a number from 0 to 1e+15"},
        {"pid\": 1", "ts", "0", NULL},
        {"pid\": 1", "dur", "-0.5", "traceEvents[0].dur: -0.5 is not"},
        {"pid\": 1", "dur", "0", NULL},
        {"pid\": 1", "stage", "-1", "traceEvents[0].args.stage: -1 is not an integer from 0 to 32767"},
        {"pid\": 1", "stage", "0", NULL},
        {"pid\": 1", "micro_batch", "-1", "traceEvents[0].args.micro_batch: -1 is not an integer from 0 to 2147483647"},
        {"pid\": 1", "micro_batch", "0", NULL},
        {"pid\": 1", "bytes", "-1", "traceEvents[0].args.bytes: -1 is not an integer of at least 0"},
        {"pid\": 1", "bytes", "0", NULL},
        {"pid\": 0", "tid", "-1", "traceEvents[1].tid: -1 is not an integer from 0 to 2"},
        {"pid\": 0", "tid", "3", "traceEvents[1].tid: 3 is not"},
        {"pid\": 0", "tid", "2", NULL},
        {"pid\": 0", "ts", "2e15", "traceEvents[1].ts: 2e+15 is not a number from 0 to 1e+15"},
        {"pid\": 0", "ts", "0", NULL},
        {"pid\": 0", "dur", "-1", "traceEvents[1].dur: -1 is not"},
        {"pid\": 0", "dur", "0", NULL},
        {"pid\": 0", "op", "\"Q\"", "traceEvents[1].args: op 'Q' is not an instruction"},
        {"pid\": 0", "op", "\"RW\"", NULL},
        {"pid\": 0", "stage", "32768", "traceEvents[1].args.stage: 32768 is not"},
        {"pid\": 0", "stage", "32767", NULL},
        {"pid\": 0", "stage", "0", NULL},
        {"pid\": 0", "micro_batch", "-1", "traceEvents[1].args.micro_batch: -1 is not"},
        {"pid\": 0", "micro_batch", "0", NULL},
    };
    struct timeline timeline;
    struct work work;
    work_make(&work, "1f1b", "sync", 4);
    test_file_write(work.path, whole, strlen(whole));
    assert_ok(report_trace_read(work.path, &timeline, &test_error));
    assert_true(timeline.workers == 3 && timeline.batches == 2 && timeline.micro_batches == 2 && timeline.lanes == 1 &&
                timeline.event_count == 1 && timeline.transfer_count == 1);
    for (int w = 0; w < 3; w++) assert_int_equal(timeline.memory_bytes[w], 7 + w);
    const struct timeline_event *event = &timeline.events[0];
    assert_true(event->worker == 1 && event->instruction.op == OP_F && event->instruction.stage == 1 &&
                event->instruction.micro_batch == 1);
    assert_near(1e6 * event->start_s, 2);
    assert_near(1e6 * event->end_s, 5);
    const struct timeline_transfer *transfer = &timeline.transfers[0];
    assert_true(transfer->from == 1 && transfer->to == 2 && transfer->stage == 1 && transfer->micro_batch == 1 &&
                transfer->bytes == 2 && strcmp(report_traffic_name(transfer->traffic), "gradient") == 0);
    assert_near(1e6 * transfer->start_s, 3);
    assert_near(1e6 * transfer->end_s, 7);
    timeline_free(&timeline);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        char text[1024], name[64];
        snprintf(name, sizeof name, "\"%s\": ", changes[i].field);
        const char *from = strstr(strstr(whole, changes[i].at), name) + strlen(name);
        const size_t length = *from == '[' ? strcspn(from, "]") + 1 : strcspn(from, ",}");
        snprintf(text, sizeof text, "%.*s%s%s", (int)(from - whole), whole, changes[i].value, from + length);
        test_file_write(work.path, text, strlen(text));
        const enum ps_status status = report_trace_read(work.path, &timeline, &test_error);
        if (changes[i].said) {
            assert_status(status, PS_BAD_INPUT, changes[i].said);
        } else {
            assert_ok(status);
            timeline_free(&timeline);
        }
    }
    work_free(&work);
}

/* Other tools may have put the computations of a trace in another order: they come by worker and time. */
static void test_order(void **state) {
    (void)state;
    struct work work;
    struct text text = {0};
    struct timeline timeline;
    static const int starts[] = {5, 1, 3, 3, 9, 2}, workers[] = {1, 1, 0, 2, 0, 1}, ordered[] = {2, 4, 1, 5, 0, 3};
    work_make(&work, "1f1b", "sync", 4);
    text_add(&text, "{\"otherData\": {\"workers\": 3, \"batches\": 2, \"micro_batches\": 2}, \"traceEvents\": [");
    for (int i = 0; i < 6; i++)
        text_add(&text,
                 "%s{\"ph\": \"X\", \"pid\": 0, \"tid\": %d, \"ts\": %d, \"dur\": 1, \"args\": {\"op\": \"F\", \"stage\": 0, "
                 "\"micro_batch\": %d}}",
                 i > 0 ? "," : "", workers[i], starts[i], i);
    text_add(&text, "]}");
    test_file_write(work.path, text.data, text.length);
    text_free(&text);
    assert_ok(report_trace_read(work.path, &timeline, &test_error));
    assert_int_equal(timeline.event_count, 6);
    for (int i = 0; i < 6; i++) assert_int_equal(timeline.events[i].instruction.micro_batch, ordered[i]);
    timeline_free(&timeline);
    work_free(&work);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_itself),    cmocka_unit_test(test_stretched), cmocka_unit_test(test_part),
        cmocka_unit_test(test_quantiles), cmocka_unit_test(test_shown),     cmocka_unit_test(test_refused),
        cmocka_unit_test(test_memory),    cmocka_unit_test(test_fields),    cmocka_unit_test(test_unmatched),
        cmocka_unit_test(test_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
