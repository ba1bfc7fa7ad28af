/*
 * What each ONNX operator becomes: a row of the table at the end for each. Handlers read their inputs as constants or views and
 * leave views of steps; none of them knows how anything lies in memory.
 */
#include "onnx/lower.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

/* ------------------------------------------------------------------- steps */

struct view *view_new(struct lowering *l, const struct view *from) {
    return arena_copy(&l->arena, from, 1, sizeof *from);
}

struct step *step_add(struct lowering *l, enum step_kind kind, const struct onnx_node *node, int inputs) {
    if (l->step_count == l->step_capacity) {
        int capacity = 2 * l->step_capacity + 64;
        struct step **grown = realloc(l->steps, (size_t)capacity * sizeof(struct step *));
        if (grown == NULL) {
            l->arena.refused = (size_t)capacity * sizeof(struct step *);
            return NULL;
        }
        l->steps = grown;
        l->step_capacity = capacity;
    }
    struct step *step = arena_take(&l->arena, 1, sizeof *step);
    struct view **views = arena_take(&l->arena, (size_t)inputs, sizeof(struct view *));
    if (step == NULL || views == NULL) return NULL;
    step->kind = kind;
    step->node = node;
    step->inputs = views;
    step->input_count = inputs;
    step->onnx_type = ONNX_FLOAT;
    step->output.step = l->step_count;
    l->steps[l->step_count++] = step;
    return step;
}

/* One atom a dimension, row-major, without a batch. */
static void plain_view(struct view *view, int rank, const int64_t *dims) {
    view->rank = rank;
    view->count = 0;
    memcpy(view->dims, dims, (size_t)rank * sizeof *dims);
    for (int d = 0; d < rank; d++)
        if (dims[d] > 1) view->atoms[view->count++] = (struct atom){dims[d], 1, d, false};
    view_natural(view);
}

struct view *constant_view(struct lowering *l, const struct tensor *tensor) {
    struct step *step = step_add(l, STEP_CONSTANT, NULL, 0);
    if (step == NULL) return NULL;
    step->tensor = tensor;
    step->onnx_type = tensor->type;
    plain_view(&step->output, tensor->rank, tensor->dims);
    return &step->output;
}

/* ------------------------------------------------------- what a handler sees */

struct row;
struct call {
    struct lowering *l;
    const struct onnx_node *node;
    const struct row *row;
    struct ps_error *error;
};

struct row {
    const char *op;
    enum ps_status (*lower)(const struct call *call);
    const char *function;
    int since; /* the opset in which the operator became what the handler knows; 0: it always was */
};

static enum ps_status refuse(const struct call *call, const char *what) {
    return error_set(call->error, PS_BAD_INPUT, "%s", what);
}

static enum ps_status memory(const struct call *call) { return arena_check(&call->l->arena, "an ONNX file", call->error); }

static struct value *input(const struct call *call, int i) {
    static struct value absent;
    return i < call->node->input_count ? &call->l->values[call->node->inputs[i]] : &absent;
}

static bool given(const struct call *call, int i) { return input(call, i)->kind != VALUE_ABSENT; }

/* A constant input, or NULL. */
static const struct tensor *constant(const struct call *call, int i) {
    const struct value *value = input(call, i);
    return value->kind == VALUE_CONSTANT ? value->tensor : NULL;
}

/* The input as a view that the handler may change; a constant becomes a step. */
static enum ps_status view(const struct call *call, int i, struct view **out) {
    const struct value *value = input(call, i);
    if (value->kind == VALUE_CONSTANT)
        *out = constant_view(call->l, value->tensor);
    else if (value->kind == VALUE_VIEW)
        *out = view_new(call->l, value->view);
    else
        return error_set(call->error, PS_BAD_INPUT, "its input %d is %s", i,
                         value->kind == VALUE_ABSENT ? "left out" : "a sequence");
    return memory(call);
}

static void give(const struct call *call, int output, struct view *result) {
    if (output >= call->node->output_count || call->node->outputs[output] == 0) return;
    call->l->values[call->node->outputs[output]] = (struct value){.kind = VALUE_VIEW, .view = result};
}

static enum ps_status give_constant(const struct call *call, int output, struct tensor *tensor) {
    if (output < call->node->output_count && call->node->outputs[output] != 0)
        call->l->values[call->node->outputs[output]] = (struct value){.kind = VALUE_CONSTANT, .tensor = tensor};
    return PS_OK;
}

static int type_of(const struct call *call, int i) {
    const struct value *value = input(call, i);
    if (value->kind == VALUE_CONSTANT) return value->tensor->type;
    return value->kind == VALUE_VIEW ? call->l->steps[value->view->step]->onnx_type : ONNX_FLOAT;
}

/* A step of one input whose output has the input's dimensions. */
static struct step *same(const struct call *call, enum step_kind kind, struct view *x) {
    struct step *step = step_add(call->l, kind, call->node, 1);
    if (step == NULL) return NULL;
    const int number = step->output.step;
    step->inputs[0] = x;
    step->output = *x;
    step->output.step = number;
    for (int i = 0; i < step->output.count; i++)
        if (step->output.atoms[i].stride != 0) step->output.atoms[i].stride = 1;
    view_natural(&step->output);
    step->onnx_type = call->l->steps[x->step]->onnx_type;
    return step;
}

/* The step's output gets the dimensions; those that `from` says keep the atoms of x's dimension of that number (-1: one new
 * atom). */
static enum ps_status shape_output(const struct call *call, struct step *step, const struct view *x, int rank,
                                   const int64_t *dims, const int *from) {
    struct view *out = &step->output;
    out->rank = rank;
    out->count = 0;
    for (int d = 0; d < rank; d++) {
        out->dims[d] = dims[d];
        for (int i = 0; from[d] >= 0 && i < x->count; i++) {
            if (x->atoms[i].axis != from[d]) continue;
            if (out->count == ATOMS_MAX) return refuse(call, "its output has too many dimensions");
            out->atoms[out->count] = x->atoms[i];
            out->atoms[out->count].stride = x->atoms[i].stride != 0;
            out->atoms[out->count++].axis = d;
        }
        if (from[d] >= 0 || dims[d] == 1) continue;
        if (out->count == ATOMS_MAX) return refuse(call, "its output has too many dimensions");
        out->atoms[out->count++] = (struct atom){dims[d], 1, d, false};
    }
    view_natural(out);
    return PS_OK;
}

/* Of a tensor that is one number wherever one looks. */
static bool uniform(const struct tensor *tensor, double *number) {
    if (tensor == NULL || tensor->elements == 0) return false;
    *number = tensor->reals != NULL ? tensor->reals[0] : (double)tensor->whole[0];
    for (int64_t e = 1; e < tensor->elements; e++)
        if ((tensor->reals != NULL ? tensor->reals[e] : (double)tensor->whole[e]) != *number) return false;
    return true;
}

/* ------------------------------------------------------------- other views */

static enum ps_status lower_identity(const struct call *call) {
    const struct value *value = input(call, 0);
    if (call->node->outputs[0] != 0) call->l->values[call->node->outputs[0]] = *value;
    return PS_OK;
}

static enum ps_status lower_reshape(const struct call *call) {
    struct view *x, made;
    int rank;
    int64_t dims[ONNX_RANK_MAX];
    const struct tensor *inputs[2] = {NULL, constant(call, 1)};
    if (given(call, 1) && inputs[1] == NULL) return refuse(call, "its shape or axes depend on the data");
    TRY(view(call, 0, &x));
    TRY(fold_reshape_of(call->node, inputs, call->l->model->opset, x->rank, x->dims, &rank, dims, call->error));
    TRY(view_reshape(call->l, x, rank, dims, &made));
    *x = made;
    give(call, 0, x);
    return PS_OK;
}

static enum ps_status lower_transpose(const struct call *call) {
    const struct onnx_attribute *perm = onnx_attribute(call->node, "perm");
    struct view *x, made;
    int order[ONNX_RANK_MAX];
    unsigned seen = 0;
    TRY(view(call, 0, &x));
    if (perm != NULL && perm->count != x->rank) return refuse(call, "its order does not fit");
    for (int d = 0; d < x->rank; d++) {
        TRY(fold_axis(perm != NULL ? perm->ints[d] : x->rank - 1 - d, x->rank, &order[d], call->error));
        seen |= 1u << order[d];
    }
    if (seen != (1u << x->rank) - 1) return refuse(call, "its order names an axis twice");
    TRY(view_transpose(x, order, &made));
    *x = made;
    give(call, 0, x);
    return PS_OK;
}

static enum ps_status lower_expand(const struct call *call) {
    const struct tensor *shape = constant(call, 1);
    struct view *x, made;
    if (shape == NULL || shape->whole == NULL || shape->elements > ONNX_RANK_MAX)
        return refuse(call, "its shape depends on the data");
    TRY(view(call, 0, &x));
    TRY(view_expand(call->l, x, (int)shape->elements, shape->whole, &made));
    *x = made;
    give(call, 0, x);
    return PS_OK;
}

static enum ps_status lower_shape(const struct call *call) {
    const struct value *value = input(call, 0);
    struct tensor *made;
    const int64_t *dims = value->kind == VALUE_VIEW       ? value->view->dims
                          : value->kind == VALUE_CONSTANT ? value->tensor->dims
                                                          : NULL;
    const int rank = value->kind == VALUE_VIEW ? value->view->rank : value->kind == VALUE_CONSTANT ? value->tensor->rank : 0;
    if (dims == NULL) return refuse(call, "an input is needed");
    if (call->row->function != NULL) { /* Size */
        TRY(fold_take(&call->l->fold, ONNX_INT64, 0, NULL, &made));
        made->whole[0] = 1;
        for (int d = 0; d < rank; d++) made->whole[0] *= dims[d];
        return give_constant(call, 0, made);
    }
    int64_t start = onnx_int(call->node, "start", 0), end = onnx_int(call->node, "end", rank);
    if (start < 0) start += rank;
    if (end < 0) end += rank;
    start = start < 0 ? 0 : start > rank ? rank : start;
    end = end < start ? start : end > rank ? rank : end;
    const int64_t count = end - start;
    TRY(fold_take(&call->l->fold, ONNX_INT64, 1, &count, &made));
    for (int64_t d = 0; d < count; d++) made->whole[d] = dims[start + d];
    return give_constant(call, 0, made);
}

/* ------------------------------------------------------------------ pieces */

static enum ps_status slice_axis(const struct call *call, struct view **x, int axis, int64_t first, int64_t count,
                                 int64_t stride) {
    const struct view *v = *x;
    int64_t dims[ONNX_RANK_MAX];
    int from[ONNX_RANK_MAX];
    if (first == 0 && stride == 1 && count == v->dims[axis]) return PS_OK;
    if (count == 0) return refuse(call, "nothing would be left of its input");
    if (view_has_batch(v, axis)) return refuse(call, "it would take some samples of a batch");
    struct step *step = step_add(call->l, STEP_SLICE, call->node, 1);
    if (step == NULL) return memory(call);
    for (int d = 0; d < v->rank; d++) {
        dims[d] = d == axis ? count : v->dims[d];
        from[d] = d == axis ? -1 : d;
    }
    step->inputs[0] = view_new(call->l, v);
    step->axis = axis;
    step->first = first;
    step->length = count;
    step->stride = stride;
    step->onnx_type = call->l->steps[v->step]->onnx_type;
    TRY(shape_output(call, step, v, v->rank, dims, from));
    *x = view_new(call->l, &step->output);
    return memory(call);
}

static enum ps_status lower_slice(const struct call *call) {
    const struct tensor *inputs[5];
    struct fold_slice part;
    struct view *x;
    for (int i = 0; i < 5; i++) {
        inputs[i] = constant(call, i);
        if (i > 0 && given(call, i) && inputs[i] == NULL) return refuse(call, "its bounds depend on the data");
    }
    TRY(view(call, 0, &x));
    TRY(fold_slice_of(inputs, 5, x->rank, x->dims, &part, call->error));
    for (int d = 0; d < x->rank; d++) TRY(slice_axis(call, &x, d, part.first[d], part.count[d], part.step[d]));
    give(call, 0, x);
    return PS_OK;
}

