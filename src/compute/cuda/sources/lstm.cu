/*
 * The elementwise part of LSTM and GRU, position by position; formulas and names as in compute/reference/lstm.c. P is the type
 * of what products read, GRU is 0 or 1, PADDED says that the tokens are an input.
 *
 * A launch is for one position: number[0], that of the step before number[1], or -1. Its threads go over the N x H states.
 */
enum { STEPS = Y_D1, HIDDEN = Y_D0, GATES = (GRU ? 3 : 4) * HIDDEN, STATE = (GRU ? 1 : 2) * HIDDEN };

DEVICE float sigmoid(float x) { return 1 / (1 + expf(-x)); }

DEVICE float *gates_of(const struct call *a, int64_t row) { return (float *)a->inner + row * GATES; }
DEVICE float *cells_of(const struct call *a, int64_t row) {
    return (float *)a->inner + (int64_t)SAMPLES * STEPS * GATES + row * HIDDEN;
}

DEVICE int is_padding(const struct call *a, int64_t row) {
    (void)a, (void)row;
#if PADDED
    return ((const int32_t *)a->input[1].value)[row] == 0;
#else
    return 0;
#endif
}

/* What the gate's sum has beside the state's product: of the input, and its bias. */
DEVICE float input_part(const struct call *a, int64_t row, int gate) {
    return gates_of(a, row)[gate] + GET(W2, a->weights[2], gate);
}
/* The state's product, of number[2] whether there is one, and its bias. */
DEVICE float state_part(const struct call *a, int64_t n, int gate) {
    const float product = a->number[2] ? ((const float *)a->more[0])[n * GATES + gate] : 0;
    return product + GET(W3, a->weights[3], gate);
}

/* The state from which a sequence continues, as products read it: more[1] (N, H). */
KERNEL(lstm_begin) {
    EACH(i, a.count) {
        PUT(P, a.more[1], i, a.state[i / HIDDEN * STATE + i % HIDDEN]);
    }
}

/* more[0] (N, G): the state's product. more[1] (N, H): the new state, as products read it. number[3]: this is the last step. */
KERNEL(lstm_forward) {
    EACH(i, a.count) {
        const int64_t n = i / HIDDEN, row = n * STEPS + a.number[0], before = n * STEPS + a.number[1];
        const int h = (int)(i % HIDDEN);
        const int continues = a.number[1] >= 0;
        float *gates = gates_of(&a, row), *cell = cells_of(&a, row) + h, output = 0;
        if (is_padding(&a, row)) {
            for (int g = h; g < GATES; g += HIDDEN) gates[g] = 0;
            *cell = 0;
        } else {
#if GRU
            const float old = continues ? GET(Y, a.output, before * HIDDEN + h) : a.state ? a.state[n * STATE + h] : 0;
            const float v = state_part(&a, n, 2 * HIDDEN + h);
            const float r = sigmoid(input_part(&a, row, h) + state_part(&a, n, h));
            const float z = sigmoid(input_part(&a, row, HIDDEN + h) + state_part(&a, n, HIDDEN + h));
            const float new_part = tanhf(input_part(&a, row, 2 * HIDDEN + h) + r * v);
            gates[h] = r, gates[HIDDEN + h] = z, gates[2 * HIDDEN + h] = new_part;
            *cell = v;
            output = (1 - z) * new_part + z * old;
#else
            const float old = continues ? cells_of(&a, before)[h] : a.state ? a.state[n * STATE + HIDDEN + h] : 0;
            float sums[4];
            for (int g = 0; g < 4; g++) sums[g] = input_part(&a, row, g * HIDDEN + h) + state_part(&a, n, g * HIDDEN + h);
            const float in = sigmoid(sums[0]), forget = sigmoid(sums[1]), made = tanhf(sums[2]), out = sigmoid(sums[3]);
            gates[h] = in, gates[HIDDEN + h] = forget, gates[2 * HIDDEN + h] = made, gates[3 * HIDDEN + h] = out;
            *cell = forget * old + in * made;
            output = out * tanhf(*cell);
#endif
        }
        PUT(Y, a.output, row * HIDDEN + h, output);
        output = GET(Y, a.output, row * HIDDEN + h);
        PUT(P, a.more[1], i, output);
        if (a.number[3] && a.state) {
            a.state[n * STATE + h] = output;
#if !GRU
            a.state[n * STATE + HIDDEN + h] = *cell;
#endif
        }
    }
}

