/* Other views of values, their pieces, several joined, and what indices gather. */
#include "onnx/lower_calls.h"

#include <string.h>

/* ------------------------------------------------------------- other views */

enum ps_status lower_identity(const struct call *call) {
    const struct value *value = call_input(call, 0);
    if (call->node->outputs[0] != 0) call->l->values[call->node->outputs[0]] = *value;
    return PS_OK;
}

enum ps_status lower_reshape(const struct call *call) {
    struct view *x, made;
    int rank;
    int64_t dims[ONNX_RANK_MAX];
    const struct tensor *inputs[2] = {NULL, call_constant(call, 1)};
    if (call_given(call, 1) && inputs[1] == NULL) return call_refuse(call, "its shape or axes depend on the data");
    TRY(call_view(call, 0, &x));
    TRY(fold_reshape_of(call->node, inputs, call->l->model->opset, x->rank, x->dims, &rank, dims, call->error));
    TRY(view_reshape(call->l, x, rank, dims, &made));
    *x = made;
    call_give(call, 0, x);
    return PS_OK;
}

enum ps_status lower_transpose(const struct call *call) {
    const struct onnx_attribute *perm = onnx_attribute(call->node, "perm");
    struct view *x, made;
    int order[ONNX_RANK_MAX];
    unsigned seen = 0;
    TRY(call_view(call, 0, &x));
    if (perm != NULL && perm->count != x->rank) return call_refuse(call, "its order does not fit");
    for (int d = 0; d < x->rank; d++) {
        TRY(fold_axis(perm != NULL ? perm->ints[d] : x->rank - 1 - d, x->rank, &order[d], call->error));
        seen |= 1u << order[d];
    }
    if (seen != (1u << x->rank) - 1) return call_refuse(call, "its order names an axis twice");
    TRY(view_transpose(x, order, &made));
    *x = made;
    call_give(call, 0, x);
    return PS_OK;
}

enum ps_status lower_expand(const struct call *call) {
    const struct tensor *shape = call_constant(call, 1);
    struct view *x, made;
    if (shape == NULL || shape->whole == NULL || shape->elements > ONNX_RANK_MAX)
        return call_refuse(call, "its shape depends on the data");
    TRY(call_view(call, 0, &x));
    TRY(view_expand(call->l, x, (int)shape->elements, shape->whole, &made));
    *x = made;
    call_give(call, 0, x);
    return PS_OK;
}

enum ps_status lower_tile(const struct call *call) {
    const struct tensor *repeats = call_constant(call, 1);
    struct view *x;
    TRY(call_view(call, 0, &x));
    if (repeats == NULL || repeats->whole == NULL || repeats->elements != x->rank)
        return call_refuse(call, "constant repeats, one a dimension, are needed");
    struct view made = {.step = x->step, .rank = x->rank};
    for (int d = 0, next = 0; d < x->rank; d++) {
        const int64_t times = repeats->whole[d];
        if (times < 1 || times > INT32_MAX) return call_refuse(call, "nothing would be left of its input");
        if (times > 1 && view_has_batch(x, d)) return call_refuse(call, "it would repeat the samples of a batch");
        made.dims[d] = x->dims[d] * times;
        if (times > 1 && made.count < ATOMS_MAX) made.atoms[made.count++] = (struct atom){times, 0, d, false};
        for (; next < x->count && x->atoms[next].axis == d; next++) {
            if (made.count == ATOMS_MAX) return call_refuse(call, "it has too many dimensions");
            made.atoms[made.count++] = x->atoms[next];
        }
    }
    *x = made;
    call_give(call, 0, x);
    return PS_OK;
}

