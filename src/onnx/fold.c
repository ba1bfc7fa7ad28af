/* The evaluator's operators: one row each at the end of the file. */
#include "onnx/fold.h"

#include <math.h>
#include <string.h>

/* ----------------------------------------------------------------- tensors */

void fold_strides(int rank, const int64_t *dims, int64_t *strides) {
    int64_t stride = 1;
    for (int d = rank - 1; d >= 0; d--) {
        strides[d] = stride;
        stride *= dims[d];
    }
}

enum ps_status fold_take(struct fold *fold, int type, int rank, const int64_t *dims, struct tensor **tensor) {
    int64_t elements = 1;
    for (int d = 0; d < rank; d++) {
        if (dims[d] < 0 || (dims[d] > 0 && elements > fold->budget / dims[d]))
            return error_set(fold->error, PS_BAD_INPUT, "a constant of more elements than the file can be about");
        elements *= dims[d];
    }
    struct tensor *made = arena_take(fold->arena, 1, sizeof *made);
    int64_t *data = arena_take(fold->arena, (size_t)elements, sizeof *data);
    TRY(arena_check(fold->arena, "constants", fold->error));
    fold->budget -= elements;
    *made = (struct tensor){.type = type, .rank = rank, .elements = elements};
    if (rank > 0) memcpy(made->dims, dims, (size_t)rank * sizeof *dims);
    if (onnx_is_float(type))
        made->reals = (double *)(void *)data;
    else
        made->whole = data;
    *tensor = made;
    return PS_OK;
}

enum ps_status fold_read(struct fold *fold, const struct onnx_tensor *from, struct tensor **tensor) {
    TRY(fold_take(fold, from->type, from->rank, from->dims, tensor));
    if (onnx_is_float(from->type))
        onnx_tensor_reals(from, (*tensor)->reals);
    else
        onnx_tensor_whole(from, (*tensor)->whole);
    return PS_OK;
}

/* Reals and whole numbers move alike. */
static int64_t *words(const struct tensor *tensor) {
    return onnx_is_float(tensor->type) ? (int64_t *)(void *)tensor->reals : tensor->whole;
}

/* The next index in row-major order; false after the last. */
static bool next_index(int rank, const int64_t *dims, int64_t *index) {
    for (int d = rank - 1; d >= 0; d--) {
        if (++index[d] < dims[d]) return true;
        index[d] = 0;
    }
    return false;
}

static int64_t at(int rank, const int64_t *index, const int64_t *strides) {
    int64_t place = 0;
    for (int d = 0; d < rank; d++) place += index[d] * strides[d];
    return place;
}

enum ps_status fold_strided(struct fold *fold, const struct tensor *from, int rank, const int64_t *dims, const int64_t *strides,
                            int64_t offset, struct tensor **tensor) {
    TRY(fold_take(fold, from->type, rank, dims, tensor));
    int64_t index[ONNX_RANK_MAX] = {0}, *to = words(*tensor);
    const int64_t *data = words(from);
    if ((*tensor)->elements == 0) return PS_OK;
    do *to++ = data[offset + at(rank, index, strides)];
    while (next_index(rank, dims, index));
    return PS_OK;
}

bool fold_broadcast(int rank_a, const int64_t *a, int rank_b, const int64_t *b, int *rank, int64_t *dims) {
    *rank = rank_a > rank_b ? rank_a : rank_b;
    for (int d = 0; d < *rank; d++) {
        int64_t x = d - (*rank - rank_a) >= 0 ? a[d - (*rank - rank_a)] : 1;
        int64_t y = d - (*rank - rank_b) >= 0 ? b[d - (*rank - rank_b)] : 1;
        if (x != y && x != 1 && y != 1) return false;
        dims[d] = x == 1 ? y : x;
    }
    return true;
}

/* Strides of a tensor that is read as one of `rank` and `dims`: 0 where it is repeated. */
static void broadcast_strides(const struct tensor *tensor, int rank, int64_t *strides) {
    int64_t own[ONNX_RANK_MAX];
    fold_strides(tensor->rank, tensor->dims, own);
    for (int d = 0; d < rank; d++) {
        int place = d - (rank - tensor->rank);
        strides[d] = place >= 0 && tensor->dims[place] > 1 ? own[place] : 0;
    }
}

static double rounded(int type, double value) { return type == ONNX_DOUBLE ? value : (double)(float)value; }

/* A real as a whole number of the type, as C casts it, but defined for all. */
static int64_t whole_of(double value) {
    if (value != value) return 0;
    if (value >= 9223372036854775807.0) return INT64_MAX;
    return value <= -9223372036854775808.0 ? INT64_MIN : (int64_t)value;
}

/* ------------------------------------------------------- what nodes say */

enum ps_status fold_axis(int64_t said, int rank, int *axis, struct ps_error *error) {
    if (said < -rank || said >= rank)
        return error_set(error, PS_BAD_INPUT, "axis %lld of a value of %d dimensions", (long long)said, rank);
    *axis = (int)(said < 0 ? said + rank : said);
    return PS_OK;
}

enum ps_status fold_axes_of(const struct onnx_node *node, const struct tensor *axes, int rank, bool marks[ONNX_RANK_MAX],
                            struct ps_error *error) {
    const struct onnx_attribute *said = onnx_attribute(node, "axes");
    const int64_t *list = axes != NULL ? axes->whole : said != NULL ? said->ints : NULL;
    int64_t count = axes != NULL ? axes->elements : said != NULL ? said->count : 0;
    for (int d = 0; d < ONNX_RANK_MAX; d++) marks[d] = count == 0 && d < rank && !onnx_int(node, "noop_with_empty_axes", 0);
    if (count > 0 && list == NULL) return error_set(error, PS_BAD_INPUT, "its axes are no integers");
    for (int64_t a = 0; a < count; a++) {
        int axis;
        TRY(fold_axis(list[a], rank, &axis, error));
        marks[axis] = true;
    }
    return PS_OK;
}

