/* The timeline in a terminal, in a case small enough to see: two workers, one micro-batch, every computation a second. And what
 * a table says of simulations made by hand. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "program_support.h"
#include "simulate/simulate.h"
#include "support.h"

static struct ps_simulation *simulate(const char *schedule, int micro_batches, int batches) {
    struct stage_cost costs[2];
    for (int s = 0; s < 2; s++)
        costs[s] = (struct stage_cost){.time = {.forward_s = 1, .backward_input_s = 0.5, .backward_weight_s = 0.5}};
    struct ps_cluster_options options = {.struct_size = sizeof options, .workers = 2};
    struct ps_cluster *cluster;
    struct ps_programs *programs;
    struct ps_simulation *simulation;
    assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
    assert_ok(lower_plain(schedule, "sync", 2, micro_batches, batches, &programs));
    struct simulation_work work = {.programs = programs, .costs = costs, .cluster = cluster};
    assert_ok(simulate_programs(&work, &simulation, &test_error));
    ps_programs_destroy(programs);
    ps_cluster_destroy(cluster);
    return simulation;
}

static void test_plain(void **state) {
    (void)state;
    struct ps_simulation *simulation = simulate("naive", 1, 1);
    char *text = ps_simulation_timeline(simulation, 31, false);
    assert_string_equal(text, "worker 0   ▒▒▒▒▒··········█████\n"
                              "worker 1   ·····▒▒▒▒▒█████·····\n"
                              "           4.00 s;  ▒ forward  █ backward\n");
    free(text);
    /* No narrower than can be read. */
    char *narrow = ps_simulation_timeline(simulation, 1, false);
    assert_non_null(strstr(narrow, "worker 0   ▒▒▒▒▒··········█████\n"));
    free(narrow);
    /* Each computes for half of the time. */
    char *table = ps_simulation_table(simulation);
    assert_non_null(strstr(table, "makespan    4.00 s for 1 mini-batch\n"));
    assert_non_null(
        strstr(table, "\n     0  50.0%        50.0%        0.0%           0.0%       0.0%     0 B              1   0 B "));
    free(table);
    ps_simulation_destroy(simulation);
}

/* The two halves of a backward, of half a second each. */
static void test_halves(void **state) {
    (void)state;
    struct ps_simulation *simulation = simulate("zb-h1", 2, 1);
    char *text = ps_simulation_timeline(simulation, 41, false);
    assert_string_equal(text, "worker 0   ▒▒▒▒▒▒▒▒▒▒▒▒···███▓▓▓···███▓▓▓\n"
                              "worker 1   ······▒▒▒▒▒▒███▒▒▒▒▒▒███▓▓▓▓▓▓\n"
                              "           5.00 s;  ▒ forward  █ backward, input  ▓ backward, weights\n");
    free(text);
    ps_simulation_destroy(simulation);
}

/* Forwards and backwards at the same time, in a line each. */
static void test_lanes(void **state) {
    (void)state;
    struct ps_simulation *simulation = simulate("fbp-as", 4, 1);
    char *text = ps_simulation_timeline(simulation, 31, false);
    assert_string_equal(text, "worker 0   ▒▒▒▒▒▒▒▒············\n"
                              "           ········██··██··████\n"
                              "worker 1   ··▒▒▒▒▒▒▒▒▒▒▒▒▒▒····\n"
                              "           ····██████████████··\n"
                              "           10.0 s;  ▒ forward  █ backward\n");
    free(text);
    ps_simulation_destroy(simulation);
}

static void test_long_runs_show_their_beginning(void **state) {
    (void)state;
    struct ps_simulation *simulation = simulate("naive", 1, 10);
    char *text = ps_simulation_timeline(simulation, 31, false);
    assert_non_null(strstr(text, "worker 0   ▒▒····██▒▒····██▒▒··\n"));
    assert_non_null(strstr(text, "the first 10.0 s of 40.0 s;"));
    free(text);
    ps_simulation_destroy(simulation);
}

