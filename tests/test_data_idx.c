/* IDX files: made-up ones, whole and damaged in every way, and Fashion-MNIST where PENSTOCK_DATA has it. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/file.h"
#include "data/dataset.h"
#include "within.h"

enum { COUNT = 7, HEIGHT = 3, WIDTH = 4, AREA = HEIGHT * WIDTH };

static const struct dataset_shape shape = {.channels = 1, .height = HEIGHT, .width = WIDTH, .classes = 10};
/* ------------------------------------------------------------ making files */

struct bytes {
    uint8_t data[256];
    size_t size;
};

static void put_u32(struct bytes *bytes, uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes->data[bytes->size++] = (uint8_t)(value >> shift);
}

static uint8_t pixel(int sample, int i) { return (uint8_t)(sample * 37 + i * 11); }
static uint8_t label_of(int sample) { return (uint8_t)((sample * 3 + 1) % 10); }

static struct bytes image_file(void) {
    struct bytes bytes = {.size = 0};
    put_u32(&bytes, 0x803);
    put_u32(&bytes, COUNT);
    put_u32(&bytes, HEIGHT);
    put_u32(&bytes, WIDTH);
    for (int i = 0; i < COUNT * AREA; i++) bytes.data[bytes.size++] = pixel(i / AREA, i % AREA);
    return bytes;
}

static struct bytes label_file(void) {
    struct bytes bytes = {.size = 0};
    put_u32(&bytes, 0x801);
    put_u32(&bytes, COUNT);
    for (int i = 0; i < COUNT; i++) bytes.data[bytes.size++] = label_of(i);
    return bytes;
}

static void write_plain(const char *name, const struct bytes *bytes) {
    char path[4096];
    test_file_write(file_join(path, test_directory, name), bytes->data, bytes->size);
}

