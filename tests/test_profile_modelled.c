/* Costs that are worked out for boards: arithmetic, memory traffic, and weights that do not stay on chip. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/model.h"
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
    assert_true(a->fast_memory_bytes > 0);
    assert_int_equal(a->fast_memory_bytes, b->fast_memory_bytes);
    for (int first = 0; first < a->layer_count; first++) {
        struct stage_cost x = stage_cost(a, first, a->layer_count - 1), y = stage_cost(b, first, b->layer_count - 1);
        assert_memory_equal(&x.time, &y.time, sizeof x.time);
    }
    ps_profile_destroy(written);
    ps_profile_destroy(read);
    test_directory_remove(directory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arithmetic_by_hand),
        cmocka_unit_test(weights_leave_the_chip),
        cmocka_unit_test(boards_differ_by_slices),
        cmocka_unit_test(file_keeps_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
