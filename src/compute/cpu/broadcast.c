/*
 * Functions of several values that are repeated along some sides (compute/broadcast.h), row by row: `binary`, `expand`,
 * `parameter`.
 *
 * A row is a piece of the last side. An operand that is repeated along it is copied into a buffer, and one in bf16 is widened
 * into it, so there is one loop for each function; a result in bf16 is rounded from one. Gradients of an operand that is
 * repeated are sums over the rows, in double.
 */
#include "compute/broadcast.h"

#include <float.h>

#include "compute/cpu/functions.h"

enum { PIECE = 512 };

/* `in` are the operands, in a backward followed by dy. */
typedef void row_function(size_t count, float *result, const float *const *in);

/* How rows become one, element by element, and what that begins with. */
enum fold { FOLD_SUM, FOLD_PRODUCT, FOLD_LARGEST, FOLD_SMALLEST };
static const double fold_start[] = {[FOLD_SUM] = 0, [FOLD_PRODUCT] = 1, [FOLD_LARGEST] = -INFINITY, [FOLD_SMALLEST] = INFINITY};

struct rows {
    row_function *row;
    const struct broadcast *b;
    const float *in[BROADCAST_OPERANDS]; /* NULL: not read */
    float *result;
    enum number_type types[BROADCAST_OPERANDS], result_type; /* bf16, else elements are passed on as they are */
    float scale;                                             /* forward: of the result; 0: it stays as it is */
    /* Of gradients. */
    int operand;
    enum fold fold;
    struct broadcast kept, repeated;
};

static size_t pieces_of(int64_t side) { return ((size_t)side + PIECE - 1) / PIECE; }

static size_t piece_length(int64_t side, size_t piece) {
    const size_t left = (size_t)side - piece * PIECE;
    return left < PIECE ? left : PIECE;
}

static const void *element(const struct rows *r, int operand, int64_t number) {
    return (const char *)r->in[operand] + number * (int64_t)number_types[r->types[operand]].bytes;
}

/* Where `count` results are computed that belong at `number`: there, or in the room of a row. */
static float *room_of(const struct rows *r, size_t number, float *room) {
    return r->result_type == TYPE_BF16 ? room : r->result + number;
}

static void put(const struct rows *r, size_t number, size_t count, const float *room) {
    if (r->result_type != TYPE_BF16) return;
    numbers_convert(count, TYPE_BF16, (uint16_t *)(void *)r->result + number, TYPE_F32, room);
}

/* One call of the row's function, from an element of the row on; the operands' rows begin at `offset`. */
static void run_row(const struct rows *r, float *result, const int64_t *offset, size_t from, size_t count) {
    float copies[BROADCAST_OPERANDS][PIECE];
    const float *in[BROADCAST_OPERANDS] = {NULL};
    for (int o = 0; o < r->b->operands; o++) {
        if (r->in[o] == NULL) continue;
        const bool repeated = r->b->stride[o][r->b->rank - 1] == 0, narrow = r->types[o] == TYPE_BF16;
        const void *at = element(r, o, offset[o] + (repeated ? 0 : (int64_t)from));
        in[o] = repeated || narrow ? copies[o] : at;
        if (narrow)
            numbers_convert(repeated ? 1 : count, TYPE_F32, copies[o], TYPE_BF16, at);
        else if (repeated)
            memcpy(copies[o], at, sizeof(float)); /* of any type */
        for (size_t i = 1; i < count && repeated; i++) memcpy(&copies[o][i], copies[o], sizeof(float));
    }
    r->row(count, result, in);
}

