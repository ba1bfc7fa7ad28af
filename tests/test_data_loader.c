/* What the loader gives: orders, epochs, padding, ranges, labels, and shares of replicas. */
#include <string.h>

#include "loader_support.h"

static void evaluation_is_in_order_and_padded(void **state) {
    (void)state;
    struct numbers numbers = make_numbers(10);
    const struct samples samples = all_of(&numbers);
    for (int serial = 0; serial < 2; serial++) {
        struct loader_options options = options_for(&samples, 4, 2);
        options.serial = serial;
        struct loader *loader = created(&options);
        assert_int_equal(loader_batches(loader), 3);
        for (int64_t number = 0; number < 9; number++) {
            const struct loaded_batch batch = got(loader, number);
            const int start = (int)(number % 3) * 4;
            assert_int_equal(batch.samples, start == 8 ? 2 : 4);
            for (int i = 0; i < 4; i++) {
                assert_int_equal(labels_of(batch)[i], i < batch.samples ? start + i : -1);
                check_image(&batch, i);
            }
            assert_int_equal((uintptr_t)batch.inputs % 64, 0);
            loader_release(loader, number);
        }
        loader_destroy(loader);
    }
}

/* With several labels a sample: where they stand, padding, and how many count; also where only images are wanted. */
static void several_labels_a_sample(void **state) {
    (void)state;
    struct numbers numbers = make_numbers(10);
    numbers.dataset.class = &labels_class;
    numbers.dataset.shape.labels = 3;
    const struct samples samples = all_of(&numbers);
    for (int images = 0; images < 2; images++) {
        struct loader_options options = options_for(&samples, 4, 2);
        options.inputs = images;
        struct loader *loader = created(&options);
        for (int64_t number = 0; number < 3; number++) {
            const struct loaded_batch batch = got(loader, number);
            int64_t counted = 0;
            for (int i = 0; i < 4 * 3; i++) {
                const int sample = (int)number * 4 + i / 3;
                const int expected = sample >= 10 || i % 3 < sample % 4 ? -1 : sample * 3 + i % 3;
                assert_int_equal(labels_of(batch)[i], expected);
                counted += expected >= 0;
            }
            assert_int_equal(batch.weight, counted);
            loader_release(loader, number);
        }
        loader_destroy(loader);
    }
    struct loader_options options = options_for(&samples, 4, 2);
    options.targets = false;
    struct loader *loader = created(&options);
    const struct loaded_batch batch = got(loader, 0);
    assert_null(batch.targets);
    assert_true(((const float *)batch.inputs)[3 * FLOATS] == 3);
    loader_destroy(loader);
}

static void training_visits_each_sample_at_most_once_an_epoch(void **state) {
    (void)state;
    enum { COUNT = 103, BATCH = 10, EPOCHS = 4 };
    struct numbers numbers = make_numbers(COUNT);
    const struct samples samples = all_of(&numbers);
    struct loader_options options = options_for(&samples, BATCH, 3);
    options.shuffle = true;
    options.seed = test_seed();
    struct loader *loader = created(&options);
    assert_int_equal(loader_batches(loader), 10);
    int32_t order[EPOCHS][100];
    for (int64_t number = 0; number < 10 * EPOCHS; number++) {
        const struct loaded_batch batch = got(loader, number);
        assert_int_equal(batch.samples, BATCH);
        for (int i = 0; i < BATCH; i++) check_image(&batch, i);
        memcpy(order[number / 10] + number % 10 * BATCH, batch.targets, BATCH * sizeof(int32_t));
        loader_release(loader, number);
    }
    loader_destroy(loader);
    int visits[COUNT] = {0};
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        bool seen[COUNT] = {false};
        int moved = 0;
        for (int i = 0; i < 100; i++) {
            assert_false(seen[order[epoch][i]]);
            seen[order[epoch][i]] = true;
            visits[order[epoch][i]]++;
            moved += order[epoch][i] != i;
        }
        assert_true(moved > 80);
        for (int other = 0; other < epoch; other++) assert_memory_not_equal(order[epoch], order[other], sizeof order[0]);
    }
    /* The three left out are others in each epoch. */
    for (int i = 0; i < COUNT; i++) assert_true(visits[i] > 0);
}

static void orders_follow_the_seed(void **state) {
    (void)state;
    struct numbers numbers = make_numbers(64);
    const struct samples samples = all_of(&numbers);
    int32_t order[3][64];
    for (int i = 0; i < 3; i++) {
        struct loader_options options = options_for(&samples, 64, 1);
        options.shuffle = true;
        options.seed = i < 2 ? 5 : 6;
        options.inputs = i != 1; /* what is wanted does not change the order */
        struct loader *loader = created(&options);
        const struct loaded_batch batch = got(loader, 0);
        assert_true((batch.inputs != NULL) == options.inputs);
        memcpy(order[i], batch.targets, sizeof order[i]);
        loader_destroy(loader);
    }
    assert_memory_equal(order[0], order[1], sizeof order[0]);
    assert_memory_not_equal(order[0], order[2], sizeof order[0]);
}

static void ranges_are_kept(void **state) {
    (void)state;
    struct numbers numbers = make_numbers(50);
    const struct samples samples = {.dataset = &numbers.dataset, .first = 20, .count = 12};
    struct loader_options options = options_for(&samples, 4, 2);
    options.shuffle = true;
    struct loader *loader = created(&options);
    int visits[50] = {0};
    for (int64_t number = 0; number < 6; number++) {
        const struct loaded_batch batch = got(loader, number);
        for (int i = 0; i < 4; i++) visits[labels_of(batch)[i]]++;
        loader_release(loader, number);
    }
    for (int i = 0; i < 50; i++) assert_int_equal(visits[i], i >= 20 && i < 32 ? 2 : 0);
    loader_destroy(loader);
}

