/*
 * Values in the place of others, at constant places, as assignments to parts of a tensor are exported: what stays and what is
 * new, in pieces, one after the other.
 */
#include <string.h>

#include "onnx/lower_calls.h"

/* The dimensions of a value in another order, and the first of them joined to one. */
struct turned {
    int rank, joined;
    int order[ONNX_RANK_MAX];
};

static enum ps_status turn(const struct call *call, const struct view *v, const struct turned *turned, struct view **out) {
    struct view made, flat;
    int64_t dims[ONNX_RANK_MAX] = {1};
    int rank = 1;
    TRY(view_transpose(v, turned->order, &made));
    for (int d = 0; d < turned->rank; d++) {
        if (d < turned->joined)
            dims[0] *= made.dims[d];
        else
            dims[rank++] = made.dims[d];
    }
    TRY(view_reshape(call->l, &made, rank, dims, &flat));
    *out = view_new(call->l, &flat);
    return call_memory(call);
}

/* The same of a constant. */
static enum ps_status turn_constant(const struct call *call, const struct tensor *in, const struct turned *turned,
                                    struct tensor **out) {
    int64_t dims[ONNX_RANK_MAX], own[ONNX_RANK_MAX], strides[ONNX_RANK_MAX], joined = 1;
    fold_strides(in->rank, in->dims, own);
    for (int d = 0; d < in->rank; d++) {
        dims[d] = in->dims[turned->order[d]];
        strides[d] = own[turned->order[d]];
        if (d < turned->joined) joined *= dims[d];
    }
    TRY(fold_strided(&call->l->fold, in, in->rank, dims, strides, 0, out));
    (*out)->rank = 1 + in->rank - turned->joined;
    (*out)->dims[0] = joined;
    for (int d = turned->joined; d < in->rank; d++) (*out)->dims[1 + d - turned->joined] = dims[d];
    return PS_OK;
}

/* Back to these dimensions. */
static enum ps_status turn_back(const struct call *call, const struct view *v, const struct turned *turned,
                                const int64_t *whole, struct view **out) {
    struct view apart, made;
    int64_t dims[ONNX_RANK_MAX];
    int back[ONNX_RANK_MAX];
    for (int d = 0; d < turned->rank; d++) {
        dims[d] = whole[turned->order[d]];
        back[turned->order[d]] = d;
    }
    TRY(view_reshape(call->l, v, turned->rank, dims, &apart));
    TRY(view_transpose(&apart, back, &made));
    *out = view_new(call->l, &made);
    return call_memory(call);
}

/* Where each row of the result comes from: a row of the data, or behind those one of the updates. */
static double is_source(const void *sources, int64_t from, int64_t to) { return ((const int64_t *)sources)[to] == from; }
static double is_place(const void *places, int64_t from, int64_t to) { return ((const int64_t *)places)[from] == to; }

/* Row places[i] of the data becomes row i of the updates. */
static enum ps_status replace_rows(const struct call *call, struct view *data, struct view *updates, const int64_t *places,
                                   struct view **out) {
    const int64_t rows = data->dims[0];
    int64_t *sources = arena_take(&call->l->arena, (size_t)rows, sizeof *sources);
    struct view *parts[GRAPH_INPUTS_MAX];
    int count = 0;
    if (sources == NULL) return call_memory(call);
    for (int64_t r = 0; r < rows; r++) sources[r] = r;
    for (int64_t i = 0; i < updates->dims[0]; i++) {
        if (sources[places[i]] >= rows)
            return call_refuse(call, "it puts two values in one place, and which of them is not said");
        sources[places[i]] = rows + i;
    }
    for (int64_t r = 0, length; r < rows; r += length) {
        const bool is_new = sources[r] >= rows;
        for (length = 1; r + length < rows && sources[r + length] == sources[r] + length; length++) {
        }
        if (count == GRAPH_INPUTS_MAX) {
            TRY(lower_concat_views(call, (struct view *[]){data, updates}, 2, 0, out));
            return lower_product_with(call, out, 0, rows, is_source, sources);
        }
        parts[count] = view_new(call->l, is_new ? updates : data);
        if (parts[count] == NULL) return call_memory(call);
        TRY(lower_slice_axis(call, &parts[count++], 0, is_new ? sources[r] - rows : r, length, 1));
    }
    return lower_concat_views(call, parts, count, 0, out);
}

