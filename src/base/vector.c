/* Plain loops: the compiler vectorises them for each machine. */
#include "base/vector.h"

#include <string.h>

VECTOR_CLONES void vector_add(size_t count, float *restrict y, const float *restrict x) {
    for (size_t i = 0; i < count; i++) y[i] += x[i];
}

VECTOR_CLONES void vector_scale(size_t count, float *y, float factor) {
    for (size_t i = 0; i < count; i++) y[i] *= factor;
}

VECTOR_CLONES void vector_axpy(size_t count, float *restrict y, float factor, const float *restrict x) {
    for (size_t i = 0; i < count; i++) y[i] += factor * x[i];
}

/* Sixteen partial sums; the compiler maps them to the machine's registers. */
enum { LANES = 16 };
typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));

static float add_lanes(const lanes *sums) {
    float lane[LANES];
    memcpy(lane, sums, sizeof lane);
    for (int half = LANES / 2; half > 0; half /= 2) {
        for (int j = 0; j < half; j++) lane[j] += lane[j + half];
    }
    return lane[0];
}

/* Loads the next elements, and `rest` after the last one. */
static inline void load_lanes(lanes *into, const float *x, size_t left, float rest) {
    if (left >= LANES) {
        memcpy(into, x, sizeof *into);
        return;
    }
    float lane[LANES];
    for (size_t j = 0; j < LANES; j++) lane[j] = j < left ? x[j] : rest;
    memcpy(into, lane, sizeof *into);
}

VECTOR_CLONES float vector_sum(size_t count, const float *x) {
    lanes sums = {0}, a;
    for (size_t i = 0; i < count; i += LANES) {
        load_lanes(&a, x + i, count - i, 0);
        sums += a;
    }
    return add_lanes(&sums);
}

VECTOR_CLONES float vector_dot(size_t count, const float *x, const float *y) {
    lanes sums = {0}, a, b;
    for (size_t i = 0; i < count; i += LANES) {
        load_lanes(&a, x + i, count - i, 0);
        load_lanes(&b, y + i, count - i, 0);
        sums += a * b;
    }
    return add_lanes(&sums);
}

VECTOR_CLONES float vector_distance(size_t count, const float *x, float centre) {
    lanes sums = {0}, a;
    for (size_t i = 0; i < count; i += LANES) {
        load_lanes(&a, x + i, count - i, centre);
        a -= centre;
        sums += a * a;
    }
    return add_lanes(&sums);
}

VECTOR_CLONES double vector_squares(size_t count, const float *x) {
    double lane[LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        for (size_t l = 0; l < LANES; l++) lane[l] += (double)x[i + l] * (double)x[i + l];
    }
    for (size_t l = 0; i + l < count; l++) lane[l] += (double)x[i + l] * (double)x[i + l];
    for (size_t l = 0; l < LANES; l++) sum += lane[l];
    return sum;
}
