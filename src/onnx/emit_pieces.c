/* Copies in another order, rows of tables, pieces of values and several values joined. */
#include "onnx/emit.h"

#include <stdlib.h>
#include <string.h>

enum ps_status emit_copy(struct emitting *e) {
    struct wanted w;
    int node;
    TRY(wanted_open(e, e->step->inputs[0], &w));
    for (int i = 0; i < w.view.count; i++)
        if (!w.view.atoms[i].batch) w.order[w.count++] = i;
    wanted_end_group(&w);
    TRY(emit_arrange(e, &w, &node));
    /* Wherever the pieces that were copied end, the copy may be cut anew: it was made for that. */
    return emit_note(e, node, &(struct piece){view_elements(&e->step->output), 1}, 1);
}

enum ps_status emit_embedding(struct emitting *e) {
    const struct step *s = e->step;
    const struct view *tokens = s->inputs[0];
    static const bool none[ONNX_RANK_MAX];
    struct making made;
    struct wanted w;
    struct piece pieces[2 * ATOMS_MAX];
    int node, count = 0;
    TRY(emit_make(e, "embedding", &made));
    TRY(wanted_open(e, tokens, &w));
    wanted_put_others(e, &w, none);
    wanted_end_group(&w);
    wanted_end_group(&w);
    wanted_end_group(&w);
    TRY(emit_arrange(e, &w, &node));
    made.attributes.vocabulary = (int)s->parameters[0]->dims[0];
    made.attributes.channels = (int)s->parameters[0]->dims[1];
    made.attributes.padded = s->attributes.padded;
    made.attributes.padding = s->attributes.padding;
    TRY(emit_add(e, &made, "", &node, 1, &node));
    TRY(emit_own(e, node, 0, s->parameters[0]));
    for (int i = 0; i < w.count; i++)
        pieces[count++] = view_piece(&s->output, w.view.atoms[w.order[i]].axis, &w.view, w.order[i]);
    count += view_pieces(&s->output, s->output.rank - 1, pieces + count);
    return emit_note(e, node, pieces, count);
}

/* Where an axis stands among the sides: outer, axis, inner. As (axis, outer, 1) where nothing is inside, as (inner, axis, 1)
 * where nothing is outside. Returns the axis in Penstock's numbers. */
static int want_axis(struct wanted *w, const int *order, int count, int axis) {
    int last = -1, inner = 0, outer = 0;
    for (int i = 0; i < count; i++)
        if (w->view.atoms[order[i]].axis == axis) last = i;
    for (int i = 0; i < count; i++) {
        if (w->view.atoms[order[i]].axis == axis) continue;
        *(i < last ? &outer : &inner) += 1;
        if (i < last) w->order[w->count++] = order[i];
    }
    if (outer > 0) wanted_end_group(w);
    if (inner == 0 && outer > 0) wanted_end_group(w);
    wanted_put_axis(w, axis);
    wanted_end_group(w);
    if (inner == 0) return 0;
    if (outer == 0) wanted_end_group(w);
    for (int i = last + 1; i < count; i++)
        if (w->view.atoms[order[i]].axis != axis) w->order[w->count++] = order[i];
    wanted_end_group(w);
    return outer == 0 ? 1 : 2;
}

/* As want_axis has put them, with the axis' own pieces of the output. */
static enum ps_status note_axis(struct emitting *e, int node, const struct wanted *w, int axis) {
    struct piece pieces[2 * ATOMS_MAX]; /* less than all other atoms, and those of the axis */
    int count = 0;
    bool done = false;
    for (int i = 0; i < w->count; i++) {
        const int at = w->view.atoms[w->order[i]].axis;
        if (at != axis)
            pieces[count++] = view_piece(&e->step->output, at, &w->view, w->order[i]);
        else if (!done)
            count += view_pieces(&e->step->output, axis, pieces + count);
        done = done || at == axis;
    }
    return emit_note(e, node, pieces, count);
}

enum ps_status emit_slice(struct emitting *e) {
    const struct step *s = e->step;
    static const bool none[ONNX_RANK_MAX];
    struct making made;
    struct wanted w, all;
    int node;
    TRY(emit_make(e, "slice", &made));
    TRY(wanted_open(e, s->inputs[0], &w));
    all = w;
    wanted_put_others(e, &all, none);
    const int axis = want_axis(&w, all.order, all.count, s->axis);
    TRY(emit_arrange(e, &w, &node));
    made.attributes.first = (int)s->first;
    made.attributes.count = (int)s->length;
    if (axis != 1) TRY(emit_say(e, &made, "axis", axis));
    if (s->stride != 1) TRY(emit_say(e, &made, "step", (double)s->stride));
    TRY(emit_add(e, &made, "", &node, 1, &node));
    return note_axis(e, node, &w, s->axis);
}