static enum ps_status scatter(const struct call *call, const struct turned *turned, const struct turned *turned_updates,
                              const int64_t *places, int64_t count) {
    const char *reduction = onnx_string(call->node, "reduction", "none");
    const struct turned *how[2] = {turned, turned_updates};
    struct view *all[2] = {NULL, NULL}, *out;
    struct tensor *constant;
    for (int i = 0; i < 2; i++) {
        int rank;
        call_dims(call, 2 * i, &rank);
        if (rank != how[i]->rank) return call_refuse(call, "its updates do not fit");
        if (call_constant(call, 2 * i) != NULL) continue;
        TRY(call_view(call, 2 * i, &all[i]));
        TRY(turn(call, all[i], how[i], &all[i]));
    }
    for (int i = 0; i < 2; i++) {
        if (all[i] != NULL) continue;
        TRY(turn_constant(call, call_constant(call, 2 * i), how[i], &constant));
        TRY(lower_constant_beside(call, constant, &all[!i], 1, &all[i]));
    }
    struct view *data = all[0], *updates = all[1];
    bool fits = data->rank == updates->rank && updates->dims[0] == count;
    for (int d = 1; d < data->rank && fits; d++) fits = data->dims[d] == updates->dims[d];
    if (!fits) return call_refuse(call, "its updates do not fit");
    for (int64_t i = 0; i < count; i++)
        if (places[i] < 0 || places[i] >= data->dims[0]) return call_refuse(call, "an index is outside of its input");
    if (strcmp(reduction, "add") == 0) {
        TRY(lower_product_with(call, &updates, 0, data->dims[0], is_place, places));
        TRY(lower_binary_step(call, "add", data, updates, &out));
    } else if (strcmp(reduction, "none") == 0) {
        TRY(replace_rows(call, data, updates, places, &out));
    } else
        return call_refuse(call, "its reduction is not known: none and add are");
    int rank;
    TRY(turn_back(call, out, turned, call_dims(call, 0, &rank), &out));
    call_give(call, 0, out);
    return call_memory(call);
}

static int64_t from_end(int64_t place, int64_t side) { return place < 0 ? place + side : place; }

/* Which dimension of the places counts dimension d of the data from its first to its last position; -1: none does. */
static int counts_along(const struct tensor *index, const int64_t *strides, int d, int64_t side) {
    const int last = index->rank - 1;
    for (int t = 0; t < last; t++) {
        bool fits = index->dims[t] == side;
        for (int64_t e = d; e < index->elements && fits; e += index->dims[last])
            fits = from_end(index->whole[e], side) == e / strides[t] % side;
        if (fits) return t;
    }
    return -1;
}

/*
 * Places of the first dimensions. Some of these are taken whole, as the samples are: a dimension of the places counts each of
 * them. The others are joined to one, in which the rest of the places' dimensions spread the updates. Where that does not fit,
 * as on a diagonal, all but the samples are joined.
 */