enum ps_status fold_slice_of(const struct tensor *const *inputs, int input_count, int rank, const int64_t *dims,
                             struct fold_slice *slice, struct ps_error *error) {
    const struct tensor *starts = inputs[1], *ends = inputs[2], *axes = input_count > 3 ? inputs[3] : NULL;
    const struct tensor *steps = input_count > 4 ? inputs[4] : NULL;
    for (int d = 0; d < rank; d++) {
        slice->first[d] = 0;
        slice->step[d] = 1;
        slice->count[d] = dims[d];
    }
    if (starts == NULL || ends == NULL || starts->whole == NULL || ends->whole == NULL || starts->elements != ends->elements ||
        (axes != NULL && (axes->whole == NULL || axes->elements != starts->elements)) ||
        (steps != NULL && (steps->whole == NULL || steps->elements != starts->elements)))
        return error_set(error, PS_BAD_INPUT, "its starts, ends, axes and steps do not fit");
    for (int64_t i = 0; i < starts->elements; i++) {
        int axis;
        TRY(fold_axis(axes != NULL ? axes->whole[i] : i, rank, &axis, error));
        int64_t step = steps != NULL ? steps->whole[i] : 1, size = dims[axis];
        int64_t start = starts->whole[i], end = ends->whole[i];
        if (step == 0 || step < -INT32_MAX || step > INT32_MAX)
            return error_set(error, PS_BAD_INPUT, "a step of %lld", (long long)step);
        if (start < 0) start += size;
        if (end < 0 && end >= -size)
            end += size;
        else if (end < 0)
            end = step > 0 ? 0 : -1;
        start = start < 0 ? 0 : start;
        if (step > 0) {
            start = start > size ? size : start;
            end = end > size ? size : end;
            slice->count[axis] = end > start ? (end - start + step - 1) / step : 0;
        } else {
            start = start > size - 1 ? size - 1 : start;
            end = end > size - 1 ? size - 1 : end;
            slice->count[axis] = start > end ? (start - end - step - 1) / -step : 0;
        }
        slice->first[axis] = start;
        slice->step[axis] = step;
    }
    return PS_OK;
}

static int64_t product(int rank, const int64_t *dims) {
    int64_t all = 1;
    for (int d = 0; d < rank; d++) all *= dims[d];
    return all;
}

static enum ps_status reshaped(const struct onnx_node *node, const struct tensor *shape, int rank, const int64_t *dims,
                               int *new_rank, int64_t *new_dims, struct ps_error *error) {
    const bool zeros = onnx_int(node, "allowzero", 0) != 0;
    if (shape == NULL || shape->whole == NULL || shape->elements > ONNX_RANK_MAX)
        return error_set(error, PS_BAD_INPUT, "its shape must be a constant of at most %d integers", ONNX_RANK_MAX);
    const int64_t all = product(rank, dims);
    int64_t known = 1;
    int open = -1;
    *new_rank = (int)shape->elements;
    for (int d = 0; d < *new_rank; d++) {
        new_dims[d] = shape->whole[d];
        if (new_dims[d] == 0 && !zeros && d < rank) new_dims[d] = dims[d];
        bool fits = new_dims[d] >= 0 && (new_dims[d] == 0 || known <= ((int64_t)1 << 45) / new_dims[d]);
        if (new_dims[d] == -1 && open < 0)
            open = d;
        else if (!fits)
            return error_set(error, PS_BAD_INPUT, "its shape does not fit: dimension %d is %lld", d, (long long)new_dims[d]);
        else
            known *= new_dims[d];
    }
    if (open >= 0) new_dims[open] = known > 0 ? all / known : 0;
    if (open >= 0) known *= new_dims[open];
    if (known != all)
        return error_set(error, PS_BAD_INPUT, "a shape of %lld elements for a value of %lld", (long long)known, (long long)all);
    return PS_OK;
}

enum ps_status fold_reshape_of(const struct onnx_node *node, const struct tensor *const *inputs, int64_t opset, int rank,
                               const int64_t *dims, int *new_rank, int64_t *new_dims, struct ps_error *error) {
    const struct tensor *second = node->input_count > 1 ? inputs[1] : NULL;
    bool marks[ONNX_RANK_MAX];
    int axis;
    (void)opset;
    if (strcmp(node->op, "Reshape") == 0) return reshaped(node, second, rank, dims, new_rank, new_dims, error);
    if (strcmp(node->op, "Flatten") == 0) {
        int64_t said = onnx_int(node, "axis", 1);
        if (said < -rank || said > rank) return error_set(error, PS_BAD_INPUT, "axis %lld", (long long)said);
        axis = (int)(said < 0 ? said + rank : said);
        *new_rank = 2;
        new_dims[0] = product(axis, dims);
        new_dims[1] = product(rank - axis, dims + axis);
        return PS_OK;
    }
    if (strcmp(node->op, "Squeeze") == 0) {
        TRY(fold_axes_of(node, second, rank, marks, error));
        const bool all = second == NULL && onnx_attribute(node, "axes") == NULL;
        *new_rank = 0;
        for (int d = 0; d < rank; d++) {
            if (marks[d] && !all && dims[d] != 1)
                return error_set(error, PS_BAD_INPUT, "axis %d has %lld elements, not 1", d, (long long)dims[d]);
            if (!marks[d] || dims[d] != 1) new_dims[(*new_rank)++] = dims[d];
        }
        return PS_OK;
    }
    const struct onnx_attribute *said = onnx_attribute(node, "axes"); /* Unsqueeze */
    int64_t count = second != NULL ? second->elements : said != NULL ? said->count : 0;
    if (rank + count > ONNX_RANK_MAX) return error_set(error, PS_BAD_INPUT, "more than %d dimensions", ONNX_RANK_MAX);
    *new_rank = rank + (int)count;
    TRY(fold_axes_of(node, second, *new_rank, marks, error));
    if (count == 0) memset(marks, 0, sizeof marks);
    for (int d = 0, from = 0; d < *new_rank; d++) {
        if (!marks[d] && from >= rank) return error_set(error, PS_BAD_INPUT, "an axis is named twice");
        new_dims[d] = marks[d] ? 1 : dims[from++];
    }
    return PS_OK;
}

/* --------------------------------------------------------------- operators */

struct call {
    struct fold *fold;
    const struct onnx_node *node;
    const struct tensor *const *in;
    int count; /* of inputs */
    struct tensor **out;
    int kind; /* of the row */
};

static enum ps_status refuse(const struct call *call, const char *what) {
    return error_set(call->fold->error, PS_BAD_INPUT, "%s", what);
}

