/* Replicas in simulated time, in small cases computed by hand. Forward 1 s, backward 2 s, update 0.25 s. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program_support.h"
#include "simulate/simulate.h"
#include "support.h"
#include "within.h"

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
    options.struct_size = sizeof options;
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
        struct ps_cluster_options options = {
            .struct_size = sizeof options, .bandwidth_bytes_per_s = WEIGHT_BYTES, .latency_s = 0.125};
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

/* Two replicas whose directions share a link take turns in each step; replicas on one shared link all do. */
static void test_shared_links(void **state) {
    (void)state;
    struct scene scene;
    int replicas = 2;
    scene_make(
        &scene, "gpipe", &replicas, 1, 2,
        (struct ps_cluster_options){.struct_size = sizeof(struct ps_cluster_options), .bandwidth_bytes_per_s = WEIGHT_BYTES});
    assert_true(scene_run(&scene, 1) == 3 + 1 + 0.25);
    scene.cluster->links[0].half_duplex = true;
    assert_true(scene_run(&scene, 1) == 3 + 2 + 0.25);
    scene_free(&scene);
    replicas = 4;
    scene_make(
        &scene, "gpipe", &replicas, 1, 4,
        (struct ps_cluster_options){.struct_size = sizeof(struct ps_cluster_options), .bandwidth_bytes_per_s = WEIGHT_BYTES});
    strcpy(scene.cluster->links[0].shared_link, "bus");
    assert_true(scene_run(&scene, 1) == 3 + 2 * 3 * 4 * 0.25 + 0.25);
    scene_free(&scene);
}

/* Of the pairs that share a cable the busiest is named: one that carries four blocks of 1 s, not one whose only block takes 3
 * s. */
static void test_busiest_pair(void **state) {
    (void)state;
    struct scene scene;
    const int replicas[] = {2, 1};
    struct ps_cluster_options options = {.struct_size = sizeof options, .bandwidth_bytes_per_s = 64};
    scene_make(&scene, "gpipe", replicas, 2, 8, options);
    strcpy(scene.cluster->links[0].shared_link, "bus");
    scene.costs[0].size.parameter_bytes = 64 * 3 / 2;
    scene_run(&scene, 1);
    const struct busiest_link *link = &scene.simulation->link;
    assert_true(link->from == 0 && link->to == 2);
    /* Eight activations, eight gradients, and the sum: 2 steps in each of which two replicas send 48 bytes in turn. */
    assert_true(link->busy_s == 16 * 1.0 + 2 * 2 * 0.75);
    scene_free(&scene);
}

/* The pair that is named may be one of those that sum; where transfers take no time none is. */
static void test_busiest_pair_of_a_sum(void **state) {
    (void)state;
    struct scene scene;
    const int replicas[] = {2, 1};
    struct ps_cluster_options options = {.struct_size = sizeof options, .bandwidth_bytes_per_s = WEIGHT_BYTES};
    scene_make(&scene, "gpipe", replicas, 2, 2, options);
    strcpy(scene.cluster->links[0].shared_link, "bus");
    scene.costs[0].sum_s = 1;
    scene_run(&scene, 1);
    const struct busiest_link *link = &scene.simulation->link;
    assert_true((link->from == 0 && link->to == 1) || (link->from == 1 && link->to == 0));
    scene_free(&scene);
    scene_make(&scene, "gpipe", replicas, 2, 2, (struct ps_cluster_options){.struct_size = sizeof options});
    scene.costs[0].sum_s = 1;
    scene_run(&scene, 1);
    assert_true(scene.simulation->worker[0].idle_communication_s > 0);
    assert_true(scene.simulation->link.busy_s == 0);
    scene_free(&scene);
}

/* A link is busy for as long as a sum uses it, however many replicas send over it. */
static void test_link_of_a_sum(void **state) {
    (void)state;
    struct scene scene;
    int replicas = 2;
    scene_make(
        &scene, "1f1b-async", &replicas, 1, 1,
        (struct ps_cluster_options){.struct_size = sizeof(struct ps_cluster_options), .bandwidth_bytes_per_s = WEIGHT_BYTES});
    for (int half = 0; half < 2; half++) {
        const double ring_s = half ? 8 : 4;
        scene.cluster->links[0].half_duplex = half;
        scene.cluster->links[0].bandwidth_bytes_per_s = WEIGHT_BYTES / 4;
        assert_true(scene_run(&scene, 8) == 4 * (3 + ring_s + 0.25));
        assert_true(scene.simulation->link.busy_s == 4 * ring_s);
        assert_true(scene.simulation->info.period_s == (3 + ring_s + 0.25) / 2);
    }
    scene_free(&scene);
}

