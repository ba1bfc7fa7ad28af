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
    enum number_type from_type, to_type;
    const void *from;
    void *to;
    struct random_key key;
    float rate, scale;
    size_t start, least; /* added to the range of drop_range; elements before this one are left alone */
};

/* A whole group: element 4 i + j has word j of block i. */
static VECTOR_CLONES void drop_group(uint32_t words[4][RANDOM_LANES], uint32_t least, float scale, const float *from,
                                     float *to) {
    _Alignas(64) uint32_t word[GROUP];
    for (int i = 0; i < RANDOM_LANES; i++)
        for (int j = 0; j < 4; j++) word[4 * i + j] = words[j][i];
#pragma omp simd
    for (int i = 0; i < GROUP; i++) to[i] = word[i] >= least ? from[i] * scale : 0;
}

static void drop_part(const void *context, size_t first, size_t end) {
    const struct dropout *d = context;
    /* The smallest word with which an element is kept: random_uniform is the upper 24 bits. */
    const uint32_t least = (uint32_t)ceil((double)d->rate * 0x1p24) << 8;
    const size_t from_bytes = number_types[d->from_type].bytes, to_bytes = number_types[d->to_type].bytes;
    const bool floats = d->from_type == TYPE_F32 && d->to_type == TYPE_F32;
    _Alignas(64) uint32_t words[4][RANDOM_LANES];
    for (size_t i = first; i < end; i += GROUP) {
        const size_t skip = i < d->least ? d->least - i : 0, last = end - i < GROUP ? end - i : GROUP;
        const char *from = (const char *)d->from + i * from_bytes;
        char *to = (char *)d->to + i * to_bytes;
        random_blocks(d->key, i / 4, words);
        if (floats && skip == 0 && last == GROUP) {
            drop_group(words, least, d->scale, (const float *)(const void *)from, (float *)(void *)to);
        } else if (skip < last) {
            _Alignas(64) float group[GROUP] = {0};
            numbers_convert(last - skip, TYPE_F32, group + skip, d->from_type, from + skip * from_bytes);
            drop_group(words, least, d->scale, group, group);
            numbers_convert(last - skip, d->to_type, to + skip * to_bytes, TYPE_F32, group + skip);
        }
    }
}

static struct dropout dropout_of(struct random_key key, float rate, enum number_type from_type, const void *from,
                                 enum number_type to_type, void *to) {
    return (struct dropout){from_type, to_type, from, to, key, rate, .scale = 1 / (1 - rate)};
}

static void drop_range(const void *context, size_t first, size_t end) {
    const struct dropout *d = context;
    drop_part(d, d->start + first, d->start + end);
}

void cpu_drop(const struct device *device, struct random_key key, float rate, size_t first, size_t count, enum number_type type,
              const void *from, void *to) {
    const size_t start = first / GROUP * GROUP, before = first * number_types[type].bytes;
    struct dropout dropout =
        dropout_of(key, rate, type, (const void *)((uintptr_t)from - before), type, (void *)((uintptr_t)to - before));
    dropout.start = start;
    dropout.least = first;
    device_parallel(device, first - start + count, 4096, drop_range, &dropout);
}

static void apply(const struct kernel *kernel, const struct kernel_call *call, const struct shape *from_shape,
                  const float *from, const struct shape *to_shape, float *to, size_t first, size_t end) {
    const struct dropout dropout =
        dropout_of(call->key, kernel->node->attributes.rate, from_shape->type, from, to_shape->type, to);
    if (call->training && dropout.rate != 0)
        drop_part(&dropout, first, end);
    else if (to != from)
        cpu_convert(end - first, to_shape, to, from_shape, from, first);
}

static void forward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    apply(kernel, call, kernel_input(kernel, 0), call->input[0], &kernel->node->shape, call->output, first, end);
}

static void backward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    apply(kernel, call, &kernel->node->shape, call->output_gradient, kernel_input(kernel, 0), call->input_gradient[0], first,
          end);
}

const struct kernel_class cpu_dropout = {
    .piecewise = true,
    .forward_loop = {OVER_ELEMENTS, forward, 4096, .typed = true},
    .backward_input_loop = {OVER_ELEMENTS, backward, 4096, .typed = true},
};