/* Split, and SplitToSequence with one output of several items. */
static enum ps_status lower_split(const struct call *call) {
    const bool sequence = call->row->function != NULL;
    const struct tensor *sizes = constant(call, 1);
    struct view *x, *part;
    int axis;
    int64_t first = 0;
    if (given(call, 1) && (sizes == NULL || sizes->whole == NULL)) return refuse(call, "its sizes depend on the data");
    TRY(view(call, 0, &x));
    TRY(fold_axis(onnx_int(call->node, "axis", 0), x->rank, &axis, call->error));
    const int64_t all = x->dims[axis];
    const bool scalar = sizes != NULL && sizes->rank == 0;
    if (scalar && sizes->whole[0] < 1) return refuse(call, "its sizes do not fit");
    int64_t count = !sequence       ? call->node->output_count
                    : scalar        ? (all + sizes->whole[0] - 1) / sizes->whole[0]
                    : sizes != NULL ? sizes->elements
                                    : all;
    if (count < 1 || count > 4096 || (sizes != NULL && !scalar && sizes->elements != count))
        return refuse(call, "its sizes do not fit");
    struct value *items = arena_take(&call->l->arena, (size_t)count, sizeof *items);
    if (items == NULL) return memory(call);
    for (int64_t p = 0; p < count; p++) {
        int64_t each = scalar ? sizes->whole[0] : sizes != NULL ? sizes->whole[p] : (all + count - 1) / count;
        if (each > all - first && (sizes == NULL || scalar)) each = all - first;
        if (each < 1 || each > all - first) return refuse(call, "its sizes do not fit");
        part = view_new(call->l, x);
        if (part == NULL) return memory(call);
        TRY(slice_axis(call, &part, axis, first, each, 1));
        first += each;
        if (sequence)
            items[p] = (struct value){.kind = VALUE_VIEW, .view = part};
        else
            give(call, (int)p, part);
    }
    if (sequence)
        call->l->values[call->node->outputs[0]] =
            (struct value){.kind = VALUE_SEQUENCE, .items = items, .item_count = (int)count};
    return PS_OK;
}

static enum ps_status lower_sequence_at(const struct call *call) {
    const struct value *sequence = input(call, 0);
    const struct tensor *place = constant(call, 1);
    if (sequence->kind != VALUE_SEQUENCE || place == NULL || place->whole == NULL || place->elements != 1)
        return refuse(call, "a sequence and a constant place in it are needed");
    int64_t at = place->whole[0] < 0 ? place->whole[0] + sequence->item_count : place->whole[0];
    if (at < 0 || at >= sequence->item_count) return refuse(call, "its place is outside of the sequence");
    if (call->node->outputs[0] != 0) call->l->values[call->node->outputs[0]] = sequence->items[at];
    return PS_OK;
}

static enum ps_status concat_views(const struct call *call, struct view **parts, int count, int axis, struct view **out) {
    struct view made;
    int64_t all = 0;
    *out = parts[0];
    if (count == 1) return PS_OK;
    struct step *step = step_add(call->l, STEP_CONCAT, call->node, count);
    if (step == NULL) return memory(call);
    for (int i = 0; i < count; i++) {
        if (parts[i]->rank != parts[0]->rank) return refuse(call, "its inputs do not fit together");
        if (view_has_batch(parts[i], axis)) return refuse(call, "it would join samples to one");
        step->inputs[i] = view_new(call->l, parts[i]);
        all += parts[i]->dims[axis];
    }
    TRY(memory(call));
    TRY(views_align(call->l, step->inputs, count, axis, &made));
    int place = 0;
    while (place < made.count && made.atoms[place].axis < axis) place++;
    if (made.count == ATOMS_MAX) return refuse(call, "its output has too many dimensions");
    memmove(&made.atoms[place + 1], &made.atoms[place], (size_t)(made.count++ - place) * sizeof *made.atoms);
    made.atoms[place] = (struct atom){all, 1, axis, false};
    made.dims[axis] = all;
    made.step = step->output.step;
    for (int i = 0; i < made.count; i++) made.atoms[i].stride = made.atoms[i].stride != 0;
    view_natural(&made);
    step->output = made;
    step->axis = axis;
    step->onnx_type = call->l->steps[step->inputs[0]->step]->onnx_type;
    *out = view_new(call->l, &made);
    return memory(call);
}

/* --------------------------------------------------------------- gathering */

/* The whole initializer as it lies in the file: its view, or NULL. */
static const struct view *whole_parameter(const struct lowering *l, const struct view *v) {
    const struct step *step = l->steps[v->step];
    if (step->kind != STEP_PARAMETER && step->kind != STEP_CONSTANT) return NULL;
    int64_t stride = 1;
    for (int i = v->count - 1; i >= 0; i--) {
        if (v->atoms[i].batch || v->atoms[i].stride != stride) return NULL;
        stride *= v->atoms[i].size;
    }
    return stride == view_elements(&step->output) ? v : NULL;
}

/* Places one after the other, in equal steps. */
static bool is_run(const int64_t *places, int64_t count) {
    for (int64_t i = 2; i < count; i++)
        if (places[i] - places[i - 1] != places[1] - places[0]) return false;
    return count < 2 || places[1] > places[0];
}

/* Constant indices into one axis that holds no batch: a list of places. */
static enum ps_status select_axis(const struct call *call, struct view **x, int axis, const int64_t *places, int64_t count) {
    const struct view *v = *x;
    for (int64_t i = 0; i < count; i++)
        if (places[i] < 0 || places[i] >= v->dims[axis]) return refuse(call, "an index is outside of its input");
    if (is_run(places, count)) return slice_axis(call, x, axis, places[0], count, count > 1 ? places[1] - places[0] : 1);
    int64_t dims[ONNX_RANK_MAX];
    int from[ONNX_RANK_MAX];
    struct tensor *list;
    struct step *step = step_add(call->l, STEP_SELECT, call->node, 1);
    if (step == NULL) return memory(call);
    TRY(fold_take(&call->l->fold, ONNX_INT64, 1, &count, &list));
    if (count > 0) memcpy(list->whole, places, (size_t)count * sizeof *places);
    for (int d = 0; d < v->rank; d++) {
        dims[d] = d == axis ? count : v->dims[d];
        from[d] = d == axis ? -1 : d;
    }
    step->inputs[0] = view_new(call->l, v);
    step->axis = axis;
    step->tensor = list;
    step->onnx_type = call->l->steps[v->step]->onnx_type;
    TRY(shape_output(call, step, v, v->rank, dims, from));
    *x = view_new(call->l, &step->output);
    return memory(call);
}

/*
 * Indices into the axis that holds the batch, as masks are gathered: where sample n takes rows of itself alone, index = n * I +
 * f with 0 <= f < I, one of the indices' dimensions is the batch. What remains is f into the axis without the batch.
 */
static enum ps_status gather_batch(const struct call *call, struct view *x, int axis, const struct tensor *index,
                                   struct view **out) {
    const int64_t n = call->l->batch, inside = x->dims[axis] / n;
    int64_t dims[2 * ONNX_RANK_MAX], own[ONNX_RANK_MAX], strides[ONNX_RANK_MAX];
    int first = -1, which = -1, rank = 0;
    for (int i = x->count - 1; i >= 0; i--)
        if (x->atoms[i].axis == axis) first = i;
    if (first < 0 || !x->atoms[first].batch || n < 2) return refuse(call, "it would take rows of other samples");
    fold_strides(index->rank, index->dims, strides);
    for (int d = 0; d < index->rank && which < 0; d++) {
        bool fits = index->dims[d] == n;
        for (int64_t e = 0; fits && e < index->elements; e++) {
            int64_t sample = e / strides[d] % n;
            fits = index->whole[e] / inside == sample &&
                   index->whole[e] - sample * inside == index->whole[e - sample * strides[d]];
        }
        if (fits) which = d;
    }
    if (which < 0) return refuse(call, "it would take rows of other samples");
    /* The axis without the batch, which stands in front alone meanwhile. */
    struct view bare = {.step = x->step, .rank = x->rank + 1};
    bare.dims[0] = n;
    bare.atoms[bare.count++] = (struct atom){n, 0, 0, true};
    for (int d = 0; d < x->rank; d++) bare.dims[d + 1] = d == axis ? inside : x->dims[d];
    for (int i = 0; i < x->count; i++) {
        if (x->atoms[i].batch) continue;
        bare.atoms[bare.count] = x->atoms[i];
        bare.atoms[bare.count++].axis++;
    }
    const int64_t count = index->elements / n;
    int64_t *places = arena_take(&call->l->arena, (size_t)count, sizeof *places), used = 0;
    struct view *part = view_new(call->l, &bare);
    if (places == NULL || part == NULL) return memory(call);
    for (int64_t e = 0; e < index->elements; e++)
        if (e / strides[which] % n == 0) places[used++] = index->whole[e];
    TRY(select_axis(call, &part, axis + 1, places, count));
    /* (n, .., count, ..) to (n, .., the indices' dimensions but the batch, ..), then the batch to its place */
    int order[2 * ONNX_RANK_MAX], at = 0;
    dims[at++] = n;
    for (int d = 0; d < axis; d++) dims[at++] = x->dims[d];
    for (int d = 0; d < index->rank; d++)
        if (d != which) own[rank++] = index->dims[d];
    if (at + rank + x->rank - axis - 1 > ONNX_RANK_MAX) return refuse(call, "its output has too many dimensions");
    for (int d = 0; d < rank; d++) dims[at++] = own[d];
    for (int d = axis + 1; d < x->rank; d++) dims[at++] = x->dims[d];
    struct view made, turned;
    TRY(view_reshape(call->l, part, at, dims, &made));
    for (int d = 0, k = 1; d < at; d++) order[d] = d == axis + which ? 0 : k++;
    TRY(view_transpose(&made, order, &turned));
    *out = view_new(call->l, &turned);
    return memory(call);
}

static enum ps_status embedding_step(const struct call *call, struct view *table, struct view *tokens);

static enum ps_status gather_constant(const struct call *call, struct view *x, int axis, const struct tensor *index) {
    struct view *part = x, made;
    int64_t dims[2 * ONNX_RANK_MAX];
    const int rank = x->rank + index->rank - 1;
    if (index->whole == NULL || rank > ONNX_RANK_MAX || index->elements < 1) return refuse(call, "its indices do not fit");
    if (view_has_batch(x, axis)) {
        TRY(gather_batch(call, x, axis, index, &part));
        give(call, 0, part);
        return PS_OK;
    }
    int64_t *places = arena_copy(&call->l->arena, index->whole, (size_t)index->elements, sizeof *places);
    if (places == NULL) return memory(call);
    for (int64_t e = 0; e < index->elements; e++)
        if (places[e] < 0) places[e] += x->dims[axis];
    /* The same list again and again, as positions are for each sample of a batch: taken once and repeated. */
    int64_t each = index->elements;
    const int lead = index->rank > 1 ? index->rank - 1 : 0;
    if (lead > 0 && index->dims[lead] > 0) {
        const int64_t line = index->dims[lead];
        bool repeats = line < each;
        for (int64_t e = line; e < index->elements && repeats; e++) repeats = places[e] == places[e - line];
        if (repeats) each = line;
    }
    bool one = index->elements > 1;
    for (int64_t e = 1; e < index->elements && one; e++) one = places[e] == places[0];
    if (one) each = 1;
    if (axis == 0 && x->rank == 2 && each > 1 && !is_run(places, each) && whole_parameter(call->l, x) != NULL) {
        struct tensor *tokens; /* rows of a table, as a table of relative positions is read */
        TRY(fold_take(&call->l->fold, ONNX_INT64, 1, &each, &tokens));
        memcpy(tokens->whole, places, (size_t)each * sizeof *places);
        struct view *rows = constant_view(call->l, tokens);
        if (rows == NULL) return memory(call);
        TRY(embedding_step(call, x, rows));
        part = call->l->values[call->node->outputs[0]].view;
    } else
        TRY(select_axis(call, &part, axis, places, each));
    for (int d = 0; d < rank; d++)
        dims[d] = d < axis                 ? x->dims[d]
                  : d < axis + index->rank ? (one || (each < index->elements && d < axis + lead) ? 1 : index->dims[d - axis])
                                           : x->dims[d - index->rank + 1];
    TRY(view_reshape(call->l, part, rank, dims, &made));
    for (int d = axis; d < axis + index->rank; d++) dims[d] = index->dims[d - axis];
    struct view wide;
    TRY(view_expand(call->l, &made, rank, dims, &wide));
    give(call, 0, view_new(call->l, &wide));
    return memory(call);
}

