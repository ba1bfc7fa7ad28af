/* The table of operators, made from operators.def, and what several operators' files share. */
#include "graph/operators.h"

#include <math.h>

#define OPERATOR(NAME, name) extern const struct operator_type operator_##name;
#include "graph/operators.def"
#undef OPERATOR

static const struct operator_type *const operators[OPERATOR_COUNT] = {
#define OPERATOR(NAME, name) [OPERATOR_##NAME] = &operator_##name,
#include "graph/operators.def"
#undef OPERATOR
};

const struct operator_type *operator_get(enum operator_id id) {
    assert(id >= 0 && id < OPERATOR_COUNT);
    return operators[id];
}

enum ps_status operator_find(const char *name, enum operator_id *id, struct ps_error *error) {
    const char *names[OPERATOR_COUNT];
    size_t count = 0;
    for (int i = 0; i < OPERATOR_COUNT; i++) {
        if (operators[i]->inputs_min == 0) continue;
        names[count++] = operators[i]->name;
        if (strcmp(operators[i]->name, name) != 0) continue;
        *id = (enum operator_id)i;
        return PS_OK;
    }
    return error_unknown(error, PS_USAGE, "operator", name, names, count);
}

/* -------------------------------------------------------------- attributes */

double attribute_get(const struct attributes *attributes, const struct attribute *attribute, int side) {
    const char *place = (const char *)attributes + attribute->offset;
    switch (attribute->kind) {
    case ATTRIBUTE_INTEGER:
    case ATTRIBUTE_SIDES:
        return ((const int *)(const void *)place)[side];
    case ATTRIBUTE_NUMBER:
        return (double)*(const float *)(const void *)place;
    case ATTRIBUTE_BOOLEAN:
        return *(const bool *)place;
    case ATTRIBUTE_TYPE:
        return *(const enum number_type *)(const void *)place;
    }
    return 0;
}

void attribute_set(struct attributes *attributes, const struct attribute *attribute, int side, double value) {
    char *place = (char *)attributes + attribute->offset;
    switch (attribute->kind) {
    case ATTRIBUTE_INTEGER:
    case ATTRIBUTE_SIDES:
        ((int *)(void *)place)[side] = (int)value;
        break;
    case ATTRIBUTE_NUMBER:
        *(float *)(void *)place = (float)value;
        break;
    case ATTRIBUTE_BOOLEAN:
        *(bool *)place = value != 0;
        break;
    case ATTRIBUTE_TYPE:
        *(enum number_type *)(void *)place = (enum number_type)value;
        break;
    }
}

enum ps_status attribute_type(const struct attribute *attribute, const char *name, double *value, struct ps_error *error) {
    const char *names[TYPE_COUNT];
    for (int t = 0; t < TYPE_COUNT; t++) {
        names[t] = number_types[t].name;
        if (strcmp(names[t], name) != 0) continue;
        *value = t;
        return PS_OK;
    }
    return error_unknown(error, PS_USAGE, attribute->name, name, names, TYPE_COUNT);
}

enum ps_status attribute_check(const struct attribute *attribute, double value, struct ps_error *error) {
    bool whole = attribute->kind == ATTRIBUTE_NUMBER || value == floor(value);
    if (value >= attribute->low && value <= attribute->high && whole) return PS_OK;
    return error_set(error, PS_USAGE, "%s: %.9g is not %s from %.9g to %.9g", attribute->name, value,
                     attribute->kind == ATTRIBUTE_NUMBER ? "a number" : "an integer", attribute->low, attribute->high);
}

struct attributes attributes_usual(const struct operator_type *op) {
    struct attributes attributes = {0};
    for (const struct attribute *a = op->attributes; a < op->attributes + ATTRIBUTES_MAX && a->name != NULL; a++)
        for (int side = 0; side < attribute_sides(a) && !isnan(a->usual); side++) attribute_set(&attributes, a, side, a->usual);
    return attributes;
}

/* ------------------------------------------------------------------ shapes */

int64_t shape_elements(const struct shape *shape) {
    int64_t elements = 1;
    for (int d = 0; d < shape->rank; d++) elements *= shape->dim[d];
    return elements;
}

int64_t shape_bytes(const struct shape *shape) { return shape_elements(shape) * (int64_t)number_types[shape->type].bytes; }

bool shape_equal(const struct shape *a, const struct shape *b) {
    if (a->rank != b->rank || a->type != b->type) return false;
    for (int d = 0; d < a->rank; d++) {
        if (a->dim[d] != b->dim[d]) return false;
    }
    return true;
}

bool shape_permuted(const struct shape *shape) { return shape->image[1] * shape->image[2] > 1; }

const char *shape_text(const struct shape *shape, char text[96]) {
    int used = snprintf(text, 96, "%lld", (long long)shape->dim[0]);
    for (int d = 1; d < shape->rank; d++) used += snprintf(text + used, 96 - (size_t)used, "x%lld", (long long)shape->dim[d]);
    if (shape->type != TYPE_F32) snprintf(text + used, 96 - (size_t)used, " %s", number_types[shape->type].name);
    return text;
}

enum ps_status require_image(const struct shape *input, struct ps_error *error) {
    if (input->rank == 3) return PS_OK;
    char text[96];
    return error_set(error, PS_USAGE, "its input must be an image (C, H, W), and is a vector of %s", shape_text(input, text));
}

enum ps_status require_vector(const struct shape *input, struct ps_error *error) {
    if (input->rank == 1) return PS_OK;
    char text[96];
    return error_set(error, PS_USAGE, "its input must be a vector, and is an image of %s: flatten it before",
                     shape_text(input, text));
}