/* Twice as fine: a half block in the colour of one moment on the colour of the next. */
static void test_colour(void **state) {
    (void)state;
    struct ps_simulation *simulation = simulate("naive", 1, 1);
    char *text = ps_simulation_timeline(simulation, 31, true);
    const char *row = strstr(text, "worker 0");
    assert_non_null(row);
    int cells = 0;
    for (const char *c = row; *c != '\n'; c++) cells += strncmp(c, "▌", strlen("▌")) == 0;
    assert_int_equal(cells, 20);
    assert_non_null(strstr(text, "\033[38;5;75;48;5;75m▌"));
    assert_non_null(strstr(text, "\033[0m\n"));
    free(text);
    ps_simulation_destroy(simulation);
}

/* Each kind of operation, of an even and of an odd micro-batch for two seconds each: its character or its colours, and its name
 * in the legend, which begins with the even ones' colour. */
static void test_looks(void **state) {
    (void)state;
    static const struct {
        enum opcode op;
        const char *block, *name; /* in the legend's order */
        int colour[2];
    } looks[] = {{OP_F, "▒", "forward", {75, 68}},          {OP_B, "█", "backward", {114, 71}},
                 {OP_I, "█", "backward, input", {114, 71}}, {OP_W, "▓", "backward, weights", {176, 133}},
                 {OP_R, "░", "recompute", {221, 179}},      {OP_U, "▪", "update", {252, 252}},
                 {OP_P, "▫", "predict", {134, 134}},        {OP_EA, "▪", "encode", {208, 208}},
                 {OP_DG, "▫", "decode", {178, 178}},        {OP_ES, "▪", "round", {208, 208}}};
    enum { LOOKS = sizeof looks / sizeof *looks, EVENTS = 2 * LOOKS };
    struct timeline_event events[EVENTS];
    struct text plain = {0}, colour = {0}, names = {0}, coloured_names = {0};
    for (int e = 0; e < EVENTS; e++) {
        const int number = looks[e / 2].colour[e % 2];
        events[e] = (struct timeline_event){
            .instruction = instruction_make(looks[e / 2].op, 0, e), .start_s = 2 * e, .end_s = 2 * e + 2};
        for (int second = 0; second < 2; second++) {
            text_add(&plain, "%s", looks[e / 2].block);
            text_add(&colour, "\033[38;5;%d;48;5;%dm▌", number, number);
        }
        if (e % 2 == 1) continue;
        text_add(&names, "  %s %s", looks[e / 2].block, looks[e / 2].name);
        text_add(&coloured_names, "  \033[38;5;%dm█\033[0m %s", number, looks[e / 2].name);
    }
    const struct ps_simulation simulation = {.info = {.makespan_s = 2 * EVENTS},
                                             .timeline = {.workers = 1, .lanes = 1, .events = events, .event_count = EVENTS}};
    for (int coloured = 0; coloured < 2; coloured++) {
        struct text wanted = {0};
        text_add(&wanted, "worker 0   %s%s\n           40.0 s;%s\n", coloured ? colour.data : plain.data,
                 coloured ? "\033[0m" : "", coloured ? coloured_names.data : names.data);
        char *text = ps_simulation_timeline(&simulation, 11 + 2 * EVENTS, coloured);
        assert_string_equal(text, wanted.data);
        free(text);
        free(wanted.data);
    }
    free(plain.data);
    free(colour.data);
    free(names.data);
    free(coloured_names.data);
}

/* Sums stand where their worker is idle from half of a moment on, those that are not over at the end too; what else travels
 * does not stand there. */
