/* When the loader gives it: reading ahead with a thread and without, seeking, errors and shutdown. */
#include <string.h>

#include "loader_support.h"

static void as_many_as_are_read_ahead_can_be_held(void **state) {
    (void)state;
    struct numbers numbers = make_numbers(20);
    const struct samples samples = all_of(&numbers);
    for (int ahead = 1; ahead <= 5; ahead++) {
        for (int serial = 0; serial < 2; serial++) {
            struct loader_options options = options_for(&samples, 2, ahead);
            options.serial = serial;
            struct loader *loader = created(&options);
            struct loaded_batch held[40];
            for (int64_t number = 0; number < 40; number++) {
                if (number >= ahead) loader_release(loader, number - ahead);
                held[number] = got(loader, number);
                for (int64_t old = number - ahead + 1 > 0 ? number - ahead + 1 : 0; old <= number; old++) {
                    assert_int_equal(labels_of(held[old])[1], old % 10 * 2 + 1);
                    check_image(&held[old], 1);
                }
            }
            loader_release(loader, 39);
            loader_release(loader, 30); /* given back before: nothing happens */
            got(loader, 40);
            loader_destroy(loader);
        }
    }
}

/* A thread and none, the same walk of random gets, releases and seeks: the same bits. */
static void serial_and_threaded_are_the_same(void **state) {
    (void)state;
    const struct dataset_shape shape = {.channels = 3, .height = 5, .width = 4, .classes = 7};
    const struct random_key key = test_key(1);
    struct samples samples;
    assert_ok(samples_open("synthetic:images,samples=57@3-50", DATASET_TRAIN, &shape, &samples, &test_error));
    uint64_t draw = 0;
    for (int round = 0; round < 40; round++) {
        const int batch = 1 + (int)random_below(key, draw++, 12), ahead = 1 + (int)random_below(key, draw++, 4);
        struct loader_options options = options_for(&samples, batch, ahead);
        options.shuffle = random_below(key, draw++, 2);
        options.seed = random_below(key, draw++, 1000);
        struct loader *threaded = created(&options);
        options.serial = true;
        struct loader *serial = created(&options);
        assert_int_equal(loader_batches(threaded), loader_batches(serial));
        int64_t next = 0, released = 0;
        for (int step = 0; step < 60; step++) {
            const uint64_t choice = random_below(key, draw++, 8);
            if (choice == 0) {
                next = released = (int64_t)random_below(key, draw++, 100);
                assert_ok(loader_seek(threaded, next, &test_error));
                assert_ok(loader_seek(serial, next, &test_error));
            } else if (next == released + ahead || (choice < 4 && released < next)) {
                released += 1 + (int64_t)random_below(key, draw++, (uint64_t)(next - released));
                loader_release(threaded, released - 1);
                loader_release(serial, released - 1);
            } else {
                const struct loaded_batch a = got(threaded, next), b = got(serial, next);
                assert_int_equal(a.samples, b.samples);
                assert_memory_equal(a.targets, b.targets, (size_t)batch * sizeof(int32_t));
                assert_memory_equal(a.inputs, b.inputs, (size_t)batch * 60 * sizeof(float));
                next++;
            }
        }
        loader_destroy(threaded);
        loader_destroy(serial);
    }
    samples_close(&samples);
}

static void seeking_gives_what_reading_through_gives(void **state) {
    (void)state;
    struct numbers numbers = make_numbers(35);
    const struct samples samples = all_of(&numbers);
    struct loader_options options = options_for(&samples, 4, 3);
    options.shuffle = true;
    struct loader *through = created(&options), *seeking = created(&options);
    int32_t labels[40][4];
    for (int64_t number = 0; number < 40; number++) {
        memcpy(labels[number], got(through, number).targets, sizeof labels[number]);
        loader_release(through, number);
    }
    static const int64_t targets[] = {39, 0, 8, 7, 16, 16, 3};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        assert_ok(loader_seek(seeking, targets[i], &test_error));
        for (int64_t number = targets[i]; number < targets[i] + 2 && number < 40; number++) {
            assert_memory_equal(got(seeking, number).targets, labels[number], sizeof labels[number]);
        }
    }
    assert_status(loader_seek(seeking, -1, &test_error), PS_USAGE, "mini-batch -1");
    loader_destroy(through);
    loader_destroy(seeking);
}

