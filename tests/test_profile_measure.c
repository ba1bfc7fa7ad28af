/* Measuring on a real device: plausible figures for every layer, sizes as the stages themselves say, and the clock's graph. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/processor.h"
#include "compute/stage.h"
#include "graph/model.h"
#include "profile/profile.h"

static struct ps_profile *measure_warm(const struct ps_network *model, int warmup, int64_t memory_bytes) {
    struct ps_profile *profile;
    static const int sizes[] = {4, 2};
    struct ps_profile_options options = {.struct_size = sizeof options,
                                         .device = "reference",
                                         .micro_batches = sizes,
                                         .micro_batch_count = 2,
                                         .warmup = warmup,
                                         .repeats = 3,
                                         .memory_bytes = memory_bytes};
    assert_ok(ps_profile_measure(model, &options, &profile, &test_error));
    return profile;
}

/* `memory_bytes` 0: no limit */
static struct ps_profile *measure(const struct ps_network *model, int64_t memory_bytes) {
    return measure_warm(model, 1, memory_bytes);
}

struct shown {
    double done, total;
};

/* What is done grows from call to call and never exceeds the whole. */
static void see_progress(void *context, const char *what, double done, double total, const char *detail) {
    struct shown *shown = context;
    assert_string_equal(what, "profiling");
    if (done != total / 2) assert_string_equal(detail, done < total / 2 ? "micro-batch 2" : "micro-batch 4");
    assert_true(done >= shown->done && done <= total);
    *shown = (struct shown){done, total};
}

static void progress(void **state) {
    (void)state;
    struct shown shown = {0, 0};
    struct ps_network *model;
    const struct ps_log_sink sink = {.struct_size = sizeof sink, .context = &shown, .progress = see_progress};
    assert_ok(ps_network_open("lenet5", &model, &test_error));
    assert_ok(ps_log_to(&sink, &test_error));
    struct ps_profile *profile = measure_warm(model, 2, 0);
    assert_ok(ps_log_to(NULL, &test_error));
    assert_true(shown.total == 2 * ps_network_info(model).layers && shown.done == shown.total);
    ps_profile_destroy(profile);
    ps_network_destroy(model);
}

static void lenet5(void **state) {
    (void)state;
    struct ps_network *model;
    assert_ok(ps_network_open("lenet5", &model, &test_error));
    struct ps_profile *profile = measure(model, 0);
    struct ps_network_info info = ps_network_info(model);
    assert_string_equal(profile->model, "lenet5");
    assert_string_equal(profile->device, "reference");
    assert_int_equal(profile->table_count, 2);
    for (int t = 0; t < 2; t++) {
        const struct cost_table *table = &profile->tables[t];
        int64_t parameters = 0;
        assert_int_equal(table->micro_batch, 2 + 2 * t);
        assert_int_equal(table->layer_count, info.layers);
        assert_true(table->input_bytes >= 28 * 28 * 4 * table->micro_batch);
        for (int l = 0; l < info.layers; l++) {
            const struct layer_cost *layer = &table->layers[l];
            assert_string_equal(layer->name, ps_network_layer(model, l).name);
            assert_true(layer->time.forward_s > 0 && layer->time.forward_s < 1);
            assert_true(layer->time.backward_input_s + layer->time.backward_weight_s > 0);
            assert_true(layer->spread.forward_s >= 0);
            assert_int_equal(layer->size.parameter_bytes > 0, ps_network_layer(model, l).parameters > 0);
            assert_int_equal(layer->time.update_s > 0, layer->size.parameter_bytes > 0);
            if (layer->size.parameter_bytes == 0) assert_true(layer->time.backward_weight_s == 0);
            parameters += layer->size.parameter_bytes / 4;
        }
        assert_true(parameters >= info.parameters && parameters < 2 * info.parameters); /* padded, not doubled */
    }
    ps_profile_destroy(profile);
    ps_network_destroy(model);
}

/* What the table says of a stage is what the stage says of itself. */
static void check_sizes(const char *network) {
    struct ps_network *model;
    struct device *device;
    assert_ok(ps_network_open(network, &model, &test_error));
    struct ps_profile *profile = measure(model, 0);
    assert_ok(device_open("reference", &(struct device_options){.threads = 1}, &device, &test_error));
    const struct cost_table *table = &profile->tables[1];
    for (int first = 0; first < table->layer_count; first++)
        for (int last = first; last < table->layer_count; last++) {
            struct stage *stage;
            assert_ok(stage_create(device, model->graph, first, last, table->micro_batch, &stage, &test_error));
            struct stage_sizes own = stage_sizes(stage), planned = stage_cost(table, first, last).size;
            assert_memory_equal(&own, &planned, sizeof own);
            stage_destroy(stage);
        }
    device_close(device);
    ps_profile_destroy(profile);
    ps_network_destroy(model);
}