static void forward_part(const void *context, size_t first, size_t end) {
    const struct rows *r = context;
    const int outer = r->b->rank - 1, own = r->b->operands - 1;
    const int64_t side = r->b->side[outer];
    const size_t pieces = pieces_of(side);
    struct cursor at = cursor_at(r->b, outer, (int64_t)(first / pieces));
    for (size_t item = first; item < end; item++) {
        const size_t piece = item % pieces, count = piece_length(side, piece);
        const size_t number = (size_t)at.offset[own] + piece * PIECE;
        float room[PIECE], *result = room_of(r, number, room);
        run_row(r, result, at.offset, piece * PIECE, count);
        if (r->scale != 0) vector_scale(count, result, r->scale);
        put(r, number, count, room);
        if (piece == pieces - 1) cursor_next(r->b, outer, &at);
    }
}

static void run_forward(const struct device *device, const struct rows *r) {
    const size_t rows = (size_t)broadcast_count(r->b, r->b->rank - 1);
    device_parallel(device, rows * pieces_of(r->b->side[r->b->rank - 1]), 4, forward_part, r);
}

static void add_offsets(const struct broadcast *b, const struct cursor *x, const struct cursor *y, int64_t *sum) {
    for (int o = 0; o < b->operands; o++) sum[o] = x->offset[o] + y->offset[o];
}

static VECTOR_CLONES void fold_row(enum fold fold, size_t count, double *all, const float *x) {
    if (fold == FOLD_SUM) {
#pragma omp simd
        for (size_t i = 0; i < count; i++) all[i] += (double)x[i];
    } else if (fold == FOLD_PRODUCT) {
#pragma omp simd
        for (size_t i = 0; i < count; i++) all[i] *= (double)x[i];
    } else if (fold == FOLD_LARGEST) {
#pragma omp simd
        for (size_t i = 0; i < count; i++) all[i] = (double)x[i] > all[i] ? (double)x[i] : all[i];
    } else {
#pragma omp simd
        for (size_t i = 0; i < count; i++) all[i] = (double)x[i] < all[i] ? (double)x[i] : all[i];
    }
}

static double fold_whole(enum fold fold, size_t count, double all, const float *x) {
    if (fold == FOLD_SUM) return all + (double)vector_sum(count, x);
    for (size_t i = 0; i < count; i++) fold_row(fold, 1, &all, x + i);
    return all;
}

/* The operand has rows of its own, each made of several. */
static void fold_rows(const void *context, size_t first, size_t end) {
    const struct rows *r = context;
    const int outer = r->kept.rank - 1;
    const int64_t side = r->kept.side[outer], times = broadcast_count(&r->repeated, r->repeated.rank);
    const size_t pieces = pieces_of(side);
    for (size_t item = first; item < end; item++) {
        const size_t from = item % pieces * PIECE, count = piece_length(side, item % pieces);
        const struct cursor at = cursor_at(&r->kept, outer, (int64_t)(item / pieces));
        const size_t number = (size_t)at.offset[r->operand] + from;
        float room[PIECE], *result = room_of(r, number, room), row[PIECE];
        double all[PIECE];
        for (size_t i = 0; i < count; i++) all[i] = fold_start[r->fold];
        struct cursor each = {0};
        int64_t offset[BROADCAST_OPERANDS];
        for (int64_t t = 0; t < times; t++, cursor_next(&r->repeated, r->repeated.rank, &each)) {
            add_offsets(r->b, &at, &each, offset);
            run_row(r, times == 1 ? result : row, offset, from, count);
            if (times > 1) fold_row(r->fold, count, all, row);
        }
        for (size_t i = 0; i < count && times > 1; i++) result[i] = (float)all[i];
        put(r, number, count, room);
    }
}