static void only_what_is_wanted_is_given(void **state) {
    (void)state;
    struct numbers numbers = make_numbers(6);
    const struct samples samples = all_of(&numbers);
    for (int with_label = 0; with_label < 2; with_label++) {
        numbers.dataset.class = with_label ? &numbers_class : &no_label_class;
        struct loader_options options = options_for(&samples, 4, 2);
        options.inputs = false;
        struct loader *loader = created(&options);
        struct loaded_batch batch = got(loader, 0);
        assert_null(batch.inputs);
        for (int i = 0; i < 4; i++) assert_int_equal(labels_of(batch)[i], i);
        loader_destroy(loader);
        options.inputs = true;
        options.targets = false;
        loader = created(&options);
        batch = got(loader, 0);
        assert_null(batch.targets);
        assert_true(((const float *)batch.inputs)[FLOATS] == 1.0f);
        loader_destroy(loader);
    }
}

static void impossible_wishes_are_told(void **state) {
    (void)state;
    struct numbers numbers = make_numbers(10);
    const struct samples samples = all_of(&numbers);
    struct loader_options options = options_for(&samples, 11, 2);
    struct loader *loader;
    options.shuffle = true;
    assert_status(loader_create(&options, &loader, &test_error), PS_USAGE, "11 samples is larger than the data, which have 10");
    numbers.dataset.shape.channels = INT64_C(1) << 40; /* 2^40 x 2 x 2 floats, 2^30 of them, 2^30 mini-batches */
    options = options_for(&samples, 1 << 30, 1 << 20);
    assert_status(loader_create(&options, &loader, &test_error), PS_OUT_OF_MEMORY, "out of memory");
    options.batch = 1 << 10;
    assert_status(loader_create(&options, &loader, &test_error), PS_OUT_OF_MEMORY, "out of memory");
}

/* Workers that take mini-batches in turn, over epochs; a seek to what comes next anyway keeps what was read. */
static void mini_batches_are_shared_out(void **state) {
    (void)state;
    enum { SHARERS = 3, BATCH = 4 };
    struct numbers numbers = make_numbers(30);
    const struct samples samples = all_of(&numbers);
    for (int serial = 0; serial < 2; serial++) {
        struct loader_options options = options_for(&samples, BATCH, 2);
        options.shuffle = true;
        options.serial = serial;
        struct loader *whole = created(&options), *sharer[SHARERS];
        options.stride = SHARERS;
        for (int r = 0; r < SHARERS; r++) {
            sharer[r] = created(&options);
            assert_ok(loader_seek(sharer[r], r, &test_error));
        }
        for (int64_t number = 0; number < 40; number++) {
            struct loader *turn = sharer[number % SHARERS];
            if (number % 5 == 0) assert_ok(loader_seek(turn, number, &test_error));
            assert_memory_equal(got(turn, number).targets, got(whole, number).targets, BATCH * sizeof(int32_t));
            loader_release(turn, number);
            loader_release(whole, number);
        }
        for (int r = 0; r < SHARERS; r++) loader_destroy(sharer[r]);
        loader_destroy(whole);
    }
}

/* Workers that take the micro-batches of each mini-batch in turn. */
static void micro_batches_are_shared_out(void **state) {
    (void)state;
    enum { SHARERS = 2, BATCH = 12, CHUNK = 2 };
    struct numbers numbers = make_numbers(60);
    const struct samples samples = all_of(&numbers);
    struct loader_options options = options_for(&samples, BATCH, 2);
    options.shuffle = true;
    struct loader *whole = created(&options), *sharer[SHARERS];
    options.targets = false;
    options.chunk = CHUNK;
    options.replicas = SHARERS;
    for (options.replica = 0; options.replica < SHARERS; options.replica++) sharer[options.replica] = created(&options);
    size_t floats = (size_t)(samples.dataset->shape.channels * samples.dataset->shape.height * samples.dataset->shape.width);
    for (int64_t number = 0; number < 8; number++) {
        const float *all = got(whole, number).inputs;
        for (int r = 0; r < SHARERS; r++) {
            const float *images = got(sharer[r], number).inputs;
            for (size_t chunk = (size_t)r; chunk < BATCH / CHUNK; chunk += SHARERS)
                assert_memory_equal(images + chunk * CHUNK * floats, all + chunk * CHUNK * floats,
                                    CHUNK * floats * sizeof *all);
            loader_release(sharer[r], number);
        }
        loader_release(whole, number);
    }
    for (int r = 0; r < SHARERS; r++) loader_destroy(sharer[r]);
    loader_destroy(whole);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evaluation_is_in_order_and_padded),
        cmocka_unit_test(several_labels_a_sample),
        cmocka_unit_test(training_visits_each_sample_at_most_once_an_epoch),
        cmocka_unit_test(orders_follow_the_seed),
        cmocka_unit_test(ranges_are_kept),
        cmocka_unit_test(only_what_is_wanted_is_given),
        cmocka_unit_test(impossible_wishes_are_told),
        cmocka_unit_test(mini_batches_are_shared_out),
        cmocka_unit_test(micro_batches_are_shared_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
