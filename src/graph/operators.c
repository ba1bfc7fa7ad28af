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

bool operator_in_files(enum operator_id id) { return id != OPERATOR_INPUT && id != OPERATOR_OPAQUE; }

enum ps_status operator_find(const char *name, enum operator_id *id, struct ps_error *error) {
    const char *names[OPERATOR_COUNT];
    size_t count = 0;
    for (int i = 0; i < OPERATOR_COUNT; i++) {
        if (!operator_in_files((enum operator_id)i)) continue;
        names[count++] = operators[i]->name;
        if (strcmp(operators[i]->name, name) != 0) continue;
        *id = (enum operator_id)i;
        return PS_OK;
    }
    return error_unknown(error, PS_USAGE, "operator", name, names, count);
}

/* -------------------------------------------------------------- attributes */

int attribute_count(const struct attributes *attributes, const struct attribute *attribute) {
    const void *place = (const char *)attributes + attribute->offset;
    if (attribute->kind == ATTRIBUTE_LIST) return ((const struct integers *)place)->count;
    return attribute->kind == ATTRIBUTE_SIDES ? 2 : 1;
}

double attribute_get(const struct attributes *attributes, const struct attribute *attribute, int element) {
    const char *place = (const char *)attributes + attribute->offset;
    switch (attribute->kind) {
    case ATTRIBUTE_INTEGER:
    case ATTRIBUTE_SIDES:
    case ATTRIBUTE_CHOICE:
        return ((const int *)(const void *)place)[element];
    case ATTRIBUTE_LIST:
        return ((const struct integers *)(const void *)place)->at[element];
    case ATTRIBUTE_NUMBER:
        return (double)*(const float *)(const void *)place;
    case ATTRIBUTE_BOOLEAN:
        return *(const bool *)place;
    case ATTRIBUTE_TYPE:
        return *(const enum number_type *)(const void *)place;
    }
    return 0;
}

