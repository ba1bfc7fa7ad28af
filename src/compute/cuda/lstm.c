/*
 * LSTM and GRU (graph/operators/lstm.c, formulas in reference/lstm.c). What does not depend on the state is one product over
 * all positions: the input's part of the gates before the steps, and after them dx and both weight gradients. A step is a
 * product of N rows with weight_hh and one launch for the rest, forward and backward. Products of a step read rows that lie
 * together, so the launches write the state and the gradient of the gates there, too.
 *
 * Inner: gates after their activation (N, T, G), then (N, T, H) the cells, or of a GRU the state's part of its new value.
 *
 * Where any of x, the weights and y is bf16, all that products read is: what is not is rounded into the workspace. Their sums,
 * gates, cells, and what goes from step to step in the backward are f32.
 */
#include "base/memory.h"
#include "base/number.h"
#include "compute/cuda/cuda.h"

enum { INPUT, STEP, STEP_BACK, INPUT_BACK, WEIGHTS, STATE_WEIGHTS, PRODUCTS };
enum room {
    ROUNDED_X,     /* (N, T, D) */
    ROUNDED_IH,    /* (G, D) */
    ROUNDED_HH,    /* (G, H) */
    D_ROWS,        /* d (N, T, G) */
    E_ROWS,        /* of a GRU e, otherwise the same */
    BEFORE,        /* outputs of the steps before (N, T, H) */
    STEP_STATE,    /* (N, H) */
    STEP_SUMS,     /* (N, G) f32 */
    STEP_GRADIENT, /* e of a position (N, G) */
    STEP_DH,       /* (N, H) f32 */
    STEP_CARRIED,  /* (N, H) f32 */
    SCRATCH,       /* of products */
    ROOMS
};

struct lstm {
    struct cuda_kernel cuda;
    int64_t steps, features, hidden, gates, rows; /* T, D, H, G, N x T */
    bool gru, reverse;
    enum number_type type; /* of what products read */
    int64_t offset[ROOMS]; /* in the workspace */
    struct cuda_product *products[PRODUCTS];
};

static enum number_type copy_type(const struct kernel *kernel, int parameter) {
    return kernel->graph->parameters[kernel->node->parameter_first + parameter].copy;
}

static void measure(struct lstm *lstm) {
    const struct kernel *kernel = &lstm->cuda.kernel;
    const struct shape *input = kernel_input(kernel, 0), *output = &kernel->node->shape;
    lstm->gru = kernel->node->id == OPERATOR_GRU;
    lstm->reverse = kernel->node->attributes.reverse;
    lstm->features = input->dim[0], lstm->steps = input->dim[1], lstm->hidden = output->dim[0];
    lstm->gates = (lstm->gru ? 3 : 4) * lstm->hidden;
    lstm->rows = kernel->samples * lstm->steps;
    const bool narrow = input->type == TYPE_BF16 || output->type == TYPE_BF16 || copy_type(kernel, 0) == TYPE_BF16 ||
                        copy_type(kernel, 1) == TYPE_BF16;
    lstm->type = narrow ? TYPE_BF16 : TYPE_F32;
}

static enum ps_status make_products(struct lstm *lstm, int64_t *workspace, struct ps_error *error) {
    struct kernel *kernel = &lstm->cuda.kernel;
    const int64_t n = kernel->samples, d = lstm->features, h = lstm->hidden, g = lstm->gates, rows = lstm->rows;
    const enum number_type p = lstm->type, x_type = kernel_input(kernel, 0)->type;
    const struct cuda_matrix x = {p, false, d, 0}, ih = {p, false, d, 0}, ih_turned = {p, true, d, 0}, state = {p, false, h, 0},
                             hh = {p, false, h, 0}, hh_turned = {p, true, h, 0}, gates = {p, false, g, 0},
                             gates_turned = {p, true, g, 0}, sums = {TYPE_F32, false, g, 0}, dx = {x_type, false, d, 0},
                             of_features = {TYPE_F32, false, d, 0}, of_states = {TYPE_F32, false, h, 0};
    const struct cuda_product_shape shapes[PRODUCTS] = {
        [INPUT] = {rows, g, d, 1, x, ih_turned, sums},
        [STEP] = {n, g, h, 1, state, hh_turned, sums},
        [STEP_BACK] = {n, h, g, 1, gates, hh, of_states},
        [INPUT_BACK] = {rows, d, g, 1, gates, ih, dx},
        [WEIGHTS] = {g, d, rows, 1, gates_turned, x, of_features},
        [STATE_WEIGHTS] = {g, h, rows, 1, gates_turned, state, of_states},
    };
    for (int i = 0; i < PRODUCTS; i++) {
        TRY(cuda_product_create(cuda_device_of(kernel), &shapes[i], &lstm->products[i], error));
        *workspace = number_larger(*workspace, cuda_product_workspace(lstm->products[i]));
    }
    return PS_OK;
}