enum ps_status lower_shape(const struct call *call) {
    const struct value *value = call_input(call, 0);
    struct tensor *made;
    const bool numbered = value->kind == VALUE_PLACES && value->each != 0;
    int rank;
    const int64_t *dims = call_dims(call, 0, &rank);
    if (numbered) dims = value->view->dims, rank = value->view->rank;
    if (dims == NULL) return call_view(call, 0, &(struct view *){NULL}); /* which says why there are none */
    if (call->row->function != NULL) {                                   /* Size */
        TRY(fold_take(&call->l->fold, ONNX_INT64, 0, NULL, &made));
        made->whole[0] = 1;
        for (int d = 0; d < rank; d++) made->whole[0] *= dims[d];
        return call_give_constant(call, 0, made);
    }
    int64_t start = onnx_int(call->node, "start", 0), end = onnx_int(call->node, "end", rank);
    if (start < 0) start += rank;
    if (end < 0) end += rank;
    start = start < 0 ? 0 : start > rank ? rank : start;
    end = end < start ? start : end > rank ? rank : end;
    const int64_t count = end - start;
    TRY(fold_take(&call->l->fold, ONNX_INT64, 1, &count, &made));
    for (int64_t d = 0; d < count; d++) made->whole[d] = dims[start + d];
    return call_give_constant(call, 0, made);
}

/* Blocks of an image that become channels, or the other way: views alone. */
enum ps_status lower_blocks(const struct call *call) {
    const bool depth = strcmp(call->row->function, "depth") == 0;
    const bool first = strcmp(onnx_string(call->node, "mode", "DCR"), "DCR") == 0; /* the block before the channels */
    const int64_t b = onnx_int(call->node, "blocksize", 0);
    static const int orders[3][6] = {{0, 3, 4, 1, 5, 2}, {0, 1, 4, 2, 5, 3}, {0, 3, 5, 1, 2, 4}};
    struct view *x, made, turned;
    TRY(call_view(call, 0, &x));
    if (x->rank != 4 || b < 1 || b > 4096) return call_refuse(call, "an image and a blocksize are needed");
    const int64_t n = x->dims[0], c = x->dims[1], h = x->dims[2], w = x->dims[3];
    if (depth ? c % (b * b) != 0 : h % b != 0 || w % b != 0) return call_refuse(call, "its blocks do not fit");
    const int64_t split[3][6] = {{n, b, b, c / (b * b), h, w}, {n, c / (b * b), b, b, h, w}, {n, c, h / b, b, w / b, b}};
    const int64_t joined[2][4] = {{n, c / (b * b), h * b, w * b}, {n, c * b * b, h / b, w / b}};
    const int form = !depth ? 2 : first ? 0 : 1;
    TRY(view_reshape(call->l, x, 6, split[form], &made));
    TRY(view_transpose(&made, orders[form], &turned));
    TRY(view_reshape(call->l, &turned, 4, joined[!depth], &made));
    *x = made;
    call_give(call, 0, x);
    return PS_OK;
}

/* ------------------------------------------------------------------ pieces */

enum ps_status lower_slice_axis(const struct call *call, struct view **x, int axis, int64_t first, int64_t count,
                                int64_t stride) {
    const struct view *v = *x;
    int64_t dims[ONNX_RANK_MAX];
    int from[ONNX_RANK_MAX];
    if (first == 0 && stride == 1 && count == v->dims[axis]) return PS_OK;
    if (count == 0) return call_refuse(call, "nothing would be left of its input");
    if (view_has_batch(v, axis)) return call_refuse(call, "it would take some samples of a batch");
    struct step *step = step_add(call->l, STEP_SLICE, call->node, 1);
    if (step == NULL) return call_memory(call);
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
    TRY(call_output(call, step, v, v->rank, dims, from));
    *x = view_new(call->l, &step->output);
    return call_memory(call);
}

