/*
 * Fully connected. x (N, D), weights w (O, D), bias b (O), y (N, O); for sequences N also counts the positions. Where x is a
 * flattened image, memory holds feature (h, w, c) at position * C + c, the weights' columns are at c * positions + position.
 */
#include "compute/reference/reference.h"

struct sizes {
    int64_t samples, features, out; /* N, D, O */
    int64_t channels, positions;    /* D = positions * channels */
};

static struct sizes sizes_of(const struct kernel *kernel) {
    int64_t features = kernel_input(kernel, 0)->dim[0],
            channels = kernel_input(kernel, 0)->image[0] > 0 ? kernel_input(kernel, 0)->image[0] : features;
    return (struct sizes){(int64_t)shape_rows(kernel_input(kernel, 0), kernel->samples), features, kernel->node->shape.dim[0],
                          channels, features / channels};
}

static int64_t column_of(const struct sizes *s, int64_t position, int64_t channel) { return channel * s->positions + position; }

static void forward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    struct sizes s = sizes_of(kernel);
    const float *bias = call->weights[1];
    for (int64_t n = (int64_t)first; n < (int64_t)end; n++) {
        for (int64_t o = 0; o < s.out; o++) {
            const float *x = call->input[0] + n * s.features, *weights = call->weights[0] + o * s.features;
            double sum = bias != NULL ? (double)bias[o] : 0;
            for (int64_t p = 0; p < s.positions; p++) {
                for (int64_t c = 0; c < s.channels; c++) sum += (double)*x++ * (double)weights[column_of(&s, p, c)];
            }
            call->output[n * s.out + o] = (float)sum;
        }
    }
}

/* dx[n, d] = sum over o of dy[n, o] w[o, d] */
static void backward_input(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    struct sizes s = sizes_of(kernel);
    float *dx = call->input_gradient[0] + (int64_t)first * s.features;
    for (int64_t n = (int64_t)first; n < (int64_t)end; n++) {
        const float *dy = call->output_gradient + n * s.out;
        for (int64_t p = 0; p < s.positions; p++) {
            for (int64_t c = 0; c < s.channels; c++) {
                const float *weights = call->weights[0] + column_of(&s, p, c);
                double sum = 0;
                for (int64_t o = 0; o < s.out; o++) sum += (double)dy[o] * (double)weights[o * s.features];
                *dx++ = (float)sum;
            }
        }
    }
}

/* dw[o, d] = sum over n of dy[n, o] x[n, d]; db[o] = sum over n of dy[n, o] */
static void backward_weight(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    struct sizes s = sizes_of(kernel);
    for (int64_t o = (int64_t)first; o < (int64_t)end; o++) {
        const float *dy = call->output_gradient + o;
        float *dw = call->gradients[0] + o * s.features;
        for (int64_t p = 0; p < s.positions; p++) {
            for (int64_t c = 0; c < s.channels; c++) {
                const float *x = call->input[0] + p * s.channels + c;
                double sum = 0;
                for (int64_t n = 0; n < s.samples; n++) sum += (double)dy[n * s.out] * (double)x[n * s.features];
                dw[column_of(&s, p, c)] = (float)sum;
            }
        }
        if (call->gradients[1] == NULL) continue;
        double sum = 0;
        for (int64_t n = 0; n < s.samples; n++) sum += (double)dy[n * s.out];
        call->gradients[1][o] = (float)sum;
    }
}

/* Canonical weights (D, O) where they are transposed, and the kernel's (O, D). */
static void transpose(const struct kernel *kernel, int parameter, const float *from, float *to, bool back) {
    const struct sizes s = sizes_of(kernel);
    const bool turned = parameter == 0 && kernel->node->attributes.transposed;
    if (!turned) memcpy(to, from, (size_t)kernel->parameter_bytes[parameter]);
    for (int64_t o = 0; o < s.out && turned; o++)
        for (int64_t d = 0; d < s.features; d++) {
            const int64_t own = o * s.features + d, canonical = d * s.out + o;
            to[back ? canonical : own] = from[back ? own : canonical];
        }
}

static enum ps_status from_canonical(struct kernel *kernel, int parameter, const float *canonical, float *own,
                                     struct ps_error *error) {
    (void)error;
    transpose(kernel, parameter, canonical, own, false);
    return PS_OK;
}

static enum ps_status to_canonical(struct kernel *kernel, int parameter, const float *own, float *canonical,
                                   struct ps_error *error) {
    (void)error;
    transpose(kernel, parameter, own, canonical, true);
    return PS_OK;
}

const struct kernel_class reference_linear = {
    .from_canonical = from_canonical,
    .to_canonical = to_canonical,
    .forward_loop = {OVER_ROWS, forward},
    .backward_input_loop = {OVER_ROWS, backward_input},
    .backward_weight_loop = {OVER_FEATURES, backward_weight},
};
