/* The critical path adds up to the whole run; what would help is found where it is known. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "random_costs.h"
#include "simulate/simulate.h"
#include "support.h"

enum { STAGES_MAX = 8, LAYERS = 6, MIB = 1 << 20 };

static double path_seconds(const struct critical_path *path, int workers) {
    double sum_s = path->transfer_s + path->other_s;
    for (int w = 0; w < workers; w++) sum_s += path->compute_s[w];
    return sum_s;
}

/* Any schedule, costs, links and number of cores: each step of the path ends where the next begins, from 0 to the end. */
static void test_path_adds_up(void **state) {
    (void)state;
    double other_s = 0;
    for (uint64_t round = 0; round < 300; round++) {
        if (!test_takes((size_t)round, 10)) continue;
        struct random_key key = test_key(round);
        const struct schedule *schedule = schedule_table[random_below(key, 0, 4)];
        int stages = 1 + (int)random_below(key, 1, 7), m = 1 + (int)random_below(key, 2, 6);
        const bool at_once = round % 5 == 4; /* transfers take no time */
        struct stage_cost costs[STAGES_MAX];
        random_costs(key, stages, costs);
        struct ps_cluster_options options = {.struct_size = sizeof options,
                                             .workers = stages,
                                             .bandwidth_bytes_per_s = at_once ? 0 : 1e6 + 1e8 * (double)random_uniform(key, 4),
                                             .latency_s = at_once ? 0 : 1e-3 * (double)random_uniform(key, 6),
                                             .no_overlap = round % 4 == 3,
                                             .cores = (int)random_below(key, 8, 4)};
        struct ps_cluster *cluster;
        struct ps_programs *programs;
        struct ps_simulation *simulation;
        struct critical_path path;
        struct arena arena = {0};
        assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
        assert_ok(lower_straight(&(struct straight){.schedule = schedule->name,
                                                    .policy = schedule->flush ? "sync" : "pipeoptim",
                                                    .workers = stages,
                                                    .micro_batches = m,
                                                    .batches = 5,
                                                    .recompute = round % 2},
                                 &programs, &test_error));
        struct simulation_work work = {.programs = programs, .costs = costs, .cluster = cluster};
        assert_ok(simulate_programs(&work, &simulation, &test_error));
        assert_ok(critical_path_find(&simulation->timeline, &arena, &path, &test_error));
        double sum_s = path_seconds(&path, stages), makespan_s = simulation->info.makespan_s;
        if (!(fabs(sum_s - makespan_s) <= 1e-9 * makespan_s) || (path.other_s != 0 && !options.no_overlap))
            fail_msg("round %d: the path takes %.9g s, the run %.9g s", (int)round, sum_s, makespan_s);
        other_s += path.other_s;
        arena_release(&arena);
        ps_simulation_destroy(simulation);
        ps_programs_destroy(programs);
        ps_cluster_destroy(cluster);
    }
    assert_true(test_slow() || other_s > 0);
}

/* Six equal layers, cut after `first_cut` and `second_cut`. */
static struct ps_simulation *simulate_cuts(int first_cut, int second_cut, const struct ps_cluster *cluster, double layer_s) {
    struct ps_profile *profile;
    struct ps_plan *plan;
    struct ps_simulation *simulation;
    assert_ok(profile_create(1, LAYERS, &profile, &test_error));
    for (int l = 0; l < LAYERS; l++)
        profile->tables[0].layers[l] =
            (struct layer_cost){.time = {.forward_s = layer_s, .backward_input_s = layer_s, .backward_weight_s = layer_s},
                                .size = {.parameter_bytes = MIB, .output_bytes = 1 << 10}};
    assert_ok(plan_create(3, 3, &plan, &test_error));
    strcpy(plan->schedule, "1f1b-async");
    strcpy(plan->weights, "latest");
    assert_ok(plan_stage_set(plan, 0, 0, first_cut, 0, &test_error));
    assert_ok(plan_stage_set(plan, 1, first_cut + 1, second_cut, 1, &test_error));
    assert_ok(plan_stage_set(plan, 2, second_cut + 1, LAYERS - 1, 2, &test_error));
    assert_ok(ps_simulate(plan, profile, cluster, 0, &simulation, &test_error));
    ps_plan_destroy(plan);
    ps_profile_destroy(profile);
    return simulation;
}

