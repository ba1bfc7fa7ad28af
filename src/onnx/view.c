/* Views: what Reshape, Transpose and Expand make of a step's output without computing anything, and how several fit together.
 */
#include <stdlib.h>
#include <string.h>

#include "onnx/lower.h"

/* Row-major strides for the atoms that are no batch and not repeated. */
void view_natural(struct view *view) {
    int64_t stride = 1;
    for (int i = view->count - 1; i >= 0; i--) {
        struct atom *atom = &view->atoms[i];
        if (atom->batch || atom->stride == 0) continue;
        atom->stride = stride;
        stride *= atom->size;
    }
}

enum ps_status view_fits(struct lowering *l, const struct view *view) {
    int64_t elements = 1;
    for (int d = 0; d < view->rank; d++) {
        const int64_t side = view->dims[d];
        if (side < 0 || side > INT32_MAX || (side > 0 && elements > ((int64_t)1 << 40) / side))
            return error_set(l->error, PS_BAD_INPUT, "a value of more than 2^40 elements, or 2^31 along one dimension");
        elements *= side;
    }
    return PS_OK;
}

int64_t view_elements(const struct view *view) {
    int64_t elements = 1;
    for (int i = 0; i < view->count; i++)
        if (!view->atoms[i].batch) elements *= view->atoms[i].size;
    return elements;
}

bool view_has_batch(const struct view *view, int axis) {
    for (int i = 0; i < view->count; i++)
        if (view->atoms[i].batch && (axis < 0 || view->atoms[i].axis == axis)) return true;
    return false;
}

void view_join(struct view *view, bool across_axes) {
    int kept = 0;
    for (int i = 0; i < view->count; i++) {
        const struct atom *atom = &view->atoms[i];
        struct atom *last = kept > 0 ? &view->atoms[kept - 1] : NULL;
        bool joins = last != NULL && !last->batch && !atom->batch && (across_axes || last->axis == atom->axis) &&
                     last->stride == atom->stride * atom->size && (atom->stride != 0 || last->stride == 0);
        if (joins)
            *last = (struct atom){last->size * atom->size, atom->stride, atom->axis, false};
        else
            view->atoms[kept++] = *atom;
    }
    view->count = kept;
}

bool view_split(struct view *view, int i, int64_t inner) {
    struct atom *atom = &view->atoms[i];
    if (atom->batch || atom->size % inner != 0 || view->count == ATOMS_MAX) return false;
    memmove(atom + 1, atom, (size_t)(view->count - i) * sizeof *atom);
    view->count++;
    atom[0].size /= inner;
    atom[0].stride *= inner;
    atom[1].size = inner;
    return true;
}

/*
 * Whether a batch of 1 stands in the dimension, which is full without it: nothing but guesses can tell. It has one of 1 if that
 * comes now or next; else, where there are fewer dimensions than before, it was joined to this one, as rows (T N, D) are made
 * of (T, N, D), and otherwise to the next, as heads are: (T, N heads, d).
 */
static bool takes_lone(const struct view *from, int rank, const int64_t *dims, int d) {
    if (dims[d] == 1 || d == rank - 1) return true;
    return dims[d + 1] != 1 && rank < from->rank;
}

/* Deals the atoms out to the dimensions, in order; splits where one ends. */
static bool deal(const struct view *from, int rank, const int64_t *dims, struct view *to) {
    struct view rest = *from;
    int next = 0;
    *to = (struct view){.step = from->step, .rank = rank};
    memcpy(to->dims, dims, (size_t)rank * sizeof *dims);
    for (int d = 0; d < rank; d++) {
        int64_t need = dims[d];
        while (next < rest.count) {
            const struct atom *atom = &rest.atoms[next];
            const bool lone = atom->batch && atom->size == 1;
            if (need == 1 && !(lone && takes_lone(from, rank, dims, d))) break;
            if (!lone && need % atom->size != 0 && (atom->size % need != 0 || !view_split(&rest, next, atom->size / need)))
                return false;
            if (to->count == ATOMS_MAX) return false;
            need /= rest.atoms[next].size;
            to->atoms[to->count] = rest.atoms[next++];
            to->atoms[to->count++].axis = d;
        }
        if (need != 1) return false;
    }
    return next == rest.count;
}

