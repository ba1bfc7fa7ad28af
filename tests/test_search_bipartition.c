/*
 * Bi-Partition's plans as programs: on random networks and links every one lowers, verifies and runs; what is simulated comes
 * close to what the method promises, which 1F1B's number of micro-batches under way does not where transfers take long; memory
 * is kept.
 */
#include <math.h>

#include "plan/cluster.h"
#include "plan/plan.h"
#include "search_support.h"

enum { LAYERS = 12, ROUNDS = 120 };

static struct ps_profile *random_profile(struct random_key key) {
    struct ps_profile *profile;
    uint64_t drawn = 0;
    assert_ok(profile_create(1, LAYERS, &profile, &test_error));
    strcpy(profile->model, "random");
    profile->tables[0].micro_batch = 1;
    profile->tables[0].input_bytes = 64;
    for (int l = 0; l < LAYERS; l++) {
        struct layer_cost *layer = &profile->tables[0].layers[l];
        snprintf(layer->name, sizeof layer->name, "layer%d", l);
        layer->time = (struct layer_times){.forward_s = 1e-3 * (1 + (double)random_below(key, drawn++, 8)),
                                           .backward_input_s = 1e-3 * (1 + (double)random_below(key, drawn++, 8)),
                                           .backward_weight_s = 1e-3 * (double)random_below(key, drawn++, 8)};
        int64_t output = 64 * KIB * (1 + (int64_t)random_below(key, drawn++, 8));
        layer->size = (struct layer_sizes){.parameter_bytes = 64 * KIB * (int64_t)random_below(key, drawn++, 8),
                                           .output_bytes = output,
                                           .value_bytes = output,
                                           .stash_bytes = output};
    }
    return profile;
}

/* On workers and links of twice the speed everything takes half the time. */
static void check_twice_as_fast(const struct ps_plan *plan, const struct ps_profile *profile, const struct ps_cluster *cluster,
                                const struct ps_plan_options *asked) {
    struct ps_cluster *twice;
    struct ps_plan *faster;
    struct ps_plan_options options = *asked;
    options.schedule = NULL;
    assert_ok(cluster_copy(cluster, &twice, &test_error));
    for (int w = 0; w < twice->workers; w++) twice->devices[w].speed = 2;
    for (int l = 0; l < twice->link_count; l++) twice->links[l].bandwidth_bytes_per_s *= 2;
    assert_ok(ps_plan_find(profile, twice, &options, &faster, &test_error));
    const double share = faster->predicted.period_s / plan->predicted.period_s;
    if (!(fabs(share - 0.5) <= 1e-3)) fail_msg("machines of twice the speed take %.6g of the time", share);
    ps_plan_destroy(faster);
    ps_cluster_destroy(twice);
}

static void test_promises(void **state) {
    (void)state;
    int split = 0, kept = 0, shallow_kept = 0, deeper = 0;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        if (!test_takes((size_t)round, 20)) continue;
        struct random_key key = test_key(round);
        int workers = 2 + (int)random_below(key, 1000, 5);
        struct ps_profile *profile = random_profile(key);
        struct ps_cluster *cluster = make_cluster(workers, 0, 20e6 * (1 + (double)random_below(key, 1001, 10)));
        struct ps_plan_options options = {
            .struct_size = sizeof options, .method = "bipartition", .weights = round % 2 ? "stash" : "pipeoptim"};
        struct ps_plan *plan, *shallow;
        assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
        options.schedule = "1f1b-async";
        assert_ok(ps_plan_find(profile, cluster, &options, &shallow, &test_error));
        assert_true(plan->predicted.simulated && shallow->predicted.simulated);
        assert_true(plan->predicted.period_s <= shallow->predicted.period_s * (1 + 1e-9));
        double promised = plan->predicted.objective_s;
        split += plan_is_split(plan);
        kept += plan->predicted.period_s < 1.02 * promised;
        shallow_kept += shallow->predicted.period_s < 1.02 * promised;
        if (strcmp(plan->schedule, "pattern") == 0) {
            if (deeper++ < 10) check_twice_as_fast(plan, profile, cluster, &options);
            /* With less memory than the pattern takes, what fits is taken. */
            struct ps_cluster *small = make_cluster(workers, most_memory(plan) - 1, 0);
            struct ps_plan *less;
            struct ps_error refusal = {0};
            options.schedule = NULL;
            enum ps_status status = ps_plan_find(profile, small, &options, &less, &refusal);
            assert_true(status == PS_OK || status == PS_NO_PLAN);
            if (status == PS_OK && less->predicted.simulated) assert_true(most_memory(less) < most_memory(plan));
            if (status == PS_OK) ps_plan_destroy(less);
            ps_cluster_destroy(small);
        }
        ps_plan_destroy(plan);
        ps_plan_destroy(shallow);
        ps_cluster_destroy(cluster);
        ps_profile_destroy(profile);
    }
    print_message("%d plans, %d split, %d with a pattern: %d keep what they promise, %d would with 1F1B\n", ROUNDS, split,
                  deeper, kept, shallow_kept);
    assert_true(test_slow() || split > ROUNDS / 4);
    assert_true(test_slow() || kept > ROUNDS * 4 / 5);
    assert_true(2 * shallow_kept < kept);
}

