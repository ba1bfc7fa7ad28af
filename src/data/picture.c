/* Decoding and scaling images; see the header. */
#include "data/picture.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>
#include <png.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/memory.h"

#define FILE_LIMIT ((size_t)1 << 30)
enum { SIDE_MAX = 1 << 16, PIXELS_MAX = 1 << 27 };

/* That memory was lacking libpng and libjpeg say by their words alone. */
static enum ps_status damaged(const char *path, const char *what, const char *why, struct ps_error *error) {
    if (strstr(why, "memory") != NULL) return error_set(error, PS_OUT_OF_MEMORY, "out of memory: %s", path);
    return error_set(error, PS_BAD_INPUT, "%s: damaged %s: %s", path, what, why);
}

static enum ps_status take_pixels(const char *path, struct picture *picture, struct ps_error *error) {
    if (picture->height < 1 || picture->width < 1 || picture->height > SIDE_MAX || picture->width > SIDE_MAX) {
        return error_set(error, PS_BAD_INPUT, "%s: %lldx%lld pixels: from 1 to %d a side are accepted", path,
                         (long long)picture->width, (long long)picture->height, SIDE_MAX);
    }
    if (picture->height * picture->width > PIXELS_MAX)
        return error_set(error, PS_BAD_INPUT, "%s: %lldx%lld pixels: up to %d in all are accepted", path,
                         (long long)picture->width, (long long)picture->height, PIXELS_MAX);
    const size_t size = (size_t)(picture->height * picture->width * picture->channels);
    return memory_new(&picture->pixels, size, path, error);
}

/* Luma as in JPEG (ITU-R BT.601), in units of 1/65536 and rounded as by libjpeg and PIL: a colour has the same grey in every
 * file format. */
static uint8_t grey_of(const uint8_t colour[3]) {
    return (uint8_t)((19595 * colour[0] + 38470 * colour[1] + 7471 * colour[2] + 32768) >> 16);
}

/* --------------------------------------------------------------------- JPEG */

/* libjpeg calls back on errors and must not continue then, so the callback jumps out. */
struct jpeg {
    struct jpeg_error_mgr errors; /* first: libjpeg's pointer to it is a pointer to this struct */
    jmp_buf failed;
    char text[JMSG_LENGTH_MAX];
    struct jpeg_decompress_struct file;
    uint8_t *row; /* of four colours */
};

static void fail_jpeg(j_common_ptr file) {
    struct jpeg *jpeg = (struct jpeg *)file->err;
    file->err->format_message(file, jpeg->text);
    longjmp(jpeg->failed, 1);
}

/* Most warnings are harmless. A file that ends early or has invalid codes is an error: libjpeg would invent the remaining
 * pixels. */
static void warn_jpeg(j_common_ptr file, int level) {
    static const int damage[] = {JWRN_HIT_MARKER, JWRN_JPEG_EOF, JWRN_HUFF_BAD_CODE, JWRN_ARITH_BAD_CODE, JWRN_MUST_RESYNC};
    const int code = file->err->msg_code;
    for (size_t i = 0; level < 0 && i < sizeof damage / sizeof *damage; i++)
        if (code == damage[i]) fail_jpeg(file);
}

/* CMYK colours are stored inverted: red is cyan times black. */
static void to_red_green_blue(const uint8_t *row, int64_t width, int channels, uint8_t *out) {
    for (int64_t x = 0; x < width; x++, row += 4) {
        uint8_t colour[3];
        for (int c = 0; c < 3; c++) colour[c] = (uint8_t)(row[c] * row[3] / 255);
        for (int c = 0; c < channels && channels == 3; c++) *out++ = colour[c];
        if (channels == 1) *out++ = grey_of(colour);
    }
}

static void read_rows(struct jpeg *jpeg, const struct picture *picture) {
    struct jpeg_decompress_struct *file = &jpeg->file;
    const size_t stride = (size_t)(picture->width * picture->channels);
    while (file->output_scanline < file->output_height) {
        uint8_t *own = picture->pixels + file->output_scanline * stride, *row = jpeg->row ? jpeg->row : own;
        jpeg_read_scanlines(file, &row, 1);
        if (jpeg->row) to_red_green_blue(jpeg->row, picture->width, (int)picture->channels, own);
    }
}

/* Errors of libjpeg jump back to its beginning. The caller frees what it allocates, in `jpeg` and `picture`. */
static enum ps_status decode_jpeg(struct jpeg *jpeg, const char *path, const char *data, size_t size, struct picture *picture,
                                  struct ps_error *error) {
    struct jpeg_decompress_struct *file = &jpeg->file;
    if (setjmp(jpeg->failed)) return damaged(path, "JPEG", jpeg->text, error);
    jpeg_create_decompress(file);
    jpeg_mem_src(file, (const unsigned char *)data, (unsigned long)size);
    jpeg_read_header(file, TRUE);
    const bool four = file->jpeg_color_space == JCS_CMYK || file->jpeg_color_space == JCS_YCCK;
    file->out_color_space = four ? JCS_CMYK : picture->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(file);
    picture->height = file->output_height;
    picture->width = file->output_width;
    TRY(take_pixels(path, picture, error));
    if (four) TRY(memory_new(&jpeg->row, 4 * picture->width, path, error));
    read_rows(jpeg, picture);
    jpeg_finish_decompress(file);
    return PS_OK;
}

