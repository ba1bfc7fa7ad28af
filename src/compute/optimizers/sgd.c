/*
 * Stochastic gradient descent as PyTorch's SGD without momentum: W <- W - lr (g + lambda W).
 *
 * It has no state and so no direction of prediction: weight policies that predict use sgdm with momentum 0, which computes the
 * same and keeps the last gradient.
 */
#include <assert.h>

#include "base/vector.h"
#include "compute/optimizer.h"

static VECTOR_CLONES void descend(size_t count, float lr, float decay, const float *w, const float *g, float *updated) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) updated[i] = w[i] - lr * (g[i] + decay * w[i]);
}

static void update(const struct optimizer_settings *settings, const struct optimizer_call *call) {
    assert(call->predicted == NULL);
    descend(call->count, (float)call->lr, (float)settings->weight_decay, call->weights, call->gradient, call->updated);
}

const struct optimizer optimizer_sgd = {
    .name = "sgd",
    .summary = "gradient descent without momentum",
    .moments = 0,
    .defaults = {.lr = 0.01},
    .update = update,
};
