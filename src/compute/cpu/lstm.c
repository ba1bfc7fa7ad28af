/*
 * LSTM and GRU (graph/operators/lstm.c, formulas in reference/lstm.c) by oneDNN's inner products and fused elementwise loops.
 * What is said of an LSTM here holds for a GRU, with three gates; its differences are said at the end.
 *
 * What does not depend on the state is one large product over all positions: the input's part of the gates before the steps,
 * and after them dx and both weight gradients. A step is a product of N rows with weight_hh and one loop for the rest. So
 * forward, backward to the input and backward to the weights are separate and nothing is computed twice, while oneDNN's own
 * LSTM computes the whole backward in one call. Both halves share the backward through time (backward_shared).
 *
 * Inside the kernel positions are the first dimension, so that the N rows of a step are contiguous. With samples first they
 * would be T rows apart, which costs more than transposing input and output (single_worker residual_lstm,seq=100 32: 191
 * against 155 ms).
 *
 * Inner: gates after their activation (T, N, 4H), cells (T, N, H). Workspace: gradients before the activation (T, N, 4H), one
 * of the input, its gradient and the outputs of the positions before, transposed (T, N, D or H), and for a step the state's
 * part of the gates (N, 4H), state (N, H), cells (N, H).
 *
 * A GRU keeps, in place of the cells, the state's part of its new value (u). Before the activation the gradients of the input's
 * part and of the state's part are not the same, since r multiplies the latter: two arrays (T, N, 3H). In place of the cells'
 * gradient the state's, as far as it does not come through the gates, goes from step to step.
 *
 * In bf16 what products read is bf16: x, the weights, the outputs, which are the states of the next steps, and the gradients
 * before the activation. Gates, cells, the sums that go from step to step and all loops are f32; a step's loop works on rows in
 * the workspace, which are converted as they are used. x in f32 is rounded as it is transposed, and dx widened. The weights lie
 * in plain rows (linear.c says why).
 */
#include <string.h>

#include "compute/cpu/activation.h"
#include "compute/cpu/cpu.h"

enum { INPUT, STEP, STEP_BACK, INPUT_BACK, WEIGHTS, STATE_WEIGHTS, PRIMITIVES };

struct lstm {
    struct kernel kernel;
    int64_t steps, features, hidden; /* T, D, H */
    int64_t gates;                   /* 4H, of a GRU 3H */
    bool gru, padded;                /* padded: the tokens are an input */
    bool narrow;                     /* in bf16 */
    struct layout plain[2], own[2];  /* of weight_ih and weight_hh: rows; the kernels' */
    struct primitive primitives[PRIMITIVES];
    /* Where the parts of the workspace begin, in floats; the gradients of the input's part are the first: 0. */
    int64_t state_part, turned, rows, state, cells;
    /* Narrow alone, of a step's samples: gradients of the input's and of the state's part, two rows of values, state in bf16.
     */
    int64_t wide, wide_state, values, before, narrow_state;
    int64_t scratch;
};

static void release(struct kernel *kernel) {
    struct lstm *lstm = (struct lstm *)kernel;
    for (int p = 0; p < PRIMITIVES; p++) primitive_release(&lstm->primitives[p]);
    for (int i = 0; i < 2; i++) {
        layout_release(&lstm->plain[i]);
        layout_release(&lstm->own[i]);
    }
}

/* x (rows, columns), weights (4H, columns), y (rows, 4H); `weights` NULL: in the layout that oneDNN chooses. */
static struct arrays arrays_of(struct draft *draft, const struct lstm *lstm, int64_t rows, int64_t columns,
                               const struct layout *weights, bool bias) {
    int64_t gates = lstm->gates;
    return (struct arrays){
        .source = draft_layout(draft, 2, (int64_t[]){rows, columns}, dnnl_ab),
        .weights = weights != NULL ? weights : draft_layout(draft, 2, (int64_t[]){gates, columns}, dnnl_format_tag_any),
        .bias = bias ? draft_layout(draft, 1, (int64_t[]){gates}, dnnl_a) : NULL,
        .destination = draft_layout(draft, 2, (int64_t[]){rows, gates}, dnnl_ab),
    };
}

/* The layout of weights that other nodes share; NULL: they do not. */
static const struct layout *shared_rows(struct draft *draft, const struct lstm *lstm, int parameter) {
    const int64_t columns = parameter == 0 ? lstm->features : lstm->hidden;
    return kernel_shares(&lstm->kernel, parameter) ? draft_layout(draft, 2, (int64_t[]){lstm->gates, columns}, dnnl_ab) : NULL;
}

