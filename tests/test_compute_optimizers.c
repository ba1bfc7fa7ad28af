/*
 * Optimizers: against PyTorch (golden/make_optimizers.py made the numbers), and what every rule of the table must keep: one
 * pass is as good as two, in place as good as out of place, zeros stay zeros, and predictions go on in the direction of the
 * update.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "compute/device.h"
#include "support.h"

/* ----------------------------------------------------------------- goldens */

enum { GOLDEN_MAX = 64 };

static double number(json_t *object, const char *name, double otherwise) {
    json_t *value = json_object_get(object, name);
    return value != NULL ? json_number_value(value) : otherwise;
}

static struct optimizer_settings golden_settings(const struct optimizer *rule, json_t *object) {
    struct optimizer_settings s = rule->defaults;
    s.lr = number(object, "lr", s.lr);
    s.momentum = number(object, "momentum", s.momentum);
    s.dampening = number(object, "dampening", s.dampening);
    s.weight_decay = number(object, "weight_decay", s.weight_decay);
    s.beta1 = number(object, "beta1", s.beta1);
    s.beta2 = number(object, "beta2", s.beta2);
    s.eps = number(object, "eps", s.eps);
    return s;
}

static size_t read_numbers(json_t *array, float values[GOLDEN_MAX]) {
    size_t count = json_array_size(array);
    assert_in_range(count, 1, GOLDEN_MAX);
    for (size_t i = 0; i < count; i++) values[i] = (float)json_number_value(json_array_get(array, i));
    return count;
}

static void check_golden(json_t *root, json_t *golden) {
    const struct optimizer *rule;
    assert_ok(optimizer_find(json_string_value(json_object_get(golden, "optimizer")), &rule, &test_error));
    struct optimizer_settings settings = golden_settings(rule, json_object_get(golden, "settings"));
    float weights[GOLDEN_MAX], gradient[GOLDEN_MAX], moments[OPTIMIZER_MOMENTS_MAX][GOLDEN_MAX] = {{0}};
    size_t count = read_numbers(json_object_get(root, "weights"), weights), shown = 0;
    json_t *gradients = json_object_get(root, "gradients"), *after = json_object_get(golden, "after");
    for (size_t step = 1; step <= json_array_size(gradients); step++) {
        assert_int_equal(read_numbers(json_array_get(gradients, step - 1), gradient), count);
        struct optimizer_call call = {.count = count,
                                      .weights = weights,
                                      .updated = weights,
                                      .gradient = gradient,
                                      .moment = {moments[0], moments[1]},
                                      .lr = settings.lr,
                                      .step = (int64_t)step};
        rule->update(&settings, &call);
        json_t *wanted = json_array_get(after, shown);
        if (number(wanted, "step", 0) != (double)step) continue;
        shown++;
        for (size_t i = 0; i < count; i++) {
            double value = json_number_value(json_array_get(json_object_get(wanted, "weights"), i));
            if (!(fabs((double)weights[i] - value) <= 1e-6 * fmax(1, fabs(value)))) {
                fail_msg("%s, step %zu, weight %zu: %.9g, not %.9g", rule->name, step, i, (double)weights[i], value);
            }
        }
    }
    assert_int_equal(shown, json_array_size(after));
}

static void test_goldens(void **state) {
    (void)state;
    json_t *root = NULL, *golden;
    assert_ok(json_read_file(TEST_DIRECTORY "/golden/optimizers.json", "penstock-optimizers", &root, &test_error));
    json_t *cases = json_object_get(root, "cases");
    for (int i = 0; optimizer_table[i] != NULL; i++) {
        bool covered = false;
        size_t c;
        json_array_foreach(cases, c, golden) {
            covered |= strcmp(json_string_value(json_object_get(golden, "optimizer")), optimizer_table[i]->name) == 0;
        }
        if (!covered) fail_msg("%s: no golden", optimizer_table[i]->name);
    }
    size_t c;
    json_array_foreach(cases, c, golden) check_golden(root, golden);
    json_decref(root);
}

/* -------------------------------------------------------------- properties */

enum { COUNT = 1003, STEPS = 4 };

/* A rule's blocks. */
struct blocks {
    float weights[COUNT], updated[COUNT], gradient[COUNT], moment[OPTIMIZER_MOMENTS_MAX][COUNT], predicted[COUNT];
};

static struct optimizer_call call_of(struct blocks *b, const struct optimizer_settings *settings, int64_t step) {
    return (struct optimizer_call){
        .count = COUNT,
        .weights = b->weights,
        .updated = b->updated,
        .gradient = b->gradient,
        .moment = {b->moment[0], b->moment[1]},
        .lr = settings->lr,
        .step = step,
        .ahead = {.lr_sum = 2.5 * settings->lr, .decay_product = 0.97},
    };
}

