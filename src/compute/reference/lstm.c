/*
 * LSTM and GRU (graph/operators/lstm.c). x (N, T, D), y = h (N, T, H), weights w (G, D) and u (G, H), two biases (G), where G
 * is 4H or 3H: the gates, in the order i, f, g, o or r, z, n. Inner: the gates after their activation (N, T, G), then (N, T, H)
 * the cells c of an LSTM, or v = u_n h_before + bias_n of a GRU.
 *
 * Backward, through time: with dh = dy_t + what comes from the next position,
 *
 *     LSTM: do = dh tanh(c),  dc = dh o (1 - tanh(c)^2) + dc_next f_next,  di = dc g,  df = dc c_before,  dg = dc i
 *     GRU:  dn = dh (1 - z),  dz = dh (h_before - n),  dr = dn (1 - n^2) v
 *
 * each times the slope of its activation gives d, the gradient of the input's part of the sum before the activation. That of
 * the state's part, e, is the same but for n, where it is r times d. The workspace keeps d (N, T, G), for a GRU e, too, then dh
 * and dc of one position.
 *
 *     dx = d w,  dh_before = e u (GRU: + dh z),  dw = d^T x,  du = e^T h_before,  of the biases: the sums of d and of e
 */
#include <math.h>
#include <string.h>

#include "compute/reference/reference.h"

struct sizes {
    int64_t samples, steps, features, hidden, gates, rows; /* N, T, D, H, G, N x T */
    bool reverse, gru;
};

static struct sizes sizes_of(const struct kernel *kernel) {
    const int64_t *input = kernel_input(kernel, 0)->dim, hidden = kernel->node->shape.dim[0];
    const bool gru = kernel->node->id == OPERATOR_GRU;
    return (struct sizes){.samples = kernel->samples,
                          .steps = input[1],
                          .features = input[0],
                          .hidden = hidden,
                          .gates = (gru ? 3 : 4) * hidden,
                          .rows = kernel->samples * input[1],
                          .reverse = kernel->node->attributes.reverse,
                          .gru = gru};
}

static void set_sizes(struct kernel *kernel) {
    struct sizes s = sizes_of(kernel);
    kernel->inner_bytes = s.rows * (s.gates + s.hidden) * (int64_t)sizeof(float);
    kernel->state_floats = (s.gru ? 1 : 2) * s.hidden;
    kernel->workspace_bytes = ((s.gru ? 2 : 1) * s.rows * s.gates + 2 * s.hidden) * (int64_t)sizeof(float);
}

/* The row of the k-th step of a sample; -1: there is none. */
static int64_t row(const struct sizes *s, int64_t n, int64_t k) {
    return k < 0 ? -1 : n * s->steps + (s->reverse ? s->steps - 1 - k : k);
}

/* Of a row of inner memory: its gates, and what comes after those of all rows. */
static float *gates_of(const struct sizes *s, const struct kernel_call *call, int64_t row) {
    return call->inner + row * s->gates;
}
static float *cells_of(const struct sizes *s, const struct kernel_call *call, int64_t row) {
    return call->inner + s->rows * s->gates + row * s->hidden;
}