static void write_packed(const char *name, const struct bytes *bytes) {
    char path[4096];
    gzFile file = gzopen(file_join(path, test_directory, name), "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, bytes->data, (unsigned)bytes->size), bytes->size);
    assert_int_equal(gzclose(file), Z_OK);
}

static enum ps_status open_directory(enum dataset_part part, struct samples *samples) {
    char spec[8192];
    snprintf(spec, sizeof spec, "idx:%s", test_directory);
    return samples_open(spec, part, &shape, samples, &test_error);
}

static void check_opens(enum dataset_part part) {
    struct samples samples;
    assert_ok(open_directory(part, &samples));
    const struct dataset *dataset = samples.dataset;
    assert_int_equal(samples.count, COUNT);
    for (int sample = 0; sample < COUNT; sample++) {
        float image[AREA];
        int32_t label, label_alone;
        assert_ok(dataset->class->read(dataset, sample, image, &label, &test_error));
        assert_ok(dataset->class->target(dataset, sample, &label_alone, &test_error));
        assert_int_equal(label, label_of(sample));
        assert_int_equal(label_alone, label);
        for (int i = 0; i < AREA; i++) {
            const float expected = ((float)pixel(sample, i) / 255.0f - 0.1307f) / 0.3081f;
            assert_within(image[i], expected, 1e-6f);
        }
    }
    samples_close(&samples);
}

/* ------------------------------------------------------------------- tests */

static void all_names_are_found(void **state) {
    (void)state;
    const struct bytes images = image_file(), labels = label_file();
    write_plain("train-images-idx3-ubyte", &images);
    write_packed("train-labels-idx1-ubyte.gz", &labels);
    check_opens(DATASET_TRAIN);
    struct samples samples;
    assert_status(open_directory(DATASET_TEST, &samples), PS_BAD_INPUT, "there is no file t10k-images-idx3-ubyte");
    write_packed("t10k-images.idx3-ubyte.gz", &images);
    assert_status(open_directory(DATASET_TEST, &samples), PS_BAD_INPUT, "there is no file t10k-labels-idx1-ubyte");
    write_plain("t10k-labels.idx1-ubyte", &labels);
    check_opens(DATASET_TEST);
}

static void directories_may_have_any_name(void **state) {
    (void)state;
    const struct bytes images = image_file(), labels = label_file();
    char spec[8192], odd[4096];
    assert_ok(file_make_directory(file_join(odd, test_directory, "odd@1-2#test"), &test_error));
    strcpy(test_directory, odd);
    write_plain("train-images-idx3-ubyte", &images);
    write_plain("train-labels-idx1-ubyte", &labels);
    struct samples samples;
    snprintf(spec, sizeof spec, "idx:%s/#train@2-6", odd);
    assert_ok(samples_open(spec, DATASET_TEST, &shape, &samples, &test_error));
    assert_int_equal(samples.first, 2);
    assert_int_equal(samples.count, 4);
    samples_close(&samples);
    snprintf(spec, sizeof spec, "idx:%s/", odd);
    assert_ok(samples_open(spec, DATASET_TRAIN, &shape, &samples, &test_error));
    assert_int_equal(samples.count, COUNT);
    samples_close(&samples);
    *strrchr(test_directory, '/') = '\0';
}

static void missing_places_are_named(void **state) {
    (void)state;
    struct samples samples;
    assert_status(samples_open("idx:/no/such/place", DATASET_TRAIN, &shape, &samples, &test_error), PS_BAD_INPUT,
                  "/no/such/place: no such directory");
    const struct bytes images = image_file();
    write_plain("train-images-idx3-ubyte", &images);
    char spec[8192];
    snprintf(spec, sizeof spec, "idx:%s/train-images-idx3-ubyte", test_directory);
    assert_status(samples_open(spec, DATASET_TRAIN, &shape, &samples, &test_error), PS_BAD_INPUT, "not a directory");
}

/* One change to one of the two files, and what the message must hold beside the file's name. */
struct damage {
    const char *expected;
    bool labels;     /* the label file is the damaged one */
    int at;          /* from here ... */
    uint32_t value;  /* ... a big-endian number */
    int size_change; /* bytes cut off (negative) or added */
    int size;        /* the whole size where not 0 */
};

static const struct damage damages[] = {
    {.expected = "the magic number is 0x00000801, not 0x00000803", .at = 0, .value = 0x801},
    {.expected = "the magic number is 0x00000803, not 0x00000801", .labels = true, .at = 0, .value = 0x803},
    {.expected = "the magic number is 0x00000d03", .at = 0, .value = 0xd03},
    {.expected = "name that ends in .gz", .at = 0, .value = 0x1f8b0800},
    {.expected = "truncated: 15 bytes, and the header alone takes 16", .at = -1, .size = 15},
    {.expected = "truncated: 7 bytes, and the header alone takes 8", .labels = true, .at = -1, .size = 7},
    {.expected = "truncated: 1 bytes", .at = -1, .size = 1},
    {.expected = "truncated: the header promises 7x3x4 = 84 bytes, and 83 follow", .at = -1, .size_change = -1},
    {.expected = "truncated: the header promises 7x3x4 = 84 bytes, and 0 follow", .at = -1, .size = 16},
    {.expected = "truncated: the header promises 7 = 7 bytes, and 6 follow", .labels = true, .at = -1, .size_change = -1},
    {.expected = "promises 7x3x4 = 84 bytes, but 85 follow", .at = -1, .size_change = 1},
    {.expected = "promises 7 = 7 bytes, but 8 follow", .labels = true, .at = -1, .size_change = 1},
    {.expected = "promises 8x3x4", .at = 4, .value = 8},
    {.expected = "promises 4294967295x3x4 bytes, which is too large", .at = 4, .value = 0xffffffff},
    {.expected = "promises 7x4294967295x4 bytes, which is too large", .at = 8, .value = 0xffffffff},
    {.expected = "truncated: the header promises 4294967295", .labels = true, .at = 4, .value = 0xffffffff},
    {.expected = "no samples: the header says 0x3x4", .at = 4, .value = 0},
    {.expected = "no samples: the header says 7x0x4", .at = 8, .value = 0},
    {.expected = "no samples: the header says 7x3x0", .at = 12, .value = 0},
    {.expected = "no samples", .labels = true, .at = 4, .value = 0},
    {.expected = "sample 2 has label 10, but the classes are 0 to 9", .labels = true, .at = 10, .value = 0x0a000000},
    {.expected = "sample 3 has label 255", .labels = true, .at = 11, .value = 0xff000000},
};

static void damage_is_told(void **state) {
    (void)state;
    static const char *const names[2] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"};
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        const struct damage *damage = &damages[i];
        struct bytes files[2] = {image_file(), label_file()};
        struct bytes *file = &files[damage->labels];
        if (damage->at >= 0) {
            struct bytes word = {.size = 0};
            put_u32(&word, damage->value);
            memcpy(file->data + damage->at, word.data, 4);
        }
        file->size = damage->size ? (size_t)damage->size : file->size + (size_t)damage->size_change;
        write_plain(names[0], &files[0]);
        write_plain(names[1], &files[1]);
        struct samples samples;
        const enum ps_status status = open_directory(DATASET_TRAIN, &samples);
        if (!strstr(test_error.message, names[damage->labels])) fail_msg("no file name in: %s", test_error.message);
        assert_status(status, PS_BAD_INPUT, damage->expected);
    }
}