/* A sum waits for the slower replica, and the faster one for it: that is no communication. */
static void test_unlike_replicas(void **state) {
    (void)state;
    struct scene scene;
    int replicas = 2;
    scene_make(
        &scene, "gpipe", &replicas, 1, 2,
        (struct ps_cluster_options){.struct_size = sizeof(struct ps_cluster_options), .bandwidth_bytes_per_s = WEIGHT_BYTES});
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
    scene_make(&scene, "1f1b-async", replicas, 2, 1,
               (struct ps_cluster_options){.struct_size = sizeof(struct ps_cluster_options)});
    scene.costs[0].time = (struct layer_times){.forward_s = 2, .backward_input_s = 2, .backward_weight_s = 1.5};
    scene.costs[1].time.update_s = 0;
    scene_run(&scene, 60);
    assert_true(scene.simulation->info.period_s == 3);
    scene_free(&scene);
}

/* Chimera (Li and Hoefler, 2021, Table 2): with M a multiple of P and a forward as long as a backward a worker is idle for P-2
 * of 2 M + P - 2 slots; its parts hold P/2 micro-batches, those near the end of their direction fewer, which makes P/2 + 1 to P
 * on a worker. */
static void test_chimera(void **state) {
    (void)state;
    for (int P = 2; P <= 16; P += 2)
        for (int times = 1; times <= 4; times++) {
            int M = times * P;
            struct ps_programs *programs;
            struct ps_cluster *cluster;
            struct ps_simulation *simulation;
            struct stage_cost costs[16];
            struct ps_cluster_options options = {.struct_size = sizeof options, .workers = P};
            assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
            assert_ok(lower_plain("chimera", "sync", P, M, 1, &programs));
            for (int s = 0; s < P; s++)
                costs[s] = (struct stage_cost){.time = {.forward_s = 1, .backward_input_s = 0.5, .backward_weight_s = 0.5}};
            struct simulation_work work = {.programs = programs, .costs = costs, .cluster = cluster, .samples = 1};
            assert_ok(simulate_programs(&work, &simulation, &test_error));
            assert_true(simulation->info.makespan_s == 2 * M + P - 2);
            assert_true(fabs(simulation->info.bubble - (P - 2.0) / (2 * M + P - 2)) < 1e-12);
            for (int w = 0; w < P; w++) {
                int down = programs_instance(programs, w, w), up = programs_instance(programs, w, P - 1 - w), held = 0;
                held = programs->slots[down].stash + programs->slots[up].stash;
                int distance = w < P / 2 ? w : P - 1 - w;
                assert_int_equal(held, P / 2 + distance + 1);
                assert_int_equal(programs->slots[down].weights, 1);
                assert_int_equal(programs->slots[up].weights, 1);
            }
            ps_simulation_destroy(simulation);
            ps_programs_destroy(programs);
            ps_cluster_destroy(cluster);
        }
}

/* A stage's sum runs beside the computations of the worker's other stage. */
static void test_chimera_hides_sums(void **state) {
    (void)state;
    struct ps_programs *programs;
    struct ps_cluster *cluster;
    struct ps_simulation *simulation;
    struct stage_cost costs[4];
    struct ps_cluster_options options = {.struct_size = sizeof options, .workers = 4, .bandwidth_bytes_per_s = WEIGHT_BYTES};
    assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
    assert_ok(lower_plain("chimera", "sync", 4, 4, 1, &programs));
    for (int s = 0; s < 4; s++)
        costs[s] = (struct stage_cost){.time = {.forward_s = 1, .backward_input_s = 0.5, .backward_weight_s = 0.5},
                                       .size = {.parameter_bytes = s >= 2 ? WEIGHT_BYTES : 0}};
    struct simulation_work work = {.programs = programs, .costs = costs, .cluster = cluster, .samples = 1};
    assert_ok(simulate_programs(&work, &simulation, &test_error));
    /* The later stages are done with their backwards early; the first have no weights to add up. */
    assert_true(simulation->info.makespan_s == 2 * 4 + 4 - 2);
    ps_simulation_destroy(simulation);
    ps_programs_destroy(programs);
    ps_cluster_destroy(cluster);
}

/* Forwards and backwards that run at the same time on one worker: a forward waits for the update of the weights that it reads.
 */