enum ps_status lower_slice(const struct call *call) {
    const struct tensor *inputs[5];
    struct fold_slice part;
    struct view *x;
    for (int i = 0; i < 5; i++) {
        inputs[i] = call_constant(call, i);
        if (i > 0 && call_given(call, i) && inputs[i] == NULL) return call_refuse(call, "its bounds depend on the data");
    }
    TRY(call_view(call, 0, &x));
    TRY(fold_slice_of(inputs, 5, x->rank, x->dims, &part, call->error));
    int empty = -1;
    for (int d = 0; d < x->rank; d++) {
        if (part.count[d] == 0 && empty < 0 && !view_has_batch(x, d))
            empty = d;
        else
            TRY(lower_slice_axis(call, &x, d, part.first[d], part.count[d], part.step[d]));
    }
    if (empty >= 0)
        call_give_empty(call, 0, x, empty);
    else
        call_give(call, 0, x);
    return PS_OK;
}

/* Split, and SplitToSequence with one output of several items. */
enum ps_status lower_split(const struct call *call) {
    const bool sequence = call->row->function != NULL;
    const struct tensor *sizes = call_constant(call, 1);
    struct view *x, *part;
    int axis;
    int64_t first = 0;
    if (call_given(call, 1) && (sizes == NULL || sizes->whole == NULL))
        return call_refuse(call, "its sizes depend on the data");
    TRY(call_view(call, 0, &x));
    TRY(fold_axis(onnx_int(call->node, "axis", 0), x->rank, &axis, call->error));
    const int64_t all = x->dims[axis];
    const bool scalar = sizes != NULL && sizes->rank == 0;
    if (scalar && sizes->whole[0] < 1) return call_refuse(call, "its sizes do not fit");
    int64_t count = !sequence       ? call->node->output_count
                    : scalar        ? (all + sizes->whole[0] - 1) / sizes->whole[0]
                    : sizes != NULL ? sizes->elements
                                    : all;
    if (count < 1 || count > 4096 || (sizes != NULL && !scalar && sizes->elements != count))
        return call_refuse(call, "its sizes do not fit");
    struct value *items = arena_take(&call->l->arena, (size_t)count, sizeof *items);
    if (items == NULL) return call_memory(call);
    for (int64_t p = 0; p < count; p++) {
        int64_t each = scalar ? sizes->whole[0] : sizes != NULL ? sizes->whole[p] : (all + count - 1) / count;
        if (each > all - first && (sizes == NULL || scalar)) each = all - first;
        if (each < 1 || each > all - first) return call_refuse(call, "its sizes do not fit");
        part = view_new(call->l, x);
        if (part == NULL) return call_memory(call);
        TRY(lower_slice_axis(call, &part, axis, first, each, 1));
        first += each;
        if (sequence)
            items[p] = (struct value){.kind = VALUE_VIEW, .view = part};
        else
            call_give(call, (int)p, part);
    }
    if (sequence)
        call->l->values[call->node->outputs[0]] =
            (struct value){.kind = VALUE_SEQUENCE, .items = items, .item_count = (int)count};
    return PS_OK;
}

enum ps_status lower_sequence_at(const struct call *call) {
    const struct value *sequence = call_input(call, 0);
    const struct tensor *place = call_constant(call, 1);
    if (sequence->kind != VALUE_SEQUENCE || place == NULL || place->whole == NULL || place->elements != 1)
        return call_refuse(call, "a sequence and a constant place in it are needed");
    int64_t at = place->whole[0] < 0 ? place->whole[0] + sequence->item_count : place->whole[0];
    if (at < 0 || at >= sequence->item_count) return call_refuse(call, "its place is outside of the sequence");
    if (call->node->outputs[0] != 0) call->l->values[call->node->outputs[0]] = sequence->items[at];
    return PS_OK;
}

