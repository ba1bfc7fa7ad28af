/*
 * Image folders: JPEG and PNG decoded, scaled, cut and mirrored; classes and parts found; the same pixels whoever reads them;
 * damaged files named. Files are written here, so every pixel is known.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jpeglib.h>
#include <png.h>
#include <zlib.h>

#include "base/file.h"
#include "data/loader.h"
#include "data/picture.h"
#include "support.h"

enum { SIDE = 16 };

static const char *join(const char *name) {
    static char path[4][4096];
    static int turn;
    return file_join(path[turn = (turn + 1) % 4], test_directory, name);
}

/* Red grows to the right, green downwards, blue is `blue`. */
static void paint(uint8_t *pixels, int width, int height, int channels, int blue) {
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++, pixels += channels) {
            const uint8_t colour[] = {(uint8_t)(8 * x), (uint8_t)(8 * y), (uint8_t)blue};
            for (int c = 0; c < channels; c++) pixels[c] = channels == 1 ? (uint8_t)(4 * (x + y)) : colour[c];
        }
    }
}

static void write_png(const char *name, int width, int height, int channels, int blue) {
    static uint8_t pixels[64 * 64 * 3];
    paint(pixels, width, height, channels, blue);
    png_image image = {.version = PNG_IMAGE_VERSION, .width = (png_uint_32)width, .height = (png_uint_32)height};
    image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
    assert_true(png_image_write_to_file(&image, join(name), 0, pixels, 0, NULL));
}

static void write_jpeg(const char *name, int width, int height, int channels, int blue) {
    static uint8_t pixels[64 * 64 * 3];
    paint(pixels, width, height, channels, blue);
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    FILE *file = fopen(join(name), "wb");
    assert_non_null(file);
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_stdio_dest(&jpeg, file);
    jpeg.image_width = (JDIMENSION)width;
    jpeg.image_height = (JDIMENSION)height;
    jpeg.input_components = channels;
    jpeg.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 100, TRUE);
    jpeg_start_compress(&jpeg, TRUE);
    for (int y = 0; y < height; y++) {
        JSAMPROW row = pixels + y * width * channels;
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    assert_int_equal(fclose(file), 0);
}

static void make_folder(const char *name) { assert_ok(file_make_directory(join(name), &test_error)); }

/* Two classes, three training images each (one grey, one in a folder of its own), one for testing. */
static int make_files(void **state) {
    test_directory_set_up(state);
    const char *const folders[] = {"set/train/cat", "set/train/ant/more", "set/val/cat", "set/val/ant", "flat/a", "flat/b"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) make_folder(folders[i]);
    write_png("set/train/ant/1.png", SIDE, SIDE, 3, 10);
    write_jpeg("set/train/ant/2.JPEG", SIDE, SIDE, 3, 20);
    write_png("set/train/ant/more/3.PNG", SIDE, SIDE, 1, 0);
    write_jpeg("set/train/cat/1.jpg", SIDE, SIDE, 1, 0);
    write_png("set/train/cat/2.png", SIDE, SIDE, 3, 30);
    write_png("set/train/cat/3.png", 2 * SIDE, SIDE, 3, 40);
    write_png("set/val/ant/1.png", SIDE, SIDE, 3, 50);
    write_png("set/val/cat/1.png", SIDE, SIDE, 3, 60);
    write_png("flat/a/1.png", SIDE, SIDE, 3, 1);
    write_png("flat/b/1.png", SIDE, SIDE, 3, 2);
    assert_ok(file_write(join("set/train/cat/readme.txt"), "x", 1, &test_error));
    return 0;
}

static struct samples open_set(const char *spec, enum dataset_part part, int side, int channels) {
    const struct dataset_shape wanted = {.channels = channels, .height = side, .width = side, .classes = 2};
    char text[8192];
    struct samples samples = {0};
    snprintf(text, sizeof text, spec, test_directory);
    assert_ok(samples_open(text, part, &wanted, &samples, &test_error));
    return samples;
}

static int32_t read_one(const struct samples *samples, int64_t index, float *image) {
    int32_t label = -1, alone = -2;
    const struct dataset *dataset = samples->dataset;
    assert_ok(dataset->class->read(dataset, index, image, &label, &test_error));
    assert_ok(dataset->class->label(dataset, index, &alone, &test_error));
    assert_int_equal(label, alone);
    return label;
}