struct view *view_copy(struct lowering *l, const struct view *from) {
    struct step *step = step_add(l, STEP_COPY, l->steps[from->step]->node, 1);
    if (step == NULL) return NULL;
    step->inputs[0] = view_new(l, from);
    step->onnx_type = l->steps[from->step]->onnx_type;
    step->output.rank = from->rank;
    memcpy(step->output.dims, from->dims, sizeof from->dims);
    step->output.count = from->count;
    memcpy(step->output.atoms, from->atoms, sizeof from->atoms);
    for (int i = 0; i < from->count; i++) step->output.atoms[i].stride = 1;
    view_natural(&step->output);
    return &step->output;
}

enum ps_status view_reshape(struct lowering *l, const struct view *from, int rank, const int64_t *dims, struct view *to) {
    struct view joined = *from;
    view_join(&joined, true);
    if (deal(&joined, rank, dims, to)) return PS_OK;
    const struct view *copied = view_copy(l, from);
    if (copied == NULL) return arena_check(&l->arena, "an ONNX file", l->error);
    joined = *copied;
    view_join(&joined, true);
    if (deal(&joined, rank, dims, to)) return PS_OK;
    return error_set(l->error, PS_BAD_INPUT, "it would mix the samples of a batch, or has too many dimensions");
}

enum ps_status view_transpose(const struct view *from, const int *order, struct view *to) {
    *to = (struct view){.step = from->step, .rank = from->rank};
    for (int d = 0; d < from->rank; d++) {
        to->dims[d] = from->dims[order[d]];
        for (int i = 0; i < from->count; i++) {
            if (from->atoms[i].axis != order[d]) continue;
            to->atoms[to->count] = from->atoms[i];
            to->atoms[to->count++].axis = d;
        }
    }
    return PS_OK;
}

/* The value with leading dimensions of 1 so that it has the rank. */
static void raise(struct view *view, int rank) {
    const int more = rank - view->rank;
    for (int d = rank - 1; d >= 0; d--) view->dims[d] = d >= more ? view->dims[d - more] : 1;
    for (int i = 0; i < view->count; i++) view->atoms[i].axis += more;
    view->rank = rank;
}

enum ps_status view_expand(struct lowering *l, const struct view *from, int rank, const int64_t *dims, struct view *to) {
    int both;
    int64_t sizes[ONNX_RANK_MAX];
    if (!fold_broadcast(from->rank, from->dims, rank, dims, &both, sizes))
        return error_set(l->error, PS_BAD_INPUT, "its shape does not fit");
    struct view raised = *from;
    raise(&raised, both);
    *to = (struct view){.step = from->step, .rank = both};
    memcpy(to->dims, sizes, sizeof sizes);
    TRY(view_fits(l, to));
    int next = 0;
    for (int d = 0; d < both; d++) {
        if (sizes[d] > raised.dims[d]) {
            if (to->count == ATOMS_MAX) return error_set(l->error, PS_BAD_INPUT, "it has too many dimensions");
            to->atoms[to->count++] = (struct atom){sizes[d], 0, d, false};
        }
        while (next < raised.count && raised.atoms[next].axis == d) {
            if (to->count == ATOMS_MAX) return error_set(l->error, PS_BAD_INPUT, "it has too many dimensions");
            to->atoms[to->count++] = raised.atoms[next++];
        }
    }
    return PS_OK;
}

/* --------------------------------------------------------------- alignment */

/* One view's atoms of one axis, the last first, as they are taken. */
struct taking {
    struct atom left[ATOMS_MAX], taken[ATOMS_MAX];
    int left_count, taken_count;
    bool there; /* the value is not repeated as a whole along the axis */
};

static enum ps_status too_many(struct lowering *l) {
    return error_set(l->error, PS_BAD_INPUT, "its inputs have too many dimensions");
}

static bool take(struct taking *t, int64_t size, bool batch, int axis) {
    if (t->taken_count == ATOMS_MAX) return false;
    if (!t->there) {
        t->taken[t->taken_count++] = (struct atom){size, 0, axis, batch};
        return true;
    }
    if (t->left_count == 0 || (batch && size == 1 && !t->left[t->left_count - 1].batch)) {
        t->taken[t->taken_count++] = (struct atom){size, 0, axis, batch};
        return batch && size == 1;
    }
    struct atom *last = &t->left[t->left_count - 1];
    if (batch && !last->batch && last->stride != 0) return false; /* it differs from sample to sample */
    if (last->batch != batch && !batch) return false;
    if (last->size % size != 0) return false;
    t->taken[t->taken_count++] = (struct atom){size, batch ? 0 : last->stride, axis, batch};
    last->size /= size;
    last->stride *= size;
    if (last->size == 1) t->left_count--;
    return true;
}

