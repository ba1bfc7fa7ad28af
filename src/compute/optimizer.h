/*
 * Optimizers: elementwise rules over a stage's flat blocks, exactly as PyTorch defines them, and the prediction of weights s
 * updates ahead by the same rule (PipeOptim, section IV). They belong to `compute` because a device runs them.
 *
 * An update reads the gradient and the weights once and writes the new weights, the moments and, on request, the predicted
 * weights and a copy of the new ones in the same pass over memory.
 */
#ifndef PENSTOCK_COMPUTE_OPTIMIZER_H
#define PENSTOCK_COMPUTE_OPTIMIZER_H

#include "base/error.h"
#include "base/number_type.h"

enum { OPTIMIZER_MOMENTS_MAX = 2 };

struct optimizer_settings {
    double lr, momentum, dampening, weight_decay, beta1, beta2, eps;
};

/* With what the weights `s` updates ahead are computed. */
struct optimizer_ahead {
    double lr_sum;        /* sum of the learning rates of those s updates */
    double decay_product; /* product of (1 - lr * weight_decay) over them; used by decoupled weight decay only */
};

struct optimizer_call {
    size_t count; /* floats */
    const float *weights;
    float *updated;                       /* may be == weights; unused by predict */
    const float *gradient;                /* unused by predict */
    float *moment[OPTIMIZER_MOMENTS_MAX]; /* zero before the first update */
    void *predicted;                      /* NULL: no prediction */
    void *copy;                           /* a copy of the updated weights besides; NULL: none. `updated` is the master then */
    enum number_type type; /* of the elements of `predicted` and `copy`: f32, or bf16, rounded to nearest even. The functions
                              of struct optimizer are called with f32 and without a copy */
    double lr;             /* of this update */
    int64_t step;          /* updates done, this one included (first update: 1). predict: updates done so far; with 0 the
                              prediction is a copy */
    struct optimizer_ahead ahead;
};

struct optimizer {
    const char *name, *summary;
    int moments;                                     /* blocks of state as large as the weights */
    const char *moment_names[OPTIMIZER_MOMENTS_MAX]; /* their names in files: PyTorch's */
    bool momentum_settings;                          /* takes momentum and dampening */
    bool adam_settings;                              /* takes beta1, beta2, eps */
    struct optimizer_settings defaults;
    /* updated = rule(weights, gradient, moments); predicted (if not NULL) = updated, moved `ahead`. */
    void (*update)(const struct optimizer_settings *settings, const struct optimizer_call *call);
    /* predicted = weights, moved `ahead` in the direction of the moments. */
    void (*predict)(const struct optimizer_settings *settings, const struct optimizer_call *call);
    /* Only updates the moments with `gradient` (XPipe keeps Adam's moments in addition to another optimizer's). NULL if moments
     * == 0. */
    void (*observe)(const struct optimizer_settings *settings, const struct optimizer_call *call);
};

/* rule->update or rule->predict over all elements, in pieces that stay in the cache. Are all updated weights finite? */
bool optimizer_run(const struct optimizer *rule, const struct optimizer_settings *settings, const struct optimizer_call *call,
                   bool predict_only);
/* The same call from element `first` on, for `count` of them. */
struct optimizer_call optimizer_part(const struct optimizer_call *call, size_t first, size_t count);

extern const struct optimizer *const optimizer_table[]; /* NULL-terminated */
/* PS_USAGE, with the nearest name, where there is none. */
enum ps_status optimizer_find(const char *name, const struct optimizer **optimizer, struct ps_error *error);

#endif
