/*
 * Adam (Kingma and Ba, 2015) and AdamW (Loshchilov and Hutter, 2019), whose weight decay is decoupled, as PyTorch's. With
 * d = g + lambda W (adam) or d = g (adamw), at update t
 *
 *     m <- b1 m + (1 - b1) d,   v <- b2 v + (1 - b2) d^2
 *     q = m / (sqrt(v) / sqrt(1 - b2^t) + eps)
 *     W <- (1 - lr lambda) W - lr / (1 - b1^t) q        (adam: without the factor)
 *
 * The direction of prediction is q / (1 - b1^t), that is the bias-corrected m over the root of the bias-corrected v: What =
 * (product of 1 - lr lambda) W - (sum of lr) / (1 - b1^t) q.
 */
#include <math.h>
#include <string.h>

#include "base/vector.h"
#include "compute/optimizer.h"

struct coefficients {
    float beta1, rest1, beta2, rest2, decay; /* decay: the coupled one */
    float root_factor, eps;                  /* 1 / sqrt(1 - b2^t) */
    float shrink, step;                      /* of the update */
    float ahead_shrink, ahead_step;          /* of the prediction */
};

static struct coefficients coefficients_of(const struct optimizer_settings *s, const struct optimizer_call *call,
                                           bool decoupled) {
    double correction1 = 1 - pow(s->beta1, (double)call->step), correction2 = 1 - pow(s->beta2, (double)call->step);
    return (struct coefficients){
        .beta1 = (float)s->beta1,
        .rest1 = (float)(1 - s->beta1),
        .beta2 = (float)s->beta2,
        .rest2 = (float)(1 - s->beta2),
        .decay = decoupled ? 0 : (float)s->weight_decay,
        .root_factor = (float)(1 / sqrt(correction2)),
        .eps = (float)s->eps,
        .shrink = decoupled ? (float)(1 - call->lr * s->weight_decay) : 1,
        .step = (float)(call->lr / correction1),
        .ahead_shrink = decoupled ? (float)call->ahead.decay_product : 1,
        .ahead_step = (float)(call->ahead.lr_sum / correction1),
    };
}

static inline float direction(const struct coefficients *k, float m, float v) {
    return m / (sqrtf(v) * k->root_factor + k->eps);
}

static VECTOR_CLONES void step(size_t count, const struct coefficients *coefficients, const float *w, const float *g, float *m,
                               float *v, float *updated) {
    struct coefficients k = *coefficients;
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float d = g[i] + k.decay * w[i];
        m[i] = k.beta1 * m[i] + k.rest1 * d;
        v[i] = k.beta2 * v[i] + k.rest2 * d * d;
        updated[i] = w[i] * k.shrink - k.step * direction(&k, m[i], v[i]);
    }
}

static VECTOR_CLONES void step_and_predict(size_t count, const struct coefficients *coefficients, const float *w,
                                           const float *g, float *m, float *v, float *updated, float *predicted) {
    struct coefficients k = *coefficients;
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float d = g[i] + k.decay * w[i];
        m[i] = k.beta1 * m[i] + k.rest1 * d;
        v[i] = k.beta2 * v[i] + k.rest2 * d * d;
        float q = direction(&k, m[i], v[i]), new = w[i] * k.shrink - k.step *q;
        updated[i] = new;
        predicted[i] = new *k.ahead_shrink - k.ahead_step *q;
    }
}

static VECTOR_CLONES void predict_all(size_t count, const struct coefficients *coefficients, const float *w, const float *m,
                                      const float *v, float *predicted) {
    struct coefficients k = *coefficients;
#pragma omp simd
    for (size_t i = 0; i < count; i++) predicted[i] = w[i] * k.ahead_shrink - k.ahead_step * direction(&k, m[i], v[i]);
}

static VECTOR_CLONES void observe_all(size_t count, const struct coefficients *coefficients, const float *w, const float *g,
                                      float *m, float *v) {
    struct coefficients k = *coefficients;
    const float *decayed = k.decay == 0 ? g : w; /* not read without weight decay */
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float d = g[i] + k.decay * decayed[i];
        m[i] = k.beta1 * m[i] + k.rest1 * d;
        v[i] = k.beta2 * v[i] + k.rest2 * d * d;
    }
}

/* `decoupled`: the decay is applied to the weights directly; otherwise it is part of the gradient. */
static void update(const struct optimizer_settings *settings, const struct optimizer_call *call, bool decoupled) {
    struct coefficients k = coefficients_of(settings, call, decoupled);
    float *m = call->moment[0], *v = call->moment[1];
    if (call->predicted == NULL)
        step(call->count, &k, call->weights, call->gradient, m, v, call->updated);
    else
        step_and_predict(call->count, &k, call->weights, call->gradient, m, v, call->updated, call->predicted);
}

static void predict(const struct optimizer_settings *settings, const struct optimizer_call *call, bool decoupled) {
    if (call->step == 0) {
        memcpy(call->predicted, call->weights, call->count * sizeof(float));
        return;
    }
    struct coefficients k = coefficients_of(settings, call, decoupled);
    predict_all(call->count, &k, call->weights, call->moment[0], call->moment[1], call->predicted);
}

/* With coupled decay the weights are read; without decay they may be NULL. */
static void observe(const struct optimizer_settings *settings, const struct optimizer_call *call, bool decoupled) {
    struct coefficients k = coefficients_of(settings, call, decoupled);
    observe_all(call->count, &k, call->weights, call->gradient, call->moment[0], call->moment[1]);
}

#define ADAM(NAME, DECOUPLED, DECAY, SUMMARY)                                                                                  \
    static void NAME##_update(const struct optimizer_settings *settings, const struct optimizer_call *call) {                  \
        update(settings, call, DECOUPLED);                                                                                     \
    }                                                                                                                          \
    static void NAME##_predict(const struct optimizer_settings *settings, const struct optimizer_call *call) {                 \
        predict(settings, call, DECOUPLED);                                                                                    \
    }                                                                                                                          \
    static void NAME##_observe(const struct optimizer_settings *settings, const struct optimizer_call *call) {                 \
        observe(settings, call, DECOUPLED);                                                                                    \
    }                                                                                                                          \
    const struct optimizer optimizer_##NAME = {                                                                                \
        .name = #NAME,                                                                                                         \
        .summary = SUMMARY,                                                                                                    \
        .moments = 2,                                                                                                          \
        .moment_names = {"exp_avg", "exp_avg_sq"},                                                                             \
        .adam_settings = true,                                                                                                 \
        .defaults = {.lr = 0.001, .weight_decay = DECAY, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},                           \
        .update = NAME##_update,                                                                                               \
        .predict = NAME##_predict,                                                                                             \
        .observe = NAME##_observe,                                                                                             \
    }
ADAM(adam, false, 0, "Adam; weight decay as part of the gradient");
ADAM(adamw, true, 0.01, "Adam with decoupled weight decay");
