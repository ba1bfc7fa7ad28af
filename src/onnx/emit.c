/*
 * From steps to nodes: how the inputs of each kind of step must lie in memory, and how its output then lies.
 *
 * A step that is emitted has a node and notes how its output lies: pieces, sizes with the strides that they have in the step's
 * row-major output, the outermost in memory first, without the batch. An input's atoms are split where pieces end, put in the
 * order that the operator wants, and grouped to the sides that it wants: by nothing, a `view`, or a `permute`.
 */
#include "onnx/emit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/text.h"
#include "graph/values.h"

/* -------------------------------------------------------------------- nodes */

enum ps_status emit_refuse(const struct emitting *e, const char *what) {
    return error_set(e->l->error, PS_BAD_INPUT, "%s", what);
}

/* Whether no node has the name yet; it is taken then. */
static bool take_name(struct emitting *e, const char *name) {
    uint64_t hash = hash_text(HASH_BEGIN, name);
    size_t place = (size_t)((hash ^ hash >> 29) % e->taken_size);
    for (; e->taken[place] != 0; place = place + 1 < e->taken_size ? place + 1 : 0)
        if (strcmp(e->graph->nodes[e->taken[place] - 1].name, name) == 0) return false;
    e->taken[place] = e->graph->node_count + 1; /* which the node will be */
    return true;
}

/* A node's name: what comes from the file, short enough and unlike all others. */
static void make_name(struct emitting *e, const char *base, const char *what, char name[64]) {
    const size_t most = 48, length = strlen(base);
    while (*base == '/') base++;
    const char *tail = length > most ? base + strlen(base) - (strlen(base) > most ? most : strlen(base)) : base;
    while (*tail == '/') tail++;
    snprintf(name, 64, "%.48s%s%.8s", tail, what[0] != '\0' ? "/" : "", what);
    for (char *c = name; *c != '\0'; c++)
        if (*c == ',' || *c == '"') *c = '_';
    utf8_repair(name, '_');
    utf8_clean(name, '_');
    while (!take_name(e, name))
        snprintf(name + (strlen(name) > 55 ? utf8_whole(name, 55) : strcspn(name, "~")), 9, "~%d", ++e->names);
}

/* The name of what the step is: its first parameter's module, else the node's. */
static const char *base_name(const struct emitting *e, char room[256]) {
    const struct step *step = e->step;
    const struct view *weight = step->parameters[0];
    const struct step *owner = weight != NULL ? e->l->steps[weight->step] : step;
    if (owner->kind == STEP_PARAMETER) {
        const char *name = e->l->model->initializers[owner->number].name, *dot = strrchr(name, '.');
        if (dot == NULL || dot == name) return name;
        snprintf(room, 256, "%.*s", (int)(dot - name > 250 ? 250 : dot - name), name);
        return room;
    }
    if (step->node != NULL) return step->node->name;
    return "constant";
}

enum ps_status emit_node(struct emitting *e, enum operator_id id, const char *what, const struct attributes *attributes,
                         const int *inputs, int count, int *node) {
    char name[64], room[256];
    make_name(e, base_name(e, room), what, name);
    *node = graph_add(e->graph, id, name, attributes, inputs, count, e->l->error);
    return *node >= 0 ? PS_OK : e->graph->status;
}

/* ----------------------------------------------- operators as files name them */

enum ps_status emit_make(struct emitting *e, const char *name, struct making *making) {
    struct ps_error unknown;
    if (operator_find(name, &making->id, &unknown) != PS_OK)
        return error_set(e->l->error, PS_BAD_INPUT, "it needs the operator '%s', which is not offered", name);
    making->op = operator_get(making->id);
    making->attributes = attributes_usual(making->op);
    return PS_OK;
}

const struct attribute *making_attribute(const struct making *making, const char *name) {
    for (int a = 0; a < ATTRIBUTES_MAX && making->op->attributes[a].name != NULL; a++)
        if (strcmp(making->op->attributes[a].name, name) == 0) return &making->op->attributes[a];
    return NULL;
}

enum ps_status emit_say(struct emitting *e, struct making *making, const char *name, double value) {
    const struct attribute *attribute = making_attribute(making, name);
    if (attribute == NULL)
        return error_set(e->l->error, PS_BAD_INPUT, "it needs %s of the operator '%s', which is not offered", name,
                         making->op->name);
    attribute_set(&making->attributes, attribute, 0, value);
    return PS_OK;
}

enum ps_status emit_say_word(struct emitting *e, struct making *making, const char *name, const char *word) {
    const struct attribute *attribute = making_attribute(making, name);
    double value = 0;
    if (attribute == NULL || attribute_number(attribute, word, &value, NULL) != PS_OK)
        return error_set(e->l->error, PS_BAD_INPUT, "it needs %s %s of the operator '%s', which is not offered", name, word,
                         making->op->name);
    return emit_say(e, making, name, value);
}

