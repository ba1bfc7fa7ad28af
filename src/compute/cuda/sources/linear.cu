/* What follows the product of a linear layer, in place: bias (where number[0]) and ReLU (where number[1]). The bias's gradient:
 * db = sums of dy's columns. */

KERNEL(finish) {
    TEAM_ROWS(row, a.count) {
        TEAM_EACH(i, FEATURES) {
            float y[VECTOR], bias[VECTOR];
            GET_VECTOR(Y, a.output, row * FEATURES + i, y);
            if (a.number[0]) GET_VECTOR(f32, a.weights[1], i, bias);
            for (int j = 0; j < VECTOR; j++) {
                if (a.number[0]) y[j] += bias[j];
                if (a.number[1] && y[j] < 0) y[j] = 0;
            }
            PUT_VECTOR(Y, a.output, row * FEATURES + i, y);
        }
    }
}

#define COLUMN_SUMS 1

DEVICE void column_terms(const struct call *a, int64_t row, int64_t column, float terms[COLUMN_SUMS]) {
    terms[0] = GET(Y, a->output_gradient, row * a->count + column);
}

DEVICE void column_store(const struct call *a, int64_t column, const float sums[COLUMN_SUMS]) {
    a->gradients[1][column] = sums[0];
}

#include "columns.h"
