/* The loader: orders, epochs, padding, seeking, errors and shutdown, with and without its thread. */
#include "support.h"

#include <assert.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/loader.h"

/* A dataset whose sample i has the label i and an image of i, i+0.25, ...; it can fail at one sample, and wait at a gate. */
enum { FLOATS = 4 };

struct numbers {
    struct dataset dataset; /* first */
    int64_t failing;        /* -1: none */
    sem_t *started, *gate;  /* where not NULL: posted at, and waited for by, every read */
};

static enum ps_status read_number(const struct dataset *dataset, int64_t index, float *image, int32_t *label,
                                  struct ps_error *error) {
    const struct numbers *numbers = (const struct numbers *)dataset;
    assert(index >= 0 && index < dataset->samples);
    if (numbers->gate) {
        sem_post(numbers->started);
        sem_wait(numbers->gate);
    }
    if (index == numbers->failing) return error_set(error, PS_IO, "sample %lld cannot be read", (long long)index);
    for (int i = 0; i < FLOATS; i++) image[i] = (float)index + 0.25f * (float)i;
    *label = (int32_t)index;
    return PS_OK;
}

static enum ps_status label_number(const struct dataset *dataset, int64_t index, int32_t *label, struct ps_error *error) {
    float image[FLOATS];
    return read_number(dataset, index, image, label, error);
}

/* Three labels a sample, i of them not counted in sample i modulo 4. */
static enum ps_status read_labels(const struct dataset *dataset, int64_t index, float *image, int32_t *label,
                                  struct ps_error *error) {
    TRY(read_number(dataset, index, image, label, error));
    for (int k = 2; k >= 0; k--) label[k] = k < index % 4 ? -1 : (int32_t)index * 3 + k;
    return PS_OK;
}

static const struct dataset_class numbers_class = {.name = "numbers", .read = read_number, .label = label_number};
static const struct dataset_class labels_class = {.name = "numbers", .read = read_labels};
static const struct dataset_class no_label_class = {.name = "numbers", .read = read_number};

static struct numbers make_numbers(int64_t samples) {
    return (struct numbers){.dataset = {.class = &numbers_class,
                                        .samples = samples,
                                        .shape = {.channels = 1, .height = 2, .width = 2, .classes = (int)samples}},
                            .failing = -1};
}

static struct samples all_of(struct numbers *numbers) {
    return (struct samples){.dataset = &numbers->dataset, .count = numbers->dataset.samples};
}

static struct loader_options options_for(const struct samples *samples, int batch, int ahead) {
    return (struct loader_options){.samples = samples, .batch = batch, .images = true, .labels = true, .ahead = ahead};
}

static struct loader *created(const struct loader_options *options) {
    struct loader *loader;
    assert_ok(loader_create(options, &loader, &test_error));
    return loader;
}

static struct loaded_batch got(struct loader *loader, int64_t number) {
    struct loaded_batch batch;
    assert_ok(loader_get(loader, number, &batch, &test_error));
    return batch;
}

static void check_image(const struct loaded_batch *batch, int i) {
    for (int k = 0; k < FLOATS; k++) {
        const float expected = i < batch->samples ? (float)batch->labels[i] + 0.25f * (float)k : 0.0f;
        assert_true(batch->images[i * FLOATS + k] == expected);
    }
}