/* The operand is repeated along the rows: each of its elements is made of whole rows. */
static void fold_within_rows(const void *context, size_t first, size_t end) {
    const struct rows *r = context;
    const int outer = r->repeated.rank - 1;
    const int64_t side = r->repeated.side[outer], times = broadcast_count(&r->repeated, outer);
    for (size_t item = first; item < end; item++) {
        const struct cursor at = cursor_at(&r->kept, r->kept.rank, (int64_t)item);
        double all = fold_start[r->fold];
        struct cursor each = {0};
        int64_t offset[BROADCAST_OPERANDS];
        float row[PIECE];
        for (int64_t t = 0; t < times; t++, cursor_next(&r->repeated, outer, &each)) {
            add_offsets(r->b, &at, &each, offset);
            for (size_t piece = 0; piece < pieces_of(side); piece++) {
                run_row(r, row, offset, piece * PIECE, piece_length(side, piece));
                all = fold_whole(r->fold, piece_length(side, piece), all, row);
            }
        }
        const size_t number = (size_t)at.offset[r->operand];
        float room, *result = room_of(r, number, &room);
        *result = (float)all;
        put(r, number, 1, &room);
    }
}

/* For each element of an operand one number, by default the sum, of what the row's function computes where it is repeated. */
static void run_fold(const struct device *device, struct rows *r, int operand) {
    const int last = r->b->rank - 1;
    r->operand = operand;
    broadcast_split(r->b, operand, &r->kept, &r->repeated);
    if (r->b->stride[operand][last] == 0 && r->repeated.rank > 0) {
        device_parallel(device, (size_t)broadcast_count(&r->kept, r->kept.rank), 4, fold_within_rows, r);
        return;
    }
    const size_t rows = (size_t)broadcast_count(&r->kept, r->kept.rank - 1);
    device_parallel(device, rows * pieces_of(r->kept.side[r->kept.rank - 1]), 4, fold_rows, r);
}

static enum number_type output_type(const struct kernel *kernel) { return kernel->node->shape.type; }
static enum number_type input_type(const struct kernel *kernel, int input) { return kernel_input(kernel, input)->type; }

/* Values may be bf16; own parameters are f32. */
static bool native(const struct kernel *kernel) {
    return kernel->node->parameter_count == 0 || kernel->graph->parameters[kernel->node->parameter_first].copy == TYPE_F32;
}

/* ------------------------------------------------------------------ binary */

#define BINARY(NAME, name, value, slope_a, slope_b, reads, flops)                                                              \
    static VECTOR_CLONES void name##_value(size_t count, float *result, const float *const *in) {                              \
        const float *as = in[0], *bs = in[1];                                                                                  \
        _Pragma("omp simd") for (size_t i = 0; i < count; i++) {                                                               \
            const float a = as[i], b = bs[i];                                                                                  \
            result[i] = (float)(value);                                                                                        \
        }                                                                                                                      \
    }                                                                                                                          \
    static VECTOR_CLONES void name##_slope_a(size_t count, float *result, const float *const *in) {                            \
        const float *as = in[0] != NULL ? in[0] : in[2], *bs = in[1] != NULL ? in[1] : in[2], *dy = in[2];                     \
        _Pragma("omp simd") for (size_t i = 0; i < count; i++) {                                                               \
            const float a = as[i], b = bs[i];                                                                                  \
            (void)a, (void)b;                                                                                                  \
            result[i] = dy[i] * (float)(slope_a);                                                                              \
        }                                                                                                                      \
    }                                                                                                                          \
    static VECTOR_CLONES void name##_slope_b(size_t count, float *result, const float *const *in) {                            \
        const float *as = in[0] != NULL ? in[0] : in[2], *bs = in[1] != NULL ? in[1] : in[2], *dy = in[2];                     \
        _Pragma("omp simd") for (size_t i = 0; i < count; i++) {                                                               \
            const float a = as[i], b = bs[i];                                                                                  \
            (void)a, (void)b;                                                                                                  \
            result[i] = dy[i] * (float)(slope_b);                                                                              \
        }                                                                                                                      \
    }
#include "graph/functions.def"

static const struct {
    row_function *value, *slopes[2];
} binary_kinds[] = {
#define BINARY(NAME, name, value, slope_a, slope_b, reads, flops) {name##_value, {name##_slope_a, name##_slope_b}},
#include "graph/functions.def"
};

