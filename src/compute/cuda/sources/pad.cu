/*
 * Padding (graph/operators/pad.c): each element of y is one of x, or the value; dx is the sum of what its elements became, in
 * the order of y. The host (pad.c) defines EACH_SIDE(X): X(x, y, before) of each side from the fastest on, but for the slowest,
 * which is not padded: its lengths in x and in y and the elements before it. WIDTH: elements that are moved at once, 4 or 1;
 * INDEX and PLACE: the types of an element's number and of a place along a side, without and with a sign.
 */
enum { CONSTANT, REFLECT, EDGE, WRAP }; /* A_mode */
#if WIDTH == 4
#define EACH_PLACE EACH4
#else
#define EACH_PLACE EACH
#endif

/* Which element of a side of `size` stands at place i, counted from the first one's; -1: none. See compute/pad.h. */
DEVICE PLACE inside(PLACE size, PLACE i) {
    if (i >= 0 && i < size) return i;
    if (A_mode == REFLECT) return i < 0 ? -i : 2 * (size - 1) - i;
    if (A_mode == EDGE) return i < 0 ? 0 : size - 1;
    if (A_mode == WRAP) return i < 0 ? i + size : i - size;
    return -1;
}

/* The other way: at most how many times element q stands in y, and the place of each of these times; -1: there is none. */
DEVICE PLACE times_of(PLACE size, PLACE length, PLACE before, PLACE q) {
    if (A_mode == CONSTANT || (size == length && before == 0)) return 1;
    if (A_mode != EDGE) return 3;
    return 1 + (q == 0 ? before : 0) + (q == size - 1 ? length - before - size : 0);
}

DEVICE PLACE place_of(PLACE size, PLACE length, PLACE before, PLACE q, PLACE time) {
    PLACE at = q + before;
    if (A_mode == CONSTANT || (size == length && before == 0)) return at >= 0 && at < length ? at : -1;
    if (A_mode == EDGE) return (q == 0 ? 0 : at) + time;
    if (A_mode == WRAP) at += (time - 1) * size;
    if (A_mode == REFLECT && time == 0) at = q > 0 ? before - q : -1;
    if (A_mode == REFLECT && time == 2) at = q < size - 1 ? before + 2 * (size - 1) - q : -1;
    return at >= 0 && at < length ? at : -1;
}

#define FIND(x, y, before)                                                                                                     \
    {                                                                                                                          \
        const PLACE q = inside(x, (PLACE)(rest % (y)) - (before));                                                             \
        found = found && q >= 0;                                                                                               \
        at += (INDEX)q * stride;                                                                                               \
        rest /= (y);                                                                                                           \
        stride *= (x);                                                                                                         \
    }

KERNEL(forward) {
    EACH_PLACE(i, a.count) {
        INDEX rest = (INDEX)i, at = 0, stride = 1;
        int found = 1;
        float x[WIDTH];
        EACH_SIDE(FIND)
        at += rest * stride;
        UNROLL for (int j = 0; j < WIDTH; j++) x[j] = A_value;
#if WIDTH == 4
        if (found) GET4(X0, a.input[0].value, at, (int64_t)at + 4, x);
        PUT4(Y, a.output, i, i + 4, x);
#else
        if (found) x[0] = GET(X0, a.input[0].value, at);
        PUT(Y, a.output, i, x[0]);
#endif
    }
}

#define COUNT(x, y, before)                                                                                                    \
    times *= times_of(x, y, before, (PLACE)(rest % (x)));                                                                      \
    rest /= (x);
#define TAKE(x, y, before)                                                                                                     \
    {                                                                                                                          \
        const PLACE q = (PLACE)(rest % (x)), all = times_of(x, y, before, q), place = place_of(x, y, before, q, left % all);   \
        found = found && place >= 0;                                                                                           \
        at += (INDEX)place * stride;                                                                                           \
        rest /= (x);                                                                                                           \
        stride *= (y);                                                                                                         \
        left /= all;                                                                                                           \
    }

/* Over the elements of x. */
KERNEL(backward) {
    EACH_PLACE(i, a.count) {
        INDEX rest = (INDEX)i;
        PLACE times = 1;
        float sum[WIDTH], dy[WIDTH];
        UNROLL for (int j = 0; j < WIDTH; j++) sum[j] = 0;
        EACH_SIDE(COUNT)
        for (PLACE time = 0; time < times; time++) {
            PLACE left = time;
            INDEX at = 0, stride = 1;
            int found = 1;
            rest = (INDEX)i;
            EACH_SIDE(TAKE)
            at += rest * stride;
            if (!found) continue;
#if WIDTH == 4
            GET4(Y, a.output_gradient, at, (int64_t)at + 4, dy);
#else
            dy[0] = GET(Y, a.output_gradient, at);
#endif
            UNROLL for (int j = 0; j < WIDTH; j++) sum[j] += dy[j];
        }
#if WIDTH == 4
        PUT4(X0, a.input[0].gradient, i, i + 4, sum);
#else
        PUT(X0, a.input[0].gradient, i, sum[0]);
#endif
    }
}
