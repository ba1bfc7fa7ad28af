/*
 * Vectors of tokens, and vectors added at each position: graph/operators/embedding.c, position_embedding.c.
 *
 * The gradient of the vectors: a team has one token of the vocabulary and goes through the tokens of the micro-batch in their
 * order, as many at a time as it has threads; where it finds its own it adds their gradients to its row.
 */
#ifdef A_vocabulary
KERNEL(forward) {
    const int32_t *tokens = (const int32_t *)a.input[0].value;
    TEAM_ROWS(row, a.count) {
        const int32_t token = tokens[row];
        const int known = token >= 0 && token < A_vocabulary;
        if (!known && TEAM_RANK == 0) {
            a.fault->value = token;
            a.fault->limit = A_vocabulary;
            a.fault->index = row;
            a.fault->positions = Y_D1;
            a.fault->kind = 1;
        }
        TEAM_EACH(i, FEATURES) {
            float w[VECTOR];
            GET_VECTOR(W0, a.weights[0], (int64_t)(known ? token : 0) * FEATURES + i, w);
            PUT_VECTOR(Y, a.output, row * FEATURES + i, w);
        }
    }
}

KERNEL(backward_weight) {
    const int32_t *tokens = (const int32_t *)a.input[0].value;
    float *gradient = a.gradients[0];
    TEAM_ROWS(v, a.count) {
        TEAM_EACH(i, FEATURES) {
            float none[VECTOR];
            UNROLL for (int j = 0; j < VECTOR; j++) none[j] = 0;
            PUT_VECTOR(f32, gradient, v * FEATURES + i, none);
        }
        if (A_padded && v == A_padding) continue;
        for (int64_t first = 0; first < ROWS; first += TEAM) {
            const int64_t own = first + TEAM_RANK;
            if (team_sum_int(own < ROWS && tokens[own] == v) == 0) continue;
            for (int64_t row = first; row < first + TEAM && row < ROWS; row++) {
                if (tokens[row] != v) continue;
                TEAM_EACH(i, FEATURES) {
                    float sum[VECTOR], dy[VECTOR];
                    GET_VECTOR(f32, gradient, v * FEATURES + i, sum);
                    GET_VECTOR(Y, a.output_gradient, row * FEATURES + i, dy);
                    UNROLL for (int j = 0; j < VECTOR; j++) sum[j] += dy[j];
                    PUT_VECTOR(f32, gradient, v * FEATURES + i, sum);
                }
            }
        }
    }
}
#endif

#ifdef A_everywhere
#define USED (A_everywhere ? FEATURES : Y_D1 * FEATURES) /* elements of the table that are added to a sample */
#define COLUMN_SUMS 1

KERNEL(add_forward) {
    EACH4(i, a.count) {
        float x[4];
        GET4(X0, a.input[0].value, i, a.count, x);
        UNROLL for (int j = 0; j < 4; j++) x[j] += GET(W0, a.weights[0], ((INDEX)i + (INDEX)j) % USED);
        PUT4(Y, a.output, i, a.count, x);
    }
}

KERNEL(add_backward_input) {
    if ((const void *)a.input[0].gradient == a.output_gradient) return;
    EACH4(i, a.count) {
        float dy[4];
        GET4(Y, a.output_gradient, i, a.count, dy);
        PUT4(X0, a.input[0].gradient, i, a.count, dy);
    }
}

DEVICE void column_terms(const struct call *a, int64_t row, int64_t column, float terms[COLUMN_SUMS]) {
    terms[0] = column < USED ? GET(Y, a->output_gradient, row * USED + column) : 0;
}

DEVICE void column_store(const struct call *a, int64_t column, const float sums[COLUMN_SUMS]) {
    a->gradients[0][column] = sums[0];
}
#include "columns.h"
#endif