enum ps_status emit_say_list(struct emitting *e, struct making *making, const char *name, const struct list *list) {
    const struct attribute *attribute = making_attribute(making, name);
    if (attribute == NULL)
        return error_set(e->l->error, PS_BAD_INPUT, "it needs %s of the operator '%s', which is not offered", name,
                         making->op->name);
    for (int i = 0; i < list->count; i++) attribute_set(&making->attributes, attribute, i, (double)list->at[i]);
    return PS_OK;
}

/* Only what the network's own file accepts, too: training reads the network from there. */
static enum ps_status check_attributes(const struct making *making, struct ps_error *error) {
    for (const struct attribute *a = making->op->attributes; a < making->op->attributes + ATTRIBUTES_MAX && a->name != NULL;
         a++)
        for (int i = 0; i < attribute_count(&making->attributes, a); i++)
            TRY(attribute_check(a, attribute_get(&making->attributes, a, i), error));
    return PS_OK;
}

enum ps_status emit_add(struct emitting *e, const struct making *making, const char *what, const int *inputs, int count,
                        int *node) {
    TRY(check_attributes(making, e->l->error));
    return emit_node(e, making->id, what, &making->attributes, inputs, count, node);
}

/* -------------------------------------------------------------- arrangement */

/* The next piece in memory; those that lie behind each other in the step's output, too, are one. */
static void layout_add(struct layout *layout, struct piece piece) {
    struct piece *last = layout->count > 0 ? &layout->pieces[layout->count - 1] : NULL;
    if (piece.size == 1) return;
    if (last != NULL && last->stride == piece.stride * piece.size)
        *last = (struct piece){last->size * piece.size, piece.stride};
    else
        layout->pieces[layout->count++] = piece;
}

bool layout_splits(const struct layout *layout, struct view *v) {
    for (int i = 0; i < v->count; i++) {
        for (int p = 0; p < layout->count; p++) {
            const int64_t bounds[2] = {layout->pieces[p].stride, layout->pieces[p].stride * layout->pieces[p].size};
            for (int b = 0; b < 2; b++) {
                const struct atom *atom = &v->atoms[i];
                if (atom->batch || atom->stride == 0 || bounds[b] <= atom->stride || bounds[b] >= atom->stride * atom->size)
                    continue;
                if (bounds[b] % atom->stride != 0 || !view_split(v, i, bounds[b] / atom->stride)) return false;
            }
        }
    }
    return true;
}

/* Has the step's output in row-major order, which any view can show. */
static enum ps_status emit_plain(struct emitting *e, int step) {
    struct wanted w = {.view = e->l->steps[step]->output};
    int node;
    w.view.step = step;
    if (!layout_splits(e->layouts[step], &w.view)) return emit_refuse(e, "its input lies in memory as no view can show it");
    for (int i = 0; i < w.view.count; i++)
        if (!w.view.atoms[i].batch) w.order[w.count++] = i;
    wanted_end_group(&w);
    TRY(emit_arrange(e, &w, &node));
    struct layout *plain = arena_take(&e->l->arena, 1, sizeof *plain);
    if (plain == NULL) return arena_check(&e->l->arena, "an ONNX file", e->l->error);
    *plain = (struct layout){e->layouts[step], node, 0, {{0}}};
    layout_add(plain, (struct piece){view_elements(&w.view), 1});
    e->layouts[step] = plain;
    return PS_OK;
}

enum ps_status emit_split(struct emitting *e, struct view *v) {
    struct view kept = *v;
    if (layout_splits(e->layouts[v->step], v)) return PS_OK;
    *v = kept;
    TRY(emit_plain(e, v->step));
    return layout_splits(e->layouts[v->step], v) ? PS_OK : emit_refuse(e, "its input lies in memory as no view can show it");
}

int layout_order(const struct view *v, const struct layout *layout, int order[ATOMS_MAX]) {
    int count = 0;
    for (int p = 0; p < layout->count; p++) {
        const int64_t low = layout->pieces[p].stride, high = low * layout->pieces[p].size;
        const int first = count;
        for (int i = 0; i < v->count; i++) {
            const struct atom *atom = &v->atoms[i];
            if (atom->batch || atom->stride < low || atom->stride >= high || atom->stride == 0) continue;
            int place = count++;
            for (; place > first && v->atoms[order[place - 1]].stride < atom->stride; place--) order[place] = order[place - 1];
            order[place] = i;
        }
    }
    return count;
}