/* The layout of weight_ih is that which the product of `layout_rows` rows chooses. */
static void make_input(struct draft *draft, struct lstm *lstm, int64_t rows, int64_t layout_rows) {
    struct arrays arrays = arrays_of(draft, lstm, layout_rows, lstm->features, shared_rows(draft, lstm, 0), true);
    dnnl_primitive_desc_t forward = draft_linear(draft, PASS_FORWARD, &arrays, false, NULL);
    arrays.weights = draft_layout_of(draft, forward, DNNL_ARG_WEIGHTS);
    if (rows != layout_rows) {
        arrays = arrays_of(draft, lstm, rows, lstm->features, arrays.weights, true);
        forward = draft_linear(draft, PASS_FORWARD, &arrays, false, NULL);
    }
    dnnl_primitive_desc_t back = draft_linear(draft, PASS_INPUT, &arrays, false, forward);
    dnnl_primitive_desc_t weights = draft_linear(draft, PASS_WEIGHTS, &arrays, false, forward);
    draft_primitive(draft, forward, "forward", (int[]){DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS, 0},
                    &lstm->primitives[INPUT]);
    draft_primitive(draft, back, "backward", (int[]){DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC, 0},
                    &lstm->primitives[INPUT_BACK]);
    draft_primitive(draft, weights, "gradient of the weights",
                    (int[]){DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS, 0},
                    &lstm->primitives[WEIGHTS]);
    draft_keep(draft, arrays.weights, &lstm->own[0]);
}

/* The layout of weight_hh is that which the step chooses; the product over all positions computes the gradient in it. */
static void make_step(struct draft *draft, struct lstm *lstm, int64_t samples, int64_t rows) {
    struct arrays arrays = arrays_of(draft, lstm, samples, lstm->hidden, shared_rows(draft, lstm, 1), false);
    dnnl_primitive_desc_t forward = draft_linear(draft, PASS_FORWARD, &arrays, false, NULL);
    arrays.weights = draft_layout_of(draft, forward, DNNL_ARG_WEIGHTS);
    dnnl_primitive_desc_t back = draft_linear(draft, PASS_INPUT, &arrays, false, forward);
    struct arrays all = arrays_of(draft, lstm, rows, lstm->hidden, arrays.weights, false);
    dnnl_primitive_desc_t hint = draft_linear(draft, PASS_FORWARD, &all, false, NULL);
    dnnl_primitive_desc_t weights = draft_linear(draft, PASS_WEIGHTS, &all, false, hint);
    draft_primitive(draft, forward, "step", (int[]){DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, 0}, &lstm->primitives[STEP]);
    draft_primitive(draft, back, "backward step", (int[]){DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC, 0},
                    &lstm->primitives[STEP_BACK]);
    draft_primitive(draft, weights, "gradient of the weights",
                    (int[]){DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS, 0}, &lstm->primitives[STATE_WEIGHTS]);
    draft_keep(draft, arrays.weights, &lstm->own[1]);
}