static enum ps_status embedding_step(const struct call *call, struct view *table, struct view *tokens) {
    int64_t dims[ONNX_RANK_MAX];
    int from[ONNX_RANK_MAX];
    if (onnx_int(call->node, "axis", 0) != 0 || table->rank != 2 || whole_parameter(call->l, table) == NULL ||
        tokens->rank + 1 > ONNX_RANK_MAX)
        return refuse(call, "rows of a table that is a parameter can be gathered by tokens, and this is another");
    struct step *step = step_add(call->l, STEP_EMBEDDING, call->node, 1);
    if (step == NULL) return memory(call);
    step->inputs[0] = tokens;
    step->parameters[0] = table;
    for (int d = 0; d <= tokens->rank; d++) {
        dims[d] = d < tokens->rank ? tokens->dims[d] : table->dims[1];
        from[d] = d < tokens->rank ? d : -1;
    }
    TRY(shape_output(call, step, tokens, tokens->rank + 1, dims, from));
    give(call, 0, view_new(call->l, &step->output));
    return memory(call);
}

static enum ps_status lower_gather(const struct call *call) {
    const struct tensor *index = constant(call, 1);
    struct view *x;
    int axis;
    TRY(view(call, 0, &x));
    TRY(fold_axis(onnx_int(call->node, "axis", 0), x->rank, &axis, call->error));
    if (index != NULL) return gather_constant(call, x, axis, index);
    struct view *tokens;
    TRY(view(call, 1, &tokens));
    return embedding_step(call, x, tokens);
}

/* Constant places of the first dimensions: those become one, and the places numbers in it. */
static enum ps_status lower_gather_nd(const struct call *call) {
    const struct tensor *index = constant(call, 1);
    struct view *x, made;
    struct tensor *flat;
    int64_t dims[ONNX_RANK_MAX], places[ONNX_RANK_MAX], all = 1;
    TRY(view(call, 0, &x));
    if (index == NULL || index->whole == NULL || index->rank < 1 || onnx_int(call->node, "batch_dims", 0) != 0)
        return refuse(call, "its indices depend on the data");
    const int64_t named = index->dims[index->rank - 1];
    if (named < 1 || named > x->rank) return refuse(call, "its indices do not fit");
    for (int d = 0; d < named; d++) all *= x->dims[d];
    dims[0] = all;
    for (int d = (int)named; d < x->rank; d++) dims[d - named + 1] = x->dims[d];
    TRY(view_reshape(call->l, x, x->rank - (int)named + 1, dims, &made));
    memcpy(places, index->dims, sizeof places);
    TRY(fold_take(&call->l->fold, ONNX_INT64, index->rank - 1, places, &flat));
    for (int64_t e = 0; e < flat->elements; e++) {
        for (int64_t d = 0; d < named; d++) {
            int64_t one = index->whole[e * named + d];
            one = one < 0 ? one + x->dims[d] : one;
            if (one < 0 || one >= x->dims[d]) return refuse(call, "an index is outside of its input");
            flat->whole[e] = flat->whole[e] * x->dims[d] + one;
        }
    }
    *x = made;
    return gather_constant(call, x, 0, flat);
}

/* ------------------------------------------------------------- elementwise */

static enum ps_status unary_step(const struct call *call, struct view *x, const char *function, double alpha, double beta,
                                 struct view **out) {
    struct step *step = same(call, STEP_UNARY, x);
    if (step == NULL) return memory(call);
    step->function = function;
    step->alpha = (float)alpha;
    step->beta = (float)beta;
    *out = view_new(call->l, &step->output);
    return memory(call);
}

static const struct {
    const char *function;
    float alpha, beta;
} unary_usual[] = {
    {"hardsigmoid", 0.2f, 0.5f}, {"leaky_relu", 0.01f, 0}, {"elu", 1, 0}, {"celu", 1, 0}, {"threshold", 1, 0},
};

static enum ps_status lower_unary(const struct call *call) {
    struct view *x, *out;
    float alpha = 0, beta = 0;
    for (size_t u = 0; u < sizeof unary_usual / sizeof *unary_usual; u++) {
        if (strcmp(unary_usual[u].function, call->row->function) != 0) continue;
        alpha = onnx_float(call->node, "alpha", unary_usual[u].alpha);
        beta = onnx_float(call->node, "beta", unary_usual[u].beta);
    }
    TRY(view(call, 0, &x));
    TRY(unary_step(call, x, call->row->function, (double)alpha, (double)beta, &out));
    give(call, 0, out);
    return PS_OK;
}

static enum ps_status lower_gelu(const struct call *call) {
    struct view *x, *out;
    TRY(view(call, 0, &x));
    const bool tanh_form = strcmp(onnx_string(call->node, "approximate", "none"), "tanh") == 0;
    TRY(unary_step(call, x, "gelu", tanh_form, 0, &out));
    give(call, 0, out);
    return PS_OK;
}

static enum ps_status lower_clip(const struct call *call) {
    struct view *x, *out;
    double low = -3.4028234663852886e38, high = 3.4028234663852886e38;
    if (given(call, 1) && !uniform(constant(call, 1), &low)) return refuse(call, "its bounds depend on the data");
    if (given(call, 2) && !uniform(constant(call, 2), &high)) return refuse(call, "its bounds depend on the data");
    TRY(view(call, 0, &x));
    TRY(unary_step(call, x, low == 0 && high > 3e38 ? "relu" : "clip", low, high, &out));
    give(call, 0, out);
    return PS_OK;
}

/* The constant of one sample: an axis that is (outer, n, inner) becomes (outer, inner). */
static enum ps_status drop_samples(const struct call *call, const struct tensor *tensor, int axis, int64_t n, int64_t inner,
                                   struct tensor **less) {
    int64_t dims[ONNX_RANK_MAX + 1], strides[ONNX_RANK_MAX + 1], own[ONNX_RANK_MAX];
    const int rank = tensor->rank;
    if (rank == ONNX_RANK_MAX) return refuse(call, "its inputs have too many dimensions");
    fold_strides(rank, tensor->dims, own);
    for (int d = 0; d <= rank; d++) {
        const int from = d <= axis ? d : d - 1;
        dims[d] = d == axis ? tensor->dims[axis] / (n * inner) : d == axis + 1 ? inner : tensor->dims[from];
        strides[d] = own[from] * (d == axis ? n * inner : 1);
    }
    TRY(fold_strided(&call->l->fold, tensor, rank + 1, dims, strides, 0, less));
    (*less)->rank = rank;
    for (int d = 0; d < rank; d++) (*less)->dims[d] = d == axis ? tensor->dims[axis] / n : tensor->dims[d];
    return PS_OK;
}

/* It again for all samples, without memory for them. */
static enum ps_status repeat_samples(const struct call *call, const struct tensor *less, int axis, int64_t n, int64_t inner,
                                     const int64_t *dims, struct view **out) {
    const struct view *made = constant_view(call->l, less);
    int64_t strides[ONNX_RANK_MAX];
    if (made == NULL) return memory(call);
    struct view wide = {.step = made->step, .rank = less->rank};
    memcpy(wide.dims, dims, (size_t)less->rank * sizeof *dims);
    fold_strides(less->rank, less->dims, strides);
    for (int d = 0; d < less->rank; d++) {
        const int64_t outer = less->dims[d] / inner;
        if (d != axis && less->dims[d] > 1) wide.atoms[wide.count++] = (struct atom){less->dims[d], strides[d], d, false};
        if (d != axis) continue;
        if (outer > 1) wide.atoms[wide.count++] = (struct atom){outer, strides[d] * inner, d, false};
        wide.atoms[wide.count++] = (struct atom){n, 0, d, false};
        if (inner > 1) wide.atoms[wide.count++] = (struct atom){inner, strides[d], d, false};
    }
    *out = view_new(call->l, &wide);
    return memory(call);
}

/* A constant beside values: what it is for each sample is taken once, if it is the same for all. */
static enum ps_status constant_beside(const struct call *call, const struct tensor *tensor, struct view *const *others,
                                      int count, struct view **out) {
    int rank = tensor->rank;
    struct tensor *less = NULL;
    for (int v = 0; v < count; v++) {
        const struct view *other = others[v];
        for (int i = 0; other != NULL && i < other->count; i++) {
            if (!other->atoms[i].batch || other->atoms[i].size == 1) continue;
            const int axis = other->atoms[i].axis - other->rank + rank; /* counted from the right in both */
            if (axis < 0 || tensor->dims[axis] == 1) continue;
            int64_t inner = 1, tail = 1;
            for (int k = i + 1; k < other->count && other->atoms[k].axis == other->atoms[i].axis; k++)
                inner *= other->atoms[k].size;
            for (int d = axis + 1; d < rank; d++) tail *= tensor->dims[d];
            const int64_t n = other->atoms[i].size, outer = tensor->dims[axis] / (n * inner);
            if (outer * n * inner != tensor->dims[axis]) return refuse(call, "its inputs do not fit together");
            const int64_t *words = tensor->whole != NULL ? tensor->whole : (const int64_t *)(const void *)tensor->reals;
            for (int64_t e = 0; e < tensor->elements; e++) {
                int64_t sample = e / (tail * inner) % n;
                if (words[e] != words[e - sample * tail * inner])
                    return refuse(call, "a constant that differs from sample to sample");
            }
            TRY(drop_samples(call, tensor, axis, n, inner, &less));
            return repeat_samples(call, less, axis, n, inner, tensor->dims, out);
        }
    }
    *out = view_new(call->l, constant_view(call->l, tensor));
    return memory(call);
}

static enum ps_status lower_concat(const struct call *call) {
    const int count = call->node->input_count;
    int axis = 0;
    struct view *out, **parts = arena_take(&call->l->arena, (size_t)count, sizeof(struct view *));
    if (parts == NULL) return memory(call);
    if (count == 0) return refuse(call, "it has no inputs");
    for (int i = 0; i < count; i++)
        if (constant(call, i) == NULL) TRY(view(call, i, &parts[i]));
    for (int i = 0; i < count; i++)
        if (parts[i] == NULL) TRY(constant_beside(call, constant(call, i), parts, count, &parts[i]));
    TRY(fold_axis(onnx_int(call->node, "axis", 0), parts[0]->rank, &axis, call->error));
    TRY(concat_views(call, parts, count, axis, &out));
    give(call, 0, out);
    return PS_OK;
}

/* All inputs as views that fit together. */
static enum ps_status aligned_views(const struct call *call, struct view **views, int count, struct view *output) {
    for (int i = 0; i < count; i++) {
        views[i] = NULL;
        if (constant(call, i) == NULL) TRY(view(call, i, &views[i]));
    }
    for (int i = 0; i < count; i++)
        if (views[i] == NULL) TRY(constant_beside(call, constant(call, i), views, count, &views[i]));
    return views_align(call->l, views, count, -1, output);
}

static enum ps_status aligned_step(const struct call *call, enum step_kind kind, int count, struct step **made) {
    struct view output;
    struct step *step = step_add(call->l, kind, call->node, count);
    if (step == NULL) return memory(call);
    TRY(aligned_views(call, step->inputs, count, &output));
    output.step = step->output.step;
    step->output = output;
    step->function = call->row->function;
    step->onnx_type = type_of(call, count - 1);
    give(call, 0, view_new(call->l, &step->output));
    *made = step;
    return memory(call);
}

/* x op c, or c op x, as one function of x; NULL: there is none. */
static const char *with_number(const char *function, bool swapped, double c, double *alpha, double *beta) {
    *alpha = 1;
    *beta = 0;
    if (strcmp(function, "add") == 0)
        *beta = c;
    else if (strcmp(function, "mul") == 0)
        *alpha = c;
    else if (strcmp(function, "sub") == 0)
        *alpha = swapped ? -1 : 1, *beta = swapped ? c : -c;
    else if (strcmp(function, "div") == 0 && !swapped)
        *alpha = 1 / c;
    else if (strcmp(function, "power") == 0 && !swapped) {
        *alpha = c;
        return c == 1 ? "affine" : c == 0.5 ? "sqrt" : "power";
    } else if (strcmp(function, "div") == 0) {
        *alpha = c;
        return "reciprocal";
    } else
        return NULL;
    return "affine";
}

