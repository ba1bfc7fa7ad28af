/* One image file as bytes in memory: JPEG by libjpeg(-turbo), PNG by libpng, distinguished by their first bytes. */
#ifndef PENSTOCK_DATA_PICTURE_H
#define PENSTOCK_DATA_PICTURE_H

#include "base/error.h"

struct picture {
    uint8_t *pixels; /* height x width x channels; free() */
    int64_t height, width, channels;
};

/* Reads `path` with 1 (grey) or 3 (red, green, blue) channels, whatever the file has; transparent pixels are blended with
 * black. PS_BAD_INPUT names the file: missing, neither JPEG nor PNG, damaged or truncated. */
enum ps_status picture_read(const char *path, int channels, struct picture *picture, struct ps_error *error);
void picture_free(struct picture *picture);

/* A rectangle of the picture, in pixels; may extend beyond the picture. */
struct picture_window {
    double top, left, height, width;
};

/* Scales the window to side x side pixels, values 0 to 255 in `out` (side x side x channels): interpolated linearly if it is
 * enlarged, and as the mean over the pixels that an output pixel covers, with linear weights, if it is reduced. Pixels outside
 * the picture are 0. `flip` mirrors the result left to right. Allocates and frees work space. */
enum ps_status picture_scale(const struct picture *picture, const struct picture_window *window, int64_t side, bool flip,
                             float *out, struct ps_error *error);

#endif