/* All products in bf16, with weights in plain rows: of x and weight_ih (part 0), of the state and weight_hh (part 1). */
static void make_narrow(struct draft *draft, struct lstm *lstm, int part, int64_t samples, int64_t rows) {
    static const int forward[] = {INPUT, STEP}, back[] = {INPUT_BACK, STEP_BACK}, weights[] = {WEIGHTS, STATE_WEIGHTS};
    const int64_t columns = part == 0 ? lstm->features : lstm->hidden, gates = lstm->gates, some = part == 0 ? rows : samples;
    const struct layout *sums = draft_layout(draft, 2, (int64_t[]){some, gates}, dnnl_ab),
                        *bias = part == 0 ? draft_layout(draft, 2, (int64_t[]){1, gates}, dnnl_ab) : NULL,
                        *dh = draft_layout(draft, 2, (int64_t[]){some, columns}, dnnl_ab),
                        *own = draft_layout(draft, 2, (int64_t[]){gates, columns}, dnnl_ab);
    draft->type = TYPE_BF16;
    const struct layout *x = draft_layout(draft, 2, (int64_t[]){some, columns}, dnnl_ab),
                        *all = draft_layout(draft, 2, (int64_t[]){rows, columns}, dnnl_ab),
                        *d = draft_layout(draft, 2, (int64_t[]){some, gates}, dnnl_ab),
                        *d_turned = draft_layout(draft, 2, (int64_t[]){gates, rows}, dnnl_ba),
                        *matrix = draft_layout(draft, 2, (int64_t[]){gates, columns}, dnnl_ab),
                        *turned = draft_layout(draft, 2, (int64_t[]){columns, gates}, dnnl_ba);
    draft->type = TYPE_F32;
    draft_primitive(draft, draft_product_finished(draft, x, turned, bias, sums, 1, false), part == 0 ? "forward" : "step",
                    (int[]){DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, part == 0 ? DNNL_ARG_BIAS : 0, 0},
                    &lstm->primitives[forward[part]]);
    draft_primitive(draft, draft_product(draft, d, matrix, part == 0 ? x : dh), part == 0 ? "backward" : "backward step",
                    (int[]){DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, 0}, &lstm->primitives[back[part]]);
    draft_primitive(draft, draft_product(draft, d_turned, all, own), "gradient of the weights",
                    (int[]){DNNL_ARG_WEIGHTS, DNNL_ARG_SRC, DNNL_ARG_DST, 0}, &lstm->primitives[weights[part]]);
    draft_keep(draft, own, &lstm->own[part]);
}

static void plan_memory(struct lstm *lstm) {
    int64_t samples = lstm->kernel.samples, hidden = lstm->hidden, rows = samples * lstm->steps;
    int64_t widest = hidden > lstm->features ? hidden : lstm->features;
    const int64_t gates = lstm->gates, step = samples * gates, states = samples * hidden, per_float = lstm->narrow ? 2 : 1;
    lstm->kernel.inner_bytes = rows * (gates + hidden) * (int64_t)sizeof(float);
    struct {
        int64_t *end, elements, per_float; /* where the next part begins */
        bool skipped;
    } parts[] = {{&lstm->state_part, rows * gates, per_float, false},
                 {&lstm->turned, rows * gates, per_float, !lstm->gru},
                 {&lstm->rows, rows * widest, per_float, false},
                 {&lstm->state, step, 1, false},
                 {&lstm->cells, states, 1, false},
                 {&lstm->wide, states, 1, false},
                 {&lstm->wide_state, step, 1, !lstm->narrow},
                 {&lstm->values, step, 1, !lstm->narrow || !lstm->gru},
                 {&lstm->before, states, 1, !lstm->narrow},
                 {&lstm->narrow_state, states, 1, !lstm->narrow},
                 {&lstm->scratch, states, per_float, !lstm->narrow}};
    int64_t used = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const int64_t floats = parts[i].skipped ? 0 : (parts[i].elements + parts[i].per_float - 1) / parts[i].per_float;
        used += (floats + 15) / 16 * 16;
        *parts[i].end = used;
    }
    lstm->kernel.workspace_bytes = used * (int64_t)sizeof(float) + largest_scratchpad(lstm->primitives, PRIMITIVES);
}

static enum ps_status prepare(struct kernel *kernel, struct ps_error *error) {
    struct lstm *lstm = (struct lstm *)kernel;
    const struct node *node = kernel->node;
    const struct shape *input = kernel_input(kernel, 0);
    lstm->features = input->dim[0], lstm->steps = input->dim[1], lstm->hidden = node->shape.dim[0];
    lstm->padded = node->input_count > 1;
    lstm->gru = node->id == OPERATOR_GRU;
    lstm->gates = (lstm->gru ? 3 : 4) * lstm->hidden;
    lstm->narrow = cpu_is_narrow(kernel);
    kernel->state_floats = (lstm->gru ? 1 : 2) * lstm->hidden;
    struct draft draft;
    draft_start(&draft, kernel->device, node);
    int64_t samples = kernel->samples, columns[] = {lstm->features, lstm->hidden}, gates = lstm->gates;
    int64_t layout_rows = (int64_t)shape_rows(cpu_layout_shape(kernel->graph, node), kernel->samples);
    if (!lstm->narrow) make_input(&draft, lstm, samples * lstm->steps, layout_rows);
    if (!lstm->narrow) make_step(&draft, lstm, samples, samples * lstm->steps);
    for (int i = 0; i < 2; i++) {
        if (lstm->narrow) make_narrow(&draft, lstm, i, samples, samples * lstm->steps);
        draft_keep(&draft, draft_layout(&draft, 2, (int64_t[]){gates, columns[i]}, dnnl_ab), &lstm->plain[i]);
        kernel->parameter_bytes[i] = layout_bytes(&lstm->own[i]);
    }
    plan_memory(lstm);
    return draft_finish(&draft, error);
}

