/*
 * Resizing (graph/operators/resize.c). x (N, H, W, C), y (N, OH, OW, C): y[oh, ow] = sum over the taps of both sides of their
 * weights times x[h, w]. A first launch, `taps`, finds the taps of each row and column of y, as compute/resize.h does and in
 * double, and for each row and column of x the range of those of y that read it: so a thread of the backward sums all that an
 * element of dx gets. Both are at the beginning of the workspace. The host (resize.c) defines INDEX, the type of an element's
 * number, and WIDTH, how many channels a thread has: 4 or 1.
 */
#define C Y_D0
#define H X0_D1
#define W X0_D2
#define OH Y_D1
#define OW Y_D2
enum { NEAREST, LINEAR, CUBIC };                                    /* A_mode */
enum { HALF_PIXEL, ASYMMETRIC, ALIGN_CORNERS, PYTORCH_HALF_PIXEL }; /* A_coordinates */
enum { ROUND_HALF_DOWN, ROUND_HALF_UP, ROUND_DOWN, ROUND_UP };      /* A_rounding */
enum { TAPS = A_mode == NEAREST ? 1 : A_mode == LINEAR ? 2 : 4, ROOM = 4 };

struct taps {
    int at[ROOM];
    float weight[ROOM];
};
struct range {
    int first, end;
};
#define ROW_TAPS ((struct taps *)(void *)a.workspace)
#define COLUMN_TAPS (ROW_TAPS + OH)
#define ROW_RANGES ((struct range *)(void *)(COLUMN_TAPS + OW))
#define COLUMN_RANGES (ROW_RANGES + H)

/* ---------------------------------------------------------------------------- taps */

/* Rounded before anything is added. */
#ifdef HOST
#define TIMES(a, b) ((a) * (b))
#else
#define TIMES(a, b) __dmul_rn(a, b)
#endif

DEVICE double place_of(double scale, int size, int out, int index) {
    const double step = scale > 0 ? 1 / scale : (double)size, by = scale > 0 ? 1 : (double)out;
    if (A_coordinates == ALIGN_CORNERS) return out > 1 ? (double)((int64_t)index * (size - 1)) / (double)(out - 1) : 0;
    if (A_coordinates == ASYMMETRIC) return TIMES((double)index, step) / by;
    if (A_coordinates == PYTORCH_HALF_PIXEL && out == 1) return 0;
    return TIMES((double)index + 0.5, step) / by - 0.5;
}

DEVICE double first_of(double place) {
    if (A_mode != NEAREST) return floor(place) - (A_mode == CUBIC ? 1 : 0);
    if (A_rounding == ROUND_HALF_DOWN) return ceil(place - 0.5);
    if (A_rounding == ROUND_HALF_UP) return floor(place + 0.5);
    return A_rounding == ROUND_DOWN ? floor(place) : ceil(place);
}

/* Keys' kernel at a distance. */
DEVICE double cubic(double distance) {
    const double t = fabs(distance), k = A_cubic;
    if (t <= 1) return ((k + 2) * t - (k + 3)) * t * t + 1;
    return t < 2 ? ((k * t - 5 * k) * t + 8 * k) * t - 4 * k : 0;
}

DEVICE int tap_at(double first, int tap, int size) {
    const double at = first + tap;
    return at < 0 ? 0 : at > size - 1 ? size - 1 : (int)at;
}

DEVICE struct taps taps_of(double scale, int size, int out, int index) {
    const double place = place_of(scale, size, out, index), first = first_of(place);
    struct taps taps;
    UNROLL for (int t = 0; t < ROOM; t++) {
        const double distance = place - (first + t);
        const double weight = A_mode == NEAREST ? 1 : A_mode == LINEAR ? 1 - fabs(distance) : cubic(distance);
        taps.at[t] = tap_at(first, t, size);
        taps.weight[t] = t < TAPS ? (float)weight : 0;
    }
    return taps;
}

/* The first pixel of y whose tap `tap` is at `least` or behind: taps of later pixels are never before those of earlier ones. */
DEVICE int first_reader(double scale, int size, int out, int tap, int least) {
    int before = 0, end = out;
    while (before < end) {
        const int middle = (before + end) / 2;
        if (tap_at(first_of(place_of(scale, size, out, middle)), tap, size) < least)
            before = middle + 1;
        else
            end = middle;
    }
    return before;
}

