/*
 * Functions of one to three arguments, each of which may be repeated along some sides (compute/broadcast.h): y[i] is VALUE of
 * the arguments' numbers at their places AT_0(i), AT_1(i), AT_2(i). The gradient of an argument is the sum of TERM_k over the
 * elements that it was repeated for. The host (functions.c) defines besides:
 *
 *   VALUE, TERM_k       formulas: of a (also named x), b and c, the arguments' numbers; TERM_k of y and dy, too
 *   ARGUMENTS           how many there are; of each its type TYPE_k, its member FROM_k of struct call, its gradient's type
 *                       GRADIENT_k, and STEP_k, 0 where it is repeated along the last side
 *   RESULT              y's type
 *   WHOLE               1: whole numbers are compared, in double
 *   INDEX, WIDTH        the type of an element's number; how many elements are computed at once, 4 or 1
 *   REPEATED_k          1: element e of argument k is repeated in y at ELEMENT_k(e) + ROW_k(r), for all r
 */
#ifdef HOST
#include <math.h>
#endif

/* ----------------------------------------------------------------------- formulas */

#define NUMBER(constant) (constant##f)
#define SELU_ALPHA NUMBER(1.67326324235437728)
#define SELU_SCALE NUMBER(1.05070098735548049)
#define EXP expf
#define LOG logf
#define TANH tanhf
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

DEVICE float SIGMOID(float x) { return 1.0f / (1.0f + expf(-x)); }
DEVICE float SOFTPLUS(float x) { return (x > 0 ? x : 0) + log1pf(expf(-fabsf(x))); }
/* A NaN stays a NaN. */
DEVICE float CLIP(float least, float x, float largest) { return x < least ? least : x > largest ? largest : x; }
DEVICE float POWER(float x, float power) {
    return power == 2 ? x * x : power == 1 ? x : power == 0.5f ? sqrtf(x) : powf(x, power);
}

/* GELU, see compute/reference/gelu.c. */
#define SQRT_2_OVER_PI 0.797884561f
#define CUBIC 0.044715f
#ifndef A_tanh_form
#define A_tanh_form 0
#endif

DEVICE float gelu(float x) {
    if (A_tanh_form) return 0.5f * x * (1.0f + tanhf(SQRT_2_OVER_PI * (x + CUBIC * x * x * x)));
    return 0.5f * x * (1.0f + erff(x * 0.707106781f));
}

DEVICE float gelu_slope(float x) {
    const float square = x * x;
    if (A_tanh_form) {
        const float t = tanhf(SQRT_2_OVER_PI * x * (1.0f + CUBIC * square));
        return 0.5f * (1.0f + t) + x * (0.5f * (1.0f - t * t) * SQRT_2_OVER_PI * (1.0f + 3.0f * CUBIC * square));
    }
    return 0.5f * (1.0f + erff(x * 0.707106781f)) + x * expf(-0.5f * square) * (0.5f * SQRT_2_OVER_PI);
}

/* ---------------------------------------------------------------------- arguments */

#if WHOLE
typedef double number;
#define READ(type, block, i) ((double)((const type *)(block))[i])
#else
typedef float number;
#define READ GET
#endif

/* Of unary, and what a single value is compared with. */
#ifndef A_alpha
#define A_alpha 0
#endif
#ifndef A_beta
#define A_beta 0
#endif

DEVICE number value_of(number a, number b, number c) {
    const number x = a;
    const float alpha = A_alpha, beta = A_beta;
    (void)x, (void)b, (void)c, (void)alpha, (void)beta;
    return VALUE;
}

#define TERM(name, formula)                                                                                                    \
    DEVICE float name(number a, number b, number c, float y, float dy) {                                                       \
        const number x = a;                                                                                                    \
        const float alpha = A_alpha, beta = A_beta;                                                                            \
        (void)x, (void)b, (void)c, (void)y, (void)dy, (void)alpha, (void)beta;                                                 \
        return formula;                                                                                                        \
    }
