/* Steps that work on each element of one input or several that are aligned. */
#include "onnx/emit.h"

#include <string.h>

/* The input as it lies. */
static enum ps_status as_it_is(struct emitting *e, struct wanted *w, int *node) {
    TRY(wanted_open(e, e->step->inputs[0], w));
    w->count = layout_order(&w->view, e->layouts[w->view.step], w->order);
    *node = e->layouts[w->view.step]->node;
    return PS_OK;
}

enum ps_status emit_unary(struct emitting *e) {
    const struct step *s = e->step;
    const bool relu = strcmp(s->function, "relu") == 0, gelu = strcmp(s->function, "gelu") == 0;
    struct making unary;
    struct wanted w;
    int node;
    TRY(emit_make(e, relu || gelu ? s->function : "unary", &unary));
    TRY(as_it_is(e, &w, &node));
    if (gelu) unary.attributes.tanh_form = s->alpha != 0;
    if (!relu && !gelu) {
        TRY(emit_say_word(e, &unary, "kind", s->function));
        unary.attributes.alpha = s->alpha;
        unary.attributes.beta = s->beta;
    }
    TRY(emit_add(e, &unary, "", &node, 1, &node));
    return emit_note_same(e, node, &w);
}

enum ps_status emit_dropout(struct emitting *e) {
    struct making dropout;
    struct wanted w;
    int node;
    TRY(emit_make(e, "dropout", &dropout));
    TRY(as_it_is(e, &w, &node));
    dropout.attributes.rate = e->step->attributes.rate;
    TRY(emit_add(e, &dropout, "", &node, 1, &node));
    return emit_note_same(e, node, &w);
}

/* Whole numbers are truth values as they are: 0, or not. What is made a number of them is 0 or 1. */
enum ps_status emit_cast(struct emitting *e) {
    const struct step *s = e->step, *from = e->l->steps[s->inputs[0]->step];
    const bool floats = onnx_is_float(s->onnx_type);
    struct making cast, not ;
    struct wanted w;
    int node;
    TRY(as_it_is(e, &w, &node));
    if (s->onnx_type != ONNX_BOOL && from->onnx_type == ONNX_BOOL && from->kind == STEP_CAST) {
        TRY(emit_make(e, "logical", &not ));
        TRY(emit_say_word(e, &not, "kind", "not"));
        for (int i = 0; i < 2; i++) TRY(emit_add(e, &not, "truth", &node, 1, &node));
    }
    if (!floats && !onnx_is_float(from->onnx_type)) return emit_note_same(e, node, &w);
    TRY(emit_make(e, "cast", &cast));
    cast.attributes.type = floats ? TYPE_F32 : TYPE_I32;
    TRY(emit_add(e, &cast, "", &node, 1, &node));
    return emit_note_same(e, node, &w);
}

/* Nodes of the inputs where all lie in one order and have one shape already. */
static bool lie_alike(struct emitting *e, struct view *const *views, int count, const int *order, int placed, int *nodes) {
    for (int v = 0; v < count; v++) {
        int own_order[ATOMS_MAX];
        const struct layout *layout = e->layouts[views[v]->step];
        if (layout_order(views[v], layout, own_order) != placed) return false;
        if (memcmp(own_order, order, (size_t)placed * sizeof *order) != 0) return false;
        nodes[v] = layout->node;
        const struct shape *a = &e->graph->nodes[nodes[0]].shape, *b = &e->graph->nodes[nodes[v]].shape;
        if (a->rank != b->rank || memcmp(a->dim, b->dim, sizeof a->dim) != 0 || b->image[0] != 0) return false;
    }
    return true;
}

/* Aligned inputs in one order, each with sides of 1 where it is repeated; and the pieces of the output. */
static enum ps_status join(struct emitting *e, int *nodes, struct piece *pieces, int *placed) {
    const struct step *s = e->step;
    struct view out = s->output, inputs[3], *views[4];
    int order[ATOMS_MAX];
    const int count = s->input_count;
    for (int v = 0; v < count; v++) {
        inputs[v] = *s->inputs[v];
        views[v] = &inputs[v];
    }
    views[count] = &out;
    TRY(emit_split_alike(e, views, count + 1));
    *placed = emit_joint_order(e, views, count, &out, order);
    for (int i = 0; i < *placed; i++) pieces[i] = (struct piece){out.atoms[order[i]].size, out.atoms[order[i]].stride};
    if (lie_alike(e, views, count, order, *placed, nodes)) return PS_OK;
    for (int v = 0; v < count; v++) {
        struct wanted w = {.view = inputs[v]};
        for (int i = 0; i < *placed; i++) {
            if (i > 0 && views_presence(views, count, order[i]) != views_presence(views, count, order[i - 1])) {
                if (w.groups == SHAPE_RANK_MAX - 1) return emit_refuse(e, "its inputs are repeated along too many dimensions");
                wanted_end_group(&w);
            }
            if (inputs[v].atoms[order[i]].stride != 0) w.order[w.count++] = order[i];
        }
        wanted_end_group(&w);
        TRY(emit_arrange(e, &w, &nodes[v]));
    }
    return PS_OK;
}

enum ps_status emit_aligned(struct emitting *e) {
    const struct step *s = e->step;
    struct making made;
    struct piece pieces[ATOMS_MAX];
    int nodes[3], placed, node;
    TRY(join(e, nodes, pieces, &placed));
    const struct shape *a = &e->graph->nodes[nodes[0]].shape, *b = &e->graph->nodes[nodes[s->input_count - 1]].shape;
    const bool sum = s->kind == STEP_BINARY && strcmp(s->function, "add") == 0 && a->rank == b->rank &&
                     memcmp(a->dim, b->dim, sizeof a->dim) == 0;
    static const char *const names[] = {
        [STEP_BINARY] = "binary", [STEP_CHOICE] = "where", [STEP_COMPARE] = "compare", [STEP_LOGICAL] = "logical"};
    TRY(emit_make(e, sum ? "add" : names[s->kind], &made));
    if (!sum && s->kind != STEP_CHOICE) TRY(emit_say_word(e, &made, "kind", s->function));
    TRY(emit_add(e, &made, "", nodes, s->input_count, &node));
    return emit_note(e, node, pieces, placed);
}