int wanted_sides(const struct wanted *w, int64_t sides[SHAPE_RANK_MAX]) {
    for (int g = 0, i = 0; g < w->groups; g++) {
        sides[g] = 1;
        for (; i < w->ends[g]; i++) sides[g] *= w->view.atoms[w->order[i]].size;
    }
    return w->groups;
}

struct list list_of_sides(const int64_t *memory, int count) {
    struct list sides = {.count = count};
    for (int d = 0; d < count; d++) sides.at[d] = memory[d == 0 ? count - 1 : d - 1];
    return sides;
}

static bool has_sides(const struct shape *shape, const struct list *sides) {
    if (shape->rank != sides->count || shape->image[0] != 0) return false;
    for (int d = 0; d < sides->count; d++)
        if (shape->dim[d] != sides->at[d]) return false;
    return true;
}

enum ps_status emit_view(struct emitting *e, int from, const struct list *sides, int *node) {
    *node = from;
    if (has_sides(&e->graph->nodes[from].shape, sides)) return PS_OK;
    const struct shape *shape = &e->graph->nodes[from].shape;
    if (sides->count == 1 && shape->rank == 3 && shape->dim[1] == 1 && shape->dim[2] == 1)
        return emit_node(e, OPERATOR_FLATTEN, "flatten", NULL, &from, 1, node);
    struct making view;
    TRY(emit_make(e, "view", &view));
    TRY(emit_say_list(e, &view, "sides", sides));
    return emit_add(e, &view, "view", &from, 1, node);
}

/* Runs of atoms that stay together from one order to another: run_of[atom], first_of[run]; returns how many there are. */
static int find_runs(const int *from, const int *to, int count, int run_of[ATOMS_MAX], int first_of[ATOMS_MAX]) {
    int place_of[ATOMS_MAX], runs = 0;
    for (int i = 0; i < count; i++) place_of[to[i]] = i;
    for (int i = 0; i < count; i++) {
        const bool on = i > 0 && place_of[from[i]] == place_of[from[i - 1]] + 1;
        if (!on) first_of[runs++] = from[i];
        run_of[from[i]] = runs - 1;
    }
    return runs;
}

/* The order of `to` made by a permute of a node whose output lies in that of `from`; noted, so that others find it. */
static enum ps_status permute_once(struct emitting *e, const struct wanted *w, const int *from, const int *to, int count,
                                   int *node) {
    int run_of[ATOMS_MAX], first_of[ATOMS_MAX], shown;
    int64_t sides[ATOMS_MAX];
    const int runs = find_runs(from, to, count, run_of, first_of);
    for (int r = 0; r < runs; r++) sides[r] = 1;
    for (int i = 0; i < count; i++) sides[run_of[from[i]]] *= w->view.atoms[from[i]].size;
    const struct list before = list_of_sides(sides, runs);
    TRY(emit_view(e, *node, &before, &shown));
    int memory[SHAPE_RANK_MAX], at = 0;
    for (int i = 0; i < count; i++)
        if (first_of[run_of[to[i]]] == to[i]) memory[at++] = run_of[to[i]];
    /* Side d of Penstock's order is number (d - 1) of memory, side 0 the last; so are the entries of `order`. */
    struct list order = {.count = runs};
    struct making made_of;
    for (int d = 0; d < runs; d++) {
        const int source = memory[d == 0 ? runs - 1 : d - 1];
        order.at[d] = source == runs - 1 ? 0 : source + 1;
    }
    TRY(emit_make(e, "permute", &made_of));
    TRY(emit_say_list(e, &made_of, "order", &order));
    TRY(emit_add(e, &made_of, "permute", &shown, 1, node));
    struct layout *made = arena_take(&e->l->arena, 1, sizeof *made);
    if (made == NULL) return arena_check(&e->l->arena, "an ONNX file", e->l->error);
    *made = (struct layout){e->layouts[w->view.step]->next, *node, 0, {{0}}};
    for (int i = 0; i < count; i++) layout_add(made, (struct piece){w->view.atoms[to[i]].size, w->view.atoms[to[i]].stride});
    e->layouts[w->view.step]->next = made;
    return PS_OK;
}

/* The same where there may be more runs than sides: as long as there are, the first two go to the front, which takes five
 * sides at most, and are one run then. Overwrites `from`. */
static enum ps_status permute(struct emitting *e, const struct wanted *w, int *from, const int *to, int count, int *node) {
    int run_of[ATOMS_MAX], first_of[ATOMS_MAX], between[ATOMS_MAX];
    while (find_runs(from, to, count, run_of, first_of) > SHAPE_RANK_MAX) {
        int front = 0, runs = 0, at = 0;
        for (; front < count; front++) {
            runs += first_of[run_of[to[front]]] == to[front];
            if (runs > 2) break;
            between[at++] = to[front];
        }
        for (int i = 0; i < count; i++) {
            bool moved = false;
            for (int k = 0; k < front; k++) moved = moved || to[k] == from[i];
            if (!moved) between[at++] = from[i];
        }
        TRY(permute_once(e, w, from, between, count, node));
        memcpy(from, between, (size_t)count * sizeof *from);
    }
    return permute_once(e, w, from, to, count, node);
}