void attribute_set(struct attributes *attributes, const struct attribute *attribute, int element, double value) {
    char *place = (char *)attributes + attribute->offset;
    struct integers *list = (struct integers *)(void *)place;
    switch (attribute->kind) {
    case ATTRIBUTE_INTEGER:
    case ATTRIBUTE_SIDES:
    case ATTRIBUTE_CHOICE:
        ((int *)(void *)place)[element] = (int)value;
        break;
    case ATTRIBUTE_LIST:
        assert(element < SHAPE_RANK_MAX);
        list->at[element] = (int)value;
        list->count = element + 1;
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

bool attribute_equal(const struct attributes *a, const struct attributes *b, const struct attribute *attribute) {
    const int count = attribute_count(a, attribute);
    bool same = count == attribute_count(b, attribute);
    for (int e = 0; e < count && same; e++) same = attribute_get(a, attribute, e) == attribute_get(b, attribute, e);
    return same;
}

const char *attribute_word(const struct attribute *attribute, double value) {
    return attribute->kind == ATTRIBUTE_TYPE ? number_types[(int)value].name : attribute->words[(int)value];
}

enum ps_status attribute_number(const struct attribute *attribute, const char *word, double *value, struct ps_error *error) {
    enum { WORDS_MAX = 64 };
    const char *words[WORDS_MAX];
    const int count = (int)attribute->high + 1;
    assert(count <= WORDS_MAX);
    for (int w = 0; w < count; w++) {
        words[w] = attribute_word(attribute, w);
        if (strcmp(words[w], word) != 0) continue;
        *value = w;
        return PS_OK;
    }
    return error_unknown(error, PS_USAGE, attribute->name, word, words, (size_t)count);
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
        for (int e = 0; e < attribute_count(&attributes, a) && !isnan(a->usual); e++)
            attribute_set(&attributes, a, e, a->usual);
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

enum ps_status shape_of_sides(const struct integers *sides, enum number_type type, struct shape *shape,
                              struct ps_error *error) {
    *shape = (struct shape){.rank = sides->count, .type = type};
    for (int d = 0; d < sides->count; d++) {
        shape->dim[d] = sides->at[d];
        if (sides->at[d] < 1) return error_set(error, PS_USAGE, "a side of %d: every side must be positive", sides->at[d]);
    }
    return PS_OK;
}

int shape_memory(const struct shape *shape, int64_t samples, int64_t sides[SHAPE_RANK_MAX + 1]) {
    sides[0] = samples;
    for (int d = 1; d < shape->rank; d++) sides[d] = shape->dim[d];
    sides[shape->rank] = shape->dim[0];
    return shape->rank + 1;
}

bool shape_permuted(const struct shape *shape) { return shape->image[1] * shape->image[2] > 1; }

const char *shape_text(const struct shape *shape, char text[96]) {
    int used = shape->rank > 0 ? snprintf(text, 96, "%lld", (long long)shape->dim[0]) : snprintf(text, 96, "a number");
    for (int d = 1; d < shape->rank; d++) used += snprintf(text + used, 96 - (size_t)used, "x%lld", (long long)shape->dim[d]);
    if (shape->type != TYPE_F32) snprintf(text + used, 96 - (size_t)used, " %s", number_types[shape->type].name);
    return text;
}

enum ps_status shape_broadcast(const struct shape *inputs, int count, struct shape *output, struct ps_error *error) {
    *output = inputs[0];
    memset(output->image, 0, sizeof output->image);
    for (int i = 1; i < count; i++) {
        bool fits = inputs[i].rank == output->rank;
        for (int d = 0; d < output->rank && fits; d++) {
            fits = inputs[i].dim[d] == output->dim[d] || inputs[i].dim[d] == 1 || output->dim[d] == 1;
            if (output->dim[d] == 1) output->dim[d] = inputs[i].dim[d];
        }
        if (fits) continue;
        char first[96], other[96];
        return error_set(error, PS_USAGE, "its inputs must have equal sides, or sides of 1, and have %s and %s",
                         shape_text(&inputs[0], first), shape_text(&inputs[i], other));
    }
    if (count == 1) *output = inputs[0];
    return count == 1 ? PS_OK : require_plain(inputs, count, error);
}

int64_t shape_take_image(struct shape *shape) {
    if (shape->rank != 4) return 0;
    const int64_t images = shape->dim[1];
    shape->rank = 3;
    memmove(&shape->dim[1], &shape->dim[2], 2 * sizeof *shape->dim);
    shape->dim[3] = 0;
    return images;
}

void shape_repeat_image(struct shape *shape, int64_t images) {
    shape->rank = 4;
    memmove(&shape->dim[2], &shape->dim[1], 2 * sizeof *shape->dim);
    shape->dim[1] = images;
}

enum ps_status require_plain(const struct shape *inputs, int count, struct ps_error *error) {
    for (int i = 0; i < count; i++)
        if (shape_permuted(&inputs[i]))
            return error_set(error, PS_USAGE, "an input is a flattened image: put it before the flattening");
    return PS_OK;
}

enum ps_status require_axis(const struct shape *input, int axis, struct ps_error *error) {
    if (axis >= 0 && axis < input->rank) return PS_OK;
    char text[96];
    return error_set(error, PS_USAGE, "axis %d: its input of %s has the axes 0 to %d", axis, shape_text(input, text),
                     input->rank - 1);
}

enum ps_status require_image(const struct shape *input, struct ps_error *error) {
    if (input->rank == 3) return PS_OK;
    char text[96];
    return error_set(error, PS_USAGE, "its input must be an image (C, H, W) or several (C, images, H, W), and is %s",
                     shape_text(input, text));
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

/* A window along one side: rows or columns. */
struct side {
    int64_t kernel, stride, dilation, pad, pad_end;
};

static struct side side_of(const struct attributes *a, enum pool_side side) {
    if (side == POOL_ROWS)
        return (struct side){a->kernel_h, a->stride_h, a->dilation_h, a->pad_h, (int64_t)a->pad_h + a->pad_extra_h};
    return (struct side){a->kernel_w, a->stride_w, a->dilation_w, a->pad_w, (int64_t)a->pad_w + a->pad_extra_w};
}

/* Elements from the first to the last that a window can cover. */
static int64_t extent(const struct side *s) { return (s->kernel - 1) * s->dilation + 1; }

/* Positions of a window. With `ceiling` it may end outside, also the first of an image that is smaller than it (by less than
 * the stride, as in PyTorch), but must begin in the image or the padding before it. */
static int64_t window_positions(int64_t size, const struct side *s, bool ceiling) {
    int64_t room = size + s->pad + s->pad_end - extent(s) + (ceiling ? s->stride - 1 : 0);
    if (room < 0) return 0;
    int64_t positions = room / s->stride + 1;
    return ceiling && (positions - 1) * s->stride >= size + s->pad ? positions - 1 : positions;
}

void window_complete(struct attributes *a) {
    if (a->dilation_h == 0) a->dilation_h = 1;
    if (a->dilation_w == 0) a->dilation_w = 1;
}

enum ps_status window_check(const struct attributes *a, struct ps_error *error) {
    for (enum pool_side i = POOL_ROWS; i <= POOL_COLUMNS; i++) {
        struct side s = side_of(a, i);
        if (s.kernel >= 1 && s.stride >= 1 && s.dilation >= 1 && s.pad >= 0 && s.pad_end >= 0) continue;
        return error_set(
            error, PS_USAGE,
            "kernel %lld, stride %lld, dilation %lld, padding %lld before and %lld after: kernel, stride and dilation "
            "must be at least 1, and padding at least 0",
            (long long)s.kernel, (long long)s.stride, (long long)s.dilation, (long long)s.pad, (long long)s.pad_end);
    }
    return PS_OK;
}

void convolution_complete(struct attributes *a) {
    if (a->stride_h == 0) a->stride_h = 1;
    if (a->stride_w == 0) a->stride_w = 1;
    if (a->groups == 0) a->groups = 1;
    if (a->dims == 0) a->dims = 2;
    window_complete(a);
}

enum ps_status convolution_check(const struct attributes *a, const struct shape *input, struct ps_error *error) {
    int groups = a->groups, channels = a->channels;
    if (channels < 1) return error_set(error, PS_USAGE, "%d output channels: at least 1 is needed", channels);
    if (groups < 1 || channels % groups != 0 || input->dim[0] % groups != 0) {
        return error_set(error, PS_USAGE, "%d groups do not divide %lld input and %d output channels", groups,
                         (long long)input->dim[0], channels);
    }
    if (a->dims != 1 || a->kernel_w == 1) return PS_OK;
    return error_set(error, PS_USAGE, "a kernel of %dx%d: of a sequence (dims 1) it must be 1 wide", a->kernel_h, a->kernel_w);
}

enum ps_status window_output(const struct attributes *a, const struct shape *input, int64_t channels, struct shape *output,
                             struct ps_error *error) {
    TRY(window_check(a, error));
    struct side rows = side_of(a, POOL_ROWS), columns = side_of(a, POOL_COLUMNS);
    int64_t height = window_positions(input->dim[1], &rows, a->ceiling);
    int64_t width = window_positions(input->dim[2], &columns, a->ceiling);
    if (height < 1 || width < 1) {
        char text[96];
        return error_set(error, PS_USAGE, "a kernel of %lldx%lld with padding %dx%d does not fit into its input of %s",
                         (long long)extent(&rows), (long long)extent(&columns), a->pad_h, a->pad_w, shape_text(input, text));
    }
    *output = (struct shape){.rank = 3, .dim = {channels, height, width}};
    return PS_OK;
}

/* No window may lie in the padding altogether: it has no largest value and no mean. */
static enum ps_status check_windows(const struct attributes *a, enum pool_side side, int64_t size, int64_t windows,
                                    struct ps_error *error) {
    for (int64_t i = 0; i < windows; i++) {
        struct pool_window window = pool_window(a, side, size, i);
        if (window.first < window.end) continue;
        return error_set(error, PS_USAGE, "a kernel of %dx%d with padding %dx%d: window %lld along the %s covers padding only",
                         a->kernel_h, a->kernel_w, a->pad_h, a->pad_w, (long long)i, side == POOL_ROWS ? "height" : "width");
    }
    return PS_OK;
}

enum ps_status pool_infer(struct operation *op) {
    struct attributes *a = op->attributes;
    TRY(require_image(op->inputs, op->error));
    window_complete(a);
    if (a->out_h > 0 && a->out_w > 0) {
        op->output = (struct shape){.rank = 3, .dim = {op->inputs->dim[0], a->out_h, a->out_w}};
        a->kernel_h = (int)((op->inputs->dim[1] + a->out_h - 1) / a->out_h);
        a->kernel_w = (int)((op->inputs->dim[2] + a->out_w - 1) / a->out_w);
        return PS_OK;
    }
    if (a->stride_h == 0) a->stride_h = a->kernel_h;
    if (a->stride_w == 0) a->stride_w = a->kernel_w;
    TRY(window_output(a, op->inputs, op->inputs->dim[0], &op->output, op->error));
    TRY(check_windows(a, POOL_ROWS, op->inputs->dim[1], op->output.dim[1], op->error));
    return check_windows(a, POOL_COLUMNS, op->inputs->dim[2], op->output.dim[2], op->error);
}

/* How many of the window's elements, which begin at `start`, lie before `limit`. */
static int64_t elements_before(const struct side *s, int64_t start, int64_t limit) {
    if (limit <= start) return 0;
    int64_t count = (limit - start + s->dilation - 1) / s->dilation;
    return count < s->kernel ? count : s->kernel;
}

/* What only rounding up has added behind the padding counts nowhere. */
static struct pool_window slide(int64_t size, int64_t index, const struct side *s, bool count_padding) {
    int64_t start = index * s->stride - s->pad, before = elements_before(s, start, 0), end = elements_before(s, start, size);
    int64_t counted = count_padding ? elements_before(s, start, size + s->pad_end) : end - before;
    return (struct pool_window){start + before * s->dilation, start + (end - 1) * s->dilation + 1, s->dilation, counted};
}

struct pool_window pool_window(const struct attributes *a, enum pool_side side, int64_t size, int64_t index) {
    int64_t out = side == POOL_ROWS ? a->out_h : a->out_w;
    struct side s = side_of(a, side);
    if (out == 0) return slide(size, index, &s, a->count_padding);
    int64_t first = index * size / out, end = ((index + 1) * size + out - 1) / out;
    return (struct pool_window){first, end, 1, end - first};
}

double pool_flops(const struct operation *op) {
    return (double)shape_elements(&op->output) * op->attributes->kernel_h * op->attributes->kernel_w;
}

double no_flops(const struct operation *op) {
    (void)op;
    return 0;
}

enum ps_status check_own_parameter(const struct attributes *attributes, struct ps_error *error) {
    struct shape value, own;
    char text[96], other[96];
    TRY(shape_of_sides(&attributes->sides, TYPE_F32, &value, error));
    TRY(shape_of_sides(&attributes->shape, TYPE_F32, &own, error));
    if (attributes->scalar && (own.rank > 0 || shape_elements(&value) != 1))
        return error_set(error, PS_USAGE, "scalar: a parameter without sides is a value of 1, not of %s",
                         shape_text(&value, text));
    if (own.rank == 0 || shape_elements(&own) == shape_elements(&value)) return PS_OK;
    return error_set(error, PS_USAGE, "a parameter of the shape %s is no value of %s", shape_text(&own, text),
                     shape_text(&value, other));
}

int own_parameter(const struct attributes *attributes, float initial, struct parameter *parameter) {
    *parameter = (struct parameter){.name = "weight",
                                    .initial = {INITIAL_CONSTANT, initial},
                                    .role = attributes->trained ? PARAMETER_TRAINED : PARAMETER_FIXED};
    const bool said = attributes->shape.count > 0;
    const struct integers *shape = said ? &attributes->shape : &attributes->sides;
    const int rank = parameter->shape.rank = attributes->scalar ? 0 : shape->count;
    for (int d = 0; d < rank; d++) parameter->shape.dim[d] = shape->at[said ? d : (d + 1) % rank];
    return 1;
}

struct initial initial_fan_in(int64_t fan_in) {
    return (struct initial){INITIAL_UNIFORM, (float)(1.0 / sqrt((double)fan_in))};
}