static enum ps_status lower_binary(const struct call *call) {
    const char *function = call->row->function, *single;
    struct step *step;
    struct view *x, *out;
    double c, alpha, beta;
    if (call->node->input_count < 2)
        return call->node->input_count == 1 ? lower_identity(call) : refuse(call, "two inputs are needed");
    if (call->node->input_count > 2) return refuse(call, "two inputs are accepted");
    if (!onnx_is_float(type_of(call, 0))) return refuse(call, "arithmetic on whole numbers that depend on the data");
    for (int side = 0; side < 2; side++) {
        const struct tensor *number = constant(call, side);
        if (number == NULL || input(call, 1 - side)->kind != VALUE_VIEW || !uniform(number, &c)) continue;
        single = with_number(function, side == 0, c, &alpha, &beta);
        if (single == NULL) break;
        TRY(view(call, 1 - side, &x));
        int rank;
        int64_t dims[ONNX_RANK_MAX];
        if (!fold_broadcast(x->rank, x->dims, number->rank, number->dims, &rank, dims))
            return refuse(call, "its inputs do not fit together");
        if (strcmp(single, "affine") == 0 && alpha == 1 && beta == 0)
            out = x;
        else
            TRY(unary_step(call, x, single, strcmp(single, "sqrt") == 0 ? 0 : alpha, beta, &out));
        if (strcmp(single, "reciprocal") == 0 && alpha != 1) TRY(unary_step(call, out, "affine", alpha, 0, &out));
        struct view wide;
        TRY(view_expand(call->l, out, rank, dims, &wide));
        give(call, 0, view_new(call->l, &wide));
        return memory(call);
    }
    /* A square reads its value once. */
    if (strcmp(function, "mul") == 0 && call->node->inputs[0] == call->node->inputs[1]) {
        TRY(view(call, 0, &x));
        TRY(unary_step(call, x, "power", 2, 0, &out));
        give(call, 0, out);
        return PS_OK;
    }
    return aligned_step(call, STEP_BINARY, 2, &step);
}

static enum ps_status lower_is_nan(const struct call *call) {
    struct view *x;
    TRY(view(call, 0, &x));
    struct step *step = same(call, STEP_COMPARE, x);
    if (step == NULL) return memory(call);
    step->function = call->row->function;
    step->onnx_type = ONNX_BOOL;
    give(call, 0, view_new(call->l, &step->output));
    return memory(call);
}

/* A function of two values that is no node of the file. */
static enum ps_status binary_step(const struct call *call, const char *function, const struct view *a, const struct view *b,
                                  struct view **out) {
    struct view output;
    struct step *step = step_add(call->l, STEP_BINARY, call->node, 2);
    if (step == NULL) return memory(call);
    step->inputs[0] = view_new(call->l, a);
    step->inputs[1] = view_new(call->l, b);
    step->function = function;
    TRY(memory(call));
    TRY(views_align(call->l, step->inputs, 2, -1, &output));
    output.step = step->output.step;
    step->output = output;
    *out = view_new(call->l, &output);
    return memory(call);
}

/* max(0, x) + slope min(0, x), of parts that are known: relu(x) - slope relu(-x). */
static enum ps_status lower_prelu(const struct call *call) {
    struct view *x, *slope, *above, *below;
    TRY(view(call, 0, &x));
    TRY(view(call, 1, &slope));
    TRY(unary_step(call, x, "relu", 0, 0, &above));
    TRY(unary_step(call, x, "neg", 0, 0, &below));
    TRY(unary_step(call, below, "relu", 0, 0, &below));
    TRY(binary_step(call, "mul", below, slope, &below));
    TRY(binary_step(call, "sub", above, below, &above));
    give(call, 0, above);
    return PS_OK;
}

static enum ps_status lower_compare(const struct call *call) {
    struct step *step;
    TRY(aligned_step(call, STEP_COMPARE, 2, &step));
    step->onnx_type = ONNX_BOOL;
    return PS_OK;
}

/* A constant that is the same everywhere decides, or does not matter. */
static enum ps_status with_truth(const struct call *call, bool *done) {
    const bool both = strcmp(call->row->function, "and") == 0, any = strcmp(call->row->function, "or") == 0;
    double truth;
    *done = false;
    for (int i = 0; i < call->node->input_count && (both || any); i++) {
        if (!uniform(constant(call, i), &truth) || (truth != 0) != both) continue;
        struct view *views[2], output, wide;
        TRY(aligned_views(call, views, 2, &output));
        TRY(view_expand(call->l, views[1 - i], output.rank, output.dims, &wide));
        give(call, 0, view_new(call->l, &wide));
        *done = true;
        return memory(call);
    }
    return PS_OK;
}

static enum ps_status lower_logical(const struct call *call) {
    struct step *step;
    bool done;
    TRY(with_truth(call, &done));
    if (done) return PS_OK;
    TRY(aligned_step(call, STEP_LOGICAL, strcmp(call->row->function, "not") == 0 ? 1 : 2, &step));
    step->onnx_type = ONNX_BOOL;
    return PS_OK;
}

/* One input constant and the same for all: the other decides nothing. */
static enum ps_status lower_where(const struct call *call) {
    double truth;
    struct step *step;
    struct view *views[3], output, wide;
    if (uniform(constant(call, 0), &truth)) {
        TRY(aligned_views(call, views, 3, &output));
        const struct view *taken = views[truth != 0 ? 1 : 2];
        TRY(view_expand(call->l, taken, output.rank, output.dims, &wide));
        give(call, 0, view_new(call->l, &wide));
        return memory(call);
    }
    return aligned_step(call, STEP_CHOICE, 3, &step);
}

static enum ps_status lower_cast(const struct call *call) {
    const bool like = strcmp(call->node->op, "CastLike") == 0;
    const int to = like ? type_of(call, 1) : (int)onnx_int(call->node, "to", 0), from = type_of(call, 0);
    struct view *x;
    if (input(call, 0)->kind == VALUE_CONSTANT) { /* CastLike of a constant to a value's type */
        struct onnx_attribute type = {.name = "to", .type = ONNX_ATTRIBUTE_INT, .i = to};
        struct onnx_node cast = {.op = "Cast",
                                 .name = call->node->name,
                                 .domain = "",
                                 .input_count = 1,
                                 .output_count = 1,
                                 .attribute_count = 1,
                                 .attributes = &type};
        const struct tensor *in = constant(call, 0);
        struct tensor *out;
        TRY(fold_node(&call->l->fold, &cast, &in, &out));
        return give_constant(call, 0, out);
    }
    TRY(view(call, 0, &x));
    const bool kept = to == from || (onnx_is_float(to) && onnx_is_float(from)) ||
                      (!onnx_is_float(to) && !onnx_is_float(from) && to != ONNX_BOOL);
    if (kept) {
        give(call, 0, x);
        return PS_OK;
    }
    struct step *step = same(call, STEP_CAST, x);
    if (step == NULL) return memory(call);
    step->onnx_type = to;
    give(call, 0, view_new(call->l, &step->output));
    return memory(call);
}

static enum ps_status lower_dropout(const struct call *call) {
    double rate = 0.5, mode = 0;
    struct view *x;
    if (given(call, 1) && !uniform(constant(call, 1), &rate)) return refuse(call, "its rate depends on the data");
    if (given(call, 2) && !uniform(constant(call, 2), &mode)) return refuse(call, "its mode depends on the data");
    TRY(view(call, 0, &x));
    if (mode == 0 || rate == 0) {
        give(call, 0, x);
        return PS_OK;
    }
    if (!(rate > 0 && rate < 1)) return refuse(call, "its rate must be at least 0 and below 1");
    struct step *step = same(call, STEP_DROPOUT, x);
    if (step == NULL) return memory(call);
    step->attributes.rate = (float)rate;
    give(call, 0, view_new(call->l, &step->output));
    return memory(call);
}

/* ---------------------------------------------------------------- products */

static enum ps_status join_axis(const struct call *call, const struct view *v, int axis) {
    if (!view_has_batch(v, axis)) return PS_OK;
    return refuse(call, "it would sum over the samples of a batch");
}

/* (.., K) by a weight (K, M) that is a parameter. */
static enum ps_status linear_step(const struct call *call, struct view *x, struct view *weight, struct view *bias,
                                  struct view **out) {
    int64_t dims[ONNX_RANK_MAX];
    int from[ONNX_RANK_MAX];
    const int last = x->rank - 1;
    TRY(join_axis(call, x, last));
    struct step *step = step_add(call->l, STEP_LINEAR, call->node, 1);
    if (step == NULL) return memory(call);
    step->inputs[0] = x;
    step->parameters[0] = weight;
    step->parameters[1] = bias;
    for (int d = 0; d <= last; d++) {
        dims[d] = d < last ? x->dims[d] : weight->dims[1];
        from[d] = d < last ? d : -1;
    }
    TRY(shape_output(call, step, x, x->rank, dims, from));
    *out = view_new(call->l, &step->output);
    return memory(call);
}

/* A whole parameter (M, K), or (K, M), that a linear layer can have: seen as (K, M). */
static bool is_weight(const struct lowering *l, const struct view *v) {
    const enum step_kind kind = l->steps[v->step]->kind;
    if ((kind != STEP_PARAMETER && kind != STEP_CONSTANT) || v->rank != 2) return false;
    const int64_t k = v->dims[0], m = v->dims[1];
    if (k * m != view_elements(&l->steps[v->step]->output)) return false;
    struct view joined = *v;
    view_join(&joined, false);
    int64_t stride_k = 0, stride_m = 0;
    int atoms_k = 0, atoms_m = 0;
    for (int i = 0; i < joined.count; i++) {
        if (joined.atoms[i].axis == 0) stride_k = joined.atoms[i].stride, atoms_k++;
        if (joined.atoms[i].axis == 1) stride_m = joined.atoms[i].stride, atoms_m++;
    }
    if (atoms_k > 1 || atoms_m > 1) return false;
    return (k == 1 || m == 1) || (stride_k == 1 && stride_m == k) || (stride_k == m && stride_m == 1);
}

/* (.., M, K) by (.., K, N). */
static enum ps_status product_step(const struct call *call, struct view *a, struct view *b, struct view **out) {
    struct view lead, *heads[2] = {view_new(call->l, a), view_new(call->l, b)};
    if (heads[0] == NULL || heads[1] == NULL) return memory(call);
    TRY(join_axis(call, a, a->rank - 1));
    TRY(join_axis(call, b, b->rank - 2));
    struct view *whole[2] = {a, b};
    for (int i = 0; i < 2; i++) { /* the leading dimensions alone */
        struct view *v = heads[i];
        while (v->count > 0 && v->atoms[v->count - 1].axis >= v->rank - 2) v->count--;
        v->rank -= 2;
    }
    TRY(views_align(call->l, heads, 2, -1, &lead));
    struct step *step = step_add(call->l, STEP_PRODUCT, call->node, 2);
    if (step == NULL) return memory(call);
    for (int i = 0; i < 2; i++) { /* aligned, with the two last behind */
        struct view *v = heads[i];
        const int rank = v->rank, more = rank + 2 - whole[i]->rank;
        for (int d = 0; d < 2; d++) v->dims[rank + d] = whole[i]->dims[whole[i]->rank - 2 + d];
        for (int k = 0; k < whole[i]->count; k++) {
            if (whole[i]->atoms[k].axis + more < rank) continue;
            if (v->count == ATOMS_MAX) return refuse(call, "its inputs have too many dimensions");
            v->atoms[v->count] = whole[i]->atoms[k];
            v->atoms[v->count++].axis += more;
        }
        v->rank = rank + 2;
        step->inputs[i] = v;
    }
    struct view *made = &step->output;
    const int number = made->step, rank = lead.rank;
    *made = lead;
    made->step = number;
    made->rank = rank + 2;
    for (int d = 0; d < 2; d++) {
        const struct view *v = step->inputs[d];
        made->dims[rank + d] = v->dims[rank + d];
        for (int k = 0; k < v->count; k++) {
            if (v->atoms[k].axis != rank + d) continue;
            if (made->count == ATOMS_MAX) return refuse(call, "its output has too many dimensions");
            made->atoms[made->count++] = v->atoms[k];
        }
    }
    for (int i = 0; i < made->count; i++) made->atoms[i].stride = made->atoms[i].stride != 0;
    view_natural(made);
    *out = view_new(call->l, made);
    return memory(call);
}

/* A vector as a matrix of one row or column. */
static enum ps_status as_matrix(const struct call *call, struct view *v, bool column) {
    if (v->rank != 1) return v->rank >= 2 ? PS_OK : refuse(call, "a number cannot be multiplied as a matrix");
    int64_t dims[2] = {column ? v->dims[0] : 1, column ? 1 : v->dims[0]};
    struct view made;
    TRY(view_reshape(call->l, v, 2, dims, &made));
    *v = made;
    return PS_OK;
}