enum ps_status emit_arrange(struct emitting *e, struct wanted *w, int *node) {
    int from[ATOMS_MAX], to[ATOMS_MAX], count = 0, there;
    int64_t memory[SHAPE_RANK_MAX];
    bool repeated = false;
    for (int i = 0; i < w->count; i++) {
        if (w->view.atoms[w->order[i]].stride != 0) to[count++] = w->order[i];
        repeated = repeated || w->view.atoms[w->order[i]].stride == 0;
    }
    struct layout *layout = e->layouts[w->view.step];
    for (; layout != NULL; layout = layout->next) {
        there = layout_order(&w->view, layout, from);
        if (there == count && memcmp(from, to, (size_t)count * sizeof *to) == 0) break;
    }
    if (layout != NULL)
        *node = layout->node;
    else {
        layout = e->layouts[w->view.step];
        there = layout_order(&w->view, layout, from);
        if (there != count) return emit_refuse(e, "its input lies in memory as no view can show it");
        *node = layout->node;
        TRY(permute(e, w, from, to, count, node));
    }
    if (repeated) {
        struct making expand;
        if (w->count > SHAPE_RANK_MAX) return emit_refuse(e, "its input is repeated in more than 6 dimensions");
        int64_t sides[SHAPE_RANK_MAX];
        for (int i = 0; i < w->count; i++) {
            memory[i] = w->view.atoms[w->order[i]].stride != 0 ? w->view.atoms[w->order[i]].size : 1;
            sides[i] = w->view.atoms[w->order[i]].size;
        }
        const struct list narrow = list_of_sides(memory, w->count);
        TRY(emit_view(e, *node, &narrow, node));
        const struct list wide = list_of_sides(sides, w->count);
        TRY(emit_make(e, "expand", &expand));
        TRY(emit_say_list(e, &expand, "sides", &wide));
        TRY(emit_add(e, &expand, "expand", node, 1, node));
    }
    const int groups = wanted_sides(w, memory);
    const struct list sides = list_of_sides(memory, groups);
    return emit_view(e, *node, &sides, node);
}

void wanted_end_group(struct wanted *w) { w->ends[w->groups++] = w->count; }

void wanted_put_axis(struct wanted *w, int axis) {
    for (int i = 0; i < w->view.count; i++)
        if (w->view.atoms[i].axis == axis && !w->view.atoms[i].batch) w->order[w->count++] = i;
}

void wanted_put_others(struct emitting *e, struct wanted *w, const bool *marks) {
    int order[ATOMS_MAX];
    const int count = layout_order(&w->view, e->layouts[w->view.step], order);
    for (int i = 0; i < count; i++)
        if (!marks[w->view.atoms[order[i]].axis]) w->order[w->count++] = order[i];
}

void wanted_put_repeated(struct wanted *w, const bool *marks) {
    for (int i = 0; i < w->view.count; i++) {
        const struct atom *atom = &w->view.atoms[i];
        if (!atom->batch && atom->stride == 0 && marks[atom->axis]) w->order[w->count++] = i;
    }
}

enum ps_status wanted_open(struct emitting *e, const struct view *v, struct wanted *w) {
    *w = (struct wanted){.view = *v};
    return emit_split(e, &w->view);
}

enum ps_status wanted_open_behind(struct emitting *e, const struct view *lead, const struct view *v, struct wanted *w,
                                  int *first) {
    struct view last = *v;
    last.count = 0;
    for (int i = 0; i < v->count; i++)
        if (v->atoms[i].axis >= v->rank - 2) last.atoms[last.count++] = v->atoms[i];
    TRY(emit_split(e, &last));
    *w = (struct wanted){.view = *lead};
    *first = lead->count;
    if (lead->count + last.count > ATOMS_MAX) return emit_refuse(e, "its inputs have too many dimensions");
    memcpy(&w->view.atoms[lead->count], last.atoms, (size_t)last.count * sizeof *last.atoms);
    w->view.count += last.count;
    return PS_OK;
}

/* ------------------------------------------------------------------ outputs */

enum ps_status emit_note(struct emitting *e, int node, const struct piece *pieces, int count) {
    struct layout *layout = arena_take(&e->l->arena, 1, sizeof *layout);
    if (layout == NULL) return arena_check(&e->l->arena, "an ONNX file", e->l->error);
    layout->node = node;
    for (int i = 0; i < count; i++) layout_add(layout, pieces[i]);
    e->layouts[e->step->output.step] = layout;
    return PS_OK;
}

