/* Operators that only move elements: permute, slice, concat. One launch for each direction. */
#include "compute/arrange.h"
#include "base/number.h"
#include "compute/cuda/cuda.h"
#include "compute/cuda/places.h"

static void define_types(const struct kernel *kernel, struct text *out) {
    text_add(out, "#define FROM_TYPE %s\n", cuda_moved_type(kernel_input(kernel, 0)->type));
    text_add(out, "#define TO_TYPE %s\n", cuda_moved_type(kernel->node->shape.type));
}

/* An element's number is below this, with room for a step of a grid. */
static int64_t limit_of(int64_t elements) { return elements + 4 * INT16_MAX; }

/* ------------------------------------------------------------------------ permute */

enum { TILE = 32, LEAST = 8 /* of sides that are worth tiles */ };

/* In one direction: the sides in the order of the result, operand 0 the source and operand 1 the result. */
struct passage {
    struct broadcast all, outer; /* outer: without the sides of tiles */
    bool tiled;
    int width;
    int64_t lines, columns, column, line;
};

/* The same sides in the order of the other operand's memory, which becomes the result. */
static struct broadcast turned(const struct broadcast *b) {
    int64_t side[BROADCAST_RANK], from[BROADCAST_RANK], to[BROADCAST_RANK];
    for (int d = 0; d < b->rank; d++) {
        int place = d;
        for (; place > 0 && to[place - 1] < b->stride[0][d]; place--) {
            side[place] = side[place - 1];
            from[place] = from[place - 1];
            to[place] = to[place - 1];
        }
        side[place] = b->side[d];
        from[place] = b->stride[1][d];
        to[place] = b->stride[0][d];
    }
    return broadcast_strided(b->rank, side, from, to);
}

static struct passage passage_of(const struct kernel *kernel, bool back) {
    const struct broadcast there = arrangement_of(kernel, 0).all;
    struct passage p = {.all = back ? turned(&there) : there, .width = 4};
    const struct broadcast *b = &p.all;
    const int last = b->rank - 1;
    int line = -1; /* the source's fastest side */
    for (int d = 0; d < last; d++) {
        if (b->stride[0][d] == 1) line = d;
        if (b->stride[0][d] % 4 != 0) p.width = 1;
    }
    if (b->stride[0][last] != 1 || (last > 0 && b->side[last] % 4 != 0)) p.width = 1;
    p.tiled = b->stride[0][last] != 1 && line >= 0 && b->side[line] >= LEAST && b->side[last] >= LEAST;
    if (!p.tiled) return p;
    p.lines = b->side[line], p.columns = b->side[last];
    p.column = b->stride[0][last], p.line = b->stride[1][line];
    p.outer.operands = b->operands;
    for (int d = 0; d < last; d++) {
        if (d == line) continue;
        p.outer.side[p.outer.rank] = b->side[d];
        for (int o = 0; o < b->operands; o++) p.outer.stride[o][p.outer.rank] = b->stride[o][d];
        p.outer.rank++;
    }
    return p;
}

static void define_passage(struct text *out, const char *direction, const struct passage *p) {
    const struct {
        const char *name;
        int64_t number;
    } numbers[] = {{"TILED", p->tiled},     {"WIDTH", p->width},   {"LINES", p->lines},
                   {"COLUMNS", p->columns}, {"COLUMN", p->column}, {"LINE", p->line}};
    char name[32];
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) {
        snprintf(name, sizeof name, "%s_%s", direction, numbers[n].name);
        cuda_define_number(out, name, numbers[n].number);
    }
    for (int o = 0; o < 2; o++) {
        snprintf(name, sizeof name, "%s_%s", direction, o == 0 ? "FROM" : "TO");
        cuda_define_place(out, name, &p->outer, o);
    }
    snprintf(name, sizeof name, "%s_AT", direction);
    cuda_define_place(out, name, &p->all, 0);
}

static void permute_define(const struct kernel *kernel, struct text *out) {
    const struct passage forward = passage_of(kernel, false), backward = passage_of(kernel, true);
    define_types(kernel, out);
    cuda_define_index(out, limit_of((int64_t)kernel_elements(kernel)));
    define_passage(out, "FORWARD", &forward);
    define_passage(out, "BACKWARD", &backward);
}

static enum ps_status permute_run(struct kernel *kernel, const struct kernel_call *call, bool back) {
    const struct passage p = passage_of(kernel, back);
    const char *name = back ? "backward" : "forward";
    if (!p.tiled) return cuda_run(kernel, call, &(struct cuda_launch){name, GRID_FOURS, NULL}, NULL);
    const int64_t tiles = (p.lines + TILE - 1) / TILE * ((p.columns + TILE - 1) / TILE);
    return cuda_run(kernel, call, &(struct cuda_launch){name, GRID_BLOCKS, NULL},
                    &(struct cuda_extra){.count = tiles * broadcast_count(&p.outer, p.outer.rank)});
}

