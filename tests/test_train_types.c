/*
 * Pipelines whose cuts carry bf16. Every ReLU of the built-in networks is followed here by a cast to bf16 and one back, so that
 * a stage may end between the two: what the profile, the simulator and the stages say of that cut is half of what f32 takes,
 * and every schedule that flushes still gives the weights of one worker bit for bit.
 */
#include "compute/stage.h"
#include "run_support.h"
#include "simulate/simulate.h"

/* In place of the library's own, which its networks call. */
int build_relu(struct builder *builder, int input, const char *name) {
    char half[64], full[64];
    snprintf(half, sizeof half, "%s.half", name);
    snprintf(full, sizeof full, "%s.full", name);
    int x = build_node(builder, input, OPERATOR_RELU, name, (struct attributes){0});
    return build_cast(builder, build_cast(builder, x, half, TYPE_BF16), full, TYPE_F32);
}

static const char model[] = "lenet5,input=16,classes=4";
enum { SAMPLES = 4, HALF = 1 /* the layer that ends with conv1's values in bf16 */ };

/* ------------------------------------------------------------------- bytes */

static void assert_transfers(const struct ps_profile *profile, int last, int64_t bytes) {
    struct ps_cluster_options options = {.struct_size = sizeof options, .workers = 2, .bandwidth_bytes_per_s = 1e6};
    struct ps_cluster *cluster;
    struct ps_plan *plan;
    struct ps_simulation *simulation;
    struct run_case wanted = run_case_complete((struct run_case){.model = model, .workers = 2, .micro_batches = 2});
    assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
    plan = run_case_plan(&wanted);
    assert_ok(plan_stage_set(plan, 0, 0, last, 0, &test_error));
    assert_ok(plan_stage_set(plan, 1, last + 1, run_case_layers(&wanted) - 1, 1, &test_error));
    assert_ok(ps_simulate(plan, profile, cluster, 2, &simulation, &test_error));
    const struct timeline *timeline = &simulation->timeline;
    assert_int_equal(timeline->transfer_count, 2 * 2 * 2); /* batches, micro-batches, there and back */
    for (int i = 0; i < timeline->transfer_count; i++) {
        const struct timeline_transfer *transfer = &timeline->transfers[i];
        assert_int_equal(transfer->bytes, bytes);
        assert_true(fabs(transfer->end_s - transfer->start_s - (double)bytes / 1e6) < 1e-12);
    }
    ps_simulation_destroy(simulation);
    ps_plan_destroy(plan);
    ps_cluster_destroy(cluster);
}

static void test_bytes(void **state) {
    (void)state;
    struct ps_network *network;
    struct ps_profile *profile;
    const struct cost_table *table;
    struct device *device;
    struct stage *stages[2];
    assert_ok(ps_network_open(model, &network, &test_error));
    const struct graph *graph = network->graph;
    assert_string_equal(graph->layers[HALF].kind, "cast");
    int64_t full = SAMPLES * graph_value_bytes(graph, graph_cut_values(graph, HALF)[0]);
    struct ps_profile_options options = {
        .struct_size = sizeof options, .device = "reference", .micro_batches = (int[]){SAMPLES}, .micro_batch_count = 1};
    assert_ok(ps_profile_measure(network, &options, &profile, &test_error));
    assert_ok(profile_table(profile, SAMPLES, &table, &test_error));
    assert_int_equal(table->layers[HALF - 1].size.output_bytes, full);
    assert_int_equal(table->layers[HALF].size.output_bytes, full / 2);
    assert_int_equal(table->layers[HALF + 1].size.output_bytes, full);
    assert_transfers(profile, HALF - 1, full);
    assert_transfers(profile, HALF, full / 2);
    assert_ok(device_open("reference", &(struct device_options){.threads = 1}, &device, &test_error));
    assert_ok(stage_create(device, graph, 0, HALF, SAMPLES, &stages[0], &test_error));
    assert_ok(stage_create(device, graph, HALF + 1, graph->layer_count - 1, SAMPLES, &stages[1], &test_error));
    struct stage_sizes before = stage_sizes(stages[0]), behind = stage_sizes(stages[1]);
    assert_int_equal(stage_block_bytes(&before, BLOCK_OUTPUT), full / 2);
    assert_int_equal(stage_block_bytes(&before, BLOCK_OUTPUT_GRADIENT), full / 2);
    assert_int_equal(stage_block_bytes(&behind, BLOCK_INPUT), full / 2);
    assert_int_equal(stage_block_bytes(&behind, BLOCK_INPUT_GRADIENT), full / 2);
    for (int s = 0; s < 2; s++) stage_destroy(stages[s]);
    device_close(device);
    ps_profile_destroy(profile);
    ps_network_destroy(network);
}

/* ----------------------------------------------------------------- the bits */

static void check_schedules(struct run_case base) {
    static const char *const transports[] = {"threads", "serial"};
    base = run_case_complete(base);
    struct trained oracle = run_case_weights(base);
    int runs = 0, layers = run_case_layers(&base);
    for (base.workers = 2; base.workers <= 3; base.workers++)
        for (size_t s = 0; schedule_table[s]; s++) {
            char text[160];
            base.schedule = schedule_table[s]->name;
            base.transport = transports[s % 2];
            if (!schedule_table[s]->flush || schedule_replicas(schedule_table[s]) > 1) continue;
            if (run_case_stages(&base) > layers) continue;
            struct trained got = run_case_weights(base);
            bool same = trained_equal(&got, &oracle);
            if (!same) print_message("%s\n", run_case_text(&base, text));
            trained_free(&got);
            assert_true(same);
            runs++;
        }
    assert_true(runs >= 12);
    trained_free(&oracle);
}

static void test_reference(void **state) {
    (void)state;
    check_schedules((struct run_case){.model = model, .schedule = "gpipe", .micro_batches = 3, .steps = 3});
}

static void test_cpu(void **state) {
    (void)state;
    check_schedules((struct run_case){.model = model,
                                      .device = "cpu",
                                      .schedule = "gpipe",
                                      .micro_batches = 4,
                                      .steps = 4,
                                      .optimizer = "adamw",
                                      .lr = 1e-3});
}

/* The numbers are others than without casts: they are there. */
static void test_casts_count(void **state) {
    (void)state;
    struct ps_network *network;
    int casts = 0;
    assert_ok(ps_network_open(model, &network, &test_error));
    for (int l = 0; l < network->graph->layer_count; l++) casts += strcmp(network->graph->layers[l].kind, "cast") == 0;
    assert_int_equal(casts, 2 * 4);
    ps_network_destroy(network);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_cpu),
        cmocka_unit_test(test_casts_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
