/* Synthetic images: made to measure, always the same, and learnable though not without effort. */
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "data/dataset.h"

static const struct dataset_shape shape = {.channels = 1, .height = 28, .width = 28, .classes = 10};
enum { PIXELS = 28 * 28 };

static struct samples opened(const char *spec, enum dataset_part part, const struct dataset_shape *wanted) {
    struct samples samples;
    assert_ok(samples_open(spec, part, wanted, &samples, &test_error));
    return samples;
}

static int32_t read_one(const struct samples *samples, int64_t index, float *image) {
    int32_t label;
    assert_ok(samples->dataset->class->read(samples->dataset, index, image, &label, &test_error));
    return label;
}

static void it_has_the_shape_that_the_network_takes(void **state) {
    (void)state;
    const struct dataset_shape shapes[] = {
        {.channels = 1, .height = 1, .width = 1, .classes = 2},
        {.channels = 3, .height = 7, .width = 13, .classes = 3},
        {.channels = 2, .height = 64, .width = 32, .classes = 100},
    };
    for (int i = 0; i < 3; i++) {
        const struct dataset_shape *wanted = &shapes[i];
        struct samples samples = opened("synthetic:images,samples=20", DATASET_TRAIN, wanted);
        assert_int_equal(samples.dataset->shape.height, wanted->height);
        assert_int_equal(samples.dataset->shape.width, wanted->width);
        assert_int_equal(samples.dataset->shape.channels, wanted->channels);
        assert_int_equal(samples.dataset->shape.classes, wanted->classes);
        assert_int_equal(samples.count, 20);
        const size_t floats = (size_t)(wanted->channels * wanted->height * wanted->width);
        float *image = malloc((floats + 1) * sizeof *image);
        assert_non_null(image);
        image[floats] = 12345.0f;
        for (int64_t n = 0; n < 20; n++) {
            const int32_t label = read_one(&samples, n, image);
            assert_in_range(label, 0, wanted->classes - 1);
            for (size_t p = 0; p < floats; p++) assert_true(isfinite(image[p]) && fabsf(image[p]) < 20);
        }
        assert_true(image[floats] == 12345.0f);
        free(image);
        samples_close(&samples);
    }
}

/* Bits that must never change, or saved results would not be comparable: FNV-1a over some samples. */
static void it_is_the_same_everywhere(void **state) {
    (void)state;
    struct samples samples = opened("synthetic:images", DATASET_TRAIN, &shape);
    uint64_t hash = HASH_BEGIN;
    for (int64_t n = 0; n < 3; n++) {
        uint32_t bits[PIXELS];
        float image[PIXELS];
        const int32_t label = read_one(&samples, n * 1000, image);
        memcpy(bits, image, sizeof bits);
        for (int i = 0; i < PIXELS; i++) hash = hash_step(hash, bits[i]);
        hash = hash_step(hash, (uint32_t)label);
    }
    assert_int_equal(hash, 0x4a282791b6333bc0u);
    samples_close(&samples);
}

static void samples_do_not_depend_on_how_they_are_read(void **state) {
    (void)state;
    struct samples one = opened("synthetic:images,samples=100", DATASET_TRAIN, &shape);
    struct samples other = opened("synthetic:images,samples=5000,seed=0", DATASET_TRAIN, &shape);
    float a[PIXELS], b[PIXELS];
    for (int64_t n = 99; n >= 0; n -= 9) {
        const int32_t label = read_one(&one, n, a);
        int32_t alone;
        assert_int_equal(read_one(&other, n, b), label);
        assert_memory_equal(a, b, sizeof a);
        assert_ok(one.dataset->class->target(one.dataset, n, &alone, &test_error));
        assert_int_equal(alone, label);
    }
    samples_close(&one);
    samples_close(&other);
}

