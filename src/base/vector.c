/* The plainest loops there are: the compiler makes them as wide as the machine. */
#include "base/vector.h"

VECTOR_CLONES void vector_add(size_t count, float *restrict y, const float *restrict x) {
    for (size_t i = 0; i < count; i++) y[i] += x[i];
}

VECTOR_CLONES void vector_scale(size_t count, float *y, float factor) {
    for (size_t i = 0; i < count; i++) y[i] *= factor;
}

VECTOR_CLONES void vector_axpy(size_t count, float *restrict y, float factor, const float *restrict x) {
    for (size_t i = 0; i < count; i++) y[i] += factor * x[i];
}

VECTOR_CLONES double vector_squares(size_t count, const float *x) {
    enum { LANES = 16 };
    double lane[LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        for (size_t l = 0; l < LANES; l++) lane[l] += (double)x[i + l] * (double)x[i + l];
    }
    for (size_t l = 0; i + l < count; l++) lane[l] += (double)x[i + l] * (double)x[i + l];
    for (size_t l = 0; l < LANES; l++) sum += lane[l];
    return sum;
}
