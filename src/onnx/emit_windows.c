/* Convolutions and pooling; images that are padded and resized. */
#include "onnx/emit.h"

#include <string.h>

/* What both sides have in common with no window at all need not be said. */
static enum ps_status say_sides(struct emitting *e, struct making *making, const char *name, int64_t h, int64_t w,
                                int64_t usual) {
    if (h == usual && w == usual) return PS_OK;
    TRY(emit_say(e, making, name, (double)h));
    attribute_set(&making->attributes, making_attribute(making, name), 1, (double)w);
    return PS_OK;
}

enum ps_status emit_window(struct emitting *e) {
    const struct step *s = e->step;
    const struct window *h = &s->window[0], *v = &s->window[1];
    const bool pool = s->kind == STEP_POOL;
    struct making made;
    struct wanted w;
    int node;
    TRY(emit_make(e, pool ? s->function : s->kind == STEP_CONVOLUTION ? "convolution" : "deconvolution", &made));
    TRY(wanted_image(e, s->inputs[0], &w));
    TRY(emit_arrange(e, &w, &node));
    struct attributes *a = &made.attributes;
    if (pool) {
        a->ceiling = s->attributes.ceiling;
        a->count_padding = s->attributes.count_padding;
    } else {
        a->channels = s->attributes.channels;
        a->groups = s->attributes.groups;
        a->bias = s->attributes.bias;
        if (s->output.rank == 3) TRY(emit_say(e, &made, "dims", 1));
    }
    TRY(say_sides(e, &made, "kernel", h->kernel, v->kernel, 0));
    TRY(say_sides(e, &made, "stride", h->stride, v->stride, 0));
    TRY(say_sides(e, &made, "pad", h->before, v->before, 0));
    TRY(say_sides(e, &made, "pad_extra", h->after - h->before, v->after - v->before, 0));
    TRY(say_sides(e, &made, "dilation", h->dilation, v->dilation, 1));
    TRY(say_sides(e, &made, "output_pad", h->more, v->more, 0));
    TRY(emit_add(e, &made, "", &node, 1, &node));
    for (int p = 0; p < 2; p++)
        if (s->parameters[p] != NULL) TRY(emit_own(e, node, p, s->parameters[p]));
    return emit_note_image(e, node);
}

/* Each dimension that is padded is a side of its own. */
enum ps_status emit_pad(struct emitting *e) {
    const struct step *s = e->step;
    static const bool none[ONNX_RANK_MAX];
    struct making made;
    struct wanted w;
    struct piece pieces[2 * ATOMS_MAX];
    struct list before = {0}, after = {0};
    int64_t sides[2][SHAPE_RANK_MAX] = {{0}};
    int node, count = 0, order[ATOMS_MAX];
    bool done[ONNX_RANK_MAX] = {0}, pads[ONNX_RANK_MAX] = {0};
    TRY(emit_make(e, "pad", &made));
    TRY(wanted_open(e, s->inputs[0], &w));
    for (int d = 0; d < s->inputs[0]->rank; d++) pads[d] = s->before[d] != 0 || s->after[d] != 0;
    wanted_put_repeated(&w, pads);
    wanted_put_others(e, &w, none);
    const int atoms = w.count;
    memcpy(order, w.order, sizeof order);
    w.count = 0;
    for (int i = 0; i < atoms; i++) {
        const int axis = w.view.atoms[order[i]].axis;
        if (done[axis]) continue;
        if (w.groups >= SHAPE_RANK_MAX - 1) return emit_refuse(e, "it pads too many dimensions");
        if (pads[axis]) {
            if (w.count > 0 && (w.groups == 0 || w.ends[w.groups - 1] != w.count)) wanted_end_group(&w);
            wanted_put_axis(&w, axis);
            sides[0][w.groups] = s->before[axis];
            sides[1][w.groups] = s->after[axis];
            wanted_end_group(&w);
            count += view_pieces(&s->output, axis, pieces + count);
            done[axis] = true;
        } else {
            w.order[w.count++] = order[i];
            pieces[count++] = view_piece(&s->output, axis, &w.view, order[i]);
        }
    }
    for (int d = 0; d < s->inputs[0]->rank; d++) /* of a dimension of 1 */
        if (view_side(s->inputs[0], d) == 1 && pads[d]) return emit_refuse(e, "it pads a dimension of 1");
    if (w.groups == 0 || w.ends[w.groups - 1] != w.count) wanted_end_group(&w);
    before = list_of_sides(sides[0], w.groups);
    after = list_of_sides(sides[1], w.groups);
    TRY(emit_say_list(e, &made, "before", &before));
    TRY(emit_say_list(e, &made, "after", &after));
    TRY(emit_say_word(e, &made, "mode", s->function));
    TRY(emit_say(e, &made, "value", (double)s->alpha));
    TRY(emit_arrange(e, &w, &node));
    TRY(emit_add(e, &made, "", &node, 1, &node));
    return emit_note(e, node, pieces, count);
}

enum ps_status emit_resize(struct emitting *e) {
    const struct step *s = e->step;
    const int64_t *dims = s->output.dims;
    struct making made;
    struct wanted w;
    int node;
    TRY(emit_make(e, "resize", &made));
    TRY(wanted_image(e, s->inputs[0], &w));
    TRY(emit_arrange(e, &w, &node));
    TRY(say_sides(e, &made, "out", dims[2], s->output.rank > 3 ? dims[3] : 1, 0));
    TRY(emit_say_word(e, &made, "mode", s->function));
    TRY(emit_say_word(e, &made, "coordinates", s->words[0]));
    TRY(emit_say_word(e, &made, "rounding", s->words[1]));
    TRY(emit_say(e, &made, "cubic", (double)s->alpha));
    TRY(emit_say(e, &made, "scale_h", s->scale[0]));
    TRY(emit_say(e, &made, "scale_w", s->scale[1]));
    TRY(emit_add(e, &made, "", &node, 1, &node));
    return emit_note_image(e, node);
}