/* The two arguments, of which one may be the node's own parameter. */
static struct rows binary_rows(const struct kernel *kernel, const struct kernel_call *call, struct broadcast *b) {
    struct rows rows = {.b = b};
    *b = binary_shape(kernel);
    for (int i = 0; i < 2; i++) {
        const bool own = i == binary_parameter(kernel);
        rows.in[i] = own ? call->weights[0] : call->input[binary_input(kernel, i)];
        rows.types[i] = own ? TYPE_F32 : input_type(kernel, binary_input(kernel, i));
    }
    return rows;
}

static enum ps_status binary_forward(struct kernel *kernel, const struct kernel_call *call) {
    struct broadcast b;
    struct rows rows = binary_rows(kernel, call, &b);
    rows.row = binary_kinds[kernel->node->attributes.kind].value;
    rows.result = call->output;
    rows.result_type = output_type(kernel);
    run_forward(kernel->device, &rows);
    return PS_OK;
}

static void binary_gradient(const struct kernel *kernel, const struct kernel_call *call, int operand, float *result) {
    struct broadcast b;
    struct rows rows = binary_rows(kernel, call, &b);
    rows.row = binary_kinds[kernel->node->attributes.kind].slopes[operand];
    rows.in[2] = call->output_gradient;
    rows.types[2] = output_type(kernel);
    rows.result = result;
    rows.result_type = rows.types[operand];
    run_fold(kernel->device, &rows, operand);
}

/* The second gradient first: the first may be written over dy. */
static enum ps_status binary_backward(struct kernel *kernel, const struct kernel_call *call) {
    for (int i = 1; i >= 0; i--) {
        float *result = i == binary_parameter(kernel) ? NULL : call->input_gradient[binary_input(kernel, i)];
        if (result != NULL) binary_gradient(kernel, call, i, result);
    }
    return PS_OK;
}

static enum ps_status binary_backward_weight(struct kernel *kernel, const struct kernel_call *call) {
    binary_gradient(kernel, call, binary_parameter(kernel), call->gradients[0]);
    return PS_OK;
}

const struct kernel_class cpu_binary = {
    .native = native, .forward = binary_forward, .backward_input = binary_backward, .backward_weight = binary_backward_weight};

/* ------------------------------------------------------- parameter, expand */

/* Of the input, or of the own parameter. */
static enum number_type expanded_type(const struct kernel *kernel) {
    return kernel->node->id == OPERATOR_PARAMETER ? TYPE_F32 : input_type(kernel, 0);
}

static void copy_first(size_t count, float *result, const float *const *in) { memcpy(result, in[0], count * sizeof *result); }
static void copy_second(size_t count, float *result, const float *const *in) { memcpy(result, in[1], count * sizeof *result); }

static struct broadcast expanded_shape(const struct kernel *kernel) {
    const bool parameter = kernel->node->id == OPERATOR_PARAMETER;
    const struct broadcast_operand from = {parameter ? &kernel->node->shape : kernel_input(kernel, 0),
                                           parameter ? 1 : kernel->samples};
    return broadcast_make(&kernel->node->shape, kernel->samples, &from, 1);
}

static enum ps_status expand(struct kernel *kernel, const struct kernel_call *call) {
    const struct broadcast b = expanded_shape(kernel);
    const float *from = kernel->node->id == OPERATOR_PARAMETER ? call->weights[0] : call->input[0];
    run_forward(kernel->device, &(struct rows){.row = copy_first,
                                               .b = &b,
                                               .in = {from},
                                               .types = {expanded_type(kernel)},
                                               .result = call->output,
                                               .result_type = output_type(kernel)});
    return PS_OK;
}

static void sum_expanded(const struct kernel *kernel, const float *dy, float *result) {
    const struct broadcast b = expanded_shape(kernel);
    run_fold(kernel->device,
             &(struct rows){.row = copy_second,
                            .b = &b,
                            .in = {NULL, dy},
                            .types = {TYPE_F32, output_type(kernel)},
                            .result = result,
                            .result_type = expanded_type(kernel)},
             0);
}

