/* Plans that cut a graph along another topological order than its profile's: their cuts carry other values. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "plan/plan.h"
#include "simulate/simulate.h"
#include "support.h"

/* A diamond, a 1 ms, b 2, c 3, d 4, with values of 100, 20, 3 and 0 bytes; z takes no time and hands b's value on. */
static const char graph_text[] =
    "node1 -- a -- forward_compute_time=0.500, backward_compute_time=0.500, activation_size=100.0, parameter_size=0.000\n"
    "node2 -- b -- forward_compute_time=1.000, backward_compute_time=1.000, activation_size=20.0, parameter_size=0.000\n"
    "node3 -- c -- forward_compute_time=1.500, backward_compute_time=1.500, activation_size=3.0, parameter_size=0.000\n"
    "node4 -- z -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=20.0, parameter_size=0.000\n"
    "node5 -- d -- forward_compute_time=2.000, backward_compute_time=2.000, activation_size=0.0, parameter_size=0.000\n"
    "\tnode1 -- node2\n\tnode1 -- node3\n\tnode2 -- node4\n\tnode3 -- node5\n\tnode4 -- node5\n";

static struct ps_profile *read_profile(void) {
    char directory[4096], path[4096];
    struct ps_profile *profile;
    test_directory_make(directory);
    test_file_write(file_join(path, directory, "diamond.graph.txt"), graph_text, sizeof graph_text - 1);
    assert_ok(ps_profile_read(path, &profile, &test_error));
    test_directory_remove(directory);
    return profile;
}

/* Two stages on two workers, cut after two layers of the order that is given. */
static struct ps_plan *make_plan(const char *const order[4]) {
    struct ps_plan *plan;
    assert_ok(plan_create(2, 2, &plan, &test_error));
    strcpy(plan->model, "diamond");
    strcpy(plan->schedule, "1f1b-async");
    strcpy(plan->weights, "latest");
    assert_ok(plan_stage_set(plan, 0, 0, 1, 0, &test_error));
    assert_ok(plan_stage_set(plan, 1, 2, 3, 1, &test_error));
    assert_ok(plan_order_set(plan, order, 4, &test_error));
    return plan;
}

static void test_cuts(void **state) {
    (void)state;
    static const char *const straight[] = {"node1", "node2", "node3", "node5"},
                             *const other[] = {"node1", "node3", "node2", "node5"},
                             *const wrong[] = {"node1", "node2", "node5", "node3"},
                             *const twice[] = {"node1", "node2", "node2", "node5"};
    struct ps_profile *profile = read_profile(), *reordered;
    const struct cost_table *table;
    struct ps_plan *plan = make_plan(straight);
    assert_ok(simulate_costs(plan, profile, &table, &reordered, &test_error));
    assert_null(reordered);
    assert_int_equal(table->layers[1].size.output_bytes, 120);
    ps_plan_destroy(plan);
    plan = make_plan(other);
    assert_ok(simulate_costs(plan, profile, &table, &reordered, &test_error));
    assert_int_equal(table->layers[1].size.output_bytes, 103);
    assert_true(fabs(table->layers[1].time.forward_s - 1.5e-3) < 1e-12);
    assert_int_equal(table->layers[2].size.output_bytes, 23);
    ps_profile_destroy(reordered);
    ps_plan_destroy(plan);
    plan = make_plan(wrong);
    assert_status(simulate_costs(plan, profile, &table, &reordered, &test_error), PS_USAGE, "'node5' comes before 'node3'");
    ps_plan_destroy(plan);
    plan = make_plan(twice);
    assert_status(simulate_costs(plan, profile, &table, &reordered, &test_error), PS_USAGE, "order[2]: 'node2' is not a layer");
    ps_plan_destroy(plan);
    plan = make_plan(straight);
    assert_ok(plan_order_set(plan, other, 3, &test_error));
    assert_status(simulate_costs(plan, profile, &table, &reordered, &test_error), PS_USAGE,
                  "order: names 3 layers, the profile has 4");
    ps_plan_destroy(plan);
    ps_profile_destroy(profile);
}

static char line[256];
static enum ps_log_level line_level;

static void take_line(void *context, enum ps_log_level level, const char *text) {
    (void)context;
    line_level = level;
    snprintf(line, sizeof line, "%s", text);
}

/* Stages of 4 and 6 ms instead of 3 and 7. A model of another name is simulated, but not in silence. */
static void test_simulated(void **state) {
    (void)state;
    static const char *const other[] = {"node1", "node3", "node2", "node5"};
    struct ps_profile *profile = read_profile();
    struct ps_cluster *cluster;
    struct ps_simulation *simulation;
    assert_ok(ps_cluster_uniform(&(struct ps_cluster_options){.struct_size = sizeof(struct ps_cluster_options), .workers = 2},
                                 &cluster, &test_error));
    struct ps_plan *plan = make_plan(other);
    assert_ok(ps_simulate(plan, profile, cluster, 0, &simulation, &test_error));
    assert_true(fabs(ps_simulation_info(simulation).period_s - 6e-3) < 1e-9);
    ps_simulation_destroy(simulation);
    const struct ps_log_sink sink = {.struct_size = sizeof sink, .level = PS_LOG_INFO, .line = take_line};
    char wanted[256];
    snprintf(wanted, sizeof wanted, "the plan is for square, the profile of %s", profile->model);
    for (int other_name = 0; other_name < 2; other_name++) {
        if (!other_name) snprintf(plan->model, sizeof plan->model, "%s", profile->model);
        if (other_name) strcpy(plan->model, "square");
        line[0] = '\0';
        assert_ok(ps_log_to(&sink, &test_error));
        assert_ok(ps_simulate(plan, profile, cluster, 0, &simulation, &test_error));
        assert_ok(ps_log_to(NULL, &test_error));
        assert_string_equal(line, other_name ? wanted : "");
        assert_true(!other_name || line_level == PS_LOG_WARN);
        assert_true(fabs(ps_simulation_info(simulation).period_s - 6e-3) < 1e-9);
        ps_simulation_destroy(simulation);
    }
    ps_plan_destroy(plan);
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cuts), cmocka_unit_test(test_simulated)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
