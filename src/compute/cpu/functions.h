/* What the formulas of graph/functions.def are made of, in single precision. Those that the C library computes one element
 * after the other are rare. */
#ifndef PENSTOCK_COMPUTE_CPU_FUNCTIONS_H
#define PENSTOCK_COMPUTE_CPU_FUNCTIONS_H

#include <math.h>

#include "compute/cpu/activation.h"
#include "compute/cpu/cpu.h"

#define NUMBER(constant) (constant##f)
#define SELU_ALPHA NUMBER(1.67326324235437728)
#define SELU_SCALE NUMBER(1.05070098735548049)
#define EXP activation_exp
#define LOG activation_log
#define TANH activation_tanh
#define SIGMOID activation_sigmoid
#define POWER function_power
#define SQRT sqrtf
#define ABS fabsf
#define FLOOR floorf
#define CEIL ceilf
#define RINT rintf
#define ERF erff
#define SIN sinf
#define COS cosf
#define TAN tanf
#define ASIN asinf
#define ACOS acosf
#define ATAN atanf
#define SINH sinhf
#define COSH coshf
#define ASINH asinhf
#define ACOSH acoshf
#define ATANH atanhf
#define SIGN(x) ((float)((x) > 0) - (float)((x) < 0))
#define CLIP function_clip
#define SOFTPLUS function_softplus

/* A NaN stays a NaN. */
static inline float function_clip(float least, float x, float largest) { return x < least ? least : x > largest ? largest : x; }

static inline float function_softplus(float x) { return (x > 0 ? x : 0) + activation_log(1.0f + activation_exp(-fabsf(x))); }

static inline float function_power(float x, float power) {
    return power == 2 ? x * x : power == 1 ? x : power == 0.5f ? sqrtf(x) : powf(x, power);
}

#endif