static enum ps_status expand_backward(struct kernel *kernel, const struct kernel_call *call) {
    sum_expanded(kernel, call->output_gradient, call->input_gradient[0]);
    return PS_OK;
}

const struct kernel_class cpu_expand = {.native = native, .forward = expand, .backward_input = expand_backward};

static enum ps_status parameter_forward(struct kernel *kernel, const struct kernel_call *call) {
    TRY(expand(kernel, call));
    int32_t *whole = (int32_t *)(void *)call->output;
    for (size_t i = 0; i < kernel_elements(kernel) && kernel->node->shape.type == TYPE_I32; i++)
        whole[i] = (int32_t)call->output[i];
    return PS_OK;
}

static enum ps_status parameter_backward(struct kernel *kernel, const struct kernel_call *call) {
    sum_expanded(kernel, call->output_gradient, call->gradients[0]);
    return PS_OK;
}

const struct kernel_class cpu_parameter = {
    .native = native, .forward = parameter_forward, .backward_weight = parameter_backward};

/* ------------------------------------------------------------------ reduce */

/* Rows of x, which is `in[1]`, beside y, `in[0]`; in the backward y, dy and what `look` has computed, in this order. */
#define ROW(name, STATEMENT)                                                                                                   \
    static VECTOR_CLONES void name(size_t count, float *result, const float *const *in) {                                      \
        const float *y = in[0], *x = in[1];                                                                                    \
        (void)x, (void)y;                                                                                                      \
        _Pragma("omp simd") for (size_t i = 0; i < count; i++) result[i] = STATEMENT;                                          \
    }
ROW(row_same, x[i])
ROW(row_absolute, fabsf(x[i]))
ROW(row_square, x[i] * x[i])
ROW(row_exponential, activation_exp(x[i] - y[i]))
ROW(row_is_result, x[i] == y[i] ? 1 : 0)
ROW(row_is_zero, x[i] == 0 ? 1 : 0)
ROW(row_no_zero, x[i] == 0 ? 1 : x[i])

#define SLOPE(name, STATEMENT)                                                                                                 \
    static VECTOR_CLONES void name(size_t count, float *result, const float *const *in) {                                      \
        const float *dy = in[1], *y = in[0] != NULL ? in[0] : dy, *z = in[2] != NULL ? in[2] : dy, *x = in[3];                 \
        (void)x, (void)y, (void)z;                                                                                             \
        if (x == NULL) x = dy;                                                                                                 \
        _Pragma("omp simd") for (size_t i = 0; i < count; i++) result[i] = dy[i] * (STATEMENT);                                \
    }
SLOPE(slope_one, 1)
SLOPE(slope_tied, x[i] == y[i] ? 1 / z[i] : 0)
SLOPE(slope_product, x[i] == 0 ? (z[i] == 1 ? y[i] : 0) : (z[i] == 0 ? y[i] / x[i] : 0))
SLOPE(slope_sign, SIGN(x[i]))
SLOPE(slope_norm, y[i] > 0 ? x[i] / y[i] : 0)
SLOPE(slope_square, 2 * x[i])
SLOPE(slope_log, activation_exp(-y[i]))
SLOPE(slope_exponential, activation_exp(x[i] - y[i]))

static const struct {
    row_function *value, *slope;
    enum fold fold;
} reduce_kinds[] = {
    [REDUCE_SUM] = {row_same, slope_one, FOLD_SUM},
    [REDUCE_MEAN] = {row_same, slope_one, FOLD_SUM},
    [REDUCE_MAX] = {row_same, slope_tied, FOLD_LARGEST},
    [REDUCE_MIN] = {row_same, slope_tied, FOLD_SMALLEST},
    [REDUCE_PROD] = {row_same, slope_product, FOLD_PRODUCT},
    [REDUCE_L1] = {row_absolute, slope_sign, FOLD_SUM},
    [REDUCE_L2] = {row_square, slope_norm, FOLD_SUM},
    [REDUCE_SUM_SQUARE] = {row_square, slope_square, FOLD_SUM},
    [REDUCE_LOG_SUM] = {row_same, slope_log, FOLD_SUM},
    [REDUCE_LOG_SUM_EXP] = {row_same, slope_exponential, FOLD_LARGEST}, /* the largest first */
};