static void assert_pixels(const float *image, int side, int channels, float (*wanted)(int y, int x, int c), double tolerance) {
    for (int y = 0; y < side; y++) {
        for (int x = 0; x < side; x++) {
            for (int c = 0; c < channels; c++) {
                double got = 255 * (double)image[(y * side + x) * channels + c], want = (double)wanted(y, x, c);
                if (fabs(got - want) > tolerance) fail_msg("pixel %d, %d, channel %d is %g, not %g", y, x, c, got, want);
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
    assert_float_equal(image[2], (60.0 / 255 - 0.406) / 0.225, 1e-5);
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
                assert_float_equal(255 * (double)image[y * SIDE + x], wanted, i == 0 ? 0.51 : 3);
            }
        }
    }
    samples_close(&samples);
}

/* A pixel that is half transparent is half as bright over black, in colour and in grey. */
static void test_transparent(void **state) {
    (void)state;
    static uint8_t pixels[SIDE * SIDE * 4];
    for (int i = 0; i < SIDE * SIDE; i++) {
        const uint8_t colour[] = {200, 100, 50, (uint8_t)i};
        memcpy(&pixels[4 * i], colour, sizeof colour);
    }
    png_image image = {.version = PNG_IMAGE_VERSION, .width = SIDE, .height = SIDE, .format = PNG_FORMAT_RGBA};
    assert_true(png_image_write_to_file(&image, join("clear.png"), 0, pixels, 0, NULL));
    for (int channels = 1; channels <= 3; channels += 2) {
        struct picture picture;
        assert_ok(picture_read(join("clear.png"), channels, &picture, &test_error));
        assert_int_equal(picture.channels, channels);
        for (int i = 0; i < SIDE * SIDE; i++) {
            const double bright = channels == 3 ? 200 : 0.299 * 200 + 0.587 * 100 + 0.114 * 50;
            assert_float_equal(picture.pixels[channels * i], bright * i / 255, 1.1);
        }
        picture_free(&picture);
    }
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
            assert_float_equal(image[3 * x + 2], 10, 1e-4);
            if (centre >= edge && centre <= SIDE - edge) assert_float_equal(image[3 * x], 8 * (centre - 0.5), 1e-3);
        }
    }
    float mirrored[SIDE * SIDE * 3];
    assert_ok(picture_scale(&picture, &all, SIDE, false, image, &test_error));
    assert_ok(picture_scale(&picture, &all, SIDE, true, mirrored, &test_error));
    for (int x = 0; x < SIDE; x++) assert_true(image[3 * x] == mirrored[3 * (SIDE - 1 - x)]);
    const struct picture_window outside = {-4, 2, SIDE, SIDE};
    assert_ok(picture_scale(&picture, &outside, SIDE, false, image, &test_error));
    assert_float_equal(image[2], 0, 0);
    assert_float_equal(image[4 * SIDE * 3 + 2], 10, 1e-4);
    assert_float_equal(image[4 * SIDE * 3], 16, 1e-4);
    assert_float_equal(image[(4 * SIDE + 14) * 3 + 2], 0, 0);
    picture_free(&picture);
}

/* Evaluation sees what torchvision's Resize and CenterCrop see: the longer side is rounded down, and of a middle between two
 * pixels the even one is taken. Red tells where an image was cut (PIL and torchvision gave the figures). */
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
        float image[SIDE * SIDE * 3];
        write_png("wide/a/1.png", cases[i].width, SIDE, 3, 1);
        struct samples samples = open_set(cases[i].spec, DATASET_TEST, SIDE, 3);
        assert_int_equal(read_one(&samples, 0, image), 0);
        assert_float_equal(255 * (double)image[0] / 8, cases[i].red, 0.1);
        samples_close(&samples);
    }
}

