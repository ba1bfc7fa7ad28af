/*
 * Image folders: JPEG and PNG decoded, scaled, cut and mirrored; classes and parts found; the same pixels whoever reads them.
 */
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "data/loader.h"
#include "data/picture.h"
#include "image_support.h"
#include "within.h"

static void assert_pixels(const float *image, int side, int channels, float (*wanted)(int y, int x, int c), double tolerance) {
    for (int y = 0; y < side; y++) {
        for (int x = 0; x < side; x++) {
            for (int c = 0; c < channels; c++) {
                double got = 255 * (double)image[(y * side + x) * channels + c], want = (double)wanted(y, x, c);
                if (!(fabs(got - want) <= tolerance)) fail_msg("pixel %d, %d, channel %d is %g, not %g", y, x, c, got, want);
            }
        }
    }
}

static float plain(int y, int x, int c) { return (float)(c == 0 ? 8 * x : c == 1 ? 8 * y : 10); }
static float plain_20(int y, int x, int c) { return c < 2 ? plain(y, x, c) : 20; }
static float grey(int y, int x, int c) {
    (void)c;
    return (float)(4 * (x + y));
}
/* The middle of the picture twice as wide. */
static float middle(int y, int x, int c) { return c == 0 ? (float)(8 * (x + SIDE / 2)) : c == 1 ? (float)(8 * y) : 40; }

static void test_decoding(void **state) {
    (void)state;
    float image[SIDE * SIDE * 3];
    struct samples samples = open_set("images:%s/set,normalise=none", DATASET_TRAIN, SIDE, 3);
    assert_int_equal(samples.count, 6);
    assert_int_equal(read_one(&samples, 0, image), 0);
    assert_pixels(image, SIDE, 3, plain, 1e-3);
    assert_int_equal(read_one(&samples, 1, image), 0);
    assert_pixels(image, SIDE, 3, plain_20, 12); /* JPEG halves the colours' resolution */
    assert_int_equal(read_one(&samples, 2, image), 0);
    assert_pixels(image, SIDE, 3, grey, 1e-3);
    assert_int_equal(read_one(&samples, 3, image), 1);
    assert_pixels(image, SIDE, 3, grey, 2);
    assert_int_equal(read_one(&samples, 5, image), 1);
    assert_pixels(image, SIDE, 3, middle, 1e-3);
    samples_close(&samples);
    samples = open_set("images:%s/set,normalise=none", DATASET_TRAIN, SIDE, 1);
    assert_int_equal(read_one(&samples, 2, image), 0);
    assert_pixels(image, SIDE, 1, grey, 1e-3);
    samples_close(&samples);
    samples = open_set("images:%s/set", DATASET_TEST, SIDE, 3);
    assert_int_equal(samples.count, 2);
    assert_int_equal(read_one(&samples, 1, image), 1);
    assert_within(image[2], (60.0 / 255 - 0.406) / 0.225, 1e-5);
    samples_close(&samples);
    samples = open_set("images:%s/flat#test", DATASET_TRAIN, SIDE, 3);
    assert_int_equal(samples.count, 2);
    samples_close(&samples);
}

/* Of red, green and blue the figures of ITU-R BT.601, from PNG and JPEG alike. */
static void test_grey(void **state) {
    (void)state;
    make_folder("hue/a");
    make_folder("hue/b");
    write_png("hue/a/1.png", SIDE, SIDE, 3, 100);
    write_jpeg("hue/b/1.jpg", SIDE, SIDE, 3, 100);
    struct samples samples = open_set("images:%s/hue,normalise=none", DATASET_TRAIN, SIDE, 1);
    for (int64_t i = 0; i < 2; i++) {
        float image[SIDE * SIDE];
        assert_int_equal(read_one(&samples, i, image), i);
        for (int y = 0; y < SIDE; y++) {
            for (int x = 0; x < SIDE; x++) {
                double wanted = 0.299 * 8 * x + 0.587 * 8 * y + 0.114 * 100;
                assert_within(255 * (double)image[y * SIDE + x], wanted, i == 0 ? 0.51 : 3);
            }
        }
    }
    samples_close(&samples);
}