static void sizes_agree(void **state) {
    (void)state;
    check_sizes("lenet5");
    check_sizes("lenet5,precision=bf16");
    check_sizes("gnmt8,vocab=4000,target_vocab=9,seq=4,target=3,hidden=4"); /* fewer tokens behind the source */
}

/* Layer by layer or a few at once, across cuts with several values: the same sizes, and a time for every layer. */
static void in_pieces(void **state) {
    (void)state;
    struct ps_network *model;
    assert_ok(ps_network_open("resnet,input=16", &model, &test_error));
    struct ps_profile *whole = measure(model, 0);
    static const int64_t limits[] = {1, 400 * 1000};
    for (int i = 0; i < 2; i++) {
        struct ps_profile *pieces = measure(model, limits[i]);
        for (int t = 0; t < 2; t++)
            for (int l = 0; l < whole->tables[t].layer_count; l++) {
                const struct layer_cost *layer = &pieces->tables[t].layers[l];
                assert_memory_equal(&layer->size, &whole->tables[t].layers[l].size, sizeof layer->size);
                assert_true(layer->time.forward_s > 0 && layer->time.backward_input_s + layer->time.backward_weight_s > 0);
            }
        ps_profile_destroy(pieces);
    }
    ps_profile_destroy(whole);
    ps_network_destroy(model);
}

static void clock_graph(void **state) {
    (void)state;
    struct ps_profile *profile;
    struct graph *graph;
    assert_ok(profile_create(1, 3, &profile, &test_error));
    struct cost_table *table = &profile->tables[0];
    table->input_bytes = 640;
    for (int l = 0; l < 3; l++) {
        struct layer_cost *layer = &table->layers[l];
        strcpy(layer->name, "same");
        layer->time = (struct layer_times){
            .forward_s = 0.1 * (l + 1), .backward_input_s = 0.2, .backward_weight_s = 0.3, .update_s = 0.4};
        layer->size = (struct layer_sizes){
            .parameter_bytes = 64 * l, .output_bytes = 128 + 64 * l, .value_bytes = 128, .stash_bytes = l < 2 ? 704 : 100};
        layer->sum_s = 0.0625 * l;
    }
    assert_ok(profile_graph(table, NULL, &graph, &test_error));
    assert_int_equal(graph->layer_count, 3);
    assert_int_equal(graph_cut_bytes(graph, 0), 640);
    assert_int_equal(graph_cut_bytes(graph, 1), 128);
    assert_int_equal(graph_cut_bytes(graph, 2), 192);
    for (int l = 0; l < 3; l++) {
        const struct attributes *attributes = &graph->nodes[graph->layers[l].node_first].attributes;
        assert_true(attributes->time.forward_s == 0.1 * (l + 1) && attributes->time.update_s == 0.4);
        assert_int_equal(attributes->inner_bytes, l == 0 ? 64 : l == 1 ? 576 : 0);
        assert_int_equal(attributes->parameter_bytes, 64 * l);
        assert_int_equal(attributes->value_bytes, 128 + 64 * l);
        assert_true(attributes->sum_s == 0.0625 * l);
    }
    graph_destroy(graph);
    /* In a plan the last layer of a stage takes what its cuts cost. */
    table->layers[0].spill = (struct layer_times){.forward_s = 1, .backward_input_s = 2, .backward_weight_s = 3, .update_s = 4};
    const struct layer_place places[3] = {{.spilled = true}, {.more = {.forward_s = 0.5, .backward_s = 0.25}}};
    assert_ok(profile_graph(table, places, &graph, &test_error));
    const struct attributes *attributes = &graph->nodes[graph->layers[1].node_first].attributes;
    assert_true(attributes->time.forward_s == 0.1 * 2 + 0.5 && attributes->time.backward_input_s == 0.2 + 0.25);
    /* Weights that do not fit the fast memory. */
    attributes = &graph->nodes[graph->layers[0].node_first].attributes;
    assert_true(attributes->time.forward_s == 0.1 + 1 && attributes->time.backward_input_s == 0.2 + 2);
    assert_true(attributes->time.backward_weight_s == 0.3 + 3 && attributes->time.update_s == 0.4 + 4);
    assert_true(table->layers[0].time.forward_s == 0.1 && table->layers[0].spill.forward_s == 1);
    graph_destroy(graph);
    ps_profile_destroy(profile);
}