enum ps_status lower_concat_views(const struct call *call, struct view **parts, int count, int axis, struct view **out) {
    struct view made;
    int64_t all = 0;
    *out = parts[0];
    if (count == 1) return PS_OK;
    struct step *step = step_add(call->l, STEP_CONCAT, call->node, count);
    if (step == NULL) return call_memory(call);
    for (int i = 0; i < count; i++) {
        if (parts[i]->rank != parts[0]->rank) return call_refuse(call, "its inputs do not fit together");
        if (view_has_batch(parts[i], axis)) {
            call_refuse(call, "it would join samples to one");
            error_hint(call->error, "put inputs beside each other within a sample, as torch.stack(inputs, 1).flatten(0, 1)");
            return PS_BAD_INPUT;
        }
        step->inputs[i] = view_new(call->l, parts[i]);
        all += parts[i]->dims[axis];
    }
    TRY(call_memory(call));
    TRY(views_align(call->l, step->inputs, count, axis, &made));
    int place = 0;
    while (place < made.count && made.atoms[place].axis < axis) place++;
    if (made.count == ATOMS_MAX) return call_refuse(call, "its output has too many dimensions");
    memmove(&made.atoms[place + 1], &made.atoms[place], (size_t)(made.count++ - place) * sizeof *made.atoms);
    made.atoms[place] = (struct atom){all, 1, axis, false};
    made.dims[axis] = all;
    TRY(view_fits(call->l, &made));
    made.step = step->output.step;
    for (int i = 0; i < made.count; i++) made.atoms[i].stride = made.atoms[i].stride != 0;
    view_natural(&made);
    step->output = made;
    step->axis = axis;
    step->onnx_type = call->l->steps[step->inputs[0]->step]->onnx_type;
    *out = view_new(call->l, &made);
    return call_memory(call);
}

enum ps_status lower_concat_many(const struct call *call, struct view **parts, int64_t count, int axis, struct view **out) {
    while (count > 1) {
        int64_t made = 0;
        for (int64_t i = 0; i < count; i += GRAPH_INPUTS_MAX) {
            const int64_t left = count - i, each = left < GRAPH_INPUTS_MAX ? left : GRAPH_INPUTS_MAX;
            TRY(lower_concat_views(call, parts + i, (int)each, axis, &parts[made++]));
        }
        count = made;
    }
    *out = parts[0];
    return PS_OK;
}

/* A piece without elements goes beside the others, which are left. */
static bool fits_beside(const struct value *empty, const struct view *v, int axis) {
    bool fits = empty->axis == axis && empty->view->rank == v->rank;
    for (int d = 0; d < v->rank && fits; d++) fits = d == axis || empty->view->dims[d] == v->dims[d];
    return fits;
}

enum ps_status lower_concat(const struct call *call) {
    const int inputs = call->node->input_count;
    int axis = 0, count = 0;
    struct view *out, **parts = arena_take(&call->l->arena, (size_t)inputs, sizeof(struct view *));
    int *places = arena_take(&call->l->arena, (size_t)inputs, sizeof *places);
    if (parts == NULL || places == NULL) return call_memory(call);
    for (int i = 0; i < inputs; i++)
        if (call_input(call, i)->kind != VALUE_EMPTY) places[count++] = i;
    if (count == 0) return call_refuse(call, "its inputs are empty");
    int rank;
    int64_t each;
    const int64_t *dims = call_dims(call, places[count - 1], &rank);
    if (inputs == 2 && count == 2 && lower_counts_samples(call, 0, 1, &each) && each == 1 &&
        fold_axis(onnx_int(call->node, "axis", 0), rank, &axis, call->error) == PS_OK && axis == rank - 1 && dims[axis] == 1) {
        call_give_places(call, 0, call_input(call, 1)->view, 0);
        return PS_OK;
    }
    for (int p = 0; p < count; p++)
        if (call_constant(call, places[p]) == NULL) TRY(call_view(call, places[p], &parts[p]));
    for (int p = 0; p < count; p++)
        if (parts[p] == NULL) TRY(lower_constant_beside(call, call_constant(call, places[p]), parts, count, &parts[p]));
    TRY(fold_axis(onnx_int(call->node, "axis", 0), parts[0]->rank, &axis, call->error));
    for (int i = 0; i < inputs; i++)
        if (call_input(call, i)->kind == VALUE_EMPTY && !fits_beside(call_input(call, i), parts[0], axis))
            return call_refuse(call, "its inputs do not fit together");
    TRY(lower_concat_views(call, parts, count, axis, &out));
    call_give(call, 0, out);
    return PS_OK;
}

