/* Costs that are worked out for boards: arithmetic, memory traffic, and weights that do not stay on chip. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "graph/model.h"
#include "plan/plan.h"
#include "profile/modelled.h"
#include "support.h"

/* cmocka knows floats only, whose 24 bits do not tell such times apart. */
static void assert_near(double value, double expected, double tolerance) {
    if (!(fabs(value - expected) <= tolerance)) fail_msg("%g is not %g within %g", value, expected, tolerance);
}

static struct ps_profile *profile_of(const char *model_name, const char *device, int micro_batch) {
    struct ps_network *model;
    struct ps_profile *profile;
    assert_ok(ps_network_open(model_name, &model, &test_error));
    struct ps_profile_options options = {
        .struct_size = sizeof options, .device = device, .micro_batches = &micro_batch, .micro_batch_count = 1};
    assert_ok(ps_profile_measure(model, &options, &profile, &test_error));
    ps_network_destroy(model);
    return profile;
}

static const struct layer_cost *layer_named(const struct cost_table *table, const char *name) {
    for (int l = 0; l < table->layer_count; l++)
        if (strcmp(table->layers[l].name, name) == 0) return &table->layers[l];
    fail_msg("no layer '%s'", name);
    return NULL;
}

/* VGG-16's forward at 224 x 224 takes 15.47 billion multiply-adds in convolutions and linear layers (Simonyan and Zisserman;
 * each half of a layer's backward as many). The second convolution: 64 x 64 x 9 x 224 x 224 on 6840 slices at 200 MHz. */
static void arithmetic_by_hand(void **state) {
    (void)state;
    struct ps_profile *profile = profile_of("vgg16,input=224,classes=1000", "fpga:vcu118", 1);
    const struct cost_table *table = &profile->tables[0];
    double expected = 64.0 * 64 * 9 * 224 * 224 / (6840 * 200e6);
    const struct layer_cost *second = layer_named(table, "features.2");
    assert_near(second->time.forward_s, expected, 0.02 * expected); /* its ReLU takes the rest */
    assert_near(second->time.backward_input_s, second->time.forward_s, 1e-12);
    assert_near(second->time.backward_weight_s, second->time.forward_s, 1e-12);
    assert_int_equal(table->layers[0].time.backward_input_s > table->layers[0].time.forward_s, 0);
    struct stage_cost all = stage_cost(table, 0, table->layer_count - 1);
    assert_true(all.time.forward_s > 15.47e9 / (6840 * 200e6));
    /* half-precision numbers */
    assert_int_equal(second->size.parameter_bytes, (64 * 64 * 9 + 64) * 2);
    assert_int_equal(second->size.value_bytes, 64 * 224 * 224 * 2);
    assert_int_equal(table->input_bytes, 3 * 224 * 224 * 2);
    ps_profile_destroy(profile);
}

/* VGG-16's last layers: 103 million weights of the first of them do not fit any board, and are then read from DDR at 40
 * GB/s. */
static void weights_leave_the_chip(void **state) {
    (void)state;
    struct ps_profile *profile = profile_of("vgg16,input=224,classes=1000", "fpga:vcu118", 1);
    const struct cost_table *table = &profile->tables[0];
    int first = table->layer_count - 3;
    const struct layer_cost *layer = &table->layers[first];
    assert_string_equal(layer->kind, "linear");
    struct stage_cost spilt = stage_cost(table, first, first);
    double read_s = (double)layer->size.parameter_bytes / 40e9;
    assert_true(2 * layer->size.parameter_bytes > table->fast_memory_bytes);
    assert_near(spilt.time.forward_s, read_s + (double)layer->size.stash_bytes / 40e9, 1e-9);
    assert_near(spilt.time.backward_input_s, read_s, 1e-9);
    assert_near(spilt.time.backward_weight_s, 2 * read_s + (double)layer->size.stash_bytes / 40e9, 1e-9);
    assert_near(spilt.time.update_s, 3 * read_s, 1e-9);
    struct stage_cost kept = stage_cost(table, 0, 5); /* early layers fit */
    double sum = 0;
    for (int l = 0; l <= 5; l++) sum += table->layers[l].time.forward_s;
    assert_near(kept.time.forward_s, sum, 1e-12);
    ps_profile_destroy(profile);
}

/* A larger board is faster at the same network, by its slices where memory is not in the way. */
static void boards_differ_by_slices(void **state) {
    (void)state;
    struct ps_profile *small = profile_of("vgg16,input=224", "fpga:vcu118", 2),
                      *large = profile_of("vgg16,input=224", "fpga:vcu129", 2);
    double a = layer_named(&small->tables[0], "features.5")->time.forward_s;
    double b = layer_named(&large->tables[0], "features.5")->time.forward_s;
    assert_near(a / b, 12288.0 / 6840, 1e-9);
    ps_profile_destroy(small);
    ps_profile_destroy(large);
}