/* ------------------------------------------------------------------ turning */

struct turn {
    const char *from;
    char *to;
    enum number_type from_type, to_type;
    int64_t samples, steps, features;
    int shift; /* source position minus destination position */
};

/* Vector number `from` becomes vector number `to`. */
static void turn_vector(const struct turn *turn, int64_t from, int64_t to) {
    const size_t features = (size_t)turn->features, from_bytes = features * number_types[turn->from_type].bytes,
                 to_bytes = features * number_types[turn->to_type].bytes;
    numbers_convert(features, turn->to_type, turn->to + (size_t)to * to_bytes, turn->from_type,
                    turn->from + (size_t)from * from_bytes);
}

/* (N, T, F) to (T, N, F); 0 where `shift` leads out of the sequence. */
static void positions_first(const void *context, size_t first, size_t end) {
    const struct turn *turn = context;
    const size_t bytes = (size_t)(turn->samples * turn->features) * number_types[turn->to_type].bytes;
    for (int64_t t = (int64_t)first; t < (int64_t)end; t++) {
        int64_t from = t + turn->shift;
        if (from < 0 || from >= turn->steps) {
            memset(turn->to + (size_t)t * bytes, 0, bytes);
            continue;
        }
        for (int64_t n = 0; n < turn->samples; n++) turn_vector(turn, n * turn->steps + from, t * turn->samples + n);
    }
}

/* (T, N, F) to (N, T, F). */
static void samples_first(const void *context, size_t first, size_t end) {
    const struct turn *turn = context;
    for (int64_t n = (int64_t)first; n < (int64_t)end; n++)
        for (int64_t t = 0; t < turn->steps; t++) turn_vector(turn, t * turn->samples + n, n * turn->steps + t);
}

/* `values` with positions first, in the workspace, as products read them; if `before`, those of the position before in time. */
static const float *turned(const struct lstm *lstm, float *workspace, const float *values, const struct shape *shape,
                           bool before) {
    const struct turn turn = {.from = (const char *)values,
                              .to = (char *)(workspace + lstm->turned),
                              .from_type = shape->type,
                              .to_type = lstm->kernel.node->shape.type,
                              .samples = lstm->kernel.samples,
                              .steps = lstm->steps,
                              .features = shape->dim[0],
                              .shift = !before                                 ? 0
                                       : lstm->kernel.node->attributes.reverse ? 1
                                                                               : -1};
    device_parallel(lstm->kernel.device, (size_t)lstm->steps, 1, positions_first, &turn);
    return workspace + lstm->turned;
}

/* ------------------------------------------------------------------- a step */

/* The arrays of the loops over one step's samples. */
struct step {
    const struct lstm *lstm;
    const struct kernel_call *call;
    int64_t position, neighbour; /* of this step; of the step before it in time, -1 at the first */
    float *workspace;
};

/* The offset of the step's sample n in arrays with samples first. */
static size_t outer_row(const struct step *step, size_t n) { return n * (size_t)step->lstm->steps + (size_t)step->position; }

static size_t inner_row(const struct lstm *lstm, int64_t position, size_t n) {
    return (size_t)(position * lstm->kernel.samples) + n;
}

static bool is_padding(const struct step *step, size_t n) {
    return step->lstm->padded && token_numbers(step->call->input[1])[outer_row(step, n)] == 0;
}

static float *gates_of(const struct step *step, size_t n) {
    return step->call->inner + inner_row(step->lstm, step->position, n) * (size_t)step->lstm->gates;
}

static float *cells_of(const struct step *step, int64_t position, size_t n) {
    const struct lstm *lstm = step->lstm;
    size_t gates = (size_t)(lstm->gates * lstm->kernel.samples * lstm->steps);
    return step->call->inner + gates + inner_row(lstm, position, n) * (size_t)lstm->hidden;
}

/* Where the gradients before the step's activations begin, (N, 4H), as products read them; those of the state's part. */
static char *gradients_of(const struct step *step) {
    const size_t bytes = number_types[step->lstm->kernel.node->shape.type].bytes;
    return (char *)step->workspace + inner_row(step->lstm, step->position, 0) * (size_t)step->lstm->gates * bytes;
}