static enum ps_status lower_matmul(const struct call *call) {
    struct view *a, *b, *out, made;
    const bool left = input(call, 1)->kind == VALUE_CONSTANT || input(call, 1)->kind == VALUE_VIEW;
    if (!left) return refuse(call, "two inputs are needed");
    TRY(view(call, 0, &a));
    TRY(view(call, 1, &b));
    const int rank_a = a->rank, rank_b = b->rank;
    TRY(as_matrix(call, a, false));
    TRY(as_matrix(call, b, true));
    if (a->dims[a->rank - 1] != b->dims[b->rank - 2]) return refuse(call, "its inputs do not fit together");
    if (rank_b == 2 && is_weight(call->l, b))
        TRY(linear_step(call, a, b, NULL, &out));
    else
        TRY(product_step(call, a, b, &out));
    if (rank_a == 1 || rank_b == 1) {
        int64_t dims[ONNX_RANK_MAX];
        int rank = 0;
        for (int d = 0; d < out->rank; d++)
            if (!(rank_a == 1 && d == out->rank - 2) && !(rank_b == 1 && d == out->rank - 1)) dims[rank++] = out->dims[d];
        TRY(view_reshape(call->l, out, rank, dims, &made));
        *out = made;
    }
    give(call, 0, out);
    return PS_OK;
}

static enum ps_status lower_gemm(const struct call *call) {
    static const int turned[] = {1, 0};
    const float alpha = onnx_float(call->node, "alpha", 1), beta = onnx_float(call->node, "beta", 1);
    struct view *a, *b, *c = NULL, *out, made;
    TRY(view(call, 0, &a));
    TRY(view(call, 1, &b));
    if (a->rank != 2 || b->rank != 2) return refuse(call, "its inputs must be matrices");
    if (onnx_int(call->node, "transA", 0)) {
        TRY(view_transpose(a, turned, &made));
        *a = made;
    }
    if (onnx_int(call->node, "transB", 0)) {
        TRY(view_transpose(b, turned, &made));
        *b = made;
    }
    if (a->dims[1] != b->dims[0]) return refuse(call, "its inputs do not fit together");
    double zero;
    const bool added = given(call, 2) && beta != 0 && !(uniform(constant(call, 2), &zero) && zero == 0);
    if (added) TRY(view(call, 2, &c));
    const bool own =
        c != NULL && alpha == 1 && beta == 1 && c->rank == 1 && c->dims[0] == b->dims[1] && whole_parameter(call->l, c) != NULL;
    const bool layer = is_weight(call->l, b);
    if (layer)
        TRY(linear_step(call, a, b, own ? c : NULL, &out));
    else
        TRY(product_step(call, a, b, &out));
    if (alpha != 1) TRY(unary_step(call, out, "affine", (double)alpha, 0, &out));
    if (c != NULL && !(own && layer)) {
        if (beta != 1) TRY(unary_step(call, c, "affine", (double)beta, 0, &c));
        TRY(binary_step(call, "add", out, c, &out));
    }
    give(call, 0, out);
    return PS_OK;
}

/* ----------------------------------------------------------------- windows */

/* kernel_shape, strides, pads, dilations of one or two sides; a sequence is an image 1 wide. */
static enum ps_status windows(const struct call *call, const struct view *x, const int64_t *kernel, struct window *window) {
    const struct onnx_attribute *strides = onnx_attribute(call->node, "strides"), *pads = onnx_attribute(call->node, "pads");
    const struct onnx_attribute *dilations = onnx_attribute(call->node, "dilations");
    const char *automatic = onnx_string(call->node, "auto_pad", "NOTSET");
    const int sides = x->rank - 2;
    window[0] = window[1] = (struct window){.kernel = 1, .stride = 1, .dilation = 1};
    if (sides < 1 || sides > 2) return refuse(call, "windows over one or two dimensions are known");
    if ((strides != NULL && strides->count != sides) || (dilations != NULL && dilations->count != sides) ||
        (pads != NULL && pads->count != 2 * sides))
        return refuse(call, "its strides, pads or dilations do not fit");
    for (int s = 0; s < sides; s++) {
        struct window *n = &window[s];
        n->kernel = kernel[s];
        if (strides != NULL) n->stride = strides->ints[s];
        if (dilations != NULL) n->dilation = dilations->ints[s];
        if (pads != NULL) {
            n->before = pads->ints[s];
            n->after = pads->ints[sides + s];
        }
        if (strncmp(automatic, "SAME", 4) == 0 && n->stride > 0) {
            int64_t all = ((x->dims[2 + s] + n->stride - 1) / n->stride - 1) * n->stride + (n->kernel - 1) * n->dilation + 1 -
                          x->dims[2 + s];
            all = all < 0 ? 0 : all;
            n->before = strcmp(automatic, "SAME_LOWER") == 0 ? (all + 1) / 2 : all / 2;
            n->after = all - n->before;
        }
        const int64_t most = 1 << 14;
        if (n->kernel < 1 || n->stride < 1 || n->dilation < 1 || n->before < 0 || n->after < 0 || n->kernel > 1 << 20 ||
            n->stride > most || n->dilation > most || n->before > most || n->after > most)
            return refuse(call, "its window's numbers do not fit");
    }
    return PS_OK;
}

static int64_t window_positions(const struct window *w, int64_t size, bool ceiling) {
    int64_t room = size + w->before + w->after - (w->kernel - 1) * w->dilation - 1;
    if (room < 0) return 0;
    int64_t positions = (room + (ceiling ? w->stride - 1 : 0)) / w->stride + 1;
    return ceiling && (positions - 1) * w->stride >= size + w->before ? positions - 1 : positions;
}

/* (N, C, H, W) or (N, C, L) to channels and the window's positions. */
static enum ps_status window_output(const struct call *call, struct step *step, const struct view *x, int64_t channels) {
    int64_t dims[ONNX_RANK_MAX] = {x->dims[0], channels};
    const int from[ONNX_RANK_MAX] = {0, -1, -1, -1};
    for (int s = 0; s < x->rank - 2; s++) {
        const struct window *w = &step->window[s];
        const int64_t size = x->dims[2 + s];
        dims[2 + s] = window_positions(w, size, step->attributes.ceiling);
        if (step->kind == STEP_DECONVOLUTION)
            dims[2 + s] = (size - 1) * w->stride + (w->kernel - 1) * w->dilation + 1 - w->before - w->after + w->more;
        if (dims[2 + s] < 1) return refuse(call, "its kernel does not fit into its input");
    }
    for (int d = 1; d < x->rank; d++) TRY(join_axis(call, x, d));
    TRY(shape_output(call, step, x, x->rank, dims, from));
    give(call, 0, view_new(call->l, &step->output));
    return memory(call);
}

static enum ps_status lower_convolution(const struct call *call) {
    const bool turned = strcmp(call->node->op, "ConvTranspose") == 0;
    const struct onnx_attribute *more = onnx_attribute(call->node, "output_padding");
    struct view *x, *w, *b = NULL;
    const int64_t groups = onnx_int(call->node, "group", 1);
    double zero;
    TRY(view(call, 0, &x));
    TRY(view(call, 1, &w));
    if (given(call, 2) && !(uniform(constant(call, 2), &zero) && zero == 0)) TRY(view(call, 2, &b));
    if (x->rank < 3 || w->rank != x->rank || groups < 1 || groups > 1 << 24 || w->dims[1] > (1 << 24) / groups ||
        x->dims[1] != (turned ? w->dims[0] : w->dims[1] * groups))
        return refuse(call, "its input and weight do not fit together");
    if (whole_parameter(call->l, w) == NULL || (b != NULL && whole_parameter(call->l, b) == NULL))
        return refuse(call, "its weight must be a parameter as it stands");
    if (turned && (onnx_attribute(call->node, "output_shape") != NULL ||
                   strcmp(onnx_string(call->node, "auto_pad", "NOTSET"), "NOTSET") != 0))
        return refuse(call, "output_shape and auto_pad are not known");
    if (more != NULL && more->count != x->rank - 2) return refuse(call, "its output_padding does not fit");
    struct step *step = step_add(call->l, turned ? STEP_DECONVOLUTION : STEP_CONVOLUTION, call->node, 1);
    if (step == NULL) return memory(call);
    TRY(windows(call, x, w->dims + 2, step->window));
    for (int s = 0; more != NULL && s < more->count; s++) {
        step->window[s].more = more->ints[s];
        if (more->ints[s] < 0 || more->ints[s] >= step->window[s].stride * step->window[s].dilation)
            return refuse(call, "its output_padding does not fit");
    }
    step->attributes.groups = (int)groups;
    step->attributes.channels = (int)(turned ? w->dims[1] * groups : w->dims[0]);
    step->attributes.bias = b != NULL;
    step->inputs[0] = x;
    step->parameters[0] = w;
    step->parameters[1] = b;
    return window_output(call, step, x, step->attributes.channels);
}

static enum ps_status lower_pool(const struct call *call) {
    const struct onnx_attribute *kernel = onnx_attribute(call->node, "kernel_shape");
    struct view *x;
    TRY(view(call, 0, &x));
    if (kernel == NULL || kernel->count != x->rank - 2) return refuse(call, "its kernel does not fit");
    const bool largest = call->row->function[0] == 'm';
    struct step *step = step_add(call->l, STEP_POOL, call->node, 1);
    if (step == NULL) return memory(call);
    step->function = largest ? "max_pool" : "average_pool";
    step->attributes.ceiling = onnx_int(call->node, "ceil_mode", 0) != 0;
    step->attributes.count_padding = !largest && onnx_int(call->node, "count_include_pad", 0) != 0;
    TRY(windows(call, x, kernel->ints, step->window));
    step->inputs[0] = x;
    return window_output(call, step, x, x->dims[1]);
}

/* ------------------------------------------------------------ pad and resize */

static enum ps_status lower_pad(const struct call *call) {
    static const char *const modes[] = {"constant", "reflect", "edge", "wrap"};
    const struct tensor *pads = constant(call, 1), *axes = constant(call, 3);
    const char *mode = onnx_string(call->node, "mode", "constant");
    int64_t dims[ONNX_RANK_MAX], before[ONNX_RANK_MAX] = {0}, after[ONNX_RANK_MAX] = {0};
    int from[ONNX_RANK_MAX], known = 0;
    bool any = false;
    double value = 0;
    struct view *x;
    TRY(view(call, 0, &x));
    if (pads == NULL || pads->whole == NULL || (given(call, 3) && (axes == NULL || axes->whole == NULL)))
        return refuse(call, "its pads depend on the data");
    if (given(call, 2) && !uniform(constant(call, 2), &value)) return refuse(call, "its value depends on the data");
    const int64_t count = axes != NULL ? axes->elements : x->rank;
    if (pads->elements != 2 * count) return refuse(call, "its pads do not fit");
    for (int64_t i = 0; i < count; i++) {
        int axis;
        TRY(fold_axis(axes != NULL ? axes->whole[i] : i, x->rank, &axis, call->error));
        before[axis] = pads->whole[i];
        after[axis] = pads->whole[count + i];
        if (before[axis] < -(1 << 20) || before[axis] > 1 << 20 || after[axis] < -(1 << 20) || after[axis] > 1 << 20)
            return refuse(call, "its pads do not fit");
    }
    while (known < 4 && strcmp(modes[known], mode) != 0) known++;
    if (known == 4) return refuse(call, "its mode is not known");
    for (int d = 0; d < x->rank; d++) {
        const bool here = before[d] != 0 || after[d] != 0;
        dims[d] = x->dims[d] + before[d] + after[d];
        from[d] = here ? -1 : d;
        any = any || here;
        if (here) TRY(join_axis(call, x, d));
        if (dims[d] < 1) return refuse(call, "nothing would be left of its input");
    }
    if (!any) {
        give(call, 0, x);
        return PS_OK;
    }
    struct step *step = step_add(call->l, STEP_PAD, call->node, 1);
    if (step == NULL) return memory(call);
    step->inputs[0] = x;
    step->function = modes[known];
    step->alpha = (float)value;
    memcpy(step->before, before, sizeof before);
    memcpy(step->after, after, sizeof after);
    TRY(shape_output(call, step, x, x->rank, dims, from));
    give(call, 0, view_new(call->l, &step->output));
    return memory(call);
}

/* The scale or size of a dimension of Resize. */
static double resize_number(const struct tensor *numbers, int rank, int d) {
    if (numbers == NULL || numbers->elements != rank) return 0;
    return numbers->reals != NULL ? numbers->reals[d] : (double)numbers->whole[d];
}

