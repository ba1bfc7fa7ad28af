/*
 * Convolution and deconvolution. x (N, H, W, C), w (O, C / G, KH, KW), bias b, y (N, OH, OW, O); output channel o reads the
 * input channels of group o / (O / G). With h = oh stride - pad + kh dilation, and so for the columns,
 *
 *     spread     y[n, oh, ow, o] = b[o] + sum over c, kh, kw of x[n, h, w, c] w[o, c, kh, kw]
 *     gather     x[n, h, w, c] = b[c] + sum of y[n, oh, ow, o] w[o, c, kh, kw] over the o, kh, kw that meet it
 *     correlate  w[o, c, kh, kw] = sum over n, oh, ow of y[n, oh, ow, o] x[n, h, w, c]
 *
 * A convolution goes forward by `spread`, and back to its input by `gather`. A deconvolution is the other way round: its input
 * is y, its output x.
 */
#include "compute/reference/reference.h"

/* Sizes from x to y. */
struct map {
    struct window window;
    int64_t group_in, group_out; /* channels of one group */
};

static struct map map_of(const struct kernel *kernel, bool turned) {
    struct map map = {.window = reference_window(kernel)};
    struct window *s = &map.window;
    const int64_t *in = kernel_input(kernel, 0)->dim, *out = kernel->node->shape.dim;
    const int64_t *x = turned ? out : in, *y = turned ? in : out;
    s->channels = x[0], s->height = x[1], s->width = x[2];
    s->out_channels = y[0], s->out_height = y[1], s->out_width = y[2];
    map.group_in = x[0] / kernel->node->attributes.groups;
    map.group_out = y[0] / kernel->node->attributes.groups;
    return map;
}

/* As many sums go on side by side: each addition waits for the one before it in the same sum. */
#define SUMS 16

/* How many sums go on from one of `channel`: up to the end of its group. */
static int64_t sums_from(int64_t channel, int64_t group) {
    const int64_t left = group - channel % group;
    return left < SUMS ? left : SUMS;
}

static int64_t weight_at(const struct map *m, int64_t o, int64_t c, int64_t kh, int64_t kw) {
    return ((o * m->group_in + c) * m->window.kernel_h + kh) * m->window.kernel_w + kw;
}

/* The row or column of x that meets an element of the kernel at the row or column `at` of y; -1: none, it is padding. */
static int64_t input_of(int64_t at, int64_t element, int64_t stride, int64_t pad, int64_t dilation, int64_t size) {
    const int64_t i = at * stride - pad + element * dilation;
    return i >= 0 && i < size ? i : -1;
}

/* The other way round. */
static int64_t output_of(int64_t at, int64_t element, int64_t stride, int64_t pad, int64_t dilation, int64_t size) {
    const int64_t i = at + pad - element * dilation;
    return i >= 0 && i % stride == 0 && i / stride < size ? i / stride : -1;
}

/* Adds to the sums of channels `channel` to channel + count - 1 of one pixel, without the bias. */
typedef void some_sums(const struct map *m, const float *from, const float *w, int64_t n, int64_t row, int64_t column,
                       int64_t channel, int64_t count, double *sums);

/* Output channels o to o + count - 1. */
static void spread_some(const struct map *m, const float *x, const float *w, int64_t n, int64_t row, int64_t column, int64_t o,
                        int64_t count, double *sums) {
    const struct window *s = &m->window;
    const int64_t next = weight_at(m, 1, 0, 0, 0);
    for (int64_t kh = 0; kh < s->kernel_h; kh++) {
        const int64_t h = input_of(row, kh, s->stride_h, s->pad_h, s->dilation_h, s->height);
        for (int64_t kw = 0; kw < s->kernel_w; kw++) {
            const int64_t v = input_of(column, kw, s->stride_w, s->pad_w, s->dilation_w, s->width);
            if (h < 0 || v < 0) continue;
            const float *pixel = x + window_input(s, n, h, v) + o / m->group_out * m->group_in;
            for (int64_t c = 0; c < m->group_in; c++) {
                const float *weights = w + weight_at(m, o, c, kh, kw);
                for (int64_t i = 0; i < count; i++) sums[i] += (double)pixel[c] * (double)weights[i * next];
            }
        }
    }
}

/* Input channels. */
static void gather_some(const struct map *m, const float *y, const float *w, int64_t n, int64_t row, int64_t column,
                        int64_t channel, int64_t count, double *sums) {
    const struct window *s = &m->window;
    const int64_t first = channel / m->group_in * m->group_out, next = weight_at(m, 0, 1, 0, 0);
    for (int64_t kh = 0; kh < s->kernel_h; kh++) {
        const int64_t h = output_of(row, kh, s->stride_h, s->pad_h, s->dilation_h, s->out_height);
        for (int64_t kw = 0; kw < s->kernel_w; kw++) {
            const int64_t v = output_of(column, kw, s->stride_w, s->pad_w, s->dilation_w, s->out_width);
            if (h < 0 || v < 0) continue;
            const float *pixel = y + window_output(s, n, h, v);
            for (int64_t o = first; o < first + m->group_out; o++) {
                const float *weights = w + weight_at(m, o, channel % m->group_in, kh, kw);
                for (int64_t i = 0; i < count; i++) sums[i] += (double)pixel[o] * (double)weights[i * next];
            }
        }
    }
}