struct piece view_piece(const struct view *out, int axis, const struct view *in, int atom) {
    int64_t inside = 1;
    for (int i = atom + 1; i < in->count && in->atoms[i].axis == in->atoms[atom].axis; i++) inside *= in->atoms[i].size;
    for (int i = out->count - 1; i >= 0; i--) {
        const struct atom *own = &out->atoms[i];
        if (own->axis != axis) continue;
        if (own->batch || inside >= own->size) {
            inside /= own->size;
            continue;
        }
        return (struct piece){in->atoms[atom].size, own->stride * inside};
    }
    return (struct piece){1, 0};
}

int view_pieces(const struct view *out, int axis, struct piece *pieces) {
    int count = 0;
    for (int i = 0; i < out->count; i++)
        if (out->atoms[i].axis == axis && !out->atoms[i].batch)
            pieces[count++] = (struct piece){out->atoms[i].size, out->atoms[i].stride};
    return count;
}

bool view_has_atoms(const struct view *v, int axis) {
    for (int i = 0; i < v->count; i++)
        if (v->atoms[i].axis == axis && !v->atoms[i].batch && v->atoms[i].stride != 0) return true;
    return false;
}

enum ps_status emit_note_same(struct emitting *e, int node, const struct wanted *w) {
    struct piece pieces[ATOMS_MAX];
    for (int i = 0; i < w->count; i++)
        pieces[i] = view_piece(&e->step->output, w->view.atoms[w->order[i]].axis, &w->view, w->order[i]);
    return emit_note(e, node, pieces, w->count);
}

int64_t view_side(const struct view *v, int axis) {
    int64_t side = 1;
    for (int i = 0; i < v->count; i++)
        if (v->atoms[i].axis == axis && !v->atoms[i].batch) side *= v->atoms[i].size;
    return side;
}

enum ps_status wanted_features(struct emitting *e, const struct view *x, int first, struct wanted *w) {
    bool marks[ONNX_RANK_MAX] = {0};
    TRY(wanted_open(e, x, w));
    for (int d = first; d < x->rank; d++) marks[d] = true;
    wanted_put_others(e, w, marks);
    if (w->count > 0) {
        wanted_end_group(w);
        wanted_end_group(w);
    }
    for (int d = first; d < x->rank; d++) wanted_put_axis(w, d);
    wanted_end_group(w);
    return PS_OK;
}

enum ps_status wanted_image(struct emitting *e, const struct view *x, struct wanted *w) {
    TRY(wanted_open(e, x, w));
    if (view_has_atoms(x, 0)) { /* several images of a sample */
        wanted_put_axis(w, 0);
        wanted_end_group(w);
    }
    wanted_put_axis(w, 2);
    wanted_end_group(w);
    if (x->rank > 3) wanted_put_axis(w, 3);
    wanted_end_group(w);
    wanted_put_axis(w, 1);
    wanted_end_group(w);
    return PS_OK;
}

enum ps_status emit_note_image(struct emitting *e, int node) {
    const struct view *out = &e->step->output;
    struct piece pieces[4 * ATOMS_MAX];
    int count = view_pieces(out, 0, pieces);
    count += view_pieces(out, 2, pieces + count);
    if (out->rank > 3) count += view_pieces(out, 3, pieces + count);
    count += view_pieces(out, 1, pieces + count);
    return emit_note(e, node, pieces, count);
}

enum ps_status emit_split_alike(struct emitting *e, struct view *const *views, int count) {
    for (int v = 0; v < count; v++) {
        struct layout *layout = e->layouts[views[v]->step];
        if (views[v]->step == e->step->output.step) continue;
        if (layout == NULL) return emit_refuse(e, "it reads what is only a parameter of another node");
        for (int i = 0; i < views[v]->count; i++) {
            for (int p = 0; p < layout->count; p++) {
                const int64_t bounds[2] = {layout->pieces[p].stride, layout->pieces[p].stride * layout->pieces[p].size};
                for (int b = 0; b < 2; b++) {
                    const struct atom *atom = &views[v]->atoms[i];
                    if (atom->batch || atom->stride == 0 || bounds[b] <= atom->stride || bounds[b] >= atom->stride * atom->size)
                        continue;
                    if (bounds[b] % atom->stride != 0) {
                        TRY(emit_plain(e, views[v]->step));
                        return emit_split_alike(e, views, count);
                    }
                    const int64_t inner = bounds[b] / atom->stride;
                    for (int other = 0; other < count; other++)
                        if (!view_split(views[other], i, inner))
                            return emit_refuse(e, "its inputs lie in memory as no view can show them");
                }
            }
        }
    }
    return PS_OK;
}

