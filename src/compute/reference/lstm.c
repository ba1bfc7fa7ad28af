/*
 * LSTM (graph/operators/lstm.c). x (N, T, D), y = h (N, T, H), weights w (4H, D) and u (4H, H), two biases (4H); gates in the
 * order i, f, g, o. Inner: the gates after their activation (N, T, 4H), then the cells c (N, T, H).
 *
 * Backward, through time: with dh = dy_t + what comes from the next position,
 *     do = dh tanh(c),  dc = dh o (1 - tanh(c)^2) + dc_next f_next,  di = dc g,  df = dc c_before,  dg = dc i
 * each times the slope of its activation gives d, the gradient before the activation (kept in the workspace, N, T, 4H); then
 *     dx = d w,  dh_before = d u,  dw = d^T x,  du = d^T h_before,  both biases: the sum of d.
 */
#include <math.h>
#include <string.h>

#include "compute/reference/reference.h"

struct sizes {
    int64_t samples, steps, features, hidden; /* N, T, D, H */
    bool reverse;
};

static struct sizes sizes_of(const struct kernel *kernel) {
    return (struct sizes){kernel->samples, kernel_input(kernel, 0)->dim[1], kernel_input(kernel, 0)->dim[0],
                          kernel->node->shape.dim[0], kernel->node->attributes.reverse};
}

static void set_sizes(struct kernel *kernel) {
    struct sizes s = sizes_of(kernel);
    int64_t cells = s.samples * s.steps * s.hidden * (int64_t)sizeof(float);
    kernel->inner_bytes = 5 * cells;
    kernel->state_floats = 2 * s.hidden;
    kernel->workspace_bytes = 4 * cells + 2 * s.hidden * (int64_t)sizeof(float);
}

/* The position of the k-th step, and the one before it (-1: none). */
static int64_t position(const struct sizes *s, int64_t k) { return s->reverse ? s->steps - 1 - k : k; }
static int64_t row(const struct sizes *s, int64_t n, int64_t k) { return k < 0 ? -1 : n * s->steps + position(s, k); }

