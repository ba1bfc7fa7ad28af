/*
 * Functions of several values that are repeated along some sides (compute/broadcast.h), row by row: `binary`.
 *
 * A row is a piece of the last side. An operand that is repeated along it is copied into a buffer, so there is one loop for
 * each function. Gradients of an operand that is repeated are sums over the rows, in double.
 */
#include "compute/broadcast.h"

#include "compute/cpu/functions.h"

enum { PIECE = 512 };

/* `in` are the operands, in a backward followed by dy. */
typedef void row_function(size_t count, float *result, const float *const *in);

struct rows {
    row_function *row;
    const struct broadcast *b;
    const float *in[BROADCAST_OPERANDS]; /* NULL: not read */
    float *result;
    /* Of gradients. */
    int operand;
    struct broadcast kept, repeated;
};

static size_t pieces_of(int64_t side) { return ((size_t)side + PIECE - 1) / PIECE; }

static size_t piece_length(int64_t side, size_t piece) {
    const size_t left = (size_t)side - piece * PIECE;
    return left < PIECE ? left : PIECE;
}

/* One call of the row's function, from an element of the row on; the operands' rows begin at `offset`. */
static void run_row(const struct rows *r, float *result, const int64_t *offset, size_t from, size_t count) {
    float copies[BROADCAST_OPERANDS][PIECE];
    const float *in[BROADCAST_OPERANDS] = {NULL};
    for (int o = 0; o < r->b->operands; o++) {
        if (r->in[o] == NULL) continue;
        in[o] = r->in[o] + offset[o] + from;
        if (r->b->stride[o][r->b->rank - 1] != 0) continue;
        in[o] = copies[o];
        for (size_t i = 0; i < count; i++) memcpy(&copies[o][i], r->in[o] + offset[o], sizeof(float)); /* of any type */
    }
    r->row(count, result, in);
}

static void forward_part(const void *context, int part, size_t first, size_t end) {
    (void)part;
    const struct rows *r = context;
    const int outer = r->b->rank - 1, own = r->b->operands - 1;
    const int64_t side = r->b->side[outer];
    const size_t pieces = pieces_of(side);
    struct cursor at = cursor_at(r->b, outer, (int64_t)(first / pieces));
    for (size_t item = first; item < end; item++) {
        const size_t piece = item % pieces;
        run_row(r, r->result + (size_t)at.offset[own] + piece * PIECE, at.offset, piece * PIECE, piece_length(side, piece));
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

static VECTOR_CLONES void add_to(size_t count, double *sum, const float *x) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) sum[i] += (double)x[i];
}

/* The operand has rows of its own, each a sum of rows. */
static void sum_rows(const void *context, int part, size_t first, size_t end) {
    (void)part;
    const struct rows *r = context;
    const int outer = r->kept.rank - 1;
    const int64_t side = r->kept.side[outer], times = broadcast_count(&r->repeated, r->repeated.rank);
    const size_t pieces = pieces_of(side);
    for (size_t item = first; item < end; item++) {
        const size_t from = item % pieces * PIECE, count = piece_length(side, item % pieces);
        const struct cursor at = cursor_at(&r->kept, outer, (int64_t)(item / pieces));
        float *result = r->result + (size_t)at.offset[r->operand] + from, row[PIECE];
        double sum[PIECE] = {0};
        struct cursor each = {0};
        int64_t offset[BROADCAST_OPERANDS];
        for (int64_t t = 0; t < times; t++, cursor_next(&r->repeated, r->repeated.rank, &each)) {
            add_offsets(r->b, &at, &each, offset);
            run_row(r, times == 1 ? result : row, offset, from, count);
            if (times > 1) add_to(count, sum, row);
        }
        for (size_t i = 0; i < count && times > 1; i++) result[i] = (float)sum[i];
    }
}

/* The operand is repeated along the rows: each of its elements is a sum of whole rows. */
static void sum_within_rows(const void *context, int part, size_t first, size_t end) {
    (void)part;
    const struct rows *r = context;
    const int outer = r->repeated.rank - 1;
    const int64_t side = r->repeated.side[outer], times = broadcast_count(&r->repeated, outer);
    for (size_t item = first; item < end; item++) {
        const struct cursor at = cursor_at(&r->kept, r->kept.rank, (int64_t)item);
        double sum = 0;
        struct cursor each = {0};
        int64_t offset[BROADCAST_OPERANDS];
        float row[PIECE];
        for (int64_t t = 0; t < times; t++, cursor_next(&r->repeated, outer, &each)) {
            add_offsets(r->b, &at, &each, offset);
            for (size_t piece = 0; piece < pieces_of(side); piece++) {
                run_row(r, row, offset, piece * PIECE, piece_length(side, piece));
                sum += (double)vector_sum(piece_length(side, piece), row);
            }
        }
        r->result[at.offset[r->operand]] = (float)sum;
    }
}

/* The gradient of an operand, of which the row's function computes what is to be summed. */
static void run_gradient(const struct device *device, struct rows *r, int operand) {
    const int last = r->b->rank - 1;
    r->operand = operand;
    broadcast_split(r->b, operand, &r->kept, &r->repeated);
    if (r->b->stride[operand][last] == 0 && r->repeated.rank > 0) {
        device_parallel(device, (size_t)broadcast_count(&r->kept, r->kept.rank), 4, sum_within_rows, r);
        return;
    }
    const size_t rows = (size_t)broadcast_count(&r->kept, r->kept.rank - 1);
    device_parallel(device, rows * pieces_of(r->kept.side[r->kept.rank - 1]), 4, sum_rows, r);
}

static struct broadcast shape_of(const struct kernel *kernel) {
    struct broadcast_operand operands[BROADCAST_OPERANDS];
    for (int i = 0; i < kernel->node->input_count; i++)
        operands[i] = (struct broadcast_operand){kernel_input(kernel, i), kernel->samples};
    return broadcast_make(&kernel->node->shape, kernel->samples, operands, kernel->node->input_count);
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

static enum ps_status binary_forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    const struct broadcast b = shape_of(kernel);
    const struct rows rows = {.row = binary_kinds[kernel->node->attributes.kind].value,
                              .b = &b,
                              .in = {call->input[0], call->input[1]},
                              .result = call->output};
    run_forward(kernel->device, &rows);
    return PS_OK;
}

/* The second gradient first: the first may be written over dy. */
static enum ps_status binary_backward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    const struct broadcast b = shape_of(kernel);
    for (int i = 1; i >= 0; i--) {
        if (call->input_gradient[i] == NULL) continue;
        struct rows rows = {.row = binary_kinds[kernel->node->attributes.kind].slopes[i],
                            .b = &b,
                            .in = {call->input[0], call->input[1], call->output_gradient},
                            .result = call->input_gradient[i]};
        run_gradient(kernel->device, &rows, i);
    }
    return PS_OK;
}

const struct kernel_class cpu_binary = {.forward = binary_forward, .backward_input = binary_backward};