static enum ps_status lower_resize(const struct call *call) {
    const char *mode = onnx_string(call->node, "mode", "nearest");
    const char *coordinates = onnx_string(call->node, "coordinate_transformation_mode", "half_pixel");
    const char *rounding = onnx_string(call->node, "nearest_mode", "round_prefer_floor");
    const struct tensor *scales = constant(call, 2), *sizes = constant(call, 3);
    int64_t dims[ONNX_RANK_MAX];
    int from[ONNX_RANK_MAX];
    struct view *x;
    TRY(view(call, 0, &x));
    if ((given(call, 2) && scales == NULL) || (given(call, 3) && sizes == NULL))
        return refuse(call, "its sizes depend on the data");
    if (x->rank != 3 && x->rank != 4) return refuse(call, "images and sequences can be resized");
    if (onnx_int(call->node, "antialias", 0) != 0 || onnx_int(call->node, "exclude_outside", 0) != 0 ||
        onnx_attribute(call->node, "axes") != NULL ||
        strcmp(onnx_string(call->node, "keep_aspect_ratio_policy", "stretch"), "stretch") != 0)
        return refuse(call, "antialias, exclude_outside, axes and keep_aspect_ratio_policy are not known");
    struct step *step = step_add(call->l, STEP_RESIZE, call->node, 1);
    if (step == NULL) return memory(call);
    for (int d = 0; d < x->rank; d++) {
        const double scale = resize_number(scales, x->rank, d), size = resize_number(sizes, x->rank, d);
        const double wanted = size > 0 ? size : floor((double)x->dims[d] * scale);
        if (!(wanted >= 1 && wanted <= 1 << 20)) return refuse(call, "its sizes do not fit");
        dims[d] = (int64_t)wanted;
        from[d] = d < 2 ? d : -1;
        if (d < 2 && dims[d] != x->dims[d]) return refuse(call, "only height and width can be resized");
        if (d >= 2) TRY(join_axis(call, x, d));
        if (d >= 2) step->scale[d - 2] = size > 0 ? 0 : scale;
    }
    step->inputs[0] = x;
    step->function = mode;
    step->words[0] = coordinates;
    step->words[1] = rounding;
    step->alpha = onnx_float(call->node, "cubic_coeff_a", -0.75f);
    TRY(shape_output(call, step, x, x->rank, dims, from));
    give(call, 0, view_new(call->l, &step->output));
    return memory(call);
}

static enum ps_status lower_lrn(const struct call *call) {
    struct view *x;
    TRY(view(call, 0, &x));
    if (x->rank != 4) return refuse(call, "its input must be an image");
    TRY(join_axis(call, x, 1));
    struct step *step = same(call, STEP_LOCAL_NORM, x);
    if (step == NULL) return memory(call);
    step->attributes.window = (int)onnx_int(call->node, "size", 0);
    step->attributes.alpha = onnx_float(call->node, "alpha", 1e-4f);
    step->attributes.beta = onnx_float(call->node, "beta", 0.75f);
    step->attributes.shift = onnx_float(call->node, "bias", 1);
    give(call, 0, view_new(call->l, &step->output));
    return memory(call);
}

/* -------------------------------------------------------------- reductions */

static enum ps_status reduce_step(const struct call *call, struct view *x, const bool *marks, const char *function, bool keep,
                                  struct view **out) {
    int64_t dims[ONNX_RANK_MAX];
    int from[ONNX_RANK_MAX], rank = 0;
    bool any = false;
    for (int d = 0; d < x->rank; d++) {
        if (marks[d]) TRY(join_axis(call, x, d));
        any = any || (marks[d] && x->dims[d] > 1);
        if (marks[d] && !keep) continue;
        dims[rank] = marks[d] ? 1 : x->dims[d];
        from[rank++] = marks[d] ? -1 : d;
    }
    const bool plain = function[0] == 'm' || strcmp(function, "sum") == 0 || strcmp(function, "prod") == 0;
    if (!any && plain) { /* of one element each */
        struct view made;
        TRY(view_reshape(call->l, x, rank, dims, &made));
        *out = view_new(call->l, &made);
        return memory(call);
    }
    struct step *step = step_add(call->l, STEP_REDUCE, call->node, 1);
    if (step == NULL) return memory(call);
    step->inputs[0] = x;
    step->function = function;
    memcpy(step->marks, marks, sizeof step->marks);
    TRY(shape_output(call, step, x, rank, dims, from));
    *out = view_new(call->l, &step->output);
    return memory(call);
}

static enum ps_status lower_reduce(const struct call *call) {
    struct view *x, *out;
    bool marks[ONNX_RANK_MAX];
    if (given(call, 1) && constant(call, 1) == NULL) return refuse(call, "its axes depend on the data");
    TRY(view(call, 0, &x));
    TRY(fold_axes_of(call->node, constant(call, 1), x->rank, marks, call->error));
    TRY(reduce_step(call, x, marks, call->row->function, onnx_int(call->node, "keepdims", 1) != 0, &out));
    give(call, 0, out);
    return PS_OK;
}

static enum ps_status lower_global_pool(const struct call *call) {
    struct view *x, *out;
    bool marks[ONNX_RANK_MAX] = {0};
    TRY(view(call, 0, &x));
    for (int d = 2; d < x->rank; d++) marks[d] = true;
    TRY(reduce_step(call, x, marks, call->row->function, true, &out));
    give(call, 0, out);
    return PS_OK;
}

static enum ps_status lower_softmax(const struct call *call) {
    struct view *x;
    int axis;
    TRY(view(call, 0, &x));
    TRY(fold_axis(onnx_int(call->node, "axis", -1), x->rank, &axis, call->error));
    TRY(join_axis(call, x, axis));
    struct step *step = same(call, STEP_SOFTMAX, x);
    if (step == NULL) return memory(call);
    step->axis = axis;
    step->function = call->row->function;
    give(call, 0, view_new(call->l, &step->output));
    return memory(call);
}

/* ------------------------------------------------------------------- norms */

/* The number that a norm without its own has in place of a parameter (1 or 0) is left out. */
static enum ps_status parameter_input(const struct call *call, int i, int64_t elements, double neutral, struct view **out) {
    double number;
    *out = NULL;
    if (!given(call, i) || (uniform(constant(call, i), &number) && number == neutral)) return PS_OK;
    TRY(view(call, i, out));
    if (whole_parameter(call->l, *out) == NULL || view_elements(*out) != elements)
        return error_set(call->error, PS_BAD_INPUT, "its input %d must be a parameter of %lld elements", i,
                         (long long)elements);
    return PS_OK;
}

static enum ps_status lower_batch_norm(const struct call *call) {
    struct view *x;
    TRY(view(call, 0, &x));
    if (x->rank < 2) return refuse(call, "its input has no channels");
    struct step *step = same(call, STEP_BATCH_NORM, x);
    if (step == NULL) return memory(call);
    for (int p = 0; p < 4; p++) {
        TRY(parameter_input(call, 1 + p, x->dims[1], NAN, &step->parameters[p]));
        if (step->parameters[p] == NULL) return refuse(call, "scale, bias, mean and variance are needed");
    }
    step->attributes.epsilon = onnx_float(call->node, "epsilon", 1e-5f);
    /* PyTorch's is what is left of 1, and 1 - 0.9f is not quite 0.1f. */
    step->attributes.momentum = (float)(rint((1 - (double)onnx_float(call->node, "momentum", 0.9f)) * 1e7) / 1e7);
    step->axis = 1;
    give(call, 0, view_new(call->l, &step->output));
    return memory(call);
}

/* Layer norm and RMS norm over the dimensions from `axis` on. */
static enum ps_status lower_layer_norm(const struct call *call) {
    const bool mean = call->row->function[0] == 'l';
    struct view *x;
    int axis;
    int64_t features = 1;
    TRY(view(call, 0, &x));
    TRY(fold_axis(onnx_int(call->node, "axis", -1), x->rank, &axis, call->error));
    for (int d = axis; d < x->rank; d++) {
        TRY(join_axis(call, x, d));
        features *= x->dims[d];
    }
    struct step *step = same(call, mean ? STEP_LAYER_NORM : STEP_RMS_NORM, x);
    if (step == NULL) return memory(call);
    TRY(parameter_input(call, 1, features, 1, &step->parameters[0]));
    if (mean) TRY(parameter_input(call, 2, features, 0, &step->parameters[1]));
    step->number = x->rank - axis;
    step->attributes.epsilon = onnx_float(call->node, "epsilon", 1e-5f);
    give(call, 0, view_new(call->l, &step->output));
    return memory(call);
}

static enum ps_status lower_group_norm(const struct call *call) {
    struct view *x;
    TRY(view(call, 0, &x));
    if (x->rank < 2) return refuse(call, "its input has no channels");
    for (int d = 1; d < x->rank; d++) TRY(join_axis(call, x, d));
    const int64_t groups = call->row->function[0] == 'i' ? x->dims[1] : onnx_int(call->node, "num_groups", 0);
    if (groups < 1 || x->dims[1] % groups != 0) return refuse(call, "its groups do not share the channels equally");
    struct step *step = same(call, STEP_GROUP_NORM, x);
    if (step == NULL) return memory(call);
    for (int p = 0; p < 2; p++) TRY(parameter_input(call, 1 + p, x->dims[1], 1 - p, &step->parameters[p]));
    step->attributes.groups = (int)groups;
    step->attributes.epsilon = onnx_float(call->node, "epsilon", 1e-5f);
    give(call, 0, view_new(call->l, &step->output));
    return memory(call);
}

/* --------------------------------------------------------------- attention */

bool mask_is_nothing(const struct tensor *mask) {
    double number;
    return uniform(mask, &number) && (mask->whole != NULL ? number != 0 : number == 0);
}

bool mask_is_causal(const struct tensor *mask) {
    if (mask->rank < 2 || mask->elements == 0) return false;
    const int64_t keys = mask->dims[mask->rank - 1], queries = mask->dims[mask->rank - 2];
    if (keys != queries || keys < 2) return false;
    for (int64_t e = 0; e < mask->elements; e++) {
        const bool seen = e % keys <= e / keys % queries;
        if (mask->whole != NULL ? (mask->whole[e] != 0) != seen : !(seen ? mask->reals[e] == 0 : mask->reals[e] <= -1e9))
            return false;
    }
    return true;
}

/* The view of so many dimensions of 4, with the last two apart: the others alone. */
static void lead_of(const struct view *v, struct view *lead) {
    *lead = *v;
    while (lead->count > 0 && lead->atoms[lead->count - 1].axis >= v->rank - 2) lead->count--;
    lead->rank -= 2;
}

/* Puts the last two dimensions of `from` behind the aligned leading ones. */
static bool rejoin(const struct view *from, struct view *lead) {
    const int rank = lead->rank, more = rank + 2 - from->rank;
    lead->step = from->step;
    for (int d = 0; d < 2; d++) lead->dims[rank + d] = from->dims[from->rank - 2 + d];
    for (int i = 0; i < from->count; i++) {
        if (from->atoms[i].axis + more < rank) continue;
        if (lead->count == ATOMS_MAX) return false;
        lead->atoms[lead->count] = from->atoms[i];
        lead->atoms[lead->count++].axis += more;
    }
    lead->rank = rank + 2;
    return true;
}

enum ps_status attention_step(struct lowering *l, const struct onnx_node *node, const struct view *q, const struct view *k,
                              const struct view *v, const struct view *mask, struct step **made) {
    const struct view *inputs[4] = {q, k, v, mask};
    const int count = mask != NULL ? 4 : 3;
    struct view *leads[4], out;
    struct step *step = step_add(l, STEP_ATTENTION, node, count);
    TRY(arena_check(&l->arena, "an ONNX file", l->error));
    for (int i = 0; i < count; i++) {
        leads[i] = step->inputs[i] = view_new(l, inputs[i]);
        TRY(arena_check(&l->arena, "an ONNX file", l->error));
        if (inputs[i]->rank < 2) return error_set(l->error, PS_BAD_INPUT, "its inputs must have two dimensions or more");
        for (int d = inputs[i]->rank - 2; d < inputs[i]->rank; d++)
            if (view_has_batch(inputs[i], d)) return error_set(l->error, PS_BAD_INPUT, "it would mix the samples of a batch");
        lead_of(inputs[i], leads[i]);
    }
    TRY(views_align(l, leads, count, -1, &out));
    bool fits = true;
    for (int i = 0; i < count; i++) fits = fits && rejoin(inputs[i], leads[i]);
    const int rank = out.rank, number = step->output.step;
    for (int d = 0; d < 2 && fits; d++) { /* (T of queries, d of values) */
        const struct view *from = leads[d == 0 ? 0 : 2];
        out.dims[rank + d] = from->dims[rank + d];
        for (int i = 0; i < from->count && fits; i++) {
            if (from->atoms[i].axis != rank + d) continue;
            fits = out.count < ATOMS_MAX;
            if (fits) out.atoms[out.count++] = from->atoms[i];
        }
    }
    if (!fits) return error_set(l->error, PS_BAD_INPUT, "its inputs have too many dimensions");
    out.rank = rank + 2;
    for (int i = 0; i < out.count; i++) out.atoms[i].stride = out.atoms[i].stride != 0;
    view_natural(&out);
    out.step = number;
    step->output = out;
    *made = step;
    return PS_OK;
}