int emit_joint_order(struct emitting *e, struct view *const *views, int count, const struct view *output, int *order) {
    int lead = 0, placed = 0;
    int64_t most = -1;
    for (int v = 0; v < count; v++) {
        int64_t elements = 1;
        for (int i = 0; i < views[v]->count; i++)
            if (views[v]->atoms[i].stride != 0) elements *= views[v]->atoms[i].size;
        if (elements <= most) continue;
        most = elements;
        lead = v;
    }
    if (views[lead]->count > 0) placed = layout_order(views[lead], e->layouts[views[lead]->step], order);
    for (int i = 0; i < output->count; i++) {
        if (output->atoms[i].batch || output->atoms[i].stride == 0) continue;
        int place = 0;
        while (place < placed && order[place] != i) place++;
        if (place < placed) continue;
        place = 0;
        for (int before = i - 1; before >= 0 && place == 0; before--)
            for (int k = 0; k < placed; k++)
                if (order[k] == before) place = k + 1;
        memmove(&order[place + 1], &order[place], (size_t)(placed - place) * sizeof *order);
        order[place] = i;
        placed++;
    }
    return placed;
}

unsigned views_presence(struct view *const *views, int count, int atom) {
    unsigned bits = 0;
    for (int v = 0; v < count; v++) bits |= (unsigned)(views[v]->atoms[atom].stride != 0) << v;
    return bits;
}

/* --------------------------------------------------------------- parameters */

/* Exporters fold weights into others, rename, transpose and merge them, unless they are told not to. */
static enum ps_status changed(const struct emitting *e, const char *what) {
    error_set(e->l->error, PS_BAD_INPUT,
              "'%.80s': the exporter has folded, renamed or merged parameters, so that they cannot be trained", what);
    error_hint(e->l->error, "export with torch.onnx.export(.., dynamo=True, optimize=False), or with dynamo=False, "
                            "training=TrainingMode.TRAINING, do_constant_folding=False");
    return PS_BAD_INPUT;
}

/* As biases and norms are before training: such ones are merged to one. */
static bool all_equal(const struct onnx_tensor *tensor) {
    const size_t size = tensor->elements > 0 ? tensor->bytes.size / (size_t)tensor->elements : 0;
    for (int64_t i = 1; i < tensor->elements && !tensor->varints; i++)
        if (memcmp(tensor->bytes.data, tensor->bytes.data + (size_t)i * size, size) != 0) return false;
    return !tensor->varints;
}

enum ps_status emit_own(struct emitting *e, int node, int parameter, const struct view *v) {
    const struct step *from = e->l->steps[v->step];
    const struct onnx_model *model = e->l->model;
    if (from->kind != STEP_PARAMETER) return changed(e, "a weight that is no parameter of the model");
    const struct onnx_tensor *tensor = &model->initializers[from->number];
    if (strncmp(tensor->name, "onnx::", 6) == 0) return changed(e, tensor->name);
    if (e->owners[from->number] != 0 &&
        e->graph->parameters[e->graph->nodes[node].parameter_first + parameter].role == PARAMETER_STATISTIC) {
        error_set(e->l->error, PS_BAD_INPUT, "its running statistics are another node's, too");
        error_hint(e->l->error, "a batch norm for several inputs takes them together, as torch.stack(inputs, 1).flatten(0, 1)");
        return PS_BAD_INPUT;
    }
    if (e->owners[from->number] != 0) {
        if (!e->l->shares && all_equal(tensor)) return changed(e, tensor->name);
        graph_tie(e->graph, node, parameter, e->owners[from->number] - 1, e->owner_parameters[from->number]);
        return e->graph->status;
    }
    e->owners[from->number] = node + 1;
    e->owner_parameters[from->number] = parameter;
    struct shape shape = {.rank = tensor->rank};
    if (tensor->rank > SHAPE_RANK_MAX) return emit_refuse(e, "a parameter of more than 6 dimensions");
    memcpy(shape.dim, tensor->dims, (size_t)tensor->rank * sizeof *tensor->dims);
    TRY(graph_name_parameter(e->graph, node, parameter, tensor->name, &shape, e->l->error));
    /* As it lies in the file, which the store keeps mapped. */
    return onnx_tensor_keep(tensor, e->graph->values, VALUES_BORROW, e->l->error);
}

/* ------------------------------------------------------------- the sources */

