/*
 * Values one after the other along an axis. An input is a matrix of OUTER rows, which become a part of the output's rows of
 * PITCH elements. The host (arrange.c) defines these; EACH_INPUT(X): X(number, type, columns, first, width) of each input, the
 * last two being its first column in the output and how many elements are moved at once (4 or 1); TO_TYPE, the output's type,
 * and INDEX, the type of an element's number.
 */
#define PLACE(i, columns, first) ((INDEX)(i) / (columns)*PITCH + (first) + (INDEX)(i) % (columns))
#define MOVE_1(FROM, from, at, TO, to, i) PUT(TO, to, i, GET(FROM, from, at));
#define MOVE_4(FROM, from, at, TO, to, i)                                                                                      \
    {                                                                                                                          \
        float x[4];                                                                                                            \
        GET4(FROM, from, at, (at) + 4, x);                                                                                     \
        PUT4(TO, to, i, (i) + 4, x);                                                                                           \
    }
#define EACH_1 EACH
#define EACH_4 EACH4
#define FORWARD(j, type, columns, first, width)                                                                                \
    EACH_##width(i, (int64_t)OUTER *(columns)) {                                                                               \
        const int64_t at = PLACE(i, columns, first);                                                                           \
        MOVE_##width(type, a.input[j].value, i, TO_TYPE, a.output, at)                                                         \
    }
#define BACKWARD(j, type, columns, first, width)                                                                               \
    if (a.input[j].gradient) {                                                                                                 \
        EACH_##width(i, (int64_t)OUTER *(columns)) {                                                                           \
            const int64_t at = PLACE(i, columns, first);                                                                       \
            MOVE_##width(TO_TYPE, a.output_gradient, at, type, a.input[j].gradient, i)                                         \
        }                                                                                                                      \
    }

KERNEL(forward){EACH_INPUT(FORWARD)}

KERNEL(backward) {
    EACH_INPUT(BACKWARD)
}
