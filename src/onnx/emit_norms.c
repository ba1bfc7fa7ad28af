/* Norms, softmax and reductions. */
#include "onnx/emit.h"

#include <string.h>

enum ps_status emit_batch_norm(struct emitting *e) {
    const struct step *s = e->step;
    const struct view *x = s->inputs[0];
    const struct layout *layout = e->layouts[x->step];
    bool marks[ONNX_RANK_MAX] = {0};
    struct making made;
    struct wanted w;
    int node, order[ATOMS_MAX];
    TRY(emit_make(e, "batch_norm", &made));
    TRY(wanted_open(e, x, &w));
    marks[1] = true;
    wanted_put_others(e, &w, marks);
    if (w.count > 0) {
        wanted_end_group(&w);
        wanted_end_group(&w);
    }
    wanted_put_axis(&w, 1);
    wanted_end_group(&w);
    const bool fits = layout_order(&w.view, layout, order) == w.count &&
                      memcmp(order, w.order, (size_t)w.count * sizeof *order) == 0 &&
                      e->graph->nodes[layout->node].shape.dim[0] == view_side(x, 1);
    if (fits)
        node = layout->node;
    else
        TRY(emit_arrange(e, &w, &node));
    made.attributes.epsilon = s->attributes.epsilon;
    made.attributes.momentum = s->attributes.momentum;
    made.attributes.weight = s->parameters[0] != NULL;
    made.attributes.bias = s->parameters[1] != NULL;
    made.attributes.double_precision = true;
    TRY(emit_add(e, &made, "", &node, 1, &node));
    for (int p = 0; p < 4; p++)
        if (s->parameters[p] != NULL) TRY(emit_own(e, node, p, s->parameters[p]));
    return emit_note_same(e, node, &w);
}

/* Whether the norm has the parameters; those that it has become the step's. */
static enum ps_status say_parameters(struct emitting *e, struct making *made, const char *const *names, int count) {
    for (int p = 0; p < count; p++)
        if (making_attribute(made, names[p]) != NULL || e->step->parameters[p] == NULL)
            TRY(emit_say(e, made, names[p], e->step->parameters[p] != NULL));
    return PS_OK;
}

static enum ps_status own_all(struct emitting *e, int node, int count) {
    for (int p = 0, at = 0; p < count; p++)
        if (e->step->parameters[p] != NULL) TRY(emit_own(e, node, at++, e->step->parameters[p]));
    return PS_OK;
}

enum ps_status emit_layer_norm(struct emitting *e) {
    static const char *const names[] = {"weight", "bias"};
    const struct step *s = e->step;
    const struct view *x = s->inputs[0];
    const bool mean = s->kind == STEP_LAYER_NORM;
    struct making made;
    struct wanted w;
    int node;
    TRY(emit_make(e, mean ? "layer_norm" : "rms_norm", &made));
    TRY(wanted_features(e, x, x->rank - s->number, &w));
    TRY(emit_arrange(e, &w, &node));
    made.attributes.epsilon = s->attributes.epsilon;
    TRY(say_parameters(e, &made, names, mean ? 2 : 1));
    TRY(emit_add(e, &made, "", &node, 1, &node));
    TRY(own_all(e, node, 2));
    return emit_note_same(e, node, &w);
}

enum ps_status emit_group_norm(struct emitting *e) {
    static const char *const names[] = {"weight", "bias"};
    const struct step *s = e->step;
    const struct view *x = s->inputs[0];
    bool marks[ONNX_RANK_MAX] = {0};
    struct making made;
    struct wanted w;
    int node;
    TRY(emit_make(e, "group_norm", &made));
    TRY(wanted_open(e, x, &w));
    marks[0] = marks[1] = true;
    if (view_has_atoms(x, 0)) {
        wanted_put_axis(&w, 0);
        wanted_end_group(&w);
        TRY(emit_say(e, &made, "apart", 1));
    }
    wanted_put_others(e, &w, marks);
    wanted_end_group(&w);
    wanted_end_group(&w);
    wanted_put_axis(&w, 1);
    wanted_end_group(&w);
    TRY(emit_arrange(e, &w, &node));
    made.attributes.epsilon = s->attributes.epsilon;
    made.attributes.groups = s->attributes.groups;
    TRY(say_parameters(e, &made, names, 2));
    TRY(emit_add(e, &made, "", &node, 1, &node));
    TRY(own_all(e, node, 2));
    return emit_note_same(e, node, &w);
}