static double found_speed(const struct ps_profile *profile, struct ps_cluster *cluster, int64_t *most) {
    struct ps_plan_options options = {.struct_size = sizeof options, .method = "bipartition"};
    struct ps_plan *plan;
    assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
    const double speed = plan->predicted.throughput_samples_per_s;
    *most = most_memory(plan);
    ps_plan_destroy(plan);
    ps_cluster_destroy(cluster);
    return speed;
}

/* What a plan takes too much is taken from the planner's workers with a limit; those without one keep having none. */
static void test_limits_of_some(void **state) {
    (void)state;
    const struct ps_profile_options options = {
        .struct_size = sizeof options, .device = "gpu:v100", .micro_batches = (int[]){4}, .micro_batch_count = 1};
    struct ps_network *network;
    struct ps_profile *profile;
    assert_ok(ps_network_open("vgg16", &network, &test_error));
    assert_ok(ps_profile_measure(network, &options, &profile, &test_error));
    ps_network_destroy(network);
    int64_t most, limit;
    found_speed(profile, make_cluster(4, 0, 0), &most);
    limit = most * 3 / 4;
    struct ps_cluster *mixed = make_cluster(4, 0, 0);
    mixed->devices[1].memory_bytes = mixed->devices[3].memory_bytes = limit;
    const double all = found_speed(profile, make_cluster(4, limit, 0), &most);
    assert_true(most <= limit);
    const double some = found_speed(profile, mixed, &most);
    assert_true(most > limit);
    if (!(some > all)) fail_msg("%.6g samples/s where two of four workers have a limit, %.6g where all have", some, all);
    ps_profile_destroy(profile);
}

/* Its class contains the chains with the workers in their order, so it finds one that is no slower than `pipedream`'s; but
 * where it cannot order the workers it says so. */
static void test_order_contains_chain(void **state) {
    (void)state;
    enum { ORDER_ROUNDS = 12, WORKERS = 3 };
    static const struct cluster_link one_way = {.from = 0, .to = 1, .bandwidth_bytes_per_s = 1e6};
    const struct ps_plan_options chain = {.struct_size = sizeof chain, .method = "pipedream", .micro_batches = 4},
                                 order = {.struct_size = sizeof order, .method = "bipartition-order", .micro_batches = 4};
    for (uint64_t round = 0; round < ORDER_ROUNDS; round++) {
        struct ps_profile *profile = random_profile(test_key(2000 + round));
        struct ps_cluster *cluster = make_cluster(WORKERS, 0, 20e6), *unlike;
        struct ps_plan *plan, *other;
        cluster->devices[1].speed = 0.5;
        assert_ok(ps_plan_find(profile, cluster, &chain, &plan, &test_error));
        for (int w = 0; w < WORKERS; w++) cluster->devices[w].memory_bytes = most_memory(plan);
        ps_plan_destroy(plan);
        assert_ok(ps_plan_find(profile, cluster, &chain, &plan, &test_error));
        assert_ok(ps_plan_find(profile, cluster, &order, &other, &test_error));
        assert_true(other->predicted.period_s <= plan->predicted.period_s * (1 + 1e-9));
        assert_string_equal(other->method, "bipartition-order");
        ps_plan_destroy(plan);
        ps_plan_destroy(other);
        assert_ok(cluster_create(WORKERS, 1, &unlike, &test_error));
        unlike->links[0] = one_way;
        assert_status(ps_plan_find(profile, unlike, &order, &plan, &test_error), PS_USAGE, "requires equal links");
        ps_cluster_destroy(unlike);
        ps_cluster_destroy(cluster);
        ps_profile_destroy(profile);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_promises), cmocka_unit_test(test_limits_of_some),
                                       cmocka_unit_test(test_order_contains_chain)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
