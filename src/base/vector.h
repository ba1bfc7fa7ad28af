/*
 * Elementwise loops over arrays of floats, and how such loops are compiled.
 *
 * A function marked VECTOR_CLONES is compiled for several CPUs, and the dynamic loader selects one. All of them compute the
 * same bits: the loops are elementwise, and multiplication and addition are never contracted (-ffp-contract=off).
 */
#ifndef PENSTOCK_BASE_VECTOR_H
#define PENSTOCK_BASE_VECTOR_H

#include <stddef.h>

/* Needs GCC (clang 14 has no target_clones) and a loader that knows ifunc (glibc's). Selected by features, not by arch=NAME:
 * that matches only this CPU, and a newer one would use the default. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__) && !defined(PENSTOCK_NO_CLONES)
#define VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#define VECTOR_CLONED
#else
#define VECTOR_CLONES
#endif

/* y[i] += x[i]; here and below they do not overlap */
void vector_add(size_t count, float *y, const float *x);
/* y[i] *= factor */
void vector_scale(size_t count, float *y, float factor);
/* Sum of x[i] * x[i], in double: sixteen interleaved partial sums, added in order at the end. */
double vector_squares(size_t count, const float *x);
/* y[i] += factor * x[i] */
void vector_axpy(size_t count, float *y, float factor, const float *x);
/* Sums of x[i], of x[i] y[i], of (x[i] - centre)^2: in sixteen lanes on every machine, so the bits are the same everywhere. */
float vector_sum(size_t count, const float *x);
float vector_dot(size_t count, const float *x, const float *y);
float vector_distance(size_t count, const float *x, float centre);

#endif
