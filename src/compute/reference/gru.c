/*
 * GRU (graph/operators/lstm.c). x (N, T, D), y = h (N, T, H), weights w (3H, D) and s (3H, H), biases b and c (3H); gates in
 * the order r, z, n. Inner: the gates after their activation (N, T, 3H), then u = s_n h_before + c_n (N, T, H).
 *
 * Backward, through time: with dh = dy_t + what comes from the next position,
 *     dn = dh (1 - z),  dz = dh (h_before - n),  dr = dn (1 - n^2) u
 * each times the slope of its activation gives d, the gradient of the input's part of the sum; that of the state's part, e, is
 * the same but for n, where it is r times d. Both are kept in the workspace (N, T, 3H). Then dx = d w,  dh_before = e s + dh z,
 * dw = d^T x,  ds = e^T h_before,  db = sum of d,  dc = sum of e.
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
    int64_t row = s.hidden * (int64_t)sizeof(float), rows = s.samples * s.steps;
    kernel->inner_bytes = 4 * rows * row;
    kernel->state_floats = s.hidden;
    kernel->workspace_bytes = 6 * rows * row + 2 * row;
}

/* The row of the k-th step of a sample; -1: there is none. */
static int64_t row(const struct sizes *s, int64_t n, int64_t k) {
    return k < 0 ? -1 : n * s->steps + (s->reverse ? s->steps - 1 - k : k);
}