enum ps_status require_sequence(const struct shape *input, struct ps_error *error) {
    if (input->rank == 3 && input->dim[2] == 1) return PS_OK;
    char text[96];
    return error_set(error, PS_USAGE, "its input must be a sequence (features x positions x 1), and is %s",
                     shape_text(input, text));
}

enum ps_status require_features(const struct shape *input, struct ps_error *error) {
    if (input->rank == 3 && input->dim[2] == 1) return PS_OK;
    return require_vector(input, error);
}

enum ps_status require_tokens_of(const struct shape *sequence, const struct shape *tokens, struct ps_error *error) {
    if (tokens->rank == 3 && tokens->dim[0] == 1 && tokens->dim[1] == sequence->dim[1] && tokens->dim[2] == 1) return PS_OK;
    char a[96], b[96];
    return error_set(error, PS_USAGE, "the tokens of a sequence of %s must be 1x%lldx1, and are %s", shape_text(sequence, a),
                     (long long)sequence->dim[1], shape_text(tokens, b));
}

unsigned any_type(int input, int input_count) {
    (void)input, (void)input_count;
    return (1u << TYPE_COUNT) - 1;
}

/* Positions of a window along one side. With `ceiling` it may end outside, also the first of an image that is smaller than it
 * (by less than the stride, as in PyTorch), but must begin in the image or the padding before it. */
static int64_t window_positions(int64_t size, int kernel, int stride, int pad, bool ceiling) {
    int64_t room = size + 2 * (int64_t)pad - kernel + (ceiling ? stride - 1 : 0);
    if (room < 0) return 0;
    int64_t positions = room / stride + 1;
    return ceiling && (positions - 1) * stride >= size + pad ? positions - 1 : positions;
}

enum ps_status window_output(const struct attributes *a, const struct shape *input, int64_t channels, struct shape *output,
                             struct ps_error *error) {
    if (a->kernel_h < 1 || a->kernel_w < 1 || a->stride_h < 1 || a->stride_w < 1 || a->pad_h < 0 || a->pad_w < 0) {
        return error_set(error, PS_USAGE, "kernel %dx%d, stride %dx%d, padding %dx%d: kernel and stride must be at least 1",
                         a->kernel_h, a->kernel_w, a->stride_h, a->stride_w, a->pad_h, a->pad_w);
    }
    int64_t height = window_positions(input->dim[1], a->kernel_h, a->stride_h, a->pad_h, a->ceiling);
    int64_t width = window_positions(input->dim[2], a->kernel_w, a->stride_w, a->pad_w, a->ceiling);
    if (height < 1 || width < 1) {
        char text[96];
        return error_set(error, PS_USAGE, "a kernel of %dx%d with padding %dx%d does not fit into its input of %s", a->kernel_h,
                         a->kernel_w, a->pad_h, a->pad_w, shape_text(input, text));
    }
    *output = (struct shape){.rank = 3, .dim = {channels, height, width}};
    return PS_OK;
}

enum ps_status pool_infer(struct attributes *a, const struct shape *inputs, int input_count, struct shape *output,
                          struct ps_error *error) {
    (void)input_count;
    TRY(require_image(inputs, error));
    if (a->out_h > 0 && a->out_w > 0) {
        *output = (struct shape){.rank = 3, .dim = {inputs->dim[0], a->out_h, a->out_w}};
        a->kernel_h = (int)((inputs->dim[1] + a->out_h - 1) / a->out_h);
        a->kernel_w = (int)((inputs->dim[2] + a->out_w - 1) / a->out_w);
        return PS_OK;
    }
    if (a->stride_h == 0) a->stride_h = a->kernel_h;
    if (a->stride_w == 0) a->stride_w = a->kernel_w;
    if (2 * (int64_t)a->pad_h > a->kernel_h || 2 * (int64_t)a->pad_w > a->kernel_w) {
        return error_set(error, PS_USAGE, "padding %dx%d is more than half of the kernel %dx%d", a->pad_h, a->pad_w,
                         a->kernel_h, a->kernel_w);
    }
    return window_output(a, inputs, inputs->dim[0], output, error);
}

static struct pool_window slide(int64_t size, int64_t index, int kernel, int stride, int pad, bool count_padding) {
    int64_t start = index * stride - pad, end = start + kernel;
    if (end > size + pad) end = size + pad; /* what only rounding up has added counts nowhere */
    struct pool_window window = {start < 0 ? 0 : start, end > size ? size : end, end - start};
    if (!count_padding) window.counted = window.end - window.first;
    return window;
}

struct pool_window pool_window(const struct attributes *a, enum pool_side side, int64_t size, int64_t index) {
    bool rows = side == POOL_ROWS;
    int64_t out = rows ? a->out_h : a->out_w;
    if (out == 0)
        return slide(size, index, rows ? a->kernel_h : a->kernel_w, rows ? a->stride_h : a->stride_w,
                     rows ? a->pad_h : a->pad_w, a->count_padding);
    int64_t first = index * size / out, end = ((index + 1) * size + out - 1) / out;
    return (struct pool_window){first, end, end - first};
}

double pool_flops(const struct attributes *attributes, const struct shape *inputs, const struct shape *output) {
    (void)inputs;
    return (double)shape_elements(output) * attributes->kernel_h * attributes->kernel_w;
}

double no_flops(const struct attributes *attributes, const struct shape *inputs, const struct shape *output) {
    (void)attributes, (void)inputs, (void)output;
    return 0;
}

struct initial initial_fan_in(int64_t fan_in) {
    return (struct initial){INITIAL_UNIFORM, (float)(1.0 / sqrt((double)fan_in))};
}