static enum ps_status constant(const struct call *call) {
    struct fold *fold = call->fold;
    for (int a = 0; a < call->node->attribute_count; a++) {
        const struct onnx_attribute *said = &call->node->attributes[a];
        const int64_t count = said->count;
        switch (said->type) {
        case ONNX_ATTRIBUTE_TENSOR:
            return fold_read(fold, said->tensor, call->out);
        case ONNX_ATTRIBUTE_INT:
            TRY(fold_take(fold, ONNX_INT64, 0, NULL, call->out));
            call->out[0]->whole[0] = said->i;
            return PS_OK;
        case ONNX_ATTRIBUTE_FLOAT:
            TRY(fold_take(fold, ONNX_FLOAT, 0, NULL, call->out));
            call->out[0]->reals[0] = (double)said->f;
            return PS_OK;
        case ONNX_ATTRIBUTE_INTS:
            TRY(fold_take(fold, ONNX_INT64, 1, &count, call->out));
            for (int i = 0; i < said->count && said->ints != NULL; i++) call->out[0]->whole[i] = said->ints[i];
            return PS_OK;
        case ONNX_ATTRIBUTE_FLOATS:
            TRY(fold_take(fold, ONNX_FLOAT, 1, &count, call->out));
            for (int i = 0; i < said->count && said->floats != NULL; i++) call->out[0]->reals[i] = (double)said->floats[i];
            return PS_OK;
        default:
            break;
        }
    }
    return refuse(call, "no value that is known");
}

static enum ps_status constant_of_shape(const struct call *call) {
    const struct onnx_attribute *said = onnx_attribute(call->node, "value");
    struct tensor *value = NULL;
    if (call->in[0]->whole == NULL || call->in[0]->elements > ONNX_RANK_MAX)
        return refuse(call, "its shape is no list of integers");
    if (said != NULL && said->tensor != NULL) TRY(fold_read(call->fold, said->tensor, &value));
    TRY(fold_take(call->fold, value != NULL ? value->type : ONNX_FLOAT, (int)call->in[0]->elements, call->in[0]->whole,
                  call->out));
    for (int64_t e = 0; value != NULL && value->elements > 0 && e < call->out[0]->elements; e++)
        words(call->out[0])[e] = words(value)[0];
    return PS_OK;
}

static double scalar(const struct tensor *tensor) {
    if (tensor->elements == 0) return 0;
    return tensor->reals != NULL ? tensor->reals[0] : (double)tensor->whole[0];
}

static enum ps_status range(const struct call *call) {
    double start = scalar(call->in[0]), limit = scalar(call->in[1]), step = scalar(call->in[2]);
    double count = ceil((limit - start) / step);
    if (step == 0 || !(count < 1e15)) return refuse(call, "its length is not finite");
    int64_t length = count > 0 ? (int64_t)count : 0;
    TRY(fold_take(call->fold, call->in[0]->type, 1, &length, call->out));
    for (int64_t e = 0; e < length; e++) {
        if (call->out[0]->reals != NULL)
            call->out[0]->reals[e] = rounded(call->in[0]->type, start + (double)e * step);
        else
            call->out[0]->whole[e] = call->in[0]->whole[0] + e * whole_of(step);
    }
    return PS_OK;
}

static enum ps_status cast(const struct call *call) {
    const bool like = strcmp(call->node->op, "CastLike") == 0;
    const int to = like ? call->in[1]->type : (int)onnx_int(call->node, "to", 0);
    const struct tensor *in = call->in[0];
    if (!onnx_is_float(to) && to != ONNX_INT64 && to != ONNX_INT32 && to != ONNX_BOOL && to != ONNX_INT8 && to != ONNX_UINT8)
        return refuse(call, "a cast to a type that is not known");
    TRY(fold_take(call->fold, to, in->rank, in->dims, call->out));
    struct tensor *out = call->out[0];
    for (int64_t e = 0; e < in->elements; e++) {
        if (out->reals != NULL)
            out->reals[e] = rounded(to, in->reals != NULL ? in->reals[e] : (double)in->whole[e]);
        else if (to == ONNX_BOOL)
            out->whole[e] = in->reals != NULL ? in->reals[e] != 0 : in->whole[e] != 0;
        else
            out->whole[e] = in->reals != NULL ? whole_of(in->reals[e]) : in->whole[e];
    }
    return PS_OK;
}

static enum ps_status identity(const struct call *call) {
    struct tensor *same = arena_copy(call->fold->arena, call->in[0], 1, sizeof *same);
    TRY(arena_check(call->fold->arena, "constants", call->fold->error));
    call->out[0] = same;
    return PS_OK;
}

static enum ps_status reshape(const struct call *call) {
    int rank;
    int64_t dims[ONNX_RANK_MAX];
    TRY(fold_reshape_of(call->node, call->in, 0, call->in[0]->rank, call->in[0]->dims, &rank, dims, call->fold->error));
    TRY(identity(call));
    call->out[0]->rank = rank;
    memcpy(call->out[0]->dims, dims, sizeof dims);
    return PS_OK;
}

static enum ps_status transpose(const struct call *call) {
    const struct onnx_attribute *perm = onnx_attribute(call->node, "perm");
    const struct tensor *in = call->in[0];
    int64_t own[ONNX_RANK_MAX], dims[ONNX_RANK_MAX], strides[ONNX_RANK_MAX];
    fold_strides(in->rank, in->dims, own);
    if (perm != NULL && perm->count != in->rank) return refuse(call, "its order does not fit");
    for (int d = 0; d < in->rank; d++) {
        int axis;
        TRY(fold_axis(perm != NULL ? perm->ints[d] : in->rank - 1 - d, in->rank, &axis, call->fold->error));
        dims[d] = in->dims[axis];
        strides[d] = own[axis];
    }
    if (product(in->rank, dims) != in->elements) return refuse(call, "its order names an axis twice");
    return fold_strided(call->fold, in, in->rank, dims, strides, 0, call->out);
}

static enum ps_status expand(const struct call *call) {
    const struct tensor *in = call->in[0], *shape = call->in[1];
    int rank;
    int64_t dims[ONNX_RANK_MAX], strides[ONNX_RANK_MAX];
    if (shape->whole == NULL || shape->elements > ONNX_RANK_MAX ||
        !fold_broadcast(in->rank, in->dims, (int)shape->elements, shape->whole, &rank, dims))
        return refuse(call, "its shape does not fit");
    broadcast_strides(in, rank, strides);
    return fold_strided(call->fold, in, rank, dims, strides, 0, call->out);
}