/* (N, T, heads d) as (N, heads, T, d). */
static enum ps_status split_heads(const struct call *call, struct view *v, int64_t heads) {
    static const int order[] = {0, 2, 1, 3};
    const int64_t dims[4] = {v->dims[0], v->dims[1], heads, heads > 0 ? v->dims[2] / heads : 0};
    struct view made;
    if (heads < 1 || v->dims[2] % heads != 0) return refuse(call, "its heads do not share the features equally");
    TRY(view_reshape(call->l, v, 4, dims, &made));
    return view_transpose(&made, order, v);
}

/* Heads of keys that are fewer than those of queries: each repeated for its neighbours. */
static enum ps_status repeat_heads(const struct call *call, struct view *v, int64_t heads) {
    if (v->dims[1] == heads) return PS_OK;
    if (v->dims[1] < 1 || heads % v->dims[1] != 0) return refuse(call, "its heads of queries cannot share those of keys");
    int64_t apart[5] = {v->dims[0], v->dims[1], 1, v->dims[2], v->dims[3]},
            joined[4] = {v->dims[0], heads, v->dims[2], v->dims[3]};
    struct view made, wide;
    TRY(view_reshape(call->l, v, 5, apart, &made));
    apart[2] = heads / v->dims[1];
    TRY(view_expand(call->l, &made, 5, apart, &wide));
    return view_reshape(call->l, &wide, 4, joined, v);
}

/* The mask as the scores have it; NULL where it masks nothing. Constants that leave what stands before are `causal`. */
static enum ps_status lower_mask(const struct call *call, int i, const struct view *q, const struct view *k, struct view **mask,
                                 bool *causal) {
    const int64_t dims[4] = {q->dims[0], q->dims[1], q->dims[2], k->dims[2]};
    struct view *others[1] = {view_new(call->l, q)}, *given_mask, wide;
    *mask = NULL;
    if (!given(call, i)) return PS_OK;
    if (constant(call, i) != NULL) {
        if (mask_is_nothing(constant(call, i))) return PS_OK;
        if (mask_is_causal(constant(call, i))) {
            *causal = true;
            return PS_OK;
        }
        TRY(constant_beside(call, constant(call, i), others, 1, &given_mask));
    } else
        TRY(view(call, i, &given_mask));
    TRY(view_expand(call->l, given_mask, 4, dims, &wide));
    if (wide.rank != 4) return refuse(call, "its mask does not fit");
    *mask = view_new(call->l, &wide);
    return memory(call);
}

/* Attention of opset 23. */
static enum ps_status lower_attention(const struct call *call) {
    static const int order[] = {0, 2, 1, 3};
    struct view *v[3], *mask, out, *result;
    struct step *step;
    bool causal = onnx_int(call->node, "is_causal", 0) != 0;
    if (given(call, 4) || given(call, 5) || given(call, 6)) return refuse(call, "past keys and values are not known");
    for (int i = 0; i < 3; i++) {
        TRY(view(call, i, &v[i]));
        if (v[i]->rank != v[0]->rank || (v[i]->rank != 3 && v[i]->rank != 4))
            return refuse(call, "its inputs must have 3 or 4 dimensions");
        if (v[i]->rank == 3) TRY(split_heads(call, v[i], onnx_int(call->node, i == 0 ? "q_num_heads" : "kv_num_heads", 0)));
    }
    const bool flat = input(call, 0)->kind == VALUE_VIEW && input(call, 0)->view->rank == 3;
    for (int i = 1; i < 3; i++) TRY(repeat_heads(call, v[i], v[0]->dims[1]));
    TRY(lower_mask(call, 3, v[0], v[1], &mask, &causal));
    TRY(attention_step(call->l, call->node, v[0], v[1], v[2], mask, &step));
    step->attributes.causal = causal;
    step->alpha = onnx_float(call->node, "scale", 0);
    step->beta = onnx_float(call->node, "softcap", 0);
    result = view_new(call->l, &step->output);
    if (result != NULL && flat) {
        const int64_t dims[3] = {step->output.dims[0], step->output.dims[2], step->output.dims[1] * step->output.dims[3]};
        struct view turned;
        TRY(view_transpose(result, order, &turned));
        TRY(view_reshape(call->l, &turned, 3, dims, &out));
        *result = out;
    }
    give(call, 0, result);
    return memory(call);
}

/* --------------------------------------------------------------- recurrent */

/*
 * Where each element of a value comes from that is made of parameters by moving alone: number of the step << 40 | element.
 * Exporters put PyTorch's gates in ONNX's order by slices and concatenation.
 */
static enum ps_status trace(const struct call *call, const struct view *v, int depth, struct tensor **out);

static enum ps_status trace_step(const struct call *call, const struct step *step, int depth, struct tensor **out) {
    struct lowering *l = call->l;
    struct tensor *parts[16], *base;
    struct fold_slice part = {{0}, {0}, {0}};
    int64_t strides[ONNX_RANK_MAX], offset = 0;
    if (depth > 32) return refuse(call, "its weights are made of parameters in too many steps");
    switch (step->kind) {
    case STEP_PARAMETER:
        TRY(fold_take(&l->fold, ONNX_INT64, step->output.rank, step->output.dims, out));
        for (int64_t e = 0; e < (*out)->elements; e++) (*out)->whole[e] = (int64_t)step->output.step << 40 | e;
        return PS_OK;
    case STEP_COPY:
        return trace(call, step->inputs[0], depth + 1, out);
    case STEP_SLICE:
        TRY(trace(call, step->inputs[0], depth + 1, &base));
        fold_strides(base->rank, base->dims, strides);
        for (int d = 0; d < base->rank; d++) part.count[d] = d == step->axis ? step->length : base->dims[d];
        offset = step->first * strides[step->axis];
        strides[step->axis] *= step->stride;
        return fold_strided(&l->fold, base, base->rank, part.count, strides, offset, out);
    case STEP_CONCAT: {
        const struct tensor *ins[16];
        const struct onnx_attribute axis = {.name = "axis", .type = ONNX_ATTRIBUTE_INT, .i = step->axis};
        const struct onnx_node concat = {.op = "Concat",
                                         .name = "",
                                         .domain = "",
                                         .input_count = step->input_count,
                                         .output_count = 1,
                                         .attribute_count = 1,
                                         .attributes = &axis};
        if (step->input_count > 16) break;
        for (int i = 0; i < step->input_count; i++) {
            TRY(trace(call, step->inputs[i], depth + 1, &parts[i]));
            ins[i] = parts[i];
        }
        return fold_node(&l->fold, &concat, ins, out);
    }
    default:
        break;
    }
    return refuse(call, "its weights are not those of PyTorch's module");
}

static enum ps_status trace(const struct call *call, const struct view *v, int depth, struct tensor **out) {
    struct tensor *base;
    int64_t dims[ONNX_RANK_MAX], strides[ONNX_RANK_MAX];
    TRY(trace_step(call, call->l->steps[v->step], depth, &base));
    if (v->count > ONNX_RANK_MAX) return refuse(call, "its weights are not those of PyTorch's module");
    for (int i = 0; i < v->count; i++) {
        dims[i] = v->atoms[i].size;
        strides[i] = v->atoms[i].batch ? 0 : v->atoms[i].stride;
    }
    TRY(fold_strided(&call->l->fold, base, v->count, dims, strides, 0, out));
    (*out)->rank = v->rank;
    memcpy((*out)->dims, v->dims, sizeof v->dims);
    return PS_OK;
}

/* Which parameter the rows are, gate by gate: `rows` of gates * hidden rows of `columns` each, gate g being PyTorch's
 * order[g]. */
static enum ps_status find_gates(const struct call *call, const int64_t *codes, const int *order, int gates, int64_t hidden,
                                 int64_t columns, struct view **parameter) {
    const int64_t number = codes[0] >> 40;
    const struct step *step = call->l->steps[number];
    bool fits = step->kind == STEP_PARAMETER && view_elements(&step->output) == gates * hidden * columns;
    for (int g = 0; g < gates && fits; g++)
        for (int64_t e = 0; e < hidden * columns && fits; e++)
            fits = codes[g * hidden * columns + e] == (number << 40 | (order[g] * hidden * columns + e));
    if (!fits) return refuse(call, "its weights are not those of PyTorch's module");
    *parameter = &call->l->steps[number]->output;
    return PS_OK;
}

static enum ps_status recurrent_direction(const struct call *call, const struct view *x, struct tensor *const *weights,
                                          int direction, bool reverse, int64_t hidden, struct view **out) {
    static const int lstm[] = {0, 3, 1, 2}, gru[] = {1, 0, 2}; /* i o f c of i f g o; z r h of r z n */
    const int gates = call->row->function[0] == 'l' ? 4 : 3, *order = gates == 4 ? lstm : gru;
    const int64_t rows = gates * hidden, features = x->dims[2];
    struct step *step = step_add(call->l, STEP_RECURRENT, call->node, 1);
    if (step == NULL) return memory(call);
    const int64_t *w = weights[0]->whole + direction * rows * features, *r = weights[1]->whole + direction * rows * hidden;
    const int64_t *b = weights[2]->whole + direction * 2 * rows;
    TRY(find_gates(call, w, order, gates, hidden, features, &step->parameters[0]));
    TRY(find_gates(call, r, order, gates, hidden, hidden, &step->parameters[1]));
    TRY(find_gates(call, b, order, gates, hidden, 1, &step->parameters[2]));
    TRY(find_gates(call, b + rows, order, gates, hidden, 1, &step->parameters[3]));
    step->inputs[0] = view_new(call->l, x);
    step->function = call->row->function;
    step->attributes.channels = (int)hidden;
    step->attributes.reverse = reverse;
    const int64_t dims[4] = {x->dims[0], 1, x->dims[1], hidden};
    const int from[4] = {0, -1, 1, -1};
    TRY(shape_output(call, step, x, 4, dims, from));
    *out = view_new(call->l, &step->output);
    return memory(call);
}

static enum ps_status lower_recurrent(const struct call *call) {
    const bool lstm = call->row->function[0] == 'l';
    const char *direction = onnx_string(call->node, "direction", "forward");
    const int directions = strcmp(direction, "bidirectional") == 0 ? 2 : 1;
    const int64_t hidden = onnx_int(call->node, "hidden_size", 0);
    struct view *x, *v, *all[2], *last[2], *out, made;
    struct tensor *weights[3];
    double zero = 0;
    TRY(view(call, 0, &x));
    if (x->rank != 3 || hidden < 1 || hidden > 1 << 24) return refuse(call, "its input and hidden size do not fit");
    if (onnx_int(call->node, "layout", 0) != 0 || onnx_attribute(call->node, "clip") != NULL ||
        onnx_attribute(call->node, "activations") != NULL || onnx_int(call->node, "input_forget", 0) != 0 || given(call, 7) ||
        (!lstm && onnx_int(call->node, "linear_before_reset", 0) == 0))
        return refuse(call, "it is not as PyTorch has it: activations, clip, layout, peepholes, linear_before_reset");
    if (given(call, 4)) return refuse(call, "sequences of several lengths are not known");
    for (int i = 5; i < 7; i++)
        if (given(call, i) && !(uniform(constant(call, i), &zero) && zero == 0))
            return refuse(call, "it must begin with a state of zeros");
    const int64_t rows = (lstm ? 4 : 3) * hidden,
                  sizes[3] = {directions * rows * x->dims[2], directions * rows * hidden, directions * 2 * rows};
    for (int i = 0; i < 3; i++) {
        if (!given(call, 1 + i)) return refuse(call, "weights and biases are needed");
        TRY(view(call, 1 + i, &v));
        if (view_elements(v) != sizes[i]) return refuse(call, "its weights do not fit");
        TRY(trace(call, v, 0, &weights[i]));
    }
    for (int d = 0; d < directions; d++) {
        const bool reverse = directions == 2 ? d == 1 : strcmp(direction, "reverse") == 0;
        const int64_t state[3] = {1, x->dims[1], hidden};
        TRY(recurrent_direction(call, x, weights, d, reverse, hidden, &all[d]));
        last[d] = view_new(call->l, all[d]);
        if (last[d] == NULL) return memory(call);
        TRY(slice_axis(call, &last[d], 0, reverse ? 0 : x->dims[0] - 1, 1, 1));
        TRY(view_reshape(call->l, last[d], 3, state, &made));
        *last[d] = made;
    }
    TRY(concat_views(call, all, directions, 1, &out));
    give(call, 0, out);
    TRY(concat_views(call, last, directions, 0, &out));
    give(call, 1, out);
    return memory(call);
}

