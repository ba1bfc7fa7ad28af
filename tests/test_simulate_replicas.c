/* Replicas in simulated time, in small cases computed by hand. Forward 1 s, backward 2 s, update 0.25 s. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simulate/simulate.h"
#include "support.h"

enum { STAGES_MAX = 3, WEIGHT_BYTES = 1 << 20 };

struct scene {
    struct ps_plan *plan;
    struct ps_programs *programs;
    struct ps_cluster *cluster;
    struct stage_cost costs[STAGES_MAX];
    struct ps_simulation *simulation;
};

static void scene_make(struct scene *scene, const char *schedule, const int *replicas, int stages, int micro_batches,
                       struct ps_cluster_options options) {
    int list[8];
    options.workers = 0;
    *scene = (struct scene){0};
    for (int s = 0; s < stages; s++) options.workers += replicas[s];
    assert_ok(plan_create(options.workers, stages, &scene->plan, &test_error));
    snprintf(scene->plan->schedule, sizeof scene->plan->schedule, "%s", schedule);
    snprintf(scene->plan->weights, sizeof scene->plan->weights, "latest");
    scene->plan->micro_batches = micro_batches;
    for (int s = 0, worker = 0; s < stages; s++) {
        for (int r = 0; r < replicas[s]; r++) list[r] = worker++;
        assert_ok(plan_stage_workers(scene->plan, s, list, replicas[s], list, replicas[s], &test_error));
        scene->plan->stages[s].first = scene->plan->stages[s].last = s;
        scene->costs[s] = (struct stage_cost){
            .time = {.forward_s = 1, .backward_input_s = 1, .backward_weight_s = 1, .update_s = 0.25},
            .size = {.parameter_bytes = WEIGHT_BYTES, .input_bytes = 64, .output_bytes = s + 1 < stages ? 64 : 0},
        };
    }
    assert_ok(ps_cluster_uniform(&options, &scene->cluster, &test_error));
}

static double scene_run(struct scene *scene, int batches) {
    ps_simulation_destroy(scene->simulation);
    ps_programs_destroy(scene->programs);
    scene->simulation = NULL;
    assert_ok(lower_plan(scene->plan, batches, &scene->programs, &test_error));
    struct simulation_work work = {
        .programs = scene->programs, .costs = scene->costs, .cluster = scene->cluster, .samples = 1, .moments = 1};
    assert_ok(simulate_programs(&work, &scene->simulation, &test_error));
    return scene->simulation->info.makespan_s;
}

static void scene_free(struct scene *scene) {
    ps_simulation_destroy(scene->simulation);
    ps_programs_destroy(scene->programs);
    ps_cluster_destroy(scene->cluster);
    ps_plan_destroy(scene->plan);
}

/* Data parallelism: compute, then the ring, then the update. */
static void test_one_stage(void **state) {
    (void)state;
    for (int r = 2; r <= 8; r *= 2) {
        struct scene scene;
        struct ps_cluster_options options = {.bandwidth_bytes_per_s = WEIGHT_BYTES, .latency_s = 0.125};
        scene_make(&scene, "1f1b", &r, 1, 2 * r, options);
        double ring_s = 2 * (r - 1) * (0.125 + 1.0 / r), whole_s = 2 * 3 + ring_s + 0.25;
        assert_true(scene_run(&scene, 3) == 3 * whole_s);
        for (int w = 0; w < r; w++) {
            const struct ps_simulation_worker *worker = &scene.simulation->worker[w];
            assert_true(worker->busy_s == 3 * 6.25);
            assert_true(worker->idle_communication_s == 3 * ring_s);
            assert_true(worker->idle_dependency_s + worker->idle_imbalance_s + worker->idle_fill_drain_s == 0);
            assert_int_equal(scene.simulation->memory[w].weights, WEIGHT_BYTES);
            assert_int_equal(scene.simulation->memory[w].gradients, WEIGHT_BYTES);
        }
        /* Asynchronously a mini-batch is one replica's: r of them in the time of one and a sum. */
        strcpy(scene.plan->schedule, "1f1b-async");
        scene.plan->micro_batches = 1;
        assert_true(scene_run(&scene, 4 * r) == 4 * (3 + ring_s + 0.25));
        assert_true(scene.simulation->info.period_s == (3 + ring_s + 0.25) / r);
        scene_free(&scene);
    }
}

/* Two replicas whose directions share a link take turns in each step; replicas on one medium all do. */
static void test_shared_links(void **state) {
    (void)state;
    struct scene scene;
    int replicas = 2;
    scene_make(&scene, "gpipe", &replicas, 1, 2, (struct ps_cluster_options){.bandwidth_bytes_per_s = WEIGHT_BYTES});
    assert_true(scene_run(&scene, 1) == 3 + 1 + 0.25);
    scene.cluster->links[0].half_duplex = true;
    assert_true(scene_run(&scene, 1) == 3 + 2 + 0.25);
    scene_free(&scene);
    replicas = 4;
    scene_make(&scene, "gpipe", &replicas, 1, 4, (struct ps_cluster_options){.bandwidth_bytes_per_s = WEIGHT_BYTES});
    strcpy(scene.cluster->links[0].medium, "bus");
    assert_true(scene_run(&scene, 1) == 3 + 2 * 3 * 4 * 0.25 + 0.25);
    scene_free(&scene);
}

/* A sum waits for the slower replica, and the faster one for it: that is no communication. */
static void test_unlike_replicas(void **state) {
    (void)state;
    struct scene scene;
    int replicas = 2;
    scene_make(&scene, "gpipe", &replicas, 1, 2, (struct ps_cluster_options){.bandwidth_bytes_per_s = WEIGHT_BYTES});
    scene.cluster->devices[1].speed = 0.5;
    assert_true(scene_run(&scene, 1) == 6 + 1 + 0.5);
    assert_true(scene.simulation->worker[0].busy_s == 3.25);
    assert_true(scene.simulation->worker[0].idle_communication_s == 1);
    scene_free(&scene);
}

/* The heavy first stage twice: without transfers a mini-batch leaves every 3 s, as often as the other stage can take one. */
static void test_hybrid(void **state) {
    (void)state;
    struct scene scene;
    static const int replicas[2] = {2, 1};
    scene_make(&scene, "1f1b-async", replicas, 2, 1, (struct ps_cluster_options){0});
    scene.costs[0].time = (struct layer_times){.forward_s = 2, .backward_input_s = 2, .backward_weight_s = 1.5};
    scene.costs[1].time.update_s = 0;
    scene_run(&scene, 60);
    assert_true(scene.simulation->info.period_s == 3);
    scene_free(&scene);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_stage), cmocka_unit_test(test_shared_links),
                                       cmocka_unit_test(test_unlike_replicas), cmocka_unit_test(test_hybrid)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