static enum ps_status slice(const struct call *call) {
    const struct tensor *in = call->in[0];
    struct fold_slice part;
    int64_t strides[ONNX_RANK_MAX], offset = 0;
    TRY(fold_slice_of(call->in, call->count, in->rank, in->dims, &part, call->fold->error));
    fold_strides(in->rank, in->dims, strides);
    for (int d = 0; d < in->rank; d++) {
        offset += part.first[d] * strides[d];
        strides[d] *= part.step[d];
    }
    return fold_strided(call->fold, in, in->rank, part.count, strides, offset, call->out);
}

/* in[..., index[...], ...] */
static enum ps_status gather(const struct call *call) {
    const struct tensor *in = call->in[0], *index = call->in[1];
    int axis, rank = in->rank + index->rank - 1;
    int64_t dims[2 * ONNX_RANK_MAX], inner = 1, outer = 1;
    if (index->whole == NULL || rank > ONNX_RANK_MAX || in->rank == 0) return refuse(call, "its indices do not fit");
    TRY(fold_axis(onnx_int(call->node, "axis", 0), in->rank, &axis, call->fold->error));
    for (int d = 0; d < rank; d++)
        dims[d] = d < axis ? in->dims[d] : d < axis + index->rank ? index->dims[d - axis] : in->dims[d - index->rank + 1];
    TRY(fold_take(call->fold, in->type, rank, dims, call->out));
    for (int d = 0; d < axis; d++) outer *= in->dims[d];
    for (int d = axis + 1; d < in->rank; d++) inner *= in->dims[d];
    int64_t *to = words(call->out[0]);
    for (int64_t o = 0; o < outer; o++) {
        for (int64_t i = 0; i < index->elements; i++, to += inner) {
            int64_t place = index->whole[i] < 0 ? index->whole[i] + in->dims[axis] : index->whole[i];
            if (place < 0 || place >= in->dims[axis]) return refuse(call, "an index is outside of its input");
            memcpy(to, words(in) + (o * in->dims[axis] + place) * inner, (size_t)inner * sizeof *to);
        }
    }
    return PS_OK;
}

static enum ps_status gather_nd(const struct call *call) {
    const struct tensor *in = call->in[0], *index = call->in[1];
    int64_t dims[2 * ONNX_RANK_MAX], strides[ONNX_RANK_MAX], inner = 1;
    if (index->whole == NULL || index->rank == 0 || onnx_int(call->node, "batch_dims", 0) != 0)
        return refuse(call, "its indices do not fit");
    const int64_t named = index->dims[index->rank - 1];
    if (named < 1 || named > in->rank) return refuse(call, "its indices do not fit");
    const int rank = index->rank - 1 + in->rank - (int)named;
    if (rank > ONNX_RANK_MAX) return refuse(call, "its indices do not fit");
    for (int d = 0; d < rank; d++)
        dims[d] = d < index->rank - 1 ? index->dims[d] : in->dims[d - (index->rank - 1) + (int)named];
    TRY(fold_take(call->fold, in->type, rank, dims, call->out));
    fold_strides(in->rank, in->dims, strides);
    for (int d = (int)named; d < in->rank; d++) inner *= in->dims[d];
    int64_t *to = words(call->out[0]);
    for (int64_t i = 0; i + named <= index->elements; i += named, to += inner) {
        int64_t place = 0;
        for (int64_t n = 0; n < named; n++) {
            int64_t one = index->whole[i + n] < 0 ? index->whole[i + n] + in->dims[n] : index->whole[i + n];
            if (one < 0 || one >= in->dims[n]) return refuse(call, "an index is outside of its input");
            place += one * strides[n];
        }
        memcpy(to, words(in) + place, (size_t)inner * sizeof *to);
    }
    return PS_OK;
}

/* A copy of the input, in which updates are put; with places that are whole numbers. */
static enum ps_status begin_scatter(const struct call *call, int64_t strides[ONNX_RANK_MAX], bool *adds) {
    const struct tensor *in = call->in[0], *index = call->in[1], *updates = call->in[2];
    const char *reduction = onnx_string(call->node, "reduction", "none");
    *adds = strcmp(reduction, "add") == 0;
    if (index->whole == NULL || index->rank == 0 || (!*adds && strcmp(reduction, "none") != 0) ||
        (in->reals == NULL) != (updates->reals == NULL))
        return refuse(call, "its inputs do not fit together");
    fold_strides(in->rank, in->dims, strides);
    return fold_strided(call->fold, in, in->rank, in->dims, strides, 0, call->out);
}

static void put_update(struct tensor *to, int64_t place, const struct tensor *updates, int64_t e, bool adds) {
    if (to->reals != NULL)
        to->reals[place] = updates->reals[e] + (adds ? to->reals[place] : 0);
    else
        to->whole[place] = (int64_t)((uint64_t)updates->whole[e] + (adds ? (uint64_t)to->whole[place] : 0));
}

static enum ps_status scatter_nd(const struct call *call) {
    const struct tensor *in = call->in[0], *index = call->in[1], *updates = call->in[2];
    int64_t strides[ONNX_RANK_MAX], inner = 1;
    bool adds;
    TRY(begin_scatter(call, strides, &adds));
    const int64_t named = index->dims[index->rank - 1];
    if (named < 1 || named > in->rank) return refuse(call, "its indices do not fit");
    for (int d = (int)named; d < in->rank; d++) inner *= in->dims[d];
    if (updates->elements != index->elements / named * inner) return refuse(call, "its updates do not fit");
    for (int64_t i = 0; i + named <= index->elements; i += named) {
        int64_t place = 0;
        for (int64_t n = 0; n < named; n++) {
            int64_t one = index->whole[i + n] < 0 ? index->whole[i + n] + in->dims[n] : index->whole[i + n];
            if (one < 0 || one >= in->dims[n]) return refuse(call, "an index is outside of its input");
            place += one * strides[n];
        }
        for (int64_t e = 0; e < inner; e++) put_update(call->out[0], place + e, updates, i / named * inner + e, adds);
    }
    return PS_OK;
}