static void draw(float values[COUNT], uint64_t stream) {
    for (uint64_t i = 0; i < COUNT; i++) values[i] = random_normal(test_key(stream), i);
}

/* The settings that a rule takes, none of them neutral. */
static struct optimizer_settings full_settings(const struct optimizer *rule) {
    struct optimizer_settings s = {.lr = 0.03, .weight_decay = 0.07};
    if (rule->momentum_settings) s.momentum = 0.85, s.dampening = 0.2;
    if (rule->adam_settings) s.beta1 = 0.8, s.beta2 = 0.97, s.eps = 1e-6;
    return s;
}

static void test_fused(void **state) {
    (void)state;
    static struct blocks once, twice;
    for (int o = 0; optimizer_table[o] != NULL; o++) {
        const struct optimizer *rule = optimizer_table[o];
        if (rule->predict == NULL) continue;
        struct optimizer_settings settings = full_settings(rule);
        memset(&once, 0, sizeof once);
        draw(once.weights, 0);
        twice = once;
        for (int64_t step = 1; step <= STEPS; step++) {
            draw(once.gradient, (uint64_t)step);
            memcpy(twice.gradient, once.gradient, sizeof twice.gradient);
            struct optimizer_call fused = call_of(&once, &settings, step), plain = call_of(&twice, &settings, step);
            fused.updated = once.weights;
            fused.predicted = once.predicted;
            rule->update(&settings, &fused);
            plain.updated = twice.weights;
            rule->update(&settings, &plain);
            plain.predicted = twice.predicted;
            rule->predict(&settings, &plain);
            assert_memory_equal(once.weights, twice.weights, sizeof once.weights);
            assert_memory_equal(once.moment, twice.moment, sizeof once.moment);
            assert_memory_equal(once.predicted, twice.predicted, sizeof once.predicted);
        }
    }
}

static void test_in_place(void **state) {
    (void)state;
    static struct blocks in, out;
    for (int o = 0; optimizer_table[o] != NULL; o++) {
        const struct optimizer *rule = optimizer_table[o];
        struct optimizer_settings settings = full_settings(rule);
        memset(&in, 0, sizeof in);
        draw(in.weights, 0);
        out = in;
        for (int64_t step = 1; step <= STEPS; step++) {
            draw(in.gradient, (uint64_t)step);
            memcpy(out.gradient, in.gradient, sizeof out.gradient);
            struct optimizer_call a = call_of(&in, &settings, step), b = call_of(&out, &settings, step);
            a.updated = in.weights;
            rule->update(&settings, &a);
            rule->update(&settings, &b);
            assert_memory_equal(in.weights, out.updated, sizeof in.weights);
            assert_memory_not_equal(out.weights, out.updated, sizeof out.weights);
            memcpy(out.weights, out.updated, sizeof out.weights);
        }
    }
}

/* Blocks are padded with zeros, and padding must not grow into numbers. */
static void test_zeros(void **state) {
    (void)state;
    static struct blocks b;
    static const float zeros[COUNT];
    for (int o = 0; optimizer_table[o] != NULL; o++) {
        const struct optimizer *rule = optimizer_table[o];
        struct optimizer_settings settings = full_settings(rule);
        memset(&b, 0, sizeof b);
        for (int64_t step = 1; step <= STEPS; step++) {
            struct optimizer_call call = call_of(&b, &settings, step);
            call.updated = b.weights;
            if (rule->predict != NULL) call.predicted = b.predicted;
            rule->update(&settings, &call);
        }
        const float *blocks[] = {b.weights, b.moment[0], b.moment[1], b.predicted};
        for (int i = 0; i < 4; i++) {
            for (int j = 0; j < COUNT; j++) assert_true(blocks[i][j] == zeros[j]);
        }
    }
}

/* What the update just did, done again with other learning rates. */
static void test_prediction(void **state) {
    (void)state;
    static struct blocks b;
    for (int o = 0; optimizer_table[o] != NULL; o++) {
        const struct optimizer *rule = optimizer_table[o];
        if (rule->predict == NULL) continue;
        struct optimizer_settings settings = full_settings(rule);
        bool decoupled = strcmp(rule->name, "adamw") == 0;
        double shrink = decoupled ? 1 - settings.lr * settings.weight_decay : 1, ahead_shrink = decoupled ? 0.97 : 1;
        memset(&b, 0, sizeof b);
        draw(b.weights, 0);
        struct optimizer_call fresh = call_of(&b, &settings, 0);
        fresh.predicted = b.predicted;
        rule->predict(&settings, &fresh);
        assert_memory_equal(b.predicted, b.weights, sizeof b.weights);
        for (int64_t step = 1; step <= STEPS; step++) {
            draw(b.gradient, (uint64_t)step);
            struct optimizer_call call = call_of(&b, &settings, step);
            call.predicted = b.predicted;
            rule->update(&settings, &call);
            for (int i = 0; i < COUNT; i++) {
                double direction = (shrink * (double)b.weights[i] - (double)b.updated[i]) / settings.lr;
                double wanted = ahead_shrink * (double)b.updated[i] - call.ahead.lr_sum * direction;
                assert_true(fabs((double)b.predicted[i] - wanted) <= 2e-6 * fmax(1, fabs(wanted)));
            }
            memcpy(b.weights, b.updated, sizeof b.weights);
        }
    }
}