/* Three sizes whose product is 2^96: it must not come out as something small. */
static void overflowing_sizes_are_too_large(void **state) {
    (void)state;
    struct bytes images = {.size = 0};
    const struct bytes labels = label_file();
    put_u32(&images, 0x803);
    for (int i = 0; i < 3; i++) put_u32(&images, 0x80000000);
    write_plain("train-images-idx3-ubyte", &images);
    write_plain("train-labels-idx1-ubyte", &labels);
    struct samples samples;
    assert_status(open_directory(DATASET_TRAIN, &samples), PS_BAD_INPUT, "too large");
}

static void unequal_counts_are_told(void **state) {
    (void)state;
    const struct bytes images = image_file();
    struct bytes labels = label_file();
    labels.data[7] = COUNT - 1;
    labels.size--;
    write_plain("train-images-idx3-ubyte", &images);
    write_plain("train-labels-idx1-ubyte", &labels);
    struct samples samples;
    const enum ps_status status = open_directory(DATASET_TRAIN, &samples);
    assert_non_null(strstr(test_error.message, "train-images-idx3-ubyte: has 7 images"));
    assert_status(status, PS_BAD_INPUT, "train-labels-idx1-ubyte has 6 labels");
}

static void damaged_gzip_is_told(void **state) {
    (void)state;
    const struct bytes images = image_file(), labels = label_file();
    char path[4096], *packed;
    size_t size;
    struct samples samples;
    write_plain("train-labels-idx1-ubyte", &labels);
    write_packed("train-images-idx3-ubyte.gz", &images);
    assert_ok(file_read(file_join(path, test_directory, "train-images-idx3-ubyte.gz"), 4096, &packed, &size, &test_error));
    free(packed);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    uint8_t raw[512];
    size = fread(raw, 1, sizeof raw, file);
    fclose(file);
    assert_in_range(size, 40, sizeof raw - 1);

    static const uint8_t zeros[1 << 20]; /* much more than the header promises is not unpacked */
    gzFile endless = gzopen(path, "ab");
    assert_non_null(endless);
    for (int i = 0; i < 40; i++) assert_int_equal(gzwrite(endless, zeros, sizeof zeros), sizeof zeros);
    assert_int_equal(gzclose(endless), Z_OK);
    assert_status(open_directory(DATASET_TRAIN, &samples), PS_BAD_INPUT, "ubyte.gz: holds more than the ");
    test_file_write(path, raw, size / 2);
    assert_status(open_directory(DATASET_TRAIN, &samples), PS_BAD_INPUT, "train-images-idx3-ubyte.gz");
    raw[size - 6] ^= 0x10; /* in the check sum */
    test_file_write(path, raw, size);
    assert_status(open_directory(DATASET_TRAIN, &samples), PS_BAD_INPUT, "train-images-idx3-ubyte.gz");
    test_file_write(path, images.data, images.size); /* not packed at all */
    assert_status(open_directory(DATASET_TRAIN, &samples), PS_BAD_INPUT, "train-images-idx3-ubyte.gz");
}

