/*
 * Dropout: element i is kept where random_uniform(key, i) >= rate, and then multiplied by 1 / (1 - rate). The backward does the
 * same to the gradient with the same numbers. Random numbers are drawn in groups; the result equals the reference device's, bit
 * by bit. Outside of training it is the identity.
 */
#include <math.h>
#include <string.h>

#include "compute/cpu/cpu.h"

enum { GROUP = 4 * RANDOM_LANES }; /* elements whose random numbers are drawn together */

struct dropout {
    const float *from;
    float *to;
    struct random_key key;
    float rate, scale;
    size_t start, least; /* added to the range of drop_range; elements before this one are left alone */
};

/* A whole group: element 4 i + j has word j of block i. */
static VECTOR_CLONES void drop_group(uint32_t words[4][RANDOM_LANES], uint32_t least, float scale, const float *from,
                                     float *to) {
    uint32_t word[GROUP];
    for (int i = 0; i < RANDOM_LANES; i++)
        for (int j = 0; j < 4; j++) word[4 * i + j] = words[j][i];
#pragma omp simd
    for (int i = 0; i < GROUP; i++) to[i] = word[i] >= least ? from[i] * scale : 0;
}

static void drop_part(const void *context, size_t first, size_t end) {
    const struct dropout *d = context;
    /* The smallest word with which an element is kept: random_uniform is the upper 24 bits. */
    const uint32_t least = (uint32_t)ceil((double)d->rate * 0x1p24) << 8;
    uint32_t words[4][RANDOM_LANES];
    for (size_t i = first; i < end; i += GROUP) {
        random_blocks(d->key, i / 4, words);
        if (i >= d->least && end - i >= GROUP) {
            drop_group(words, least, d->scale, d->from + i, d->to + i);
            continue;
        }
        for (size_t j = i < d->least ? d->least - i : 0; j < GROUP && i + j < end; j++)
            d->to[i + j] = words[j % 4][j / 4] >= least ? d->from[i + j] * d->scale : 0;
    }
}

static struct dropout dropout_of(struct random_key key, float rate, const float *from, float *to) {
    return (struct dropout){.from = from, .to = to, .key = key, .rate = rate, .scale = 1 / (1 - rate)};
}

static void drop_range(const void *context, size_t first, size_t end) {
    const struct dropout *d = context;
    drop_part(d, d->start + first, d->start + end);
}

void cpu_drop(const struct device *device, struct random_key key, float rate, size_t first, size_t count, const float *from,
              float *to) {
    const size_t start = first / GROUP * GROUP;
    struct dropout dropout = dropout_of(key, rate, (const float *)((uintptr_t)from - first * sizeof *from),
                                        (float *)((uintptr_t)to - first * sizeof *to));
    dropout.start = start;
    dropout.least = first;
    device_parallel(device, first - start + count, 4096, drop_range, &dropout);
}

static void apply(const struct kernel *kernel, const struct kernel_call *call, const float *from, float *to, size_t first,
                  size_t end) {
    const struct dropout dropout = dropout_of(call->key, kernel->node->attributes.rate, from, to);
    if (call->training && dropout.rate != 0)
        drop_part(&dropout, first, end);
    else if (to != from)
        memcpy(to + first, from + first, (end - first) * sizeof *to);
}

static void forward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    apply(kernel, call, call->input[0], call->output, first, end);
}

static void backward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    apply(kernel, call, call->output_gradient, call->input_gradient[0], first, end);
}

const struct kernel_class cpu_dropout = {
    .piecewise = true,
    .forward_loop = {OVER_ELEMENTS, forward, 4096},
    .backward_input_loop = {OVER_ELEMENTS, backward, 4096},
};