/* A ramp stays a ramp, away from the edges. */
static void test_scaling(void **state) {
    (void)state;
    struct picture picture;
    float image[64 * 64 * 3];
    assert_ok(picture_read(join("set/train/ant/1.png"), 3, &picture, &test_error));
    const struct picture_window all = {0, 0, SIDE, SIDE};
    for (int side = 4; side <= 64; side *= 2) {
        assert_ok(picture_scale(&picture, &all, side, false, image, &test_error));
        const double scale = (double)SIDE / side, edge = fmax(scale, 1);
        for (int x = 0; x < side; x++) {
            const double centre = (x + 0.5) * scale;
            assert_within(image[3 * x + 2], 10, 1e-4);
            if (centre >= edge && centre <= SIDE - edge) assert_within(image[3 * x], 8 * (centre - 0.5), 1e-3);
        }
    }
    float mirrored[SIDE * SIDE * 3];
    assert_ok(picture_scale(&picture, &all, SIDE, false, image, &test_error));
    assert_ok(picture_scale(&picture, &all, SIDE, true, mirrored, &test_error));
    for (int x = 0; x < SIDE; x++) assert_true(image[3 * x] == mirrored[3 * (SIDE - 1 - x)]);
    const struct picture_window outside = {-4, 2, SIDE, SIDE};
    assert_ok(picture_scale(&picture, &outside, SIDE, false, image, &test_error));
    assert_within(image[2], 0, 0);
    assert_within(image[4 * SIDE * 3 + 2], 10, 1e-4);
    assert_within(image[4 * SIDE * 3], 16, 1e-4);
    assert_within(image[(4 * SIDE + 14) * 3 + 2], 0, 0);
    picture_free(&picture);
}

/* Evaluation sees what torchvision's Resize and CenterCrop see: the longer side is rounded down, and of a middle between two
 * pixels the even one is taken. Red tells where an image was cut (PIL and torchvision gave the figures), green of one on its
 * side. */
static void test_middle(void **state) {
    (void)state;
    static const struct {
        int width;
        const char *spec;
        double red; /* of the left pixel, in eighths */
    } cases[] = {
        {17, "images:%s/wide,normalise=none", 0},
        {19, "images:%s/wide,normalise=none", 2},
        {21, "images:%s/wide,normalise=none", 2},
        {23, "images:%s/wide,normalise=none", 4},
        {27, "images:%s/wide,normalise=none,resize=20", 6.45}, /* 27 x 20 / 16 = 33 pixels, from the eighth of which on */
    };
    make_folder("wide/a");
    make_folder("wide/b");
    write_png("wide/b/1.png", SIDE, SIDE, 3, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int tall = 0; tall < 2; tall++) {
            float image[SIDE * SIDE * 3];
            write_png("wide/a/1.png", tall ? SIDE : cases[i].width, tall ? cases[i].width : SIDE, 3, 1);
            struct samples samples = open_set(cases[i].spec, DATASET_TEST, SIDE, 3);
            assert_int_equal(read_one(&samples, 0, image), 0);
            assert_within(255 * (double)image[tall] / 8, cases[i].red, 0.1);
            samples_close(&samples);
        }
    }
}

/* What three epochs of training read, by loaders of some threads. */
static void read_epochs(const struct samples *samples, int threads, bool serial, uint64_t seed, float *images) {
    struct loader_options options = {
        .samples = samples, .batch = 2, .inputs = true, .shuffle = true, .seed = seed, .ahead = 3, .threads = threads};
    options.serial = serial;
    struct loader *loader;
    const size_t floats = 2 * SIDE * SIDE * 3;
    assert_ok(loader_create(&options, &loader, &test_error));
    for (int64_t number = 0; number < 9; number++) {
        struct loaded_batch batch;
        assert_ok(loader_get(loader, number, &batch, &test_error));
        memcpy(images + (size_t)number * floats, batch.inputs, floats * sizeof *images);
        loader_release(loader, number);
    }
    loader_destroy(loader);
}

static void test_augmentation(void **state) {
    (void)state;
    enum { FLOATS = 9 * 2 * SIDE * SIDE * 3 };
    static float one[FLOATS], several[FLOATS], serial[FLOATS], other[FLOATS];
    static const char *const specs[] = {"images:%s/set,resize=20,flip=1", "images:%s/set,pad=4,flip=1",
                                        "images:%s/set,crop=scale"};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        struct samples samples = open_set(specs[i], DATASET_TRAIN, SIDE, 3);
        read_epochs(&samples, 1, false, 5, one);
        read_epochs(&samples, 5, false, 5, several);
        read_epochs(&samples, 0, true, 5, serial);
        read_epochs(&samples, 5, false, 6, other);
        assert_memory_equal(one, several, sizeof one);
        assert_memory_equal(one, serial, sizeof one);
        assert_true(memcmp(one, other, sizeof one) != 0);
        samples_close(&samples);
    }
}