static bool is_padding(const struct kernel_call *call, int64_t row) {
    return call->input[1] != NULL && token_numbers(call->input[1])[row] == 0;
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* `sum` plus what a gate's row of weights makes of the features or of the state; NULL: zeros. */
static double add_product(double sum, int64_t count, const float *values, const float *weights, int64_t gate) {
    for (int64_t i = 0; i < count && values != NULL; i++) sum += (double)values[i] * (double)weights[gate * count + i];
    return sum;
}

/* Forward of a row. `output` and `cell` are those of the step before; NULL: zeros. */
static void lstm_step(const struct sizes *s, const struct kernel_call *call, int64_t now, const float *output,
                      const float *cell_before) {
    int64_t hidden = s->hidden;
    float *gates = gates_of(s, call, now), *cells = cells_of(s, call, now);
    for (int64_t g = 0; g < s->gates; g++) {
        double sum = (double)call->weights[2][g] + (double)call->weights[3][g];
        sum += add_product(0, s->features, call->input[0] + now * s->features, call->weights[0], g);
        sum += add_product(0, hidden, output, call->weights[1], g);
        gates[g] = (float)(g / hidden == 2 ? tanh(sum) : sigmoid(sum));
    }
    for (int64_t h = 0; h < hidden; h++) {
        double kept = cell_before ? (double)gates[hidden + h] * (double)cell_before[h] : 0;
        double cell = kept + (double)gates[h] * (double)gates[2 * hidden + h];
        cells[h] = (float)cell;
        call->output[now * hidden + h] = (float)((double)gates[3 * hidden + h] * tanh(cell));
    }
}

static void gru_step(const struct sizes *s, const struct kernel_call *call, int64_t now, const float *before) {
    int64_t hidden = s->hidden;
    float *gates = gates_of(s, call, now), *v = cells_of(s, call, now);
    const float *x = call->input[0] + now * s->features;
    for (int64_t h = 0; h < hidden; h++) {
        double input[3], state[3];
        for (int64_t k = 0, g = h; k < 3; k++, g += hidden) {
            input[k] = add_product((double)call->weights[2][g], s->features, x, call->weights[0], g);
            state[k] = add_product((double)call->weights[3][g], hidden, before, call->weights[1], g);
        }
        double r = sigmoid(input[0] + state[0]), z = sigmoid(input[1] + state[1]), n = tanh(input[2] + r * state[2]);
        gates[h] = (float)r, gates[hidden + h] = (float)z, gates[2 * hidden + h] = (float)n;
        v[h] = (float)state[2];
        call->output[now * hidden + h] = (float)((1 - z) * n + (before != NULL ? z * (double)before[h] : 0));
    }
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    struct sizes s = sizes_of(kernel);
    size_t bytes = (size_t)s.hidden * sizeof(float);
    for (int64_t n = 0; n < s.samples; n++) {
        float *state = call->state ? call->state + n * kernel->state_floats : NULL;
        const float *output = state, *cell = state ? state + s.hidden : NULL; /* of a GRU there is no cell */
        for (int64_t k = 0; k < s.steps; k++) {
            int64_t now = row(&s, n, k);
            if (is_padding(call, now)) {
                memset(gates_of(&s, call, now), 0, (size_t)s.gates * sizeof(float));
                memset(cells_of(&s, call, now), 0, bytes);
                memset(call->output + now * s.hidden, 0, bytes);
            } else if (s.gru) {
                gru_step(&s, call, now, output);
            } else {
                lstm_step(&s, call, now, output, cell);
            }
            output = call->output + now * s.hidden;
            cell = cells_of(&s, call, now);
        }
        if (state) memcpy(state, output, bytes);
        if (state && !s.gru) memcpy(state + s.hidden, cell, bytes);
    }
    return PS_OK;
}

/* What the backward keeps: d and e of all rows, and, of one position, what comes from the next one and what goes to the one
 * before. */
struct gradients {
    float *d, *e, *dh, *dc;
};

static struct gradients gradients_of(const struct sizes *s, const struct kernel_call *call) {
    float *d = call->workspace, *e = s->gru ? d + s->rows * s->gates : d, *dh = e + s->rows * s->gates;
    return (struct gradients){d, e, dh, dh + s->hidden};
}

/* d, e, dh and dc before the product with the weights. */
static void lstm_back(const struct sizes *s, const struct kernel_call *call, int64_t now, int64_t before,
                      const struct gradients *to) {
    int64_t hidden = s->hidden;
    const float *gates = gates_of(s, call, now), *cells = cells_of(s, call, now);
    float *d = to->d + now * s->gates;
    for (int64_t h = 0; h < hidden; h++) {
        double i = (double)gates[h], f = (double)gates[hidden + h], g = (double)gates[2 * hidden + h];
        double o = (double)gates[3 * hidden + h], c = tanh((double)cells[h]);
        double into = (double)to->dh[h] + (double)call->output_gradient[now * hidden + h];
        double cell = (double)to->dc[h] + into * o * (1 - c * c);
        d[h] = (float)(cell * g * i * (1 - i));
        d[hidden + h] = before >= 0 ? (float)(cell * (double)cells_of(s, call, before)[h] * f * (1 - f)) : 0;
        d[2 * hidden + h] = (float)(cell * i * (1 - g * g));
        d[3 * hidden + h] = (float)(into * c * o * (1 - o));
        to->dc[h] = (float)(cell * f);
        to->dh[h] = 0;
    }
}

static void gru_back(const struct sizes *s, const struct kernel_call *call, int64_t now, int64_t before,
                     const struct gradients *to) {
    int64_t hidden = s->hidden;
    const float *gates = gates_of(s, call, now), *vs = cells_of(s, call, now);
    float *d = to->d + now * s->gates, *e = to->e + now * s->gates;
    for (int64_t h = 0; h < hidden; h++) {
        double r = (double)gates[h], z = (double)gates[hidden + h], n = (double)gates[2 * hidden + h], v = (double)vs[h];
        double into = (double)to->dh[h] + (double)call->output_gradient[now * hidden + h];
        double old = before >= 0 ? (double)call->output[before * hidden + h] : 0, dn = into * (1 - z) * (1 - n * n);
        d[h] = e[h] = (float)(dn * v * r * (1 - r));
        d[hidden + h] = e[hidden + h] = (float)(into * (old - n) * z * (1 - z));
        d[2 * hidden + h] = (float)dn;
        e[2 * hidden + h] = (float)(dn * r);
        to->dh[h] = (float)(into * z);
    }
}

static enum ps_status backward_shared(struct kernel *kernel, const struct kernel_call *call) {
    struct sizes s = sizes_of(kernel);
    const struct gradients to = gradients_of(&s, call);
    const size_t state_bytes = 2 * (size_t)s.hidden * sizeof(float), gate_bytes = (size_t)s.gates * sizeof(float);
    for (int64_t n = 0; n < s.samples; n++) {
        memset(to.dh, 0, state_bytes);
        for (int64_t k = s.steps - 1; k >= 0; k--) {
            int64_t now = row(&s, n, k);
            const float *e = to.e + now * s.gates;
            if (is_padding(call, now)) {
                memset(to.d + now * s.gates, 0, gate_bytes);
                memset(to.e + now * s.gates, 0, gate_bytes);
                memset(to.dh, 0, state_bytes);
                continue;
            }
            (s.gru ? gru_back : lstm_back)(&s, call, now, row(&s, n, k - 1), &to);
            for (int64_t h = 0; h < s.hidden; h++) {
                double sum = (double)to.dh[h];
                for (int64_t g = 0; g < s.gates; g++) sum += (double)e[g] * (double)call->weights[1][g * s.hidden + h];
                to.dh[h] = (float)sum;
            }
        }
    }
    return PS_OK;
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call) {
    struct sizes s = sizes_of(kernel);
    for (int64_t r = 0; r < s.rows && call->input_gradient[0] != NULL; r++) {
        const float *d = gradients_of(&s, call).d + r * s.gates;
        for (int64_t c = 0; c < s.features; c++) {
            double sum = 0;
            for (int64_t g = 0; g < s.gates; g++) sum += (double)d[g] * (double)call->weights[0][g * s.features + c];
            call->input_gradient[0][r * s.features + c] = (float)sum;
        }
    }
    return PS_OK;
}

/* The sum over the rows of d[gate] times column c of what multiplied the weight there: x, or the output of the step before. */
static double weight_gradient(const struct sizes *s, const float *d, int64_t gate, const float *x, int64_t features, int64_t c,
                              bool before) {
    double sum = 0;
    for (int64_t n = 0; n < s->samples; n++) {
        for (int64_t k = before ? 1 : 0; k < s->steps; k++)
            sum += (double)d[row(s, n, k) * s->gates + gate] * (double)x[row(s, n, before ? k - 1 : k) * features + c];
    }
    return sum;
}

static double bias_gradient(const struct sizes *s, const float *d, int64_t gate) {
    double sum = 0;
    for (int64_t r = 0; r < s->rows; r++) sum += (double)d[r * s->gates + gate];
    return sum;
}

static enum ps_status backward_weight(struct kernel *kernel, const struct kernel_call *call) {
    struct sizes s = sizes_of(kernel);
    const struct gradients of = gradients_of(&s, call);
    for (int64_t g = 0; g < s.gates; g++) {
        for (int64_t c = 0; c < s.features; c++)
            call->gradients[0][g * s.features + c] = (float)weight_gradient(&s, of.d, g, call->input[0], s.features, c, false);
        for (int64_t c = 0; c < s.hidden; c++)
            call->gradients[1][g * s.hidden + c] = (float)weight_gradient(&s, of.e, g, call->output, s.hidden, c, true);
        call->gradients[2][g] = (float)bias_gradient(&s, of.d, g);
        call->gradients[3][g] = (float)bias_gradient(&s, of.e, g);
    }
    return PS_OK;
}

#define RECURRENT                                                                                                              \
    {                                                                                                                          \
        .set_sizes = set_sizes, .forward = forward, .backward_shared = backward_shared, .backward_input = backward_input,      \
        .backward_weight = backward_weight                                                                                     \
    }
const struct kernel_class reference_lstm = RECURRENT, reference_gru = RECURRENT;