#ifdef TERM_0
TERM(term_0, TERM_0)
#endif
#ifdef TERM_1
TERM(term_1, TERM_1)
#endif
#ifdef TERM_2
TERM(term_2, TERM_2)
#endif

/* WIDTH numbers of an argument from element i of y on; of one that a backward has not, 0. */
#if WIDTH == 4
#define EACH_PLACE EACH4
#define GET_WIDTH GET4
#define PUT_WIDTH PUT4
#define LOAD(k)                                                                                                                \
    if (STEP_##k && a->FROM_##k)                                                                                               \
        GET4(TYPE_##k, a->FROM_##k, AT_##k(n), (int64_t)AT_##k(n) + (a->count - i), x[k]);                                     \
    else if (a->FROM_##k)                                                                                                      \
        x[k][0] = x[k][1] = x[k][2] = x[k][3] = GET(TYPE_##k, a->FROM_##k, AT_##k(n));
#else
#define EACH_PLACE EACH
#define GET_WIDTH(type, block, i, count, numbers) ((numbers)[0] = GET(type, (block), (i)))
#define PUT_WIDTH(type, block, i, count, numbers) PUT(type, (block), (i), (float)(numbers)[0])
#define LOAD(k)                                                                                                                \
    if (a->FROM_##k) x[k][0] = READ(TYPE_##k, a->FROM_##k, AT_##k(n));
#endif

DEVICE void load(const struct call *a, int64_t i, number x[3][WIDTH]) {
    const INDEX n = (INDEX)i;
    (void)n;
    UNROLL for (int j = 0; j < WIDTH; j++) {
        x[0][j] = x[2][j] = 0;
        x[1][j] = A_alpha;
    }
    LOAD(0)
#if ARGUMENTS > 1
    LOAD(1)
#endif
#if ARGUMENTS > 2
    LOAD(2)
#endif
}

KERNEL(forward) {
    EACH_PLACE(i, a.count) {
        number x[3][WIDTH], y[WIDTH];
        load(&a, i, x);
        UNROLL for (int j = 0; j < WIDTH; j++) y[j] = value_of(x[0][j], x[1][j], x[2][j]);
        PUT_WIDTH(RESULT, a.output, i, a.count, y);
    }
}

/* ---------------------------------------------------------------------- gradients */

/* Of the arguments that are not repeated: at more[k], or NULL. One of them may be dy. */
#define WRITE_GRADIENT(k)                                                                                                      \
    if (a.more[k]) {                                                                                                           \
        UNROLL for (int j = 0; j < WIDTH; j++) dx[j] = term_##k(x[0][j], x[1][j], x[2][j], y[j], dy[j]);                       \
        PUT_WIDTH(GRADIENT_##k, a.more[k], i, a.count, dx);                                                                    \
    }

KERNEL(backward) {
    EACH_PLACE(i, a.count) {
        number x[3][WIDTH];
        float y[WIDTH], dy[WIDTH], dx[WIDTH];
        load(&a, i, x);
        UNROLL for (int j = 0; j < WIDTH; j++) y[j] = 0;
        if (a.output) GET_WIDTH(RESULT, a.output, i, a.count, y);
        GET_WIDTH(RESULT, a.output_gradient, i, a.count, dy);
        (void)dx, (void)dy, (void)x, (void)y;
#if defined TERM_0 && !REPEATED_0
        WRITE_GRADIENT(0)
#endif
#if defined TERM_1 && !REPEATED_1
        WRITE_GRADIENT(1)
#endif
#if defined TERM_2 && !REPEATED_2
        WRITE_GRADIENT(2)
#endif
    }
}

/*
 * Of one that is repeated, number[2]: element e is the sum of number[0] terms; the result is at more[1]. Three ways (the host
 * chooses): a thread for each element; columns.h; and where it is repeated along y's last side, whose elements are neighbours,
 * a team for each of number[1] pieces of a sum.
 */
#if REPEATED_0 || REPEATED_1 || REPEATED_2
#define ONE(k) (a->FROM_##k ? READ(TYPE_##k, a->FROM_##k, AT_##k(n)) : 0)
#if ARGUMENTS > 2
#define ARGUMENTS_AT ONE(0), ONE(1), ONE(2)
#elif ARGUMENTS > 1
#define ARGUMENTS_AT ONE(0), ONE(1), 0
#else
#define ARGUMENTS_AT ONE(0), A_alpha, 0
#endif
#define PART(k)                                                                                                                \
    if (a->number[2] == k) {                                                                                                   \
        const INDEX n = ELEMENT_##k(element) + ROW_##k(row);                                                                   \
        return term_##k(ARGUMENTS_AT, 0, GET(RESULT, a->output_gradient, n));                                                  \
    }
#define STORE(k)                                                                                                               \
    if (a->number[2] == k) PUT(GRADIENT_##k, a->more[1], element, sum);

DEVICE float part(const struct call *a, INDEX element, INDEX row) {
#if REPEATED_0
    PART(0)
#endif
#if REPEATED_1
    PART(1)
#endif
#if REPEATED_2
    PART(2)
#endif
    return 0;
}

DEVICE void store(const struct call *a, INDEX element, float sum) {
#if REPEATED_0
    STORE(0)
#endif
#if REPEATED_1
    STORE(1)
#endif
#if REPEATED_2
    STORE(2)
#endif
}

/* Every `step`-th of the terms from `first` on, four read at once. */
DEVICE float sum_parts(const struct call *a, INDEX element, INDEX first, INDEX end, INDEX step) {
    float sum = 0;
    for (INDEX row = first; row < end; row += 4 * step) {
        float terms[4];
        UNROLL for (int j = 0; j < 4; j++) {
            const INDEX at = row + (INDEX)j * step;
            terms[j] = at < end ? part(a, element, at) : 0;
        }
        sum += (terms[0] + terms[1]) + (terms[2] + terms[3]);
    }
    return sum;
}

KERNEL(sum_by_threads) { EACH(e, a.count) store(&a, (INDEX)e, sum_parts(&a, (INDEX)e, 0, (INDEX)a.number[0], 1)); }

KERNEL(sum_by_teams) {
    const int64_t rows = a.number[0], pieces = a.number[1], each = (rows + pieces - 1) / pieces;
    TEAM_ROWS(work, a.count) {
        const int64_t piece = work % pieces, end = (piece + 1) * each < rows ? (piece + 1) * each : rows;
        const INDEX element = (INDEX)(work / pieces), first = (INDEX)(piece * each + TEAM_RANK);
        const float sum = team_sum(sum_parts(&a, element, first, (INDEX)end, TEAM));
        if (TEAM_RANK == 0 && pieces > 1) ((float *)a.more[0])[work] = sum;
        if (TEAM_RANK == 0 && pieces == 1) store(&a, element, sum);
    }
}

KERNEL(sum_pieces) {
    const int64_t pieces = a.number[1];
    TEAM_ROWS(e, a.count) {
        float sum = 0;
        for (int64_t piece = TEAM_RANK; piece < pieces; piece += TEAM) sum += ((const float *)a.more[0])[e * pieces + piece];
        sum = team_sum(sum);
        if (TEAM_RANK == 0) store(&a, (INDEX)e, sum);
    }
}

#define COLUMN_SUMS 1
DEVICE void column_terms(const struct call *a, int64_t row, int64_t column, float terms[COLUMN_SUMS]) {
    terms[0] = part(a, (INDEX)column, (INDEX)row);
}
DEVICE void column_store(const struct call *a, int64_t column, const float sums[COLUMN_SUMS]) {
    store(a, (INDEX)column, sums[0]);
}
#include "columns.h"
#endif