DEVICE struct range range_of(double scale, int size, int out, int index) {
    struct range range;
    range.first = first_reader(scale, size, out, TAPS - 1, index);
    range.end = first_reader(scale, size, out, 0, index + 1);
    return range;
}

/* Over the rows and columns of y, then those of x. */
KERNEL(taps) {
    EACH(work, OH + OW + H + W) {
        const int i = (int)work;
        if (i < OH)
            ROW_TAPS[i] = taps_of(A_scale_h, H, OH, i);
        else if (i < OH + OW)
            COLUMN_TAPS[i - OH] = taps_of(A_scale_w, W, OW, i - OH);
        else if (i < OH + OW + H)
            ROW_RANGES[i - OH - OW] = range_of(A_scale_h, H, OH, i - OH - OW);
        else
            COLUMN_RANGES[i - OH - OW - H] = range_of(A_scale_w, W, OW, i - OH - OW - H);
    }
}

/* -------------------------------------------------------------------------- pixels */

#if WIDTH == 4
#define EACH_PLACE EACH4
#define GET_WIDTH(type, block, i, numbers) GET4(type, block, i, (int64_t)(i) + 4, numbers)
#define PUT_WIDTH(type, block, i, numbers) PUT4(type, block, i, (int64_t)(i) + 4, numbers)
#else
#define EACH_PLACE EACH
#define GET_WIDTH(type, block, i, numbers) ((numbers)[0] = GET(type, block, i))
#define PUT_WIDTH(type, block, i, numbers) PUT(type, block, i, (numbers)[0])
#endif

KERNEL(forward) {
    EACH_PLACE(i, a.count) {
        const INDEX n = (INDEX)i, sample = n / (C * OW * OH);
        const struct taps rows = ROW_TAPS[n / (C * OW) % OH], columns = COLUMN_TAPS[n / C % OW];
        float sum[WIDTH], x[WIDTH];
        UNROLL for (int j = 0; j < WIDTH; j++) sum[j] = 0;
        UNROLL for (int r = 0; r < TAPS; r++) {
            UNROLL for (int k = 0; k < TAPS; k++) {
                const INDEX at = ((sample * H + (INDEX)rows.at[r]) * W + (INDEX)columns.at[k]) * C + n % C;
                GET_WIDTH(X0, a.input[0].value, at, x);
                UNROLL for (int j = 0; j < WIDTH; j++) sum[j] += rows.weight[r] * columns.weight[k] * x[j];
            }
        }
        PUT_WIDTH(Y, a.output, i, sum);
    }
}

/* What taps give to element q: several may be at it, at the edges. */
DEVICE float weight_at(const struct taps *taps, int q) {
    float weight = 0;
    UNROLL for (int t = 0; t < TAPS; t++) weight += taps->at[t] == q ? taps->weight[t] : 0;
    return weight;
}

/* Over the elements of x. */
KERNEL(backward) {
    EACH_PLACE(i, a.count) {
        const INDEX n = (INDEX)i, sample = n / (C * W * H);
        const int h = (int)(n / (C * W) % H), w = (int)(n / C % W);
        const struct range rows = ROW_RANGES[h], columns = COLUMN_RANGES[w];
        float sum[WIDTH], dy[WIDTH];
        UNROLL for (int j = 0; j < WIDTH; j++) sum[j] = 0;
        for (int oh = rows.first; oh < rows.end; oh++) {
            const float weight = weight_at(&ROW_TAPS[oh], h);
            for (int ow = columns.first; ow < columns.end; ow++) {
                const float both = weight * weight_at(&COLUMN_TAPS[ow], w);
                GET_WIDTH(Y, a.output_gradient, ((sample * OH + (INDEX)oh) * OW + (INDEX)ow) * C + n % C, dy);
                UNROLL for (int j = 0; j < WIDTH; j++) sum[j] += both * dy[j];
            }
        }
        PUT_WIDTH(X0, a.input[0].gradient, i, sum);
    }
}
