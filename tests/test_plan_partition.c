/*
 * Partitioners against brute force on random instances, with and without transfers, overlap, memory, unlike speeds, types of
 * devices with costs of their own, weights that leave a fast memory, and recomputation; the messages where nothing fits; and
 * published profiles.
 */
#include "partition_support.h"

/* A second type of device, on which each layer takes another time, and weights may not fit a fast memory; half of the workers
 * are of this type. */
static void add_type(struct instance *instance, struct random_key key) {
    const struct cost_table *one = &instance->profile->tables[0];
    struct ps_profile *other;
    uint64_t n = 0;
    assert_ok(profile_create(1, one->layer_count, &other, &test_error));
    snprintf(other->device, sizeof other->device, "other");
    struct cost_table *table = &other->tables[0];
    table->input_bytes = one->input_bytes;
    table->fast_memory_bytes = random_below(key, n++, 2) ? 64 * (1 + (int64_t)random_below(key, n++, 12)) : 0;
    memcpy(table->layers, one->layers, (size_t)one->layer_count * sizeof *table->layers);
    for (int l = 0; l < one->layer_count; l++) {
        table->layers[l].time.forward_s = (double)random_below(key, n++, 9);
        table->layers[l].spill.forward_s = (double)random_below(key, n++, 5);
    }
    assert_ok(profile_add_device(instance->profile, other, &test_error));
    for (int w = 0; w < instance->cluster->workers; w++)
        strcpy(instance->cluster->devices[w].type, random_below(key, n++, 2) ? "one" : "other");
}

/* Times and sizes are small integers, so that ties and limits that are met exactly are common. */
static void make_instance(struct instance *instance, uint64_t number) {
    struct random_key key = test_key(number);
    uint64_t n = 0;
    int layers = 1 + (int)random_below(key, n++, 9), stages = 1 + (int)random_below(key, n++, 5);
    if (stages > layers) stages = layers;
    struct ps_cluster_options options = {.struct_size = sizeof options, .workers = stages};
    if (random_below(key, n++, 2)) options.bandwidth_bytes_per_s = 64;
    if (random_below(key, n++, 4) == 0) options.latency_s = 1;
    options.no_overlap = random_below(key, n++, 3) == 0;
    assert_ok(ps_cluster_uniform(&options, &instance->cluster, &test_error));
    assert_ok(profile_create(1, layers, &instance->profile, &test_error));
    struct cost_table *table = &instance->profile->tables[0];
    table->input_bytes = 64;
    for (int l = 0; l < layers; l++) {
        struct layer_cost *layer = &table->layers[l];
        layer->time = (struct layer_times){.backward_weight_s = 1, .update_s = 5};
        layer->time.forward_s = (double)random_below(key, n++, 9);
        layer->time.backward_input_s = (double)random_below(key, n++, 9);
        int64_t *sizes = (int64_t *)&layer->size;
        for (int f = 0; f < 7; f++) sizes[f] = 64 * (int64_t)random_below(key, n++, 6);
        if (l == layers - 1) layer->size.output_bytes = 0;
        layer->size.value_bytes = layer->size.output_bytes / 2;
        if (random_below(key, n++, 3) == 0) layer->size.value_bytes = layer->size.output_bytes;
    }
    snprintf(instance->profile->device, sizeof instance->profile->device, "one");
    if (random_below(key, n++, 3) == 0) add_type(instance, test_key(number + (UINT64_C(1) << 40)));
    bool memory = random_below(key, n++, 3) > 0, speeds = random_below(key, n++, 2);
    for (int s = 0; s < stages; s++) {
        int alive = stages - s;
        instance->slots[s] = (struct stage_slots){alive, alive, alive + 1, s < stages - 1, s<stages - 1, s> 0, 0, {0}, false};
        if (speeds) instance->cluster->devices[s].speed = 0.5 + 0.5 * (double)random_below(key, n++, 4);
        if (memory && random_below(key, n++, 4) > 0)
            instance->cluster->devices[s].memory_bytes = 64 * (1 + (int64_t)random_below(key, n++, (uint64_t)(60 * layers)));
    }
    int moments = (int)random_below(key, n++, 3);
    instance->problem = (struct partition_problem){.costs = table,
                                                   .cluster = instance->cluster,
                                                   .stages = stages,
                                                   .slots = memory ? instance->slots : NULL,
                                                   .moments = moments,
                                                   .recompute = random_below(key, n++, 4) == 0};
}