/* `y` and `result` are f32. */
static void fold_into(const struct kernel *kernel, const struct broadcast *b, row_function *row, enum fold fold, const float *y,
                      const float *x, float *result) {
    run_fold(kernel->device,
             &(struct rows){
                 .row = row, .b = b, .in = {y, x}, .types = {TYPE_F32, input_type(kernel, 0)}, .result = result, .fold = fold},
             0);
}

/* The workspace has two numbers for each result; where results are bf16, three. */
static void reduce_sizes(struct kernel *kernel) {
    const int64_t numbers = output_type(kernel) == TYPE_BF16 ? 3 : 2;
    kernel->workspace_bytes = numbers * (int64_t)(kernel_elements(kernel) * sizeof(float));
}

/* The results in f32. */
static float *wide_results(const struct kernel *kernel, const struct kernel_call *call) {
    return output_type(kernel) == TYPE_BF16 ? (float *)call->workspace + 2 * kernel_elements(kernel) : call->output;
}

static enum ps_status reduce_forward(struct kernel *kernel, const struct kernel_call *call) {
    const int kind = kernel->node->attributes.kind;
    const struct broadcast b = reduce_shape(kernel);
    const size_t count = kernel_elements(kernel);
    const float *x = call->input[0], share = (float)((double)count / (double)broadcast_count(&b, b.rank));
    float *y = wide_results(kernel, call), *sums = call->workspace;
    fold_into(kernel, &b, reduce_kinds[kind].value, reduce_kinds[kind].fold, NULL, x, y);
    if (kind == REDUCE_LOG_SUM_EXP) fold_into(kernel, &b, row_exponential, FOLD_SUM, y, x, sums);
    for (size_t i = 0; i < count; i++) {
        if (kind == REDUCE_MEAN) y[i] *= share;
        if (kind == REDUCE_L2) y[i] = sqrtf(y[i]);
        if (kind == REDUCE_LOG_SUM) y[i] = logf(y[i]);
        if (kind == REDUCE_LOG_SUM_EXP) y[i] += logf(sums[i]);
    }
    if (y != call->output) numbers_convert(count, TYPE_BF16, call->output, TYPE_F32, y);
    return PS_OK;
}

/* Of the largest and the smallest their number; of products the zeros among the factors, and in place of y the product of the
 * others. */
static const float *look(const struct kernel *kernel, const struct kernel_call *call, const struct broadcast *b,
                         const float **y) {
    const int kind = kernel->node->attributes.kind;
    float *number = call->workspace, *product = number + kernel_elements(kernel);
    if (kind == REDUCE_MAX || kind == REDUCE_MIN) {
        fold_into(kernel, b, row_is_result, FOLD_SUM, *y, call->input[0], number);
        return number;
    }
    if (kind != REDUCE_PROD) return NULL;
    fold_into(kernel, b, row_is_zero, FOLD_SUM, NULL, call->input[0], number);
    fold_into(kernel, b, row_no_zero, FOLD_PRODUCT, NULL, call->input[0], product);
    *y = product;
    return number;
}

