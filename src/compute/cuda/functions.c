/*
 * Operators that are a formula of the elements of one to three arguments: relu, unary, gelu, cast; with arguments that may be
 * repeated binary, where, compare, logical; and expand and parameter, whose formula is the argument itself. One source serves
 * all, sources/functions.cu, and gets the formula as text. Where no argument is repeated it is compiled once for all shapes.
 */
#include <string.h>

#include "base/number.h"
#include "compute/cuda/cuda.h"
#include "compute/cuda/places.h"

/* ----------------------------------------------------------------------- formulas */

enum { ARGUMENTS = BROADCAST_OPERANDS - 1 };

/* As VALUE and TERM_k of the source; NULL: the argument has no gradient. */
struct formula {
    const char *value, *terms[ARGUMENTS];
};

static const struct formula relu[] = {{"x < 0 ? 0 : x", {"y > 0 ? dy : 0"}}}; /* a NaN stays a NaN */
static const struct formula gelu[] = {{"gelu(x)", {"dy * gelu_slope(x)"}}};
static const struct formula same[] = {{"a", {"dy"}}};
static const struct formula where[] = {{"a != 0 ? b : c", {NULL, "a != 0 ? dy : 0", "a != 0 ? 0 : dy"}}};
static const struct formula unary[] = {
#define UNARY(NAME, name, value, slope, reads, flops) {#value, {"dy * (" #slope ")"}},
#include "graph/functions.def"
};
static const struct formula binary[] = {
#define BINARY(NAME, name, value, slope_a, slope_b, reads, flops) {#value, {"dy * (" #slope_a ")", "dy * (" #slope_b ")"}},
#include "graph/functions.def"
};
static const struct formula compare[] = {
    [COMPARE_EQUAL] = {"a == b"},  [COMPARE_NOT_EQUAL] = {"a != b"},
    [COMPARE_LESS] = {"a < b"},    [COMPARE_LESS_EQUAL] = {"a <= b"},
    [COMPARE_GREATER] = {"a > b"}, [COMPARE_GREATER_EQUAL] = {"a >= b"},
    [COMPARE_ISNAN] = {"a != a"},  [COMPARE_ISINF] = {"a == a && a * 0 != 0"},
};
static const struct formula logical[] = {
    [LOGICAL_AND] = {"a != 0 && b != 0"},
    [LOGICAL_OR] = {"a != 0 || b != 0"},
    [LOGICAL_XOR] = {"(a != 0) != (b != 0)"},
    [LOGICAL_NOT] = {"a == 0"},
};

/* By the attribute `kind`, which is 0 for operators that have none. */
static const struct formula *const formulas[OPERATOR_COUNT] = {
    [OPERATOR_RELU] = relu,     [OPERATOR_UNARY] = unary,     [OPERATOR_GELU] = gelu,       [OPERATOR_CAST] = same,
    [OPERATOR_BINARY] = binary, [OPERATOR_COMPARE] = compare, [OPERATOR_LOGICAL] = logical, [OPERATOR_WHERE] = where,
    [OPERATOR_EXPAND] = same,   [OPERATOR_PARAMETER] = same,
};

static const struct formula *formula_of(const struct kernel *kernel) {
    return &formulas[kernel->node->id][kernel->node->attributes.kind];
}

/* ---------------------------------------------------------------------- arguments */

/* Which argument is the node's own parameter; -1: none. */
static int own_argument(const struct kernel *kernel) {
    return kernel->node->id == OPERATOR_PARAMETER ? 0 : kernel->node->id == OPERATOR_BINARY ? binary_parameter(kernel) : -1;
}

/* The input that another argument is. */
static int input_of(const struct kernel *kernel, int argument) {
    return kernel->node->id == OPERATOR_BINARY ? binary_input(kernel, argument) : argument;
}

static struct broadcast shape_of(const struct kernel *kernel) {
    const struct broadcast_operand own = {&kernel->node->shape, 1};
    if (kernel->node->id == OPERATOR_PARAMETER) return broadcast_make(own.shape, kernel->samples, &own, 1);
    return kernel->node->id == OPERATOR_BINARY ? binary_shape(kernel) : inputs_shape(kernel);
}

static enum number_type argument_type(const struct kernel *kernel, int argument) {
    if (argument != own_argument(kernel)) return kernel_input(kernel, input_of(kernel, argument))->type;
    return kernel->graph->parameters[kernel->node->parameter_first].copy;
}

/* Whole numbers that go through as they are. */
static bool moves_whole(const struct kernel *kernel) {
    const enum operator_id id = kernel->node->id;
    return kernel->node->shape.type == TYPE_I32 &&
           (id == OPERATOR_EXPAND || id == OPERATOR_WHERE || (id == OPERATOR_CAST && argument_type(kernel, 0) == TYPE_I32));
}

