/* Image files that are unlike others: transparent, sixteen bits a colour, said to be seen otherwise, damaged, cut short. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "data/loader.h"
#include "data/picture.h"
#include "image_support.h"
#include "within.h"

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
            assert_within(picture.pixels[channels * i], bright * i / 255, 1.1);
            for (int c = 0; c < channels && channels == 3; c++) /* to the nearest whole number */
                assert_int_equal(picture.pixels[channels * i + c], lround((200 >> c) * i / 255.0));
        }
        picture_free(&picture);
    }
}

/* Printers' colours, which JPEG files store inverted: what is left of white by the ink of each, and by black. */
static void test_four_inks(void **state) {
    (void)state;
    static const uint8_t inks[] = {200, 100, 50, 128};
    uint8_t row[SIDE * 4];
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    FILE *file = fopen(join("inks.jpg"), "wb");
    assert_non_null(file);
    for (int i = 0; i < SIDE * 4; i++) row[i] = inks[i % 4];
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_stdio_dest(&jpeg, file);
    jpeg.image_width = jpeg.image_height = SIDE;
    jpeg.input_components = 4;
    jpeg.in_color_space = JCS_CMYK;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 100, TRUE);
    jpeg_start_compress(&jpeg, TRUE);
    for (int y = 0; y < SIDE; y++) jpeg_write_scanlines(&jpeg, (JSAMPROW[]){row}, 1);
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    assert_int_equal(fclose(file), 0);
    for (int channels = 1; channels <= 3; channels += 2) {
        struct picture picture;
        assert_ok(picture_read(join("inks.jpg"), channels, &picture, &test_error));
        for (int i = 0; i < SIDE * SIDE * channels; i++) {
            const double bright = channels == 3 ? inks[i % 3] : 0.299 * 200 + 0.587 * 100 + 0.114 * 50;
            assert_within(picture.pixels[i], bright * 128 / 255, 2.1);
        }
        picture_free(&picture);
    }
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

static void write_number(FILE *to, uint32_t number) {
    for (int shift = 24; shift >= 0; shift -= 8) fputc((int)(number >> shift & 255), to);
}

/* A chunk of a PNG file: its name first, then its data. */
static void write_chunk(FILE *to, const unsigned char *chunk, size_t size) {
    write_number(to, (uint32_t)size - 4);
    fwrite(chunk, 1, size, to);
    write_number(to, (uint32_t)crc32(0, chunk, (uInt)size));
}

/* A file whose numbers are in proportion to the light (gAMA 1) is read as it stands, as PIL reads it. */
static void test_gamma(void **state) {
    (void)state;
    static char file[1 << 16];
    static const unsigned char gamma[] = {'g', 'A', 'M', 'A', 0, 1, 0x86, 0xa0};
    static const unsigned char text[1 << 17] = {'t', 'E', 'X', 't', 'k', 'e', 'y', 0}; /* a chunk may be longer than 64 KiB */
    enum { BEFORE = 8 + 25 }; /* bytes: the mark and the header, behind which the chunks go */
    write_png("plain.png", SIDE, SIDE, 3, 60);
    FILE *from = fopen(join("plain.png"), "rb"), *to = fopen(join("linear.png"), "wb");
    assert_true(from && to);
    size_t size = fread(file, 1, sizeof file, from), rest = BEFORE;
    while (memcmp(file + rest + 4, "IDAT", 4) != 0) rest += 12 + (size_t)file[rest + 3]; /* sRGB, which counts before gAMA */
    fwrite(file, 1, BEFORE, to);
    write_chunk(to, text, sizeof text);
    write_chunk(to, gamma, sizeof gamma);
    fwrite(file + rest, 1, size - rest, to);
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

/* A small file that says it has many pixels takes no memory for them. */
static void test_too_many_pixels(void **state) {
    (void)state;
    static const struct {
        uint32_t width, height;
        const char *message;
    } cases[] = {{20000, 20000, "vast.png: 20000x20000 pixels: up to 134217728 in all are accepted"},
                 {65537, 1, "vast.png: 65537x1 pixels: from 1 to 65536 a side are accepted"},
                 {1, 65537, "vast.png: 1x65537 pixels: from 1 to 65536 a side are accepted"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *data;
        size_t size;
        write_png("vast.png", 16, 16, 3, 99);
        assert_ok(file_read(join("vast.png"), 1 << 20, &data, &size, &test_error));
        for (int b = 0; b < 4; b++) { /* width and height of IHDR, and its checksum behind them */
            data[16 + b] = (char)(cases[i].width >> (24 - 8 * b));
            data[20 + b] = (char)(cases[i].height >> (24 - 8 * b));
        }
        const uint32_t sum = file_checksum(&(struct file_piece){data + 12, 17}, 1);
        for (int b = 0; b < 4; b++) data[29 + b] = (char)(sum >> (24 - 8 * b));
        test_file_write(join("vast.png"), data, size);
        free(data);
        assert_unreadable("vast.png", cases[i].message);
    }
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
            .samples = &samples, .batch = 20, .inputs = true, .targets = true, .ahead = 2, .threads = 4};
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_transparent),
        cmocka_unit_test(test_four_inks),
        cmocka_unit_test(test_deep_png),
        cmocka_unit_test(test_gamma),
        cmocka_unit_test(test_damaged_files),
        cmocka_unit_test(test_too_many_pixels),
        cmocka_unit_test(test_damage_while_training),
    };
    return cmocka_run_group_tests(tests, make_files, test_directory_tear_down);
}
