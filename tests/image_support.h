/* Image files whose every pixel is known, in the folders of a small dataset. */
#ifndef PENSTOCK_TESTS_IMAGE_SUPPORT_H
#define PENSTOCK_TESTS_IMAGE_SUPPORT_H

#include <stdio.h>

#include <jpeglib.h>
#include <png.h>

#include "base/file.h"
#include "data/dataset.h"
#include "support.h"

enum { SIDE = 16 };

static const char *join(const char *name) {
    static char path[4][4096];
    static int turn;
    return file_join(path[turn = (turn + 1) % 4], test_directory, name);
}

/* Red grows to the right, green downwards, blue is `blue`. */
static inline void paint(uint8_t *pixels, int width, int height, int channels, int blue) {
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++, pixels += channels) {
            const uint8_t colour[] = {(uint8_t)(8 * x), (uint8_t)(8 * y), (uint8_t)blue};
            for (int c = 0; c < channels; c++) pixels[c] = channels == 1 ? (uint8_t)(4 * (x + y)) : colour[c];
        }
    }
}

static inline void write_png(const char *name, int width, int height, int channels, int blue) {
    static uint8_t pixels[64 * 64 * 3];
    paint(pixels, width, height, channels, blue);
    png_image image = {.version = PNG_IMAGE_VERSION, .width = (png_uint_32)width, .height = (png_uint_32)height};
    image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
    assert_true(png_image_write_to_file(&image, join(name), 0, pixels, 0, NULL));
}

static inline void write_jpeg(const char *name, int width, int height, int channels, int blue) {
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

static inline void make_folder(const char *name) { assert_ok(file_make_directory(join(name), &test_error)); }

/* Two classes, three training images each (one grey, one in a folder of its own), one for testing. */
static inline int make_files(void **state) {
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

static inline struct samples open_set(const char *spec, enum dataset_part part, int side, int channels) {
    const struct dataset_shape wanted = {.channels = channels, .height = side, .width = side, .classes = 2};
    char text[8192];
    struct samples samples = {0};
    snprintf(text, sizeof text, spec, test_directory);
    assert_ok(samples_open(text, part, &wanted, &samples, &test_error));
    return samples;
}

static inline int32_t read_one(const struct samples *samples, int64_t index, float *image) {
    int32_t label = -1, alone = -2;
    const struct dataset *dataset = samples->dataset;
    assert_ok(dataset->class->read(dataset, index, image, &label, &test_error));
    assert_ok(dataset->class->target(dataset, index, &alone, &test_error));
    assert_int_equal(label, alone);
    return label;
}

#endif