static void test_lanes_wait_for_updates(void **state) {
    (void)state;
    enum { STAGES = 3, M = 4, BATCHES = 3 };
    struct ps_programs *programs;
    struct ps_cluster *cluster;
    struct ps_simulation *simulation;
    struct stage_cost costs[STAGES];
    struct ps_cluster_options options = {.struct_size = sizeof options, .workers = STAGES};
    double updated[STAGES][BATCHES] = {0};
    int forwards = 0;
    assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
    assert_ok(lower_plain("fbp-as", "sync", STAGES, M, BATCHES, &programs));
    for (int s = 0; s < STAGES; s++)
        costs[s] =
            (struct stage_cost){.time = {.forward_s = 1, .backward_input_s = 0.5, .backward_weight_s = 0.5, .update_s = 4}};
    struct simulation_work work = {.programs = programs, .costs = costs, .cluster = cluster, .samples = 1};
    assert_ok(simulate_programs(&work, &simulation, &test_error));
    const struct timeline *timeline = &simulation->timeline;
    for (int i = 0; i < timeline->event_count; i++) {
        const struct timeline_event *event = &timeline->events[i];
        if (event->instruction.op == OP_U) updated[event->instruction.stage][event->instruction.micro_batch] = event->end_s;
    }
    for (int i = 0; i < timeline->event_count; i++) {
        const struct timeline_event *event = &timeline->events[i];
        const int batch = event->instruction.micro_batch / M;
        if (event->instruction.op != OP_F || batch == 0) continue;
        forwards++;
        assert_true(updated[event->instruction.stage][batch - 1] > 0);
        assert_true(event->start_s >= updated[event->instruction.stage][batch - 1]);
    }
    assert_int_equal(forwards, STAGES * M * (BATCHES - 1));
    ps_simulation_destroy(simulation);
    ps_programs_destroy(programs);
    ps_cluster_destroy(cluster);
}

/* When the computation of this kind ended; 0: there is none. */
static double ended(const struct timeline *timeline, int op, int worker, int micro_batch) {
    for (int i = 0; i < timeline->event_count; i++) {
        const struct timeline_event *event = &timeline->events[i];
        if (event->instruction.op == op && event->worker == worker && event->instruction.micro_batch == micro_batch)
            return event->end_s;
    }
    return 0;
}

/* And without transfers a backward waits for nothing but its forward, its gradient and the backward before it: not for the
 * forwards beside it. */
static void test_lanes_wait_for_nothing_else(void **state) {
    (void)state;
    for (int workers = 2; workers <= 4; workers++)
        for (int forward_s = 1; forward_s <= 3; forward_s++) {
            const int micro_batches = 2 * workers;
            struct ps_programs *programs;
            struct ps_cluster *cluster;
            struct ps_simulation *simulation;
            struct stage_cost costs[4];
            struct ps_cluster_options options = {.struct_size = sizeof options, .workers = workers};
            int backwards = 0;
            assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
            assert_ok(lower_plain("fbp-as", "sync", workers, micro_batches, 1, &programs));
            for (int s = 0; s < workers; s++)
                costs[s] =
                    (struct stage_cost){.time = {.forward_s = forward_s, .backward_input_s = 0.5, .backward_weight_s = 0.5}};
            struct simulation_work work = {.programs = programs, .costs = costs, .cluster = cluster, .samples = 1};
            assert_ok(simulate_programs(&work, &simulation, &test_error));
            const struct timeline *timeline = &simulation->timeline;
            for (int i = 0; i < timeline->event_count; i++) {
                const struct timeline_event *event = &timeline->events[i];
                const int worker = event->worker, micro_batch = event->instruction.micro_batch;
                if (event->instruction.op != OP_B) continue;
                double ready_s = ended(timeline, OP_F, worker, micro_batch);
                ready_s = fmax(ready_s, ended(timeline, OP_B, worker + 1, micro_batch));
                ready_s = fmax(ready_s, ended(timeline, OP_B, worker, micro_batch - 1));
                assert_true(event->start_s == ready_s);
                backwards++;
            }
            assert_int_equal(backwards, workers * micro_batches);
            ps_simulation_destroy(simulation);
            ps_programs_destroy(programs);
            ps_cluster_destroy(cluster);
        }
}

/* Sums in the timeline that begin and end so, each part of which sends so much. */
static int sums_between(const struct scene *scene, double start_s, double end_s, int64_t bytes) {
    const struct timeline *timeline = &scene->simulation->timeline;
    int count = 0;
    for (int i = 0; i < timeline->transfer_count; i++) {
        const struct timeline_transfer *transfer = &timeline->transfers[i];
        count += transfer->traffic == TRAFFIC_SUM && transfer->start_s == start_s && transfer->end_s == end_s &&
                 transfer->bytes == bytes;
    }
    return count;
}

