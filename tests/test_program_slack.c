/*
 * Slack. Where mini-batches take unequal times (here: half, once or three times as long), the workers of a pipeline wait for
 * each other; every micro-batch of slack makes them wait less, under every schedule that can have some, and costs nothing where
 * times are equal. A plan's file keeps it, and schedules without slack refuse it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "program/lower.h"
#include "program_support.h"
#include "simulate/simulate.h"
#include "split_support.h"
#include "support.h"

enum { BATCHES = 400, SLACKS = 4 };
static const int slacks[SLACKS] = {0, 1, 2, 4};

/* Seconds per mini-batch over the whole segment; every stage takes one second forwards and two backwards, but as long as two
 * where it is the only one of its worker and another has two. */
static double simulated(const struct ps_plan *plan, const double *factors) {
    const struct ps_cluster_options machines = {.struct_size = sizeof machines, .workers = plan->workers};
    struct stage_cost costs[8];
    struct ps_cluster *cluster;
    struct ps_programs *programs;
    struct ps_simulation *simulation;
    for (int s = 0; s < plan->stage_count; s++) {
        const double length_s = plan->pattern && !plan_is_split(plan) && s == 1 ? 2 : 1;
        costs[s] = (struct stage_cost){
            .time = {.forward_s = length_s, .backward_input_s = length_s, .backward_weight_s = length_s},
            .size = {.parameter_bytes = 64, .input_bytes = 64, .output_bytes = s + 1 < plan->stage_count ? 64 : 0}};
    }
    assert_ok(ps_cluster_uniform(&machines, &cluster, &test_error));
    assert_ok(lower_plan(plan, BATCHES, &programs, &test_error));
    struct simulation_work work = {
        .programs = programs, .costs = costs, .cluster = cluster, .samples = 1, .batch_factors = factors};
    assert_ok(simulate_programs(&work, &simulation, &test_error));
    const double period_s = simulation->info.makespan_s / BATCHES;
    ps_simulation_destroy(simulation);
    ps_programs_destroy(programs);
    ps_cluster_destroy(cluster);
    return period_s;
}

/* Of the time by which the workers' own lengths are exceeded, less than a share is left by each further slack, or nothing that
 * counts: the workers' lengths are not quite those of all mini-batches, since the pipeline fills and drains. */
static void check_slack(const char *name, struct ps_plan *plan) {
    static const double wait_share = 0.7, nothing = 0.005;
    double factors[BATCHES], ones[BATCHES], uneven[SLACKS], even[SLACKS], mean = 0;
    const struct random_key key = test_key(1);
    for (int b = 0; b < BATCHES; b++) {
        static const double lengths[] = {0.5, 0.5, 1, 3};
        factors[b] = lengths[random_below(key, (uint64_t)b, 4)];
        mean += factors[b] / BATCHES;
        ones[b] = 1;
    }
    for (int i = 0; i < SLACKS; i++) {
        plan->slack = slacks[i];
        uneven[i] = simulated(plan, factors);
        even[i] = simulated(plan, ones);
    }
    const double least = mean * even[0];
    print_message("%-25s uneven %.3f, %.3f, %.3f, %.3f s, at least %.3f; even %.3f, %.3f, %.3f, %.3f s\n", name, uneven[0],
                  uneven[1], uneven[2], uneven[3], least, even[0], even[1], even[2], even[3]);
    for (int i = 1; i < SLACKS; i++) {
        assert_true(uneven[i] - least < wait_share * (uneven[i - 1] - least) + nothing * least);
        assert_true(even[i] < 1.005 * even[0]);
    }
    ps_plan_destroy(plan);
}

/* `replicas` of the first stage, of at most four. */
static struct ps_plan *straight_plan(const char *schedule, int stages, int replicas) {
    return replicated_plan(schedule, "latest", (const int[]){replicas, 1, 1, 1}, stages, 1);
}