static void test_sums(void **state) {
    (void)state;
    static struct timeline_event events[] = {{.instruction = {.op = OP_F}, .worker = 0, .start_s = 0, .end_s = 5},
                                             {.instruction = {.op = OP_B}, .worker = 0, .start_s = 15, .end_s = 20},
                                             {.instruction = {.op = OP_F}, .worker = 1, .start_s = 5, .end_s = 10},
                                             {.instruction = {.op = OP_B}, .worker = 1, .start_s = 10, .end_s = 15}};
    static struct timeline_transfer transfers[] = {
        {.from = 0, .to = 1, .traffic = TRAFFIC_SUM, .start_s = 3, .end_s = 9},
        {.from = 0, .to = 1, .traffic = TRAFFIC_ACTIVATION, .start_s = 9, .end_s = 12},
        {.from = 0, .to = 1, .traffic = TRAFFIC_SUM, .start_s = 30, .end_s = 40},
        {.from = 1, .to = 0, .traffic = TRAFFIC_SUM, .start_s = 0.6, .end_s = 2.5},
        {.from = 1, .to = 0, .traffic = TRAFFIC_SUM, .start_s = 12.6, .end_s = 17.4},
        {.from = 1, .to = 0, .traffic = TRAFFIC_SUM, .start_s = 19, .end_s = 40}};
    struct ps_simulation simulation = {.info = {.makespan_s = 20},
                                       .timeline = {.workers = 2,
                                                    .events = events,
                                                    .event_count = sizeof events / sizeof *events,
                                                    .transfers = transfers,
                                                    .transfer_count = sizeof transfers / sizeof *transfers}};
    for (int lanes = 1; lanes <= 2; lanes++) {
        simulation.timeline.lanes = lanes;
        char *text = ps_simulation_timeline(&simulation, 31, false);
        assert_string_equal(text, lanes == 1 ? "worker 0   ▒▒▒▒▒════······█████\n"
                                               "worker 1   ·═···▒▒▒▒▒█████══··═\n"
                                               "           20.0 s;  ▒ forward  █ backward  ═ all-reduce\n"
                                             : "worker 0   ▒▒▒▒▒════···········\n"
                                               "           ···············█████\n"
                                               "worker 1   ·═···▒▒▒▒▒···════··═\n"
                                               "           ··········█████·····\n"
                                               "           20.0 s;  ▒ forward  █ backward  ═ all-reduce\n");
        free(text);
    }
}

/* Of more workers than there is room for every second one, and so on. */
static void test_rows(void **state) {
    (void)state;
    static const struct {
        int workers, shown, last;
    } cases[] = {{1, 1, 0}, {32, 32, 31}, {33, 17, 32}, {64, 32, 62}, {65, 22, 63}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct timeline_event events[65];
        char last[32];
        int shown = 0;
        for (int w = 0; w < cases[c].workers; w++)
            events[w] = (struct timeline_event){.instruction = instruction_make(OP_F, w, 0), .worker = w, .end_s = 1};
        const struct ps_simulation simulation = {
            .info = {.makespan_s = 1},
            .timeline = {.workers = cases[c].workers, .lanes = 1, .events = events, .event_count = cases[c].workers}};
        char *text = ps_simulation_timeline(&simulation, 31, false);
        for (const char *at = text; (at = strstr(at, "worker ")) != NULL; at++) shown++;
        assert_int_equal(shown, cases[c].shown);
        snprintf(last, sizeof last, "worker %-4d▒▒▒▒▒▒▒▒▒▒", cases[c].last);
        assert_non_null(strstr(text, last));
        free(text);
    }
}