/* Two stages that share 3/16 of their weights: each adds up over its replicas, side by side, and then all what they share. */
static void test_tied(void **state) {
    (void)state;
    enum { SHARED = 3 * WEIGHT_BYTES / 16 };
    static const struct {
        int replicas[2], own_sums;
        double tie_s;      /* 2 (n - 1) (0.125 + 3 / 16 / n) */
        double in_place_s; /* r blocks for each stage that has several, and n times 3/16 */
    } cases[] = {{{1, 1}, 0, 0.4375, 0.375}, {{2, 1}, 2, 0.75, 2.5625}, {{1, 2}, 2, 0.75, 2.5625}, {{2, 2}, 4, 1.03125, 4.75}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int linked = 0; linked < 2; linked++) {
            const int *replicas = cases[c].replicas, all = replicas[0] + replicas[1];
            struct scene scene;
            struct ps_cluster_options options = {.struct_size = sizeof options};
            if (linked)
                options = (struct ps_cluster_options){.struct_size = sizeof(struct ps_cluster_options),
                                                      .bandwidth_bytes_per_s = WEIGHT_BYTES,
                                                      .latency_s = 0.125};
            scene_make(&scene, "1f1b", replicas, 2, 2, options);
            scene.plan->tied = true;
            for (int s = 0; s < 2; s++) {
                scene.costs[s].size.tied_bytes = SHARED;
                scene.costs[s].size.output_bytes = scene.costs[s].size.input_bytes = 0;
                scene.costs[s].sum_s = 1;
            }
            double plain_s = 0, whole_s = scene_run(&scene, 1);
            for (int i = 0; i < scene.simulation->timeline.event_count; i++)
                if (scene.simulation->timeline.events[i].instruction.op != OP_U)
                    plain_s = fmax(plain_s, scene.simulation->timeline.events[i].end_s);
            const double own_s = linked && cases[c].own_sums > 0 ? 2 * (0.125 + 0.5) : 0;
            const double sum_s = linked ? own_s + cases[c].tie_s : cases[c].in_place_s;
            print_message("replicas %d, %d, %s: %g s\n", replicas[0], replicas[1], linked ? "links" : "in place",
                          whole_s - plain_s);
            assert_within(whole_s, plain_s + sum_s + 0.25, 1e-9);
            if (linked) {
                assert_int_equal(sums_between(&scene, plain_s, plain_s + own_s, WEIGHT_BYTES), cases[c].own_sums);
                assert_int_equal(
                    sums_between(&scene, plain_s + own_s, plain_s + sum_s, 2 * (all - 1) * ((SHARED + all - 1) / all)), all);
            }
            scene_free(&scene);
        }
}

/* Over one bus the same sums run one after another: two own ones of 2 (2 - 1) steps, in each of which two blocks of 1/2 take
 * turns, then the shared one of 2 (4 - 1), each of four blocks of 3/64. */
static void test_tied_over_a_bus(void **state) {
    (void)state;
    static const int replicas[] = {2, 2};
    for (int buses = 0; buses < 2; buses++) {
        struct scene scene;
        struct ps_cluster_options options = {.bandwidth_bytes_per_s = WEIGHT_BYTES, .latency_s = 0.125};
        scene_make(&scene, "gpipe", replicas, 2, 2, options);
        scene.plan->tied = true;
        for (int s = 0; s < 2; s++) {
            scene.costs[s].size.tied_bytes = 3 * WEIGHT_BYTES / 16;
            scene.costs[s].size.output_bytes = scene.costs[s].size.input_bytes = 0;
        }
        if (buses) strcpy(scene.cluster->links[0].shared_link, "bus");
        const double own_s = 2 * (0.125 + 0.5), tied_s = 6 * (0.125 + 3.0 / 64), plain_s = 2 * 3;
        const double sums_s = buses ? 2 * (2 * own_s) + 4 * tied_s : own_s + tied_s;
        assert_within(scene_run(&scene, 1), plain_s + sums_s + 0.25, 1e-9);
        scene_free(&scene);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_stage),
                                       cmocka_unit_test(test_shared_links),
                                       cmocka_unit_test(test_busiest_pair),
                                       cmocka_unit_test(test_busiest_pair_of_a_sum),
                                       cmocka_unit_test(test_link_of_a_sum),
                                       cmocka_unit_test(test_unlike_replicas),
                                       cmocka_unit_test(test_hybrid),
                                       cmocka_unit_test(test_chimera),
                                       cmocka_unit_test(test_chimera_hides_sums),
                                       cmocka_unit_test(test_lanes_wait_for_updates),
                                       cmocka_unit_test(test_lanes_wait_for_nothing_else),
                                       cmocka_unit_test(test_tied),
                                       cmocka_unit_test(test_tied_over_a_bus)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