/* What a stage copies into its output block, and that workers beside each other lose more by a cut than one alone. */
static void cuts(void **state) {
    (void)state;
    struct ps_network *model;
    assert_ok(ps_network_open("resnet,input=16", &model, &test_error));
    const struct graph *graph = model->graph;
    bool some = false;
    for (int l = 0; l + 1 < graph->layer_count; l++) {
        int64_t copied = stage_copied_bytes(graph, 2, l);
        assert_in_range(copied, 0, 2 * graph_cut_bytes(graph, l + 1));
        some = some || copied > 0;
    }
    assert_true(some);
    const int size = 2;
    for (int busy = 1; busy <= 2; busy++) {
        struct ps_profile_options options = {.struct_size = sizeof options,
                                             .device = "reference",
                                             .busy = busy,
                                             .micro_batches = &size,
                                             .micro_batch_count = 1,
                                             .repeats = 1};
        struct ps_profile *profile;
        assert_ok(ps_profile_measure(model, &options, &profile, &test_error));
        const struct cost_table *table = &profile->tables[0];
        for (int l = 0; l + 1 < table->layer_count; l++) {
            assert_true(table->layers[l].take_over_s >= 0 && (busy > 1 || table->layers[l].take_over_s == 0));
            assert_true(table->layers[l].core_transfer_s > 0 || stage_copied_bytes(graph, size, l) == 0);
        }
        assert_true(table->layers[table->layer_count - 1].core_transfer_s == 0);
        for (int c = 0; c < WIRE_CODECS; c++)
            for (int way = 0; way < 2; way++)
                assert_int_equal(c != WIRE_NONE, table->wire_s[c][way] > 1e-12 && table->wire_s[c][way] < 1e-5);
        /* Passes over all parameters: no memory takes a terabyte in a second. */
        const struct stage_cost all = stage_cost(table, 0, table->layer_count - 1);
        const double least_s = 1e-12 * (double)all.size.parameter_bytes;
        assert_true(all.time.update_s > least_s && all.time.update_predict_s > least_s && all.time.predict_s > least_s);
        assert_true(all.time.update_out_of_place_s > least_s && all.sum_s > least_s);
        ps_profile_destroy(profile);
    }
    ps_network_destroy(model);
}

/* A device with a memory of its own, of which a piece's output is taken to the next piece: times for every layer, and no costs
 * of cores that change hands. */
static void far(void **state) {
    (void)state;
    const int size = 2;
    struct ps_network *model;
    assert_ok(ps_network_open("lenet5,input=16,classes=4", &model, &test_error));
    for (int64_t memory_bytes = 0; memory_bytes < 2; memory_bytes++) {
        struct ps_profile_options options = {.struct_size = sizeof options,
                                             .device = "far",
                                             .busy = 1,
                                             .micro_batches = &size,
                                             .micro_batch_count = 1,
                                             .repeats = 1,
                                             .memory_bytes = memory_bytes};
        struct ps_profile *profile;
        assert_ok(ps_profile_measure(model, &options, &profile, &test_error));
        assert_string_equal(profile->device, "far");
        for (int l = 0; l < profile->tables[0].layer_count; l++) {
            const struct layer_cost *layer = &profile->tables[0].layers[l];
            assert_true(layer->time.forward_s > 0 && layer->core_transfer_s == 0 && layer->take_over_s == 0);
        }
        ps_profile_destroy(profile);
    }
    ps_network_destroy(model);
}

/* Where nobody says how many workers compute side by side: a pipeline has two at least. */
static void usual_background_load(void **state) {
    (void)state;
    const int size = 1;
    struct ps_network *model;
    assert_ok(ps_network_open("lenet5", &model, &test_error));
    for (int threads = 1; threads <= 2; threads++) {
        struct ps_profile_options options = {
            .struct_size = sizeof options, .threads = threads, .micro_batches = &size, .micro_batch_count = 1, .repeats = 1};
        struct ps_profile *profile;
        assert_ok(ps_profile_measure(model, &options, &profile, &test_error));
        assert_int_equal(profile->busy, cores_usable() >= 2 * threads ? 2 : 1);
        ps_profile_destroy(profile);
    }
    ps_network_destroy(model);
}

