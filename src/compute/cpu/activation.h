/*
 * exp, log, tanh and the logistic function as a few multiplications, so that compilers vectorise loops over them (the C
 * library's functions would be called for each element). Polynomials of Cephes' expf, logf and tanhf (S. Moshier, 1992); errors
 * below 3 units in the last place. The same bits on every CPU, since nothing is contracted to fused multiply-add.
 */
#ifndef PENSTOCK_COMPUTE_CPU_ACTIVATION_H
#define PENSTOCK_COMPUTE_CPU_ACTIVATION_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* x is clamped to +-87, where the result is a normal number; NaN stays NaN. */
static inline float activation_exp(float x) {
    x = x > 87.0f ? 87.0f : x;
    x = x < -87.0f ? -87.0f : x;
    float shifted = x * 1.44269504f + 12582912.0f; /* 1.5 * 2^23: the nearest integer is in the low bits */
    float n = shifted - 12582912.0f;
    float r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    uint32_t bits; /* of 2^n: n from the low bits of `shifted` into the exponent */
    float power;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits - 0x4b400000u + 127u) << 23;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

/* Of 0 it is -infinity, of negative numbers NaN. */
static inline float activation_log(float x) {
    uint32_t bits;
    float m;
    memcpy(&bits, &x, sizeof bits);
    uint32_t half = (bits & 0x7fffffu) | 0x3f000000u; /* x = m 2^e, m from 1/2 to 1 */
    memcpy(&m, &half, sizeof m);
    float e = (float)((int32_t)(bits >> 23) - 126);
    e = m < 0.707106781f ? e - 1.0f : e;
    m = m < 0.707106781f ? m + m - 1.0f : m - 1.0f;
    float square = m * m, p = 7.0376836292e-2f;
    p = p * m - 1.1514610310e-1f;
    p = p * m + 1.1676998740e-1f;
    p = p * m - 1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m - 1.6668057665e-1f;
    p = p * m + 2.0000714765e-1f;
    p = p * m - 2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    p = p * m * square - 2.12194440e-4f * e - 0.5f * square + m + 0.693359375f * e;
    p = x > 0 ? p : x == 0 ? -INFINITY : NAN;
    return x < INFINITY ? p : x;
}

static inline float activation_sigmoid(float x) { return 1.0f / (1.0f + activation_exp(-x)); }

static inline float activation_tanh(float x) {
    float size = x < 0 ? -x : x, square = x * x;
    float p = -5.70498872745e-3f;
    p = p * square + 2.06390887954e-2f;
    p = p * square - 5.37397155531e-2f;
    p = p * square + 1.33314422036e-1f;
    p = p * square - 3.33332819422e-1f;
    float small = p * square * x + x, large = 1.0f - 2.0f / (activation_exp(2.0f * size) + 1.0f);
    large = x < 0 ? -large : large;
    return size < 0.625f ? small : large;
}

#endif