/* ------------------------------------------------------------ what is read */

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
                assert_int_equal(batch.labels[i], i < batch.samples ? start + i : -1);
                check_image(&batch, i);
            }
            assert_int_equal((uintptr_t)batch.images % 64, 0);
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
        options.images = images;
        struct loader *loader = created(&options);
        for (int64_t number = 0; number < 3; number++) {
            const struct loaded_batch batch = got(loader, number);
            int64_t counted = 0;
            for (int i = 0; i < 4 * 3; i++) {
                const int sample = (int)number * 4 + i / 3;
                const int expected = sample >= 10 || i % 3 < sample % 4 ? -1 : sample * 3 + i % 3;
                assert_int_equal(batch.labels[i], expected);
                counted += expected >= 0;
            }
            assert_int_equal(batch.counted, counted);
            loader_release(loader, number);
        }
        loader_destroy(loader);
    }
    struct loader_options options = options_for(&samples, 4, 2);
    options.labels = false;
    struct loader *loader = created(&options);
    const struct loaded_batch batch = got(loader, 0);
    assert_null(batch.labels);
    assert_true(batch.images[3 * FLOATS] == 3);
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
        memcpy(order[number / 10] + number % 10 * BATCH, batch.labels, BATCH * sizeof(int32_t));
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
        options.images = i != 1; /* what is wanted does not change the order */
        struct loader *loader = created(&options);
        const struct loaded_batch batch = got(loader, 0);
        assert_true((batch.images != NULL) == options.images);
        memcpy(order[i], batch.labels, sizeof order[i]);
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
        for (int i = 0; i < 4; i++) visits[batch.labels[i]]++;
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
        options.images = false;
        struct loader *loader = created(&options);
        struct loaded_batch batch = got(loader, 0);
        assert_null(batch.images);
        for (int i = 0; i < 4; i++) assert_int_equal(batch.labels[i], i);
        loader_destroy(loader);
        options.images = true;
        options.labels = false;
        loader = created(&options);
        batch = got(loader, 0);
        assert_null(batch.labels);
        assert_true(batch.images[FLOATS] == 1.0f);
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
    assert_status(loader_create(&options, &loader, &test_error), PS_FAILED, "out of memory");
    options.batch = 1 << 10;
    assert_status(loader_create(&options, &loader, &test_error), PS_FAILED, "out of memory");
}

/* ---------------------------------------------------- the thread and the ring */

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
                    assert_int_equal(held[old].labels[1], old % 10 * 2 + 1);
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
                assert_memory_equal(a.labels, b.labels, (size_t)batch * sizeof(int32_t));
                assert_memory_equal(a.images, b.images, (size_t)batch * 60 * sizeof(float));
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
        memcpy(labels[number], got(through, number).labels, sizeof labels[number]);
        loader_release(through, number);
    }
    static const int64_t targets[] = {39, 0, 8, 7, 16, 16, 3};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        assert_ok(loader_seek(seeking, targets[i], &test_error));
        for (int64_t number = targets[i]; number < targets[i] + 2 && number < 40; number++) {
            assert_memory_equal(got(seeking, number).labels, labels[number], sizeof labels[number]);
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
                assert_int_equal(batch.labels[i], number * 4 + i);
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
        for (int64_t number = 0; number < 2; number++) assert_int_equal(got(loader, number).labels[0], number * 4);
        for (int again = 0; again < 2; again++) {
            assert_status(loader_get(loader, 2, &batch, &test_error), PS_IO, "sample 9 cannot be read");
        }
        assert_int_equal(loader_get(loader, 2, &batch, NULL), PS_IO);
        loader_release(loader, 1);
        assert_status(loader_get(loader, 2, &batch, &test_error), PS_IO, "sample 9 cannot be read");
        assert_ok(loader_seek(loader, 3, &test_error));
        assert_int_equal(got(loader, 3).labels[0], 12);
        loader_destroy(loader);
    }
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
            assert_memory_equal(got(turn, number).labels, got(whole, number).labels, BATCH * sizeof(int32_t));
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
    options.labels = false;
    options.chunk = CHUNK;
    options.replicas = SHARERS;
    for (options.replica = 0; options.replica < SHARERS; options.replica++) sharer[options.replica] = created(&options);
    size_t floats = (size_t)(samples.dataset->shape.channels * samples.dataset->shape.height * samples.dataset->shape.width);
    for (int64_t number = 0; number < 8; number++) {
        const float *all = got(whole, number).images;
        for (int r = 0; r < SHARERS; r++) {
            const float *images = got(sharer[r], number).images;
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
        cmocka_unit_test(evaluation_is_in_order_and_padded),
        cmocka_unit_test(several_labels_a_sample),
        cmocka_unit_test(mini_batches_are_shared_out),
        cmocka_unit_test(micro_batches_are_shared_out),
        cmocka_unit_test(training_visits_each_sample_at_most_once_an_epoch),
        cmocka_unit_test(orders_follow_the_seed),
        cmocka_unit_test(ranges_are_kept),
        cmocka_unit_test(only_what_is_wanted_is_given),
        cmocka_unit_test(impossible_wishes_are_told),
        cmocka_unit_test(as_many_as_are_read_ahead_can_be_held),
        cmocka_unit_test(serial_and_threaded_are_the_same),
        cmocka_unit_test(seeking_gives_what_reading_through_gives),
        cmocka_unit_test(seeking_while_a_batch_is_read),
        cmocka_unit_test(errors_come_with_their_batch),
        cmocka_unit_test(it_can_be_destroyed_at_any_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