/* The critical path names the workers that have most of it, of equal ones the first first, and sums up the rest. */
static void test_critical_path(void **state) {
    (void)state;
    static const struct {
        double compute_s[6], transfer_s, other_s;
        const char *line, *json; /* line NULL: there is none */
    } cases[] = {
        {{1, 2, 3, 4, 5, 5},
         2,
         3,
         "critical path  worker 4 20.0%, worker 5 20.0%, worker 3 16.0%, worker 2 12.0%, other workers 12.0%, transfers 8.0%, "
         "sending and receiving 12.0%\n",
         "{\"steps\": 7, \"compute_s\": [1.0, 2.0, 3.0, 4.0, 5.0, 5.0], \"transfer_s\": 2.0, \"other_s\": 3.0}"},
        {{0, 0, 1}, 0, 0, "critical path  worker 2 100.0%\n", NULL},
        {{1, 1, 1, 1}, 0, 0, "critical path  worker 0 25.0%, worker 1 25.0%, worker 2 25.0%, worker 3 25.0%\n", NULL},
        {{1, 1, 1, 1, 1, 1},
         0,
         0,
         "critical path  worker 0 16.7%, worker 1 16.7%, worker 2 16.7%, worker 3 16.7%, other workers 33.3%\n",
         NULL},
        {{3, 1, 3}, 1, 0, "critical path  worker 0 37.5%, worker 2 37.5%, worker 1 12.5%, transfers 12.5%\n", NULL},
        {{0}, 0, 0, NULL, NULL},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct ps_simulation_worker workers[6] = {{0}};
        double compute_s[6];
        memcpy(compute_s, cases[c].compute_s, sizeof compute_s);
        struct ps_simulation simulation = {
            .info = {.workers = 6, .makespan_s = 1},
            .worker = workers,
            .critical = {.steps = 7, .compute_s = compute_s, .transfer_s = cases[c].transfer_s, .other_s = cases[c].other_s}};
        char *table = ps_simulation_table(&simulation), *json = ps_simulation_json(&simulation);
        const char *line = strstr(table, "critical path");
        assert_int_equal(line != NULL, cases[c].line != NULL);
        if (line) assert_string_equal(line, cases[c].line);
        if (cases[c].json) {
            json_t *root = json_loads(json, 0, NULL);
            char *path = json_dumps(json_object_get(root, "critical_path"), 0);
            assert_string_equal(path, cases[c].json);
            free(path);
            json_decref(root);
        }
        free(table);
        free(json);
    }
}

/* Digits that say something, and what is one or several. */
static void test_figures(void **state) {
    (void)state;
    static const struct {
        double samples_per_s;
        const char *shown;
    } rates[] = {{1234.5, "1234"}, {100, "100"}, {99.75, "99.75"}, {1, "1.00"}, {0.9375, "0.9375"}, {0, "0.0000"}};
    struct ps_simulation_worker worker = {.busy_s = 1, .weight_copies = 1};
    for (size_t r = 0; r < sizeof rates / sizeof *rates; r++)
        for (int batches = 1; batches <= 2; batches++) {
            struct ps_simulation simulation = {.title = "a title",
                                               .worker = &worker,
                                               .info = {.workers = 1,
                                                        .period_s = 0.5,
                                                        .makespan_s = 2,
                                                        .throughput_samples_per_s = rates[r].samples_per_s,
                                                        .bubble = 0.25,
                                                        .batches = batches}};
            char *table = ps_simulation_table(&simulation), wanted[256];
            snprintf(wanted, sizeof wanted,
                     "a title\nperiod      500 ms for a mini-batch\nthroughput  %s samples/s\nmakespan    2.00 s for %s\n"
                     "bubble      25.0%%\n\n",
                     rates[r].shown, batches == 1 ? "1 mini-batch" : "2 mini-batches");
            assert_int_equal(strncmp(table, wanted, strlen(wanted)), 0);
            assert_non_null(strstr(table, "     0  50.0% "));
            assert_null(strstr(table, "critical path"));
            free(table);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),         cmocka_unit_test(test_halves),
        cmocka_unit_test(test_lanes),         cmocka_unit_test(test_long_runs_show_their_beginning),
        cmocka_unit_test(test_colour),        cmocka_unit_test(test_looks),
        cmocka_unit_test(test_sums),          cmocka_unit_test(test_rows),
        cmocka_unit_test(test_critical_path), cmocka_unit_test(test_figures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
