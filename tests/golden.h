/* What the tests against PyTorch share: weights and data by the formula that golden/make_goldens.py has too. */
#ifndef PENSTOCK_TESTS_GOLDEN_H
#define PENSTOCK_TESTS_GOLDEN_H

#include <math.h>

#include "chain.h"

static inline uint32_t name_hash(const char *name) {
    uint32_t value = 0x811C9DC5u;
    for (; *name != '\0'; name++) value = (value ^ (unsigned char)*name) * 0x01000193u;
    return value;
}

/* Element `i` of what is called `name`: centre + amplitude * u, u in [-1, 1). */
static inline float number(uint32_t hash, int64_t i, double amplitude, double centre) {
    uint32_t x = (uint32_t)i * 0x9E3779B1u + hash;
    x = (x ^ x >> 16) * 0x7FEB352Du;
    x = (x ^ x >> 15) * 0x846CA68Bu;
    x ^= x >> 16;
    return (float)(centre + amplitude * ((double)(x >> 8) * 0x1p-23 - 1.0));
}

enum golden_norms { NORMS_PLAIN, NORMS_CALM /* little scale, each channel well to one side of 0 */ };

static inline float parameter_number(const struct parameter *parameter, enum golden_norms norms, uint32_t hash, int64_t i) {
    const struct shape *shape = &parameter->shape;
    bool constant = shape->rank == 1 && parameter->initial.kind == INITIAL_CONSTANT;
    if (shape->rank > 1) return number(hash, i, sqrt(6.0 / (double)(shape_elements(shape) / shape->dim[0])), 0);
    if (constant && parameter->initial.value == 1)
        return norms == NORMS_CALM ? number(hash, i, 0.05, 0.25) : number(hash, i, 0.1, 1);
    if (norms == NORMS_PLAIN) return number(hash, i, 0.1, 0);
    double u = (double)number(hash, i, 1, 0);
    return (float)((u < 0 ? -1 : 1) + 0.5 * u);
}

static inline void fill_parameters(struct chain *chain, enum golden_norms norms) {
    struct stage *stage = chain->stages[0];
    int scale = -2; /* the parameter before, if it is a normalisation's scale: its shift follows */
    for (int p = 0; p < stage_parameter_count(stage); p++) {
        const struct parameter *parameter = stage_parameter(stage, p);
        if (parameter->role == PARAMETER_STATISTIC) continue;
        bool one = parameter->initial.kind == INITIAL_CONSTANT && parameter->initial.value == 1;
        enum golden_norms own = one || scale == p - 1 ? norms : NORMS_PLAIN;
        if (one) scale = p;
        int64_t count = shape_elements(&parameter->shape);
        float *values = malloc((size_t)count * sizeof *values);
        assert_non_null(values);
        uint32_t hash = name_hash(parameter->name);
        for (int64_t i = 0; i < count; i++) values[i] = parameter_number(parameter, own, hash, i);
        assert_ok(stage_import(stage, p, values, chain->weights[0], chain->blocks[0][0].statistics, &test_error));
        free(values);
    }
}

/* The formula counts in PyTorch's order N, C, H, W; memory is N, H, W, C. */
static inline void fill_data(struct chain *chain, const char *name) {
    const int64_t *dim = chain->graph->nodes[0].shape.dim, positions = dim[1] * dim[2];
    uint32_t hash = name_hash(name);
    float *data = chain->blocks[0][0].input;
    for (int64_t n = 0; n < chain->samples; n++) {
        for (int64_t p = 0; p < positions; p++) {
            for (int64_t c = 0; c < dim[0]; c++) {
                data[(n * positions + p) * dim[0] + c] = number(hash, (n * dim[0] + c) * positions + p, 1, 0);
            }
        }
    }
}

static inline void assert_near(const char *what, const char *name, double wanted, double got, double scale) {
    if (fabs(got - wanted) <= 1e-4 * scale) return;
    fail_msg("%s of %s is %.9g, not %.9g (scale %.3g)", what, name, got, wanted, scale);
}

#endif
