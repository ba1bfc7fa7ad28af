/*
 * Pipelines cut in different places for the two directions, in simulated time: without transfers a mini-batch takes as long as
 * the worker with the most to do, which is what Bi-Partition minimises; the paper's worked example; weights and stashes on slow
 * links.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "simulate/simulate.h"
#include "split_support.h"

enum { BATCHES = 96 };

struct scene {
    struct split_case split;
    double forward_s[SPLIT_LAYERS_MAX], backward_s[SPLIT_LAYERS_MAX];
};

/* The scene under asynchronous 1F1B: its period, and in `link` (may be NULL) the busiest link; every value that crosses has 64
 * bytes, weights and stashes of a layer likewise. */
static double simulate_scene(const struct scene *scene, const char *policy, double bandwidth_bytes_per_s,
                             struct busiest_link *link) {
    struct stage_cost costs[SPLIT_LAYERS_MAX] = {0};
    struct ps_cluster *cluster;
    struct ps_programs *programs;
    struct ps_simulation *simulation;
    struct ps_cluster_options options = {
        .struct_size = sizeof options, .workers = scene->split.workers, .bandwidth_bytes_per_s = bandwidth_bytes_per_s};
    struct ps_plan *plan = split_plan(&scene->split, "1f1b-async", policy, 1);
    for (int s = 0; s < plan->stage_count; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        int64_t layers = stage->last - stage->first + 1;
        costs[s].size = (struct stage_sizes){.parameter_bytes = 64 * layers, .stash_bytes = 64 * layers, .input_bytes = 64};
        if (s + 1 < plan->stage_count) costs[s].size.output_bytes = 64;
        for (int l = stage->first; l <= stage->last; l++) {
            costs[s].time.forward_s += scene->forward_s[l];
            costs[s].time.backward_weight_s += scene->backward_s[l];
        }
    }
    assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
    assert_ok(lower_plan(plan, BATCHES, &programs, &test_error));
    struct simulation_work work = {.programs = programs, .costs = costs, .cluster = cluster, .samples = 1};
    assert_ok(simulate_programs(&work, &simulation, &test_error));
    double period_s = simulation->info.period_s;
    if (link) *link = simulation->link;
    ps_simulation_destroy(simulation);
    ps_programs_destroy(programs);
    ps_cluster_destroy(cluster);
    ps_plan_destroy(plan);
    return period_s;
}

static double period(const struct scene *scene, const char *policy, double bandwidth_bytes_per_s) {
    return simulate_scene(scene, policy, bandwidth_bytes_per_s, NULL);
}

static double largest_load(const struct scene *scene) {
    double load[SPLIT_LAYERS_MAX] = {0}, largest = 0;
    for (int l = 0; l < scene->split.layers; l++) {
        load[scene->split.forward[l]] += scene->forward_s[l];
        load[scene->split.backward[l]] += scene->backward_s[l];
    }
    for (int w = 0; w < scene->split.workers; w++) largest = fmax(largest, load[w]);
    return largest;
}

/* f = 1, 3, 2, 3 and b twice that on three workers: 12 if every layer stays whole, 9 if the two directions are cut apart. */
static void test_worked_example(void **state) {
    (void)state;
    struct scene scene = {.split = {.layers = 4, .workers = 3, .forward = {0, 1, 1, 2}, .backward = {0, 0, 1, 2}},
                          .forward_s = {1, 3, 2, 3},
                          .backward_s = {2, 6, 4, 6}};
    assert_true(fabs(period(&scene, "latest", 0) - 9) < 1e-9);
    assert_true(fabs(period(&scene, "pipeoptim", 0) - 9) < 1e-9);
    struct scene whole = scene;
    whole.split = (struct split_case){.layers = 4, .workers = 3, .forward = {0, 0, 1, 2}, .backward = {0, 0, 1, 2}};
    assert_true(fabs(period(&whole, "latest", 0) - 12) < 1e-9);
}

/* Random cuts with random times: never shorter than the largest load, and as long in nearly all of them: where one worker has
 * much of one direction far from where it has the other, 1F1B's order of its work can cost some. */
static void test_period_is_the_largest_load(void **state) {
    (void)state;
    struct random_key key = test_key(1);
    uint64_t drawn = 0;
    int scenes = 400, equal = 0;
    double worst = 1;
    for (int i = 0; i < scenes; i++) {
        struct scene scene = {.split = split_draw(key, &drawn, 9, 5)};
        for (int l = 0; l < scene.split.layers; l++) {
            scene.forward_s[l] = 1 + (double)random_below(key, drawn++, 8);
            scene.backward_s[l] = 1 + (double)random_below(key, drawn++, 16);
        }
        double ratio = period(&scene, i % 2 ? "latest" : "stash", 0) / largest_load(&scene);
        assert_true(ratio > 1 - 1e-9);
        equal += ratio < 1 + 1e-9;
        worst = fmax(worst, ratio);
    }
    print_message("%d of %d at the largest load, the worst %.2f times as long\n", equal, scenes, worst);
    assert_true(equal > scenes * 9 / 10);
}

/* One layer forwards on worker 0 and backwards on worker 1: its weights (64 bytes) go back every mini-batch, stash and input
 * come. What goes one way takes 128 bytes plus the activation, so a link of 64 bytes a second is the limit. */
static void test_slow_link(void **state) {
    (void)state;
    struct scene scene = {.split = {.layers = 3, .workers = 2, .forward = {0, 0, 1}, .backward = {0, 1, 1}},
                          .forward_s = {0.25, 0.25, 0.25},
                          .backward_s = {0.25, 0.25, 0.25}};
    struct busiest_link link;
    double period_s = simulate_scene(&scene, "latest", 64, &link);
    assert_true(fabs(period_s - 3) < 0.5);
    assert_true(period_s > 3 - 1e-9);
    assert_int_equal(link.from, 0);
    assert_int_equal(link.to, 1);
    assert_true(link.busy_s > 0.9 * BATCHES * period_s && link.busy_s < 1.0001 * BATCHES * period_s);
    assert_true(fabs(period(&scene, "latest", 64e3) - 0.75) < 0.02);
    scene.split.forward[1] = 1;
    simulate_scene(&scene, "latest", 0, &link); /* where links take no time none is busiest */
    assert_true(link.from == 0 && link.to == 0 && link.busy_s == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worked_example),
        cmocka_unit_test(test_period_is_the_largest_load),
        cmocka_unit_test(test_slow_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