static void plan_memory(struct lstm *lstm, int64_t products) {
    struct kernel *kernel = &lstm->cuda.kernel;
    const int64_t n = kernel->samples, d = lstm->features, h = lstm->hidden, g = lstm->gates, rows = lstm->rows,
                  wide = (int64_t)sizeof(float), each = (int64_t)number_types[lstm->type].bytes;
    const bool rounds_x = kernel_input(kernel, 0)->type != lstm->type, rounds_ih = copy_type(kernel, 0) != lstm->type,
               rounds_hh = copy_type(kernel, 1) != lstm->type;
    const int64_t bytes[ROOMS] = {
        [ROUNDED_X] = rounds_x ? rows * d * each : 0,
        [ROUNDED_IH] = rounds_ih ? g * d * each : 0,
        [ROUNDED_HH] = rounds_hh ? g * h * each : 0,
        [D_ROWS] = rows * g * each,
        [E_ROWS] = lstm->gru ? rows * g * each : 0,
        [BEFORE] = rows * h * each,
        [STEP_STATE] = n * h * each,
        [STEP_SUMS] = n * g * wide,
        [STEP_GRADIENT] = n * g * each,
        [STEP_DH] = n * h * wide,
        [STEP_CARRIED] = n * h * wide,
        [SCRATCH] = products,
    };
    for (int r = 0; r < ROOMS; r++) {
        lstm->offset[r] = kernel->workspace_bytes;
        kernel->workspace_bytes += (int64_t)memory_align((size_t)bytes[r]);
    }
    kernel->inner_bytes = rows * (g + h) * wide;
    kernel->state_floats = (lstm->gru ? 1 : 2) * h;
}

static enum ps_status prepare(struct kernel *kernel, struct ps_error *error) {
    struct lstm *lstm = (struct lstm *)kernel;
    int64_t products = 0;
    measure(lstm);
    TRY(cuda_prepare(kernel, error));
    TRY(make_products(lstm, &products, error));
    plan_memory(lstm, products);
    cuda_take_columns(kernel, lstm->rows, lstm->gates, lstm->gru ? 2 : 1);
    return PS_OK;
}

static void release(struct kernel *kernel) {
    for (int p = 0; p < PRODUCTS; p++) cuda_product_destroy(((struct lstm *)kernel)->products[p]);
}

static void define(const struct kernel *kernel, struct text *out) {
    struct lstm lstm = {.cuda.kernel = *kernel};
    measure(&lstm);
    text_add(out, "#define P %s\n#define GRU %d\n#define PADDED %d\n", number_types[lstm.type].name, lstm.gru ? 1 : 0,
             kernel->node->input_count > 1 ? 1 : 0);
}

static void *room_of(const struct lstm *lstm, const struct kernel_call *call, enum room room) {
    if (room == E_ROWS && !lstm->gru) room = D_ROWS;
    return (char *)call->workspace + lstm->offset[room];
}

/* What products read of x or of the weights. */
static const void *rounded(const struct lstm *lstm, const struct kernel_call *call, enum room room) {
    const struct kernel *kernel = &lstm->cuda.kernel;
    const int parameter = room == ROUNDED_HH ? 1 : 0;
    const bool is_x = room == ROUNDED_X;
    const void *from = is_x ? call->input[0] : call->weights[parameter];
    const enum number_type type = is_x ? kernel_input(kernel, 0)->type : copy_type(kernel, parameter);
    const int64_t count = (is_x ? lstm->rows : lstm->gates) * (room == ROUNDED_HH ? lstm->hidden : lstm->features);
    if (type == lstm->type) return from;
    void *to = room_of(lstm, call, room);
    device_convert(kernel->device, (size_t)count, lstm->type, to, type, from);
    return to;
}

static enum ps_status multiply(const struct lstm *lstm, const struct kernel_call *call, int product, const void *a,
                               const void *b, void *c) {
    return cuda_product_run(cuda_device_of(&lstm->cuda.kernel), lstm->products[product], 1, a, b, 0, c,
                            room_of(lstm, call, SCRATCH), call->error);
}

/* The position of step k; -1: there is none. */
static int64_t position(const struct lstm *lstm, int64_t k) { return k < 0 ? -1 : lstm->reverse ? lstm->steps - 1 - k : k; }