static char *state_gradients_of(const struct step *step) {
    return gradients_of(step) + (step->lstm->gru ? step->lstm->state_part * (int64_t)sizeof(float) : 0);
}

/* Vector `row` of a narrow value, in f32 at `to`. */
static const float *widen(size_t hidden, const float *value, size_t row, float *to) {
    numbers_convert(hidden, TYPE_F32, to, TYPE_BF16, (const uint16_t *)value + row * hidden);
    return to;
}

/* `gates` (4H) hold the input's part, `state_part` that of the state. */
VECTOR_CLONES static void forward_loop(size_t hidden, float *restrict gates, const float *restrict state_part,
                                       const float *restrict bias, const float *restrict before, float *restrict cells,
                                       float *restrict output, float *restrict state) {
    for (size_t h = 0; h < hidden; h++) {
        float i = activation_sigmoid(gates[h] + bias[h] + state_part[h]);
        float f = activation_sigmoid(gates[hidden + h] + bias[hidden + h] + state_part[hidden + h]);
        float g = activation_tanh(gates[2 * hidden + h] + bias[2 * hidden + h] + state_part[2 * hidden + h]);
        float o = activation_sigmoid(gates[3 * hidden + h] + bias[3 * hidden + h] + state_part[3 * hidden + h]);
        float cell = f * before[h] + i * g;
        gates[h] = i, gates[hidden + h] = f, gates[2 * hidden + h] = g, gates[3 * hidden + h] = o;
        cells[h] = cell;
        output[h] = state[h] = o * activation_tanh(cell);
    }
}

/* `u` gets the state's part of the new value; `state` is that of the step before, and gets this step's. */
VECTOR_CLONES static void gru_loop(size_t hidden, float *restrict gates, const float *restrict state_part,
                                   const float *restrict bias, float *restrict u, float *restrict output,
                                   float *restrict state) {
    for (size_t h = 0; h < hidden; h++) {
        float r = activation_sigmoid(gates[h] + bias[h] + state_part[h]);
        float z = activation_sigmoid(gates[hidden + h] + bias[hidden + h] + state_part[hidden + h]);
        u[h] = state_part[2 * hidden + h] + bias[2 * hidden + h];
        float n = activation_tanh(gates[2 * hidden + h] + r * u[h]);
        gates[h] = r, gates[hidden + h] = z, gates[2 * hidden + h] = n;
        output[h] = state[h] = (1 - z) * n + z * state[h];
    }
}

/* Sample n's output is its state, rounded; so is the state, from which the next step and a later call continue. */
static void round_state(const struct step *step, size_t n) {
    const struct lstm *lstm = step->lstm;
    const size_t hidden = (size_t)lstm->hidden;
    uint16_t *output = (uint16_t *)step->call->output + outer_row(step, n) * hidden;
    float *state = step->workspace + lstm->state + n * hidden;
    numbers_convert(hidden, TYPE_BF16, output, TYPE_F32, state);
    memcpy((uint16_t *)(step->workspace + lstm->narrow_state) + n * hidden, output, hidden * sizeof *output);
    numbers_convert(hidden, TYPE_F32, state, TYPE_BF16, output);
}

static void forward_sample(const struct step *step, size_t n) {
    const struct lstm *lstm = step->lstm;
    size_t hidden = (size_t)lstm->hidden;
    float *gates = gates_of(step, n), *cells = cells_of(step, step->position, n), *state = step->workspace + lstm->state;
    float *output =
        lstm->narrow ? step->workspace + lstm->values + n * hidden : step->call->output + outer_row(step, n) * hidden;
    state += n * hidden;
    if (is_padding(step, n)) {
        memset(gates, 0, (size_t)lstm->gates * sizeof(float));
        memset(cells, 0, hidden * sizeof(float));
        memset(output, 0, hidden * sizeof(float));
        memset(state, 0, hidden * sizeof(float));
        return;
    }
    const float *state_part = step->workspace + lstm->rows + n * (size_t)lstm->gates;
    if (lstm->gru) {
        gru_loop(hidden, gates, state_part, step->call->weights[3], cells, output, state);
        return;
    }
    const float *zero = step->workspace + lstm->cells + n * hidden;
    const float *before = step->neighbour >= 0 ? cells_of(step, step->neighbour, n) : zero;
    forward_loop(hidden, gates, state_part, step->call->weights[3], before, cells, output, state);
}