/* What three epochs of training read, by loaders of some threads. */
static void read_epochs(const struct samples *samples, int threads, bool serial, uint64_t seed, float *images) {
    struct loader_options options = {
        .samples = samples, .batch = 2, .images = true, .shuffle = true, .seed = seed, .ahead = 3, .threads = threads};
    options.serial = serial;
    struct loader *loader;
    const size_t floats = 2 * SIDE * SIDE * 3;
    assert_ok(loader_create(&options, &loader, &test_error));
    for (int64_t number = 0; number < 9; number++) {
        struct loaded_batch batch;
        assert_ok(loader_get(loader, number, &batch, &test_error));
        memcpy(images + (size_t)number * floats, batch.images, floats * sizeof *images);
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

static void assert_refused(const char *spec, enum ps_status status, const char *part) {
    const struct dataset_shape wanted = {.channels = 3, .height = SIDE, .width = SIDE, .classes = 2};
    char text[8192];
    struct samples samples = {0};
    snprintf(text, sizeof text, spec, test_directory);
    assert_status(samples_open(text, DATASET_TRAIN, &wanted, &samples, &test_error), status, part);
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
    assert_refused("images:%s/odd#test", PS_BAD_INPUT, "val/c: the training part has no class");
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "three/%d", i);
        make_folder(name);
        strcat(name, "/1.png");
        write_png(name, SIDE, SIDE, 3, 1);
    }
    assert_refused("images:%s/three", PS_USAGE, "has 3 classes");
    make_folder("single/1");
    write_png("single/1/1.png", SIDE, SIDE, 3, 1);
    assert_refused("images:%s/single", PS_USAGE, "has one class only");
    assert_refused("images:%s/set,filp=1", PS_USAGE, "did you mean 'flip'");
    assert_refused("images:%s/set,flip=2", PS_USAGE, "flip=2");
    assert_refused("images:%s/set,resize=8", PS_USAGE, "resize=8");
    assert_refused("images:%s/set,crop=center", PS_USAGE, "did you mean 'centre'");
    assert_refused("images:%s/set,normalise=imagnet", PS_USAGE, "did you mean 'imagenet'");
}

static void assert_unreadable(const char *name, const char *message) {
    struct picture picture = {0};
    assert_status(picture_read(join(name), 3, &picture, &test_error), PS_BAD_INPUT, message);
    assert_null(picture.pixels);
}

/* Cuts a copy of a file to `share` of its size. */
static void cut(const char *from, const char *to, double share) {
    char *data;
    size_t size;
    assert_ok(file_read(join(from), 1 << 20, &data, &size, &test_error));
    assert_ok(file_write(join(to), data, (size_t)((double)size * share), &test_error));
    free(data);
}