/* more[0], more[1]: d and e of all rows (N, T, G); more[2] (N, G): e of this position; more[3] (N, H): dh from the step after
 * by its product; more[4] (N, H): dc, or of a GRU what of dh comes without the product. number[2]: this is the last step. */
KERNEL(lstm_backward) {
    EACH(i, a.count) {
        const int64_t n = i / HIDDEN, row = n * STEPS + a.number[0], before = n * STEPS + a.number[1];
        const int h = (int)(i % HIDDEN);
        const int continues = a.number[1] >= 0;
        const float *gates = gates_of(&a, row);
        float *carried = (float *)a.more[4] + i;
        const float carry = a.number[2] ? 0 : *carried;
        const float into = GET(Y, a.output_gradient, row * HIDDEN + h) + (a.number[2] ? 0 : ((const float *)a.more[3])[i]);
        float d[4] = {0, 0, 0, 0}, of_state = 0;
        if (is_padding(&a, row)) {
            *carried = 0;
        } else {
#if GRU
            const float r = gates[h], z = gates[HIDDEN + h], made = gates[2 * HIDDEN + h], v = cells_of(&a, row)[h];
            const float old = continues ? GET(Y, a.output, before * HIDDEN + h) : 0, dh = into + carry;
            d[2] = dh * (1 - z) * (1 - made * made);
            d[0] = d[2] * v * r * (1 - r);
            d[1] = dh * (old - made) * z * (1 - z);
            of_state = d[2] * r;
            *carried = dh * z;
#else
            const float in = gates[h], forget = gates[HIDDEN + h], made = gates[2 * HIDDEN + h], out = gates[3 * HIDDEN + h];
            const float c = tanhf(cells_of(&a, row)[h]), cell = carry + into * out * (1 - c * c);
            d[0] = cell * made * in * (1 - in);
            d[1] = continues ? cell * cells_of(&a, before)[h] * forget * (1 - forget) : 0;
            d[2] = cell * in * (1 - made * made);
            d[3] = into * c * out * (1 - out);
            *carried = cell * forget;
#endif
        }
        for (int g = 0; g < GATES / HIDDEN; g++) {
            const float e = GRU && g == 2 ? of_state : d[g];
            PUT(P, a.more[0], row * GATES + g * HIDDEN + h, d[g]);
#if GRU
            PUT(P, a.more[1], row * GATES + g * HIDDEN + h, e);
#endif
            PUT(P, a.more[2], n * GATES + g * HIDDEN + h, e);
        }
    }
}

/* more[0] (N, T, H): at each position the output of the step before. number[0]: by how many positions that is later. */
KERNEL(lstm_before) {
    EACH(i, a.count) {
        const int64_t before = i / HIDDEN % STEPS + a.number[0];
        PUT(P, a.more[0], i, before >= 0 && before < STEPS ? GET(Y, a.output, i + a.number[0] * HIDDEN) : 0);
    }
}

/* The gradients of the biases, of d in more[1] and e in more[2]. */
#define COLUMN_SUMS (1 + GRU)
DEVICE void column_terms(const struct call *a, int64_t row, int64_t column, float terms[COLUMN_SUMS]) {
    terms[0] = GET(P, a->more[1], row * GATES + column);
#if GRU
    terms[1] = GET(P, a->more[2], row * GATES + column);
#endif
}
DEVICE void column_store(const struct call *a, int64_t column, const float sums[COLUMN_SUMS]) {
    if (a->gradients[2]) a->gradients[2][column] = sums[0];
    if (a->gradients[3]) a->gradients[3][column] = sums[COLUMN_SUMS - 1];
}
#include "columns.h"