/* ---------------------------------------------------------------------- gradients */

/* How the gradient of an argument is summed: by a thread for each element, by columns.h, or by teams, one for each of `pieces`
 * of a sum. */
enum way { NOT_REPEATED, BY_THREADS, BY_COLUMNS, BY_TEAMS };
struct sums {
    enum way way;
    int64_t count, rows, pieces; /* elements; terms of each */
    struct broadcast kept, repeated;
};

static struct sums sums_of(const struct kernel *kernel, const struct broadcast *b, int argument) {
    enum { FEW = 16, PIECE = 512, PIECES = 4096 };
    const int64_t processors = cuda_device_of(kernel)->gpu->multiprocessors;
    struct sums sums = {.pieces = 1};
    broadcast_split(b, argument, &sums.kept, &sums.repeated);
    sums.count = broadcast_count(&sums.kept, sums.kept.rank);
    sums.rows = broadcast_count(&sums.repeated, sums.repeated.rank);
    if (sums.rows == 1) return sums;
    if (b->stride[argument][b->rank - 1] == 0) {
        const int64_t wanted = number_smaller((processors * 64 + sums.count - 1) / sums.count, PIECES);
        sums.way = BY_TEAMS;
        sums.pieces = number_smaller((sums.rows + PIECE - 1) / PIECE, wanted);
    } else {
        sums.way = sums.rows <= FEW || sums.count >= processors * 1024 ? BY_THREADS : BY_COLUMNS;
        if (sums.way == BY_COLUMNS) sums.pieces = cuda_column_pieces(cuda_device_of(kernel), sums.rows, sums.count);
    }
    return sums;
}

static void set_sizes(struct kernel *kernel) {
    const struct broadcast b = shape_of(kernel);
    for (int k = 0; k < b.operands - 1; k++) {
        const struct sums sums = sums_of(kernel, &b, k);
        const int64_t bytes = sums.pieces * sums.count * (int64_t)sizeof(float);
        if (sums.way == BY_COLUMNS || sums.pieces > 1) kernel->workspace_bytes = number_larger(kernel->workspace_bytes, bytes);
    }
}

static enum ps_status run_sums(struct kernel *kernel, const struct kernel_call *call, const struct broadcast *b, int argument,
                               void *result) {
    const struct sums sums = sums_of(kernel, b, argument);
    struct cuda_extra extra = {
        .count = sums.count, .more = {call->workspace, result}, .number = {sums.rows, sums.pieces, argument}};
    if (sums.way == BY_THREADS) return cuda_run(kernel, call, &(struct cuda_launch){"sum_by_threads", GRID_ONES, NULL}, &extra);
    if (sums.way == BY_COLUMNS) {
        TRY(cuda_run(kernel, call, &(struct cuda_launch){"column_partial", GRID_COLUMNS, NULL}, &extra));
        return cuda_run(kernel, call, &(struct cuda_launch){"column_finish", GRID_TILES, NULL}, &extra);
    }
    extra.count = sums.count * sums.pieces;
    TRY(cuda_run(kernel, call, &(struct cuda_launch){"sum_by_teams", GRID_TEAMS, NULL}, &extra));
    if (sums.pieces == 1) return PS_OK;
    extra.count = sums.count;
    return cuda_run(kernel, call, &(struct cuda_launch){"sum_pieces", GRID_TEAMS, NULL}, &extra);
}

/* Those of arguments that are not repeated last, in one launch, since one may be written over the output's. */
static enum ps_status run_gradients(struct kernel *kernel, const struct kernel_call *call, void *const wanted[ARGUMENTS]) {
    const struct broadcast b = shape_of(kernel);
    struct cuda_extra extra = {0};
    bool some = false;
    for (int k = 0; k < b.operands - 1; k++) {
        const bool there = wanted[k] == call->output_gradient && strcmp(formula_of(kernel)->terms[k], "dy * (1)") == 0;
        if (!wanted[k] || there) continue;
        if (sums_of(kernel, &b, k).way != NOT_REPEATED) {
            TRY(run_sums(kernel, call, &b, k, wanted[k]));
        } else {
            extra.more[k] = wanted[k];
            some = true;
        }
    }
    return some ? cuda_run(kernel, call, &(struct cuda_launch){"backward", GRID_FOURS, NULL}, &extra) : PS_OK;
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call) {
    const int arguments = shape_of(kernel).operands - 1;
    void *wanted[ARGUMENTS] = {NULL};
    for (int k = 0; k < arguments; k++)
        if (k != own_argument(kernel)) wanted[k] = call->input_gradient[input_of(kernel, k)];
    return run_gradients(kernel, call, wanted);
}

static enum ps_status backward_weight(struct kernel *kernel, const struct kernel_call *call) {
    void *wanted[ARGUMENTS] = {NULL};
    if (own_argument(kernel) >= 0) wanted[own_argument(kernel)] = call->gradients[0];
    return run_gradients(kernel, call, wanted);
}