/* Sixteen bits a colour, red growing to the right, with nothing said of the light. */
static void write_deep_png(const char *name, int side) {
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    FILE *file = fopen(join(name), "wb");
    assert_non_null(file);
    png_init_io(png, file);
    png_set_IHDR(png, info, (png_uint_32)side, (png_uint_32)side, 16, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (int y = 0; y < side; y++) {
        uint8_t row[SIDE * 6] = {0};
        for (int x = 0; x < side; x++) row[6 * x] = row[6 * x + 1] = (uint8_t)(8 * x);
        png_write_row(png, row);
    }
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
    assert_int_equal(fclose(file), 0);
}

static void test_deep_png(void **state) {
    (void)state;
    struct picture picture;
    write_deep_png("deep.png", SIDE);
    assert_ok(picture_read(join("deep.png"), 3, &picture, &test_error));
    for (int x = 0; x < SIDE; x++) assert_in_range(picture.pixels[3 * x], 8 * x > 0 ? 8 * x - 1 : 0, 8 * x + 1);
    picture_free(&picture);
}

/* A file in the middle of which stand ones for 160 bits, which is no code of a JPEG, and no sum of a PNG. */
static void spoil(const char *from, const char *to) {
    char *data;
    size_t size;
    assert_ok(file_read(join(from), 1 << 20, &data, &size, &test_error));
    for (size_t i = 0; i < 40; i++) data[size / 2 + i] = (char)(i % 2 ? 0 : 0xff); /* 255 stands for itself before a zero */
    assert_ok(file_write(join(to), data, size, &test_error));
    free(data);
}

/* A file whose numbers are in proportion to the light (gAMA 1) is read as it stands, as PIL reads it. */
static void test_gamma(void **state) {
    (void)state;
    static char file[1 << 16];
    static const unsigned char gamma[] = {'g', 'A', 'M', 'A', 0, 1, 0x86, 0xa0};
    enum { BEFORE = 8 + 25 }; /* bytes: the mark and the header, behind which the chunk goes */
    write_png("plain.png", SIDE, SIDE, 3, 60);
    FILE *from = fopen(join("plain.png"), "rb"), *to = fopen(join("linear.png"), "wb");
    assert_true(from && to);
    size_t size = fread(file, 1, sizeof file, from);
    const uint32_t sum = (uint32_t)crc32(0, gamma, sizeof gamma);
    const unsigned char length[] = {0, 0, 0, 4}, end[] = {(unsigned char)(sum >> 24), (unsigned char)(sum >> 16),
                                                          (unsigned char)(sum >> 8), (unsigned char)sum};
    fwrite(file, 1, BEFORE, to);
    fwrite(length, 1, sizeof length, to);
    fwrite(gamma, 1, sizeof gamma, to);
    fwrite(end, 1, sizeof end, to);
    fwrite(file + BEFORE, 1, size - BEFORE, to);
    fclose(from);
    fclose(to);
    struct picture plain, linear;
    assert_ok(picture_read(join("plain.png"), 3, &plain, &test_error));
    assert_ok(picture_read(join("linear.png"), 3, &linear, &test_error));
    assert_memory_equal(plain.pixels, linear.pixels, (size_t)SIDE * SIDE * 3);
    picture_free(&plain);
    picture_free(&linear);
}

static void test_damaged_files(void **state) {
    (void)state;
    cut("set/train/ant/2.JPEG", "short.jpg", 0.8);
    cut("set/train/ant/2.JPEG", "head.jpg", 0.05);
    cut("set/train/ant/1.png", "short.png", 0.8);
    assert_ok(file_write(join("text.png"), "hello, world", 12, &test_error));
    assert_ok(file_write(join("empty.jpg"), "", 0, &test_error));
    write_jpeg("large.jpg", 64, 64, 3, 99);
    spoil("large.jpg", "spoilt.jpg");
    assert_unreadable("spoilt.jpg", "spoilt.jpg: damaged JPEG");
    write_png("large.png", 64, 64, 3, 99);
    spoil("large.png", "spoilt.png");
    assert_unreadable("spoilt.png", "spoilt.png: damaged PNG");
    assert_unreadable("short.jpg", "short.jpg: damaged JPEG");
    assert_unreadable("head.jpg", "head.jpg: damaged JPEG");
    assert_unreadable("short.png", "short.png: damaged PNG");
    assert_unreadable("text.png", "text.png: neither a JPEG nor a PNG");
    assert_unreadable("empty.jpg", "but empty");
    assert_unreadable("missing.png", "missing.png");
    assert_unreadable("set", "set");
}

/* The first sample of a mini-batch that cannot be read is the one that is named, however many threads read. */
static void test_damage_while_training(void **state) {
    (void)state;
    make_folder("bad/a");
    make_folder("bad/b");
    for (int i = 0; i < 40; i++) {
        char name[64];
        snprintf(name, sizeof name, "bad/%c/%02d.png", i % 2 ? 'a' : 'b', i);
        write_png(name, SIDE, SIDE, 3, i);
    }
    cut("bad/a/21.png", "bad/a/21.png", 0.7);
    cut("bad/a/27.png", "bad/a/27.png", 0.7);
    struct samples samples = open_set("images:%s/bad", DATASET_TRAIN, SIDE, 3);
    for (int round = 0; round < 20; round++) {
        struct loader_options options = {
            .samples = &samples, .batch = 20, .images = true, .labels = true, .ahead = 2, .threads = 4};
        struct loader *loader;
        struct loaded_batch batch;
        assert_ok(loader_create(&options, &loader, &test_error));
        assert_status(loader_get(loader, 0, &batch, &test_error), PS_BAD_INPUT, "bad/a/21.png");
        assert_ok(loader_seek(loader, 1, &test_error));
        assert_ok(loader_get(loader, 1, &batch, &test_error));
        assert_int_equal(batch.samples, 20);
        loader_destroy(loader);
    }
    samples_close(&samples);
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
        cmocka_unit_test(test_decoding),      cmocka_unit_test(test_scaling),
        cmocka_unit_test(test_middle),        cmocka_unit_test(test_grey),
        cmocka_unit_test(test_transparent),   cmocka_unit_test(test_augmentation),
        cmocka_unit_test(test_padding),       cmocka_unit_test(test_wrong_specs),
        cmocka_unit_test(test_deep_png),      cmocka_unit_test(test_gamma),
        cmocka_unit_test(test_damaged_files), cmocka_unit_test(test_damage_while_training),
        cmocka_unit_test(test_tiny_imagenet),
    };
    return cmocka_run_group_tests(tests, make_files, test_directory_tear_down);
}
