/*
 * BaPipe's partition against brute force on random instances: never below the optimum, never worse than the cut that it starts
 * from, always a plan where there is one; unlike speeds, tight memory, coarse chains.
 */
#include "partition_support.h"

enum { LAYERS_MAX = 24 };

/* Layers of random times and sizes on random workers. What is drawn follows the bits of `number`: 1 memory, 2 unlike speeds, 4
 * transfers, 8 transfers in the workers' own time. */
static void make_instance(struct instance *instance, uint64_t number, int layers_max) {
    struct random_key key = test_key(number);
    uint64_t n = 0;
    int layers = 1 + (int)random_below(key, n++, (uint64_t)layers_max), stages = 1 + (int)random_below(key, n++, 5);
    if (stages > layers) stages = layers;
    struct ps_cluster_options options = {.struct_size = sizeof options, .workers = stages, .no_overlap = number & 8};
    if (number & 4) options.bandwidth_bytes_per_s = 1000;
    assert_ok(ps_cluster_uniform(&options, &instance->cluster, &test_error));
    assert_ok(profile_create(1, layers, &instance->profile, &test_error));
    struct cost_table *table = &instance->profile->tables[0];
    for (int l = 0; l < layers; l++) {
        struct layer_cost *layer = &table->layers[l];
        layer->time.forward_s = 0.1 + 3 * (double)random_uniform(key, n++);
        layer->time.backward_input_s = 2 * layer->time.forward_s;
        layer->size.parameter_bytes = 64 * (int64_t)random_below(key, n++, 40);
        layer->size.stash_bytes = 64 * (int64_t)random_below(key, n++, 20);
        if (l < layers - 1) layer->size.output_bytes = 64 * (int64_t)random_below(key, n++, 60);
        layer->size.value_bytes = layer->size.output_bytes;
    }
    int64_t whole = 0;
    for (int l = 0; l < layers; l++) whole += 3 * table->layers[l].size.parameter_bytes + table->layers[l].size.stash_bytes;
    for (int s = 0; s < stages; s++) {
        int alive = stages - s;
        instance->slots[s] = (struct stage_slots){1, alive, alive + 1, s < stages - 1, s<stages - 1, s> 0, 0, {0}, false};
        if (number & 2) instance->cluster->devices[s].speed = 0.5 + 3 * (double)random_uniform(key, n++);
        if (number & 1)
            instance->cluster->devices[s].memory_bytes =
                4096 + (int64_t)((double)whole * (0.5 + 2 * (double)random_uniform(key, n++)) / stages);
    }
    instance->problem = (struct partition_problem){.costs = table,
                                                   .cluster = instance->cluster,
                                                   .stages = stages,
                                                   .slots = number & 1 ? instance->slots : NULL,
                                                   .moments = 1};
}

/* Where the method starts: every stage ends where the work done comes closest to its share. */
static void first_cut(const struct partition_problem *problem, int *last) {
    int layers = problem->costs->layer_count, stages = problem->stages;
    double whole = 0, speeds = 0, wanted = 0;
    for (int l = 0; l < layers; l++) whole += 3 * problem->costs->layers[l].time.forward_s;
    for (int s = 0; s < stages; s++) speeds += problem->cluster->devices[s].speed;
    for (int s = 0; s < stages; s++) {
        double done = 0, distance = INFINITY;
        int low = s > 0 ? last[s - 1] + 1 : 0, high = s < stages - 1 ? layers - stages + s : layers - 1;
        wanted += whole * problem->cluster->devices[s].speed / speeds;
        for (int l = 0; l <= high; l++) {
            done += 3 * problem->costs->layers[l].time.forward_s;
            if (l < low || (s == stages - 1 && l < high) || fabs(done - wanted) >= distance) continue;
            distance = fabs(done - wanted);
            last[s] = l;
        }
    }
}

static const struct partitioner *bapipe(void) {
    const struct partitioner *found;
    assert_ok(partitioner_find("bapipe", &found, &test_error));
    return found;
}

static void against_brute_force(void **state) {
    (void)state;
    int feasible = 0, infeasible = 0, optimal = 0, started = 0;
    double sum = 0, worst = 1;
    for (uint64_t i = 0; i < 3000; i++) {
        struct instance instance;
        int last[STAGES_MAX], again[STAGES_MAX], brute[STAGES_MAX];
        struct partition partition = {.last = last}, second = {.last = again};
        make_instance(&instance, i, 14);
        const struct partition_problem *problem = &instance.problem;
        double best = brute_force(problem, 0, brute);
        enum ps_status status = bapipe()->solve(problem, &partition, &test_error);
        if (best < INFINITY) {
            assert_ok(status);
            for (int s = 0; s < problem->stages; s++) assert_true(last[s] > (s > 0 ? last[s - 1] : -1));
            assert_int_equal(last[problem->stages - 1], problem->costs->layer_count - 1);
            assert_true(fits(problem, last));
            assert_true(partition.objective_s == partition_objective_s(problem, last));
            assert_true(partition.objective_s >= best * (1 - 1e-12));
            assert_true(fabs(partition.lower_bound_s - best) <= 1e-12 * best);
            first_cut(problem, brute);
            if (fits(problem, brute)) {
                assert_true(partition.objective_s <= partition_objective_s(problem, brute) * (1 + 1e-12));
                started++;
            }
            assert_ok(bapipe()->solve(problem, &second, &test_error));
            assert_memory_equal(last, again, (size_t)problem->stages * sizeof *last);
            double ratio = partition.objective_s / best;
            optimal += ratio <= 1 + 1e-12;
            sum += ratio;
            worst = fmax(worst, ratio);
            feasible++;
        } else {
            assert_status(status, PS_NO_PLAN, "needs");
            infeasible++;
        }
        free_instance(&instance);
    }
    print_message("%d feasible: %.1f%% optimal, %.2f%% above the optimum on average, %.1f%% at most\n", feasible,
                  100.0 * optimal / feasible, 100 * (sum / feasible - 1), 100 * (worst - 1));
    assert_true(feasible > 1500 && infeasible > 50 && started > 1000);
    assert_true(optimal > 0.9 * feasible && sum / feasible < 1.02);
}