/* ------------------------------------------------------------------------ forward */

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    static const struct cuda_launch begin = {"lstm_begin", GRID_ONES, NULL}, step = {"lstm_forward", GRID_ONES, NULL};
    struct lstm *lstm = (struct lstm *)kernel;
    void *state = room_of(lstm, call, STEP_STATE), *sums = room_of(lstm, call, STEP_SUMS);
    struct cuda_extra extra = {.count = kernel->samples * lstm->hidden, .more = {sums, state}};
    TRY(multiply(lstm, call, INPUT, rounded(lstm, call, ROUNDED_X), rounded(lstm, call, ROUNDED_IH), call->inner));
    const void *weights = rounded(lstm, call, ROUNDED_HH);
    if (call->state) TRY(cuda_run(kernel, call, &begin, &extra));
    for (int64_t k = 0; k < lstm->steps; k++) {
        const bool has_state = k > 0 || call->state;
        extra.number[0] = position(lstm, k), extra.number[1] = position(lstm, k - 1);
        extra.number[2] = has_state, extra.number[3] = k + 1 == lstm->steps;
        if (has_state) TRY(multiply(lstm, call, STEP, state, weights, sums));
        TRY(cuda_run(kernel, call, &step, &extra));
    }
    return PS_OK;
}

/* ----------------------------------------------------------------------- backward */

static enum ps_status backward_shared(struct kernel *kernel, const struct kernel_call *call) {
    static const struct cuda_launch step = {"lstm_backward", GRID_ONES, NULL};
    struct lstm *lstm = (struct lstm *)kernel;
    void *gradient = room_of(lstm, call, STEP_GRADIENT), *dh = room_of(lstm, call, STEP_DH);
    struct cuda_extra extra = {
        .count = kernel->samples * lstm->hidden,
        .more = {room_of(lstm, call, D_ROWS), room_of(lstm, call, E_ROWS), gradient, dh, room_of(lstm, call, STEP_CARRIED)}};
    const void *weights = rounded(lstm, call, ROUNDED_HH);
    for (int64_t k = lstm->steps - 1; k >= 0; k--) {
        extra.number[0] = position(lstm, k), extra.number[1] = position(lstm, k - 1);
        extra.number[2] = k + 1 == lstm->steps;
        TRY(cuda_run(kernel, call, &step, &extra));
        if (k > 0) TRY(multiply(lstm, call, STEP_BACK, gradient, weights, dh));
    }
    return PS_OK;
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call) {
    struct lstm *lstm = (struct lstm *)kernel;
    if (!call->input_gradient[0]) return PS_OK;
    return multiply(lstm, call, INPUT_BACK, room_of(lstm, call, D_ROWS), rounded(lstm, call, ROUNDED_IH),
                    call->input_gradient[0]);
}

static enum ps_status backward_weight(struct kernel *kernel, const struct kernel_call *call) {
    static const struct cuda_launch before = {"lstm_before", GRID_ONES, NULL};
    static const struct cuda_launch biases[] = {
        {"column_partial", GRID_COLUMNS, NULL}, {"column_finish", GRID_TILES, NULL}, {0}};
    struct lstm *lstm = (struct lstm *)kernel;
    void *d = room_of(lstm, call, D_ROWS), *e = room_of(lstm, call, E_ROWS), *outputs = room_of(lstm, call, BEFORE);
    if (call->gradients[0]) TRY(multiply(lstm, call, WEIGHTS, d, rounded(lstm, call, ROUNDED_X), call->gradients[0]));
    if (call->gradients[1]) {
        const struct cuda_extra shift = {
            .count = lstm->rows * lstm->hidden, .more = {outputs}, .number = {lstm->reverse ? 1 : -1}};
        TRY(cuda_run(kernel, call, &before, &shift));
        TRY(multiply(lstm, call, STATE_WEIGHTS, e, outputs, call->gradients[1]));
    }
    if (!call->gradients[2] && !call->gradients[3]) return PS_OK;
    const struct cuda_extra columns = {.count = lstm->gates, .more = {NULL, d, e}, .number = {lstm->rows}};
    return cuda_run_all(kernel, call, biases, &columns);
}

#define RECURRENT                                                                                                              \
    {                                                                                                                          \
        .type = {.size = sizeof(struct lstm),                                                                                  \
                 .native = cuda_native,                                                                                        \
                 .prepare = prepare,                                                                                           \
                 .release = release,                                                                                           \
                 .forward = forward,                                                                                           \
                 .backward_shared = backward_shared,                                                                           \
                 .backward_input = backward_input,                                                                             \
                 .backward_weight = backward_weight},                                                                          \
        .source = "lstm", .define = define                                                                                     \
    }
const struct cuda_class cuda_lstm = RECURRENT, cuda_gru = RECURRENT;
