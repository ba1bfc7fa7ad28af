/* Recurrent layers and attention. */
#include "onnx/emit.h"

/* One direction of a recurrent layer: (T, N, D) to (T, 1, N, H). */
enum ps_status emit_recurrent(struct emitting *e) {
    const struct step *s = e->step;
    struct making made;
    struct wanted w;
    struct piece pieces[3 * ATOMS_MAX];
    int node, count;
    TRY(emit_make(e, s->function, &made));
    TRY(wanted_open(e, s->inputs[0], &w));
    if (view_has_atoms(s->inputs[0], 1)) { /* several sequences of a sample */
        wanted_put_axis(&w, 1);
        wanted_end_group(&w);
    }
    wanted_put_axis(&w, 0);
    wanted_end_group(&w);
    wanted_end_group(&w);
    wanted_put_axis(&w, 2);
    wanted_end_group(&w);
    TRY(emit_arrange(e, &w, &node));
    made.attributes.channels = s->attributes.channels;
    made.attributes.reverse = s->attributes.reverse;
    TRY(emit_add(e, &made, s->attributes.reverse ? "reverse" : "", &node, 1, &node));
    for (int p = 0; p < 4; p++)
        if (s->parameters[p] != NULL) TRY(emit_own(e, node, p, s->parameters[p]));
    count = view_pieces(&s->output, 2, pieces);
    count += view_pieces(&s->output, 0, pieces + count);
    count += view_pieces(&s->output, 3, pieces + count);
    return emit_note(e, node, pieces, count);
}

/* (.., heads, T, d): a row of memory for each position, heads side by side. `key_heads`: without the last, repeated, heads. */
static enum ps_status want_heads(struct emitting *e, const struct view *v, const int *lead, int lead_count, int key_atoms,
                                 struct view *const *leads, int which, int *node) {
    struct wanted w;
    int first;
    TRY(wanted_open_behind(e, leads[which], v, &w, &first));
    for (int side = 0; side < 2; side++) {
        for (int i = 0; side == 1 && i < lead_count && i < key_atoms; i++) w.order[w.count++] = lead[i];
        for (int i = first; i < w.view.count; i++)
            if (w.view.atoms[i].axis == v->rank - 2 + side && !w.view.atoms[i].batch) w.order[w.count++] = i;
        wanted_end_group(&w);
        if (side == 0) wanted_end_group(&w);
    }
    return emit_arrange(e, &w, node);
}

/* (.., heads | 1, Tq | 1, Tk): heads outside, keys inside. */
static enum ps_status want_mask(struct emitting *e, const struct view *mask, const int *lead, int lead_count,
                                struct view *const *leads, int *node) {
    struct wanted w;
    bool any = false;
    int first;
    TRY(wanted_open_behind(e, leads[3], mask, &w, &first));
    for (int i = 0; i < lead_count; i++) any = any || w.view.atoms[lead[i]].stride != 0;
    for (int i = 0; i < lead_count && any; i++) w.order[w.count++] = lead[i];
    wanted_end_group(&w);
    bool rows = false;
    for (int i = first; i < w.view.count; i++)
        rows = rows || (w.view.atoms[i].axis == mask->rank - 2 && w.view.atoms[i].stride != 0);
    for (int side = 0; side < 2; side++) {
        for (int i = first; i < w.view.count; i++)
            if (w.view.atoms[i].axis == mask->rank - 2 + side && !w.view.atoms[i].batch && (side == 1 || rows))
                w.order[w.count++] = i;
        wanted_end_group(&w);
    }
    return emit_arrange(e, &w, node);
}

/* A row of memory for each position, heads side by side; the tables have one head. */
enum ps_status emit_rotary(struct emitting *e) {
    const struct step *s = e->step;
    const int rank = s->output.rank;
    struct making made;
    struct piece pieces[ATOMS_MAX];
    int64_t heads = 1;
    int nodes[3], node, used;
    TRY(emit_make(e, "rotary", &made));
    for (int i = 0; i < 3; i++) {
        struct wanted w;
        TRY(wanted_open(e, s->inputs[i], &w));
        wanted_put_axis(&w, rank - 2);
        wanted_end_group(&w);
        wanted_end_group(&w);
        for (int d = 0; d < rank - 2 && i == 0; d++) {
            heads *= view_side(s->inputs[0], d);
            wanted_put_axis(&w, d);
        }
        wanted_put_axis(&w, rank - 1);
        wanted_end_group(&w);
        TRY(emit_arrange(e, &w, &nodes[i]));
    }
    made.attributes.heads = (int)heads;
    TRY(emit_add(e, &made, "", nodes, 3, &node));
    used = view_pieces(&s->output, rank - 2, pieces);
    for (int d = 0; d < rank - 2; d++) used += view_pieces(&s->output, d, pieces + used);
    used += view_pieces(&s->output, rank - 1, pieces + used);
    return emit_note(e, node, pieces, used);
}