/* ---------------------------------------------------------------------- constants */

static void define_argument(const struct kernel *kernel, const struct broadcast *b, int k, struct text *out) {
    const bool own = k == own_argument(kernel), condition = kernel->node->id == OPERATOR_WHERE && k == 0;
    const enum number_type type = argument_type(kernel, k);
    const char *term = formula_of(kernel)->terms[k],
               *name = moves_whole(kernel) && !condition ? cuda_moved_type(type) : number_types[type].name;
    const struct sums sums = sums_of(kernel, b, k);
    char place[32];
    text_add(out, "#define TYPE_%d %s\n#define GRADIENT_%d %s\n", k, name, k, own ? "f32" : name);
    text_add(out, own ? "#define FROM_%d weights[0]\n" : "#define FROM_%d input[%d].value\n", k, input_of(kernel, k));
    text_add(out, "#define STEP_%d %d\n", k, (int)b->stride[k][b->rank - 1]);
    snprintf(place, sizeof place, "AT_%d", k);
    cuda_define_place(out, place, b, k);
    if (!term) return;
    text_add(out, "#define TERM_%d (%s)\n", k, term);
    if (sums.way == NOT_REPEATED) return;
    text_add(out, "#define REPEATED_%d 1\n", k);
    snprintf(place, sizeof place, "ELEMENT_%d", k);
    cuda_define_place(out, place, &sums.kept, b->operands - 1);
    snprintf(place, sizeof place, "ROW_%d", k);
    cuda_define_place(out, place, &sums.repeated, b->operands - 1);
}

static void define(const struct kernel *kernel, struct text *out) {
    const struct broadcast b = shape_of(kernel);
    const bool whole = kernel->node->id == OPERATOR_COMPARE && argument_type(kernel, 0) == TYPE_I32,
               fours = b.rank == 1 || b.side[b.rank - 1] % 4 == 0;
    const enum number_type type = kernel->node->shape.type;
    bool flat = b.rank == 1;
    for (int k = 0; k < b.operands - 1; k++) flat = flat && b.stride[k][0] == 1;
    text_add(out, "#define VALUE (%s)\n", formula_of(kernel)->value);
    text_add(out, "#define RESULT %s\n", moves_whole(kernel) ? cuda_moved_type(type) : number_types[type].name);
    cuda_define_number(out, "ARGUMENTS", b.operands - 1);
    cuda_define_number(out, "WHOLE", whole);
    cuda_define_number(out, "WIDTH", fours && !whole ? 4 : 1);
    cuda_define_index(out, flat ? INT64_MAX : (int64_t)kernel_elements(kernel) + 4 * INT16_MAX);
    for (int k = 0; k < b.operands - 1; k++) define_argument(kernel, &b, k, out);
}

/* A team has the terms of a piece of a sum: a warp, or fewer threads where there are few. */
static int64_t row(const struct kernel *kernel) {
    enum { WARP = 4 * 32 };
    const struct broadcast b = shape_of(kernel);
    int64_t longest = 0;
    for (int k = 0; k < b.operands - 1; k++) {
        const struct sums sums = sums_of(kernel, &b, k);
        if (sums.way == BY_TEAMS) longest = number_larger(longest, sums.rows);
    }
    return longest > 0 && longest < WARP ? longest : WARP;
}

#define FUNCTION .source = "functions", .define = define, .row = row, .forward = {{"forward", GRID_FOURS, NULL}}
#define DERIVED .type = {CUDA_KERNEL, .set_sizes = set_sizes, .forward = cuda_forward, .backward_input = backward_input}
#define CONDITION .type = {CUDA_KERNEL, .forward = cuda_forward}

const struct cuda_class cuda_relu = {DERIVED, FUNCTION};
const struct cuda_class cuda_unary = {DERIVED, FUNCTION};
const struct cuda_class cuda_gelu = {DERIVED, FUNCTION};
const struct cuda_class cuda_cast = {DERIVED, FUNCTION};
const struct cuda_class cuda_expand = {DERIVED, FUNCTION};
const struct cuda_class cuda_where = {DERIVED, FUNCTION};
const struct cuda_class cuda_compare = {CONDITION, FUNCTION};
const struct cuda_class cuda_logical = {CONDITION, FUNCTION};
const struct cuda_class cuda_binary = {.type = {CUDA_KERNEL, .set_sizes = set_sizes, .forward = cuda_forward,
                                                .backward_input = backward_input, .backward_weight = backward_weight},
                                       FUNCTION};
const struct cuda_class cuda_parameter = {
    .type = {CUDA_KERNEL, .set_sizes = set_sizes, .forward = cuda_forward, .backward_weight = backward_weight}, FUNCTION};