/* A file that some byte was changed in opens or is refused, and never does harm. */
static void random_damage_does_no_harm(void **state) {
    (void)state;
    const struct random_key key = test_key(0);
    for (uint64_t i = 0; i < 500; i++) {
        struct bytes files[2] = {image_file(), label_file()};
        struct bytes *file = &files[random_below(key, 4 * i, 2)];
        const size_t header = file == &files[0] ? 16 : 8;
        file->data[random_below(key, 4 * i + 1, header)] = (uint8_t)random_below(key, 4 * i + 2, 256);
        if (i % 3 == 0) file->size = random_below(key, 4 * i + 3, file->size + 1);
        write_plain("train-images-idx3-ubyte", &files[0]);
        write_plain("train-labels-idx1-ubyte", &files[1]);
        struct samples samples;
        const enum ps_status status = open_directory(DATASET_TRAIN, &samples);
        if (status == PS_OK) {
            float image[AREA];
            int32_t label;
            assert_ok(samples.dataset->class->read(samples.dataset, samples.count - 1, image, &label, &test_error));
            samples_close(&samples);
        } else if (status != PS_BAD_INPUT && status != PS_USAGE) {
            fail_msg("damage %llu: status %d: %s", (unsigned long long)i, (int)status, test_error.message);
        }
    }
}

static void the_network_must_fit(void **state) {
    (void)state;
    const struct bytes images = image_file(), labels = label_file();
    write_plain("train-images-idx3-ubyte", &images);
    write_plain("train-labels-idx1-ubyte", &labels);
    char spec[8192];
    snprintf(spec, sizeof spec, "idx:%s", test_directory);
    struct samples samples;
    struct dataset_shape wanted = {.channels = 3, .height = 32, .width = 32, .classes = 10};
    assert_status(samples_open(spec, DATASET_TRAIN, &wanted, &samples, &test_error), PS_USAGE,
                  "3x4 pixels and 1 channel, but the network takes 32x32 and 3");
    wanted = shape;
    wanted.classes = 5;
    assert_status(samples_open(spec, DATASET_TRAIN, &wanted, &samples, &test_error), PS_BAD_INPUT, "the classes are 0 to 4");
}

static void fashion_mnist(void **state) {
    (void)state;
    char path[4096], spec[8192];
    test_data("fashion_mnist/train-images-idx3-ubyte.gz", path);
    *strrchr(path, '/') = '\0';
    snprintf(spec, sizeof spec, "idx:%s", path);
    const struct dataset_shape wanted = {.channels = 1, .height = 28, .width = 28, .classes = 10};
    for (int part = 0; part < 2; part++) {
        struct samples samples;
        assert_ok(samples_open(spec, (enum dataset_part)part, &wanted, &samples, &test_error));
        const struct dataset *dataset = samples.dataset;
        assert_int_equal(samples.count, part == DATASET_TRAIN ? 60000 : 10000);
        int64_t of_class[10] = {0};
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < samples.count; i++) {
            float image[28 * 28];
            int32_t label;
            assert_ok(dataset->class->read(dataset, i, image, &label, &test_error));
            if (i == 0) assert_int_equal(label, 9); /* both parts begin with an ankle boot */
            of_class[label]++;
            for (int p = 0; p < 28 * 28; p++) {
                const double value = (double)image[p] * 0.3081 + 0.1307;
                sum += value;
                squares += value * value;
            }
        }
        for (int k = 0; k < 10; k++) assert_int_equal(of_class[k], samples.count / 10);
        const double mean = sum / (double)samples.count / 784, square = squares / (double)samples.count / 784;
        assert_within((float)mean, 0.286f, 0.002f); /* the published mean and deviation */
        assert_within((float)sqrt(square - mean * mean), 0.353f, 0.002f);
        samples_close(&samples);
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, test_directory_set_up, test_directory_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(all_names_are_found),
        TEST(directories_may_have_any_name),
        TEST(missing_places_are_named),
        TEST(damage_is_told),
        TEST(overflowing_sizes_are_too_large),
        TEST(unequal_counts_are_told),
        TEST(damaged_gzip_is_told),
        TEST(random_damage_does_no_harm),
        TEST(the_network_must_fit),
        cmocka_unit_test(fashion_mnist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