/* Queries, keys and values side by side in a row of memory for each position, each with its heads side by side. */
static enum ps_status emit_packed(struct emitting *e) {
    const struct step *s = e->step;
    const struct view *x = s->inputs[0];
    struct making made;
    struct wanted w;
    struct piece pieces[2 * ATOMS_MAX];
    struct view none = s->output, *leads[4] = {&none, &none, &none, &none}, mask_lead;
    int nodes[2], node, used, lead[ATOMS_MAX], count = 0;
    int64_t heads = 1;
    TRY(emit_make(e, "attention", &made));
    TRY(wanted_open(e, x, &w));
    wanted_put_axis(&w, x->rank - 2);
    wanted_end_group(&w);
    wanted_end_group(&w);
    for (int d = 0; d < x->rank - 2; d++) wanted_put_axis(&w, d);
    for (int d = 1; d < x->rank - 2; d++) heads *= view_side(x, d);
    wanted_put_axis(&w, x->rank - 1);
    wanted_end_group(&w);
    TRY(emit_arrange(e, &w, &nodes[0]));
    if (s->input_count > 1) {
        mask_lead = *s->inputs[1];
        while (mask_lead.count > 0 && mask_lead.atoms[mask_lead.count - 1].axis >= mask_lead.rank - 2) mask_lead.count--;
        TRY(emit_split(e, &mask_lead));
        for (int i = 0; i < mask_lead.count; i++)
            if (!mask_lead.atoms[i].batch) lead[count++] = i;
        leads[3] = &mask_lead;
        TRY(want_mask(e, s->inputs[1], lead, count, leads, &nodes[1]));
    }
    made.attributes.heads = (int)heads;
    made.attributes.causal = s->attributes.causal;
    made.attributes.rate = s->attributes.rate;
    if (s->alpha != 0) TRY(emit_say(e, &made, "scale", (double)s->alpha));
    if (s->beta != 0) TRY(emit_say(e, &made, "cap", (double)s->beta));
    TRY(emit_add(e, &made, "", nodes, s->input_count, &node));
    used = view_pieces(&s->output, s->output.rank - 2, pieces);
    for (int d = 0; d < s->output.rank - 2; d++) used += view_pieces(&s->output, d, pieces + used);
    used += view_pieces(&s->output, s->output.rank - 1, pieces + used);
    return emit_note(e, node, pieces, used);
}

enum ps_status emit_attention(struct emitting *e) {
    const struct step *s = e->step;
    if (s->number == 1) return emit_packed(e);
    struct view leads[5], *views[5];
    struct making made;
    struct piece pieces[3 * ATOMS_MAX]; /* leads are split further than the output is */
    int lead[ATOMS_MAX], lead_count = 0, nodes[4], node, used = 0, key_atoms;
    const int count = s->input_count, rank = s->output.rank;
    int64_t heads = 1, key_heads = 1;
    TRY(emit_make(e, "attention", &made));
    for (int v = 0; v <= count; v++) { /* the leading dimensions: heads, and the batch */
        const struct view *from = v < count ? s->inputs[v] : &s->output;
        leads[v < count ? v : 4] = *from;
        struct view *own_lead = &leads[v < count ? v : 4];
        while (own_lead->count > 0 && own_lead->atoms[own_lead->count - 1].axis >= rank - 2) own_lead->count--;
        views[v < count ? v : 4] = own_lead;
    }
    if (count == 3) views[3] = views[4];
    struct view *all[5] = {views[0], views[1], views[2], count > 3 ? views[3] : views[4], views[4]};
    TRY(emit_split_alike(e, all, count + 1));
    for (int i = 0; i < views[4]->count; i++)
        if (!views[4]->atoms[i].batch) {
            heads *= views[4]->atoms[i].size;
            lead[lead_count++] = i;
        }
    /* Heads of keys that several of queries share are repeated behind the others. */
    key_atoms = lead_count;
    while (key_atoms > 0 && views[1]->atoms[lead[key_atoms - 1]].stride == 0 &&
           views[2]->atoms[lead[key_atoms - 1]].stride == 0)
        key_atoms--;
    for (int i = 0; i < key_atoms; i++) key_heads *= views[1]->atoms[lead[i]].size;
    for (int v = 0; v < 3; v++)
        TRY(want_heads(e, s->inputs[v], lead, lead_count, v > 0 ? key_atoms : lead_count, views, v, &nodes[v]));
    if (count > 3) TRY(want_mask(e, s->inputs[3], lead, lead_count, views, &nodes[3]));
    made.attributes.heads = (int)heads;
    made.attributes.causal = s->attributes.causal;
    made.attributes.rate = s->attributes.rate;
    if (key_heads != heads) TRY(emit_say(e, &made, "key_heads", (double)key_heads));
    if (s->alpha != 0) TRY(emit_say(e, &made, "scale", (double)s->alpha));
    if (s->beta != 0) TRY(emit_say(e, &made, "cap", (double)s->beta));
    TRY(emit_add(e, &made, "", nodes, count, &node));
    used += view_pieces(&s->output, rank - 2, pieces);
    for (int i = 0; i < lead_count; i++)
        pieces[used++] = (struct piece){views[4]->atoms[lead[i]].size, views[4]->atoms[lead[i]].stride};
    used += view_pieces(&s->output, rank - 1, pieces + used);
    return emit_note(e, node, pieces, used);
}
