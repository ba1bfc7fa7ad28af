/*
 * Group normalisation. x, y (N, P, C) with P positions; gamma, beta (C), 1 and 0 where there are none. For each group of C / G
 * channels of a sample, over these and all positions,
 *
 *     n = (x - mean) inverse,   inverse = 1 / sqrt(variance + epsilon),   y = gamma n + beta
 *     dx = inverse (g - mean(g) - n mean(g n))  with g = gamma dy;   dgamma = sum dy n,  dbeta = sum dy
 */
#include <math.h>

#include "compute/reference/reference.h"

/* A group: its elements are x[p * channels + c], p < positions, c < each, from where it begins. */
struct group {
    size_t channels, positions, each;
    size_t start, channel; /* in x; the first of its channels */
    double mean, inverse;
};

static size_t element(const struct group *g, size_t i) { return g->start + i / g->each * g->channels + i % g->each; }

/* Group `number` of all samples. */
static struct group measure(const struct kernel *kernel, const float *x, size_t number) {
    size_t groups = (size_t)kernel->node->attributes.groups, channels = kernel_features(kernel);
    struct group g = {.channels = channels,
                      .positions = kernel_rows(kernel) / (size_t)kernel->samples,
                      .each = channels / groups,
                      .channel = number % groups * (channels / groups)};
    g.start = number / groups * g.positions * channels + g.channel;
    double sum = 0, squares = 0, count = (double)(g.positions * g.each);
    for (size_t i = 0; i < g.positions * g.each; i++) sum += (double)x[element(&g, i)];
    g.mean = sum / count;
    for (size_t i = 0; i < g.positions * g.each; i++) {
        double distance = (double)x[element(&g, i)] - g.mean;
        squares += distance * distance;
    }
    g.inverse = 1 / sqrt(squares / count + (double)kernel->node->attributes.epsilon);
    return g;
}

static size_t all_groups(const struct kernel *kernel) {
    return (size_t)kernel->samples * (size_t)kernel->node->attributes.groups;
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    const float *x = call->input[0], *gamma = call->weights[0], *beta = call->weights[1];
    for (size_t number = 0; number < all_groups(kernel); number++) {
        struct group g = measure(kernel, x, number);
        for (size_t i = 0; i < g.positions * g.each; i++) {
            size_t at = element(&g, i), c = g.channel + i % g.each;
            double n = ((double)x[at] - g.mean) * g.inverse;
            call->output[at] = (float)(n * (gamma != NULL ? (double)gamma[c] : 1) + (beta != NULL ? (double)beta[c] : 0));
        }
    }
    return PS_OK;
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call) {
    const float *x = call->input[0], *gamma = call->weights[0], *dy = call->output_gradient;
    for (size_t number = 0; number < all_groups(kernel); number++) {
        struct group g = measure(kernel, x, number);
        double sum = 0, product = 0, count = (double)(g.positions * g.each);
        for (int pass = 0; pass < 2; pass++) { /* the second one knows the means */
            for (size_t i = 0; i < g.positions * g.each; i++) {
                size_t at = element(&g, i);
                double n = ((double)x[at] - g.mean) * g.inverse;
                double scaled = (double)dy[at] * (gamma != NULL ? (double)gamma[g.channel + i % g.each] : 1);
                if (pass == 1) call->input_gradient[0][at] = (float)(g.inverse * (scaled - (sum + n * product) / count));
                if (pass == 0) sum += scaled, product += scaled * n;
            }
        }
    }
    return PS_OK;
}

static enum ps_status backward_weight(struct kernel *kernel, const struct kernel_call *call) {
    size_t groups = (size_t)kernel->node->attributes.groups;
    for (size_t c = 0; c < kernel_features(kernel) && call->gradients[0] != NULL; c++) {
        double gamma = 0, beta = 0;
        for (size_t n = 0; n < (size_t)kernel->samples; n++) {
            struct group g = measure(kernel, call->input[0], n * groups + c * groups / kernel_features(kernel));
            for (size_t p = 0; p < g.positions; p++) {
                size_t at = g.start + p * g.channels + c - g.channel;
                double dy = (double)call->output_gradient[at];
                gamma += dy * ((double)call->input[0][at] - g.mean) * g.inverse;
                beta += dy;
            }
        }
        call->gradients[0][c] = (float)gamma;
        if (call->gradients[1] != NULL) call->gradients[1][c] = (float)beta;
    }
    return PS_OK;
}

const struct kernel_class reference_group_norm = {
    .forward = forward, .backward_input = backward_input, .backward_weight = backward_weight};