/* Every pixel of an image (height, width, channels) with groups of channels: the sums of each channel, and its bias. */
static void each_pixel(const struct map *m, some_sums *some, int64_t height, int64_t width, int64_t channels, int64_t group,
                       const float *from, const float *w, const float *bias, float *to) {
    for (int64_t pixel = 0; pixel < m->window.samples * height * width; pixel++) {
        const int64_t n = pixel / (height * width), row = pixel / width % height, column = pixel % width;
        for (int64_t c = 0, count; c < channels; c += count) {
            double sums[SUMS] = {0};
            count = sums_from(c, group);
            some(m, from, w, n, row, column, c, count, sums);
            for (int64_t i = 0; i < count; i++)
                to[pixel * channels + c + i] = (float)((bias != NULL ? (double)bias[c + i] : 0) + sums[i]);
        }
    }
}

static void spread(const struct map *m, const float *x, const float *w, const float *b, float *y) {
    const struct window *s = &m->window;
    each_pixel(m, spread_some, s->out_height, s->out_width, s->out_channels, m->group_out, x, w, b, y);
}

static void gather(const struct map *m, const float *y, const float *w, const float *b, float *x) {
    const struct window *s = &m->window;
    each_pixel(m, gather_some, s->height, s->width, s->channels, m->group_in, y, w, b, x);
}

/* One element of the kernel, of output channels o to o + count - 1 from input channel c of their group. */
static void correlate_some(const struct map *m, const float *x, const float *y, int64_t o, int64_t count, int64_t c, int64_t kh,
                           int64_t kw, double *sums) {
    const struct window *s = &m->window;
    const int64_t channel = o / m->group_out * m->group_in + c;
    for (int64_t n = 0; n < s->samples; n++) {
        for (int64_t row = 0; row < s->out_height; row++) {
            const int64_t h = input_of(row, kh, s->stride_h, s->pad_h, s->dilation_h, s->height);
            for (int64_t column = 0; column < s->out_width; column++) {
                const int64_t v = input_of(column, kw, s->stride_w, s->pad_w, s->dilation_w, s->width);
                if (h < 0 || v < 0) continue;
                const double value = (double)x[window_input(s, n, h, v) + channel];
                const float *pixel = y + window_output(s, n, row, column) + o;
                for (int64_t i = 0; i < count; i++) sums[i] += (double)pixel[i] * value;
            }
        }
    }
}

static void correlate(const struct map *m, const float *x, const float *y, float *w) {
    const struct window *s = &m->window;
    const int64_t next = weight_at(m, 1, 0, 0, 0);
    for (int64_t o = 0, count; o < s->out_channels; o += count) {
        count = sums_from(o, m->group_out);
        for (int64_t at = 0; at < next; at++) {
            const int64_t kw = at % s->kernel_w, kh = at / s->kernel_w % s->kernel_h, c = at / s->kernel_w / s->kernel_h;
            double sums[SUMS] = {0};
            correlate_some(m, x, y, o, count, c, kh, kw, sums);
            for (int64_t i = 0; i < count; i++) w[(o + i) * next + at] = (float)sums[i];
        }
    }
}

/* The gradient of the bias; NULL: there is none. */
static void sum_pixels(const struct kernel *kernel, const float *dy, float *db) {
    int64_t channels = kernel->node->shape.dim[0], rows = (int64_t)kernel_rows(kernel);
    for (int64_t c = 0; c < channels && db != NULL; c++) {
        double sum = 0;
        for (int64_t i = 0; i < rows; i++) sum += (double)dy[i * channels + c];
        db[c] = (float)sum;
    }
}

/* ------------------------------------------------------------- convolution */

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    struct map map = map_of(kernel, false);
    spread(&map, call->input[0], call->weights[0], call->weights[1], call->output);
    return PS_OK;
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call) {
    struct map map = map_of(kernel, false);
    gather(&map, call->output_gradient, call->weights[0], NULL, call->input_gradient[0]);
    return PS_OK;
}

static enum ps_status backward_weight(struct kernel *kernel, const struct kernel_call *call) {
    struct map map = map_of(kernel, false);
    correlate(&map, call->input[0], call->output_gradient, call->gradients[0]);
    sum_pixels(kernel, call->output_gradient, call->gradients[1]);
    return PS_OK;
}

const struct kernel_class reference_convolution = {
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};

/* ----------------------------------------------------------- deconvolution */

static enum ps_status turned_forward(struct kernel *kernel, const struct kernel_call *call) {
    struct map map = map_of(kernel, true);
    gather(&map, call->input[0], call->weights[0], call->weights[1], call->output);
    return PS_OK;
}

static enum ps_status turned_backward_input(struct kernel *kernel, const struct kernel_call *call) {
    struct map map = map_of(kernel, true);
    spread(&map, call->output_gradient, call->weights[0], NULL, call->input_gradient[0]);
    return PS_OK;
}

static enum ps_status turned_backward_weight(struct kernel *kernel, const struct kernel_call *call) {
    struct map map = map_of(kernel, true);
    correlate(&map, call->output_gradient, call->input[0], call->gradients[0]);
    sum_pixels(kernel, call->output_gradient, call->gradients[1]);
    return PS_OK;
}

const struct kernel_class reference_deconvolution = {
    .forward = turned_forward,
    .backward_input = turned_backward_input,
    .backward_weight = turned_backward_weight,
};
