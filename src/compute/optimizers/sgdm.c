/*
 * Gradient descent with momentum as PyTorch's SGD: with d = g + lambda W
 *
 *     b <- d at the first step, mu b + (1 - dampening) d after it;   W <- W - lr b
 *
 * The direction of prediction is b: What = W - (sum of lr) b. With momentum 0 b is the last d (PyTorch then ignores dampening).
 */
#include <string.h>

#include "base/vector.h"
#include "compute/optimizer.h"

struct coefficients {
    float lr, keep, take, decay, lr_sum;
};

static struct coefficients coefficients_of(const struct optimizer_settings *settings, const struct optimizer_call *call) {
    bool fresh = call->step == 1 || settings->momentum == 0;
    return (struct coefficients){
        .lr = (float)call->lr,
        .keep = fresh ? 0 : (float)settings->momentum,
        .take = fresh ? 1 : (float)(1 - settings->dampening),
        .decay = (float)settings->weight_decay,
        .lr_sum = (float)call->ahead.lr_sum,
    };
}

static inline float buffer(const struct coefficients *k, float b, float g, float w) {
    return k->keep * b + k->take * (g + k->decay * w);
}

static VECTOR_CLONES void step(size_t count, const struct coefficients *coefficients, const float *w, const float *g, float *b,
                               float *updated) {
    struct coefficients k = *coefficients;
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        b[i] = buffer(&k, b[i], g[i], w[i]);
        updated[i] = w[i] - k.lr * b[i];
    }
}

static VECTOR_CLONES void step_and_predict(size_t count, const struct coefficients *coefficients, const float *w,
                                           const float *g, float *b, float *updated, float *predicted) {
    struct coefficients k = *coefficients;
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        b[i] = buffer(&k, b[i], g[i], w[i]);
        float new = w[i] - k.lr *b[i];
        updated[i] = new;
        predicted[i] = new - k.lr_sum *b[i];
    }
}

static VECTOR_CLONES void predict_all(size_t count, float lr_sum, const float *w, const float *b, float *predicted) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) predicted[i] = w[i] - lr_sum * b[i];
}

static VECTOR_CLONES void observe_all(size_t count, const struct coefficients *coefficients, const float *w, const float *g,
                                      float *b) {
    struct coefficients k = *coefficients;
    const float *decayed = k.decay == 0 ? g : w; /* the weights may be NULL without weight decay */
#pragma omp simd
    for (size_t i = 0; i < count; i++) b[i] = buffer(&k, b[i], g[i], decayed[i]);
}

static void update(const struct optimizer_settings *settings, const struct optimizer_call *call) {
    struct coefficients k = coefficients_of(settings, call);
    if (call->predicted == NULL)
        step(call->count, &k, call->weights, call->gradient, call->moment[0], call->updated);
    else
        step_and_predict(call->count, &k, call->weights, call->gradient, call->moment[0], call->updated, call->predicted);
}

static void predict(const struct optimizer_settings *settings, const struct optimizer_call *call) {
    (void)settings;
    if (call->step == 0)
        memcpy(call->predicted, call->weights, call->count * sizeof(float));
    else
        predict_all(call->count, (float)call->ahead.lr_sum, call->weights, call->moment[0], call->predicted);
}

static void observe(const struct optimizer_settings *settings, const struct optimizer_call *call) {
    struct coefficients k = coefficients_of(settings, call);
    observe_all(call->count, &k, call->weights, call->gradient, call->moment[0]);
}

const struct optimizer optimizer_sgdm = {
    .name = "sgdm",
    .summary = "gradient descent with momentum",
    .moments = 1,
    .moment_names = {"momentum_buffer"},
    .momentum_settings = true,
    .defaults = {.lr = 0.01, .momentum = 0.9},
    .update = update,
    .predict = predict,
    .observe = observe,
};