static enum ps_status reduce_backward(struct kernel *kernel, const struct kernel_call *call) {
    const int kind = kernel->node->attributes.kind;
    const struct broadcast_operand output = {&kernel->node->shape, kernel->samples};
    const struct broadcast b = reduce_shape(kernel),
                           all = broadcast_make(kernel_input(kernel, 0), kernel->samples,
                                                (struct broadcast_operand[]){output, output, output}, 3);
    const size_t results = kernel_elements(kernel), count = (size_t)broadcast_count(&b, b.rank);
    float *wide = wide_results(kernel, call);
    if (wide != call->output && call->output != NULL) numbers_convert(results, TYPE_F32, wide, TYPE_BF16, call->output);
    const float *y = call->output != NULL ? wide : NULL, *number = look(kernel, call, &b, &y);
    run_forward(kernel->device, &(struct rows){.row = reduce_kinds[kind].slope,
                                               .b = &all,
                                               .in = {y, call->output_gradient, number, call->input[0]},
                                               .types = {TYPE_F32, output_type(kernel), TYPE_F32, input_type(kernel, 0)},
                                               .result = call->input_gradient[0],
                                               .result_type = input_type(kernel, 0),
                                               .scale = kind == REDUCE_MEAN ? (float)((double)results / (double)count) : 0});
    return PS_OK;
}

const struct kernel_class cpu_reduce = {
    .native = native, .set_sizes = reduce_sizes, .forward = reduce_forward, .backward_input = reduce_backward};

/* -------------------------------------------------- compare, logical, where */

/* Rows of numbers of two types that are compared, and of conditions that are connected. */
#define CONDITION(name, type, STATEMENT)                                                                                       \
    static VECTOR_CLONES void name(size_t count, float *result, const float *const *in) {                                      \
        const type *a = (const type *)(const void *)in[0], *b = (const type *)(const void *)in[1];                             \
        int32_t *y = (int32_t *)(void *)result;                                                                                \
        (void)b;                                                                                                               \
        _Pragma("omp simd") for (size_t i = 0; i < count; i++) y[i] = STATEMENT;                                               \
    }
#define COMPARISON(name, STATEMENT) CONDITION(name##_floats, float, STATEMENT) CONDITION(name##_integers, int32_t, STATEMENT)
COMPARISON(equal, a[i] == b[i])
COMPARISON(not_equal, a[i] != b[i])
COMPARISON(less, a[i] < b[i])
COMPARISON(less_equal, a[i] <= b[i])
COMPARISON(greater, a[i] > b[i])
COMPARISON(greater_equal, a[i] >= b[i])
CONDITION(isnan_floats, float, a[i] != a[i])
CONDITION(isinf_floats, float, fabsf(a[i]) > FLT_MAX)
CONDITION(never, int32_t, 0 * a[i])
CONDITION(both, int32_t, (a[i] != 0) & (b[i] != 0))
CONDITION(either, int32_t, (a[i] != 0) | (b[i] != 0))
CONDITION(one_of, int32_t, (a[i] != 0) ^ (b[i] != 0))
CONDITION(negation, int32_t, a[i] == 0)

static row_function *const compare_kinds[][2] = {
    [COMPARE_EQUAL] = {equal_floats, equal_integers},
    [COMPARE_NOT_EQUAL] = {not_equal_floats, not_equal_integers},
    [COMPARE_LESS] = {less_floats, less_integers},
    [COMPARE_LESS_EQUAL] = {less_equal_floats, less_equal_integers},
    [COMPARE_GREATER] = {greater_floats, greater_integers},
    [COMPARE_GREATER_EQUAL] = {greater_equal_floats, greater_equal_integers},
    [COMPARE_ISNAN] = {isnan_floats, never},
    [COMPARE_ISINF] = {isinf_floats, never},
};
static row_function *const logical_kinds[] = {
    [LOGICAL_AND] = both, [LOGICAL_OR] = either, [LOGICAL_XOR] = one_of, [LOGICAL_NOT] = negation};

