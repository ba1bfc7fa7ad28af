/* The timeline in a terminal, in a case small enough to see: two workers, one micro-batch, every computation a second. */
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),  cmocka_unit_test(test_halves),
        cmocka_unit_test(test_lanes),  cmocka_unit_test(test_long_runs_show_their_beginning),
        cmocka_unit_test(test_colour),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
