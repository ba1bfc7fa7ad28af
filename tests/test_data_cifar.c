/* CIFAR-10 and CIFAR-100 files: made-up ones, whole and damaged, and CIFAR-10 where PENSTOCK_DATA has it. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/dataset.h"
#include "within.h"

enum { AREA = 32 * 32, IMAGE = 3 * AREA };

static uint8_t pixel(int sample, int c, int i) { return (uint8_t)(sample * 61 + c * 100 + i * 7); }

/* Records of samples first .. first+count-1, each with its number modulo 10 as label; a coarse label before it for CIFAR-100.
 * `change` is added to the file's size, `bad_label` stands in the last record where it is not 0. */
static void write_records(const char *name, int label_bytes, int first, int count, int change, int bad_label) {
    const size_t record = (size_t)(label_bytes + IMAGE);
    uint8_t *data = calloc((size_t)(count + 1), record);
    assert_non_null(data);
    for (int n = 0; n < count; n++) {
        uint8_t *at = data + (size_t)n * record;
        if (label_bytes == 2) at[0] = 200;
        at[label_bytes - 1] = (uint8_t)(bad_label && n == count - 1 ? bad_label : (first + n) % 10);
        for (int i = 0; i < IMAGE; i++) at[label_bytes + i] = pixel(first + n, i / AREA, i % AREA);
    }
    char path[4096];
    test_file_write(file_join(path, test_directory, name), data, (size_t)((int)record * count + change));
    free(data);
}

static enum ps_status open_format(const char *format, int classes, enum dataset_part part, struct samples *samples) {
    char spec[8192];
    snprintf(spec, sizeof spec, "%s:%s", format, test_directory);
    const struct dataset_shape wanted = {.channels = 3, .height = 32, .width = 32, .classes = classes};
    return samples_open(spec, part, &wanted, samples, &test_error);
}

static void check_samples(struct samples *samples, int count, const float mean[3], const float deviation[3]) {
    const struct dataset *dataset = samples->dataset;
    assert_int_equal(samples->count, count);
    for (int sample = 0; sample < count; sample++) {
        float image[IMAGE];
        int32_t label, label_alone;
        assert_ok(dataset->class->read(dataset, sample, image, &label, &test_error));
        assert_ok(dataset->class->target(dataset, sample, &label_alone, &test_error));
        assert_int_equal(label, sample % 10);
        assert_int_equal(label_alone, label);
        for (int i = 0; i < AREA; i++) {
            for (int c = 0; c < 3; c++) {
                const float expected = ((float)pixel(sample, c, i) / 255.0f - mean[c]) / deviation[c];
                assert_within(image[i * 3 + c], expected, 1e-5f);
            }
        }
    }
    samples_close(samples);
}

static void cifar10_files_are_read_in_order(void **state) {
    (void)state;
    static const float mean[3] = {0.4914f, 0.4822f, 0.4465f}, deviation[3] = {0.2470f, 0.2435f, 0.2616f};
    struct samples samples;
    write_records("data_batch_5.bin", 1, 5, 7, 0, 0);
    write_records("data_batch_1.bin", 1, 0, 3, 0, 0);
    write_records("data_batch_2.bin", 1, 3, 2, 0, 0);
    assert_ok(open_format("cifar10", 10, DATASET_TRAIN, &samples));
    check_samples(&samples, 12, mean, deviation);
    assert_status(open_format("cifar10", 10, DATASET_TEST, &samples), PS_BAD_INPUT, "there is no file test_batch.bin");
    write_records("test_batch.bin", 1, 0, 1, 0, 0);
    assert_ok(open_format("cifar10", 10, DATASET_TEST, &samples));
    check_samples(&samples, 1, mean, deviation);
}

static void cifar100_has_fine_labels(void **state) {
    (void)state;
    static const float mean[3] = {0.5071f, 0.4865f, 0.4409f}, deviation[3] = {0.2673f, 0.2564f, 0.2762f};
    struct samples samples;
    write_records("train.bin", 2, 0, 13, 0, 0);
    assert_ok(open_format("cifar100", 100, DATASET_TRAIN, &samples));
    check_samples(&samples, 13, mean, deviation);
    assert_status(open_format("cifar100", 100, DATASET_TEST, &samples), PS_BAD_INPUT, "there is no file test.bin");
    assert_status(open_format("cifar10", 10, DATASET_TRAIN, &samples), PS_BAD_INPUT, "there is no file data_batch_1.bin");
}

static void damage_is_told(void **state) {
    (void)state;
    struct samples samples;
    write_records("data_batch_1.bin", 1, 0, 2, 0, 0);
    write_records("data_batch_2.bin", 1, 0, 2, -1, 0);
    assert_status(open_format("cifar10", 10, DATASET_TRAIN, &samples), PS_BAD_INPUT,
                  "data_batch_2.bin: truncated: 6145 bytes are not a whole number of cifar10 records of 3073 bytes");
    write_records("data_batch_2.bin", 1, 0, 2, 1, 0);
    assert_status(open_format("cifar10", 10, DATASET_TRAIN, &samples), PS_BAD_INPUT, "6147 bytes");
    write_records("data_batch_2.bin", 1, 0, 0, 0, 0);
    assert_status(open_format("cifar10", 10, DATASET_TRAIN, &samples), PS_BAD_INPUT, "data_batch_2.bin: empty");
    write_records("data_batch_2.bin", 1, 0, 2, 0, 10);
    assert_status(open_format("cifar10", 10, DATASET_TRAIN, &samples), PS_BAD_INPUT,
                  "data_batch_2.bin: sample 1 has label 10, but the classes are 0 to 9");
    write_records("data_batch_2.bin", 2, 0, 2, 0, 0);
    assert_status(open_format("cifar10", 10, DATASET_TRAIN, &samples), PS_BAD_INPUT, "data_batch_2.bin: truncated");
    write_records("test.bin", 2, 0, 4, 0, 100);
    assert_status(open_format("cifar100", 100, DATASET_TEST, &samples), PS_BAD_INPUT, "sample 3 has label 100");
}