enum ps_status emit_local_norm(struct emitting *e) {
    const struct attributes *a = &e->step->attributes;
    struct making made;
    struct wanted w;
    int node;
    TRY(emit_make(e, "local_response_norm", &made));
    TRY(wanted_image(e, e->step->inputs[0], &w));
    TRY(emit_arrange(e, &w, &node));
    made.attributes.window = a->window;
    made.attributes.alpha = a->alpha;
    made.attributes.beta = a->beta;
    made.attributes.shift = a->shift;
    TRY(emit_add(e, &made, "", &node, 1, &node));
    return emit_note_same(e, node, &w);
}

enum ps_status emit_softmax(struct emitting *e) {
    const struct step *s = e->step;
    bool marks[ONNX_RANK_MAX] = {0};
    struct making made;
    struct wanted w;
    int node;
    TRY(emit_make(e, s->function, &made));
    TRY(wanted_open(e, s->inputs[0], &w));
    marks[s->axis] = true;
    wanted_put_others(e, &w, marks);
    wanted_end_group(&w);
    wanted_put_axis(&w, s->axis);
    wanted_end_group(&w);
    TRY(emit_arrange(e, &w, &node));
    TRY(emit_add(e, &made, "", &node, 1, &node));
    return emit_note_same(e, node, &w);
}

/* Dimension d of the input among those of the output. */
static int kept_axis(const struct step *s, int d) {
    const bool keeps = s->output.rank == s->inputs[0]->rank;
    int axis = 0;
    for (int i = 0; i < d; i++) axis += keeps || !s->marks[i];
    return axis;
}

enum ps_status emit_reduce(struct emitting *e) {
    const struct step *s = e->step;
    const struct view *x = s->inputs[0];
    struct making made;
    struct wanted w;
    struct piece pieces[ATOMS_MAX];
    struct list axes = {0};
    bool marked[SHAPE_RANK_MAX];
    int node, count = 0;
    static const bool none[ONNX_RANK_MAX];
    TRY(wanted_open(e, x, &w));
    wanted_put_repeated(&w, s->marks);
    wanted_put_others(e, &w, none);
    for (int i = 0; i < w.count; i++) {
        const struct atom *atom = &w.view.atoms[w.order[i]];
        const bool mark = s->marks[atom->axis];
        if (i > 0 && mark != marked[w.groups]) {
            if (w.groups == SHAPE_RANK_MAX - 1) return emit_refuse(e, "it reduces too many dimensions");
            w.ends[w.groups++] = i;
        }
        marked[w.groups] = mark;
        if (!mark) pieces[count++] = view_piece(&s->output, kept_axis(s, atom->axis), &w.view, w.order[i]);
    }
    wanted_end_group(&w);
    /* A mean over all of an image but its channels. */
    const struct shape *shape = &e->graph->nodes[e->layouts[x->step]->node].shape;
    int order[ATOMS_MAX], there = layout_order(&w.view, e->layouts[x->step], order);
    if (strcmp(s->function, "mean") == 0 && w.groups == 2 && marked[0] && shape->rank == 3 && there == w.count) {
        int64_t memory[SHAPE_RANK_MAX];
        wanted_sides(&w, memory);
        if (shape->dim[0] == memory[1]) {
            TRY(emit_make(e, "average_pool", &made));
            made.attributes.kernel_h = (int)shape->dim[1];
            made.attributes.kernel_w = (int)shape->dim[2];
            node = e->layouts[x->step]->node;
            TRY(emit_add(e, &made, "", &node, 1, &node));
            return emit_note(e, node, pieces, count);
        }
    }
    for (int g = 0; g < w.groups; g++)
        if (marked[g]) axes.at[axes.count++] = g == w.groups - 1 ? 0 : g + 1;
    TRY(emit_make(e, "reduce", &made));
    TRY(emit_say_word(e, &made, "kind", s->function));
    TRY(emit_say_list(e, &made, "axes", &axes));
    TRY(emit_arrange(e, &w, &node));
    TRY(emit_add(e, &made, "", &node, 1, &node));
    return emit_note(e, node, pieces, count);
}
