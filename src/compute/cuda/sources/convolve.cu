/*
 * Convolutions without a library: for what it has no engine for, and for one channel a group. Names, order of memory and
 * formulas as in compute/reference/convolution.c, weights (O, KH, KW, C / groups). a.more: x, w, y, and floats for sums.
 *
 * The gradient of a weight is a sum over all rows of the output. They are divided into a.number[0] pieces, whose sums another
 * kernel adds up.
 */
enum {
    GROUP_IN = CHANNELS / GROUPS,
    GROUP_OUT = OUT_CHANNELS / GROUPS,
    TAPS = KERNEL_H * KERNEL_W,
    WEIGHTS = OUT_CHANNELS * TAPS * GROUP_IN
};

#ifdef HOST
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#else
#define MULTIPLY_ADD(a, b, c) fmaf((a), (b), (c))
#endif

DEVICE int64_t x_at(int64_t n, int h, int w) { return ((n * HEIGHT + h) * WIDTH + w) * CHANNELS; }
DEVICE int64_t y_at(int64_t n, int h, int w) { return ((n * OUT_HEIGHT + h) * OUT_WIDTH + w) * OUT_CHANNELS; }

KERNEL(convolve_forward) {
    EACH(i, a.count) {
        const int o = (int)(i % OUT_CHANNELS), ow = (int)(i / OUT_CHANNELS % OUT_WIDTH);
        const int oh = (int)(i / (OUT_CHANNELS * OUT_WIDTH) % OUT_HEIGHT);
        const int64_t n = i / ((int64_t)OUT_CHANNELS * OUT_WIDTH * OUT_HEIGHT);
        float sum = 0;
        for (int kh = 0; kh < KERNEL_H; kh++) {
            const int h = oh * STRIDE_H - PAD_H + kh * DILATION_H;
            if (h < 0 || h >= HEIGHT) continue;
            for (int kw = 0; kw < KERNEL_W; kw++) {
                const int w = ow * STRIDE_W - PAD_W + kw * DILATION_W;
                if (w < 0 || w >= WIDTH) continue;
                const int64_t x = x_at(n, h, w) + o / GROUP_OUT * GROUP_IN;
                const int64_t weight = ((int64_t)o * TAPS + kh * KERNEL_W + kw) * GROUP_IN;
                for (int c = 0; c < GROUP_IN; c++)
                    sum = MULTIPLY_ADD(GET(X, a.more[0], x + c), GET(W, a.more[1], weight + c), sum);
            }
        }
        PUT(Y, a.more[2], i, sum);
    }
}

KERNEL(convolve_input) {
    EACH(i, a.count) {
        const int channel = (int)(i % CHANNELS), w = (int)(i / CHANNELS % WIDTH);
        const int h = (int)(i / ((int64_t)CHANNELS * WIDTH) % HEIGHT);
        const int64_t n = i / ((int64_t)CHANNELS * WIDTH * HEIGHT);
        const int first = channel / GROUP_IN * GROUP_OUT, c = channel % GROUP_IN;
        float sum = 0;
        for (int kh = 0; kh < KERNEL_H; kh++) {
            const int row = h + PAD_H - kh * DILATION_H;
            if (row < 0 || row % STRIDE_H != 0 || row / STRIDE_H >= OUT_HEIGHT) continue;
            for (int kw = 0; kw < KERNEL_W; kw++) {
                const int column = w + PAD_W - kw * DILATION_W;
                if (column < 0 || column % STRIDE_W != 0 || column / STRIDE_W >= OUT_WIDTH) continue;
                const int64_t y = y_at(n, row / STRIDE_H, column / STRIDE_W);
                const int tap = kh * KERNEL_W + kw;
                for (int o = first; o < first + GROUP_OUT; o++)
                    sum = MULTIPLY_ADD(GET(Y, a.more[2], y + o), GET(W, a.more[1], ((int64_t)o * TAPS + tap) * GROUP_IN + c),
                                       sum);
            }
        }
        PUT(X, a.more[0], i, sum);
    }
}

/* A thread's weight in a piece: neighbours are neighbours in memory of x, or of y. */
KERNEL(convolve_weights) {
    const int64_t lines = (int64_t)SAMPLES * OUT_HEIGHT, each = (lines + a.number[0] - 1) / a.number[0];
    EACH(i, a.count) {
        const int64_t piece = i / WEIGHTS, end = (piece + 1) * each < lines ? (piece + 1) * each : lines;
        const int c = (int)(i % GROUP_IN), o = (int)(i / GROUP_IN % OUT_CHANNELS);
        const int tap = (int)(i % WEIGHTS / (GROUP_IN * OUT_CHANNELS)), kh = tap / KERNEL_W, kw = tap % KERNEL_W;
        const int channel = o / GROUP_OUT * GROUP_IN + c;
        float sum = 0;
        for (int64_t line = piece * each; line < end; line++) {
            const int64_t n = line / OUT_HEIGHT;
            const int oh = (int)(line % OUT_HEIGHT), h = oh * STRIDE_H - PAD_H + kh * DILATION_H;
            if (h < 0 || h >= HEIGHT) continue;
            float part = 0;
            for (int ow = 0; ow < OUT_WIDTH; ow++) {
                const int w = ow * STRIDE_W - PAD_W + kw * DILATION_W;
                if (w < 0 || w >= WIDTH) continue;
                part = MULTIPLY_ADD(GET(Y, a.more[2], y_at(n, oh, ow) + o), GET(X, a.more[0], x_at(n, h, w) + channel), part);
            }
            sum += part;
        }
        ((float *)a.more[3])[i] = sum;
    }
}

KERNEL(convolve_weights_finish) {
    EACH(i, a.count) {
        const int64_t c = i % GROUP_IN, tap = i / GROUP_IN % TAPS, o = i / (GROUP_IN * TAPS);
        const float *parts = (const float *)a.more[3] + (tap * OUT_CHANNELS + o) * GROUP_IN + c;
        float sum = 0;
        for (int64_t piece = 0; piece < a.number[0]; piece++) sum += parts[piece * WEIGHTS];
        PUT(W, a.more[1], i, sum);
    }
}