/* Images lie with the channels last, as everywhere in Penstock; other values as they are written. */
static enum ps_status emit_input(struct emitting *e) {
    const struct onnx_interface *input = &e->l->model->inputs[e->step->number];
    struct attributes a = attributes_usual(operator_get(OPERATOR_INPUT));
    const struct view *out = &e->step->output;
    struct piece pieces[ATOMS_MAX];
    int64_t memory[SHAPE_RANK_MAX] = {1};
    int count = 0, groups = 0, node;
    static const int images[] = {2, 3, 1}, others[] = {1, 2, 3, 4, 5, 6};
    const bool image = out->rank == 4, tokens = !onnx_is_float(e->step->onnx_type);
    if (out->rank - 1 > SHAPE_RANK_MAX) return emit_refuse(e, "more than 7 dimensions");
    for (int d = 0; d < out->rank - 1; d++) {
        const int axis = image ? images[d] : others[d];
        memory[groups++] = out->dims[axis];
        count += view_pieces(out, axis, pieces + count);
        if (d == out->rank - 3 && out->rank == 3) memory[groups++] = 1; /* (N, T, D): a sequence */
    }
    if (tokens && out->rank <= 2) memory[1] = memory[2] = 1, groups = 3; /* so many, or one */
    struct list sides = list_of_sides(memory, groups > 0 ? groups : 1);
    a.type = tokens ? TYPE_I32 : TYPE_F32;
    a.sides.count = sides.count;
    for (int d = 0; d < sides.count; d++) a.sides.at[d] = (int)sides.at[d];
    take_name(e, e->l->model->values[input->value].name);
    node = graph_add(e->graph, OPERATOR_INPUT, e->l->model->values[input->value].name, &a, NULL, 0, e->l->error);
    if (node < 0) return e->graph->status;
    return emit_note(e, node, pieces, count);
}

/* A node without inputs whose parameter has these dimensions, the innermost last. */
static enum ps_status add_parameter(struct emitting *e, int rank, const int64_t *dims, bool trained, bool whole, int *node) {
    struct making parameter;
    const int64_t one = 1;
    TRY(emit_make(e, "parameter", &parameter));
    if (rank > SHAPE_RANK_MAX) return emit_refuse(e, "a parameter of more than 6 dimensions");
    const struct list sides = list_of_sides(rank > 0 ? dims : &one, rank > 0 ? rank : 1);
    TRY(emit_say_list(e, &parameter, "sides", &sides));
    if (!trained) TRY(emit_say(e, &parameter, "trained", 0));
    if (trained && rank == 0) TRY(emit_say(e, &parameter, "scalar", 1));
    if (whole) parameter.attributes.type = TYPE_I32;
    return emit_add(e, &parameter, "", NULL, 0, node);
}

static enum ps_status emit_parameter(struct emitting *e) {
    const struct view *out = &e->step->output;
    const struct onnx_tensor *tensor = &e->l->model->initializers[e->step->number];
    struct piece pieces[ATOMS_MAX];
    int node;
    const char *last = strrchr(tensor->name, '.');
    /* What a layer has is no buffer, nor is a weight, say an embedding's of tokens that are constant. */
    if (!e->l->model->marked && (last == NULL || strcmp(last, ".weight") != 0)) names_note(&e->l->unsure, tensor->name);
    TRY(add_parameter(e, tensor->rank, tensor->dims, true, false, &node));
    TRY(emit_own(e, node, 0, out));
    for (int i = 0; i < out->count; i++) pieces[i] = (struct piece){out->atoms[i].size, out->atoms[i].stride};
    return emit_note(e, node, pieces, out->count);
}

static enum ps_status emit_constant(struct emitting *e) {
    const struct view *out = &e->step->output;
    const struct tensor *tensor = e->step->tensor;
    struct piece pieces[ATOMS_MAX];
    int64_t dims[ATOMS_MAX] = {0};
    int node;
    for (int i = 0; i < out->count; i++) {
        dims[i] = out->atoms[i].size;
        pieces[i] = (struct piece){out->atoms[i].size, out->atoms[i].stride};
    }
    TRY(add_parameter(e, out->count, dims, false, tensor->whole != NULL, &node));
    const struct parameter *parameter = &e->graph->parameters[e->graph->nodes[node].parameter_first];
    float *floats = malloc((size_t)tensor->elements * sizeof *floats + 1);
    if (floats == NULL) return error_memory(e->l->error, "a constant", (size_t)tensor->elements * sizeof *floats);
    for (int64_t i = 0; i < tensor->elements; i++)
        floats[i] = tensor->reals != NULL ? (float)tensor->reals[i] : (float)tensor->whole[i];
    struct array array = {.name = parameter->name, .type = ARRAY_F32, .rank = parameter->shape.rank, .data = floats};
    memcpy(array.shape, parameter->shape.dim, sizeof parameter->shape.dim);
    TRY(values_set(e->graph->values, &array, VALUES_TAKE, e->l->error));
    return emit_note(e, node, pieces, out->count);
}