/* The aligned view `bare`, without the axis, with the axis' atoms of the whole view put in at a place of the order. */
static enum ps_status want_joined(struct emitting *e, const struct view *bare, const struct view *whole, int axis,
                                  const int *order, int placed, int place, struct wanted *w) {
    struct view alone = *whole;
    alone.count = 0;
    for (int i = 0; i < whole->count; i++)
        if (whole->atoms[i].axis == axis) alone.atoms[alone.count++] = whole->atoms[i];
    TRY(emit_split(e, &alone));
    *w = (struct wanted){.view = *bare};
    if (bare->count + alone.count > ATOMS_MAX) return emit_refuse(e, "its inputs have too many dimensions");
    memcpy(&w->view.atoms[bare->count], alone.atoms, (size_t)alone.count * sizeof *alone.atoms);
    w->view.count += alone.count;
    for (int i = 0; i < place; i++) w->order[w->count++] = order[i];
    if (place > 0) wanted_end_group(w);
    if (place > 0 && place == placed) wanted_end_group(w);
    for (int i = bare->count; i < w->view.count; i++) w->order[w->count++] = i;
    wanted_end_group(w);
    if (place == 0 && placed > 0) wanted_end_group(w);
    for (int i = place; i < placed; i++) w->order[w->count++] = order[i];
    if (place < placed) wanted_end_group(w);
    return PS_OK;
}

/* Atoms of the other axes that lie inside of this one, in the value that has the most of it. */
static enum ps_status atoms_inside(struct emitting *e, int *inside) {
    const struct step *s = e->step;
    int most = 0, order[ATOMS_MAX];
    for (int v = 1; v < s->input_count; v++)
        if (s->inputs[v]->dims[s->axis] > s->inputs[most]->dims[s->axis]) most = v;
    struct view lead = *s->inputs[most];
    TRY(emit_split(e, &lead));
    const int there = layout_order(&lead, e->layouts[lead.step], order);
    *inside = 0;
    for (int i = there - 1; i >= 0 && lead.atoms[order[i]].axis != s->axis; i--) ++*inside;
    if (*inside == there) *inside = 0;
    return PS_OK;
}

/* Whether the value lies as wanted already, with the axis as its first side and the others as in the shape. */
static bool lies_so(struct emitting *e, const struct wanted *w, int64_t side, const struct shape *like) {
    const struct layout *layout = e->layouts[w->view.step];
    const struct shape *shape = &e->graph->nodes[layout->node].shape;
    int order[ATOMS_MAX];
    return layout_order(&w->view, layout, order) == w->count &&
           memcmp(order, w->order, (size_t)w->count * sizeof *order) == 0 && shape->rank == like->rank &&
           shape->dim[0] == side && shape->image[0] == 0 &&
           memcmp(shape->dim + 1, like->dim + 1, sizeof shape->dim - sizeof *shape->dim) == 0;
}

/* `views`: the inputs without the axis, and last the output, all aligned. */
static enum ps_status concat_views(struct emitting *e, struct view **views) {
    const struct step *s = e->step;
    const int count = s->input_count;
    int nodes[GRAPH_INPUTS_MAX], order[ATOMS_MAX], inside, node;
    struct piece pieces[2 * ATOMS_MAX];
    struct making made;
    struct wanted w;
    TRY(emit_make(e, "concat", &made));
    TRY(emit_split_alike(e, views, count + 1));
    TRY(atoms_inside(e, &inside));
    const int placed = emit_joint_order(e, views, count, views[count], order), place = inside > placed ? 0 : placed - inside;
    bool plain = place == placed;
    for (int v = 0; v < count && plain; v++) {
        const struct layout *first = e->layouts[s->inputs[0]->step];
        TRY(want_joined(e, views[v], s->inputs[v], s->axis, order, placed, place, &w));
        plain = lies_so(e, &w, view_side(s->inputs[v], s->axis), &e->graph->nodes[first->node].shape);
        nodes[v] = e->layouts[s->inputs[v]->step]->node;
    }
    for (int v = 0; v < count && !plain; v++) {
        TRY(want_joined(e, views[v], s->inputs[v], s->axis, order, placed, place, &w));
        TRY(emit_arrange(e, &w, &nodes[v]));
    }
    if (place < placed) TRY(emit_say(e, &made, "axis", place == 0 ? 1 : 2));
    TRY(emit_add(e, &made, "", nodes, count, &node));
    int used = 0;
    for (int i = 0; i <= placed; i++) {
        if (i == place) used += view_pieces(&s->output, s->axis, pieces + used);
        if (i == placed) break;
        const struct atom *atom = &views[count]->atoms[order[i]];
        pieces[used++] = (struct piece){atom->size, atom->stride};
    }
    return emit_note(e, node, pieces, used);
}

enum ps_status emit_concat(struct emitting *e) {
    const struct step *s = e->step;
    const int count = s->input_count;
    if (count > GRAPH_INPUTS_MAX)
        return error_set(e->l->error, PS_BAD_INPUT, "%d inputs; %d are accepted", count, GRAPH_INPUTS_MAX);
    struct view *bare = calloc((size_t)count + 1, sizeof *bare), *views[GRAPH_INPUTS_MAX + 1];
    if (bare == NULL) return error_memory(e->l->error, "an ONNX file", (size_t)count * sizeof *bare);
    for (int v = 0; v <= count; v++) {
        const struct view *from = v < count ? s->inputs[v] : &s->output;
        bare[v] = *from;
        bare[v].count = 0;
        for (int i = 0; i < from->count; i++)
            if (from->atoms[i].axis != s->axis) bare[v].atoms[bare[v].count++] = from->atoms[i];
        views[v] = &bare[v];
    }
    enum ps_status status = concat_views(e, views);
    free(bare);
    return status;
}