/* Repeats the value along its dimensions: it is read again and again. */
/* --------------------------------------------------------------- gathering */

const struct view *view_is_parameter(const struct lowering *l, const struct view *v) {
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

static double take_place(const void *places, int64_t from, int64_t to) { return ((const int64_t *)places)[to] == from; }

/* Constant indices into one axis that holds no batch: a list of places. */
static enum ps_status select_axis(const struct call *call, struct view **x, int axis, const int64_t *places, int64_t count) {
    const struct view *v = *x;
    for (int64_t i = 0; i < count; i++)
        if (places[i] < 0 || places[i] >= v->dims[axis]) return call_refuse(call, "an index is outside of its input");
    if (is_run(places, count)) return lower_slice_axis(call, x, axis, places[0], count, count > 1 ? places[1] - places[0] : 1);
    /* Runs of places, joined again. */
    struct view *parts[GRAPH_INPUTS_MAX];
    int runs = 0;
    for (int64_t p = 0, length; p < count; p += length) {
        length = 1;
        while (p + length < count && is_run(places + p, length + 1)) length++;
        if (runs == GRAPH_INPUTS_MAX) return lower_product_with(call, x, axis, count, take_place, places);
        parts[runs] = view_new(call->l, v);
        if (parts[runs] == NULL) return call_memory(call);
        const int64_t step = length > 1 ? places[p + 1] - places[p] : 1;
        TRY(lower_slice_axis(call, &parts[runs++], axis, places[p], length, step));
    }
    return lower_concat_views(call, parts, runs, axis, x);
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
    if (first < 0 || !x->atoms[first].batch || n < 2) return call_refuse(call, "it would take rows of other samples");
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
    if (which < 0) return call_refuse(call, "it would take rows of other samples");
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
    if (places == NULL || part == NULL) return call_memory(call);
    for (int64_t e = 0; e < index->elements; e++)
        if (e / strides[which] % n == 0) places[used++] = index->whole[e];
    TRY(select_axis(call, &part, axis + 1, places, count));
    /* (n, .., count, ..) to (n, .., the indices' dimensions but the batch, ..), then the batch to its place */
    int order[2 * ONNX_RANK_MAX], at = 0;
    dims[at++] = n;
    for (int d = 0; d < axis; d++) dims[at++] = x->dims[d];
    for (int d = 0; d < index->rank; d++)
        if (d != which) own[rank++] = index->dims[d];
    if (at + rank + x->rank - axis - 1 > ONNX_RANK_MAX) return call_refuse(call, "its output has too many dimensions");
    for (int d = 0; d < rank; d++) dims[at++] = own[d];
    for (int d = axis + 1; d < x->rank; d++) dims[at++] = x->dims[d];
    struct view made, turned;
    TRY(view_reshape(call->l, part, at, dims, &made));
    for (int d = 0, k = 1; d < at; d++) order[d] = d == axis + which ? 0 : k++;
    TRY(view_transpose(&made, order, &turned));
    *out = view_new(call->l, &turned);
    return call_memory(call);
}

/* PyTorch's padding_idx, a row of the table without gradient: in ONNX there is no such thing, but torch.export notes the call,
 * embedding(table, tokens, padding_idx, ...). -1: none. */
static int padding_of(const struct onnx_node *node, int64_t rows) {
    static const char begin[] = "aten.embedding.default](args = (";
    const struct onnx_bytes said = node->torch_call;
    char arguments[512];
    int padding;
    const uint8_t *at = said.data != NULL ? memmem(said.data, said.size, begin, sizeof begin - 1) : NULL;
    if (at == NULL) return -1;
    at += sizeof begin - 1;
    const size_t left = (size_t)(said.data + said.size - at), used = left < sizeof arguments ? left : sizeof arguments - 1;
    memcpy(arguments, at, used);
    arguments[used] = '\0';
    return sscanf(arguments, "%*[^,)], %*[^,)], %d", &padding) == 1 && padding >= 0 && padding < rows ? padding : -1;
}

static enum ps_status embedding_step(const struct call *call, struct view *table, struct view *tokens) {
    int64_t dims[ONNX_RANK_MAX];
    int from[ONNX_RANK_MAX];
    if (call->l->steps[table->step]->kind == STEP_CONSTANT)
        return call_refuse(call,
                           "rows of a table of constants cannot be gathered by tokens: make it a parameter and freeze it");
    if (onnx_int(call->node, "axis", 0) != 0 || table->rank != 2 || view_is_parameter(call->l, table) == NULL ||
        tokens->rank + 1 > ONNX_RANK_MAX)
        return call_refuse(call, "rows of a table that is a parameter can be gathered by tokens, and this is another");
    struct step *step = step_add(call->l, STEP_EMBEDDING, call->node, 1);
    if (step == NULL) return call_memory(call);
    step->inputs[0] = tokens;
    step->parameters[0] = table;
    const int padding = padding_of(call->node, table->dims[0]);
    step->attributes.padded = padding >= 0;
    step->attributes.padding = padding >= 0 ? padding : 0;
    for (int d = 0; d <= tokens->rank; d++) {
        dims[d] = d < tokens->rank ? tokens->dims[d] : table->dims[1];
        from[d] = d < tokens->rank ? d : -1;
    }
    TRY(call_output(call, step, tokens, tokens->rank + 1, dims, from));
    call_give(call, 0, view_new(call->l, &step->output));
    return call_memory(call);
}

static enum ps_status gather_constant(const struct call *call, struct view *x, int axis, const struct tensor *index) {
    struct view *part = x, made;
    int64_t dims[2 * ONNX_RANK_MAX];
    const int rank = x->rank + index->rank - 1;
    if (index->whole == NULL || rank > ONNX_RANK_MAX || index->elements < 1) return call_refuse(call, "its indices do not fit");
    if (view_has_batch(x, axis)) {
        TRY(gather_batch(call, x, axis, index, &part));
        call_give(call, 0, part);
        return PS_OK;
    }
    int64_t *places = arena_copy(&call->l->arena, index->whole, (size_t)index->elements, sizeof *places);
    if (places == NULL) return call_memory(call);
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
    const bool table = axis == 0 && x->rank == 2 && view_is_parameter(call->l, x) != NULL;
    const int padding = table ? padding_of(call->node, x->dims[0]) : -1;
    bool padded = false;
    for (int64_t e = 0; e < each; e++) padded |= places[e] == padding;
    if (table && (padded || (each > 1 && !is_run(places, each)))) {
        struct tensor *tokens; /* rows of a table, as a table of relative positions is read, or one without gradient */
        TRY(fold_take(&call->l->fold, ONNX_INT64, 1, &each, &tokens));
        memcpy(tokens->whole, places, (size_t)each * sizeof *places);
        struct view *rows = constant_view(call->l, tokens);
        if (rows == NULL) return call_memory(call);
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
    call_give(call, 0, view_new(call->l, &wide));
    return call_memory(call);
}

/* Of each sample, (N, places, ..), the place that a value of (N) or (N, 1) says: (N, ..). */
static enum ps_status pick_of_sample(const struct call *call, struct view *x, const struct view *place) {
    int64_t dims[ONNX_RANK_MAX];
    struct view made, *picked;
    for (int d = 0; d < x->rank; d++) dims[d] = d == 0 ? x->dims[0] : 1;
    if (place->rank < 1 || !view_has_batch(place, 0) || view_elements(place) != 1 || !view_has_batch(x, 0) ||
        x->dims[0] != call->l->batch)
        return call_refuse(call, "one place of each sample can be gathered, and these are others");
    TRY(view_reshape(call->l, place, x->rank, dims, &made));
    struct view *places = view_new(call->l, &made);
    if (places == NULL) return call_memory(call);
    TRY(lower_pick(call, x, places, 1, &picked));
    for (int d = 1; d < x->rank - 1; d++) dims[d] = picked->dims[d + 1];
    TRY(view_reshape(call->l, picked, x->rank - 1, dims, &made));
    call_give(call, 0, view_new(call->l, &made));
    return call_memory(call);
}

enum ps_status lower_gather(const struct call *call) {
    const struct tensor *index = call_constant(call, 1);
    struct view *x;
    int axis;
    TRY(call_view(call, 0, &x));
    TRY(fold_axis(onnx_int(call->node, "axis", 0), x->rank, &axis, call->error));
    if (index != NULL) return gather_constant(call, x, axis, index);
    const struct value *places = call_input(call, 1);
    if (places->kind == VALUE_PLACES && places->each > 0 && axis == 0 && x->rank < ONNX_RANK_MAX &&
        x->dims[0] == places->each * call->l->batch) {
        int64_t dims[ONNX_RANK_MAX] = {call->l->batch, places->each};
        struct view made;
        for (int d = 1; d < x->rank; d++) dims[d + 1] = x->dims[d];
        TRY(view_reshape(call->l, x, x->rank + 1, dims, &made));
        return pick_of_sample(call, &made, places->view);
    }
    struct view *tokens;
    TRY(call_view(call, 1, &tokens));
    return embedding_step(call, x, tokens);
}

/* Of a constant that is the same everywhere, as a table of zeros from which segments are taken: that, in the places' shape. */
enum ps_status lower_gather_elements(const struct call *call) {
    double number;
    struct tensor *made;
    struct view *x, *places;
    int axis;
    const struct tensor *table = call_constant(call, 0);
    TRY(call_view(call, 1, &places));
    if (!tensor_uniform(table, &number)) {
        TRY(call_view(call, 0, &x));
        TRY(fold_axis(onnx_int(call->node, "axis", 0), x->rank, &axis, call->error));
        TRY(lower_pick(call, x, places, axis, &x));
        call_give(call, 0, x);
        return PS_OK;
    }
    TRY(fold_take(&call->l->fold, table->type, places->rank, places->dims, &made));
    for (int64_t e = 0; e < made->elements; e++) {
        if (made->reals != NULL) made->reals[e] = number;
        if (made->whole != NULL) made->whole[e] = (int64_t)number;
    }
    return call_give_constant(call, 0, made);
}

/* Constant places of the first dimensions: those become one, and the places numbers in it. */
enum ps_status lower_gather_nd(const struct call *call) {
    const struct tensor *index = call_constant(call, 1);
    struct view *x, made;
    struct tensor *flat;
    int64_t dims[ONNX_RANK_MAX], places[ONNX_RANK_MAX], all = 1;
    TRY(call_view(call, 0, &x));
    if (call_input(call, 1)->kind == VALUE_PLACES && call_input(call, 1)->each == 0 && x->rank > 1)
        return pick_of_sample(call, x, call_input(call, 1)->view);
    if (index == NULL || index->whole == NULL || index->rank < 1 || onnx_int(call->node, "batch_dims", 0) != 0)
        return call_refuse(call, "its indices depend on the data");
    const int64_t named = index->dims[index->rank - 1];
    if (named < 1 || named > x->rank) return call_refuse(call, "its indices do not fit");
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
            if (one < 0 || one >= x->dims[d]) return call_refuse(call, "an index is outside of its input");
            flat->whole[e] = flat->whole[e] * x->dims[d] + one;
        }
    }
    *x = made;
    return gather_constant(call, x, 0, flat);
}