static void forward_samples(const void *context, size_t first, size_t end) {
    const struct step *step = context;
    for (size_t n = first; n < end; n++) {
        forward_sample(step, n);
        if (step->lstm->narrow) round_state(step, n);
    }
}

static struct step step_of(const struct lstm *lstm, const struct kernel_call *call, int64_t k) {
    bool reverse = lstm->kernel.node->attributes.reverse;
    int64_t position = reverse ? lstm->steps - 1 - k : k;
    return (struct step){lstm, call, position, k == 0 ? -1 : position + (reverse ? 1 : -1), call->workspace};
}

/* Output and cell from which each sample's sequence continues, and those with which it ends. */
static void take_state(const struct lstm *lstm, const struct kernel_call *call) {
    float *workspace = call->workspace;
    size_t hidden = (size_t)lstm->hidden, bytes = hidden * sizeof(float);
    for (size_t n = 0; n < (size_t)lstm->kernel.samples; n++) {
        const float *from = call->state + n * (size_t)lstm->kernel.state_floats;
        memcpy(workspace + lstm->state + n * hidden, from, bytes);
        if (!lstm->gru) memcpy(workspace + lstm->cells + n * hidden, from + hidden, bytes);
        if (lstm->narrow)
            numbers_convert(hidden, TYPE_BF16, (uint16_t *)(workspace + lstm->narrow_state) + n * hidden, TYPE_F32, from);
    }
}

static void keep_state(const struct lstm *lstm, const struct kernel_call *call) {
    struct step last = step_of(lstm, call, lstm->steps - 1);
    size_t hidden = (size_t)lstm->hidden, bytes = hidden * sizeof(float);
    for (size_t n = 0; n < (size_t)lstm->kernel.samples; n++) {
        float *to = call->state + n * (size_t)lstm->kernel.state_floats;
        memcpy(to, last.workspace + lstm->state + n * hidden, bytes);
        if (!lstm->gru) memcpy(to + hidden, cells_of(&last, last.position, n), bytes);
    }
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    struct lstm *lstm = (struct lstm *)kernel;
    float *workspace = call->workspace;
    size_t state = (size_t)(kernel->samples * lstm->hidden) * sizeof(float);
    void *scratch = workspace + lstm->scratch;
    const float *x = turned(lstm, workspace, call->input[0], kernel_input(kernel, 0), false);
    const void *input[] = {x, call->weights[0], call->inner, call->weights[2]};
    TRY(primitive_run(&lstm->primitives[INPUT], cpu_of(&lstm->kernel), input, scratch, call->error));
    memset(workspace + lstm->rows, 0, (size_t)(kernel->samples * lstm->gates) * sizeof(float));
    memset(workspace + lstm->state, 0, state);
    memset(workspace + lstm->cells, 0, state);
    if (call->state != NULL) take_state(lstm, call);
    for (int64_t k = 0; k < lstm->steps; k++) {
        const float *before = workspace + (lstm->narrow ? lstm->narrow_state : lstm->state);
        const void *rows[] = {before, call->weights[1], workspace + lstm->rows};
        if (k > 0 || call->state != NULL)
            TRY(primitive_run(&lstm->primitives[STEP], cpu_of(&lstm->kernel), rows, scratch, call->error));
        struct step step = step_of(lstm, call, k);
        device_parallel(lstm->kernel.device, (size_t)kernel->samples, 1, forward_samples, &step);
    }
    if (call->state != NULL) keep_state(lstm, call);
    return PS_OK;
}

/* ---------------------------------------------------------------- backward */

/* `dh` and `dc` come from the next step in time; `dc` is updated for the step before. */
VECTOR_CLONES static void backward_loop(size_t hidden, const float *restrict gates, const float *restrict cells,
                                        const float *restrict before, const float *restrict dy, const float *restrict dh,
                                        float *restrict dc, float *restrict d) {
    for (size_t h = 0; h < hidden; h++) {
        float i = gates[h], f = gates[hidden + h], g = gates[2 * hidden + h], o = gates[3 * hidden + h];
        float c = activation_tanh(cells[h]), into = dy[h] + dh[h];
        float cell = dc[h] + into * o * (1 - c * c);
        d[h] = cell * g * i * (1 - i);
        d[hidden + h] = cell * before[h] * f * (1 - f);
        d[2 * hidden + h] = cell * i * (1 - g * g);
        d[3 * hidden + h] = into * c * o * (1 - o);
        dc[h] = cell * f;
    }
}

