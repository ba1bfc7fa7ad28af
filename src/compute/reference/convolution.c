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

static const float *weight_at(const struct map *m, const float *w, int64_t o, int64_t c, int64_t kh, int64_t kw) {
    return w + ((o * m->group_in + c) * m->window.kernel_h + kh) * m->window.kernel_w + kw;
}

static double spread_one(const struct map *m, const float *x, const float *w, int64_t n, int64_t row, int64_t column,
                         int64_t o) {
    const struct window *s = &m->window;
    double sum = 0;
    for (int64_t kh = 0; kh < s->kernel_h; kh++) {
        int64_t h = row * s->stride_h - s->pad_h + kh * s->dilation_h;
        for (int64_t kw = 0; kw < s->kernel_w; kw++) {
            int64_t v = column * s->stride_w - s->pad_w + kw * s->dilation_w;
            if (h < 0 || h >= s->height || v < 0 || v >= s->width) continue;
            const float *pixel = x + window_input(s, n, h, v) + o / m->group_out * m->group_in;
            for (int64_t c = 0; c < m->group_in; c++) sum += (double)pixel[c] * (double)*weight_at(m, w, o, c, kh, kw);
        }
    }
    return sum;
}

static void spread(const struct map *m, const float *x, const float *w, const float *b, float *y) {
    const struct window *s = &m->window;
    for (int64_t i = 0; i < s->samples * s->out_height * s->out_width; i++) {
        int64_t n = i / (s->out_height * s->out_width), row = i / s->out_width % s->out_height, column = i % s->out_width;
        for (int64_t o = 0; o < s->out_channels; o++) {
            double bias = b != NULL ? (double)b[o] : 0;
            y[i * s->out_channels + o] = (float)(bias + spread_one(m, x, w, n, row, column, o));
        }
    }
}

static double gather_one(const struct map *m, const float *y, const float *w, int64_t n, int64_t row, int64_t column,
                         int64_t channel) {
    const struct window *s = &m->window;
    int64_t first = channel / m->group_in * m->group_out, c = channel % m->group_in;
    double sum = 0;
    for (int64_t kh = 0; kh < s->kernel_h; kh++) {
        int64_t h = row + s->pad_h - kh * s->dilation_h;
        if (h < 0 || h % s->stride_h != 0 || h / s->stride_h >= s->out_height) continue;
        for (int64_t kw = 0; kw < s->kernel_w; kw++) {
            int64_t v = column + s->pad_w - kw * s->dilation_w;
            if (v < 0 || v % s->stride_w != 0 || v / s->stride_w >= s->out_width) continue;
            const float *pixel = y + window_output(s, n, h / s->stride_h, v / s->stride_w);
            for (int64_t o = first; o < first + m->group_out; o++) {
                sum += (double)pixel[o] * (double)*weight_at(m, w, o, c, kh, kw);
            }
        }
    }
    return sum;
}

static void gather(const struct map *m, const float *y, const float *w, const float *b, float *x) {
    const struct window *s = &m->window;
    for (int64_t i = 0; i < s->samples * s->height * s->width; i++) {
        int64_t n = i / (s->height * s->width), row = i / s->width % s->height, column = i % s->width;
        for (int64_t c = 0; c < s->channels; c++) {
            double bias = b != NULL ? (double)b[c] : 0;
            x[i * s->channels + c] = (float)(bias + gather_one(m, y, w, n, row, column, c));
        }
    }
}

static double correlate_one(const struct map *m, const float *x, const float *y, int64_t o, int64_t c, int64_t kh, int64_t kw) {
    const struct window *s = &m->window;
    int64_t channel = o / m->group_out * m->group_in + c;
    double sum = 0;
    for (int64_t n = 0; n < s->samples; n++) {
        for (int64_t row = 0; row < s->out_height; row++) {
            int64_t h = row * s->stride_h - s->pad_h + kh * s->dilation_h;
            if (h < 0 || h >= s->height) continue;
            for (int64_t column = 0; column < s->out_width; column++) {
                int64_t v = column * s->stride_w - s->pad_w + kw * s->dilation_w;
                if (v < 0 || v >= s->width) continue;
                sum += (double)y[window_output(s, n, row, column) + o] * (double)x[window_input(s, n, h, v) + channel];
            }
        }
    }
    return sum;
}

static void correlate(const struct map *m, const float *x, const float *y, float *w) {
    const struct window *s = &m->window;
    for (int64_t o = 0; o < s->out_channels; o++) {
        for (int64_t c = 0; c < m->group_in; c++) {
            for (int64_t kh = 0; kh < s->kernel_h; kh++) {
                for (int64_t kw = 0; kw < s->kernel_w; kw++) *w++ = (float)correlate_one(m, x, y, o, c, kh, kw);
            }
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
