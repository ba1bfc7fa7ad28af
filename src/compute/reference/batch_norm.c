/*
 * Batch normalisation. x, y (positions, C) with positions = N H W; weight g, bias b, running mean and variance (C). Inner
 * memory holds each channel's mean and 1 / sqrt(variance + epsilon), C doubles each.
 *
 *     y = g (x - mean) * inverse + b
 *     db = sum dy,  dg = sum dy xhat,  dx = g inverse (dy - db / positions - xhat dg / positions),  xhat = (x - mean) inverse
 */
#include <math.h>

#include "compute/reference/reference.h"

static void set_sizes(struct kernel *kernel) { kernel->inner_bytes = 2 * kernel->node->shape.dim[0] * (int64_t)sizeof(double); }

struct sizes {
    int64_t positions, channels;
};

static struct sizes sizes_of(const struct kernel *kernel) {
    return (struct sizes){(int64_t)kernel_rows(kernel), kernel->node->shape.dim[0]};
}

/* Mean and biased variance of a channel of the micro-batch. */
static void measure(const struct sizes *s, const float *x, double *mean, double *variance) {
    double sum = 0, squares = 0;
    for (int64_t p = 0; p < s->positions; p++) sum += (double)x[p * s->channels];
    *mean = sum / (double)s->positions;
    for (int64_t p = 0; p < s->positions; p++) {
        double distance = (double)x[p * s->channels] - *mean;
        squares += distance * distance;
    }
    *variance = squares / (double)s->positions;
}

static void move(float *running, double value, double momentum) {
    *running = (float)((1 - momentum) * (double)*running + momentum * value);
}

static void forward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    struct sizes s = sizes_of(kernel);
    const struct attributes *attributes = &kernel->node->attributes;
    double *means = (double *)(void *)call->inner, *inverses = means + s.channels;
    for (int64_t c = (int64_t)first; c < (int64_t)end; c++) {
        double mean = (double)call->statistics[2][c], variance = (double)call->statistics[3][c];
        if (call->training) measure(&s, call->input[0] + c, &mean, &variance);
        if (call->training && call->update_statistics) {
            double count = (double)s.positions, unbiased = s.positions > 1 ? variance * count / (count - 1) : variance;
            move(&call->statistics[2][c], mean, (double)attributes->momentum);
            move(&call->statistics[3][c], unbiased, (double)attributes->momentum);
        }
        means[c] = mean;
        inverses[c] = 1 / sqrt(variance + (double)attributes->epsilon);
        double weight = (double)call->weights[0][c], bias = (double)call->weights[1][c];
        for (int64_t p = 0; p < s.positions; p++) {
            double x = (double)call->input[0][p * s.channels + c];
            call->output[p * s.channels + c] = (float)(weight * (x - mean) * inverses[c] + bias);
        }
    }
}

/* db and dg of a channel. */
static void sums(const struct sizes *s, const struct kernel_call *call, int64_t c, double *bias, double *weight) {
    const double *means = (const double *)(const void *)call->inner, *inverses = means + s->channels;
    *bias = *weight = 0;
    for (int64_t p = 0; p < s->positions; p++) {
        double dy = (double)call->output_gradient[p * s->channels + c];
        *bias += dy;
        *weight += dy * ((double)call->input[0][p * s->channels + c] - means[c]) * inverses[c];
    }
}

static void backward_input(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    assert(call->training);
    struct sizes s = sizes_of(kernel);
    const double *means = (const double *)(const void *)call->inner, *inverses = means + s.channels;
    for (int64_t c = (int64_t)first; c < (int64_t)end; c++) {
        double bias, weight, count = (double)s.positions;
        sums(&s, call, c, &bias, &weight);
        for (int64_t i = c; i < s.positions * s.channels; i += s.channels) {
            double hat = ((double)call->input[0][i] - means[c]) * inverses[c];
            double centred = (double)call->output_gradient[i] - bias / count - hat * weight / count;
            call->input_gradient[0][i] = (float)((double)call->weights[0][c] * inverses[c] * centred);
        }
    }
}

static void backward_weight(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    struct sizes s = sizes_of(kernel);
    for (int64_t c = (int64_t)first; c < (int64_t)end; c++) {
        double bias, weight;
        sums(&s, call, c, &bias, &weight);
        call->gradients[0][c] = (float)weight;
        call->gradients[1][c] = (float)bias;
    }
}

const struct kernel_class reference_batch_norm = {
    .set_sizes = set_sizes,
    .forward_loop = {OVER_FEATURES, forward},
    .backward_input_loop = {OVER_FEATURES, backward_input},
    .backward_weight_loop = {OVER_FEATURES, backward_weight},
};