/* Padding and mirroring, seen at red and green, which are a pixel's place: every place comes up, and both sides. */
static void test_padding(void **state) {
    (void)state;
    struct samples samples = open_set("images:%s/set,pad=2,flip=1,normalise=none", DATASET_TRAIN, SIDE, 3);
    bool seen[5][5][2] = {{{false}}};
    float image[SIDE * SIDE * 3];
    int32_t label;
    for (uint64_t epoch = 0; epoch < 1000; epoch++) {
        struct random_key key = random_key(1, RANDOM_AUGMENT, epoch, 0);
        assert_ok(samples.dataset->class->read_augmented(samples.dataset, 0, key, image, &label, &test_error));
        const float *centre = &image[(8 * SIDE + 8) * 3], *beside = centre + 3;
        const bool flipped = beside[0] < centre[0];
        const long row = lround((double)centre[1] * 255 / 8), column = lround((double)centre[0] * 255 / 8);
        const long top = row - 8, left = flipped ? column - (SIDE - 1 - 8) : column - 8;
        assert_true(top >= -2 && top <= 2 && left >= -2 && left <= 2);
        seen[top + 2][left + 2][flipped] = true;
    }
    for (int i = 0; i < 50; i++) assert_true(seen[i / 10][i / 2 % 5][i % 2]);
    samples_close(&samples);
}

/* Of a picture so narrow that no part of its shape fits, all is seen, as without a choice. */
static void test_narrow(void **state) {
    (void)state;
    float image[SIDE * SIDE * 3], whole[SIDE * SIDE * 3];
    int32_t label;
    make_folder("narrow/a");
    make_folder("narrow/b");
    write_png("narrow/a/1.png", 1, 60, 3, 1);
    write_png("narrow/b/1.png", SIDE, SIDE, 3, 1);
    struct samples samples = open_set("images:%s/narrow,crop=scale,flip=0", DATASET_TRAIN, SIDE, 3);
    const struct random_key key = random_key(1, RANDOM_AUGMENT, 0, 0);
    assert_ok(samples.dataset->class->read_augmented(samples.dataset, 0, key, image, &label, &test_error));
    assert_ok(samples.dataset->class->read(samples.dataset, 0, whole, &label, &test_error));
    assert_memory_equal(image, whole, sizeof image);
    assert_ok(samples.dataset->class->read_augmented(samples.dataset, 1, key, image, &label, &test_error));
    assert_ok(samples.dataset->class->read(samples.dataset, 1, whole, &label, &test_error));
    assert_memory_not_equal(image, whole, sizeof image);
    samples_close(&samples);
}

static uint64_t checksum_of(const char *spec) {
    struct samples samples = open_set(spec, DATASET_TRAIN, SIDE, 3);
    uint64_t checksum = 0;
    assert_ok(samples_checksum(&samples, &checksum, &test_error));
    assert_true(checksum != 0);
    samples_close(&samples);
    return checksum;
}