static void file_keeps_everything(void **state) {
    (void)state;
    char directory[4096], path[4200];
    test_directory_make(directory);
    snprintf(path, sizeof path, "%s/p.json", directory);
    struct ps_profile *written = profile_of("vgg16,input=224", "fpga:vcu129", 1), *read;
    assert_ok(ps_profile_write(written, path, &test_error));
    assert_ok(ps_profile_read(path, &read, &test_error));
    const struct cost_table *a = &written->tables[0], *b = &read->tables[0];
    assert_int_equal(a->fast_memory_bytes, 56862500); /* 454.9 Mbit */
    assert_int_equal(a->fast_memory_bytes, b->fast_memory_bytes);
    for (int first = 0; first < a->layer_count; first++) {
        struct stage_cost x = stage_cost(a, first, a->layer_count - 1), y = stage_cost(b, first, b->layer_count - 1);
        assert_memory_equal(&x.time, &y.time, sizeof x.time);
    }
    ps_profile_destroy(written);
    ps_profile_destroy(read);
    test_directory_remove(directory);
}

/* A GPU's rate grows with the batch up to its peak: of a large image at once, of fully connected and recurrent layers later. */
static void gpus_saturate(void **state) {
    (void)state;
    static const char *const models[] = {"vgg16,input=224,classes=1000", "gnmt8,seq=20,target=20,hidden=256,vocab=1000"};
    for (int m = 0; m < 2; m++) {
        double before = INFINITY;
        for (int batch = 1; batch <= 64; batch *= 4) {
            struct ps_profile *profile = profile_of(models[m], "gpu:v100", batch);
            struct stage_cost all = stage_cost(&profile->tables[0], 0, profile->tables[0].layer_count - 1);
            double each_s = (all.time.forward_s + all.time.backward_input_s + all.time.backward_weight_s) / batch;
            assert_true(each_s < before);
            before = each_s;
            ps_profile_destroy(profile);
        }
    }
    struct ps_profile *profile = profile_of(models[0], "gpu:v100", 4);
    const struct layer_cost *second = layer_named(&profile->tables[0], "features.2");
    double expected = 4 * 64.0 * 64 * 9 * 224 * 224 / 7.85e12;
    assert_near(second->time.forward_s, expected, 0.1 * expected); /* at the peak, its ReLU and two launches besides */
    assert_true(second->time.update_out_of_place_s > second->time.update_s);
    assert_true(second->time.update_predict_s > second->time.update_s && second->time.predict_s < second->time.update_s);
    ps_profile_destroy(profile);
}

static double period_s(const struct ps_profile *profile, const char *schedule, int micro_batch) {
    struct ps_cluster *cluster;
    struct ps_plan *plan;
    struct ps_cluster_options machines = {
        .struct_size = sizeof machines, .workers = 3, .bandwidth_bytes_per_s = 1e12, .streaming = true};
    struct ps_plan_options options = {.struct_size = sizeof options,
                                      .method = "bapipe",
                                      .schedule = schedule,
                                      .weights = "sync",
                                      .batch = 32,
                                      .micro_batch = micro_batch};
    assert_ok(ps_cluster_uniform(&machines, &cluster, &test_error));
    assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
    double result_s = plan->predicted.period_s;
    ps_plan_destroy(plan);
    ps_cluster_destroy(cluster);
    return result_s;
}

/* With one sample in a micro-batch a board that alternates between forwards and backwards drains too often; with many it hardly
 * does. Where each direction has a stream of its own it never does. (BaPipe, section 3.2.1.) */
static void boards_drain(void **state) {
    (void)state;
    struct ps_network *model;
    struct ps_profile *profile;
    const struct ps_profile_options measuring = {
        .struct_size = sizeof measuring, .device = "fpga:vcu118", .micro_batches = (const int[]){1, 8}, .micro_batch_count = 2};
    assert_ok(ps_network_open("vgg16,input=32,classes=10", &model, &test_error));
    assert_ok(ps_profile_measure(model, &measuring, &profile, &test_error));
    ps_network_destroy(model);
    double fill = 0, eighth = 0;
    for (int l = 0; l < profile->tables[0].layer_count; l++) {
        fill += profile->tables[0].layers[l].fill;
        eighth += profile->tables[1].layers[l].fill;
    }
    assert_true(fill > 1);
    assert_near(eighth, fill / 8, 1e-9);
    double loss_1 = period_s(profile, "1f1b-as", 1) / period_s(profile, "fbp-as", 1);
    double loss_8 = period_s(profile, "1f1b-as", 8) / period_s(profile, "fbp-as", 8);
    assert_true(loss_1 > 1.1 && loss_8 < loss_1);
    ps_profile_destroy(profile);
}

