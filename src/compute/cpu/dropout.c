/*
 * Dropout: element i is kept where random_uniform(key, i) >= rate, and then multiplied by 1 / (1 - rate). The backward does the
 * same to the gradient with the same numbers. Random numbers come four at a time; the result is the reference device's, bit by
 * bit. Outside of training it is the identity.
 */
#include <string.h>

#include "compute/cpu/cpu.h"

struct dropout {
    const float *from;
    float *to;
    struct random_key key;
    float rate, scale;
};

static void drop_part(const void *context, int part, size_t first, size_t end) {
    (void)part;
    const struct dropout *d = context;
    for (size_t i = first; i < end; i += 4) {
        uint32_t words[4];
        random_block(d->key, i / 4, words);
        for (size_t j = 0; j < 4 && i + j < end; j++) {
            float uniform = (float)(words[j] >> 8) * 0x1p-24f;
            d->to[i + j] = uniform >= d->rate ? d->from[i + j] * d->scale : 0;
        }
    }
}

void cpu_drop(const struct device *device, struct random_key key, float rate, size_t count, const float *from, float *to) {
    struct dropout dropout = {.from = from, .to = to, .key = key, .rate = rate, .scale = 1 / (1 - rate)};
    cpu_parallel(device, count, 4096, drop_part, &dropout);
}

static void apply(struct kernel *kernel, const struct kernel_call *call, const float *from, float *to) {
    float rate = plain_of(kernel)->node->attributes.rate;
    size_t count = plain_elements(kernel);
    if (!call->training || rate == 0) {
        if (to != from) memcpy(to, from, count * sizeof *to);
        return;
    }
    cpu_drop(plain_of(kernel)->device, call->key, rate, count, from, to);
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    apply(kernel, call, call->input[0], call->output);
    return PS_OK;
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    apply(kernel, call, call->output_gradient, call->input_gradient[0]);
    return PS_OK;
}

const struct kernel_class cpu_dropout = {
    .create = plain_create,
    .destroy = plain_destroy,
    .forward = forward,
    .backward_input = backward_input,
};