/* Of folders only names, labels, sizes and times of files say whether they have changed. */
static void test_changed(void **state) {
    (void)state;
    static const char spec[] = "images:%s/changing,normalise=none";
    const struct timespec times[2] = {{1000000000, 7}, {1000000000, 7}}, second[2] = {{1000000001, 7}, {1000000001, 7}},
                          nanosecond[2] = {{1000000000, 8}, {1000000000, 8}};
    assert_ok(file_make_directory(join("changing"), &test_error));
    assert_ok(file_make_directory(join("changing/a"), &test_error));
    assert_ok(file_make_directory(join("changing/b"), &test_error));
    write_png("changing/a/1.png", SIDE, SIDE, 3, 10);
    write_png("changing/b/2.png", SIDE, SIDE, 3, 20);
    assert_int_equal(utimensat(AT_FDCWD, join("changing/a/1.png"), times, 0), 0);
    assert_int_equal(utimensat(AT_FDCWD, join("changing/b/2.png"), times, 0), 0);
    const uint64_t before = checksum_of(spec);
    assert_true(checksum_of(spec) == before);
    assert_int_equal(utimensat(AT_FDCWD, join("changing/a/1.png"), second, 0), 0);
    assert_true(checksum_of(spec) != before);
    assert_int_equal(utimensat(AT_FDCWD, join("changing/a/1.png"), nanosecond, 0), 0);
    assert_true(checksum_of(spec) != before);
    assert_int_equal(utimensat(AT_FDCWD, join("changing/a/1.png"), times, 0), 0);
    assert_true(checksum_of(spec) == before);
    assert_int_equal(rename(join("changing/b/2.png"), join("changing/b/3.png")), 0);
    assert_true(checksum_of(spec) != before);
    assert_int_equal(rename(join("changing/b/3.png"), join("changing/b/2.png")), 0);
    assert_true(checksum_of(spec) == before);
    /* Another size at the same time. */
    FILE *file = fopen(join("changing/b/2.png"), "ab");
    assert_non_null(file);
    assert_int_equal(fputc(0, file), 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(utimensat(AT_FDCWD, join("changing/b/2.png"), times, 0), 0);
    assert_true(checksum_of(spec) != before);
}

static void assert_refused_for(int channels, const char *spec, enum ps_status status, const char *part) {
    const struct dataset_shape wanted = {.channels = channels, .height = SIDE, .width = SIDE, .classes = 2};
    char text[8192];
    struct samples samples = {0};
    snprintf(text, sizeof text, spec, test_directory);
    assert_status(samples_open(text, DATASET_TRAIN, &wanted, &samples, &test_error), status, part);
}

static void assert_refused(const char *spec, enum ps_status status, const char *part) {
    assert_refused_for(3, spec, status, part);
}

static void test_wrong_specs(void **state) {
    (void)state;
    make_folder("none/train/a");
    make_folder("none/train/b");
    make_folder("odd/train/a");
    make_folder("odd/train/b");
    make_folder("odd/val/c");
    write_png("odd/train/a/1.png", SIDE, SIDE, 3, 1);
    write_png("odd/train/b/1.png", SIDE, SIDE, 3, 1);
    write_png("odd/val/c/1.png", SIDE, SIDE, 3, 1);
    assert_refused("images:%s/nowhere", PS_BAD_INPUT, "nowhere: no such directory");
    assert_refused("images:%s/none", PS_BAD_INPUT, "train/a: has no images");
    assert_refused("images:%s/odd#test", PS_BAD_INPUT, "val/c: the training set has no class");
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "three/%d", i);
        make_folder(name);
        strcat(name, "/1.png");
        write_png(name, SIDE, SIDE, 3, 1);
    }
    assert_ok(file_write(join("three/readme.txt"), "x", 1, &test_error)); /* is no class */
    assert_refused("images:%s/three", PS_USAGE, "has 3 classes");
    assert_refused("images:%s/three/0", PS_BAD_INPUT, "three/0: has no folders; each class must have one");
    make_folder("late/val/a");
    assert_refused("images:%s/late", PS_BAD_INPUT, "late: there is no folder 'train'");
    assert_refused_for(2, "images:%s/set", PS_USAGE, "images have 1 or 3 channels, and the network takes 2");
    make_folder("single/1");
    write_png("single/1/1.png", SIDE, SIDE, 3, 1);
    assert_refused("images:%s/single", PS_USAGE, "has only one class");
    assert_refused("images:%s/set,filp=1", PS_USAGE, "did you mean 'flip'?\nknown: resize, crop, pad, flip, normalise");
    assert_refused("images:%s/set,flip=2", PS_USAGE, "flip=2");
    assert_refused("images:%s/set,resize=8", PS_USAGE, "resize=8");
    assert_refused("images:%s/set,crop=center", PS_USAGE, "images: crop: 'center' is not known; did you mean 'centre'");
    assert_refused("images:%s/set,pad=2,crop=scale", PS_USAGE, "images: pad=2");
    assert_refused("images:%s/set,normalise=imagnet", PS_USAGE,
                   "images: normalise: 'imagnet' is not known; did you mean 'imagenet'");
}

static void test_tiny_imagenet(void **state) {
    (void)state;
    char path[4096], spec[4200];
    snprintf(spec, sizeof spec, "images:%s", test_data("tiny_imagenet", path));
    const struct dataset_shape wanted = {.channels = 3, .height = 64, .width = 64, .classes = 20};
    static float image[64 * 64 * 3];
    for (int part = 0; part < 2; part++) {
        struct samples samples;
        assert_ok(samples_open(spec, (enum dataset_part)part, &wanted, &samples, &test_error));
        assert_int_equal(samples.count, part == DATASET_TRAIN ? 2000 : 400);
        int64_t last = -1;
        double sum = 0;
        for (int64_t i = 0; i < samples.count; i++) {
            const int32_t label = read_one(&samples, i, image);
            assert_true(label >= last);
            last = label;
            for (int p = 0; p < 64 * 64 * 3; p += 97) sum += (double)image[p];
        }
        assert_int_equal(last, 19);
        assert_true(fabs(sum / (double)samples.count / 127) < 0.3); /* ImageNet's constants centre it */
        samples_close(&samples);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decoding), cmocka_unit_test(test_grey),         cmocka_unit_test(test_scaling),
        cmocka_unit_test(test_middle),   cmocka_unit_test(test_augmentation), cmocka_unit_test(test_padding),
        cmocka_unit_test(test_narrow),   cmocka_unit_test(test_wrong_specs),  cmocka_unit_test(test_tiny_imagenet),
        cmocka_unit_test(test_changed),
    };
    return cmocka_run_group_tests(tests, make_files, test_directory_tear_down);
}