static void test_moving_a_layer(void **state) {
    (void)state;
    struct ps_cluster_options options = {.struct_size = sizeof options, .workers = 3};
    struct ps_cluster *cluster;
    assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
    struct ps_simulation *simulation = simulate_cuts(0, 3, cluster, 0.25); /* 1, 3, 2 */
    assert_int_equal(simulation->advice.kind, ADVICE_MOVE_LAYER);
    assert_int_equal(simulation->advice.limiting_worker, 1);
    assert_int_equal(simulation->advice.layer, 1);
    assert_int_equal(simulation->advice.from, 1);
    assert_int_equal(simulation->advice.to, 0);
    assert_true(fabs(simulation->advice.saving - 1.0 / 3) < 1e-12 && simulation->advice.period_s == 1.5);
    /* In the steady state worker 1 alone counts. */
    assert_true(simulation->critical.compute_s[1] > 0.8 * simulation->info.makespan_s);
    char *table = ps_simulation_table(simulation), *json = ps_simulation_json(simulation);
    assert_non_null(strstr(table, "worker 1 limits: moving layer 2 from worker 1 to worker 0 would save 33.3%"));
    assert_non_null(strstr(table, "critical path  worker 1 "));
    assert_non_null(strstr(json, "\"change\": \"move_layer\""));
    free(table);
    free(json);
    ps_simulation_destroy(simulation);

    /* Where worker 0 has no room for a further layer, worker 2 would be next, but three layers there are no better. */
    cluster->devices[0].memory_bytes = 3 * MIB;
    simulation = simulate_cuts(0, 3, cluster, 0.25);
    assert_int_equal(simulation->advice.kind, ADVICE_NONE);
    ps_simulation_destroy(simulation);
    cluster->devices[0].memory_bytes = 0;
    simulation = simulate_cuts(1, 3, cluster, 0.25); /* balanced */
    assert_int_equal(simulation->advice.kind, ADVICE_NONE);
    ps_simulation_destroy(simulation);
    ps_cluster_destroy(cluster);
}

/* A second stage with this much of its 2 s in a layer of its own, which the first has time for. */
static struct ps_simulation *simulate_small_layer(const struct ps_cluster *cluster, double small_s) {
    const double seconds[] = {1, small_s, 2 - small_s, 0.75, 0.75};
    struct ps_profile *profile;
    struct ps_plan *plan;
    struct ps_simulation *simulation;
    assert_ok(profile_create(1, 5, &profile, &test_error));
    for (int l = 0; l < 5; l++)
        profile->tables[0].layers[l].time =
            (struct layer_times){.forward_s = seconds[l] / 2, .backward_input_s = seconds[l] / 2};
    assert_ok(plan_create(3, 3, &plan, &test_error));
    strcpy(plan->schedule, "1f1b-async");
    strcpy(plan->weights, "latest");
    assert_ok(plan_stage_set(plan, 0, 0, 0, 0, &test_error));
    assert_ok(plan_stage_set(plan, 1, 1, 2, 1, &test_error));
    assert_ok(plan_stage_set(plan, 2, 3, 4, 2, &test_error));
    assert_ok(ps_simulate(plan, profile, cluster, 0, &simulation, &test_error));
    ps_plan_destroy(plan);
    ps_profile_destroy(profile);
    return simulation;
}

/* What saves less than 0.05 % of the period is no advice. */
static void test_little_saved(void **state) {
    (void)state;
    struct ps_cluster_options options = {.struct_size = sizeof options, .workers = 3};
    struct ps_cluster *cluster;
    assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
    struct ps_simulation *simulation = simulate_small_layer(cluster, 2 * 0.0006);
    assert_int_equal(simulation->advice.kind, ADVICE_MOVE_LAYER);
    assert_true(simulation->advice.layer == 1 && simulation->advice.from == 1 && simulation->advice.to == 0);
    assert_true(fabs(simulation->advice.saving - 0.0006) < 1e-6);
    ps_simulation_destroy(simulation);
    simulation = simulate_small_layer(cluster, 2 * 0.0004);
    assert_int_equal(simulation->advice.kind, ADVICE_NONE);
    assert_true(simulation->advice.limiting_worker == 1 && simulation->advice.saving == 0);
    ps_simulation_destroy(simulation);
    ps_cluster_destroy(cluster);
}

/* A link that carries a block a second between workers that need a hundredth: the first pair's is the slow one. */
static void test_faster_link(void **state) {
    (void)state;
    struct ps_cluster_options options = {.struct_size = sizeof options, .workers = 3, .bandwidth_bytes_per_s = 1 << 10};
    struct ps_cluster *cluster;
    assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
    cluster->links = arena_take(&cluster->arena, 3, sizeof *cluster->links);
    cluster->links[0] = (struct cluster_link){.from = -1, .to = -1, .bandwidth_bytes_per_s = 1 << 16};
    cluster->links[1] = (struct cluster_link){.from = 1, .to = 2, .bandwidth_bytes_per_s = 1 << 10};
    cluster->links[2] = (struct cluster_link){.from = 2, .to = 1, .bandwidth_bytes_per_s = 1 << 10};
    cluster->link_count = 3;
    struct ps_simulation *simulation = simulate_cuts(1, 3, cluster, 0.01);
    assert_int_equal(simulation->advice.kind, ADVICE_BANDWIDTH);
    assert_int_equal(simulation->advice.from, 1);
    assert_int_equal(simulation->advice.to, 2);
    assert_true(simulation->advice.saving > 0.4 && simulation->advice.saving <= 0.5);
    assert_true(simulation->critical.transfer_s > 0.8 * simulation->info.makespan_s);
    ps_simulation_destroy(simulation);
    ps_cluster_destroy(cluster);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_path_adds_up),
        cmocka_unit_test(test_moving_a_layer),
        cmocka_unit_test(test_little_saved),
        cmocka_unit_test(test_faster_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
