/* Pictures and traces of timelines: well-formed whatever the names, and with everything in them that the timeline holds. */
#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "report/report.h"
#include "simulate/simulate.h"
#include "support.h"

#define NASTY "<a> & \"b\" \\ ]]> \t'c' \xc3\xa9"

static struct ps_simulation *make_simulation(const char *schedule, const char *policy, int stages, int batches,
                                             bool recompute) {
    struct ps_cluster_options options = {.struct_size = sizeof options, .workers = stages, .latency_s = 1e-4};
    struct stage_cost *costs = calloc((size_t)stages, sizeof *costs);
    struct ps_cluster *cluster;
    struct ps_programs *programs;
    struct ps_simulation *simulation;
    assert_non_null(costs);
    for (int s = 0; s < stages; s++)
        costs[s] = (struct stage_cost){.time = {1e-3, 1e-3, 1e-3, 1e-4},
                                       .size = {.input_bytes = 640, .output_bytes = s + 1 < stages ? 640 : 0}};
    assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
    assert_ok(lower_straight(&(struct straight){.schedule = schedule,
                                                .policy = policy,
                                                .workers = stages,
                                                .micro_batches = 2,
                                                .batches = batches,
                                                .recompute = recompute},
                             &programs, &test_error));
    struct simulation_work work = {.programs = programs, .costs = costs, .cluster = cluster, .samples = 4};
    assert_ok(simulate_programs(&work, &simulation, &test_error));
    ps_programs_destroy(programs);
    ps_cluster_destroy(cluster);
    free(costs);
    return simulation;
}

/* Two stages: of replicas, whose gradients are added up, or with forwards and backwards on different workers. */
static struct ps_simulation *make_parts(bool split, int batches) {
    enum { STAGES = 2, WORKERS = 4 };
    struct ps_cluster_options options = {
        .struct_size = sizeof options, .workers = WORKERS, .bandwidth_bytes_per_s = 1e6, .latency_s = 1e-4};
    struct stage_cost costs[STAGES];
    struct ps_cluster *cluster;
    struct ps_plan *plan;
    struct ps_programs *programs;
    struct ps_simulation *simulation;
    assert_ok(plan_create(WORKERS, STAGES, &plan, &test_error));
    strcpy(plan->schedule, "1f1b-async");
    strcpy(plan->weights, "latest");
    plan->micro_batches = 1;
    for (int s = 0; s < STAGES; s++) {
        int forward[] = {s, s + 2}, backward[] = {split ? s + 2 : s, s + 2};
        assert_ok(plan_stage_workers(plan, s, forward, split ? 1 : 2, backward, split ? 1 : 2, &test_error));
        plan->stages[s].first = plan->stages[s].last = s;
        costs[s] = (struct stage_cost){
            .time = {1e-3, 1e-3, 1e-3, 1e-4},
            .size = {.parameter_bytes = 640, .input_bytes = 64, .stash_bytes = 128, .output_bytes = s + 1 < STAGES ? 64 : 0}};
    }
    assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
    assert_ok(lower_plan(plan, batches, &programs, &test_error));
    struct simulation_work work = {.programs = programs, .costs = costs, .cluster = cluster, .samples = 4};
    assert_ok(simulate_programs(&work, &simulation, &test_error));
    ps_programs_destroy(programs);
    ps_cluster_destroy(cluster);
    ps_plan_destroy(plan);
    return simulation;
}

/* ------------------------------------------------------------------ XML */

/* Entities are the five known ones or numbers; '<' stands only for tags. */
static const char *xml_text(const char *at, char end) {
    while (*at && *at != end) {
        assert_true((unsigned char)*at >= ' ' || *at == '\n');
        if (end != '<') assert_true(*at != '<');
        if (*at == '&') {
            size_t length = strcspn(at, ";<\" \n");
            assert_true(at[length] == ';' && length > 2 && length < 8);
        }
        at++;
    }
    return at;
}

static const char *xml_name(const char *at, char name[32]) {
    size_t length = 0;
    while (isalnum((unsigned char)at[length]) || at[length] == '-' || at[length] == ':') length++;
    assert_in_range(length, 1, 31);
    memcpy(name, at, length);
    name[length] = '\0';
    return at + length;
}

