/* The table of devices, and that each updates as the optimizers say. */
#include <string.h>

#include "chain.h"

/* ------------------------------------------------------------------ update */

enum { UPDATED = 1003 };

struct update {
    float weights[UPDATED], predicted[UPDATED], moments[OPTIMIZER_MOMENTS_MAX][UPDATED];
};

/* Two updates, where the rule can with a prediction each and another alone at last; by the device, or (NULL) by the rule. */
static void apply(struct device *device, const struct optimizer *rule, struct update *update, float *ahead) {
    static float gradient[UPDATED];
    struct optimizer_settings settings = rule->defaults;
    memset(update, 0, sizeof *update);
    bool predicts = rule->predict != NULL;
    for (int step = 1; step <= (predicts ? 3 : 2); step++) {
        for (uint64_t i = 0; i < UPDATED; i++) {
            gradient[i] = random_normal(test_key(7000 + (uint64_t)step), i);
            if (step == 1) update->weights[i] = random_normal(test_key(7000), i);
        }
        struct optimizer_call call = {.count = UPDATED,
                                      .weights = update->weights,
                                      .updated = update->weights,
                                      .gradient = gradient,
                                      .moment = {update->moments[0], update->moments[1]},
                                      .predicted = !predicts  ? NULL
                                                   : step < 3 ? update->predicted
                                                              : ahead,
                                      .lr = 0.01,
                                      .step = step < 3 ? step : 2,
                                      .ahead = {0.03, 0.99}};
        bool predict_only = step == 3;
        if (device != NULL)
            device->type->update(device, rule, &settings, &call, predict_only, 0), device_finish(device);
        else
            (predict_only ? rule->predict : rule->update)(&settings, &call);
    }
}

/* A device updates as the optimizer says, bit for bit. */
static void test_updates(void **state) {
    (void)state;
    static struct update wanted, got;
    static float wanted_ahead[UPDATED], got_ahead[UPDATED];
    for (int i = 0; device_table[i] != NULL; i++) {
        if (!device_table[i]->real) continue;
        struct device *device = chain_device(device_table[i]->name);
        for (int o = 0; optimizer_table[o] != NULL; o++) {
            apply(NULL, optimizer_table[o], &wanted, wanted_ahead);
            apply(device, optimizer_table[o], &got, got_ahead);
            assert_memory_equal(&wanted, &got, sizeof got);
            assert_memory_equal(wanted_ahead, got_ahead, sizeof got_ahead);
        }
        device_close(device);
    }
}

/* ----------------------------------------------------------------- devices */

static void test_device_table(void **state) {
    (void)state;
    struct device *device = NULL;
    struct device_options options = {.threads = 1};
    assert_status(device_open("cpuu", &options, &device, &test_error), PS_USAGE, "did you mean 'cpu'");
    options.threads = 0;
    assert_status(device_open("cpu", &options, &device, &test_error), PS_USAGE, "0 threads");
    options.threads = 1025;
    assert_status(device_open("cpu", &options, &device, &test_error), PS_USAGE,
                  "device cpu: 1025 threads: at most 1024 are accepted");
    assert_null(device);
    for (int i = 0; device_table[i] != NULL; i++) {
        assert_true(strlen(device_table[i]->summary) > 10);
        device = chain_device(device_table[i]->name);
        assert_ptr_equal(device->type, device_table[i]);
        assert_int_equal(device->threads, 1);
        assert_int_equal(device_check_real(device_table[i], &test_error), device_table[i]->real ? PS_OK : PS_USAGE);
        device_close(device);
    }
    device_close(NULL);
    const struct device_class *clock;
    assert_ok(device_find("clock", &clock, &test_error));
    assert_status(device_check_real(clock, &test_error), PS_USAGE, "`device`: clock computes no numbers");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_device_table), cmocka_unit_test(test_updates)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
