/*
 * Rotary position embedding: graph/operators/rotary.c. Heads of EACH_HEAD features, of which PAIRS pairs are turned; pair j has
 * the features j STEP and j STEP + OTHER, and in tables of WIDTH numbers a position j TABLE_STEP and j TABLE_STEP + TABLE_OTHER.
 * Without tables FREQUENCIES are the angles at position 1. A thread has a pair, or a feature that is not turned.
 */
#define REST (EACH_HEAD - 2 * PAIRS)
#if CALL_INPUTS == 1
#ifdef HOST
static const double frequencies[PAIRS] = {FREQUENCIES};
#else
__constant__ double frequencies[PAIRS] = {FREQUENCIES};
#endif
#endif

struct turn {
    float cos_a, cos_b, sin_a, sin_b;
};

DEVICE struct turn turn_of(const struct call *a, int64_t row, int pair) {
    struct turn t;
#if CALL_INPUTS == 1
    const double angle = (double)(row % Y_D1 + A_first) * frequencies[pair];
    t.cos_a = t.cos_b = (float)cos(angle);
    t.sin_a = t.sin_b = (float)sin(angle);
#else
    const int64_t at = row * WIDTH + pair * TABLE_STEP;
    t.cos_a = GET(X1, a->input[1].value, at), t.cos_b = GET(X1, a->input[1].value, at + TABLE_OTHER);
    t.sin_a = GET(X2, a->input[2].value, at), t.sin_b = GET(X2, a->input[2].value, at + TABLE_OTHER);
#endif
    return t;
}

/* Unit i of the threads': its row, and the first element of its head. */
#define UNITS (PAIRS + REST)
#define UNIT(i) (int)((i) % UNITS)
#define HEAD(i) ((i) / UNITS * EACH_HEAD)
#define ROW(i) ((i) / UNITS / A_heads)

KERNEL(forward) {
    EACH(i, a.count) {
        const int unit = UNIT(i);
        if (unit >= PAIRS) {
            const int64_t at = HEAD(i) + PAIRS + unit;
            PUT(Y, a.output, at, GET(X0, a.input[0].value, at));
            continue;
        }
        const struct turn t = turn_of(&a, ROW(i), unit);
        const int64_t first = HEAD(i) + unit * STEP, second = first + OTHER;
        const float x_a = GET(X0, a.input[0].value, first), x_b = GET(X0, a.input[0].value, second);
        PUT(Y, a.output, first, x_a * t.cos_a - x_b * t.sin_a);
        PUT(Y, a.output, second, x_b * t.cos_b + x_a * t.sin_b);
    }
}

KERNEL(backward_input) {
    if (!a.input[0].gradient) return;
    EACH(i, a.count) {
        const int unit = UNIT(i);
        if (unit >= PAIRS) {
            const int64_t at = HEAD(i) + PAIRS + unit;
            PUT(X0, a.input[0].gradient, at, GET(Y, a.output_gradient, at));
            continue;
        }
        const struct turn t = turn_of(&a, ROW(i), unit);
        const int64_t first = HEAD(i) + unit * STEP, second = first + OTHER;
        const float dy_a = GET(Y, a.output_gradient, first), dy_b = GET(Y, a.output_gradient, second);
        PUT(X0, a.input[0].gradient, first, dy_a * t.cos_a + dy_b * t.sin_b);
        PUT(X0, a.input[0].gradient, second, dy_b * t.cos_b - dy_a * t.sin_a);
    }
}

#if CALL_INPUTS == 3
/* The gradients of the tables, summed over the heads; a thread has a pair of a row. */
KERNEL(backward_tables) {
    EACH(i, a.count) {
        const int64_t row = i / PAIRS, at = row * WIDTH + i % PAIRS * TABLE_STEP;
        float cos_a = 0, cos_b = 0, sin_a = 0, sin_b = 0;
        for (int head = 0; head < A_heads; head++) {
            const int64_t first = (row * A_heads + head) * EACH_HEAD + i % PAIRS * STEP, second = first + OTHER;
            const float x_a = GET(X0, a.input[0].value, first), x_b = GET(X0, a.input[0].value, second);
            const float dy_a = GET(Y, a.output_gradient, first), dy_b = GET(Y, a.output_gradient, second);
            cos_a += dy_a * x_a, cos_b += dy_b * x_b, sin_a -= dy_a * x_b, sin_b += dy_b * x_a;
        }
        if (TABLE_OTHER == 0) cos_a += cos_b, sin_a += sin_b, cos_b = cos_a, sin_b = sin_a;
        if (a.input[1].gradient) {
            PUT(X1, a.input[1].gradient, at, cos_a);
            PUT(X1, a.input[1].gradient, at + TABLE_OTHER, cos_b);
        }
        if (a.input[2].gradient) {
            PUT(X2, a.input[2].gradient, at, sin_a);
            PUT(X2, a.input[2].gradient, at + TABLE_OTHER, sin_b);
        }
    }
}
#endif