/* Parses all of `text`: tags nest, attributes are quoted; counts the elements called `wanted`. */
static int xml_count(const char *text, const char *wanted) {
    char open[16][32], name[32], attribute[32];
    int depth = 0, count = 0, roots = 0;
    for (const char *at = text; *at; at = xml_text(at, '<')) {
        assert_int_equal(*at++, '<');
        bool closing = *at == '/';
        at = xml_name(at + closing, name);
        if (closing) {
            assert_true(depth > 0);
            assert_string_equal(name, open[--depth]);
        } else {
            count += strcmp(name, wanted) == 0;
            roots += depth == 0;
            while (*at == ' ') {
                at = xml_name(at + 1, attribute);
                assert_int_equal(*at++, '=');
                assert_int_equal(*at++, '"');
                at = xml_text(at, '"');
                assert_int_equal(*at++, '"');
            }
            if (*at == '/') {
                at++;
            } else {
                assert_true(depth < 16);
                strcpy(open[depth++], name);
            }
        }
        assert_int_equal(*at++, '>');
    }
    assert_int_equal(depth, 0);
    assert_int_equal(roots, 1);
    return count;
}

static int occurrences(const char *text, const char *part) {
    int count = 0;
    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part)) count++;
    return count;
}

/* A box for each computation, a mark for each update and prediction, a background for each row, and the legend. */
static void test_picture_holds_everything(void **state) {
    (void)state;
    static const int workers[] = {1, 2, 5, 16, 17, 32, 33, 64};
    for (size_t i = 0; i < sizeof workers / sizeof workers[0]; i++) {
        struct ps_simulation *simulation = make_simulation("1f1b-async", "pipeoptim", workers[i], 6, true);
        struct timeline_caption caption = {.title = "a title"};
        char *svg = report_timeline_svg(&simulation->timeline, &caption);
        assert_non_null(svg);
        int legend = workers[i] > 1 ? 5 : 4; /* one worker predicts nothing */
        assert_int_equal(xml_count(svg, "rect"), 1 + legend + workers[i] + simulation->timeline.event_count);
        assert_int_equal(occurrences(svg, ">worker "), workers[i]);
        /* The more rows, the narrower. */
        assert_int_equal(occurrences(svg, workers[i] <= 16   ? "height=\"26.0\" fill"
                                          : workers[i] <= 32 ? "height=\"18.0\" fill"
                                                             : "height=\"14.0\" fill"),
                         workers[i]);
        int updates = 0;
        for (int e = 0; e < simulation->timeline.event_count; e++)
            updates += simulation->timeline.events[e].instruction.op == OP_U;
        assert_int_equal(updates, 6 * workers[i]);
        assert_int_equal(occurrences(svg, "class=\"update\""), updates + 1);
        free(svg);
        ps_simulation_destroy(simulation);
    }
}

/* A text with ^ for the character that begins what terminals take for colours. */
static void add_readable(struct text *out, const char *text) {
    for (; *text; text++) text_add(out, "%c", *text == '\033' ? '^' : *text);
    text_add(out, "\n");
}

/* Each computation of two micro-batches, one after the other, and everything that is transferred, in seconds and in shorter
 * units of time. */