/* With four workers as much as with two: every worker has slack, not the last two alone. */
static void test_straight(void **state) {
    (void)state;
    check_slack("1f1b-async, two workers", straight_plan("1f1b-async", 2, 1));
    check_slack("1f1b-async, four workers", straight_plan("1f1b-async", 4, 1));
    check_slack("1f1b-star, two workers", straight_plan("1f1b-star", 2, 1));
    check_slack("1f1b-star, four workers", straight_plan("1f1b-star", 4, 1));
    check_slack("pattern, four workers", straight_plan("pattern", 4, 1));
    check_slack("replicas", straight_plan("1f1b-async", 3, 2));
}

/* Three stages on two workers: one has both ends, or each has a direction of the one in the middle, under 1F1B and by a
 * pattern. Shifts are those of F0, F1, F2, B0, B1 and B2. */
static void test_three_stages(void **state) {
    (void)state;
    static const struct {
        const char *name;
        struct split_case split;
        int shifts[6];
    } cases[] = {{"ends on worker 0", {3, 2, {0, 1, 0}, {0, 1, 0}}, {0, 0, 1, 2, 1, 1}},
                 {"ends on worker 1", {3, 2, {1, 0, 1}, {1, 0, 1}}, {0, 0, 1, 2, 1, 1}},
                 {"split, forward first", {3, 2, {0, 0, 1}, {0, 1, 1}}, {0, 0, 1, 2, 1, 1}},
                 {"split, backward first", {3, 2, {0, 1, 1}, {0, 0, 1}}, {0, 1, 1, 2, 2, 1}}};
    static const struct plan_operation order[] = {{.stage = 0}, {.stage = 1}, {.stage = 2},
                                                  {true, 2, 0}, {true, 1, 0}, {true, 0, 0}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct plan_operation pattern[6];
        struct ps_plan *plan = split_plan(&cases[c].split, "pattern", "latest", 1);
        for (int i = 0; i < 6; i++) {
            pattern[i] = order[i];
            pattern[i].shift = cases[c].shifts[order[i].stage + (order[i].backward ? 3 : 0)];
        }
        assert_ok(plan_pattern_set(plan, pattern, 6, &test_error));
        check_slack(cases[c].name, plan);
        if (split_any(plan = split_plan(&cases[c].split, "1f1b-async", "latest", 1)))
            check_slack(cases[c].name, plan);
        else
            ps_plan_destroy(plan);
    }
}

/* A plan's file keeps it. */
static void test_file(void **state) {
    (void)state;
    char path[4096];
    struct ps_plan *plan = straight_plan("1f1b-async", 2, 1), *again;
    snprintf(plan->model, sizeof plan->model, "m");
    plan->slack = 3;
    plan->micro_batch = 1;
    test_directory_make(test_directory);
    assert_ok(ps_plan_write(plan, file_join(path, test_directory, "plan.json"), &test_error));
    assert_ok(ps_plan_read(path, &again, &test_error));
    assert_int_equal(again->slack, 3);
    ps_plan_destroy(again);
    ps_plan_destroy(plan);
    test_directory_remove(test_directory);
}

static void test_refused(void **state) {
    (void)state;
    struct ps_programs *programs;
    struct ps_plan *plan = straight_plan("gpipe", 2, 1);
    snprintf(plan->weights, sizeof plan->weights, "sync");
    plan->slack = 1;
    assert_status(lower_plan(plan, 2, &programs, &test_error), PS_USAGE,
                  "slack: schedule gpipe can have none; these can: 1f1b-async, 1f1b-star, pattern");
    plan->slack = 1025;
    assert_status(plan_check(plan, 2, &test_error), PS_BAD_INPUT, "slack: 1025 is not from 0 to 1024");
    ps_plan_destroy(plan);
    assert_ok(plan_create(1, 32, &plan, &test_error));
    for (int s = 0; s < 32; s++) assert_ok(plan_stage_set(plan, s, s, s, 0, &test_error));
    plan->slack = 513;
    assert_status(plan_check(plan, 32, &test_error), PS_BAD_INPUT,
                  "slack: 513 for 32 stages; their product may be 16384 at most");
    ps_plan_destroy(plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_straight), cmocka_unit_test(test_three_stages),
                                       cmocka_unit_test(test_file), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
