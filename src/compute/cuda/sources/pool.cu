/*
 * Pooling of x (N, H, W, C) to y (N, OH, OW, C): the windows of graph/operators/max_pool.c and average_pool.c. A thread has
 * VECTOR channels of a pixel. The backward gathers: a pixel's gradient is the sum over the windows that it lies in, in their
 * order. INDEX (pool.c) holds the number of a vector. Inner memory of max_pool holds which element of its window won, the first
 * of equal ones.
 */
#ifndef A_out_0
#define A_out_0 0
#define A_out_1 0
#endif
#define ADAPTIVE (A_out_0 > 0 && A_out_1 > 0)
#define GROUPS (Y_D0 / VECTOR)
/* Of the thread's channels in a pixel of x and of y. */
#define AT_X(h, w) ((int64_t)(((n * X0_D1 + (INDEX)(h)) * X0_D2 + (INDEX)(w)) * GROUPS + (INDEX)group) * VECTOR)
#define AT_Y(row, column) ((int64_t)(((n * Y_D1 + (INDEX)(row)) * Y_D2 + (INDEX)(column)) * GROUPS + (INDEX)group) * VECTOR)

#if A_kernel_0 * A_kernel_1 <= 256
typedef uint8_t winner;
#else
typedef uint32_t winner;
#endif

/* One side of a window: its first element in the image, the element before which it ends, and how many count. */
struct span {
    int first, end, counted;
};

/* How many of the window's elements, which begins at `start`, lie before `limit`. */
DEVICE int before(int start, int limit, int kernel, int dilation) {
    const int count = limit <= start ? 0 : (limit - start + dilation - 1) / dilation;
    return count < kernel ? count : kernel;
}

DEVICE struct span slide(int index, int size, int kernel, int stride, int pad, int pad_end, int dilation, int with_padding) {
    const int start = index * stride - pad, outside = before(start, 0, kernel, dilation), end = before(start, size, kernel, dilation);
    struct span made;
    made.first = start + outside * dilation;
    made.end = start + (end - 1) * dilation + 1;
    made.counted = with_padding ? before(start, size + pad_end, kernel, dilation) : end - outside;
    return made;
}

DEVICE struct span adapt(int index, int size, int out) {
    struct span made;
    made.first = (int)((int64_t)index * size / (out > 0 ? out : 1));
    made.end = (int)(((int64_t)(index + 1) * size + out - 1) / (out > 0 ? out : 1));
    made.counted = made.end - made.first;
    return made;
}

#ifdef A_count_padding
#define COUNTS_PADDING A_count_padding
#else
#define COUNTS_PADDING 0
#endif
DEVICE struct span rows_of(int index) {
    return ADAPTIVE ? adapt(index, X0_D1, A_out_0)
                    : slide(index, X0_D1, A_kernel_0, A_stride_0, A_pad_0, A_pad_0 + A_pad_extra_0, A_dilation_0, COUNTS_PADDING);
}
DEVICE struct span columns_of(int index) {
    return ADAPTIVE ? adapt(index, X0_D2, A_out_1)
                    : slide(index, X0_D2, A_kernel_1, A_stride_1, A_pad_1, A_pad_1 + A_pad_extra_1, A_dilation_1, COUNTS_PADDING);
}

#define ROW_STEP (ADAPTIVE ? 1 : A_dilation_0)
#define COLUMN_STEP (ADAPTIVE ? 1 : A_dilation_1)

/* Where element (h, w) of a window is in the order of its elements. */
#define IN_WINDOW(h, w, row, column)                                                                                           \
    (((h) + A_pad_0 - (row)*A_stride_0) / A_dilation_0 * A_kernel_1 + ((w) + A_pad_1 - (column)*A_stride_1) / A_dilation_1)

KERNEL(max_forward) {
    winner *winners = (winner *)a.inner;
    EACH(i, a.count / VECTOR) {
        const INDEX k = (INDEX)i;
        const int group = (int)(k % GROUPS), column = (int)(k / GROUPS % Y_D2), row = (int)(k / GROUPS / Y_D2 % Y_D1);
        const INDEX n = k / GROUPS / Y_D2 / Y_D1;
        const struct span rows = rows_of(row), columns = columns_of(column);
        float best[VECTOR];
        int won[VECTOR];
        int any = 0;
        for (int h = rows.first; h < rows.end; h += ROW_STEP)
            for (int w = columns.first; w < columns.end; w += COLUMN_STEP) {
                float x[VECTOR];
                GET_VECTOR(X0, a.input[0].value, AT_X(h, w), x);
                UNROLL for (int j = 0; j < VECTOR; j++)
                    if (!any || x[j] > best[j]) best[j] = x[j], won[j] = IN_WINDOW(h, w, row, column);
                any = 1;
            }
        PUT_VECTOR(Y, a.output, i * VECTOR, best);
        UNROLL for (int j = 0; j < VECTOR; j++) winners[i * VECTOR + j] = (winner)won[j];
    }
}