/* --------------------------------------------------------------- the table */

static const struct row rows[] = {
    {"Abs", lower_unary, "abs", 0},
    {"Acos", lower_unary, "acos", 0},
    {"Acosh", lower_unary, "acosh", 0},
    {"Add", lower_binary, "add", 0},
    {"And", lower_logical, "and", 0},
    {"Asin", lower_unary, "asin", 0},
    {"Asinh", lower_unary, "asinh", 0},
    {"Atan", lower_unary, "atan", 0},
    {"Atanh", lower_unary, "atanh", 0},
    {"Attention", lower_attention, NULL, 0},
    {"AveragePool", lower_pool, "average", 0},
    {"BatchNormalization", lower_batch_norm, NULL, 0},
    {"Cast", lower_cast, NULL, 0},
    {"CastLike", lower_cast, NULL, 0},
    {"Ceil", lower_unary, "ceil", 0},
    {"Celu", lower_unary, "celu", 0},
    {"Clip", lower_clip, NULL, 0},
    {"Concat", lower_concat, NULL, 0},
    {"Conv", lower_convolution, NULL, 0},
    {"ConvTranspose", lower_convolution, NULL, 0},
    {"Cos", lower_unary, "cos", 0},
    {"Cosh", lower_unary, "cosh", 0},
    {"Div", lower_binary, "div", 0},
    {"Dropout", lower_dropout, NULL, 0},
    {"Elu", lower_unary, "elu", 0},
    {"Equal", lower_compare, "equal", 0},
    {"Erf", lower_unary, "erf", 0},
    {"Exp", lower_unary, "exp", 0},
    {"Expand", lower_expand, NULL, 0},
    {"Flatten", lower_reshape, NULL, 0},
    {"Floor", lower_unary, "floor", 0},
    {"GRU", lower_recurrent, "gru", 0},
    {"Gather", lower_gather, NULL, 0},
    {"GatherND", lower_gather_nd, NULL, 0},
    {"Gelu", lower_gelu, NULL, 0},
    {"Gemm", lower_gemm, NULL, 0},
    {"GlobalAveragePool", lower_global_pool, "mean", 0},
    {"GlobalMaxPool", lower_global_pool, "max", 0},
    {"Greater", lower_compare, "greater", 0},
    {"GreaterOrEqual", lower_compare, "greater_equal", 0},
    {"GroupNormalization", lower_group_norm, "group", 21},
    {"HardSigmoid", lower_unary, "hardsigmoid", 0},
    {"HardSwish", lower_unary, "hardswish", 0},
    {"Identity", lower_identity, NULL, 0},
    {"InstanceNormalization", lower_group_norm, "instance", 0},
    {"IsNaN", lower_is_nan, "isnan", 0},
    {"LRN", lower_lrn, NULL, 0},
    {"LSTM", lower_recurrent, "lstm", 0},
    {"LayerNormalization", lower_layer_norm, "layer", 0},
    {"LeakyRelu", lower_unary, "leaky_relu", 0},
    {"Less", lower_compare, "less", 0},
    {"LessOrEqual", lower_compare, "less_equal", 0},
    {"Log", lower_unary, "log", 0},
    {"LogSoftmax", lower_softmax, "log_softmax", 0},
    {"MatMul", lower_matmul, NULL, 0},
    {"Max", lower_binary, "max", 0},
    {"MaxPool", lower_pool, "max", 0},
    {"Min", lower_binary, "min", 0},
    {"Mish", lower_unary, "mish", 0},
    {"Mul", lower_binary, "mul", 0},
    {"Neg", lower_unary, "neg", 0},
    {"Not", lower_logical, "not", 0},
    {"Or", lower_logical, "or", 0},
    {"PRelu", lower_prelu, NULL, 0},
    {"Pad", lower_pad, NULL, 0},
    {"Pow", lower_binary, "power", 0},
    {"RMSNormalization", lower_layer_norm, "rms", 0},
    {"Reciprocal", lower_unary, "reciprocal", 0},
    {"ReduceL1", lower_reduce, "l1", 0},
    {"ReduceL2", lower_reduce, "l2", 0},
    {"ReduceLogSum", lower_reduce, "log_sum", 0},
    {"ReduceLogSumExp", lower_reduce, "log_sum_exp", 0},
    {"ReduceMax", lower_reduce, "max", 0},
    {"ReduceMean", lower_reduce, "mean", 0},
    {"ReduceMin", lower_reduce, "min", 0},
    {"ReduceProd", lower_reduce, "prod", 0},
    {"ReduceSum", lower_reduce, "sum", 0},
    {"ReduceSumSquare", lower_reduce, "sum_square", 0},
    {"Relu", lower_unary, "relu", 0},
    {"Reshape", lower_reshape, NULL, 0},
    {"Resize", lower_resize, NULL, 0},
    {"Round", lower_unary, "round", 0},
    {"Selu", lower_unary, "selu", 0},
    {"SequenceAt", lower_sequence_at, NULL, 0},
    {"Shape", lower_shape, NULL, 0},
    {"Sigmoid", lower_unary, "sigmoid", 0},
    {"Sign", lower_unary, "sign", 0},
    {"Sin", lower_unary, "sin", 0},
    {"Sinh", lower_unary, "sinh", 0},
    {"Size", lower_shape, "size", 0},
    {"Slice", lower_slice, NULL, 0},
    {"Softmax", lower_softmax, "softmax", 0},
    {"Softplus", lower_unary, "softplus", 0},
    {"Softsign", lower_unary, "softsign", 0},
    {"Split", lower_split, NULL, 0},
    {"SplitToSequence", lower_split, "sequence", 0},
    {"Sqrt", lower_unary, "sqrt", 0},
    {"Squeeze", lower_reshape, NULL, 0},
    {"Sub", lower_binary, "sub", 0},
    {"Sum", lower_binary, "add", 0},
    {"Swish", lower_unary, "silu", 0},
    {"Tan", lower_unary, "tan", 0},
    {"Tanh", lower_unary, "tanh", 0},
    {"ThresholdedRelu", lower_unary, "threshold", 0},
    {"Transpose", lower_transpose, NULL, 0},
    {"Unsqueeze", lower_reshape, NULL, 0},
    {"Where", lower_where, NULL, 0},
    {"Xor", lower_logical, "xor", 0},
};

static const struct row *find_row(const char *op) {
    size_t low = 0, high = sizeof rows / sizeof *rows;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(op, rows[middle].op);
        if (order == 0) return &rows[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* --------------------------------------------------------------- the walk */

/* An initializer becomes a constant, or a parameter. */
static bool is_parameter(const struct onnx_model *model, const struct onnx_value *value) {
    const struct onnx_tensor *tensor = &model->initializers[value->initializer];
    if (!onnx_is_float(tensor->type)) return false;
    if (value->kind != ONNX_KIND_UNSAID) return value->kind == ONNX_KIND_PARAMETER;
    return tensor->rank > 0 && !model->marked;
}

/* Running statistics are parameters of a norm, though not trained ones: they keep their names. */
static bool is_statistic(const struct onnx_node *node, int i) { return strcmp(node->op, "BatchNormalization") == 0 && i >= 3; }

static enum ps_status read_initializer(struct lowering *l, int number, bool parameter) {
    const struct onnx_value *value = &l->model->values[number];
    const struct onnx_tensor *tensor = &l->model->initializers[value->initializer];
    struct value *made = &l->values[number];
    if (!parameter && !is_parameter(l->model, value)) {
        if (made->kind != VALUE_ABSENT) return PS_OK;
        made->kind = VALUE_CONSTANT;
        return fold_read(&l->fold, tensor, &made->tensor);
    }
    if (made->kind == VALUE_VIEW) return PS_OK;
    struct step *step = step_add(l, STEP_PARAMETER, NULL, 0);
    if (step == NULL) return arena_check(&l->arena, "an ONNX file", l->error);
    for (int d = 0; d < tensor->rank; d++)
        if (tensor->dims[d] == 0) return error_set(l->error, PS_BAD_INPUT, "initializer '%.80s' has no elements", tensor->name);
    plain_view(&step->output, tensor->rank, tensor->dims);
    step->number = value->initializer;
    made->kind = VALUE_VIEW;
    made->view = &step->output;
    return PS_OK;
}

static enum ps_status prepare_inputs(struct lowering *l, const struct onnx_node *node) {
    for (int i = 0; i < node->input_count; i++) {
        const struct onnx_value *value = &l->model->values[node->inputs[i]];
        if (node->inputs[i] == 0) continue;
        if (value->initializer >= 0)
            TRY(read_initializer(l, node->inputs[i], is_statistic(node, i)));
        else if (l->values[node->inputs[i]].kind == VALUE_ABSENT)
            return error_set(l->error, PS_BAD_INPUT, "no node before it makes its input '%.80s'", value->name);
    }
    return PS_OK;
}

/* Everything known: computed now. */
static enum ps_status fold(struct lowering *l, const struct onnx_node *node, bool *done) {
    const struct tensor *small[16], **inputs = small;
    struct tensor *outputs[FOLD_OUTPUTS_MAX] = {0};
    *done = false;
    if (!fold_knows(node->op) || node->output_count > FOLD_OUTPUTS_MAX) return PS_OK;
    for (int i = 0; i < node->input_count; i++)
        if (node->inputs[i] != 0 && l->values[node->inputs[i]].kind != VALUE_CONSTANT) return PS_OK;
    if (node->input_count > 16) inputs = arena_take(&l->arena, (size_t)node->input_count, sizeof(struct tensor *));
    if (inputs == NULL) return arena_check(&l->arena, "an ONNX file", l->error);
    for (int i = 0; i < node->input_count; i++) inputs[i] = node->inputs[i] != 0 ? l->values[node->inputs[i]].tensor : NULL;
    TRY(fold_node(&l->fold, node, inputs, outputs));
    for (int o = 0; o < node->output_count; o++)
        if (node->outputs[o] != 0 && outputs[o] != NULL)
            l->values[node->outputs[o]] = (struct value){.kind = VALUE_CONSTANT, .tensor = outputs[o]};
    *done = true;
    return PS_OK;
}

static enum ps_status lower_node(struct lowering *l, const struct onnx_node *node) {
    bool done;
    if (node->domain[0] != '\0' && strcmp(node->domain, "ai.onnx") != 0)
        return error_set(l->error, PS_BAD_INPUT, "operators of '%.60s' are not known", node->domain);
    TRY(prepare_inputs(l, node));
    TRY(fold(l, node, &done));
    if (done) return PS_OK;
    const struct row *row = find_row(node->op);
    if (row == NULL) return error_set(l->error, PS_BAD_INPUT, "the operator is not known");
    if (l->model->opset < row->since)
        return error_set(l->error, PS_BAD_INPUT, "the operator is known as it is since opset %d, and the file has opset %lld",
                         row->since, (long long)l->model->opset);
    const struct call call = {l, node, row, l->error};
    TRY(row->lower(&call));
    return arena_check(&l->arena, "an ONNX file", l->error);
}

enum ps_status lower_nodes(struct lowering *l) {
    for (int n = 0; n < l->model->node_count; n++) {
        const struct onnx_node *node = &l->model->nodes[n];
        enum ps_status status = lower_node(l, node);
        if (status == PS_OK) continue;
        if (status == PS_BAD_INPUT) error_prefix(l->error, "%s: node '%.100s' (%.40s)", l->path, node->name, node->op);
        return status;
    }
    return PS_OK;
}