static void add_every_kind(struct text *out) {
    enum { WORKERS = 3, TRANSFERS = TRAFFIC_SUM + 2 };
    static const double units[] = {1, 0x1p-19, 0x1p-29};
    for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
        struct timeline_event events[2 * OPCODE_COUNT];
        struct timeline_transfer transfers[TRANSFERS];
        int count = 0;
        for (int i = 0; i < 2 * OPCODE_COUNT; i++) {
            struct instruction instruction = instruction_make((enum opcode)(i / 2), 0, i % 2);
            if (instruction.op == OP_U) instruction.to = 1;
            if (instruction.op == OP_P) instruction.predict_to = 2;
            if (instruction.op == OP_P) instruction.ahead = 3;
            if (!instruction_computes(&instruction)) continue;
            events[count] = (struct timeline_event){
                .instruction = instruction, .start_s = count * units[u], .end_s = (count + 1) * units[u]};
            count++;
        }
        for (int t = 0; t < TRANSFERS; t++)
            transfers[t] = (struct timeline_transfer){.from = t < TRAFFIC_SUM ? t % 2 : t - TRAFFIC_SUM + 1,
                                                      .to = t < TRAFFIC_SUM ? 1 - t % 2 : TRANSFERS - t,
                                                      .traffic = t < TRAFFIC_SUM ? t : TRAFFIC_SUM,
                                                      .micro_batch = t % 2,
                                                      .bytes = 100 + t,
                                                      .start_s = 2 * t * units[u],
                                                      .end_s = (2 * t + 1.5) * units[u]};
        struct ps_simulation simulation = {.info = {.workers = WORKERS, .makespan_s = count * units[u]},
                                           .timeline = {.workers = WORKERS,
                                                        .lanes = 1,
                                                        .batches = 1,
                                                        .micro_batches = 2,
                                                        .events = events,
                                                        .event_count = count,
                                                        .transfers = transfers,
                                                        .transfer_count = TRANSFERS}};
        const struct timeline_caption caption = {.title = "every kind", .arrows = true};
        char *const made[] = {
            report_timeline_svg(&simulation.timeline, &caption), ps_simulation_timeline(&simulation, 11 + count * 2, false),
            ps_simulation_timeline(&simulation, 11 + count * 2, true), report_timeline_trace(&simulation.timeline, &caption)};
        for (size_t m = 0; m < sizeof made / sizeof *made; m++) {
            assert_non_null(made[m]);
            if (u == 0 || m < 2) add_readable(out, made[m]);
            free(made[m]);
        }
    }
}

/* Pictures, traces and lines of text of four small simulations and of one with every kind of thing, to the
 * byte; PENSTOCK_REGENERATE=1 writes them anew. */
static void test_texts(void **state) {
    (void)state;
    struct ps_simulation *const simulations[] = {make_simulation("1f1b-async", "pipeoptim", 2, 2, true), make_parts(false, 2),
                                                 make_parts(true, 2), make_simulation("fbp-as", "sync", 2, 1, false)};
    struct text texts = {0};
    for (size_t i = 0; i < sizeof simulations / sizeof *simulations; i++) {
        const struct ps_simulation *simulation = simulations[i];
        struct memory_curve *memory = memory_curves_make(simulation);
        const char *const notes[] = {"first", NASTY, "third", "last"};
        const struct timeline_caption caption = {
            .title = "a title", .notes = notes, .memory = memory, .arrows = i == 1 || i == 2};
        char *const made[] = {report_timeline_svg(&simulation->timeline, &caption),
                              report_timeline_trace(&simulation->timeline, &caption),
                              ps_simulation_timeline(simulation, 70, i == 1), ps_simulation_timeline(simulation, 25, false)};
        for (size_t m = 0; m < sizeof made / sizeof *made; m++) {
            assert_non_null(made[m]);
            text_add(&texts, "%s\n", made[m]);
            free(made[m]);
        }
        memory_curves_free(memory, simulation->info.workers);
        ps_simulation_destroy(simulations[i]);
    }
    add_every_kind(&texts);
    test_golden(TEST_DIRECTORY "/golden/timelines.txt", text_take(&texts));
}

/* Where boxes are wide enough they carry the number of their micro-batch. */
static void test_numbers(void **state) {
    (void)state;
    struct ps_simulation *simulation = make_simulation("gpipe", "sync", 2, 1, false);
    struct timeline_caption caption = {.title = ""};
    char *svg = report_timeline_svg(&simulation->timeline, &caption);
    assert_int_equal(occurrences(svg, ">0</text>"), 4);
    assert_int_equal(occurrences(svg, ">1</text>"), 4);
    assert_int_equal(occurrences(svg, "<title>F1, stage 1: at 2.10 ms for 1.00 ms</title>"), 1);
    free(svg);
    ps_simulation_destroy(simulation);
}

static void test_names_are_escaped(void **state) {
    (void)state;
    struct ps_simulation *simulation = make_simulation("gpipe", "sync", 2, 1, false);
    const char *notes[] = {NASTY, NASTY};
    struct timeline_caption caption = {.title = NASTY, .notes = notes};
    char *svg = report_timeline_svg(&simulation->timeline, &caption);
    assert_true(xml_count(svg, "text") > 0);
    assert_int_equal(occurrences(svg, "&lt;a&gt; &amp; &quot;b&quot; \\ ]]&gt;  'c' \xc3\xa9"), 4);
    free(svg);
    /* What XML has not, and what is no UTF-8. */
    caption.title = "a\xef\xbf\xbf"
                    "b\x1b\xc2\x85\xff";
    svg = report_timeline_svg(&simulation->timeline, &caption);
    assert_true(occurrences(svg, "a   b   ?") > 0);
    assert_null(strpbrk(svg, "\x1b\xff"));
    free(svg);
    ps_simulation_destroy(simulation);
}