static enum ps_status scatter_elements(const struct call *call) {
    const struct tensor *in = call->in[0], *index = call->in[1], *updates = call->in[2];
    int64_t strides[ONNX_RANK_MAX], position[ONNX_RANK_MAX] = {0};
    int axis;
    bool adds;
    TRY(begin_scatter(call, strides, &adds));
    TRY(fold_axis(onnx_int(call->node, "axis", 0), in->rank, &axis, call->fold->error));
    bool fits = index->rank == in->rank && updates->elements == index->elements;
    for (int d = 0; d < in->rank && fits; d++) fits = d == axis || index->dims[d] <= in->dims[d];
    if (!fits) return refuse(call, "its indices do not fit");
    for (int64_t e = 0; e < index->elements; e++) {
        const int64_t place = index->whole[e] < 0 ? index->whole[e] + in->dims[axis] : index->whole[e];
        if (place < 0 || place >= in->dims[axis]) return refuse(call, "an index is outside of its input");
        put_update(call->out[0], at(in->rank, position, strides) + (place - position[axis]) * strides[axis], updates, e, adds);
        next_index(index->rank, index->dims, position);
    }
    return PS_OK;
}

static enum ps_status gather_elements(const struct call *call) {
    const struct tensor *in = call->in[0], *which = call->in[1];
    int axis;
    int64_t strides[ONNX_RANK_MAX], index[ONNX_RANK_MAX] = {0};
    if (which->whole == NULL || which->rank != in->rank || in->rank == 0) return refuse(call, "its indices do not fit");
    TRY(fold_axis(onnx_int(call->node, "axis", 0), in->rank, &axis, call->fold->error));
    for (int d = 0; d < in->rank; d++)
        if (d != axis && which->dims[d] > in->dims[d]) return refuse(call, "its indices do not fit");
    TRY(fold_take(call->fold, in->type, which->rank, which->dims, call->out));
    fold_strides(in->rank, in->dims, strides);
    for (int64_t e = 0; e < which->elements; e++) {
        int64_t place = which->whole[e] < 0 ? which->whole[e] + in->dims[axis] : which->whole[e];
        if (place < 0 || place >= in->dims[axis]) return refuse(call, "an index is outside of its input");
        words(call->out[0])[e] = words(in)[at(in->rank, index, strides) + (place - index[axis]) * strides[axis]];
        next_index(which->rank, which->dims, index);
    }
    return PS_OK;
}

static enum ps_status concat(const struct call *call) {
    const struct tensor *first = call->in[0];
    int axis;
    int64_t dims[ONNX_RANK_MAX], inner = 1, outer = 1, before = 0;
    TRY(fold_axis(onnx_int(call->node, "axis", 0), first->rank, &axis, call->fold->error));
    memcpy(dims, first->dims, sizeof dims);
    dims[axis] = 0;
    for (int i = 0; i < call->count; i++) {
        const struct tensor *in = call->in[i];
        if (in == NULL || in->rank != first->rank || (in->reals == NULL) != (first->reals == NULL))
            return refuse(call, "its inputs do not fit together");
        for (int d = 0; d < in->rank; d++)
            if (d != axis && in->dims[d] != first->dims[d]) return refuse(call, "its inputs do not fit together");
        dims[axis] += in->dims[axis];
    }
    TRY(fold_take(call->fold, first->type, first->rank, dims, call->out));
    for (int d = 0; d < axis; d++) outer *= dims[d];
    for (int d = axis + 1; d < first->rank; d++) inner *= dims[d];
    for (int i = 0; i < call->count; i++) {
        const int64_t length = call->in[i]->dims[axis] * inner;
        for (int64_t o = 0; o < outer && length > 0; o++)
            memcpy(words(call->out[0]) + o * dims[axis] * inner + before, words(call->in[i]) + o * length,
                   (size_t)length * sizeof(int64_t));
        before += length;
    }
    return PS_OK;
}

static enum ps_status split(const struct call *call) {
    const struct tensor *in = call->in[0], *sizes = call->count > 1 ? call->in[1] : NULL;
    const int parts = call->node->output_count;
    int axis;
    int64_t dims[ONNX_RANK_MAX], strides[ONNX_RANK_MAX], first = 0;
    TRY(fold_axis(onnx_int(call->node, "axis", 0), in->rank, &axis, call->fold->error));
    if (sizes != NULL && (sizes->whole == NULL || sizes->elements != parts)) return refuse(call, "its sizes do not fit");
    fold_strides(in->rank, in->dims, strides);
    memcpy(dims, in->dims, sizeof dims);
    for (int p = 0; p < parts; p++) {
        int64_t each = (in->dims[axis] + parts - 1) / parts, left = in->dims[axis] - first;
        dims[axis] = sizes != NULL ? sizes->whole[p] : each < left ? each : left;
        if (dims[axis] < 0 || dims[axis] > left) return refuse(call, "its sizes do not fit");
        TRY(fold_strided(call->fold, in, in->rank, dims, strides, first * strides[axis], &call->out[p]));
        first += dims[axis];
    }
    return PS_OK;
}

static enum ps_status tile(const struct call *call) {
    const struct tensor *in = call->in[0], *times = call->in[1];
    int64_t dims[ONNX_RANK_MAX], strides[ONNX_RANK_MAX], index[ONNX_RANK_MAX] = {0};
    if (times->whole == NULL || times->elements != in->rank) return refuse(call, "its repeats do not fit");
    for (int d = 0; d < in->rank; d++) {
        if (times->whole[d] < 0 || times->whole[d] > 1 << 20) return refuse(call, "its repeats do not fit");
        dims[d] = in->dims[d] * times->whole[d];
    }
    TRY(fold_take(call->fold, in->type, in->rank, dims, call->out));
    fold_strides(in->rank, in->dims, strides);
    for (int64_t e = 0; e < call->out[0]->elements; e++) {
        int64_t place = 0;
        for (int d = 0; d < in->rank; d++) place += index[d] % in->dims[d] * strides[d];
        words(call->out[0])[e] = words(in)[place];
        next_index(in->rank, dims, index);
    }
    return PS_OK;
}

enum binary {
    ADD,
    SUB,
    MUL,
    DIV,
    POW,
    MOD,
    REMAINDER,
    MAX,
    MIN,
    AND,
    OR,
    XOR,
    EQUAL,
    LESS,
    LESS_EQUAL,
    GREATER,
    GREATER_EQUAL
};