/* A chain of equal layers on workers of speeds 1, 2 and 3: each gets its share. */
static void unlike_speeds(void **state) {
    (void)state;
    struct instance instance;
    struct ps_cluster_options options = {.struct_size = sizeof options, .workers = 3};
    int last[3];
    struct partition partition = {.last = last};
    assert_ok(ps_cluster_uniform(&options, &instance.cluster, &test_error));
    assert_ok(profile_create(1, 24, &instance.profile, &test_error));
    for (int l = 0; l < 24; l++) instance.profile->tables[0].layers[l].time.forward_s = 1;
    for (int s = 0; s < 3; s++) instance.cluster->devices[s].speed = s + 1;
    instance.problem =
        (struct partition_problem){.costs = &instance.profile->tables[0], .cluster = instance.cluster, .stages = 3};
    assert_ok(bapipe()->solve(&instance.problem, &partition, &test_error));
    assert_int_equal(last[0], 3);
    assert_int_equal(last[1], 11);
    assert_true(partition.objective_s == 4); /* T = 1 / (1/24 + 2/24 + 3/24) */
    free_instance(&instance);
}

/* Cuts that carry much are not used where the chain has others: the transfers hide behind the stages again. */
static void coarse_chain(void **state) {
    (void)state;
    struct instance instance;
    struct ps_cluster_options options = {.struct_size = sizeof options, .workers = 3, .bandwidth_bytes_per_s = 2};
    int last[3];
    struct partition partition = {.last = last};
    assert_ok(ps_cluster_uniform(&options, &instance.cluster, &test_error));
    assert_ok(profile_create(1, 9, &instance.profile, &test_error));
    for (int l = 0; l < 9; l++) {
        struct layer_cost *layer = &instance.profile->tables[0].layers[l];
        layer->time.forward_s = 1;
        layer->size.output_bytes = l == 3 || l == 4 ? 3 : 100; /* transfers of 3 s = T, and of 100 s */
    }
    instance.problem =
        (struct partition_problem){.costs = &instance.profile->tables[0], .cluster = instance.cluster, .stages = 3};
    assert_ok(bapipe()->solve(&instance.problem, &partition, &test_error));
    assert_int_equal(last[0], 3);
    assert_int_equal(last[1], 4);
    assert_true(partition.objective_s == 4);
    free_instance(&instance);
}

/* Too few cuts carry so little that their transfers hide: those that carry least of the others are used, too, one after the
 * other until there are enough. Layers moved from the balanced cut would leave no cut but a dear one for later stages. */
static void coarser_chain(void **state) {
    (void)state;
    struct instance instance;
    struct ps_cluster_options options = {.struct_size = sizeof options, .workers = 4, .bandwidth_bytes_per_s = 2};
    int last[4];
    struct partition partition = {.last = last};
    assert_ok(ps_cluster_uniform(&options, &instance.cluster, &test_error));
    assert_ok(profile_create(1, 12, &instance.profile, &test_error));
    for (int l = 0; l < 12; l++) {
        struct layer_cost *layer = &instance.profile->tables[0].layers[l];
        layer->time.forward_s = 1;
        layer->size.output_bytes = l < 3 ? 5 - l : 100; /* transfers of 5 s, 4 s and 3 s = T, and of 100 s */
    }
    instance.problem =
        (struct partition_problem){.costs = &instance.profile->tables[0], .cluster = instance.cluster, .stages = 4};
    assert_ok(bapipe()->solve(&instance.problem, &partition, &test_error));
    for (int s = 0; s < 3; s++) assert_int_equal(last[s], s);
    assert_true(partition.objective_s == 9);
    free_instance(&instance);
}

/* The balanced cut does not fit worker 0: layers move on until it does. */
static void tight_memory(void **state) {
    (void)state;
    struct instance instance;
    struct ps_cluster_options options = {.struct_size = sizeof options, .workers = 2, .memory_bytes = 500};
    struct stage_slots slots[2] = {{.weights = 1}, {.weights = 1}};
    int last[2];
    struct partition partition = {.last = last};
    assert_ok(ps_cluster_uniform(&options, &instance.cluster, &test_error));
    assert_ok(profile_create(1, 8, &instance.profile, &test_error));
    for (int l = 0; l < 8; l++) {
        instance.profile->tables[0].layers[l].time.forward_s = 1;
        instance.profile->tables[0].layers[l].size.parameter_bytes = l < 4 ? 100 : 10; /* and as much for gradients */
    }
    instance.problem = (struct partition_problem){
        .costs = &instance.profile->tables[0], .cluster = instance.cluster, .stages = 2, .slots = slots};
    assert_ok(bapipe()->solve(&instance.problem, &partition, &test_error));
    assert_int_equal(last[0], 1);
    assert_true(partition.objective_s == 6);
    instance.cluster->devices[0].memory_bytes = 100;
    assert_status(bapipe()->solve(&instance.problem, &partition, &test_error), PS_NO_PLAN, "but worker 0 has 100 B");
    free_instance(&instance);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_brute_force), cmocka_unit_test(unlike_speeds), cmocka_unit_test(coarse_chain),
        cmocka_unit_test(coarser_chain),       cmocka_unit_test(tight_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