/* The windows that a pixel can lie in, along a side. */
DEVICE int first_window(int at, int kernel, int stride, int pad, int dilation, int size, int out) {
    const int reach = at + pad - (kernel - 1) * dilation;
    const int first = ADAPTIVE ? (int)((int64_t)at * out / size) - 1 : (reach + stride - 1) / stride;
    return (!ADAPTIVE && reach <= 0) || first < 0 ? 0 : first;
}
DEVICE int last_window(int at, int stride, int pad, int size, int out) {
    const int last = ADAPTIVE ? (int)(((int64_t)at + 1) * out / size) : (at + pad) / stride;
    return last < out - 1 ? last : out - 1;
}
/* Does a window hold the pixel? */
DEVICE int holds(const struct span *span, int at, int step) {
    return at >= span->first && at < span->end && (at - span->first) % step == 0;
}

#define EACH_WINDOW(row, column)                                                                                               \
    for (int row = first_window(h, A_kernel_0, A_stride_0, A_pad_0, A_dilation_0, X0_D1, Y_D1),                                \
             row_last = last_window(h, A_stride_0, A_pad_0, X0_D1, Y_D1);                                                      \
         row <= row_last; row++)                                                                                               \
        for (int column = first_window(w, A_kernel_1, A_stride_1, A_pad_1, A_dilation_1, X0_D2, Y_D2),                         \
                 column_last = last_window(w, A_stride_1, A_pad_1, X0_D2, Y_D2);                                               \
             column <= column_last; column++)

KERNEL(max_backward) {
    const winner *winners = (const winner *)a.inner;
    EACH(i, a.count / VECTOR) {
        const INDEX k = (INDEX)i;
        const int group = (int)(k % GROUPS), w = (int)(k / GROUPS % X0_D2), h = (int)(k / GROUPS / X0_D2 % X0_D1);
        const INDEX n = k / GROUPS / X0_D2 / X0_D1;
        float sum[VECTOR];
        UNROLL for (int j = 0; j < VECTOR; j++) sum[j] = 0;
        EACH_WINDOW(row, column) {
            const struct span rows = rows_of(row), columns = columns_of(column);
            if (!holds(&rows, h, ROW_STEP) || !holds(&columns, w, COLUMN_STEP)) continue;
            const int64_t at = AT_Y(row, column);
            const int place = IN_WINDOW(h, w, row, column);
            float dy[VECTOR];
            GET_VECTOR(Y, a.output_gradient, at, dy);
            UNROLL for (int j = 0; j < VECTOR; j++)
                if ((int)winners[at + j] == place) sum[j] += dy[j];
        }
        PUT_VECTOR(X0, a.input[0].gradient, i * VECTOR, sum);
    }
}

KERNEL(average_forward) {
    EACH(i, a.count / VECTOR) {
        const INDEX k = (INDEX)i;
        const int group = (int)(k % GROUPS), column = (int)(k / GROUPS % Y_D2), row = (int)(k / GROUPS / Y_D2 % Y_D1);
        const INDEX n = k / GROUPS / Y_D2 / Y_D1;
        const struct span rows = rows_of(row), columns = columns_of(column);
        const float factor = 1.0f / (float)(rows.counted * columns.counted);
        float sum[VECTOR];
        UNROLL for (int j = 0; j < VECTOR; j++) sum[j] = 0;
        for (int h = rows.first; h < rows.end; h += ROW_STEP)
            for (int w = columns.first; w < columns.end; w += COLUMN_STEP) {
                float x[VECTOR];
                GET_VECTOR(X0, a.input[0].value, AT_X(h, w), x);
                UNROLL for (int j = 0; j < VECTOR; j++) sum[j] += x[j];
            }
        UNROLL for (int j = 0; j < VECTOR; j++) sum[j] *= factor;
        PUT_VECTOR(Y, a.output, i * VECTOR, sum);
    }
}

KERNEL(average_backward) {
    EACH(i, a.count / VECTOR) {
        const INDEX k = (INDEX)i;
        const int group = (int)(k % GROUPS), w = (int)(k / GROUPS % X0_D2), h = (int)(k / GROUPS / X0_D2 % X0_D1);
        const INDEX n = k / GROUPS / X0_D2 / X0_D1;
        float sum[VECTOR];
        UNROLL for (int j = 0; j < VECTOR; j++) sum[j] = 0;
        EACH_WINDOW(row, column) {
            const struct span rows = rows_of(row), columns = columns_of(column);
            if (!holds(&rows, h, ROW_STEP) || !holds(&columns, w, COLUMN_STEP)) continue;
            const float factor = 1.0f / (float)(rows.counted * columns.counted);
            float dy[VECTOR];
            GET_VECTOR(Y, a.output_gradient, AT_Y(row, column), dy);
            UNROLL for (int j = 0; j < VECTOR; j++) sum[j] += dy[j] * factor;
        }
        PUT_VECTOR(X0, a.input[0].gradient, i * VECTOR, sum);
    }
}