static enum ps_status read_jpeg(const char *path, const char *data, size_t size, struct picture *picture,
                                struct ps_error *error) {
    struct jpeg *jpeg;
    TRY(memory_new(&jpeg, 1, path, error));
    jpeg->file.err = jpeg_std_error(&jpeg->errors);
    jpeg->errors.error_exit = fail_jpeg;
    jpeg->errors.emit_message = warn_jpeg;
    const enum ps_status status = decode_jpeg(jpeg, path, data, size, picture, error);
    jpeg_destroy_decompress(&jpeg->file);
    free(jpeg->row);
    free(jpeg);
    return status;
}

/* ---------------------------------------------------------------------- PNG */

/* Reduces the picture to `channels` channels in place: each byte is written at or before the pixel that it is read from. The
 * fourth channel is opacity; pixels are blended with black. */
static void reduce_channels(struct picture *picture, int channels) {
    const uint8_t *from = picture->pixels;
    uint8_t *to = picture->pixels;
    const int64_t pixels = picture->height * picture->width;
    for (int64_t i = 0; i < pixels; i++, from += picture->channels) {
        const int opaque = picture->channels == 4 ? from[3] : 255;
        uint8_t colour[3];
        for (int c = 0; c < 3; c++) colour[c] = (uint8_t)((from[c] * opaque + 127) / 255);
        for (int c = 0; c < channels; c++) *to++ = channels == 1 ? grey_of(colour) : colour[c];
    }
    picture->channels = channels;
}

