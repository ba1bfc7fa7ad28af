/* Convolution. x (N, H, W, C), w (O, C / G, KH, KW), bias b (O), y (N, OH, OW, O); output channel o reads the input channels of
 * group o / (O / G). */
#include "compute/reference/reference.h"

struct groups {
    int64_t in, out; /* channels of one group */
};

static struct groups groups_of(const struct kernel *kernel) {
    const struct reference_kernel *k = reference_of(kernel);
    return (struct groups){k->input[0].dim[0] / k->attributes->groups, k->output.dim[0] / k->attributes->groups};
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    struct window s = reference_window(kernel);
    struct groups group = groups_of(kernel);
    const float *x = call->input[0], *weights = call->weights[0], *bias = call->weights[1];
    for (int64_t i = 0; i < s.samples * s.out_height * s.out_width; i++) {
        int64_t n = i / (s.out_height * s.out_width), row = i / s.out_width % s.out_height, column = i % s.out_width;
        int64_t top = row * s.stride_h - s.pad_h, left = column * s.stride_w - s.pad_w, h0, h1, w0, w1;
        window_clip(top, s.kernel_h, s.height, &h0, &h1);
        window_clip(left, s.kernel_w, s.width, &w0, &w1);
        for (int64_t o = 0; o < s.out_channels; o++) {
            double sum = bias != NULL ? (double)bias[o] : 0;
            for (int64_t kh = h0; kh < h1; kh++) {
                for (int64_t kw = w0; kw < w1; kw++) {
                    const float *pixel = x + window_input(&s, n, top + kh, left + kw) + o / group.out * group.in;
                    const float *weight = weights + (o * group.in * s.kernel_h + kh) * s.kernel_w + kw;
                    for (int64_t c = 0; c < group.in; c++) {
                        sum += (double)pixel[c] * (double)weight[c * s.kernel_h * s.kernel_w];
                    }
                }
            }
            call->output[i * s.out_channels + o] = (float)sum;
        }
    }
    return PS_OK;
}

/* dx[n, h, w, c] = sum over o, kh, kw of dy[n, oh, ow, o] w[o, c, kh, kw], where oh stride - pad + kh = h, and so for w. */
static double input_gradient(const struct window *s, const struct groups *group, const struct kernel_call *call, int64_t n,
                             int64_t row, int64_t column, int64_t channel) {
    const float *weights = call->weights[0];
    int64_t first = channel / group->in * group->out, c = channel % group->in;
    double sum = 0;
    for (int64_t kh = 0; kh < s->kernel_h; kh++) {
        int64_t y = row + s->pad_h - kh;
        if (y < 0 || y % s->stride_h != 0 || y / s->stride_h >= s->out_height) continue;
        for (int64_t kw = 0; kw < s->kernel_w; kw++) {
            int64_t x = column + s->pad_w - kw;
            if (x < 0 || x % s->stride_w != 0 || x / s->stride_w >= s->out_width) continue;
            const float *dy = call->output_gradient + window_output(s, n, y / s->stride_h, x / s->stride_w);
            for (int64_t o = first; o < first + group->out; o++) {
                sum += (double)dy[o] * (double)weights[((o * group->in + c) * s->kernel_h + kh) * s->kernel_w + kw];
            }
        }
    }
    return sum;
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    struct window s = reference_window(kernel);
    struct groups group = groups_of(kernel);
    for (int64_t n = 0; n < s.samples; n++) {
        for (int64_t row = 0; row < s.height; row++) {
            for (int64_t column = 0; column < s.width; column++) {
                float *dx = call->input_gradient[0] + window_input(&s, n, row, column);
                for (int64_t c = 0; c < s.channels; c++) dx[c] = (float)input_gradient(&s, &group, call, n, row, column, c);
            }
        }
    }
    return PS_OK;
}

/* dw[o, c, kh, kw] = sum over n, oh, ow of dy[n, oh, ow, o] x[n, oh stride - pad + kh, ow stride - pad + kw, c]. */
static double weight_gradient(const struct window *s, const struct groups *group, const struct kernel_call *call, int64_t o,
                              int64_t c, int64_t kh, int64_t kw) {
    int64_t channel = o / group->out * group->in + c;
    double sum = 0;
    for (int64_t n = 0; n < s->samples; n++) {
        for (int64_t row = 0; row < s->out_height; row++) {
            int64_t y = row * s->stride_h - s->pad_h + kh;
            if (y < 0 || y >= s->height) continue;
            for (int64_t column = 0; column < s->out_width; column++) {
                int64_t x = column * s->stride_w - s->pad_w + kw;
                if (x < 0 || x >= s->width) continue;
                sum += (double)call->output_gradient[window_output(s, n, row, column) + o] *
                       (double)call->input[0][window_input(s, n, y, x) + channel];
            }
        }
    }
    return sum;
}

static enum ps_status backward_weight(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    struct window s = reference_window(kernel);
    struct groups group = groups_of(kernel);
    float *dw = call->gradients[0], *db = call->gradients[1];
    for (int64_t o = 0; o < s.out_channels; o++) {
        for (int64_t c = 0; c < group.in; c++) {
            for (int64_t kh = 0; kh < s.kernel_h; kh++) {
                for (int64_t kw = 0; kw < s.kernel_w; kw++) *dw++ = (float)weight_gradient(&s, &group, call, o, c, kh, kw);
            }
        }
        if (db == NULL) continue;
        double sum = 0;
        for (int64_t i = 0; i < s.samples * s.out_height * s.out_width; i++) {
            sum += (double)call->output_gradient[i * s.out_channels + o];
        }
        db[o] = (float)sum;
    }
    return PS_OK;
}

const struct kernel_class reference_convolution = {
    .create = reference_create,
    .destroy = reference_destroy,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};