/* The next piece, from the right: the batch where one of the values has it there, else the smallest of the atoms. */
static bool next_piece(const struct taking *takings, int count, int64_t *size, bool *batch) {
    *size = 0;
    *batch = false;
    for (int v = 0; v < count; v++) {
        const struct taking *t = &takings[v];
        if (!t->there || t->left_count == 0) continue;
        const struct atom *last = &t->left[t->left_count - 1];
        if (last->batch && !*batch) {
            *batch = true;
            *size = last->size;
        }
        if (!*batch && (*size == 0 || last->size < *size)) *size = last->size;
    }
    return *size > 0;
}

static enum ps_status align_axis(struct lowering *l, struct view **views, int count, int axis, struct taking *takings) {
    int64_t size;
    bool batch;
    for (int v = 0; v < count; v++) {
        struct taking *t = &takings[v];
        *t = (struct taking){.there = views[v]->dims[axis] > 1};
        for (int i = 0; i < views[v]->count; i++) {
            if (views[v]->atoms[i].axis != axis) continue;
            t->left[t->left_count++] = views[v]->atoms[i];
            t->there = true;
        }
    }
    while (next_piece(takings, count, &size, &batch))
        for (int v = 0; v < count; v++)
            if (!take(&takings[v], size, batch, axis))
                return error_set(l->error, PS_BAD_INPUT, "its inputs do not fit together along dimension %d", axis);
    return PS_OK;
}

/* The takings of all axes in `aligned`; `output` gets sizes. */
static enum ps_status align(struct lowering *l, struct view **views, int count, int skip, struct taking *takings,
                            struct view *aligned, struct view *output) {
    for (int d = 0; d < output->rank; d++) {
        output->dims[d] = 1;
        for (int v = 0; v < count; v++)
            if (views[v]->dims[d] > output->dims[d]) output->dims[d] = views[v]->dims[d];
        for (int v = 0; v < count && d == skip; v++)
            for (int i = 0; i < views[v]->count; i++)
                if (views[v]->atoms[i].axis == d) aligned[v].atoms[aligned[v].count++] = views[v]->atoms[i];
        if (d == skip) continue;
        TRY(align_axis(l, views, count, d, takings));
        for (int i = takings[0].taken_count - 1; i >= 0; i--) {
            bool real = false;
            for (int v = 0; v < count; v++) {
                if (aligned[v].count == ATOMS_MAX) return too_many(l);
                aligned[v].atoms[aligned[v].count++] = takings[v].taken[i];
                real = real || takings[v].taken[i].stride != 0;
            }
            if (output->count == ATOMS_MAX) return too_many(l);
            output->atoms[output->count] = takings[0].taken[i];
            output->atoms[output->count++].stride = real;
        }
    }
    return PS_OK;
}

enum ps_status views_align(struct lowering *l, struct view **views, int count, int skip, struct view *output) {
    struct taking *takings = calloc((size_t)count, sizeof *takings + sizeof(struct view));
    struct view *aligned = (struct view *)(void *)(takings + count);
    int rank = 0;
    if (takings == NULL) return error_memory(l->error, "an ONNX file", (size_t)count * sizeof *takings);
    for (int v = 0; v < count; v++) rank = views[v]->rank > rank ? views[v]->rank : rank;
    for (int v = 0; v < count; v++) {
        raise(views[v], rank);
        aligned[v] = *views[v];
        aligned[v].count = 0;
    }
    *output = (struct view){.rank = rank};
    enum ps_status status = align(l, views, count, skip, takings, aligned, output);
    for (int v = 0; v < count && status == PS_OK; v++) {
        for (int d = 0; d < rank; d++)
            if (d != skip) aligned[v].dims[d] = output->dims[d];
        *views[v] = aligned[v];
    }
    free(takings);
    if (status == PS_OK) status = view_fits(l, output);
    if (status == PS_OK) view_natural(output);
    return status;
}
