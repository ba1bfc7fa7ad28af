/*
 * Local response normalisation (see the operator) in loops along the channels, which are contiguous; the sums over a window are
 * added one distance from the channel at a time. Inner memory holds the scales s for the backward.
 *
 *     s[c] = shift + alpha / window sum of x^2,   y[c] = x[c] s[c]^-beta
 *     dx[j] = dy[j] s[j]^-beta - 2 alpha beta / window x[j] sum over the c whose window has j of dy[c] x[c] s[c]^(-beta - 1)
 */
#include <math.h>
#include <omp.h>

#include "base/memory.h"
#include "compute/cpu/cpu.h"

/* Two vectors for each thread. */
static size_t scratch_bytes(size_t channels) { return memory_align(channels * sizeof(float)); }

static float *scratch_of(const struct kernel *kernel, const struct kernel_call *call, int number) {
    size_t vector = 2 * (size_t)omp_get_thread_num() + (size_t)number;
    return (float *)(void *)((char *)call->workspace + vector * scratch_bytes(kernel_features(kernel)));
}

static void set_sizes(struct kernel *kernel) {
    kernel->inner_bytes = (int64_t)(kernel_elements(kernel) * sizeof(float));
    kernel->workspace_bytes = 2 * kernel->device->threads * (int64_t)scratch_bytes(kernel_features(kernel));
}

/* powers[c] = s[c]^-beta; the usual beta needs square roots only. */
static VECTOR_CLONES void take_powers(size_t channels, float beta, const float *restrict s, float *restrict powers) {
    if (beta == 0.75f) {
        for (size_t c = 0; c < channels; c++) {
            float root = sqrtf(s[c]);
            powers[c] = 1 / (root * sqrtf(root));
        }
    } else {
        for (size_t c = 0; c < channels; c++) powers[c] = powf(s[c], -beta);
    }
}

/* sums[c] = terms[c - before] + ... + terms[c + after], where they are. */
static VECTOR_CLONES void add_window(size_t channels, size_t before, size_t after, const float *restrict terms,
                                     float *restrict sums) {
    for (size_t c = 0; c < channels; c++) sums[c] = terms[c];
    for (size_t distance = 1; distance <= before && distance < channels; distance++) {
        for (size_t c = distance; c < channels; c++) sums[c] += terms[c - distance];
    }
    for (size_t distance = 1; distance <= after && distance < channels; distance++) {
        for (size_t c = 0; c < channels - distance; c++) sums[c] += terms[c + distance];
    }
}

static VECTOR_CLONES void square(size_t channels, const float *restrict x, float *restrict squares) {
    for (size_t c = 0; c < channels; c++) squares[c] = x[c] * x[c];
}

static VECTOR_CLONES void finish_scales(size_t channels, float shift, float factor, float *restrict s) {
    for (size_t c = 0; c < channels; c++) s[c] = shift + factor * s[c];
}

static VECTOR_CLONES void multiply(size_t channels, const float *restrict a, const float *restrict b, float *restrict product) {
    for (size_t c = 0; c < channels; c++) product[c] = a[c] * b[c];
}

static void forward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    const struct attributes *a = &kernel->node->attributes;
    size_t before = (size_t)a->window / 2, after = (size_t)(a->window - 1) / 2, channels = kernel_features(kernel);
    float *terms = scratch_of(kernel, call, 0);
    for (size_t row = first; row < end; row++) {
        const float *x = call->input[0] + row * channels;
        float *s = call->inner + row * channels;
        square(channels, x, terms);
        add_window(channels, before, after, terms, s);
        finish_scales(channels, a->shift, a->alpha / (float)a->window, s);
        take_powers(channels, a->beta, s, terms);
        multiply(channels, x, terms, call->output + row * channels);
    }
}

/* dy s^-beta into dx, and the terms of the sums. */
static VECTOR_CLONES void start_gradient(size_t channels, const float *restrict x, const float *restrict dy,
                                         const float *restrict s, const float *restrict powers, float *restrict dx,
                                         float *restrict terms) {
    for (size_t c = 0; c < channels; c++) {
        dx[c] = dy[c] * powers[c];
        terms[c] = dx[c] * x[c] / s[c];
    }
}

static VECTOR_CLONES void finish_gradient(size_t channels, float factor, const float *restrict x, const float *restrict sums,
                                          float *restrict dx) {
    for (size_t c = 0; c < channels; c++) dx[c] -= factor * x[c] * sums[c];
}

static void backward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    const struct attributes *a = &kernel->node->attributes;
    size_t before = (size_t)a->window / 2, after = (size_t)(a->window - 1) / 2, channels = kernel_features(kernel);
    float *powers = scratch_of(kernel, call, 0), *terms = scratch_of(kernel, call, 1);
    float factor = 2 * a->alpha * a->beta / (float)a->window;
    for (size_t row = first; row < end; row++) {
        const float *x = call->input[0] + row * channels, *s = call->inner + row * channels;
        float *dx = call->input_gradient[0] + row * channels;
        take_powers(channels, a->beta, s, powers);
        start_gradient(channels, x, call->output_gradient + row * channels, s, powers, dx, terms);
        add_window(channels, after, before, terms, powers); /* the windows that have j are those around j mirrored */
        finish_gradient(channels, factor, x, powers, dx);
    }
}

const struct kernel_class cpu_local_response_norm = {
    .set_sizes = set_sizes,
    .piecewise = true,
    .forward_loop = {OVER_ROWS, forward, 16},
    .backward_input_loop = {OVER_ROWS, backward, 16},
};