/* `dh` comes from the next step through its gates, `kept` from it directly, and is updated for the step before. `d` is of the
 * input's part, `ds` of the state's. */
VECTOR_CLONES static void gru_back_loop(size_t hidden, const float *restrict gates, const float *restrict u,
                                        const float *restrict before, const float *restrict dy, const float *restrict dh,
                                        float *restrict kept, float *restrict d, float *restrict ds) {
    for (size_t h = 0; h < hidden; h++) {
        float r = gates[h], z = gates[hidden + h], n = gates[2 * hidden + h];
        float into = dy[h] + dh[h] + kept[h], dn = into * (1 - z) * (1 - n * n);
        d[h] = ds[h] = dn * u[h] * r * (1 - r);
        d[hidden + h] = ds[hidden + h] = into * (before[h] - n) * z * (1 - z);
        d[2 * hidden + h] = dn;
        ds[2 * hidden + h] = dn * r;
        kept[h] = into * z;
    }
}

static void backward_sample(const struct step *step, size_t n, float *d, float *ds) {
    const struct lstm *lstm = step->lstm;
    size_t hidden = (size_t)lstm->hidden, gates = (size_t)lstm->gates;
    float *workspace = step->workspace;
    const float *zero =
        workspace + lstm->rows; /* zeros: the cells before the first step (the backward does not use the rows) */
    float *dc = workspace + lstm->cells + n * hidden, *dh = workspace + lstm->state + n * hidden;
    if (is_padding(step, n)) {
        memset(d, 0, gates * sizeof(float));
        memset(ds, 0, gates * sizeof(float));
        memset(dc, 0, hidden * sizeof(float));
        return;
    }
    const float *dy = step->call->output_gradient;
    dy = lstm->narrow ? widen(hidden, dy, outer_row(step, n), workspace + lstm->values + n * hidden)
                      : dy + outer_row(step, n) * hidden;
    if (!lstm->gru) {
        const float *before = step->neighbour >= 0 ? cells_of(step, step->neighbour, n) : zero;
        backward_loop(hidden, gates_of(step, n), cells_of(step, step->position, n), before, dy, dh, dc, d);
        return;
    }
    struct step earlier = {lstm, step->call, step->neighbour, -1, workspace};
    const float *before = zero, *output = step->call->output;
    if (step->neighbour >= 0)
        before = lstm->narrow ? widen(hidden, output, outer_row(&earlier, n), workspace + lstm->before + n * hidden)
                              : output + outer_row(&earlier, n) * hidden;
    gru_back_loop(hidden, gates_of(step, n), cells_of(step, step->position, n), before, dy, dh, dc, d, ds);
}

static void backward_samples(const void *context, size_t first, size_t end) {
    const struct step *step = context;
    const struct lstm *lstm = step->lstm;
    const size_t gates = (size_t)lstm->gates;
    for (size_t n = first; n < end; n++) {
        char *to = gradients_of(step), *state_to = state_gradients_of(step);
        if (!lstm->narrow) {
            backward_sample(step, n, (float *)(void *)to + n * gates, (float *)(void *)state_to + n * gates);
            continue;
        }
        float *d = step->workspace + lstm->wide + n * gates,
              *ds = lstm->gru ? step->workspace + lstm->wide_state + n * gates : d;
        backward_sample(step, n, d, ds);
        numbers_convert(gates, TYPE_BF16, to + n * gates * sizeof(uint16_t), TYPE_F32, d);
        if (lstm->gru) numbers_convert(gates, TYPE_BF16, state_to + n * gates * sizeof(uint16_t), TYPE_F32, ds);
    }
}