static double binary_real(enum binary kind, double a, double b) {
    switch (kind) {
    case ADD:
        return a + b;
    case SUB:
        return a - b;
    case MUL:
        return a * b;
    case DIV:
        return a / b;
    case POW:
        return pow(a, b);
    case MOD: /* with the divisor's sign */
        return a - floor(a / b) * b;
    case REMAINDER:
        return fmod(a, b);
    case MAX:
        return a > b ? a : b;
    case MIN:
        return a < b ? a : b;
    default:
        return 0;
    }
}

static bool binary_truth(enum binary kind, double a, double b) {
    switch (kind) {
    case AND:
        return a != 0 && b != 0;
    case OR:
        return a != 0 || b != 0;
    case XOR:
        return (a != 0) != (b != 0);
    case EQUAL:
        return a == b;
    case LESS:
        return a < b;
    case LESS_EQUAL:
        return a <= b;
    case GREATER:
        return a > b;
    default:
        return a >= b;
    }
}

/* Wraps around as integers of hardware do; a division by 0 is 0. */
static int64_t binary_whole(enum binary kind, int64_t a, int64_t b) {
    const uint64_t x = (uint64_t)a, y = (uint64_t)b;
    switch (kind) {
    case ADD:
        return (int64_t)(x + y);
    case SUB:
        return (int64_t)(x - y);
    case MUL:
        return (int64_t)(x * y);
    case DIV:
        return b == 0 ? 0 : b == -1 ? (int64_t)(0 - x) : a / b;
    case MOD: /* with the divisor's sign */
        return b == 0 || b == -1 ? 0 : a % b + ((a % b != 0 && (a % b < 0) != (b < 0)) ? b : 0);
    case REMAINDER:
        return b == 0 || b == -1 ? 0 : a % b;
    case MAX:
        return a > b ? a : b;
    case MIN:
        return a < b ? a : b;
    case EQUAL:
        return a == b;
    case LESS:
        return a < b;
    case LESS_EQUAL:
        return a <= b;
    case GREATER:
        return a > b;
    case GREATER_EQUAL:
        return a >= b;
    case POW:
        return whole_of(pow((double)a, (double)b));
    default:
        return binary_truth(kind, (double)a, (double)b);
    }
}

static enum ps_status binary_of(const struct call *call, const struct tensor *a, const struct tensor *b, struct tensor **out) {
    const bool remainder = call->kind == MOD && onnx_int(call->node, "fmod", 0) != 0;
    const enum binary kind = remainder ? REMAINDER : (enum binary)call->kind;
    int rank;
    int64_t dims[ONNX_RANK_MAX], sa[ONNX_RANK_MAX], sb[ONNX_RANK_MAX], index[ONNX_RANK_MAX] = {0};
    if (!fold_broadcast(a->rank, a->dims, b->rank, b->dims, &rank, dims)) return refuse(call, "its inputs do not fit together");
    TRY(fold_take(call->fold, kind >= AND ? ONNX_BOOL : a->type, rank, dims, out));
    broadcast_strides(a, rank, sa);
    broadcast_strides(b, rank, sb);
    const bool whole = a->whole != NULL && b->whole != NULL;
    for (int64_t e = 0; e < (*out)->elements; e++) {
        int64_t i = at(rank, index, sa), j = at(rank, index, sb);
        double x = a->reals != NULL ? a->reals[i] : (double)a->whole[i];
        double y = b->reals != NULL ? b->reals[j] : (double)b->whole[j];
        if ((*out)->reals != NULL)
            (*out)->reals[e] = rounded(a->type, binary_real(kind, x, y));
        else
            (*out)->whole[e] = whole         ? binary_whole(kind, a->whole[i], b->whole[j])
                               : kind >= AND ? binary_truth(kind, x, y)
                                             : whole_of(binary_real(kind, x, y));
        next_index(rank, dims, index);
    }
    return PS_OK;
}

/* Max, Min and Sum take any number. */
static enum ps_status binary(const struct call *call) {
    TRY(identity(call));
    if (call->count == 1) return PS_OK;
    for (int i = 1; i < call->count; i++) {
        if (call->in[i] == NULL) return refuse(call, "an input is left out");
        TRY(binary_of(call, call->out[0], call->in[i], &call->out[0]));
    }
    return PS_OK;
}

static enum ps_status clip(const struct call *call) {
    struct call bound = *call;
    TRY(identity(call));
    for (int i = 1; i < call->count; i++) {
        bound.kind = i == 1 ? MAX : MIN;
        if (call->in[i] != NULL) TRY(binary_of(&bound, call->out[0], call->in[i], &call->out[0]));
    }
    return PS_OK;
}

enum unary { NEG, ABS, SQRT, EXP, LOG, RECIPROCAL, SIN, COS, FLOOR, CEIL, ROUND, SIGN, NOT, TANH, SIGMOID, ERF, ISNAN, RELU };

static double unary_real(enum unary kind, double x) {
    switch (kind) {
    case NEG:
        return -x;
    case ABS:
        return fabs(x);
    case SQRT:
        return sqrt(x);
    case EXP:
        return exp(x);
    case LOG:
        return log(x);
    case RECIPROCAL:
        return 1 / x;
    case SIN:
        return sin(x);
    case COS:
        return cos(x);
    case FLOOR:
        return floor(x);
    case CEIL:
        return ceil(x);
    case ROUND:
        return nearbyint(x);
    case SIGN:
        return (double)((x > 0) - (x < 0));
    case NOT:
        return x == 0;
    case TANH:
        return tanh(x);
    case SIGMOID:
        return 1 / (1 + exp(-x));
    case ERF:
        return erf(x);
    case ISNAN:
        return x != x;
    default:
        return x > 0 ? x : 0;
    }
}

static enum ps_status unary(const struct call *call) {
    const enum unary kind = (enum unary)call->kind;
    const struct tensor *in = call->in[0];
    TRY(fold_take(call->fold, kind == NOT || kind == ISNAN ? ONNX_BOOL : in->type, in->rank, in->dims, call->out));
    for (int64_t e = 0; e < in->elements; e++) {
        double value = unary_real(kind, in->reals != NULL ? in->reals[e] : (double)in->whole[e]);
        if (call->out[0]->reals != NULL)
            call->out[0]->reals[e] = rounded(in->type, value);
        else
            call->out[0]->whole[e] = kind == NEG ? (int64_t)(0 - (uint64_t)in->whole[e]) : whole_of(value);
    }
    return PS_OK;
}

