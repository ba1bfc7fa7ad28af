/* Linear layers, and products of two values. */
#include "onnx/emit.h"

#include <string.h>

/* What layers share lies in its own order, so that an image is put in that before. */
static bool has_other_uses(const struct emitting *e, const struct view *weight) {
    int uses = 0;
    for (int s = 0; s < e->l->step_count; s++)
        for (int p = 0; p < STEP_PARAMETERS_MAX && e->l->steps[s]->uses > 0; p++)
            uses += e->l->steps[s]->parameters[p] != NULL && e->l->steps[s]->parameters[p]->step == weight->step;
    return uses > 1 || e->l->steps[weight->step]->uses > 0;
}

/*
 * A linear layer over channels and positions, (N, C, H, W) made a vector: memory has H, W, C, and the flattened shape tells the
 * layer that its weights have C, H, W. True where it was so, and then `node` is the vector.
 */
static enum ps_status flatten_image(struct emitting *e, const struct wanted *w, const struct view *weight, bool *flat,
                                    int *node) {
    const struct layout *layout = e->layouts[w->view.step];
    int from[ATOMS_MAX], turned = 0;
    const int count = layout_order(&w->view, layout, from);
    *flat = false;
    if (w->groups != 1 || count != w->count || count < 2) return PS_OK;
    while (turned < count && from[turned] != w->order[0]) turned++;
    for (int i = 0; i < count; i++)
        if (w->order[i] != from[(i + turned) % count]) return PS_OK;
    if (turned == 0 || turned == count || has_other_uses(e, weight)) return PS_OK;
    int64_t memory[2] = {1, 1};
    for (int i = 0; i < count; i++) memory[i >= turned] *= w->view.atoms[from[i]].size;
    *node = layout->node;
    const struct shape *shape = &e->graph->nodes[*node].shape;
    if (shape->dim[0] != memory[1] || shape->image[0] != 0) {
        const struct list sides = list_of_sides(memory, 2);
        TRY(emit_view(e, *node, &sides, node));
    }
    *flat = true;
    return emit_node(e, OPERATOR_FLATTEN, "flatten", NULL, node, 1, node);
}

enum ps_status emit_linear(struct emitting *e) {
    const struct step *s = e->step;
    const struct view *x = s->inputs[0], *weight = s->parameters[0];
    const int last = x->rank - 1;
    struct making linear;
    struct wanted w;
    bool flat;
    int node;
    /* Seen as (K, M): PyTorch's weight is (M, K), and K has the stride 1. */
    const struct view *stored = &e->l->steps[weight->step]->output;
    int64_t stride = 1;
    for (int i = 0; i < weight->count; i++)
        if (weight->atoms[i].axis == 0) stride = weight->atoms[i].stride;
    const bool usual = stored->dims[0] == weight->dims[1] && stored->dims[1] == weight->dims[0] && stride == 1;
    TRY(emit_make(e, "linear", &linear));
    TRY(wanted_features(e, x, last, &w));
    TRY(flatten_image(e, &w, weight, &flat, &node));
    if (flat && !usual) return emit_refuse(e, "its weight (K, M) is of an image that was made a vector");
    if (!flat) TRY(emit_arrange(e, &w, &node));
    linear.attributes.channels = (int)s->output.dims[last];
    linear.attributes.bias = s->parameters[1] != NULL;
    linear.attributes.transposed = !usual;
    TRY(emit_add(e, &linear, "", &node, 1, &node));
    TRY(emit_own(e, node, 0, weight));
    if (s->parameters[1] != NULL) TRY(emit_own(e, node, 1, s->parameters[1]));
    struct piece pieces[2 * ATOMS_MAX];
    int count = 0;
    for (int i = 0; i < w.count; i++)
        if (w.view.atoms[w.order[i]].axis != last)
            pieces[count++] = view_piece(&s->output, w.view.atoms[w.order[i]].axis, &w.view, w.order[i]);
    count += view_pieces(&s->output, last, pieces + count);
    return emit_note(e, node, pieces, count);
}

/* The matrix's two last axes behind the leading atoms: `row` innermost last where `turned`. */
static enum ps_status want_matrix(struct emitting *e, const struct view *v, struct view *const *leads, int which,
                                  const int *lead, int placed, bool turned, struct wanted *w) {
    int first;
    TRY(wanted_open_behind(e, leads[which], v, w, &first));
    for (int i = 0; i < placed; i++) {
        if (i > 0 && views_presence(leads, 2, lead[i]) != views_presence(leads, 2, lead[i - 1])) {
            if (w->groups == SHAPE_RANK_MAX - 3) return emit_refuse(e, "its inputs have too many dimensions");
            wanted_end_group(w);
        }
        if (leads[which]->atoms[lead[i]].stride != 0) w->order[w->count++] = lead[i];
    }
    wanted_end_group(w);
    for (int side = 0; side < 2; side++) {
        const int axis = v->rank - 2 + (side ^ turned);
        const bool summed = axis == v->rank - (which == 0 ? 1 : 2); /* others that are repeated are so in the output */
        for (int i = first; i < w->view.count; i++) {
            const struct atom *atom = &w->view.atoms[i];
            if (atom->axis == axis && !atom->batch && (summed || atom->stride != 0)) w->order[w->count++] = i;
        }
        wanted_end_group(w);
    }
    return PS_OK;
}

/* Whether the rows of the matrix lie innermost. */
static bool lies_turned(struct emitting *e, const struct view *v) {
    struct view copy = *v;
    int order[ATOMS_MAX];
    if (!layout_splits(e->layouts[v->step], &copy)) return false;
    const int count = layout_order(&copy, e->layouts[v->step], order);
    return count > 0 && copy.atoms[order[count - 1]].axis == v->rank - 2;
}

/*
 * (N, .., M, K) by (N, .., K, N'): each with its last two innermost, in the order in which they lie best, and the leading ones
 * outside in one order. Leading dimensions that one of the two lacks are sides of 1.
 */
enum ps_status emit_product(struct emitting *e) {
    const struct step *s = e->step;
    struct view leads[3], *views[3];
    struct making made;
    struct wanted w;
    struct piece pieces[3 * ATOMS_MAX];
    int order[ATOMS_MAX], nodes[2], node, used = 0;
    const int rank = s->output.rank;
    TRY(emit_make(e, "matmul", &made));
    for (int v = 0; v < 3; v++) {
        const struct view *from = v < 2 ? s->inputs[v] : &s->output;
        leads[v] = *from;
        while (leads[v].count > 0 && leads[v].atoms[leads[v].count - 1].axis >= rank - 2) leads[v].count--;
        views[v] = &leads[v];
    }
    TRY(emit_split_alike(e, views, 3));
    const int placed = emit_joint_order(e, views, 2, views[2], order);
    for (int v = 0; v < 2; v++) {
        const bool turned = lies_turned(e, s->inputs[v]);
        TRY(want_matrix(e, s->inputs[v], views, v, order, placed, turned, &w));
        TRY(emit_arrange(e, &w, &nodes[v]));
        if (turned) TRY(emit_say(e, &made, v == 0 ? "transpose_a" : "transpose_b", 1));
    }
    TRY(emit_add(e, &made, "", nodes, 2, &node));
    for (int i = 0; i < placed; i++) {
        const struct atom *atom = &views[2]->atoms[order[i]];
        pieces[used++] = (struct piece){atom->size, atom->stride};
    }
    used += view_pieces(&s->output, rank - 2, pieces + used);
    used += view_pieces(&s->output, rank - 1, pieces + used);
    return emit_note(e, node, pieces, used);
}