static void wrong_options(void **state) {
    (void)state;
    struct ps_network *model;
    struct ps_profile *profile;
    static const int good[] = {2}, zero[] = {0}, twice[] = {2, 2}, large[] = {1, 16777217, 16777216}, apart[] = {4, 1, 4};
    static int many[1001];
    static const struct {
        struct ps_profile_options options;
        const char *part;
    } cases[] = {
        {{.device = "reference"}, "0 micro-batch sizes"},
        {{.device = "reference", .micro_batches = zero, .micro_batch_count = 1}, "micro-batch 0: 1 to"},
        {{.device = "reference", .micro_batches = twice, .micro_batch_count = 2}, "micro-batch 2 is given twice"},
        {{.device = "refrence", .micro_batches = good, .micro_batch_count = 1}, "did you mean 'reference'"},
        {{.device = "clock", .micro_batches = good, .micro_batch_count = 1}, "device 'clock' computes nothing"},
        {{.device = "reference", .threads = -1, .micro_batches = good, .micro_batch_count = 1}, "threads: -1"},
        {{.device = "reference", .threads = 4097, .micro_batches = good, .micro_batch_count = 1}, "threads: 4097 is not"},
        {{.device = "reference", .busy = -1, .micro_batches = good, .micro_batch_count = 1}, "busy: -1 workers side by side"},
        {{.device = "reference", .busy = 1025, .micro_batches = good, .micro_batch_count = 1},
         "busy: 1025 workers side by side: 1 to 1024 are accepted"},
        {{.device = "reference", .repeats = -1, .micro_batches = good, .micro_batch_count = 1}, "-1 repeats"},
        {{.device = "reference", .warmup = -1, .micro_batches = good, .micro_batch_count = 1},
         "warm-up of -1 and 0 repeats: 0 (the default) to 10000 are accepted"},
        {{.device = "reference", .warmup = 10001, .micro_batches = good, .micro_batch_count = 1}, "warm-up of 10001 and 0"},
        {{.device = "reference", .repeats = 10001, .micro_batches = good, .micro_batch_count = 1}, "of 0 and 10001 repeats"},
        {{.device = "reference", .memory_bytes = -1, .micro_batches = good, .micro_batch_count = 1},
         "memory: -1 bytes are negative"},
        {{.device = "reference", .micro_batches = large, .micro_batch_count = 3},
         "micro-batch 16777217: 1 to 16777216 samples"},
        {{.device = "reference", .micro_batches = apart, .micro_batch_count = 3}, "micro-batch 4 is given twice"},
        {{.device = "reference", .micro_batches = many, .micro_batch_count = 1001},
         "1001 micro-batch sizes: 1 to 1000 are accepted"},
    };
    for (int m = 0; m < 1001; m++) many[m] = m + 1;
    assert_ok(ps_network_open("lenet5", &model, &test_error));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ps_profile_options options = cases[i].options;
        options.struct_size = sizeof options;
        assert_status(ps_profile_measure(model, &options, &profile, &test_error), PS_USAGE, cases[i].part);
    }
    /* The most of each, where nothing is measured; sizes come out in order. */
    const struct ps_profile_options most = {.struct_size = sizeof most,
                                            .device = "gpu:v100",
                                            .threads = 4096,
                                            .busy = 1024,
                                            .warmup = 10000,
                                            .repeats = 10000,
                                            .micro_batches = large + 1,
                                            .micro_batch_count = 2};
    assert_status(ps_profile_measure(model, &most, &profile, &test_error), PS_USAGE, "micro-batch 16777217");
    struct ps_profile_options usual = most;
    usual.micro_batches = many;
    usual.micro_batch_count = 1000;
    for (int m = 0; m < 1000; m++) many[m] = 1000 - m;
    assert_ok(ps_profile_measure(model, &usual, &profile, &test_error));
    assert_int_equal(profile->table_count, 1000);
    for (int t = 0; t < 1000; t++) assert_int_equal(profile->tables[t].micro_batch, t + 1);
    assert_int_equal(profile->threads, 4096);
    assert_int_equal(profile->busy, 1); /* nothing ran beside anything */
    ps_profile_destroy(profile);
    ps_network_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lenet5),        cmocka_unit_test(progress),
        cmocka_unit_test(sizes_agree),   cmocka_unit_test(in_pieces),
        cmocka_unit_test(clock_graph),   cmocka_unit_test(cuts),
        cmocka_unit_test(far),           cmocka_unit_test(usual_background_load),
        cmocka_unit_test(wrong_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