static enum ps_status where(const struct call *call) {
    int rank, first;
    int64_t dims[ONNX_RANK_MAX], both[ONNX_RANK_MAX], s[3][ONNX_RANK_MAX], index[ONNX_RANK_MAX] = {0};
    const struct tensor *const *in = call->in;
    if (call->count != 3 || in[0]->whole == NULL || (in[1]->reals == NULL) != (in[2]->reals == NULL) ||
        !fold_broadcast(in[0]->rank, in[0]->dims, in[1]->rank, in[1]->dims, &first, both) ||
        !fold_broadcast(first, both, in[2]->rank, in[2]->dims, &rank, dims))
        return refuse(call, "its inputs do not fit together");
    TRY(fold_take(call->fold, in[1]->type, rank, dims, call->out));
    for (int i = 0; i < 3; i++) broadcast_strides(in[i], rank, s[i]);
    for (int64_t e = 0; e < call->out[0]->elements; e++) {
        int which = in[0]->whole[at(rank, index, s[0])] != 0 ? 1 : 2;
        words(call->out[0])[e] = words(in[which])[at(rank, index, s[which])];
        next_index(rank, dims, index);
    }
    return PS_OK;
}

static enum ps_status cumulate(const struct call *call) {
    const bool exclusive = onnx_int(call->node, "exclusive", 0) != 0, reverse = onnx_int(call->node, "reverse", 0) != 0;
    const struct tensor *in = call->in[0];
    int axis;
    if (call->in[1]->whole == NULL || call->in[1]->elements != 1) return refuse(call, "its axis is no integer");
    TRY(fold_axis(call->in[1]->whole[0], in->rank, &axis, call->fold->error));
    TRY(fold_take(call->fold, in->type, in->rank, in->dims, call->out));
    int64_t inner = product(in->rank - axis - 1, in->dims + axis + 1), length = in->dims[axis];
    for (int64_t line = 0; in->elements > 0 && line < in->elements / length; line++) {
        int64_t start = line / inner * length * inner + line % inner, whole = 0;
        double real = 0;
        for (int64_t i = 0; i < length; i++) {
            int64_t place = start + (reverse ? length - 1 - i : i) * inner;
            double x = in->reals != NULL ? in->reals[place] : 0;
            int64_t w = in->whole != NULL ? in->whole[place] : 0;
            if (in->reals != NULL) call->out[0]->reals[place] = rounded(in->type, exclusive ? real : real + x);
            if (in->whole != NULL) call->out[0]->whole[place] = exclusive ? whole : (int64_t)((uint64_t)whole + (uint64_t)w);
            real += x;
            whole = (int64_t)((uint64_t)whole + (uint64_t)w);
        }
    }
    return PS_OK;
}

static enum ps_status triangle(const struct call *call) {
    const bool upper = onnx_int(call->node, "upper", 1) != 0;
    const struct tensor *in = call->in[0], *shift = call->count > 1 ? call->in[1] : NULL;
    const int64_t k = shift != NULL && shift->whole != NULL && shift->elements > 0 ? shift->whole[0] : 0;
    if (in->rank < 2) return refuse(call, "a matrix is needed");
    const int64_t columns = in->dims[in->rank - 1], rows = in->dims[in->rank - 2];
    TRY(fold_take(call->fold, in->type, in->rank, in->dims, call->out));
    for (int64_t e = 0; e < in->elements; e++) {
        int64_t row = e / columns % rows, column = e % columns;
        if (upper ? column - row >= k : column - row <= k) words(call->out[0])[e] = words(in)[e];
    }
    return PS_OK;
}

enum reduction { SUM, PROD, MEAN, LARGEST, LEAST };

static enum ps_status reduce(const struct call *call) {
    const struct tensor *in = call->in[0];
    const bool keep = onnx_int(call->node, "keepdims", 1) != 0;
    bool marks[ONNX_RANK_MAX];
    int64_t dims[ONNX_RANK_MAX], strides[ONNX_RANK_MAX], index[ONNX_RANK_MAX] = {0};
    TRY(fold_axes_of(call->node, call->count > 1 ? call->in[1] : NULL, in->rank, marks, call->fold->error));
    for (int d = 0; d < in->rank; d++) dims[d] = marks[d] ? 1 : in->dims[d];
    TRY(fold_take(call->fold, in->type, in->rank, dims, call->out));
    struct tensor *out = call->out[0];
    fold_strides(in->rank, dims, strides);
    for (int d = 0; d < in->rank; d++)
        if (marks[d]) strides[d] = 0;
    const int64_t each = out->elements > 0 ? in->elements / out->elements : 1;
    if (in->elements == 0 && out->elements > 0 && call->kind >= MEAN) return refuse(call, "its input has no elements");
    for (int64_t e = 0; call->kind == PROD && e < out->elements; e++) { /* of nothing */
        if (out->reals != NULL) out->reals[e] = 1;
        if (out->whole != NULL) out->whole[e] = 1;
    }
    for (int64_t e = 0; e < in->elements; e++) {
        int64_t to = at(in->rank, index, strides);
        bool fresh = true;
        for (int d = 0; d < in->rank; d++) fresh = fresh && (!marks[d] || index[d] == 0);
        double x = in->reals != NULL ? in->reals[e] : (double)in->whole[e];
        double y = out->reals != NULL ? out->reals[to] : (double)out->whole[to];
        if (call->kind == MEAN) x /= (double)each;
        double value = fresh                   ? x
                       : call->kind == PROD    ? x * y
                       : call->kind == LARGEST ? fmax(x, y)
                       : call->kind == LEAST   ? fmin(x, y)
                                               : x + y;
        if (out->reals != NULL)
            out->reals[to] = value;
        else
            out->whole[to] = whole_of(value);
        next_index(in->rank, in->dims, index);
    }
    for (int64_t e = 0; out->reals != NULL && e < out->elements; e++) out->reals[e] = rounded(out->type, out->reals[e]);
    if (keep) return PS_OK;
    out->rank = 0;
    for (int d = 0; d < in->rank; d++)
        if (!marks[d]) out->dims[out->rank++] = in->dims[d];
    return PS_OK;
}