static void check_partition(const struct partition_problem *problem, const struct partition *partition) {
    for (int s = 0; s < problem->stages; s++) assert_true(partition->last[s] > (s > 0 ? partition->last[s - 1] : -1));
    assert_int_equal(partition->last[problem->stages - 1], problem->costs->layer_count - 1);
    assert_true(fits(problem, partition->last));
    assert_true(partition->objective_s == partition_objective_s(problem, partition->last));
    assert_true(partition->lower_bound_s <= partition->objective_s);
}

static void against_brute_force(void **state) {
    (void)state;
    const struct partitioner *pipedream, *uniform;
    int feasible = 0, infeasible = 0;
    assert_ok(partitioner_find("pipedream", &pipedream, &test_error));
    assert_ok(partitioner_find("uniform", &uniform, &test_error));
    for (uint64_t i = 0; i < 3000; i++) {
        struct instance instance;
        int last[8], brute[8];
        struct partition partition = {.last = last}, even = {.last = brute};
        make_instance(&instance, i);
        double best = brute_force(&instance.problem, 0, brute);
        enum ps_status status = pipedream->solve(&instance.problem, &partition, &test_error);
        if (best < INFINITY) {
            assert_ok(status);
            check_partition(&instance.problem, &partition);
            assert_true(fabs(partition.objective_s - best) <= 1e-12 * best);
            feasible++;
        } else {
            assert_status(status, PS_NO_PLAN, "needs");
            infeasible++;
        }
        status = uniform->solve(&instance.problem, &even, &test_error);
        if (status == PS_OK)
            check_partition(&instance.problem, &even);
        else
            assert_status(status, PS_NO_PLAN, "worker");
        free_instance(&instance);
    }
    assert_true(feasible > 1000 && infeasible > 300);
}

/* The growing stage and the rule of compute/sizes.h are the same. */
static void stage_sizes_agree(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 300; i++) {
        struct instance instance;
        make_instance(&instance, 10000 + i);
        const struct cost_table *table = instance.problem.costs;
        struct layer_sizes sizes[16];
        for (int l = 0; l < table->layer_count; l++) sizes[l] = table->layers[l].size;
        for (int last = 0; last < table->layer_count; last++)
            for (int first = 0; first <= last; first++) {
                struct stage_sizes rule =
                    stage_sizes_compose(sizes, table->layer_count, table->ties, table->input_bytes, first, last);
                struct stage_cost cost = stage_cost(table, first, last);
                assert_memory_equal(&rule, &cost.size, sizeof rule);
                double forward_s = 0;
                for (int l = first; l <= last; l++) forward_s += table->layers[l].time.forward_s;
                assert_true(cost.time.forward_s == forward_s);
            }
        free_instance(&instance);
    }
}

static void memory_of_a_stage(void **state) {
    (void)state;
    struct stage_sizes sizes = {.parameter_bytes = 1000,
                                .statistics_bytes = 7,
                                .input_bytes = 10,
                                .output_bytes = 20,
                                .stash_bytes = 300,
                                .workspace_bytes = 5};
    struct stage_slots slots = {.weights = 3, .stash = 4, .input = 5, .output = 2, .output_gradient = 1, .input_gradient = 2};
    struct worker_memory memory = stage_memory(&sizes, &slots, 2);
    struct worker_memory expected = {3007, 1000, 2000, 1250, 80, 5}, other = {1, 1, 1, 1, 1, 99};
    assert_memory_equal(&memory, &expected, sizeof memory);
    assert_int_equal(worker_memory_total(&memory), 7342);
    worker_memory_add(&memory, &other);
    assert_int_equal(memory.weights, 3008);
    assert_int_equal(memory.workspace, 99); /* shared: the largest, not the sum */
}

