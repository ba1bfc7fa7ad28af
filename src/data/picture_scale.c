/*
 * Scaling a part of a picture, first along the rows and then along the columns. An output pixel's centre lies at (i + 1/2)
 * scale in the window; it is the mean of the pixels nearer than `reach` = max(scale, 1), with weights that fall linearly to
 * 0 there. What falls outside of the picture takes no part; where the centre itself does, the result is 0.
 */
#include <math.h>
#include <stdlib.h>

#include "data/picture.h"

/* Input pixels [first, end) of an output pixel, and where their weights begin. */
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

/* `rows` holds the picture's rows from `top` on, scaled to `side` pixels already. */
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
    float *memory = malloc((across + down + (size_t)(rows * floats)) * sizeof *memory);
    struct taps *taps = malloc(2 * (size_t)side * sizeof *taps);
    if (!memory || !taps) {
        free(memory);
        free(taps);
        return error_memory(error, "scaling an image", (size_t)(rows * floats) * sizeof *memory);
    }
    float *scaled = memory + across + down;
    make_taps(window->left, window->width, picture->width, side, memory, taps);
    make_taps(window->top, window->height, picture->height, side, memory + across, taps + side);
    for (int64_t y = 0; y < rows; y++) {
        const uint8_t *row = picture->pixels + (top + y) * picture->width * picture->channels;
        scale_row(row, picture->channels, taps, side, scaled + y * floats);
    }
    scale_columns(scaled, top, taps + side, side, floats, out);
    if (flip) mirror(out, side, picture->channels);
    free(taps);
    free(memory);
    return PS_OK;
}