/* A vector is a matrix of one row, or of one column behind the other, and its dimension is left out. */
static enum ps_status matrix_product(const struct call *call) {
    struct tensor row = *call->in[0], column = *call->in[1];
    const struct tensor *a = &row, *b = &column;
    if (row.rank == 1) row.dims[1] = row.dims[0], row.dims[0] = 1, row.rank = 2;
    if (column.rank == 1) column.dims[1] = 1, column.rank = 2;
    int rank;
    int64_t dims[ONNX_RANK_MAX], sa[ONNX_RANK_MAX], sb[ONNX_RANK_MAX], index[ONNX_RANK_MAX] = {0};
    if (a->rank < 2 || b->rank < 2 || a->reals == NULL || b->reals == NULL || a->dims[a->rank - 1] != b->dims[b->rank - 2] ||
        !fold_broadcast(a->rank - 2, a->dims, b->rank - 2, b->dims, &rank, dims))
        return refuse(call, "its inputs do not fit together");
    const int64_t rows = a->dims[a->rank - 2], inner = a->dims[a->rank - 1], columns = b->dims[b->rank - 1];
    rank += 2;
    dims[rank - 2] = rows;
    dims[rank - 1] = columns;
    TRY(fold_take(call->fold, a->type, rank, dims, call->out));
    broadcast_strides(a, rank, sa);
    broadcast_strides(b, rank, sb);
    sa[rank - 1] = sb[rank - 2] = 0;
    if (call->out[0]->elements > 0 && inner > ((int64_t)1 << 33) / call->out[0]->elements)
        return refuse(call, "a product of constants that is too large");
    for (int64_t e = 0; e < call->out[0]->elements; e++) {
        const double *x = a->reals + at(rank, index, sa), *y = b->reals + at(rank, index, sb);
        double sum = 0;
        for (int64_t i = 0; i < inner; i++) sum += x[i] * y[i * columns];
        call->out[0]->reals[e] = rounded(a->type, sum);
        next_index(rank, dims, index);
    }
    struct tensor *out = call->out[0];
    if (call->in[1]->rank == 1) out->rank--;
    if (call->in[0]->rank == 1) {
        out->rank--;
        if (call->in[1]->rank > 1) out->dims[out->rank - 1] = columns;
    }
    return PS_OK;
}

static const struct row {
    const char *op;
    enum ps_status (*compute)(const struct call *call);
    int kind, inputs; /* at least */
} rows[] = {
    {"Abs", unary, ABS, 1},
    {"Add", binary, ADD, 2},
    {"And", binary, AND, 2},
    {"Cast", cast, 0, 1},
    {"CastLike", cast, 0, 2},
    {"Ceil", unary, CEIL, 1},
    {"Clip", clip, 0, 1},
    {"Concat", concat, 0, 1},
    {"Constant", constant, 0, 0},
    {"ConstantOfShape", constant_of_shape, 0, 1},
    {"Cos", unary, COS, 1},
    {"CumSum", cumulate, 0, 2},
    {"Div", binary, DIV, 2},
    {"Dropout", identity, 0, 1},
    {"Equal", binary, EQUAL, 2},
    {"Erf", unary, ERF, 1},
    {"Exp", unary, EXP, 1},
    {"Expand", expand, 0, 2},
    {"Flatten", reshape, 0, 1},
    {"Floor", unary, FLOOR, 1},
    {"Gather", gather, 0, 2},
    {"GatherElements", gather_elements, 0, 2},
    {"GatherND", gather_nd, 0, 2},
    {"Greater", binary, GREATER, 2},
    {"GreaterOrEqual", binary, GREATER_EQUAL, 2},
    {"Identity", identity, 0, 1},
    {"IsNaN", unary, ISNAN, 1},
    {"Less", binary, LESS, 2},
    {"LessOrEqual", binary, LESS_EQUAL, 2},
    {"Log", unary, LOG, 1},
    {"MatMul", matrix_product, 0, 2},
    {"Max", binary, MAX, 1},
    {"Min", binary, MIN, 1},
    {"Mod", binary, MOD, 2},
    {"Mul", binary, MUL, 2},
    {"Neg", unary, NEG, 1},
    {"Not", unary, NOT, 1},
    {"Or", binary, OR, 2},
    {"Pow", binary, POW, 2},
    {"Range", range, 0, 3},
    {"Reciprocal", unary, RECIPROCAL, 1},
    {"ReduceMax", reduce, LARGEST, 1},
    {"ReduceMean", reduce, MEAN, 1},
    {"ReduceMin", reduce, LEAST, 1},
    {"ReduceProd", reduce, PROD, 1},
    {"ReduceSum", reduce, SUM, 1},
    {"Relu", unary, RELU, 1},
    {"Reshape", reshape, 0, 2},
    {"Round", unary, ROUND, 1},
    {"ScatterElements", scatter_elements, 0, 3},
    {"ScatterND", scatter_nd, 0, 3},
    {"Sigmoid", unary, SIGMOID, 1},
    {"Sign", unary, SIGN, 1},
    {"Sin", unary, SIN, 1},
    {"Slice", slice, 0, 3},
    {"Split", split, 0, 1},
    {"Sqrt", unary, SQRT, 1},
    {"Squeeze", reshape, 0, 1},
    {"Sub", binary, SUB, 2},
    {"Sum", binary, ADD, 1},
    {"Tanh", unary, TANH, 1},
    {"Tile", tile, 0, 2},
    {"Transpose", transpose, 0, 1},
    {"Trilu", triangle, 0, 1},
    {"Unsqueeze", reshape, 0, 1},
    {"Where", where, 0, 3},
    {"Xor", binary, XOR, 2},
};

static const struct row *find(const char *op) {
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        if (strcmp(rows[r].op, op) == 0) return &rows[r];
    return NULL;
}

bool fold_knows(const char *op) { return find(op) != NULL; }

enum ps_status fold_node(struct fold *fold, const struct onnx_node *node, const struct tensor *const *inputs,
                         struct tensor **outputs) {
    const struct row *row = find(node->op);
    struct call call = {fold, node, inputs, node->input_count, outputs, row->kind};
    while (call.count > 0 && inputs[call.count - 1] == NULL) call.count--;
    for (int i = 0; i < row->inputs; i++)
        if (i >= call.count || inputs[i] == NULL)
            return error_set(fold->error, PS_BAD_INPUT, "%d inputs are needed", row->inputs);
    return row->compute(&call);
}