/* Nothing in it, or no time passed: still a picture. */
static void test_empty_timelines(void **state) {
    (void)state;
    struct timeline_event event = {.instruction = instruction_make(OP_F, 0, 0)};
    struct timeline timelines[] = {{.workers = 2}, {.workers = 1, .events = &event, .event_count = 1}};
    for (int i = 0; i < 2; i++) {
        struct timeline_caption caption = {.title = "empty"};
        char *svg = report_timeline_svg(&timelines[i], &caption);
        /* The box begins where its row does. */
        double row, box;
        const char *background = strstr(svg, "worker 0</text><rect x=\""), *first = strstr(svg, "<rect class=\"forward\" x=\"");
        if (first) first = strstr(first + 1, "<rect class=\"forward\" x=\""); /* after the legend's */
        assert_int_equal(sscanf(background, "worker 0</text><rect x=\"%lf", &row), 1);
        assert_int_equal(first != NULL, i);
        if (first) assert_int_equal(sscanf(first, "<rect class=\"forward\" x=\"%lf", &box), 1);
        if (first) assert_true(box == row);
        assert_null(strstr(svg, "nan"));
        assert_null(strstr(svg, "inf"));
        assert_int_equal(xml_count(svg, "svg"), 1);
        char *trace = report_timeline_trace(&timelines[i], &caption);
        json_t *root = json_loads(trace, 0, NULL);
        assert_non_null(root);
        json_decref(root);
        free(trace);
        free(svg);
    }
}

/* ---------------------------------------------------------------- traces */

static const char *text_of(const json_t *event, const char *field) { return json_string_value(json_object_get(event, field)); }
static int int_of(const json_t *event, const char *field) { return (int)json_integer_value(json_object_get(event, field)); }

struct tally {
    int computations, transfers, names, flows[3];
};

static void check_event(const json_t *event, const struct timeline *timeline, struct tally *tally) {
    const char *phase = text_of(event, "ph");
    assert_non_null(phase);
    assert_non_null(text_of(event, "name"));
    assert_true(json_is_integer(json_object_get(event, "pid")) && json_is_integer(json_object_get(event, "tid")));
    if (*phase == 'X') {
        assert_true(json_number_value(json_object_get(event, "ts")) >= 0);
        assert_true(json_number_value(json_object_get(event, "dur")) >= 0);
        json_t *args = json_object_get(event, "args");
        assert_true(json_is_integer(json_object_get(args, "stage")) && json_is_integer(json_object_get(args, "micro_batch")));
        if (int_of(event, "pid") == 0)
            tally->computations++;
        else
            tally->transfers++;
    } else if (*phase == 'M') {
        tally->names += strcmp(text_of(event, "name"), "thread_name") == 0;
    } else {
        const char *place = strchr("stf", *phase);
        assert_non_null(place);
        tally->flows[place - "stf"]++;
        assert_in_range(int_of(event, "id"), 0, timeline->transfer_count - 1);
        const struct timeline_transfer *transfer = &timeline->transfers[int_of(event, "id")];
        if (*phase == 's') assert_int_equal(int_of(event, "tid"), transfer->from);
        if (*phase == 'f') assert_int_equal(int_of(event, "tid"), transfer->to);
    }
}

static json_t *find_event(json_t *events, const char *name, int worker) {
    size_t index;
    json_t *event;
    json_array_foreach(events, index, event) {
        if (*text_of(event, "ph") == 'X' && strcmp(text_of(event, "name"), name) == 0 && int_of(event, "pid") == 0 &&
            int_of(event, "tid") == worker)
            return event;
    }
    return NULL;
}

