/*
 * A permutation of sides, forth (forward) and back (backward). Elements are gone through in the order of the result, `to`; the
 * source's place of its element i is FORWARD_AT(i), or BACKWARD_AT(i). Where the source's fastest side is another one than the
 * result's, tiles of both sides go through shared memory, so that both are read and written along their own. The host
 * (arrange.c) defines for each direction FORWARD_WIDTH, how many elements are moved at once: 4 or 1; or FORWARD_TILED and
 *
 *   FORWARD_LINES, FORWARD_COLUMNS   lengths of the source's fastest side and of the result's
 *   FORWARD_COLUMN, FORWARD_LINE     from one column to the next in the source; from one line to the next in the result
 *   FORWARD_FROM(o), FORWARD_TO(o)   where the tiles of number o of the other sides begin
 *
 * and INDEX, the type of an element's number; FROM_TYPE and TO_TYPE, those of the input and of the output.
 */
#define GATHER_1(FROM, from, TO, to, AT) EACH(i, a.count) PUT(TO, to, i, GET(FROM, from, AT((INDEX)i)));
#define GATHER_4(FROM, from, TO, to, AT)                                                                                       \
    EACH4(i, a.count) {                                                                                                        \
        float x[4];                                                                                                            \
        const int64_t at = AT((INDEX)i);                                                                                       \
        GET4(FROM, from, at, at + (a.count - i), x);                                                                           \
        PUT4(TO, to, i, a.count, x);                                                                                           \
    }

enum { SIDE = 32 };
#define TILES(length) (((length) + SIDE - 1) / SIDE)
#define TRANSPOSE(FROM, from, TO, to, LINES, COLUMNS, COLUMN, LINE, FROM_PLACE, TO_PLACE)                                      \
    SHARED float tile[SIDE][SIDE + 1];                                                                                         \
    for (int64_t work = BLOCK; work < a.count; work += BLOCKS) {                                                               \
        const INDEX outer = (INDEX)work / (TILES(LINES) * TILES(COLUMNS));                                                     \
        const INDEX line0 = (INDEX)work / TILES(COLUMNS) % TILES(LINES) * SIDE, column0 = (INDEX)work % TILES(COLUMNS) * SIDE; \
        const INDEX source = FROM_PLACE(outer), result = TO_PLACE(outer);                                                      \
        for (int e = THREAD; e < SIDE * SIDE; e += THREADS) {                                                                  \
            const INDEX line = line0 + (INDEX)e % SIDE, column = column0 + (INDEX)e / SIDE;                                    \
            if (line < LINES && column < COLUMNS) tile[e / SIDE][e % SIDE] = GET(FROM, from, source + line + column * COLUMN); \
        }                                                                                                                      \
        BARRIER();                                                                                                             \
        for (int e = THREAD; e < SIDE * SIDE; e += THREADS) {                                                                  \
            const INDEX line = line0 + (INDEX)e / SIDE, column = column0 + (INDEX)e % SIDE;                                    \
            if (line < LINES && column < COLUMNS) PUT(TO, to, result + line * LINE + column, tile[e % SIDE][e / SIDE]);        \
        }                                                                                                                      \
        BARRIER();                                                                                                             \
    }

KERNEL(forward) {
#if FORWARD_TILED
    TRANSPOSE(FROM_TYPE, a.input[0].value, TO_TYPE, a.output, FORWARD_LINES, FORWARD_COLUMNS, FORWARD_COLUMN, FORWARD_LINE,
              FORWARD_FROM, FORWARD_TO)
#elif FORWARD_WIDTH == 4
    GATHER_4(FROM_TYPE, a.input[0].value, TO_TYPE, a.output, FORWARD_AT)
#else
    GATHER_1(FROM_TYPE, a.input[0].value, TO_TYPE, a.output, FORWARD_AT)
#endif
}

KERNEL(backward) {
#if BACKWARD_TILED
    TRANSPOSE(TO_TYPE, a.output_gradient, FROM_TYPE, a.input[0].gradient, BACKWARD_LINES, BACKWARD_COLUMNS, BACKWARD_COLUMN,
              BACKWARD_LINE, BACKWARD_FROM, BACKWARD_TO)
#elif BACKWARD_WIDTH == 4
    GATHER_4(TO_TYPE, a.output_gradient, FROM_TYPE, a.input[0].gradient, BACKWARD_AT)
#else
    GATHER_1(TO_TYPE, a.output_gradient, FROM_TYPE, a.input[0].gradient, BACKWARD_AT)
#endif
}
