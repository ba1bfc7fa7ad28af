/*
 * COUNT positions of an axis of ALL, from FIRST on in steps of STEP; INNER elements lie at each. What a slice leaves out has
 * the gradient 0. The host (arrange.c) defines these, WIDTH, how many elements are moved at once (4 or 1), INDEX, the type of
 * an element's number, and FROM_TYPE and TO_TYPE, the types of the input and of the output.
 */
#if WIDTH == 4
#define EACH_PLACE EACH4
#define MOVE(FROM, from, at, TO, to, i)                                                                                        \
    {                                                                                                                          \
        float x[4];                                                                                                            \
        GET4(FROM, from, at, (at) + 4, x);                                                                                     \
        PUT4(TO, to, i, (i) + 4, x);                                                                                           \
    }
#define CLEAR(TO, to, i)                                                                                                       \
    {                                                                                                                          \
        const float zeros[4] = {0, 0, 0, 0};                                                                                   \
        PUT4(TO, to, i, (i) + 4, zeros);                                                                                       \
    }
#else
#define EACH_PLACE EACH
#define MOVE(FROM, from, at, TO, to, i) PUT(TO, to, i, GET(FROM, from, at));
#define CLEAR(TO, to, i) PUT(TO, to, i, 0);
#endif

KERNEL(forward) {
    EACH_PLACE(i, a.count) {
        const INDEX n = (INDEX)i, outer = n / (INNER * COUNT), position = n / INNER % COUNT;
        const int64_t at = (outer * ALL + FIRST + position * STEP) * INNER + n % INNER;
        MOVE(FROM_TYPE, a.input[0].value, at, TO_TYPE, a.output, i)
    }
}

/* Over the input's elements. */
KERNEL(backward) {
    EACH_PLACE(i, a.count) {
        const INDEX n = (INDEX)i, outer = n / (INNER * ALL);
        const int64_t behind = (int64_t)(n / INNER % ALL) - FIRST, position = behind / STEP;
        if (behind % STEP == 0 && position >= 0 && position < COUNT) {
            const int64_t at = (outer * COUNT + (INDEX)position) * INNER + n % INNER;
            MOVE(TO_TYPE, a.output_gradient, at, FROM_TYPE, a.input[0].gradient, i)
        } else {
            CLEAR(FROM_TYPE, a.input[0].gradient, i)
        }
    }
}