static void test_trace(void **state) {
    (void)state;
    struct ps_simulation *simulation = make_simulation("1f1b-async", "pipeoptim", 4, 8, false);
    const char *notes[] = {NASTY, "b", "c", "d"};
    struct timeline_caption caption = {.title = NASTY, .notes = notes};
    char *trace = report_timeline_trace(&simulation->timeline, &caption);
    json_error_t problem;
    json_t *root = json_loads(trace, JSON_REJECT_DUPLICATES, &problem);
    if (!root) fail_msg("line %d: %s", problem.line, problem.text);
    assert_string_equal(text_of(json_object_get(root, "otherData"), "title"), NASTY);
    json_t *events = json_object_get(root, "traceEvents"), *event;
    size_t index;
    struct tally tally = {0};
    json_array_foreach(events, index, event) check_event(event, &simulation->timeline, &tally);
    assert_int_equal(tally.computations, simulation->timeline.event_count);
    /* 16 micro-batches cross 3 boundaries in both directions, each with an arrow in three parts. */
    assert_int_equal(simulation->timeline.transfer_count, 2 * 3 * 16);
    assert_int_equal(tally.transfers, 2 * 3 * 16);
    for (int part = 0; part < 3; part++) assert_int_equal(tally.flows[part], 2 * 3 * 16);
    assert_int_equal(tally.names, 4 + 6);

    const struct timeline_event *first = &simulation->timeline.events[0];
    json_t *forward = find_event(events, "F0", 0);
    assert_non_null(forward);
    assert_true(fabs(json_number_value(json_object_get(forward, "dur")) - (1e6 * (first->end_s - first->start_s))) <= 1e-3);
    assert_int_equal(int_of(json_object_get(forward, "args"), "slot"), first->instruction.slot);
    assert_null(json_object_get(json_object_get(forward, "args"), "ahead"));
    json_t *update = find_event(events, "U3", 1);
    assert_non_null(update);
    assert_string_equal(text_of(update, "cat"), "update");
    assert_true(int_of(json_object_get(update, "args"), "ahead") > 0);
    json_decref(root);
    free(trace);
    ps_simulation_destroy(simulation);
}