static bool is_padding(const struct kernel_call *call, int64_t row) {
    return call->input[1] != NULL && token_numbers(call->input[1])[row] == 0;
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* What a gate's row of weights makes of the features or of the state (NULL: zeros), with its bias. */
static double sum_of(int64_t count, const float *values, const float *weights, int64_t gate, const float *bias) {
    double sum = (double)bias[gate];
    for (int64_t i = 0; i < count && values != NULL; i++) sum += (double)values[i] * (double)weights[gate * count + i];
    return sum;
}

/* `before` is the state of the step before; NULL: zeros. */
static void step(const struct sizes *s, const struct kernel_call *call, int64_t now, const float *before) {
    int64_t hidden = s->hidden;
    float *gates = call->inner + now * 3 * hidden, *u = call->inner + (s->samples * s->steps * 3 + now) * hidden;
    const float *x = call->input[0] + now * s->features;
    for (int64_t h = 0; h < hidden; h++) {
        double part[3], state[3];
        for (int g = 0; g < 3; g++) {
            part[g] = sum_of(s->features, x, call->weights[0], g * hidden + h, call->weights[2]);
            state[g] = sum_of(hidden, before, call->weights[1], g * hidden + h, call->weights[3]);
        }
        double r = sigmoid(part[0] + state[0]), z = sigmoid(part[1] + state[1]), n = tanh(part[2] + r * state[2]);
        gates[h] = (float)r, gates[hidden + h] = (float)z, gates[2 * hidden + h] = (float)n;
        u[h] = (float)state[2];
        call->output[now * hidden + h] = (float)((1 - z) * n + (before != NULL ? z * (double)before[h] : 0));
    }
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    struct sizes s = sizes_of(kernel);
    size_t bytes = (size_t)s.hidden * sizeof(float);
    for (int64_t n = 0; n < s.samples; n++) {
        float *state = call->state != NULL ? call->state + n * s.hidden : NULL;
        const float *before = state;
        for (int64_t k = 0; k < s.steps; k++) {
            int64_t now = row(&s, n, k);
            if (is_padding(call, now)) {
                memset(call->inner + now * 3 * s.hidden, 0, 3 * bytes);
                memset(call->inner + (s.samples * s.steps * 3 + now) * s.hidden, 0, bytes);
                memset(call->output + now * s.hidden, 0, bytes);
            } else {
                step(&s, call, now, before);
            }
            before = call->output + now * s.hidden;
        }
        if (state != NULL) memcpy(state, before, bytes);
    }
    return PS_OK;
}

/* d and e of one position; `dh` is what comes from the next position, and gets what goes to the one before. */
static void step_back(const struct sizes *s, const struct kernel_call *call, int64_t now, int64_t before, float *d, float *e,
                      float *dh) {
    int64_t hidden = s->hidden;
    const float *gates = call->inner + now * 3 * hidden, *us = call->inner + (s->samples * s->steps * 3 + now) * hidden;
    for (int64_t h = 0; h < hidden; h++) {
        double r = (double)gates[h], z = (double)gates[hidden + h], n = (double)gates[2 * hidden + h], u = (double)us[h];
        double into = (double)dh[h] + (double)call->output_gradient[now * hidden + h];
        double old = before >= 0 ? (double)call->output[before * hidden + h] : 0, dn = into * (1 - z) * (1 - n * n);
        d[h] = e[h] = (float)(dn * u * r * (1 - r));
        d[hidden + h] = e[hidden + h] = (float)(into * (old - n) * z * (1 - z));
        d[2 * hidden + h] = (float)dn;
        e[2 * hidden + h] = (float)(dn * r);
        dh[h] = (float)(into * z);
    }
    for (int64_t h = 0; h < hidden; h++) {
        double sum = (double)dh[h];
        for (int64_t g = 0; g < 3 * hidden; g++) sum += (double)e[g] * (double)call->weights[1][g * hidden + h];
        dh[h] = (float)sum;
    }
}

/* Where e begins in the workspace; after it comes dh. */
static int64_t half(const struct sizes *s) { return s->samples * s->steps * 3 * s->hidden; }

static enum ps_status backward_shared(struct kernel *kernel, const struct kernel_call *call) {
    struct sizes s = sizes_of(kernel);
    float *gradients = call->workspace, *dh = gradients + 2 * half(&s);
    for (int64_t n = 0; n < s.samples; n++) {
        memset(dh, 0, (size_t)s.hidden * sizeof(float));
        for (int64_t k = s.steps - 1; k >= 0; k--) {
            int64_t now = row(&s, n, k);
            float *d = gradients + now * 3 * s.hidden, *e = d + half(&s);
            if (!is_padding(call, now)) {
                step_back(&s, call, now, row(&s, n, k - 1), d, e, dh);
                continue;
            }
            memset(d, 0, (size_t)(3 * s.hidden) * sizeof(float));
            memset(e, 0, (size_t)(3 * s.hidden) * sizeof(float));
            memset(dh, 0, (size_t)s.hidden * sizeof(float));
        }
    }
    return PS_OK;
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call) {
    struct sizes s = sizes_of(kernel);
    for (int64_t r = 0; r < s.samples * s.steps && call->input_gradient[0] != NULL; r++) {
        const float *d = (const float *)call->workspace + r * 3 * s.hidden;
        for (int64_t c = 0; c < s.features; c++) {
            double sum = 0;
            for (int64_t g = 0; g < 3 * s.hidden; g++) sum += (double)d[g] * (double)call->weights[0][g * s.features + c];
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
        for (int64_t k = before ? 1 : 0; k < s->steps; k++) {
            sum += (double)d[row(s, n, k) * 3 * s->hidden + gate] * (double)x[row(s, n, before ? k - 1 : k) * features + c];
        }
    }
    return sum;
}

static enum ps_status backward_weight(struct kernel *kernel, const struct kernel_call *call) {
    struct sizes s = sizes_of(kernel);
    const float *d = call->workspace, *e = d + half(&s);
    for (int64_t g = 0; g < 3 * s.hidden; g++) {
        for (int64_t c = 0; c < s.features; c++)
            call->gradients[0][g * s.features + c] = (float)weight_gradient(&s, d, g, call->input[0], s.features, c, false);
        for (int64_t c = 0; c < s.hidden; c++)
            call->gradients[1][g * s.hidden + c] = (float)weight_gradient(&s, e, g, call->output, s.hidden, c, true);
        double inputs = 0, states = 0;
        for (int64_t r = 0; r < s.samples * s.steps; r++) {
            inputs += (double)d[r * 3 * s.hidden + g];
            states += (double)e[r * 3 * s.hidden + g];
        }
        call->gradients[2][g] = (float)inputs;
        call->gradients[3][g] = (float)states;
    }
    return PS_OK;
}

const struct kernel_class reference_gru = {
    .set_sizes = set_sizes,
    .forward = forward,
    .backward_shared = backward_shared,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};
