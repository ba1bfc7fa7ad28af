/* One image file as bytes in memory: JPEG by libjpeg(-turbo), PNG by libpng, told apart by their first bytes. */
#ifndef PENSTOCK_DATA_PICTURE_H
#define PENSTOCK_DATA_PICTURE_H

#include "base/error.h"

struct picture {
    uint8_t *pixels; /* height x width x channels; free() */
    int64_t height, width, channels;
};

/* Reads `path` with 1 (grey) or 3 (red, green, blue) channels, whatever the file has; transparent pixels are laid over black.
 * PS_BAD_INPUT, the file named: missing, neither JPEG nor PNG, damaged or cut short. */
enum ps_status picture_read(const char *path, int channels, struct picture *picture, struct ps_error *error);
void picture_free(struct picture *picture);

/* A rectangle of the picture, in its pixels; may reach outside. */
struct picture_window {
    double top, left, height, width;
};

/* Scales the window to side x side pixels, values 0 to 255 in `out` (side x side x channels): linearly between pixels where it
 * grows, and as the mean of what a pixel covers, with linear weights, where it shrinks. What lies outside of the picture is 0.
 * `flip` mirrors it left to right. Takes and frees memory of its own. */
enum ps_status picture_scale(const struct picture *picture, const struct picture_window *window, int64_t side, bool flip,
                             float *out, struct ps_error *error);

#endif
