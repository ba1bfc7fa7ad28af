/* What convolutions do beside their products. RELU: a ReLU follows. */

/* y = y + b, and ReLU. */
KERNEL(convolution_bias) {
    EACH4(i, a.count) {
        float y[4];
        GET4(Y, a.output, i, a.count, y);
#if A_bias
        int column = (int)(i % FEATURES);
        for (int k = 0; k < 4; k++) {
            y[k] += GET(W1, a.weights[1], column);
            column = column + 1 < FEATURES ? column + 1 : 0;
        }
#endif
        for (int k = 0; k < 4; k++) y[k] = RELU && y[k] < 0 ? 0 : y[k];
        PUT4(Y, a.output, i, a.count, y);
    }
}

/* Weights in canonical order, more[0] (O, C, K), to more[1] (O, K, C), with K = number[0] and C = number[1]. */
KERNEL(convolution_turn) {
    EACH(i, a.count) {
        const int64_t taps = a.number[0], channels = a.number[1], c = i % channels, k = i / channels % taps;
        PUT(W0, a.more[1], i, GET(W0, a.more[0], ((i / (channels * taps)) * channels + c) * taps + k));
    }
}

/* Their gradient back from more[1] to more[0]. */
KERNEL(convolution_turn_back) {
    EACH(i, a.count) {
        const int64_t taps = a.number[0], channels = a.number[1], k = i % taps, c = i / taps % channels;
        ((float *)a.more[0])[i] = ((const float *)a.more[1])[((i / (channels * taps)) * taps + k) * channels + c];
    }
}

/* The gradient of the bias. */
#define COLUMN_SUMS 1
DEVICE void column_terms(const struct call *a, int64_t row, int64_t column, float terms[COLUMN_SUMS]) {
    terms[0] = GET(Y, a->output_gradient, row * FEATURES + column);
}
DEVICE void column_store(const struct call *a, int64_t column, const float sums[COLUMN_SUMS]) {
    a->gradients[1][column] = sums[0];
}
#include "columns.h"