static void the_network_must_fit(void **state) {
    (void)state;
    struct samples samples;
    write_records("data_batch_1.bin", 1, 0, 2, 0, 0);
    assert_status(open_format("cifar10", 100, DATASET_TRAIN, &samples), PS_USAGE, "has 10 classes, but the network has 100");
    assert_status(open_format("cifar10", 5, DATASET_TRAIN, &samples), PS_USAGE, "has 10 classes, but the network has 5");
    char spec[8192];
    snprintf(spec, sizeof spec, "cifar10:%s", test_directory);
    const struct dataset_shape wanted = {.channels = 1, .height = 28, .width = 28, .classes = 10};
    assert_status(samples_open(spec, DATASET_TRAIN, &wanted, &samples, &test_error), PS_USAGE, "input=32,channels=3");
}

/* The image moved by (down, right) over black, and mirrored or not. */
static bool is_moved(const float *got, const float *image, const float black[3], int down, int right, bool flip) {
    for (int i = 0; i < AREA; i++) {
        const int row = i / 32 + down, x = flip ? 31 - i % 32 : i % 32, column = x + right;
        const bool inside = row >= 0 && row < 32 && column >= 0 && column < 32;
        const float *wanted = inside ? image + (row * 32 + column) * 3 : black;
        if (memcmp(got + (ptrdiff_t)i * 3, wanted, 3 * sizeof *got) != 0) return false;
    }
    return true;
}

static void training_moves_and_mirrors(void **state) {
    (void)state;
    char spec[8192];
    struct samples samples;
    write_records("data_batch_1.bin", 1, 0, 2, 0, 0);
    snprintf(spec, sizeof spec, "cifar10:%s,pad=2,flip=1", test_directory);
    const struct dataset_shape wanted = {.channels = 3, .height = 32, .width = 32, .classes = 10};
    assert_ok(samples_open(spec, DATASET_TRAIN, &wanted, &samples, &test_error));
    const struct dataset *dataset = samples.dataset;
    char other[8300];
    snprintf(other, sizeof other, "%s,size=3", spec);
    assert_status(samples_open(other, DATASET_TRAIN, &wanted, &samples, &test_error), PS_USAGE, "known: pad, flip");
    float image[IMAGE], got[IMAGE];
    int32_t label;
    assert_ok(dataset->class->read(dataset, 1, image, &label, &test_error));
    const float black[] = {(0 - 0.4914f) / 0.2470f, (0 - 0.4822f) / 0.2435f, (0 - 0.4465f) / 0.2616f};
    bool seen[50] = {false};
    for (uint64_t epoch = 0; epoch < 500; epoch++) {
        const struct random_key key = random_key(3, RANDOM_AUGMENT, epoch, 1);
        assert_ok(dataset->class->read_augmented(dataset, 1, key, got, &label, &test_error));
        assert_int_equal(label, 1);
        int matches = 0;
        for (int m = 0; m < 50; m++) {
            if (!is_moved(got, image, black, m / 10 - 2, m / 2 % 5 - 2, m % 2 == 1)) continue;
            seen[m] = true;
            matches++;
        }
        assert_int_equal(matches, 1);
    }
    for (int m = 0; m < 50; m++) assert_true(seen[m]);
    samples_close(&samples);
    snprintf(spec, sizeof spec, "cifar10:%s,pda=2", test_directory);
    assert_status(samples_open(spec, DATASET_TRAIN, &wanted, &samples, &test_error), PS_USAGE, "did you mean 'pad'");
}

/* The real images are a balanced sample, so that normalised they have a mean near 0 and a deviation near 1. */
static void cifar10(void **state) {
    (void)state;
    char path[4096];
    test_data("cifar10/data_batch_1.bin", path);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    const long records = ftell(file) / 3073;
    fclose(file);
    *strrchr(path, '/') = '\0';
    snprintf(test_directory, sizeof test_directory, "%s", path);
    struct samples samples;
    assert_ok(open_format("cifar10", 10, DATASET_TRAIN, &samples));
    assert_true(samples.count >= records && records > 0);
    double sum[3] = {0}, squares[3] = {0};
    int64_t of_class[10] = {0};
    for (int64_t i = 0; i < samples.count; i++) {
        float image[IMAGE];
        int32_t label;
        assert_ok(samples.dataset->class->read(samples.dataset, i, image, &label, &test_error));
        of_class[label]++;
        for (int p = 0; p < IMAGE; p++) {
            sum[p % 3] += (double)image[p];
            squares[p % 3] += (double)image[p] * (double)image[p];
        }
    }
    for (int c = 0; c < 3; c++) {
        const double mean = sum[c] / (double)samples.count / AREA;
        assert_within((float)mean, 0.0f, 0.03f);
        assert_within((float)sqrt(squares[c] / (double)samples.count / AREA - mean * mean), 1.0f, 0.03f);
    }
    for (int k = 0; k < 10; k++) assert_true(of_class[k] > samples.count / 20 && of_class[k] < samples.count / 5);
    samples_close(&samples);
    assert_ok(open_format("cifar10", 10, DATASET_TEST, &samples));
    assert_true(samples.count > 0);
    samples_close(&samples);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, test_directory_set_up, test_directory_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(cifar10_files_are_read_in_order), TEST(cifar100_has_fine_labels), TEST(damage_is_told), TEST(the_network_must_fit),
        TEST(training_moves_and_mirrors),      cmocka_unit_test(cifar10),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
