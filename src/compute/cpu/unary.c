/* The functions of graph/functions.def that have one argument, as loops. */
#include "compute/cpu/functions.h"

typedef void row_function(size_t count, float *result, const float *from, const float *dy, float alpha, float beta);

/* The value of x, and dy times the slope, which is made of x or of y: of what `from` has. */
#define UNARY(NAME, name, value, slope, reads, flops)                                                                          \
    static VECTOR_CLONES void name##_value(size_t count, float *result, const float *from, const float *dy, float alpha,       \
                                           float beta) {                                                                       \
        (void)dy, (void)alpha, (void)beta;                                                                                     \
        _Pragma("omp simd") for (size_t i = 0; i < count; i++) {                                                               \
            const float x = from[i];                                                                                           \
            result[i] = (float)(value);                                                                                        \
        }                                                                                                                      \
    }                                                                                                                          \
    static VECTOR_CLONES void name##_slope(size_t count, float *result, const float *from, const float *dy, float alpha,       \
                                           float beta) {                                                                       \
        (void)alpha, (void)beta;                                                                                               \
        _Pragma("omp simd") for (size_t i = 0; i < count; i++) {                                                               \
            const float x = from[i], y = x;                                                                                    \
            (void)x, (void)y;                                                                                                  \
            result[i] = dy[i] * (float)(slope);                                                                                \
        }                                                                                                                      \
    }
#include "graph/functions.def"

static const struct {
    row_function *value, *slope;
} kinds[] = {
#define UNARY(NAME, name, value, slope, reads, flops) {name##_value, name##_slope},
#include "graph/functions.def"
};

static void forward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    const struct attributes *a = &kernel->node->attributes;
    kinds[a->kind].value(end - first, call->output + first, call->input[0] + first, NULL, a->alpha, a->beta);
}

static void backward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    const struct attributes *a = &kernel->node->attributes;
    const float *dy = call->output_gradient, *from = call->input[0] != NULL ? call->input[0] : call->output;
    if (from == NULL) from = dy; /* the slope reads nothing */
    kinds[a->kind].slope(end - first, call->input_gradient[0] + first, from + first, dy + first, a->alpha, a->beta);
}

const struct kernel_class cpu_unary = {
    .piecewise = true,
    .forward_loop = {OVER_ELEMENTS, forward, 1024},
    .backward_input_loop = {OVER_ELEMENTS, backward, 1024},
};
