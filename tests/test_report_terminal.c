/* The timeline in a terminal, in a case small enough to see: two workers, one micro-batch, every computation a second. And what
 * a table says of simulations made by hand. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
        cmocka_unit_test(test_colour),        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_critical_path), cmocka_unit_test(test_figures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