static void parts_seeds_and_samples_differ(void **state) {
    (void)state;
    struct samples train = opened("synthetic:images", DATASET_TRAIN, &shape);
    struct samples test = opened("synthetic:images", DATASET_TEST, &shape);
    struct samples seed = opened("synthetic:images,seed=1", DATASET_TRAIN, &shape);
    float a[PIXELS], b[PIXELS];
    read_one(&train, 0, a);
    read_one(&train, 1, b);
    assert_memory_not_equal(a, b, sizeof a);
    read_one(&test, 0, b);
    assert_memory_not_equal(a, b, sizeof a);
    read_one(&seed, 0, b);
    assert_memory_not_equal(a, b, sizeof a);
    samples_close(&train);
    samples_close(&test);
    samples_close(&seed);
}

/* Classes are told by the nearest mean of the training samples: on the test part too, as far as noise and shifts let. */
static double nearest_mean_accuracy(const char *spec) {
    struct samples train = opened(spec, DATASET_TRAIN, &shape), test = opened(spec, DATASET_TEST, &shape);
    static float mean[10][PIXELS];
    float image[PIXELS];
    int count[10] = {0}, right = 0;
    memset(mean, 0, sizeof mean);
    for (int64_t n = 0; n < 2000; n++) {
        const int32_t label = read_one(&train, n, image);
        count[label]++;
        for (int i = 0; i < PIXELS; i++) mean[label][i] += image[i];
    }
    for (int k = 0; k < 10; k++) {
        assert_in_range(count[k], 120, 280);
        for (int i = 0; i < PIXELS; i++) mean[k][i] /= (float)count[k];
    }
    for (int64_t n = 0; n < 500; n++) {
        const int32_t label = read_one(&test, n, image);
        double best = INFINITY;
        int guess = 0;
        for (int k = 0; k < 10; k++) {
            double distance = 0;
            for (int i = 0; i < PIXELS; i++) distance += (double)((image[i] - mean[k][i]) * (image[i] - mean[k][i]));
            if (distance < best) best = distance, guess = k;
        }
        right += guess == label;
    }
    samples_close(&train);
    samples_close(&test);
    return right / 500.0;
}

static void it_can_be_learned_and_noise_makes_it_harder(void **state) {
    (void)state;
    const double usual = nearest_mean_accuracy("synthetic:images"), loud = nearest_mean_accuracy("synthetic:images,noise=20");
    print_message("nearest mean: %.1f%%, with noise=20: %.1f%%\n", 100 * usual, 100 * loud);
    assert_true(usual > 0.6 && usual < 0.95);
    assert_true(loud < usual - 0.2);
}

static void wrong_options_are_told(void **state) {
    (void)state;
    const struct {
        const char *spec, *expected;
    } cases[] = {
        {"synthetic:image", "did you mean 'images'"},
        {"synthetic:images,sample=5", "did you mean 'samples'"},
        {"synthetic:images,samples=0", "synthetic: images: samples=0: must be an integer from 1"},
        {"synthetic:images,samples=-1", "samples=-1"},
        {"synthetic:images,samples=99999999999", "samples=99999999999"},
        {"synthetic:images,samples=many", "samples=many"},
        {"synthetic:images,classes=1", "classes=1"},
        {"synthetic:images,size=100000", "size=100000"},
        {"synthetic:images,channels=0", "channels=0"},
        {"synthetic:images,noise=-1", "noise=-1"},
        {"synthetic:images,noise=nan", "noise=nan"},
        {"synthetic:images,seed=-1", "seed=-1"},
        {"synthetic:images,noise=1,noise=2", "noise"},
        {"synthetic:images,noise", "noise"},
    };
    struct samples samples;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_status(samples_open(cases[i].spec, DATASET_TRAIN, &shape, &samples, &test_error), PS_USAGE, cases[i].expected);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_has_the_shape_that_the_network_takes),     cmocka_unit_test(it_is_the_same_everywhere),
        cmocka_unit_test(samples_do_not_depend_on_how_they_are_read),  cmocka_unit_test(parts_seeds_and_samples_differ),
        cmocka_unit_test(it_can_be_learned_and_noise_makes_it_harder), cmocka_unit_test(wrong_options_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