static uint32_t big_endian(const char *bytes) {
    const unsigned char *b = (const unsigned char *)bytes;
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* Removes the chunks gAMA and cICP from the file, in place: libpng would convert colours by them, while PIL, and so
 * torchvision, use the stored values. Returns the remaining size. */
static size_t drop_gamma(char *data, size_t size) {
    /* Bytes of the file's signature; of the length before a chunk's name; of a chunk in addition to its data. */
    enum { HEAD = 8, NAME = 4, AROUND = 12 };
    for (size_t at = HEAD; at + AROUND <= size && memcmp(data + at + NAME, "IDAT", 4) != 0;) {
        const size_t length = (size_t)big_endian(data + at) + AROUND;
        if (length > size - at) break;
        if (memcmp(data + at + NAME, "gAMA", 4) == 0 || memcmp(data + at + NAME, "cICP", 4) == 0) {
            memmove(data + at, data + at + length, size - at - length);
            size -= length;
        } else {
            at += length;
        }
    }
    return size;
}

static enum ps_status read_png(const char *path, char *data, size_t size, struct picture *picture, struct ps_error *error) {
    png_image file = {.version = PNG_IMAGE_VERSION};
    size = drop_gamma(data, size);
    if (!png_image_begin_read_from_memory(&file, data, size)) return damaged(path, "PNG", file.message, error);
    /* Treats 16-bit colours as sRGB, like 8-bit ones, not as linear light. */
    file.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
    /* libpng would blend with black and convert colours to grey in linear light. */
    const int channels = (int)picture->channels;
    const bool mixed = (file.format & PNG_FORMAT_FLAG_ALPHA) != 0, coloured = (file.format & PNG_FORMAT_FLAG_COLOR) != 0;
    picture->channels = mixed ? 4 : coloured ? 3 : channels;
    file.format = mixed ? PNG_FORMAT_RGBA : picture->channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
    picture->height = file.height;
    picture->width = file.width;
    enum ps_status status = take_pixels(path, picture, error);
    if (status == PS_OK && !png_image_finish_read(&file, NULL, picture->pixels, 0, NULL)) {
        status = damaged(path, "PNG", file.message, error);
    }
    png_image_free(&file);
    if (status == PS_OK && picture->channels != channels) reduce_channels(picture, channels);
    return status;
}

/* --------------------------------------------------------------------- both */

static bool begins_with(const char *data, size_t size, const char *bytes, size_t count) {
    return size >= count && memcmp(data, bytes, count) == 0;
}

enum ps_status picture_read(const char *path, int channels, struct picture *out, struct ps_error *error) {
    struct picture picture = {.channels = channels};
    char *data;
    size_t size;
    TRY(file_read(path, FILE_LIMIT, &data, &size, error));
    enum ps_status status;
    if (begins_with(data, size, "\xff\xd8", 2)) {
        status = read_jpeg(path, data, size, &picture, error);
    } else if (begins_with(data, size, "\x89PNG", 4)) {
        status = read_png(path, data, size, &picture, error);
    } else {
        status = error_set(error, PS_BAD_INPUT, "%s: neither a JPEG nor a PNG file%s", path, size == 0 ? ", but empty" : "");
    }
    free(data);
    if (status != PS_OK) {
        picture_free(&picture);
        return status;
    }
    *out = picture;
    return PS_OK;
}

void picture_free(struct picture *picture) {
    free(picture->pixels);
    *picture = (struct picture){0};
}

/* ------------------------------------------------------------------ scaling */

/*
 * Scaling a window of a picture, first along the rows and then along the columns. An output pixel's centre is at (i + 1/2)
 * scale in the window. Its value is the mean of the pixels nearer than `reach` = max(scale, 1), with weights that decrease
 * linearly to 0 at that distance. Pixels outside the picture are ignored; if the centre is outside, the value is 0.
 */

/* Input pixels [first, end) of an output pixel, and their weights. */
struct taps {
    int64_t first, end;
    float *weights;
};

/* Fills `side` taps for a window that begins at `start` and is `length` long, in a side of `size` pixels. `weights` has
 * taps_most(length, side) numbers for each. */
static int64_t taps_most(double length, int64_t side) { return 2 * (int64_t)ceil(fmax(length / (double)side, 1)) + 1; }

static void make_taps(double start, double length, int64_t size, int64_t side, float *weights, struct taps *taps) {
    const double scale = length / (double)side, reach = fmax(scale, 1);
    const int64_t most = taps_most(length, side);
    for (int64_t i = 0; i < side; i++) {
        const double centre = start + ((double)i + 0.5) * scale;
        struct taps *tap = &taps[i];
        *tap = (struct taps){.weights = weights + i * most};
        if (centre < 0 || centre >= (double)size) continue;
        const int64_t first = (int64_t)ceil(centre - reach - 0.5), end = (int64_t)floor(centre + reach - 0.5) + 1;
        tap->first = first < 0 ? 0 : first;
        tap->end = end > size ? size : end;
        double sum = 0;
        for (int64_t p = tap->first; p < tap->end; p++) sum += 1 - fabs((double)p + 0.5 - centre) / reach;
        for (int64_t p = tap->first; p < tap->end; p++) {
            tap->weights[p - tap->first] = (float)((1 - fabs((double)p + 0.5 - centre) / reach) / sum);
        }
    }
}

/* One row of the picture to `side` pixels. */
static void scale_row(const uint8_t *row, int64_t channels, const struct taps *taps, int64_t side, float *out) {
    for (int64_t x = 0; x < side; x++) {
        for (int64_t c = 0; c < channels; c++) {
            float sum = 0;
            for (int64_t p = taps[x].first; p < taps[x].end; p++) {
                sum += taps[x].weights[p - taps[x].first] * (float)row[p * channels + c];
            }
            out[x * channels + c] = sum;
        }
    }
}

/* `rows` holds the picture's rows from `top` on, already scaled to `side` pixels. */
static void scale_columns(const float *rows, int64_t top, const struct taps *taps, int64_t side, int64_t floats, float *out) {
    for (int64_t y = 0; y < side; y++) {
        float *row = out + y * floats;
        for (int64_t i = 0; i < floats; i++) row[i] = 0;
        for (int64_t p = taps[y].first; p < taps[y].end; p++) {
            const float weight = taps[y].weights[p - taps[y].first], *from = rows + (p - top) * floats;
            for (int64_t i = 0; i < floats; i++) row[i] += weight * from[i];
        }
    }
}

static void mirror(float *out, int64_t side, int64_t channels) {
    for (int64_t y = 0; y < side; y++) {
        float *row = out + y * side * channels;
        for (int64_t x = 0; x < side / 2; x++) {
            for (int64_t c = 0; c < channels; c++) {
                float *left = &row[x * channels + c], *right = &row[(side - 1 - x) * channels + c], kept = *left;
                *left = *right;
                *right = kept;
            }
        }
    }
}

enum ps_status picture_scale(const struct picture *picture, const struct picture_window *window, int64_t side, bool flip,
                             float *out, struct ps_error *error) {
    const int64_t floats = side * picture->channels;
    int64_t top = (int64_t)floor(window->top) - taps_most(window->height, side);
    int64_t bottom = (int64_t)ceil(window->top + window->height) + taps_most(window->height, side);
    if (top < 0) top = 0;
    if (bottom > picture->height) bottom = picture->height;
    const int64_t rows = bottom > top ? bottom - top : 0;
    const size_t across = (size_t)(side * taps_most(window->width, side)),
                 down = (size_t)(side * taps_most(window->height, side));
    struct arena arena = {0};
    float *memory = arena_take(&arena, across + down + (size_t)(rows * floats), sizeof *memory);
    struct taps *taps = arena_take(&arena, 2 * (size_t)side, sizeof *taps);
    TRY(arena_check(&arena, "scaling an image", error));
    float *scaled = memory + across + down;
    make_taps(window->left, window->width, picture->width, side, memory, taps);
    make_taps(window->top, window->height, picture->height, side, memory + across, taps + side);
    for (int64_t y = 0; y < rows; y++) {
        const uint8_t *row = picture->pixels + (top + y) * picture->width * picture->channels;
        scale_row(row, picture->channels, taps, side, scaled + y * floats);
    }
    scale_columns(scaled, top, taps + side, side, floats, out);
    if (flip) mirror(out, side, picture->channels);
    arena_release(&arena);
    return PS_OK;
}