/* Operands beside the inputs' are `alpha`, one number that is repeated. */
static enum ps_status condition(struct kernel *kernel, const struct kernel_call *call) {
    const struct node *node = kernel->node;
    const bool compares = node->id == OPERATOR_COMPARE, integers = kernel_input(kernel, 0)->type == TYPE_I32;
    struct shape one = {.rank = node->shape.rank, .dim = {1, 1, 1, 1, 1, 1}};
    const struct broadcast_operand operands[] = {{kernel_input(kernel, 0), kernel->samples},
                                                 node->input_count > 1
                                                     ? (struct broadcast_operand){kernel_input(kernel, 1), kernel->samples}
                                                     : (struct broadcast_operand){&one, 1}};
    const struct broadcast b = broadcast_make(&node->shape, kernel->samples, operands, 2);
    const int32_t whole = (int32_t)floorf(fmaxf(fminf(node->attributes.alpha, 1e9f), -1e9f));
    float alpha = node->attributes.alpha;
    if (integers) memcpy(&alpha, &whole, sizeof alpha);
    run_forward(
        kernel->device,
        &(struct rows){.row = compares ? compare_kinds[node->attributes.kind][integers] : logical_kinds[node->attributes.kind],
                       .b = &b,
                       .in = {call->input[0], node->input_count > 1 ? call->input[1] : &alpha},
                       .types = {input_type(kernel, 0), node->input_count > 1 ? input_type(kernel, 1) : TYPE_F32},
                       .result = call->output});
    return PS_OK;
}

const struct kernel_class cpu_compare = {.native = native, .forward = condition};
const struct kernel_class cpu_logical = {.native = native, .forward = condition};

static VECTOR_CLONES void choose(size_t count, float *result, const float *const *in) {
    const uint32_t *condition = (const uint32_t *)(const void *)in[0], *a = (const uint32_t *)(const void *)in[1],
                   *b = (const uint32_t *)(const void *)in[2]; /* of any type */
    uint32_t *y = (uint32_t *)(void *)result;
#pragma omp simd
    for (size_t i = 0; i < count; i++) y[i] = condition[i] != 0 ? a[i] : b[i];
}

static VECTOR_CLONES void where_chosen(size_t count, float *result, const float *const *in) {
    const int32_t *condition = (const int32_t *)(const void *)in[0];
    const float *dy = in[3];
#pragma omp simd
    for (size_t i = 0; i < count; i++) result[i] = condition[i] != 0 ? dy[i] : 0;
}

static VECTOR_CLONES void where_not_chosen(size_t count, float *result, const float *const *in) {
    const int32_t *condition = (const int32_t *)(const void *)in[0];
    const float *dy = in[3];
#pragma omp simd
    for (size_t i = 0; i < count; i++) result[i] = condition[i] != 0 ? 0 : dy[i];
}

static enum ps_status where_forward(struct kernel *kernel, const struct kernel_call *call) {
    const struct broadcast b = inputs_shape(kernel);
    run_forward(kernel->device, &(struct rows){.row = choose,
                                               .b = &b,
                                               .in = {call->input[0], call->input[1], call->input[2]},
                                               .types = {input_type(kernel, 0), input_type(kernel, 1), input_type(kernel, 2)},
                                               .result = call->output,
                                               .result_type = output_type(kernel)});
    return PS_OK;
}

static enum ps_status where_backward(struct kernel *kernel, const struct kernel_call *call) {
    const struct broadcast b = inputs_shape(kernel);
    for (int i = 1; i < 3; i++) {
        struct rows rows = {.row = i == 1 ? where_chosen : where_not_chosen,
                            .b = &b,
                            .in = {call->input[0], NULL, NULL, call->output_gradient},
                            .types = {input_type(kernel, 0), TYPE_F32, TYPE_F32, output_type(kernel)},
                            .result = call->input_gradient[i],
                            .result_type = input_type(kernel, i)};
        if (rows.result != NULL) run_fold(kernel->device, &rows, i);
    }
    return PS_OK;
}

const struct kernel_class cpu_where = {.native = native, .forward = where_forward, .backward_input = where_backward};
