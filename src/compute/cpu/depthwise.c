/*
 * Gradient of the weights of a convolution with one channel a group: x (N, H, W, C), dy (N, OH, OW, C),
 *
 *     dw[kh, kw, c] = sum over n, oh, ow of dy[n, oh, ow, c] x[n, oh stride - pad + kh dilation, ow stride - pad + kw dilation,
 * c]
 *
 * oneDNN 2.6 computes it at 2 to 5 GFLOP/s where the kernel is larger than 3 x 3. Here threads share the channels, and blocks
 * of channels go over a row of an image with their sums in registers: 30 to 60. A row's sums are added to those of the rows
 * before.
 */
#include "compute/cpu/depthwise.h"

#include <string.h>

#include "base/vector.h"

enum { LANES = 16, BLOCK = 4 * LANES };

/* Sixteen floats anywhere in memory. */
typedef float lanes __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float)), may_alias));

/* sums[c] += the sum over `count` pixels of dy[c] x[c], of which the next ones are so many floats further. */
static VECTOR_CLONES void add_block(int64_t count, const float *dy, int64_t dy_step, const float *x, int64_t x_step,
                                    float *sums) {
    lanes a = {0}, b = {0}, c = {0}, d = {0};
    for (; count > 0; count--, dy += dy_step, x += x_step) {
        const lanes *left = (const lanes *)dy, *right = (const lanes *)x;
        a += left[0] * right[0];
        b += left[1] * right[1];
        c += left[2] * right[2];
        d += left[3] * right[3];
    }
    lanes *to = (lanes *)sums;
    to[0] += a, to[1] += b, to[2] += c, to[3] += d;
}

static VECTOR_CLONES void add_lanes(int64_t count, const float *dy, int64_t dy_step, const float *x, int64_t x_step,
                                    float *sums) {
    lanes a = {0};
    for (; count > 0; count--, dy += dy_step, x += x_step) a += *(const lanes *)dy * *(const lanes *)x;
    *(lanes *)sums += a;
}

static void add_one(int64_t count, const float *dy, int64_t dy_step, const float *x, int64_t x_step, float *sum) {
    float row = 0;
    for (; count > 0; count--, dy += dy_step, x += x_step) row += *dy * *x;
    *sum += row;
}

/* The channels of a thread, one row of dy, and one position of the kernel that meets row `x` of the image. */
static void add_row(const struct depthwise *d, int64_t channels, const float *dy, const float *x, int kw, float *dw) {
    const struct attributes *a = d->attributes;
    int64_t offset = (int64_t)kw * a->dilation_w - a->pad_w, stride = a->stride_w, step = d->in[0], c = 0;
    int64_t first = offset < 0 ? (-offset + stride - 1) / stride : 0;
    int64_t end = d->in[2] > offset ? (d->in[2] - offset + stride - 1) / stride : 0;
    if (end > d->out[2]) end = d->out[2];
    if (first >= end) return;
    dy += first * step;
    x += (first * stride + offset) * step;
    for (; c + BLOCK <= channels; c += BLOCK) add_block(end - first, dy + c, step, x + c, stride * step, dw + c);
    for (; c + LANES <= channels; c += LANES) add_lanes(end - first, dy + c, step, x + c, stride * step, dw + c);
    for (; c < channels; c++) add_one(end - first, dy + c, step, x + c, stride * step, dw + c);
}

struct run {
    const struct depthwise *depthwise;
    const float *x, *dy;
    float *dw;
};

static void run_part(const void *context, size_t first, size_t end) {
    const struct run *run = context;
    const struct depthwise *d = run->depthwise;
    const struct attributes *a = d->attributes;
    const int64_t *in = d->in, *out = d->out;
    for (int tap = 0; tap < a->kernel_h * a->kernel_w; tap++)
        memset(run->dw + tap * in[0] + first, 0, (end - first) * sizeof(float));
    for (int64_t row = 0; row < d->samples * out[1]; row++) {
        int64_t n = row / out[1], top = row % out[1] * a->stride_h - a->pad_h;
        const float *dy = run->dy + row * out[2] * in[0] + first;
        for (int kh = 0; kh < a->kernel_h; kh++) {
            int64_t h = top + (int64_t)kh * a->dilation_h;
            if (h < 0 || h >= in[1]) continue;
            const float *x = run->x + (n * in[1] + h) * in[2] * in[0] + first;
            for (int kw = 0; kw < a->kernel_w; kw++)
                add_row(d, (int64_t)(end - first), dy, x, kw, run->dw + (kh * a->kernel_w + kw) * in[0] + first);
        }
    }
}

void depthwise_gradient(const struct depthwise *depthwise, const float *x, const float *dy, float *dw) {
    struct run run = {depthwise, x, dy, dw};
    device_parallel(depthwise->device, (size_t)depthwise->in[0], LANES, run_part, &run);
}
