/*
 * Reductions; as reference/reduce.c. A result is one number of COUNT elements x: those along the sides that are 1 in the output
 * but not in the input. KIND is enum reduce_kind's name.
 *
 * A block computes LANES results at once, each with LINES threads. Threads beside each other read elements beside each other:
 * of one result where the innermost side is reduced (INNER), else of results beside each other. Gradients are a pass over the
 * elements of x, four a thread; before it, kinds that need more of a result's elements than y (LOOK) write two numbers for each
 * result to the workspace: how many elements are equal to y, or are zeros, and the product of the others.
 */
enum { KIND_SUM, KIND_MEAN, KIND_MAX, KIND_MIN, KIND_PROD, KIND_L1, KIND_L2, KIND_SUM_SQUARE, KIND_LOG_SUM, KIND_LOG_SUM_EXP };
#define KIND (A_kind)
#define LOWEST (-3.402823466e38f)
#define INFINITE bits_float(0x7f800000u)

#define SIDE(s) (X0_D##s / Y_D##s)
#define COUNT (SIDE(0) * SIDE(1) * SIDE(2) * SIDE(3) * SIDE(4) * SIDE(5))
#if X0_ROWS * X0_D0 < 0x7fffffff
typedef uint32_t number_of; /* of an element or a result: its divisions by sides are fast */
#else
typedef uint64_t number_of;
#endif

#ifdef HOST
#undef LANES
#define LANES 1
enum { LINES = 1 };
#else
enum { LINES = 256 / LANES };
#endif

/* With the sides of one shape the number n falls apart into positions; d1 also counts the samples. */
#define POSITIONS(n, D)                                                                                                        \
    const number_of d0 = (n) % D(0), n5 = (n) / D(0), d5 = n5 % D(5), n4 = n5 / D(5), d4 = n4 % D(4), n3 = n4 / D(4),          \
                    d3 = n3 % D(3), n2 = n3 / D(3), d2 = n2 % D(2), d1 = n2 / D(2)
#define X_SIDE(s) X0_D##s
#define Y_SIDE(s) Y_D##s

/* The number of the result that has element i. */
DEVICE number_of result_of(number_of i) {
    POSITIONS(i, X_SIDE);
    const number_of sample = d1 / X0_D1, y1 = Y_D1 == 1 ? 0 : d1 % X0_D1, y2 = Y_D2 == 1 ? 0 : d2, y3 = Y_D3 == 1 ? 0 : d3,
                    y4 = Y_D4 == 1 ? 0 : d4, y5 = Y_D5 == 1 ? 0 : d5, y0 = Y_D0 == 1 ? 0 : d0;
    return (((((sample * Y_D1 + y1) * Y_D2 + y2) * Y_D3 + y3) * Y_D4 + y4) * Y_D5 + y5) * Y_D0 + y0;
}

#define NUMBER_IN_X(s) ((((((s) * X0_D2 + d2) * X0_D3 + d3) * X0_D4 + d4) * X0_D5 + d5) * X0_D0 + d0)
/* The first element of a result, and how far behind it its element `q` lies. */
DEVICE number_of first_of(number_of result) {
    POSITIONS(result, Y_SIDE);
    const number_of outer = d1 / Y_D1 * X0_D1 + d1 % Y_D1;
    return NUMBER_IN_X(outer);
}
DEVICE number_of offset_of(number_of q) {
    POSITIONS(q, SIDE);
    return NUMBER_IN_X(d1);
}

/* ---------------------------------------------------------------------- forward */

/* What is known of some elements: their sum, product, largest ...; of LOG_SUM_EXP their largest, and the sum of
 * exp(x - largest); of LOOK the number of equal ones, and the product. */
struct part {
    float value, more;
};

DEVICE struct part part_of_none(int look) {
    const float none_of_kind = KIND == KIND_PROD          ? 1
                               : KIND == KIND_MIN         ? INFINITE
                               : KIND == KIND_MAX         ? -INFINITE
                               : KIND == KIND_LOG_SUM_EXP ? LOWEST
                                                          : 0;
    const struct part none = {look ? 0 : none_of_kind, look ? 1.0f : 0.0f};
    return none;
}

DEVICE struct part part_of(int look, float x, float y) {
    struct part part = {x, 1};
    if (look) {
        part.value = KIND == KIND_PROD ? (x == 0 ? 1.0f : 0.0f) : x == y ? 1.0f : 0.0f;
        part.more = x == 0 ? 1.0f : x;
    } else if (KIND == KIND_L1) {
        part.value = fabsf(x);
    } else if (KIND == KIND_L2 || KIND == KIND_SUM_SQUARE) {
        part.value = x * x;
    }
    return part;
}