static enum ps_status find_places(const struct call *call, const struct tensor *index, bool joins, const int64_t *dims,
                                  struct turned *data, struct turned *updates, int64_t **found, int64_t *found_count) {
    const int last = index->rank - 1;
    const int64_t named = index->dims[last];
    int64_t strides[ONNX_RANK_MAX], count = 1;
    int whole_of[ONNX_RANK_MAX];
    fold_strides(index->rank, index->dims, strides);
    for (int t = 0; t < last; t++) whole_of[t] = -1;
    data->joined = updates->joined = 0;
    for (int d = 0; d < named; d++) {
        const struct value *value = call_input(call, 0);
        const bool samples = value->kind == VALUE_VIEW && view_has_batch(value->view, d);
        const int t = joins && !samples ? -1 : counts_along(index, strides, d, dims[d]);
        if (t >= 0 && whole_of[t] < 0)
            whole_of[t] = d;
        else
            data->order[data->joined++] = d;
    }
    for (int t = 0; t < last; t++) {
        if (whole_of[t] >= 0) continue;
        updates->order[updates->joined++] = t;
        count *= index->dims[t];
    }
    int at = data->joined, own = updates->joined;
    for (int t = 0; t < last; t++)
        if (whole_of[t] >= 0) data->order[at++] = whole_of[t], updates->order[own++] = t;
    while (at < data->rank) data->order[at] = at, at++;
    while (own < updates->rank) updates->order[own] = own, own++;
    int64_t *places = *found = arena_take(&call->l->arena, (size_t)count, sizeof *places);
    if (places == NULL) return call_memory(call);
    for (int64_t i = 0; i < count; i++) places[i] = -1;
    for (int64_t e = 0; e < index->elements; e += named) {
        int64_t place = 0, row = 0;
        for (int d = 0; d < data->joined; d++) {
            const int64_t side = dims[data->order[d]], one = from_end(index->whole[e + data->order[d]], side);
            if (one < 0 || one >= side) return call_refuse(call, "an index is outside of its input");
            place = place * side + one;
        }
        for (int t = 0; t < updates->joined; t++) {
            const int dim = updates->order[t];
            row = row * index->dims[dim] + e / strides[dim] % index->dims[dim];
        }
        if (places[row] >= 0 && places[row] != place)
            return joins ? call_refuse(call, "its places differ from sample to sample")
                         : find_places(call, index, true, dims, data, updates, found, found_count);
        places[row] = place;
    }
    *found_count = count;
    return PS_OK;
}

static enum ps_status scatter_at(const struct call *call, const struct tensor *index) {
    int rank;
    const int64_t *dims = call_dims(call, 0, &rank);
    const int64_t named = index->rank > 0 ? index->dims[index->rank - 1] : 0, last = index->rank - 1;
    if (index->elements < 1 || named < 1 || named > rank || last + rank - named > ONNX_RANK_MAX)
        return call_refuse(call, "its indices do not fit");
    struct turned data = {.rank = rank}, updates = {.rank = (int)(last + rank - named)};
    int64_t *places, count;
    TRY(find_places(call, index, false, dims, &data, &updates, &places, &count));
    return scatter(call, &data, &updates, places, count);
}

enum ps_status lower_scatter_nd(const struct call *call) {
    const struct tensor *index = call_constant(call, 1);
    if (index == NULL || index->whole == NULL) return call_refuse(call, "its places depend on the data");
    return scatter_at(call, index);
}

/* The same with all dimensions named: the axis by the index, the others by where it stands. */
enum ps_status lower_scatter_elements(const struct call *call) {
    const struct tensor *index = call_constant(call, 1);
    struct tensor *all;
    int64_t dims[ONNX_RANK_MAX], strides[ONNX_RANK_MAX];
    int rank, axis;
    call_dims(call, 0, &rank);
    if (index == NULL || index->whole == NULL) return call_refuse(call, "its places depend on the data");
    TRY(fold_axis(onnx_int(call->node, "axis", 0), rank, &axis, call->error));
    if (index->rank != rank || rank == ONNX_RANK_MAX) return call_refuse(call, "its indices do not fit");
    memcpy(dims, index->dims, sizeof dims);
    dims[rank] = rank;
    TRY(fold_take(&call->l->fold, ONNX_INT64, rank + 1, dims, &all));
    fold_strides(rank, index->dims, strides);
    for (int64_t e = 0; e < index->elements; e++)
        for (int d = 0; d < rank; d++) all->whole[e * rank + d] = d == axis ? index->whole[e] : e / strides[d] % index->dims[d];
    return scatter_at(call, all);
}
