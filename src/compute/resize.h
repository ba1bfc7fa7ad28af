/* Which pixels of the input make a pixel of a resized image, along one side (graph/operators/resize.c). */
#ifndef PENSTOCK_COMPUTE_RESIZE_H
#define PENSTOCK_COMPUTE_RESIZE_H

#include <math.h>

#include "graph/operator.h"

enum { RESIZE_TAPS = 4 };
struct resize_taps {
    int count;
    int64_t at[RESIZE_TAPS];
    double weight[RESIZE_TAPS];
};

static inline double resize_place(const struct attributes *a, double scale, int64_t size, int64_t out, int64_t index) {
    /* Without a scale whole places come out whole: products of integers are divided once. */
    double step = scale > 0 ? 1 / scale : (double)size, by = scale > 0 ? 1 : (double)out;
    switch ((enum resize_coordinates)a->coordinates) {
    case COORDINATES_PYTORCH_HALF_PIXEL:
        if (out == 1) return 0;
        return ((double)index + 0.5) * step / by - 0.5;
    case COORDINATES_HALF_PIXEL:
        return ((double)index + 0.5) * step / by - 0.5;
    case COORDINATES_ALIGN_CORNERS:
        return out > 1 ? (double)(index * (size - 1)) / (double)(out - 1) : 0;
    case COORDINATES_ASYMMETRIC:
        break;
    }
    return (double)index * step / by;
}

static inline double resize_round(const struct attributes *a, double place) {
    switch ((enum resize_rounding)a->rounding) {
    case ROUNDING_HALF_DOWN:
        return ceil(place - 0.5);
    case ROUNDING_HALF_UP:
        return floor(place + 0.5);
    case ROUNDING_FLOOR:
        return floor(place);
    case ROUNDING_CEIL:
        break;
    }
    return ceil(place);
}

/* The pixel that PyTorch's nearest takes: by the sides where these are equal or one is twice the other, else in single
 * precision, by 1 / scale in double precision before that. A scale is kept in single precision: 2.4 stands for itself again. */
static inline double resize_nearest(double scale, int64_t size, int64_t out, int64_t index) {
    const double decimal = rint(scale * 1e6) / 1e6;
    if (out == size || out == 2 * size) return (double)(index * size / out);
    if ((float)decimal == (float)scale) scale = decimal;
    const float step = scale > 0 ? (float)(1 / scale) : (float)size / (float)out;
    return floor((double)((float)index * step));
}

/* Keys' kernel at a distance, with the coefficient a. */
static inline double resize_cubic(double distance, double a) {
    double t = fabs(distance);
    if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
    return t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0;
}

/* Of pixel `index` of `out`, in an image of `size`. */
static inline struct resize_taps resize_taps(const struct attributes *a, enum pool_side side, int64_t size, int64_t out,
                                             int64_t index) {
    double scale = (double)(side == POOL_ROWS ? a->scale_h : a->scale_w);
    double place = resize_place(a, scale, size, out, index);
    enum resize_mode mode = (enum resize_mode)a->mode;
    double first = mode == RESIZE_NEAREST ? resize_round(a, place) : floor(place) - (mode == RESIZE_CUBIC ? 1 : 0);
    if (mode == RESIZE_NEAREST && a->coordinates == COORDINATES_ASYMMETRIC && a->rounding == ROUNDING_FLOOR)
        first = resize_nearest(scale, size, out, index);
    struct resize_taps taps;
    taps.count = mode == RESIZE_NEAREST ? 1 : mode == RESIZE_LINEAR ? 2 : RESIZE_TAPS;
    for (int i = 0; i < RESIZE_TAPS; i++) {
        double at = first + i, distance = place - at;
        taps.weight[i] = mode == RESIZE_NEAREST  ? 1
                         : mode == RESIZE_LINEAR ? 1 - fabs(distance)
                                                 : resize_cubic(distance, (double)a->cubic);
        taps.at[i] = at < 0 ? 0 : at > (double)(size - 1) ? size - 1 : (int64_t)at;
    }
    return taps;
}

#endif
