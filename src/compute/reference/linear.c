/*
 * Fully connected. x (N, D), weights w (O, D), bias b (O), y (N, O); for sequences N also counts the positions. Where x is a
 * flattened image, memory holds feature (h, w, c) at position * C + c, the weights' columns are at c * positions + position.
 * Transposed weights are (D, O).
 */
#include "compute/reference/reference.h"

struct sizes {
    int64_t samples, features, out; /* N, D, O */
    int64_t channels, positions;    /* D = positions * channels */
    bool transposed;
};

static struct sizes sizes_of(const struct kernel *kernel) {
    int64_t features = kernel_input(kernel, 0)->dim[0],
            channels = kernel_input(kernel, 0)->image[0] > 0 ? kernel_input(kernel, 0)->image[0] : features;
    return (struct sizes){(int64_t)shape_rows(kernel_input(kernel, 0), kernel->samples),
                          features,
                          kernel->node->shape.dim[0],
                          channels,
                          features / channels,
                          kernel->node->attributes.transposed};
}

/* Where a weight lies: w (O, D), or (D, O) where it is transposed. */
static int64_t weight_of(const struct sizes *s, int64_t o, int64_t position, int64_t channel) {
    const int64_t d = channel * s->positions + position;
    return s->transposed ? d * s->out + o : o * s->features + d;
}

static void forward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    struct sizes s = sizes_of(kernel);
    const float *bias = call->weights[1];
    for (int64_t n = (int64_t)first; n < (int64_t)end; n++) {
        for (int64_t o = 0; o < s.out; o++) {
            const float *x = call->input[0] + n * s.features, *weights = call->weights[0];
            double sum = bias != NULL ? (double)bias[o] : 0;
            for (int64_t p = 0; p < s.positions; p++) {
                for (int64_t c = 0; c < s.channels; c++) sum += (double)*x++ * (double)weights[weight_of(&s, o, p, c)];
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
                double sum = 0;
                for (int64_t o = 0; o < s.out; o++) sum += (double)dy[o] * (double)call->weights[0][weight_of(&s, o, p, c)];
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
        for (int64_t p = 0; p < s.positions; p++) {
            for (int64_t c = 0; c < s.channels; c++) {
                const float *x = call->input[0] + p * s.channels + c;
                double sum = 0;
                for (int64_t n = 0; n < s.samples; n++) sum += (double)dy[n * s.out] * (double)x[n * s.features];
                call->gradients[0][weight_of(&s, o, p, c)] = (float)sum;
            }
        }
        if (call->gradients[1] == NULL) continue;
        double sum = 0;
        for (int64_t n = 0; n < s.samples; n++) sum += (double)dy[n * s.out];
        call->gradients[1][o] = (float)sum;
    }
}

const struct kernel_class reference_linear = {
    .forward_loop = {OVER_ROWS, forward},
    .backward_input_loop = {OVER_ROWS, backward_input},
    .backward_weight_loop = {OVER_FEATURES, backward_weight},
};