/* The gate holds the thread in the middle of mini-batch 0 while the caller seeks away, and back again. */
static void seeking_while_a_batch_is_read(void **state) {
    (void)state;
    for (int back = 0; back < 2; back++) {
        struct numbers numbers = make_numbers(40);
        sem_t started, gate;
        sem_init(&started, 0, 0);
        sem_init(&gate, 0, 0);
        numbers.started = &started;
        numbers.gate = &gate;
        const struct samples samples = all_of(&numbers);
        const struct loader_options options = options_for(&samples, 4, 2);
        struct loader *loader = created(&options);
        sem_wait(&started);
        assert_ok(loader_seek(loader, 6, &test_error));
        if (back) assert_ok(loader_seek(loader, 0, &test_error));
        const int64_t first = back ? 0 : 6;
        for (int i = 0; i < 100; i++) sem_post(&gate);
        for (int64_t number = first; number < first + 2; number++) {
            const struct loaded_batch batch = got(loader, number);
            for (int i = 0; i < 4; i++) {
                assert_int_equal(labels_of(batch)[i], number * 4 + i);
                check_image(&batch, i);
            }
        }
        loader_destroy(loader);
        sem_destroy(&started);
        sem_destroy(&gate);
    }
}

static void errors_come_with_their_batch(void **state) {
    (void)state;
    struct numbers numbers = make_numbers(20);
    numbers.failing = 9;
    const struct samples samples = all_of(&numbers);
    for (int serial = 0; serial < 2; serial++) {
        struct loader_options options = options_for(&samples, 4, 3);
        options.serial = serial;
        struct loader *loader = created(&options);
        struct loaded_batch batch;
        for (int64_t number = 0; number < 2; number++) assert_int_equal(labels_of(got(loader, number))[0], number * 4);
        for (int again = 0; again < 2; again++) {
            assert_status(loader_get(loader, 2, &batch, &test_error), PS_IO, "sample 9 cannot be read");
        }
        assert_int_equal(loader_get(loader, 2, &batch, NULL), PS_IO);
        loader_release(loader, 1);
        assert_status(loader_get(loader, 2, &batch, &test_error), PS_IO, "sample 9 cannot be read");
        assert_ok(loader_seek(loader, 3, &test_error));
        assert_int_equal(labels_of(got(loader, 3))[0], 12);
        loader_destroy(loader);
    }
}

static void it_can_be_destroyed_at_any_time(void **state) {
    (void)state;
    loader_destroy(NULL);
    struct numbers numbers = make_numbers(1000);
    const struct samples samples = all_of(&numbers);
    struct loader_options options = options_for(&samples, 8, 3);
    options.shuffle = true;
    for (int round = 0; round < 50; round++) {
        struct loader *loader = created(&options);
        for (int64_t number = 0; number < round % 5; number++) {
            got(loader, number);
            if (round % 3 == 0) loader_release(loader, number);
            if (round % 3 != 0 && number == 2) break; /* all that may be held */
        }
        loader_destroy(loader);
    }
    /* In the middle of reading a mini-batch. */
    sem_t started, gate;
    sem_init(&started, 0, 0);
    sem_init(&gate, 0, 0);
    numbers.started = &started;
    numbers.gate = &gate;
    struct loader *loader = created(&options);
    sem_wait(&started);
    for (int i = 0; i < 100; i++) sem_post(&gate);
    loader_destroy(loader);
    sem_destroy(&started);
    sem_destroy(&gate);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_as_are_read_ahead_can_be_held),
        cmocka_unit_test(serial_and_threaded_are_the_same),
        cmocka_unit_test(seeking_gives_what_reading_through_gives),
        cmocka_unit_test(seeking_while_a_batch_is_read),
        cmocka_unit_test(errors_come_with_their_batch),
        cmocka_unit_test(it_can_be_destroyed_at_any_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