static enum ps_status backward_shared(struct kernel *kernel, const struct kernel_call *call) {
    struct lstm *lstm = (struct lstm *)kernel;
    float *workspace = call->workspace;
    size_t hidden = (size_t)lstm->hidden * sizeof(float), state = (size_t)kernel->samples * hidden;
    memset(workspace + lstm->state, 0, state);
    memset(workspace + lstm->cells, 0, state);
    memset(workspace + lstm->rows, 0, hidden);
    for (int64_t k = lstm->steps - 1; k >= 0; k--) {
        struct step step = step_of(lstm, call, k);
        device_parallel(lstm->kernel.device, (size_t)kernel->samples, 1, backward_samples, &step);
        const void *rows[] = {state_gradients_of(&step), call->weights[1], workspace + lstm->state};
        if (k > 0)
            TRY(primitive_run(&lstm->primitives[STEP_BACK], cpu_of(&lstm->kernel), rows, workspace + lstm->scratch,
                              call->error));
    }
    return PS_OK;
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call) {
    struct lstm *lstm = (struct lstm *)kernel;
    float *workspace = call->workspace;
    if (call->input_gradient[0] == NULL) return PS_OK;
    const void *addresses[] = {workspace, call->weights[0], workspace + lstm->turned};
    TRY(primitive_run(&lstm->primitives[INPUT_BACK], cpu_of(&lstm->kernel), addresses, workspace + lstm->scratch, call->error));
    const struct turn turn = {.from = (const char *)(workspace + lstm->turned),
                              .to = (char *)call->input_gradient[0],
                              .from_type = kernel->node->shape.type,
                              .to_type = kernel_input(kernel, 0)->type,
                              .samples = kernel->samples,
                              .steps = lstm->steps,
                              .features = lstm->features};
    device_parallel(lstm->kernel.device, (size_t)kernel->samples, 1, samples_first, &turn);
    return PS_OK;
}

static enum ps_status backward_weight(struct kernel *kernel, const struct kernel_call *call) {
    struct lstm *lstm = (struct lstm *)kernel;
    float *workspace = call->workspace, *scratch = workspace + lstm->scratch;
    const float *x = turned(lstm, workspace, call->input[0], kernel_input(kernel, 0), false);
    const void *input[] = {x, workspace, call->gradients[0], call->gradients[2]};
    TRY(primitive_run(&lstm->primitives[WEIGHTS], cpu_of(&lstm->kernel), input, scratch, call->error));
    const float *before = turned(lstm, workspace, call->output, &kernel->node->shape, true);
    const float *gradients = workspace + (lstm->gru ? lstm->state_part : 0);
    const void *state[] = {before, gradients, call->gradients[1]};
    TRY(primitive_run(&lstm->primitives[STATE_WEIGHTS], cpu_of(&lstm->kernel), state, scratch, call->error));
    const size_t all = (size_t)(kernel->samples * lstm->steps);
    if (lstm->narrow) cpu_sum_rows(kernel->device, all, (size_t)lstm->gates, TYPE_BF16, workspace, call->gradients[2]);
    if (lstm->gru)
        cpu_sum_rows(kernel->device, all, (size_t)lstm->gates, kernel->node->shape.type, gradients, call->gradients[3]);
    else
        memcpy(call->gradients[3], call->gradients[2], (size_t)kernel->parameter_bytes[3]);
    return PS_OK;
}

/* -------------------------------------------------------------- parameters */

static enum ps_status convert(const struct lstm *lstm, int parameter, const struct layout *from, const float *source,
                              const struct layout *to, float *destination, struct ps_error *error) {
    if (parameter < 2)
        return layout_convert(cpu_of(&lstm->kernel), &from[parameter], source, &to[parameter], destination, error);
    memcpy(destination, source, (size_t)lstm->kernel.parameter_bytes[parameter]);
    return PS_OK;
}

static enum ps_status from_canonical(struct kernel *kernel, int parameter, const float *canonical, float *own,
                                     struct ps_error *error) {
    const struct lstm *lstm = (const struct lstm *)kernel;
    return convert(lstm, parameter, lstm->plain, canonical, lstm->own, own, error);
}

static enum ps_status to_canonical(struct kernel *kernel, int parameter, const float *own, float *canonical,
                                   struct ps_error *error) {
    const struct lstm *lstm = (const struct lstm *)kernel;
    return convert(lstm, parameter, lstm->own, own, lstm->plain, canonical, error);
}

#define RECURRENT                                                                                                              \
    {                                                                                                                          \
        .size = sizeof(struct lstm), .native = cpu_multiplies_narrow, .prepare = prepare, .release = release,                  \
        .forward = forward, .backward_shared = backward_shared, .backward_input = backward_input,                              \
        .backward_weight = backward_weight, .from_canonical = from_canonical, .to_canonical = to_canonical                     \
    }
const struct kernel_class cpu_lstm = RECURRENT, cpu_gru = RECURRENT;