/* What travels can be told apart: all-reduces always, in a strip on each replica's row, the others as arrows. */
static void test_kinds_of_transfers(void **state) {
    (void)state;
    struct ps_simulation *replicas = make_parts(false, 8), *split = make_parts(true, 8);
    for (int arrows = 0; arrows < 2; arrows++) {
        struct timeline_caption caption = {.title = "kinds", .arrows = arrows};
        char *sums = report_timeline_svg(&replicas->timeline, &caption);
        char *parts = report_timeline_svg(&split->timeline, &caption);
        xml_count(sums, "rect");
        /* Eight mini-batches in four rounds of two, on four workers; and the legend. */
        assert_int_equal(occurrences(sums, "class=\"all-reduce\""), 4 * 4 + 1);
        assert_int_equal(occurrences(sums, "<title>all-reduce 0, stage 1: "), 2);
        assert_int_equal(xml_count(parts, "path") > 0 && strstr(parts, "class=\"arrow sends-stash\""), arrows);
        assert_int_equal(strstr(parts, "class=\"arrow sends-weights\"") != NULL, arrows);
        assert_null(strstr(parts, "all-reduce"));
        free(parts);
        free(sums);
    }
    struct timeline_caption caption = {.title = "kinds"};
    char *sums = report_timeline_trace(&replicas->timeline, &caption),
         *parts = report_timeline_trace(&split->timeline, &caption);
    assert_int_equal(occurrences(sums, "\"cat\":\"all-reduce\""), 4 * 4);
    assert_non_null(strstr(parts, "\"cat\":\"stash\""));
    assert_non_null(strstr(parts, "\"cat\":\"weights\""));
    json_t *root = json_loads(sums, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    json_decref(root);
    free(parts);
    free(sums);
    char *terminal = ps_simulation_timeline(replicas, 120, false);
    assert_non_null(strstr(terminal, "═ all-reduce"));
    free(terminal);
    ps_simulation_destroy(split);
    ps_simulation_destroy(replicas);
}

/* A piece from late in a long run, with micro-batch numbers to match, costs no more than an early one. */
static void test_late_pieces(void **state) {
    (void)state;
    struct ps_simulation *simulation = make_simulation("1f1b", "sync", 3, 2, false);
    struct timeline *timeline = &simulation->timeline;
    for (int i = 0; i < timeline->event_count; i++) timeline->events[i].instruction.micro_batch += 2000000000;
    for (int i = 0; i < timeline->transfer_count; i++) timeline->transfers[i].micro_batch += 2000000000;
    struct timeline_caption caption = {.title = "late"};
    char *trace = report_timeline_trace(timeline, &caption), *svg = report_timeline_svg(timeline, &caption);
    assert_non_null(trace);
    assert_int_equal(occurrences(trace, "\"ph\":\"f\""), timeline->transfer_count);
    assert_int_equal(occurrences(trace, "\"F2000000003\""), 3);
    assert_true(xml_count(svg, "rect") > 0);
    free(svg);
    free(trace);
    ps_simulation_destroy(simulation);
}

/* 1f1b holds as many stashes and inputs as micro-batches are under way; with recomputation the stash of one only. */
static void test_memory_curves(void **state) {
    (void)state;
    enum { STAGES = 3 };
    for (int recompute = 0; recompute < 2; recompute++) {
        struct ps_simulation *simulation = make_simulation("1f1b-async", "latest", STAGES, 8, recompute);
        for (int s = 0; s < STAGES; s++) simulation->sizes[s].stash_bytes = 1 << 20;
        struct memory_curve *curves = memory_curves_make(simulation);
        assert_non_null(curves);
        for (int w = 0; w < STAGES; w++) {
            const struct memory_curve *curve = &curves[w];
            int64_t held = worker_memory_total(&simulation->memory[w]) - simulation->memory[w].stash;
            int64_t under_way = STAGES - w, stashes = recompute ? 1 : under_way;
            assert_int_equal(curve->peak, held + (stashes << 20) + under_way * simulation->sizes[w].input_bytes);
            assert_true(curve->points[0].time_s == 0);
            assert_int_equal(curve->points[curve->count - 1].bytes, held);
            for (int i = 1; i < curve->count; i++) assert_true(curve->points[i].time_s > curve->points[i - 1].time_s);
        }
        struct timeline_caption caption = {.title = "memory", .memory = curves, .arrows = true};
        char *svg = report_timeline_svg(&simulation->timeline, &caption);
        xml_count(svg, "path");
        assert_int_equal(occurrences(svg, "class=\"memory\""), STAGES + 1);
        /* Activations and gradients, and an example of each. */
        assert_int_equal(occurrences(svg, "class=\"arrow "), simulation->timeline.transfer_count + 2);
        free(svg);
        char *trace = report_timeline_trace(&simulation->timeline, &caption);
        assert_int_equal(occurrences(trace, "\"ph\":\"C\""), curves[0].count + curves[1].count + curves[2].count);
        json_t *root = json_loads(trace, 0, NULL);
        assert_non_null(root);
        json_decref(root);
        free(trace);
        memory_curves_free(curves, STAGES);
        ps_simulation_destroy(simulation);
    }
}

/* A forward whose backward is not in it, on one of two workers: a timeline may be a part of a run. */
static void test_memory_of_a_part(void **state) {
    (void)state;
    struct timeline_event event = {.instruction = instruction_make(OP_F, 0, 0), .start_s = 1, .end_s = 2};
    struct stage_sizes size = {.input_bytes = 100, .stash_bytes = 1000};
    struct worker_memory memory[2] = {{.weights = 64, .stash = 5000}, {.weights = 32}};
    const struct ps_simulation simulation = {.info = {.workers = 2},
                                             .memory = memory,
                                             .sizes = &size,
                                             .timeline = {.workers = 2, .lanes = 1, .events = &event, .event_count = 1}};
    struct memory_curve *curves = memory_curves_make(&simulation);
    assert_non_null(curves);
    static const struct memory_point wanted[2][3] = {{{0, 64}, {1, 64 + 1100}, {2, 64}}, {{0, 32}}};
    for (int w = 0; w < 2; w++) {
        assert_int_equal(curves[w].count, w == 0 ? 3 : 1);
        for (int p = 0; p < curves[w].count; p++)
            assert_true(curves[w].points[p].time_s == wanted[w][p].time_s && curves[w].points[p].bytes == wanted[w][p].bytes);
        assert_int_equal(curves[w].peak, w == 0 ? 64 + 1100 : 32);
    }
    memory_curves_free(curves, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_picture_holds_everything),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_names_are_escaped),
        cmocka_unit_test(test_empty_timelines),
        cmocka_unit_test(test_trace),
        cmocka_unit_test(test_kinds_of_transfers),
        cmocka_unit_test(test_late_pieces),
        cmocka_unit_test(test_memory_curves),
        cmocka_unit_test(test_memory_of_a_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