static bool is_padding(const struct kernel_call *call, int64_t row) {
    return call->input[1] != NULL && token_numbers(call->input[1])[row] == 0;
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static double product(int64_t count, const float *a, const float *b) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

/* `output` and `cell` are those of the step before; NULL: it is the first. */
static void step(const struct sizes *s, const struct kernel_call *call, int64_t now, const float *output,
                 const float *cell_before) {
    int64_t hidden = s->hidden;
    float *gates = call->inner + now * 4 * hidden, *cells = call->inner + s->samples * s->steps * 4 * hidden;
    for (int64_t g = 0; g < 4 * hidden; g++) {
        double sum = (double)call->weights[2][g] + (double)call->weights[3][g];
        sum += product(s->features, call->input[0] + now * s->features, call->weights[0] + g * s->features);
        if (output) sum += product(hidden, output, call->weights[1] + g * hidden);
        gates[g] = (float)(g / hidden == 2 ? tanh(sum) : sigmoid(sum));
    }
    for (int64_t h = 0; h < hidden; h++) {
        double kept = cell_before ? (double)gates[hidden + h] * (double)cell_before[h] : 0;
        double cell = kept + (double)gates[h] * (double)gates[2 * hidden + h];
        cells[now * hidden + h] = (float)cell;
        call->output[now * hidden + h] = (float)((double)gates[3 * hidden + h] * tanh(cell));
    }
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    struct sizes s = sizes_of(kernel);
    float *cells = call->inner + s.samples * s.steps * 4 * s.hidden;
    size_t bytes = (size_t)s.hidden * sizeof(float);
    for (int64_t n = 0; n < s.samples; n++) {
        float *state = call->state ? call->state + 2 * n * s.hidden : NULL;
        const float *output = state, *cell = state ? state + s.hidden : NULL;
        for (int64_t k = 0; k < s.steps; k++) {
            int64_t now = row(&s, n, k);
            if (is_padding(call, now)) {
                memset(call->inner + now * 4 * s.hidden, 0, 4 * bytes);
                memset(cells + now * s.hidden, 0, bytes);
                memset(call->output + now * s.hidden, 0, bytes);
            } else {
                step(&s, call, now, output, cell);
            }
            output = call->output + now * s.hidden;
            cell = cells + now * s.hidden;
        }
        if (!state) continue;
        memcpy(state, output, bytes);
        memcpy(state + s.hidden, cell, bytes);
    }
    return PS_OK;
}

/* d of one position; `dh` and `dc` are what comes from the next position, and get what goes to the one before. */
static void step_back(const struct sizes *s, const struct kernel_call *call, int64_t now, int64_t before, float *d, float *dh,
                      float *dc) {
    int64_t hidden = s->hidden;
    const float *gates = call->inner + now * 4 * hidden, *cells = call->inner + s->samples * s->steps * 4 * hidden;
    for (int64_t h = 0; h < hidden; h++) {
        double i = (double)gates[h], f = (double)gates[hidden + h], g = (double)gates[2 * hidden + h];
        double o = (double)gates[3 * hidden + h], c = tanh((double)cells[now * hidden + h]);
        double into = (double)dh[h] + (double)call->output_gradient[now * hidden + h];
        double cell = (double)dc[h] + into * o * (1 - c * c);
        d[h] = (float)(cell * g * i * (1 - i));
        d[hidden + h] = before >= 0 ? (float)(cell * (double)cells[before * hidden + h] * f * (1 - f)) : 0;
        d[2 * hidden + h] = (float)(cell * i * (1 - g * g));
        d[3 * hidden + h] = (float)(into * c * o * (1 - o));
        dc[h] = (float)(cell * f);
    }
    for (int64_t h = 0; h < hidden; h++) {
        double sum = 0;
        for (int64_t g = 0; g < 4 * hidden; g++) sum += (double)d[g] * (double)call->weights[1][g * hidden + h];
        dh[h] = (float)sum;
    }
}

static enum ps_status backward_shared(struct kernel *kernel, const struct kernel_call *call) {
    struct sizes s = sizes_of(kernel);
    float *gradients = call->workspace, *dh = gradients + s.samples * s.steps * 4 * s.hidden, *dc = dh + s.hidden;
    for (int64_t n = 0; n < s.samples; n++) {
        memset(dh, 0, 2 * (size_t)s.hidden * sizeof(float));
        for (int64_t k = s.steps - 1; k >= 0; k--) {
            int64_t now = row(&s, n, k);
            float *d = gradients + now * 4 * s.hidden;
            if (!is_padding(call, now)) {
                step_back(&s, call, now, row(&s, n, k - 1), d, dh, dc);
                continue;
            }
            memset(d, 0, (size_t)(4 * s.hidden) * sizeof(float));
            memset(dh, 0, 2 * (size_t)s.hidden * sizeof(float));
        }
    }
    return PS_OK;
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call) {
    struct sizes s = sizes_of(kernel);
    for (int64_t r = 0; r < s.samples * s.steps && call->input_gradient[0] != NULL; r++) {
        const float *d = (const float *)call->workspace + r * 4 * s.hidden;
        for (int64_t c = 0; c < s.features; c++) {
            double sum = 0;
            for (int64_t g = 0; g < 4 * s.hidden; g++) sum += (double)d[g] * (double)call->weights[0][g * s.features + c];
            call->input_gradient[0][r * s.features + c] = (float)sum;
        }
    }
    return PS_OK;
}

/* dw[g, c] = sum over the rows of d[g] times column c of what multiplied w there. */
static double weight_gradient(const struct sizes *s, const float *d, int64_t gate, const float *x, int64_t features, int64_t c,
                              bool before) {
    double sum = 0;
    for (int64_t n = 0; n < s->samples; n++) {
        for (int64_t k = before ? 1 : 0; k < s->steps; k++) {
            sum += (double)d[row(s, n, k) * 4 * s->hidden + gate] * (double)x[row(s, n, before ? k - 1 : k) * features + c];
        }
    }
    return sum;
}

static enum ps_status backward_weight(struct kernel *kernel, const struct kernel_call *call) {
    struct sizes s = sizes_of(kernel);
    const float *d = call->workspace;
    for (int64_t g = 0; g < 4 * s.hidden; g++) {
        for (int64_t c = 0; c < s.features; c++) {
            call->gradients[0][g * s.features + c] = (float)weight_gradient(&s, d, g, call->input[0], s.features, c, false);
        }
        for (int64_t c = 0; c < s.hidden; c++) {
            call->gradients[1][g * s.hidden + c] = (float)weight_gradient(&s, d, g, call->output, s.hidden, c, true);
        }
        double sum = 0;
        for (int64_t r = 0; r < s.samples * s.steps; r++) sum += (double)d[r * 4 * s.hidden + g];
        call->gradients[2][g] = call->gradients[3][g] = (float)sum;
    }
    return PS_OK;
}

const struct kernel_class reference_lstm = {
    .set_sizes = set_sizes,
    .forward = forward,
    .backward_shared = backward_shared,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};