static enum ps_status permute_forward(struct kernel *kernel, const struct kernel_call *call) {
    return permute_run(kernel, call, false);
}

static enum ps_status permute_backward(struct kernel *kernel, const struct kernel_call *call) {
    return permute_run(kernel, call, true);
}

const struct cuda_class cuda_permute = {
    .type = {CUDA_KERNEL, .forward = permute_forward, .backward_input = permute_backward},
    .source = "permute",
    .define = permute_define,
};

/* ------------------------------------------------------------------ along an axis */

/* Elements of an input, and those at each position of the axis. */
static int64_t input_elements(const struct kernel *kernel, int input) {
    return kernel->samples * shape_elements(kernel_input(kernel, input));
}
static int64_t elements_within(const struct shape *shape, int axis) {
    int64_t sides[BROADCAST_RANK], within = 1;
    const int rank = shape_memory(shape, 1, sides);
    for (int d = axis == 0 ? shape->rank : axis; ++d < rank;) within *= sides[d];
    return within;
}

/* ---------------------------------------------------------------------------- slice */

/* Positions in steps of 1 are a range of elements. */
static void slice_define(const struct kernel *kernel, struct text *out) {
    const struct attributes *a = &kernel->node->attributes;
    const struct shape *x = kernel_input(kernel, 0);
    const int64_t within = elements_within(x, a->axis), each = a->step == 1 ? within : 1, inner = within / each;
    const int64_t all = x->dim[a->axis] * each, first = a->first * each, count = a->count * each;
    const bool fours = inner % 4 == 0 || (a->step == 1 && all % 4 == 0 && first % 4 == 0 && count % 4 == 0);
    define_types(kernel, out);
    cuda_define_index(out, limit_of(input_elements(kernel, 0)));
    cuda_define_number(out, "INNER", inner);
    cuda_define_number(out, "ALL", all);
    cuda_define_number(out, "FIRST", first);
    cuda_define_number(out, "COUNT", count);
    cuda_define_number(out, "STEP", a->step);
    cuda_define_number(out, "WIDTH", fours ? 4 : 1);
}

static int64_t first_input(const struct kernel *kernel) { return input_elements(kernel, 0); }

const struct cuda_class cuda_slice = {
    .type = {CUDA_KERNEL, .forward = cuda_forward, .backward_input = cuda_backward_input},
    .source = "slice",
    .define = slice_define,
    .forward = {{"forward", GRID_FOURS, NULL}},
    .backward_input = {{"backward", GRID_FOURS, first_input}},
};

/* --------------------------------------------------------------------------- concat */

static void add_columns(const struct kernel *kernel, int input, struct text *out) {
    const int axis = kernel->node->attributes.axis;
    const int64_t within = elements_within(&kernel->node->shape, axis), pitch = kernel->node->shape.dim[axis] * within,
                  columns = kernel_input(kernel, input)->dim[axis] * within;
    int64_t first = 0;
    for (int i = 0; i < input; i++) first += kernel_input(kernel, i)->dim[axis] * within;
    text_add(out, ", %lld, %lld, %d", (long long)columns, (long long)first,
             columns % 4 == 0 && first % 4 == 0 && pitch % 4 == 0 ? 4 : 1);
}

static void concat_define(const struct kernel *kernel, struct text *out) {
    const struct shape *y = &kernel->node->shape;
    const int axis = kernel->node->attributes.axis;
    const int64_t pitch = y->dim[axis] * elements_within(y, axis), elements = (int64_t)kernel_elements(kernel);
    text_add(out, "#define TO_TYPE %s\n", cuda_moved_type(y->type));
    cuda_define_index(out, limit_of(elements));
    cuda_define_number(out, "PITCH", pitch);
    cuda_define_number(out, "OUTER", elements / pitch);
    cuda_define_inputs(out, kernel, true, add_columns);
}

static int64_t largest_input(const struct kernel *kernel) {
    int64_t largest = 0;
    for (int i = 0; i < kernel->node->input_count; i++) largest = number_larger(largest, input_elements(kernel, i));
    return largest;
}

const struct cuda_class cuda_concat = {
    .type = {CUDA_KERNEL, .forward = cuda_forward, .backward_input = cuda_backward_input},
    .source = "concat",
    .define = concat_define,
    .forward = {{"forward", GRID_FOURS, largest_input}},
    .backward_input = {{"backward", GRID_FOURS, largest_input}},
};