static void test_observe(void **state) {
    (void)state;
    static struct blocks updating, watching;
    for (int o = 0; optimizer_table[o] != NULL; o++) {
        const struct optimizer *rule = optimizer_table[o];
        assert_int_equal(rule->observe != NULL, rule->moments > 0);
        if (rule->observe == NULL) continue;
        struct optimizer_settings settings = full_settings(rule);
        settings.weight_decay = 0;
        memset(&updating, 0, sizeof updating);
        draw(updating.weights, 0);
        watching = updating;
        for (int64_t step = 1; step <= STEPS; step++) {
            draw(updating.gradient, (uint64_t)step);
            memcpy(watching.gradient, updating.gradient, sizeof watching.gradient);
            struct optimizer_call update = call_of(&updating, &settings, step), watch = call_of(&watching, &settings, step);
            watch.weights = NULL;
            rule->update(&settings, &update);
            rule->observe(&settings, &watch);
            assert_memory_equal(updating.moment, watching.moment, sizeof updating.moment);
        }
    }
}

/* A device cuts the blocks among its threads: the same bits. */
static void test_threads(void **state) {
    (void)state;
    enum { LARGE = 50001 };
    struct device *device;
    assert_ok(device_open("cpu", &(struct device_options){.threads = 3}, &device, &test_error));
    struct memory_block memory;
    assert_ok(memory_block_take(&memory, 10 * memory_align(LARGE * sizeof(float)), "a test", &test_error));
    float *block[10];
    for (int i = 0; i < 10; i++) block[i] = memory_block_carve(&memory, LARGE * sizeof(float));
    for (int o = 0; optimizer_table[o] != NULL; o++) {
        const struct optimizer *rule = optimizer_table[o];
        struct optimizer_settings settings = full_settings(rule);
        for (uint64_t i = 0; i < LARGE; i++) {
            block[0][i] = random_normal(test_key(0), i);
            block[1][i] = random_normal(test_key(1), i);
        }
        for (int i = 2; i < 10; i++) memset(block[i], 0, LARGE * sizeof(float));
        struct optimizer_call call = {.count = LARGE,
                                      .weights = block[0],
                                      .gradient = block[1],
                                      .lr = settings.lr,
                                      .step = 1,
                                      .ahead = {.lr_sum = 0.1, .decay_product = 0.9}};
        struct optimizer_call direct = call, cut = call;
        direct.updated = block[2], direct.moment[0] = block[3], direct.moment[1] = block[4];
        cut.updated = block[6], cut.moment[0] = block[7], cut.moment[1] = block[8];
        if (rule->predict != NULL) direct.predicted = block[5], cut.predicted = block[9];
        rule->update(&settings, &direct);
        device->type->update(device, rule, &settings, &cut, false, 0);
        for (int i = 2; i < 6; i++) assert_memory_equal(block[i], block[i + 4], LARGE * sizeof(float));
        if (rule->predict == NULL) continue;
        memset(block[9], 0, LARGE * sizeof(float));
        cut.weights = block[6];
        device->type->update(device, rule, &settings, &cut, true, 0);
        assert_memory_equal(block[5], block[9], LARGE * sizeof(float));
    }
    memory_block_release(&memory);
    device_close(device);
}

static void test_table(void **state) {
    (void)state;
    const struct optimizer *rule = NULL;
    for (int o = 0; optimizer_table[o] != NULL; o++) {
        assert_ok(optimizer_find(optimizer_table[o]->name, &rule, &test_error));
        assert_ptr_equal(rule, optimizer_table[o]);
        assert_true(rule->summary != NULL && rule->update != NULL && rule->defaults.lr > 0);
        assert_in_range(rule->moments, 0, OPTIMIZER_MOMENTS_MAX);
    }
    assert_status(optimizer_find("admw", &rule, &test_error), PS_USAGE, "did you mean 'adamw'");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens), cmocka_unit_test(test_fused),      cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_zeros),   cmocka_unit_test(test_prediction), cmocka_unit_test(test_observe),
        cmocka_unit_test(test_threads), cmocka_unit_test(test_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