static void too_few_layers(void **state) {
    (void)state;
    for (int m = 0; partitioner_table[m]; m++) {
        struct instance instance;
        int last[16];
        struct partition partition = {.last = last};
        make_instance(&instance, 1);
        instance.problem.stages = instance.problem.costs->layer_count + 1;
        assert_status(partitioner_table[m]->solve(&instance.problem, &partition, &test_error), PS_NO_PLAN,
                      "stages need as many layers");
        free_instance(&instance);
    }
    const struct partitioner *found;
    assert_status(partitioner_find("pipdream", &found, &test_error), PS_USAGE, "did you mean 'pipedream'");
}

/* The message names what is in the way: the layer that fits nowhere, and what each worker needs at best. */
static void nothing_fits(void **state) {
    (void)state;
    struct ps_profile *profile;
    struct ps_cluster *cluster;
    struct ps_cluster_options options = {.struct_size = sizeof options, .workers = 2, .memory_bytes = 1 << 20};
    struct stage_slots slots[2] = {{.weights = 2}, {.weights = 1}};
    int last[2];
    struct partition partition = {.last = last};
    assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
    assert_ok(profile_create(1, 3, &profile, &test_error));
    for (int l = 0; l < 3; l++) {
        snprintf(profile->tables[0].layers[l].name, 64, "fc%d", l + 1);
        profile->tables[0].layers[l].time.forward_s = 1;
        profile->tables[0].layers[l].size.parameter_bytes = l == 2 ? 3 << 20 : 1024;
    }
    struct partition_problem problem = {
        .costs = &profile->tables[0], .cluster = cluster, .stages = 2, .slots = slots, .moments = 1};
    const struct partitioner *pipedream;
    assert_ok(partitioner_find("pipedream", &pipedream, &test_error));
    enum ps_status status = pipedream->solve(&problem, &partition, &test_error);
    assert_string_equal(test_error.message,
                        "stage 1 (layers 3 to 3, 'fc3' to 'fc3') needs 9.00 MiB, but worker 1 has 1.00 MiB");
    assert_non_null(strstr(test_error.hint, "optimizer"));
    assert_status(status, PS_NO_PLAN, "1-2");
    ps_profile_destroy(profile);
    ps_cluster_destroy(cluster);
}

/* Layer-wise optima of the published profiles on 4 and 8 workers without transfers, in ms. */
static void published(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int workers;
        double period_ms;
    } cases[] = {{"vgg16", 8, 159.531}, {"alexnet", 4, 28.721}, {"gnmt", 8, 19.032}, {"densenet121", 8, 41.615}};
    const struct partitioner *pipedream;
    assert_ok(partitioner_find("pipedream", &pipedream, &test_error));
    for (int i = 0; i < 4; i++) {
        char name[128], path[4096];
        struct ps_profile *profile;
        struct ps_cluster *cluster;
        struct ps_cluster_options options = {.struct_size = sizeof options, .workers = cases[i].workers};
        int last[8];
        struct partition partition = {.last = last};
        snprintf(name, sizeof name, "profiles/pipedream/%s.graph.txt", cases[i].name);
        assert_ok(ps_profile_read(test_data(name, path), &profile, &test_error));
        assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
        struct partition_problem problem = {.costs = &profile->tables[0], .cluster = cluster, .stages = options.workers};
        assert_ok(pipedream->solve(&problem, &partition, &test_error));
        assert_true(fabs(1e3 * partition.objective_s - cases[i].period_ms) < 1e-9);
        ps_profile_destroy(profile);
        ps_cluster_destroy(cluster);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_brute_force), cmocka_unit_test(stage_sizes_agree), cmocka_unit_test(memory_of_a_stage),
        cmocka_unit_test(too_few_layers),      cmocka_unit_test(nothing_fits),      cmocka_unit_test(published),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