/* A board has numbers of one type; a model of f32 takes layers of both, which are counted as f32. */
static void types(void **state) {
    (void)state;
    struct ps_network *model;
    struct ps_profile *profile = profile_of("lenet5,precision=bf16", "gpu:p100", 2);
    ps_profile_destroy(profile);
    const int size = 2;
    const struct ps_profile_options options = {
        .struct_size = sizeof options, .device = "fpga:vcu118", .micro_batches = &size, .micro_batch_count = 1};
    assert_ok(ps_network_open("lenet5,precision=bf16", &model, &test_error));
    assert_status(ps_profile_measure(model, &options, &profile, &test_error), PS_USAGE,
                  "device fpga:vcu118 has one type of numbers: node 'conv1' with bf16 is not accepted");
    ps_network_destroy(model);
}

/* All that each device's model says of small networks with layers of each kind; looked at by eye when it changes.
 *
 *   PENSTOCK_REGENERATE=1 build/release/tests/test_profile_modelled     writes tests/golden/modelled.txt anew
 */
static void all_costs(void **state) {
    (void)state;
    static const char *const models[] = {"lenet5", "gnmt8,seq=3,target=2,hidden=16,vocab=40",
                                         "gpt2,layers=1,width=24,heads=3,seq=4,vocab=9", "resnet,input=16"};
    struct text out = {0};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (int d = 0; modelled_table[d]; d++) {
            struct ps_profile *profile = profile_of(models[m], modelled_table[d]->name, 3);
            const struct cost_table *table = &profile->tables[0];
            text_add(&out, "%s on %s: input %lld, fast memory %lld\n", models[m], modelled_table[d]->name,
                     (long long)table->input_bytes, (long long)table->fast_memory_bytes);
            for (int l = 0; l < table->layer_count; l++) {
                const struct layer_cost *layer = &table->layers[l];
                const struct layer_times *times[] = {&layer->time, &layer->spill};
                const struct layer_sizes *size = &layer->size;
                text_add(&out, "%s", layer->name);
                for (int t = 0; t < (table->fast_memory_bytes > 0 ? 2 : 1); t++) {
                    text_add(&out, "%s", t ? " | spill" : " | time");
#define TIME(name, required, absent) text_add(&out, " %.5g", times[t]->name);
                    LAYER_TIMES(TIME)
#undef TIME
                }
                if (layer->fill > 0) text_add(&out, " | fill %.5g", layer->fill);
                text_add(&out, " | %lld %lld %lld %lld %lld %lld %lld %lld %lld %lld %lld\n", (long long)size->parameter_bytes,
                         (long long)size->narrow_bytes, (long long)size->statistics_bytes, (long long)size->fixed_bytes,
                         (long long)size->tied_bytes, (long long)size->output_bytes, (long long)size->value_bytes,
                         (long long)size->stash_bytes, (long long)size->tail_bytes, (long long)size->delta_bytes,
                         (long long)size->workspace_bytes);
            }
            text_add(&out, "\n");
            ps_profile_destroy(profile);
        }
    test_golden(TEST_DIRECTORY "/golden/modelled.txt", text_take(&out));
}

/* A weight that three layers share: 24 x 24 numbers of as many bytes as the device's. */
static void shared_weights(void **state) {
    (void)state;
    static const struct {
        const char *device;
        int bytes;
    } cases[] = {{"reference", 4}, {"gpu:p100", 4}, {"fpga:vcu118", 2}};
    const int micro_batch = 2;
    struct ps_network_builder *builder = ps_network_builder_create("shared");
    struct ps_network *network;
    assert_int_equal(ps_network_builder_input(builder, "x", "f32", (const int64_t[]){24}, 1), 0);
    const int first = ps_network_builder_node(builder, "a", "linear,channels=24,bias=0", NULL, 0);
    ps_network_builder_tie(builder, ps_network_builder_node(builder, "b", "linear,channels=24,bias=0", NULL, 0), first);
    ps_network_builder_tie(builder, ps_network_builder_node(builder, "c", "linear,channels=24,bias=0", NULL, 0), first);
    ps_network_builder_node(builder, "loss", "cross_entropy", NULL, 0);
    assert_ok(ps_network_builder_finish(builder, &network, &test_error));
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct ps_profile *profile;
        struct ps_profile_options options = {.struct_size = sizeof options,
                                             .device = cases[c].device,
                                             .micro_batches = &micro_batch,
                                             .micro_batch_count = 1,
                                             .repeats = 1};
        assert_ok(ps_profile_measure(network, &options, &profile, &test_error));
        assert_int_equal(profile->ties.count, 1);
        assert_int_equal(profile->ties.list[0].uses, 3);
        assert_int_equal(profile->ties.list[0].bytes, 24 * 24 * cases[c].bytes);
        ps_profile_destroy(profile);
    }
    ps_network_destroy(network);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arithmetic_by_hand),
        cmocka_unit_test(weights_leave_the_chip),
        cmocka_unit_test(boards_differ_by_slices),
        cmocka_unit_test(file_keeps_everything),
        cmocka_unit_test(gpus_saturate),
        cmocka_unit_test(boards_drain),
        cmocka_unit_test(types),
        cmocka_unit_test(all_costs),
        cmocka_unit_test(shared_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