/* ---------------------------------------------------------------- all steps */

static enum ps_status (*const emitters[])(struct emitting *e) = {
    [STEP_INPUT] = emit_input,
    [STEP_PARAMETER] = emit_parameter,
    [STEP_CONSTANT] = emit_constant,
    [STEP_COPY] = emit_copy,
    [STEP_LINEAR] = emit_linear,
    [STEP_CONVOLUTION] = emit_window,
    [STEP_DECONVOLUTION] = emit_window,
    [STEP_POOL] = emit_window,
    [STEP_BATCH_NORM] = emit_batch_norm,
    [STEP_LAYER_NORM] = emit_layer_norm,
    [STEP_RMS_NORM] = emit_layer_norm,
    [STEP_GROUP_NORM] = emit_group_norm,
    [STEP_EMBEDDING] = emit_embedding,
    [STEP_UNARY] = emit_unary,
    [STEP_BINARY] = emit_aligned,
    [STEP_CHOICE] = emit_aligned,
    [STEP_COMPARE] = emit_aligned,
    [STEP_LOGICAL] = emit_aligned,
    [STEP_CAST] = emit_cast,
    [STEP_SOFTMAX] = emit_softmax,
    [STEP_REDUCE] = emit_reduce,
    [STEP_PRODUCT] = emit_product,
    [STEP_CONCAT] = emit_concat,
    [STEP_SLICE] = emit_slice,
    [STEP_DROPOUT] = emit_dropout,
    [STEP_RECURRENT] = emit_recurrent,
    [STEP_ATTENTION] = emit_attention,
    [STEP_ROTARY] = emit_rotary,
    [STEP_PAD] = emit_pad,
    [STEP_RESIZE] = emit_resize,
    [STEP_LOCAL_NORM] = emit_local_norm,
};

/* Steps stand in the file's order; those that a fusion has added stand behind, and come before the first that reads them. */
static enum ps_status emit_step(struct emitting *e, struct step *step) {
    if (e->layouts[step->output.step] != NULL) return PS_OK;
    for (int i = 0; i < step->input_count; i++) TRY(emit_step(e, e->l->steps[step->inputs[i]->step]));
    const int before = e->graph->node_count;
    e->step = step;
    enum ps_status status = emitters[step->kind](e);
    if (status == PS_OK && step->node != NULL && e->graph->node_count > before) step->made = e->graph->node_count - 1;
    if (status == PS_BAD_INPUT || status == PS_USAGE)
        error_prefix(e->l->error, "%s: node '%.100s' (%.40s)", e->l->path, step->node != NULL ? step->node->name : "",
                     step->node != NULL ? step->node->op : "constant");
    return status == PS_USAGE ? PS_BAD_INPUT : status;
}

/* The classes innermost: of a picture of classes its dimension 1, else the last; of one number for each sample that number. */
static enum ps_status emit_output(struct emitting *e, int *node) {
    const struct view *out = e->l->output_view;
    struct wanted w;
    if (out->rank == 1 && view_has_atoms(out, 0)) return emit_refuse(e, "its only dimension has more than the batch");
    if (out->rank == 4) {
        TRY(wanted_image(e, out, &w));
    } else
        TRY(wanted_features(e, out, out->rank == 1 ? 1 : out->rank - 1, &w));
    return emit_arrange(e, &w, node);
}

/* Parameters that other steps own have no step of their own. */
static bool is_emitted(const struct step *step) { return step->uses > 0 && step->alias == 0; }

enum ps_status lower_emit(struct lowering *l, struct graph *graph, int *output) {
    struct emitting e = {.l = l, .graph = graph};
    const size_t initializers = (size_t)l->model->initializer_count;
    e.layouts = arena_take(&l->arena, (size_t)l->step_count, sizeof(struct layout *));
    e.owners = arena_take(&l->arena, initializers, sizeof *e.owners);
    e.taken_size = 16 * (size_t)l->step_count + 64; /* a step has few nodes */
    e.taken = arena_take(&l->arena, e.taken_size, sizeof *e.taken);
    e.owner_parameters = arena_take(&l->arena, initializers, sizeof *e.owner_parameters);
    TRY(arena_check(&l->arena, "an ONNX file", l->error));
    for (int sources = 1; sources >= 0; sources--) /* inputs come first */
        for (int s = 0; s < l->step_count; s++)
            if (is_emitted(l->steps[s]) && (l->steps[s]->kind == STEP_INPUT) == sources) TRY(emit_step(&e, l->steps[s]));
    e.step = l->steps[l->output_view->step];
    enum ps_status status = emit_output(&e, output);
    if (status == PS_BAD_INPUT) error_prefix(l->error, "%s: output", l->path);
    return status;
}