DEVICE struct part join(int look, struct part a, struct part b) {
    struct part both = {a.value + b.value, a.more * b.more};
    if (look) return both;
    if (KIND == KIND_PROD) both.value = a.value * b.value;
    if (KIND == KIND_MAX) both.value = fmaxf(a.value, b.value);
    if (KIND == KIND_MIN) both.value = fminf(a.value, b.value);
    if (KIND == KIND_LOG_SUM_EXP) {
        both.value = a.value < b.value ? b.value : a.value;
        both.more = a.more * expf(a.value - both.value) + b.more * expf(b.value - both.value);
    }
    return both;
}

DEVICE float finish(struct part all) {
    if (KIND == KIND_MEAN) return all.value / (float)COUNT;
    if (KIND == KIND_L2) return sqrtf(all.value);
    if (KIND == KIND_LOG_SUM) return logf(all.value);
    if (KIND == KIND_LOG_SUM_EXP) return all.value + logf(all.more);
    return all.value;
}

DEVICE void reduce(const struct call *a, int look) {
    SHARED struct part parts[256];
    const number_of results = (number_of)a->number[0];
    const int line = INNER ? THREAD % LINES : THREAD / LANES, lane = INNER ? THREAD / LINES : THREAD % LANES;
    struct part *own = parts + lane * LINES + line;
    for (number_of first = BLOCK * LANES; first < results; first += BLOCKS * LANES) {
        const number_of result = first + lane;
        struct part all = part_of_none(look);
        if (result < results) {
            const number_of start = first_of(result);
            const float y = look && KIND != KIND_PROD ? GET(Y, a->output, result) : 0;
            for (number_of q = line; q < COUNT; q += LINES)
                all = join(look, all, part_of(look, GET(X0, a->input[0].value, start + offset_of(q)), y));
        }
        BARRIER();
        *own = all;
        for (int step = LINES / 2; step > 0; step /= 2) {
            BARRIER();
            if (line < step) *own = join(look, *own, own[step]);
        }
        if (line != 0 || result >= results) continue;
        if (look)
            ((struct part *)a->workspace)[result] = *own;
        else
            PUT(Y, a->output, result, finish(*own));
    }
}

KERNEL(forward) { reduce(&a, 0); }

/* --------------------------------------------------------------------- backward */

#define LOOK (KIND == KIND_MAX || KIND == KIND_MIN || KIND == KIND_PROD)
#define READS_X (LOOK || KIND == KIND_L1 || KIND == KIND_L2 || KIND == KIND_SUM_SQUARE || KIND == KIND_LOG_SUM_EXP)
#define READS_Y (KIND == KIND_MAX || KIND == KIND_MIN || KIND == KIND_L2 || KIND == KIND_LOG_SUM || KIND == KIND_LOG_SUM_EXP)

KERNEL(look) {
    if (LOOK) reduce(&a, 1);
}

DEVICE float slope_of(float x, float y, struct part all) {
    const float zeros = all.value - (x == 0 ? 1.0f : 0.0f); /* among the other factors */
    if (KIND == KIND_MEAN) return 1 / (float)COUNT;
    if (KIND == KIND_MAX || KIND == KIND_MIN) return x == y ? 1 / all.value : 0;
    if (KIND == KIND_PROD) return zeros > 0 ? 0 : x == 0 ? all.more : all.more / x;
    if (KIND == KIND_L1) return x > 0 ? 1.0f : x < 0 ? -1.0f : 0.0f;
    if (KIND == KIND_L2) return y > 0 ? x / y : 0;
    if (KIND == KIND_SUM_SQUARE) return 2 * x;
    if (KIND == KIND_LOG_SUM) return expf(-y);
    if (KIND == KIND_LOG_SUM_EXP) return expf(x - y);
    return 1;
}

KERNEL(backward_input) {
    EACH4(i, a.count) {
        float x[4] = {0, 0, 0, 0}, dx[4];
        if (READS_X) GET4(X0, a.input[0].value, i, a.count, x);
        for (int j = 0; j < 4; j++) {
            const number_of result = result_of((number_of)(i + j < a.count ? i + j : i));
            const float y = READS_Y ? GET(Y, a.output, result) : 0;
            struct part all = {0, 0};
            if (LOOK) all = ((const struct part *)a.workspace)[result];
            dx[j] = GET(Y, a.output_gradient, result) * slope_of(x[j], y, all);
        }
        PUT4(X0, a.input[0].gradient, i, a.count, dx);
    }
}
