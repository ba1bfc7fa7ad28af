/*
 * From steps to nodes: how the inputs of each kind of step must lie in memory, and how its output then lies.
 *
 * A step that is emitted has a node and notes how its output lies: pieces, sizes with the strides that they have in the step's
 * row-major output, the outermost in memory first, without the batch. An input's atoms are split where pieces end, put in the
 * order that the operator wants, and grouped to the sides that it wants: by nothing, a `view`, or a `permute`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/values.h"
#include "onnx/lower.h"

/* A list of sides, axes, ... */
struct list {
    int count;
    int64_t at[SHAPE_RANK_MAX];
};

struct piece {
    int64_t size, stride;
};

/* One order in which a step's output is there. */
struct layout {
    struct layout *next;
    int node, count;
    struct piece pieces[ATOMS_MAX];
};

struct emitting {
    struct lowering *l;
    struct graph *graph;
    const struct step *step; /* at work */
    struct layout **layouts; /* by step: as emitted, then the permuted ones */
    int *owners;             /* by initializer: the node that has it + 1 */
    int *owner_parameters;
    int names;
    int *taken; /* names by hash: the node + 1 */
    size_t taken_size;
};

/* An input as it is wanted: its atoms, split, in the order of memory, and where groups end. */
struct wanted {
    struct view view;
    int order[ATOMS_MAX], count;
    int ends[SHAPE_RANK_MAX], groups; /* a group may be empty: a side of 1 */
};

/* -------------------------------------------------------------------- nodes */

static enum ps_status refuse(const struct emitting *e, const char *what) {
    return error_set(e->l->error, PS_BAD_INPUT, "%s", what);
}

/* Whether no node has the name yet; it is taken then. */
static bool take_name(struct emitting *e, const char *name) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (const char *c = name; *c != '\0'; c++) hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
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
    snprintf(name, 64, "%.48s%s%.8s", tail, what[0] != '\0' ? "/" : "", what);
    for (char *c = name; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f || *c == ',' || *c == '"') *c = '_';
    while (!take_name(e, name)) snprintf(name + (strlen(name) > 55 ? 55 : strcspn(name, "~")), 9, "~%d", ++e->names);
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

static enum ps_status add(struct emitting *e, enum operator_id id, const char *what, const struct attributes *attributes,
                          const int *inputs, int count, int *node) {
    char name[64], room[256];
    make_name(e, base_name(e, room), what, name);
    *node = graph_add(e->graph, id, name, attributes, inputs, count, e->l->error);
    return *node >= 0 ? PS_OK : e->graph->status;
}

/* ----------------------------------------------- operators as files name them */

/* A node to come: its operator by name, and attributes by theirs. */
struct making {
    const struct operator_type *op;
    enum operator_id id;
    struct attributes attributes;
};

static enum ps_status make(struct emitting *e, const char *name, struct making *making) {
    struct ps_error unknown;
    if (operator_find(name, &making->id, &unknown) != PS_OK)
        return error_set(e->l->error, PS_BAD_INPUT, "it needs the operator '%s', which is not offered", name);
    making->op = operator_get(making->id);
    making->attributes = attributes_usual(making->op);
    return PS_OK;
}

static const struct attribute *attribute_of(const struct making *making, const char *name) {
    for (int a = 0; a < ATTRIBUTES_MAX && making->op->attributes[a].name != NULL; a++)
        if (strcmp(making->op->attributes[a].name, name) == 0) return &making->op->attributes[a];
    return NULL;
}

static enum ps_status say(struct emitting *e, struct making *making, const char *name, double value) {
    const struct attribute *attribute = attribute_of(making, name);
    if (attribute == NULL)
        return error_set(e->l->error, PS_BAD_INPUT, "it needs %s of the operator '%s', which is not offered", name,
                         making->op->name);
    attribute_set(&making->attributes, attribute, 0, value);
    return PS_OK;
}

static enum ps_status say_word(struct emitting *e, struct making *making, const char *name, const char *word) {
    const struct attribute *attribute = attribute_of(making, name);
    double value = 0;
    if (attribute == NULL || attribute_number(attribute, word, &value, NULL) != PS_OK)
        return error_set(e->l->error, PS_BAD_INPUT, "it needs %s %s of the operator '%s', which is not offered", name, word,
                         making->op->name);
    return say(e, making, name, value);
}

static enum ps_status say_list(struct emitting *e, struct making *making, const char *name, const struct list *list) {
    const struct attribute *attribute = attribute_of(making, name);
    if (attribute == NULL)
        return error_set(e->l->error, PS_BAD_INPUT, "it needs %s of the operator '%s', which is not offered", name,
                         making->op->name);
    for (int i = 0; i < list->count; i++) attribute_set(&making->attributes, attribute, i, (double)list->at[i]);
    return PS_OK;
}

static enum ps_status add_made(struct emitting *e, const struct making *making, const char *what, const int *inputs, int count,
                               int *node) {
    return add(e, making->id, what, &making->attributes, inputs, count, node);
}

/* -------------------------------------------------------------- arrangement */

/* Splits the view's atoms where pieces of the layout end. */
static enum ps_status split_at(struct emitting *e, struct view *v, const struct layout *layout) {
    for (int i = 0; i < v->count; i++) {
        for (int p = 0; p < layout->count; p++) {
            const int64_t bounds[2] = {layout->pieces[p].stride, layout->pieces[p].stride * layout->pieces[p].size};
            for (int b = 0; b < 2; b++) {
                const struct atom *atom = &v->atoms[i];
                if (atom->batch || atom->stride == 0 || bounds[b] <= atom->stride || bounds[b] >= atom->stride * atom->size)
                    continue;
                if (bounds[b] % atom->stride != 0 || !view_split(v, i, bounds[b] / atom->stride))
                    return refuse(e, "its input lies in memory as no view can show it");
            }
        }
    }
    return PS_OK;
}

/* The atoms as they lie in the layout, outermost first, without the batch and repeated ones. */
static int memory_order(const struct view *v, const struct layout *layout, int order[ATOMS_MAX]) {
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

static int wanted_sides(const struct wanted *w, int64_t sides[SHAPE_RANK_MAX]) {
    for (int g = 0, i = 0; g < w->groups; g++) {
        sides[g] = 1;
        for (; i < w->ends[g]; i++) sides[g] *= w->view.atoms[w->order[i]].size;
    }
    return w->groups;
}

/* Sides outermost first to Penstock's order, the innermost first. */
static struct list sides_of(const int64_t *memory, int count) {
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

/* The same memory with these sides. */
static enum ps_status show(struct emitting *e, int from, const struct list *sides, int *node) {
    *node = from;
    if (has_sides(&e->graph->nodes[from].shape, sides)) return PS_OK;
    const struct shape *shape = &e->graph->nodes[from].shape;
    if (sides->count == 1 && shape->rank == 3 && shape->dim[1] == 1 && shape->dim[2] == 1)
        return add(e, OPERATOR_FLATTEN, "flatten", NULL, &from, 1, node);
    struct making view;
    TRY(make(e, "view", &view));
    TRY(say_list(e, &view, "sides", sides));
    return add_made(e, &view, "view", &from, 1, node);
}

/* The order of `wanted` made by a permute of the layout; noted, so that others find it. */
static enum ps_status permute(struct emitting *e, const struct wanted *w, const int *from, const int *to, int count,
                              const struct layout *layout, int *node) {
    /* Runs of atoms that stay together are one side. */
    int run_of[ATOMS_MAX], runs = 0, first_of[ATOMS_MAX], shown, place_of[ATOMS_MAX];
    int64_t sides[ATOMS_MAX];
    for (int i = 0; i < count; i++) place_of[to[i]] = i;
    for (int i = 0; i < count; i++) {
        const bool on = i > 0 && place_of[from[i]] == place_of[from[i - 1]] + 1;
        if (!on) {
            first_of[runs] = from[i];
            sides[runs++] = 1;
        }
        sides[runs - 1] *= w->view.atoms[from[i]].size;
        run_of[from[i]] = runs - 1;
    }
    if (runs > SHAPE_RANK_MAX) return refuse(e, "its input would have to be permuted in more than 6 dimensions");
    const struct list before = sides_of(sides, runs);
    TRY(show(e, layout->node, &before, &shown));
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
    TRY(make(e, "permute", &made_of));
    TRY(say_list(e, &made_of, "order", &order));
    TRY(add_made(e, &made_of, "permute", &shown, 1, node));
    struct layout *made = arena_take(&e->l->arena, 1, sizeof *made);
    if (made == NULL) return arena_check(&e->l->arena, "an ONNX file", e->l->error);
    *made = (struct layout){e->layouts[w->view.step]->next, *node, count, {{0}}};
    for (int i = 0; i < count; i++) made->pieces[i] = (struct piece){w->view.atoms[to[i]].size, w->view.atoms[to[i]].stride};
    e->layouts[w->view.step]->next = made;
    return PS_OK;
}

/* The node whose output lies as wanted. */
static enum ps_status arrange(struct emitting *e, struct wanted *w, int *node) {
    int from[ATOMS_MAX], to[ATOMS_MAX], count = 0, there;
    int64_t memory[SHAPE_RANK_MAX];
    bool repeated = false;
    for (int i = 0; i < w->count; i++) {
        if (w->view.atoms[w->order[i]].stride != 0) to[count++] = w->order[i];
        repeated = repeated || w->view.atoms[w->order[i]].stride == 0;
    }
    struct layout *layout = e->layouts[w->view.step];
    for (; layout != NULL; layout = layout->next) {
        there = memory_order(&w->view, layout, from);
        if (there == count && memcmp(from, to, (size_t)count * sizeof *to) == 0) break;
    }
    if (layout != NULL)
        *node = layout->node;
    else {
        layout = e->layouts[w->view.step];
        there = memory_order(&w->view, layout, from);
        if (there != count) return refuse(e, "its input lies in memory as no view can show it");
        TRY(permute(e, w, from, to, count, layout, node));
    }
    if (repeated) {
        struct making expand;
        if (w->count > SHAPE_RANK_MAX) return refuse(e, "its input is repeated in more than 6 dimensions");
        int64_t sides[SHAPE_RANK_MAX];
        for (int i = 0; i < w->count; i++) {
            memory[i] = w->view.atoms[w->order[i]].stride != 0 ? w->view.atoms[w->order[i]].size : 1;
            sides[i] = w->view.atoms[w->order[i]].size;
        }
        const struct list narrow = sides_of(memory, w->count);
        TRY(show(e, *node, &narrow, node));
        const struct list wide = sides_of(sides, w->count);
        TRY(make(e, "expand", &expand));
        TRY(say_list(e, &expand, "sides", &wide));
        TRY(add_made(e, &expand, "expand", node, 1, node));
    }
    const int groups = wanted_sides(w, memory);
    const struct list sides = sides_of(memory, groups);
    return show(e, *node, &sides, node);
}

/* Ends the group that is being filled. */
static void end_group(struct wanted *w) { w->ends[w->groups++] = w->count; }

static void put_axis(struct wanted *w, int axis) {
    for (int i = 0; i < w->view.count; i++)
        if (w->view.atoms[i].axis == axis && !w->view.atoms[i].batch) w->order[w->count++] = i;
}

/* The atoms, in the order in which they lie, of axes that `marks` does not name; the repeated ones come first. */
static void put_others(struct emitting *e, struct wanted *w, const bool *marks) {
    int order[ATOMS_MAX];
    const int count = memory_order(&w->view, e->layouts[w->view.step], order);
    for (int i = 0; i < w->view.count; i++) {
        const struct atom *atom = &w->view.atoms[i];
        if (!atom->batch && atom->stride == 0 && !marks[atom->axis]) w->order[w->count++] = i;
    }
    for (int i = 0; i < count; i++)
        if (!marks[w->view.atoms[order[i]].axis]) w->order[w->count++] = order[i];
}

static enum ps_status want(struct emitting *e, const struct view *v, struct wanted *w) {
    *w = (struct wanted){.view = *v};
    return split_at(e, &w->view, e->layouts[v->step]);
}

/* ------------------------------------------------------------------ outputs */

static enum ps_status note(struct emitting *e, int node, const struct piece *pieces, int count) {
    struct layout *layout = arena_take(&e->l->arena, 1, sizeof *layout);
    if (layout == NULL) return arena_check(&e->l->arena, "an ONNX file", e->l->error);
    layout->node = node;
    for (int i = 0; i < count; i++)
        if (pieces[i].size > 1) layout->pieces[layout->count++] = pieces[i];
    e->layouts[e->step->output.step] = layout;
    return PS_OK;
}

/*
 * The output's piece for an atom of an input: dimension `axis` of the output has the same atoms as the input's dimension, but
 * that the input's may have been split further. Counts elements from the right within the dimension.
 */
static struct piece piece_of(const struct view *out, int axis, const struct view *in, int atom) {
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

/* Pieces of the axis of the output as they stand. */
static int own_pieces(const struct view *out, int axis, struct piece *pieces) {
    int count = 0;
    for (int i = 0; i < out->count; i++)
        if (out->atoms[i].axis == axis && !out->atoms[i].batch)
            pieces[count++] = (struct piece){out->atoms[i].size, out->atoms[i].stride};
    return count;
}

/* The axis of the view has atoms beside the batch. */
static bool has_atoms(const struct view *v, int axis) {
    for (int i = 0; i < v->count; i++)
        if (v->atoms[i].axis == axis && !v->atoms[i].batch) return true;
    return false;
}

/* The output has the input's dimensions and lies as the input's order says. */
static enum ps_status note_same(struct emitting *e, int node, const struct wanted *w) {
    struct piece pieces[ATOMS_MAX];
    for (int i = 0; i < w->count; i++)
        pieces[i] = piece_of(&e->step->output, w->view.atoms[w->order[i]].axis, &w->view, w->order[i]);
    return note(e, node, pieces, w->count);
}

/* --------------------------------------------------------------- parameters */

/* The initializer's value for the parameter of its name: as it lies in the file, which the store keeps mapped. */
static enum ps_status store(struct emitting *e, const struct onnx_tensor *tensor) {
    static const struct {
        int onnx;
        enum array_type type;
    } types[] = {{ONNX_FLOAT, ARRAY_F32}, {ONNX_DOUBLE, ARRAY_F64}, {ONNX_FLOAT16, ARRAY_F16}, {ONNX_BFLOAT16, ARRAY_BF16}};
    struct array array = {.name = tensor->name, .rank = tensor->rank, .data = tensor->bytes.data};
    memcpy(array.shape, tensor->dims, sizeof array.shape);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        if (types[t].onnx == tensor->type) array.type = types[t].type;
    if (!tensor->varints) return values_set(e->graph->values, &array, VALUES_BORROW, e->l->error);
    float *floats = malloc((size_t)tensor->elements * sizeof *floats + 1);
    if (floats == NULL) return error_memory(e->l->error, "a parameter", (size_t)tensor->elements * sizeof *floats);
    onnx_tensor_floats(tensor, floats);
    array.type = ARRAY_F32;
    array.data = floats;
    return values_set(e->graph->values, &array, VALUES_TAKE, e->l->error);
}

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

/* The node's parameter is the initializer: it gets the name, shape and value. An initializer that another node has is shared.
 */
static enum ps_status own(struct emitting *e, int node, int parameter, const struct view *v) {
    const struct step *from = e->l->steps[v->step];
    const struct onnx_model *model = e->l->model;
    if (from->kind != STEP_PARAMETER) return changed(e, "a weight that is no parameter of the model");
    const struct onnx_tensor *tensor = &model->initializers[from->number];
    if (strncmp(tensor->name, "onnx::", 6) == 0) return changed(e, tensor->name);
    if (e->owners[from->number] != 0) {
        if (!e->l->shares && all_equal(tensor)) return changed(e, tensor->name);
        graph_tie(e->graph, node, parameter, e->owners[from->number] - 1, e->owner_parameters[from->number]);
        return e->graph->status;
    }
    e->owners[from->number] = node + 1;
    e->owner_parameters[from->number] = parameter;
    struct shape shape = {.rank = tensor->rank};
    if (tensor->rank > SHAPE_RANK_MAX) return refuse(e, "a parameter of more than 6 dimensions");
    memcpy(shape.dim, tensor->dims, (size_t)tensor->rank * sizeof *tensor->dims);
    TRY(graph_name_parameter(e->graph, node, parameter, tensor->name, &shape, e->l->error));
    return store(e, tensor);
}

/* --------------------------------------------------------- kinds: the sources */

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
    if (out->rank - 1 > SHAPE_RANK_MAX) return refuse(e, "more than 7 dimensions");
    for (int d = 0; d < out->rank - 1; d++) {
        const int axis = image ? images[d] : others[d];
        memory[groups++] = out->dims[axis];
        count += own_pieces(out, axis, pieces + count);
        if (d == out->rank - 3 && out->rank == 3) memory[groups++] = 1; /* (N, T, D): a sequence */
    }
    if (tokens && out->rank == 2) memory[1] = memory[2] = 1, groups = 3;
    struct list sides = sides_of(memory, groups > 0 ? groups : 1);
    a.type = tokens ? TYPE_I32 : TYPE_F32;
    a.sides.count = sides.count;
    for (int d = 0; d < sides.count; d++) a.sides.at[d] = (int)sides.at[d];
    take_name(e, e->l->model->values[input->value].name);
    node = graph_add(e->graph, OPERATOR_INPUT, e->l->model->values[input->value].name, &a, NULL, 0, e->l->error);
    if (node < 0) return e->graph->status;
    return note(e, node, pieces, count);
}

/* A node without inputs whose parameter has these dimensions, the innermost last. */
static enum ps_status add_parameter(struct emitting *e, int rank, const int64_t *dims, bool trained, bool whole, int *node) {
    struct making parameter;
    const int64_t one = 1;
    TRY(make(e, "parameter", &parameter));
    if (rank > SHAPE_RANK_MAX) return refuse(e, "a parameter of more than 6 dimensions");
    const struct list sides = sides_of(rank > 0 ? dims : &one, rank > 0 ? rank : 1);
    TRY(say_list(e, &parameter, "sides", &sides));
    if (!trained) TRY(say(e, &parameter, "trained", 0));
    if (whole) parameter.attributes.type = TYPE_I32;
    return add_made(e, &parameter, "", NULL, 0, node);
}

static enum ps_status emit_parameter(struct emitting *e) {
    const struct view *out = &e->step->output;
    const struct onnx_tensor *tensor = &e->l->model->initializers[e->step->number];
    struct piece pieces[ATOMS_MAX];
    int node;
    TRY(add_parameter(e, tensor->rank, tensor->dims, true, false, &node));
    TRY(own(e, node, 0, out));
    for (int i = 0; i < out->count; i++) pieces[i] = (struct piece){out->atoms[i].size, out->atoms[i].stride};
    return note(e, node, pieces, out->count);
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
    return note(e, node, pieces, out->count);
}

static enum ps_status emit_copy(struct emitting *e) {
    struct wanted w;
    int node;
    TRY(want(e, e->step->inputs[0], &w));
    for (int i = 0; i < w.view.count; i++)
        if (!w.view.atoms[i].batch) w.order[w.count++] = i;
    TRY(arrange(e, &w, &node));
    return note_same(e, node, &w);
}

/* -------------------------------------------------------- kinds: products */

/* The axes from `first` on innermost, in their order; the others as they lie, or a vector where there are none. */
static enum ps_status want_features(struct emitting *e, const struct view *x, int first, struct wanted *w) {
    bool marks[ONNX_RANK_MAX] = {0};
    TRY(want(e, x, w));
    for (int d = first; d < x->rank; d++) marks[d] = true;
    put_others(e, w, marks);
    if (w->count > 0) {
        end_group(w);
        end_group(w);
    }
    for (int d = first; d < x->rank; d++) put_axis(w, d);
    end_group(w);
    return PS_OK;
}

/*
 * A linear layer over channels and positions, (N, C, H, W) made a vector: memory has H, W, C, and the flattened shape tells the
 * layer that its weights have C, H, W. True where it was so, and then `node` is the vector.
 */
static enum ps_status flatten_image(struct emitting *e, const struct wanted *w, bool *flat, int *node) {
    const struct layout *layout = e->layouts[w->view.step];
    int from[ATOMS_MAX], turned = 0;
    const int count = memory_order(&w->view, layout, from);
    *flat = false;
    if (w->groups != 1 || count != w->count || count < 2) return PS_OK;
    while (turned < count && from[turned] != w->order[0]) turned++;
    for (int i = 0; i < count; i++)
        if (w->order[i] != from[(i + turned) % count]) return PS_OK;
    if (turned == 0 || turned == count) return PS_OK;
    int64_t memory[2] = {1, 1};
    for (int i = 0; i < count; i++) memory[i >= turned] *= w->view.atoms[from[i]].size;
    *node = layout->node;
    const struct shape *shape = &e->graph->nodes[*node].shape;
    if (shape->dim[0] != memory[1] || shape->image[0] != 0) {
        const struct list sides = sides_of(memory, 2);
        TRY(show(e, *node, &sides, node));
    }
    *flat = true;
    return add(e, OPERATOR_FLATTEN, "flatten", NULL, node, 1, node);
}

static enum ps_status emit_linear(struct emitting *e) {
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
    TRY(make(e, "linear", &linear));
    TRY(want_features(e, x, last, &w));
    TRY(flatten_image(e, &w, &flat, &node));
    if (flat && !usual) return refuse(e, "its weight (K, M) is of an image that was made a vector");
    if (!flat) TRY(arrange(e, &w, &node));
    linear.attributes.channels = (int)s->output.dims[last];
    linear.attributes.bias = s->parameters[1] != NULL;
    linear.attributes.transposed = !usual;
    TRY(add_made(e, &linear, "", &node, 1, &node));
    TRY(own(e, node, 0, weight));
    if (s->parameters[1] != NULL) TRY(own(e, node, 1, s->parameters[1]));
    struct piece pieces[2 * ATOMS_MAX];
    int count = 0;
    for (int i = 0; i < w.count; i++)
        if (w.view.atoms[w.order[i]].axis != last)
            pieces[count++] = piece_of(&s->output, w.view.atoms[w.order[i]].axis, &w.view, w.order[i]);
    count += own_pieces(&s->output, last, pieces + count);
    return note(e, node, pieces, count);
}

/* Elements of the axis without the batch. */
static int64_t side_of(const struct view *v, int axis) {
    int64_t side = 1;
    for (int i = 0; i < v->count; i++)
        if (v->atoms[i].axis == axis && !v->atoms[i].batch) side *= v->atoms[i].size;
    return side;
}

/*
 * (N, .., M, K) by (N, .., K, N'): each with its last two innermost, in the order in which they lie best, and the leading ones
 * outside in one order. Leading dimensions that one of the two lacks are sides of 1.
 */

/* Splits leading atom i of both and of the output alike. */
static enum ps_status split_both(struct emitting *e, struct view *const *views, int count) {
    for (int v = 0; v < count; v++) {
        struct layout *layout = e->layouts[views[v]->step];
        if (views[v]->step == e->step->output.step) continue;
        if (layout == NULL) return refuse(e, "it reads what is only a parameter of another node");
        for (int i = 0; i < views[v]->count; i++) {
            for (int p = 0; p < layout->count; p++) {
                const int64_t bounds[2] = {layout->pieces[p].stride, layout->pieces[p].stride * layout->pieces[p].size};
                for (int b = 0; b < 2; b++) {
                    const struct atom *atom = &views[v]->atoms[i];
                    if (atom->batch || atom->stride == 0 || bounds[b] <= atom->stride || bounds[b] >= atom->stride * atom->size)
                        continue;
                    if (bounds[b] % atom->stride != 0) return refuse(e, "its input lies in memory as no view can show it");
                    const int64_t inner = bounds[b] / atom->stride;
                    for (int other = 0; other < count; other++)
                        if (!view_split(views[other], i, inner))
                            return refuse(e, "its inputs lie in memory as no view can show them");
                }
            }
        }
    }
    return PS_OK;
}

/* The atoms of aligned views in one order: as they lie in the value that has the most of them; others after their neighbours.
 */
static int joint_order(struct emitting *e, struct view *const *views, int count, const struct view *output, int *order) {
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
    if (views[lead]->count > 0) placed = memory_order(views[lead], e->layouts[views[lead]->step], order);
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

/* Which of the views have the atom, as bits. */
static unsigned presence(struct view *const *views, int count, int atom) {
    unsigned bits = 0;
    for (int v = 0; v < count; v++) bits |= (unsigned)(views[v]->atoms[atom].stride != 0) << v;
    return bits;
}

/* ------------------------------------------------------- kinds: elementwise */

/* The input as it lies. */
static enum ps_status as_it_is(struct emitting *e, struct wanted *w, int *node) {
    TRY(want(e, e->step->inputs[0], w));
    w->count = memory_order(&w->view, e->layouts[w->view.step], w->order);
    *node = e->layouts[w->view.step]->node;
    return PS_OK;
}

static enum ps_status emit_unary(struct emitting *e) {
    const struct step *s = e->step;
    const bool relu = strcmp(s->function, "relu") == 0, gelu = strcmp(s->function, "gelu") == 0;
    struct making unary;
    struct wanted w;
    int node;
    TRY(make(e, relu || gelu ? s->function : "unary", &unary));
    TRY(as_it_is(e, &w, &node));
    if (gelu) unary.attributes.tanh_form = s->alpha != 0;
    if (!relu && !gelu) {
        TRY(say_word(e, &unary, "kind", s->function));
        unary.attributes.alpha = s->alpha;
        unary.attributes.beta = s->beta;
    }
    TRY(add_made(e, &unary, "", &node, 1, &node));
    return note_same(e, node, &w);
}

static enum ps_status emit_dropout(struct emitting *e) {
    struct making dropout;
    struct wanted w;
    int node;
    TRY(make(e, "dropout", &dropout));
    TRY(as_it_is(e, &w, &node));
    dropout.attributes.rate = e->step->attributes.rate;
    TRY(add_made(e, &dropout, "", &node, 1, &node));
    return note_same(e, node, &w);
}

/* Whole numbers are truth values as they are: 0, or not. What is made a number of them is 0 or 1. */
static enum ps_status emit_cast(struct emitting *e) {
    const struct step *s = e->step, *from = e->l->steps[s->inputs[0]->step];
    const bool floats = onnx_is_float(s->onnx_type);
    struct making cast, not ;
    struct wanted w;
    int node;
    TRY(as_it_is(e, &w, &node));
    if (!floats && !onnx_is_float(from->onnx_type)) return note_same(e, node, &w);
    if (floats && from->onnx_type == ONNX_BOOL && from->kind == STEP_CAST) {
        TRY(make(e, "logical", &not ));
        TRY(say_word(e, &not, "kind", "not"));
        for (int i = 0; i < 2; i++) TRY(add_made(e, &not, "truth", &node, 1, &node));
    }
    TRY(make(e, "cast", &cast));
    cast.attributes.type = floats ? TYPE_F32 : TYPE_I32;
    TRY(add_made(e, &cast, "", &node, 1, &node));
    return note_same(e, node, &w);
}

/* Nodes of the inputs where all lie in one order and have one shape already. */
static bool lie_alike(struct emitting *e, struct view *const *views, int count, const int *order, int placed, int *nodes) {
    for (int v = 0; v < count; v++) {
        int own_order[ATOMS_MAX];
        const struct layout *layout = e->layouts[views[v]->step];
        if (memory_order(views[v], layout, own_order) != placed) return false;
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
    TRY(split_both(e, views, count + 1));
    *placed = joint_order(e, views, count, &out, order);
    for (int i = 0; i < *placed; i++) pieces[i] = (struct piece){out.atoms[order[i]].size, out.atoms[order[i]].stride};
    if (lie_alike(e, views, count, order, *placed, nodes)) return PS_OK;
    for (int v = 0; v < count; v++) {
        struct wanted w = {.view = inputs[v]};
        for (int i = 0; i < *placed; i++) {
            if (i > 0 && presence(views, count, order[i]) != presence(views, count, order[i - 1])) {
                if (w.groups == SHAPE_RANK_MAX - 1) return refuse(e, "its inputs are repeated along too many dimensions");
                end_group(&w);
            }
            if (inputs[v].atoms[order[i]].stride != 0) w.order[w.count++] = order[i];
        }
        end_group(&w);
        TRY(arrange(e, &w, &nodes[v]));
    }
    return PS_OK;
}

static enum ps_status emit_aligned(struct emitting *e) {
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
    TRY(make(e, sum ? "add" : names[s->kind], &made));
    if (!sum && s->kind != STEP_CHOICE) TRY(say_word(e, &made, "kind", s->function));
    TRY(add_made(e, &made, "", nodes, s->input_count, &node));
    return note(e, node, pieces, placed);
}

/* ----------------------------------------------------------- kinds: windows */

/* An image: rows, columns, channels; of a sequence one column. */
static enum ps_status want_image(struct emitting *e, const struct view *x, struct wanted *w) {
    TRY(want(e, x, w));
    if (has_atoms(x, 0)) return refuse(e, "it would work on several images of a sample");
    put_axis(w, 2);
    end_group(w);
    if (x->rank > 3) put_axis(w, 3);
    end_group(w);
    put_axis(w, 1);
    end_group(w);
    return PS_OK;
}

static enum ps_status note_image(struct emitting *e, int node) {
    const struct view *out = &e->step->output;
    struct piece pieces[3 * ATOMS_MAX];
    int count = own_pieces(out, 2, pieces);
    if (out->rank > 3) count += own_pieces(out, 3, pieces + count);
    count += own_pieces(out, 1, pieces + count);
    return note(e, node, pieces, count);
}

/* What both sides have in common with no window at all need not be said. */
static enum ps_status say_sides(struct emitting *e, struct making *making, const char *name, int64_t h, int64_t w,
                                int64_t usual) {
    if (h == usual && w == usual) return PS_OK;
    TRY(say(e, making, name, (double)h));
    attribute_set(&making->attributes, attribute_of(making, name), 1, (double)w);
    return PS_OK;
}

static enum ps_status emit_window(struct emitting *e) {
    const struct step *s = e->step;
    const struct window *h = &s->window[0], *v = &s->window[1];
    const bool pool = s->kind == STEP_POOL;
    struct making made;
    struct wanted w;
    int node;
    TRY(make(e, pool ? s->function : s->kind == STEP_CONVOLUTION ? "convolution" : "deconvolution", &made));
    TRY(want_image(e, s->inputs[0], &w));
    TRY(arrange(e, &w, &node));
    struct attributes *a = &made.attributes;
    if (pool) {
        a->ceiling = s->attributes.ceiling;
        a->count_padding = s->attributes.count_padding;
    } else {
        a->channels = s->attributes.channels;
        a->groups = s->attributes.groups;
        a->bias = s->attributes.bias;
        if (s->output.rank == 3) TRY(say(e, &made, "dims", 1));
    }
    TRY(say_sides(e, &made, "kernel", h->kernel, v->kernel, 0));
    TRY(say_sides(e, &made, "stride", h->stride, v->stride, 0));
    TRY(say_sides(e, &made, "pad", h->before, v->before, 0));
    TRY(say_sides(e, &made, "pad_extra", h->after - h->before, v->after - v->before, 0));
    TRY(say_sides(e, &made, "dilation", h->dilation, v->dilation, 1));
    TRY(say_sides(e, &made, "output_pad", h->more, v->more, 0));
    TRY(add_made(e, &made, "", &node, 1, &node));
    for (int p = 0; p < 2; p++)
        if (s->parameters[p] != NULL) TRY(own(e, node, p, s->parameters[p]));
    return note_image(e, node);
}

/* ------------------------------------------------------------- kinds: norms */

static enum ps_status emit_batch_norm(struct emitting *e) {
    const struct step *s = e->step;
    const struct view *x = s->inputs[0];
    const struct layout *layout = e->layouts[x->step];
    bool marks[ONNX_RANK_MAX] = {0};
    struct making made;
    struct wanted w;
    int node, order[ATOMS_MAX];
    TRY(make(e, "batch_norm", &made));
    TRY(want(e, x, &w));
    marks[1] = true;
    put_others(e, &w, marks);
    if (w.count > 0) {
        end_group(&w);
        end_group(&w);
    }
    put_axis(&w, 1);
    end_group(&w);
    const bool fits = memory_order(&w.view, layout, order) == w.count &&
                      memcmp(order, w.order, (size_t)w.count * sizeof *order) == 0 &&
                      e->graph->nodes[layout->node].shape.dim[0] == side_of(x, 1);
    if (fits)
        node = layout->node;
    else
        TRY(arrange(e, &w, &node));
    made.attributes.epsilon = s->attributes.epsilon;
    made.attributes.momentum = s->attributes.momentum;
    TRY(add_made(e, &made, "", &node, 1, &node));
    for (int p = 0; p < 4; p++) TRY(own(e, node, p, s->parameters[p]));
    return note_same(e, node, &w);
}

/* Whether the norm has the parameters; those that it has become the step's. */
static enum ps_status say_parameters(struct emitting *e, struct making *made, const char *const *names, int count) {
    for (int p = 0; p < count; p++)
        if (attribute_of(made, names[p]) != NULL || e->step->parameters[p] == NULL)
            TRY(say(e, made, names[p], e->step->parameters[p] != NULL));
    return PS_OK;
}

static enum ps_status own_all(struct emitting *e, int node, int count) {
    for (int p = 0, at = 0; p < count; p++)
        if (e->step->parameters[p] != NULL) TRY(own(e, node, at++, e->step->parameters[p]));
    return PS_OK;
}

static enum ps_status emit_layer_norm(struct emitting *e) {
    static const char *const names[] = {"weight", "bias"};
    const struct step *s = e->step;
    const struct view *x = s->inputs[0];
    const bool mean = s->kind == STEP_LAYER_NORM;
    struct making made;
    struct wanted w;
    int node;
    TRY(make(e, mean ? "layer_norm" : "rms_norm", &made));
    TRY(want_features(e, x, x->rank - s->number, &w));
    TRY(arrange(e, &w, &node));
    made.attributes.epsilon = s->attributes.epsilon;
    TRY(say_parameters(e, &made, names, mean ? 2 : 1));
    TRY(add_made(e, &made, "", &node, 1, &node));
    TRY(own_all(e, node, 2));
    return note_same(e, node, &w);
}

static enum ps_status emit_group_norm(struct emitting *e) {
    static const char *const names[] = {"weight", "bias"};
    const struct step *s = e->step;
    const struct view *x = s->inputs[0];
    bool marks[ONNX_RANK_MAX] = {0};
    struct making made;
    struct wanted w;
    int node;
    TRY(make(e, "group_norm", &made));
    if (has_atoms(x, 0)) return refuse(e, "it would work on several values of a sample");
    TRY(want(e, x, &w));
    marks[1] = true;
    put_others(e, &w, marks);
    end_group(&w);
    end_group(&w);
    put_axis(&w, 1);
    end_group(&w);
    TRY(arrange(e, &w, &node));
    made.attributes.epsilon = s->attributes.epsilon;
    made.attributes.groups = s->attributes.groups;
    TRY(say_parameters(e, &made, names, 2));
    TRY(add_made(e, &made, "", &node, 1, &node));
    TRY(own_all(e, node, 2));
    return note_same(e, node, &w);
}

static enum ps_status emit_local_norm(struct emitting *e) {
    const struct attributes *a = &e->step->attributes;
    struct making made;
    struct wanted w;
    int node;
    TRY(make(e, "local_response_norm", &made));
    TRY(want_image(e, e->step->inputs[0], &w));
    TRY(arrange(e, &w, &node));
    made.attributes.window = a->window;
    made.attributes.alpha = a->alpha;
    made.attributes.beta = a->beta;
    made.attributes.shift = a->shift;
    TRY(add_made(e, &made, "", &node, 1, &node));
    return note_same(e, node, &w);
}

/* Each dimension that is padded is a side of its own. */
static enum ps_status emit_pad(struct emitting *e) {
    const struct step *s = e->step;
    static const bool none[ONNX_RANK_MAX];
    struct making made;
    struct wanted w;
    struct piece pieces[2 * ATOMS_MAX];
    struct list before = {0}, after = {0};
    int64_t sides[2][SHAPE_RANK_MAX] = {{0}};
    int node, count = 0, order[ATOMS_MAX];
    bool done[ONNX_RANK_MAX] = {0};
    TRY(make(e, "pad", &made));
    TRY(want(e, s->inputs[0], &w));
    put_others(e, &w, none);
    const int atoms = w.count;
    memcpy(order, w.order, sizeof order);
    w.count = 0;
    for (int i = 0; i < atoms; i++) {
        const int axis = w.view.atoms[order[i]].axis;
        const bool padded = s->before[axis] != 0 || s->after[axis] != 0;
        if (done[axis]) continue;
        if (w.groups >= SHAPE_RANK_MAX - 1) return refuse(e, "it pads too many dimensions");
        if (padded) {
            if (w.count > 0 && (w.groups == 0 || w.ends[w.groups - 1] != w.count)) end_group(&w);
            put_axis(&w, axis);
            sides[0][w.groups] = s->before[axis];
            sides[1][w.groups] = s->after[axis];
            end_group(&w);
            count += own_pieces(&s->output, axis, pieces + count);
            done[axis] = true;
        } else {
            w.order[w.count++] = order[i];
            pieces[count++] = piece_of(&s->output, axis, &w.view, order[i]);
        }
    }
    for (int d = 0; d < s->inputs[0]->rank; d++) /* of a dimension of 1 */
        if (!has_atoms(s->inputs[0], d) && (s->before[d] != 0 || s->after[d] != 0))
            return refuse(e, "it pads a dimension of 1");
    if (w.groups == 0 || w.ends[w.groups - 1] != w.count) end_group(&w);
    before = sides_of(sides[0], w.groups);
    after = sides_of(sides[1], w.groups);
    TRY(say_list(e, &made, "before", &before));
    TRY(say_list(e, &made, "after", &after));
    TRY(say_word(e, &made, "mode", s->function));
    TRY(say(e, &made, "value", (double)s->alpha));
    TRY(arrange(e, &w, &node));
    TRY(add_made(e, &made, "", &node, 1, &node));
    return note(e, node, pieces, count);
}

static enum ps_status emit_resize(struct emitting *e) {
    const struct step *s = e->step;
    const int64_t *dims = s->output.dims;
    struct making made;
    struct wanted w;
    int node;
    TRY(make(e, "resize", &made));
    TRY(want_image(e, s->inputs[0], &w));
    TRY(arrange(e, &w, &node));
    TRY(say_sides(e, &made, "out", dims[2], s->output.rank > 3 ? dims[3] : 1, 0));
    TRY(say_word(e, &made, "mode", s->function));
    TRY(say_word(e, &made, "coordinates", s->words[0]));
    TRY(say_word(e, &made, "rounding", s->words[1]));
    TRY(say(e, &made, "cubic", (double)s->alpha));
    TRY(say(e, &made, "scale_h", s->scale[0]));
    TRY(say(e, &made, "scale_w", s->scale[1]));
    TRY(add_made(e, &made, "", &node, 1, &node));
    return note_image(e, node);
}

static enum ps_status emit_embedding(struct emitting *e) {
    const struct step *s = e->step;
    const struct view *tokens = s->inputs[0];
    static const bool none[ONNX_RANK_MAX];
    struct making made;
    struct wanted w;
    struct piece pieces[2 * ATOMS_MAX];
    int node, count = 0;
    TRY(make(e, "embedding", &made));
    TRY(want(e, tokens, &w));
    put_others(e, &w, none);
    end_group(&w);
    end_group(&w);
    end_group(&w);
    TRY(arrange(e, &w, &node));
    made.attributes.vocabulary = (int)s->parameters[0]->dims[0];
    made.attributes.channels = (int)s->parameters[0]->dims[1];
    TRY(add_made(e, &made, "", &node, 1, &node));
    TRY(own(e, node, 0, s->parameters[0]));
    for (int i = 0; i < w.count; i++)
        pieces[count++] = piece_of(&s->output, w.view.atoms[w.order[i]].axis, &w.view, w.order[i]);
    count += own_pieces(&s->output, s->output.rank - 1, pieces + count);
    return note(e, node, pieces, count);
}

/* -------------------------------------------------------- kinds: reductions */

static enum ps_status emit_softmax(struct emitting *e) {
    const struct step *s = e->step;
    bool marks[ONNX_RANK_MAX] = {0};
    struct making made;
    struct wanted w;
    int node;
    TRY(make(e, s->function, &made));
    TRY(want(e, s->inputs[0], &w));
    marks[s->axis] = true;
    put_others(e, &w, marks);
    end_group(&w);
    put_axis(&w, s->axis);
    end_group(&w);
    TRY(arrange(e, &w, &node));
    TRY(add_made(e, &made, "", &node, 1, &node));
    return note_same(e, node, &w);
}

/* Dimension d of the input among those of the output. */
static int kept_axis(const struct step *s, int d) {
    const bool keeps = s->output.rank == s->inputs[0]->rank;
    int axis = 0;
    for (int i = 0; i < d; i++) axis += keeps || !s->marks[i];
    return axis;
}

static enum ps_status emit_reduce(struct emitting *e) {
    const struct step *s = e->step;
    const struct view *x = s->inputs[0];
    struct making made;
    struct wanted w;
    struct piece pieces[ATOMS_MAX];
    struct list axes = {0};
    bool marked[SHAPE_RANK_MAX];
    int node, count = 0;
    static const bool none[ONNX_RANK_MAX];
    TRY(want(e, x, &w));
    put_others(e, &w, none);
    for (int i = 0; i < w.count; i++) {
        const struct atom *atom = &w.view.atoms[w.order[i]];
        const bool mark = s->marks[atom->axis];
        if (i > 0 && mark != marked[w.groups]) {
            if (w.groups == SHAPE_RANK_MAX - 1) return refuse(e, "it reduces too many dimensions");
            w.ends[w.groups++] = i;
        }
        marked[w.groups] = mark;
        if (!mark) pieces[count++] = piece_of(&s->output, kept_axis(s, atom->axis), &w.view, w.order[i]);
    }
    end_group(&w);
    /* A mean over all of an image but its channels. */
    const struct shape *shape = &e->graph->nodes[e->layouts[x->step]->node].shape;
    int order[ATOMS_MAX], there = memory_order(&w.view, e->layouts[x->step], order);
    if (strcmp(s->function, "mean") == 0 && w.groups == 2 && marked[0] && shape->rank == 3 && there == w.count) {
        int64_t memory[SHAPE_RANK_MAX];
        wanted_sides(&w, memory);
        if (shape->dim[0] == memory[1]) {
            TRY(make(e, "average_pool", &made));
            made.attributes.kernel_h = (int)shape->dim[1];
            made.attributes.kernel_w = (int)shape->dim[2];
            node = e->layouts[x->step]->node;
            TRY(add_made(e, &made, "", &node, 1, &node));
            return note(e, node, pieces, count);
        }
    }
    for (int g = 0; g < w.groups; g++)
        if (marked[g]) axes.at[axes.count++] = g == w.groups - 1 ? 0 : g + 1;
    TRY(make(e, "reduce", &made));
    TRY(say_word(e, &made, "kind", s->function));
    TRY(say_list(e, &made, "axes", &axes));
    TRY(arrange(e, &w, &node));
    TRY(add_made(e, &made, "", &node, 1, &node));
    return note(e, node, pieces, count);
}

/* -------------------------------------------------- kinds: pieces of values */

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
    if (outer > 0) end_group(w);
    if (inner == 0 && outer > 0) end_group(w);
    put_axis(w, axis);
    end_group(w);
    if (inner == 0) return 0;
    if (outer == 0) end_group(w);
    for (int i = last + 1; i < count; i++)
        if (w->view.atoms[order[i]].axis != axis) w->order[w->count++] = order[i];
    end_group(w);
    return outer == 0 ? 1 : 2;
}

/* As want_axis has put them, with the axis' own pieces of the output. */
static enum ps_status note_axis(struct emitting *e, int node, const struct wanted *w, int axis) {
    struct piece pieces[3 * ATOMS_MAX];
    int count = 0;
    bool done = false;
    for (int i = 0; i < w->count; i++) {
        const int at = w->view.atoms[w->order[i]].axis;
        if (at != axis)
            pieces[count++] = piece_of(&e->step->output, at, &w->view, w->order[i]);
        else if (!done)
            count += own_pieces(&e->step->output, axis, pieces + count);
        done = done || at == axis;
    }
    return note(e, node, pieces, count);
}

static enum ps_status emit_slice(struct emitting *e) {
    const struct step *s = e->step;
    static const bool none[ONNX_RANK_MAX];
    struct making made;
    struct wanted w, all;
    int node;
    TRY(make(e, s->kind == STEP_SLICE ? "slice" : "select", &made));
    TRY(want(e, s->inputs[0], &w));
    all = w;
    put_others(e, &all, none);
    const int axis = want_axis(&w, all.order, all.count, s->axis);
    TRY(arrange(e, &w, &node));
    if (s->kind == STEP_SLICE) {
        made.attributes.first = (int)s->first;
        made.attributes.count = (int)s->length;
        if (axis != 1) TRY(say(e, &made, "axis", axis));
        if (s->stride != 1) TRY(say(e, &made, "step", (double)s->stride));
    } else {
        return refuse(e, "constant places that are no row are not offered yet");
    }
    TRY(add_made(e, &made, "", &node, 1, &node));
    return note_axis(e, node, &w, s->axis);
}

/* The aligned view `bare`, without the axis, with the axis' atoms of the whole view put in at a place of the order. */
static enum ps_status want_joined(struct emitting *e, const struct view *bare, const struct view *whole, int axis,
                                  const int *order, int placed, int place, struct wanted *w) {
    struct view alone = *whole;
    alone.count = 0;
    for (int i = 0; i < whole->count; i++)
        if (whole->atoms[i].axis == axis) alone.atoms[alone.count++] = whole->atoms[i];
    TRY(split_at(e, &alone, e->layouts[whole->step]));
    *w = (struct wanted){.view = *bare};
    if (bare->count + alone.count > ATOMS_MAX) return refuse(e, "its inputs have too many dimensions");
    memcpy(&w->view.atoms[bare->count], alone.atoms, (size_t)alone.count * sizeof *alone.atoms);
    w->view.count += alone.count;
    for (int i = 0; i < place; i++) w->order[w->count++] = order[i];
    if (place > 0) end_group(w);
    if (place > 0 && place == placed) end_group(w);
    for (int i = bare->count; i < w->view.count; i++) w->order[w->count++] = i;
    end_group(w);
    if (place == 0 && placed > 0) end_group(w);
    for (int i = place; i < placed; i++) w->order[w->count++] = order[i];
    if (place < placed) end_group(w);
    return PS_OK;
}

/* Atoms of the other axes that lie inside of this one, in the value that has the most of it. */
static enum ps_status atoms_inside(struct emitting *e, int *inside) {
    const struct step *s = e->step;
    int most = 0, order[ATOMS_MAX];
    for (int v = 1; v < s->input_count; v++)
        if (s->inputs[v]->dims[s->axis] > s->inputs[most]->dims[s->axis]) most = v;
    struct view lead = *s->inputs[most];
    TRY(split_at(e, &lead, e->layouts[lead.step]));
    const int there = memory_order(&lead, e->layouts[lead.step], order);
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
    return memory_order(&w->view, layout, order) == w->count &&
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
    TRY(make(e, "concat", &made));
    TRY(split_both(e, views, count + 1));
    TRY(atoms_inside(e, &inside));
    const int placed = joint_order(e, views, count, views[count], order), place = inside > placed ? 0 : placed - inside;
    bool plain = place == placed;
    for (int v = 0; v < count && plain; v++) {
        const struct layout *first = e->layouts[s->inputs[0]->step];
        TRY(want_joined(e, views[v], s->inputs[v], s->axis, order, placed, place, &w));
        plain = lies_so(e, &w, side_of(s->inputs[v], s->axis), &e->graph->nodes[first->node].shape);
        nodes[v] = e->layouts[s->inputs[v]->step]->node;
    }
    for (int v = 0; v < count && !plain; v++) {
        TRY(want_joined(e, views[v], s->inputs[v], s->axis, order, placed, place, &w));
        TRY(arrange(e, &w, &nodes[v]));
    }
    if (place < placed) TRY(say(e, &made, "axis", place == 0 ? 1 : 2));
    TRY(add_made(e, &made, "", nodes, count, &node));
    int used = 0;
    for (int i = 0; i <= placed; i++) {
        if (i == place) used += own_pieces(&s->output, s->axis, pieces + used);
        if (i == placed) break;
        const struct atom *atom = &views[count]->atoms[order[i]];
        pieces[used++] = (struct piece){atom->size, atom->stride};
    }
    return note(e, node, pieces, used);
}

static enum ps_status emit_concat(struct emitting *e) {
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

/* --------------------------------------------------------- kinds: products */

/* The matrix's two last axes behind the leading atoms: `row` innermost last where `turned`. */
static enum ps_status want_matrix(struct emitting *e, const struct view *v, struct view *const *leads, int which,
                                  const int *lead, int placed, bool turned, struct wanted *w) {
    struct view last = *v;
    last.count = 0;
    for (int i = 0; i < v->count; i++)
        if (v->atoms[i].axis >= v->rank - 2) last.atoms[last.count++] = v->atoms[i];
    TRY(split_at(e, &last, e->layouts[v->step]));
    *w = (struct wanted){.view = *leads[which]};
    const int first = w->view.count;
    if (first + last.count > ATOMS_MAX) return refuse(e, "its inputs have too many dimensions");
    memcpy(&w->view.atoms[first], last.atoms, (size_t)last.count * sizeof *last.atoms);
    w->view.count += last.count;
    w->view.rank = v->rank;
    for (int i = 0; i < placed; i++) {
        if (i > 0 && presence(leads, 2, lead[i]) != presence(leads, 2, lead[i - 1])) {
            if (w->groups == SHAPE_RANK_MAX - 3) return refuse(e, "its inputs have too many dimensions");
            end_group(w);
        }
        if (leads[which]->atoms[lead[i]].stride != 0) w->order[w->count++] = lead[i];
    }
    end_group(w);
    for (int side = 0; side < 2; side++) {
        const int axis = v->rank - 2 + (side ^ turned);
        for (int i = first; i < w->view.count; i++)
            if (w->view.atoms[i].axis == axis && !w->view.atoms[i].batch) w->order[w->count++] = i;
        end_group(w);
    }
    return PS_OK;
}

/* Whether the rows of the matrix lie innermost. */
static bool lies_turned(struct emitting *e, const struct view *v) {
    struct view copy = *v;
    int order[ATOMS_MAX];
    if (split_at(e, &copy, e->layouts[v->step]) != PS_OK) return false;
    const int count = memory_order(&copy, e->layouts[v->step], order);
    return count > 0 && copy.atoms[order[count - 1]].axis == v->rank - 2;
}

static enum ps_status emit_product(struct emitting *e) {
    const struct step *s = e->step;
    struct view leads[3], *views[3];
    struct making made;
    struct wanted w;
    struct piece pieces[3 * ATOMS_MAX];
    int order[ATOMS_MAX], nodes[2], node, used = 0;
    const int rank = s->output.rank;
    TRY(make(e, "matmul", &made));
    for (int v = 0; v < 3; v++) {
        const struct view *from = v < 2 ? s->inputs[v] : &s->output;
        leads[v] = *from;
        while (leads[v].count > 0 && leads[v].atoms[leads[v].count - 1].axis >= rank - 2) leads[v].count--;
        views[v] = &leads[v];
    }
    TRY(split_both(e, views, 3));
    const int placed = joint_order(e, views, 2, views[2], order);
    for (int v = 0; v < 2; v++) {
        const bool turned = lies_turned(e, s->inputs[v]);
        TRY(want_matrix(e, s->inputs[v], views, v, order, placed, turned, &w));
        TRY(arrange(e, &w, &nodes[v]));
        if (turned) TRY(say(e, &made, v == 0 ? "transpose_a" : "transpose_b", 1));
    }
    TRY(add_made(e, &made, "", nodes, 2, &node));
    for (int i = 0; i < placed; i++) {
        const struct atom *atom = &views[2]->atoms[order[i]];
        pieces[used++] = (struct piece){atom->size, atom->stride};
    }
    used += own_pieces(&s->output, rank - 2, pieces + used);
    used += own_pieces(&s->output, rank - 1, pieces + used);
    return note(e, node, pieces, used);
}

/* ----------------------------------------------- kinds: sequences, attention */

/* One direction of a recurrent layer: (T, N, D) to (T, 1, N, H). */
static enum ps_status emit_recurrent(struct emitting *e) {
    const struct step *s = e->step;
    struct making made;
    struct wanted w;
    struct piece pieces[2 * ATOMS_MAX];
    int node, count;
    TRY(make(e, s->function, &made));
    TRY(want(e, s->inputs[0], &w));
    if (has_atoms(s->inputs[0], 1)) return refuse(e, "it would work on several sequences of a sample");
    put_axis(&w, 0);
    end_group(&w);
    end_group(&w);
    put_axis(&w, 2);
    end_group(&w);
    TRY(arrange(e, &w, &node));
    made.attributes.channels = s->attributes.channels;
    made.attributes.reverse = s->attributes.reverse;
    TRY(add_made(e, &made, s->attributes.reverse ? "reverse" : "", &node, 1, &node));
    for (int p = 0; p < 4; p++)
        if (s->parameters[p] != NULL) TRY(own(e, node, p, s->parameters[p]));
    count = own_pieces(&s->output, 0, pieces);
    count += own_pieces(&s->output, 3, pieces + count);
    return note(e, node, pieces, count);
}

/* (.., heads, T, d): a row of memory for each position, heads side by side. `key_heads`: without the last, repeated, heads. */
static enum ps_status want_heads(struct emitting *e, const struct view *v, const int *lead, int lead_count, int key_atoms,
                                 struct view *const *leads, int which, int *node) {
    struct view last = *v;
    struct wanted w = {.view = *leads[which]};
    last.count = 0;
    for (int i = 0; i < v->count; i++)
        if (v->atoms[i].axis >= v->rank - 2) last.atoms[last.count++] = v->atoms[i];
    TRY(split_at(e, &last, e->layouts[v->step]));
    const int first = w.view.count;
    if (first + last.count > ATOMS_MAX) return refuse(e, "its inputs have too many dimensions");
    memcpy(&w.view.atoms[first], last.atoms, (size_t)last.count * sizeof *last.atoms);
    w.view.count += last.count;
    w.view.rank = v->rank;
    for (int side = 0; side < 2; side++) {
        for (int i = 0; side == 1 && i < lead_count && i < key_atoms; i++) w.order[w.count++] = lead[i];
        for (int i = first; i < w.view.count; i++)
            if (w.view.atoms[i].axis == v->rank - 2 + side && !w.view.atoms[i].batch) w.order[w.count++] = i;
        end_group(&w);
        if (side == 0) end_group(&w);
    }
    return arrange(e, &w, node);
}

/* (.., heads | 1, Tq | 1, Tk): heads outside, keys inside. */
static enum ps_status want_mask(struct emitting *e, const struct view *mask, const int *lead, int lead_count,
                                struct view *const *leads, int *node) {
    struct view last = *mask;
    struct wanted w = {.view = *leads[3]};
    bool any = false;
    last.count = 0;
    for (int i = 0; i < mask->count; i++)
        if (mask->atoms[i].axis >= mask->rank - 2) last.atoms[last.count++] = mask->atoms[i];
    TRY(split_at(e, &last, e->layouts[mask->step]));
    const int first = w.view.count;
    if (first + last.count > ATOMS_MAX) return refuse(e, "its inputs have too many dimensions");
    memcpy(&w.view.atoms[first], last.atoms, (size_t)last.count * sizeof *last.atoms);
    w.view.count += last.count;
    w.view.rank = mask->rank;
    for (int i = 0; i < lead_count; i++) any = any || w.view.atoms[lead[i]].stride != 0;
    for (int i = 0; i < lead_count && any; i++) w.order[w.count++] = lead[i];
    end_group(&w);
    bool rows = false;
    for (int i = first; i < w.view.count; i++)
        rows = rows || (w.view.atoms[i].axis == mask->rank - 2 && w.view.atoms[i].stride != 0);
    for (int side = 0; side < 2; side++) {
        for (int i = first; i < w.view.count; i++)
            if (w.view.atoms[i].axis == mask->rank - 2 + side && !w.view.atoms[i].batch && (side == 1 || rows))
                w.order[w.count++] = i;
        end_group(&w);
    }
    return arrange(e, &w, node);
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
    TRY(make(e, "attention", &made));
    TRY(want(e, x, &w));
    put_axis(&w, x->rank - 2);
    end_group(&w);
    end_group(&w);
    for (int d = 0; d < x->rank - 2; d++) put_axis(&w, d);
    for (int d = 1; d < x->rank - 2; d++) heads *= side_of(x, d);
    put_axis(&w, x->rank - 1);
    end_group(&w);
    TRY(arrange(e, &w, &nodes[0]));
    if (s->input_count > 1) {
        mask_lead = *s->inputs[1];
        while (mask_lead.count > 0 && mask_lead.atoms[mask_lead.count - 1].axis >= mask_lead.rank - 2) mask_lead.count--;
        TRY(split_at(e, &mask_lead, e->layouts[s->inputs[1]->step]));
        for (int i = 0; i < mask_lead.count; i++)
            if (!mask_lead.atoms[i].batch) lead[count++] = i;
        leads[3] = &mask_lead;
        TRY(want_mask(e, s->inputs[1], lead, count, leads, &nodes[1]));
    }
    made.attributes.heads = (int)heads;
    made.attributes.causal = s->attributes.causal;
    made.attributes.rate = s->attributes.rate;
    if (s->alpha != 0) TRY(say(e, &made, "scale", (double)s->alpha));
    if (s->beta != 0) TRY(say(e, &made, "cap", (double)s->beta));
    TRY(add_made(e, &made, "", nodes, s->input_count, &node));
    used = own_pieces(&s->output, s->output.rank - 2, pieces);
    for (int d = 0; d < s->output.rank - 2; d++) used += own_pieces(&s->output, d, pieces + used);
    used += own_pieces(&s->output, s->output.rank - 1, pieces + used);
    return note(e, node, pieces, used);
}

static enum ps_status emit_attention(struct emitting *e) {
    const struct step *s = e->step;
    if (s->number == 1) return emit_packed(e);
    struct view leads[5], *views[5];
    struct making made;
    struct piece pieces[3 * ATOMS_MAX];
    int lead[ATOMS_MAX], lead_count = 0, nodes[4], node, used = 0, key_atoms;
    const int count = s->input_count, rank = s->output.rank;
    int64_t heads = 1, key_heads = 1;
    TRY(make(e, "attention", &made));
    for (int v = 0; v <= count; v++) { /* the leading dimensions: heads, and the batch */
        const struct view *from = v < count ? s->inputs[v] : &s->output;
        leads[v < count ? v : 4] = *from;
        struct view *own_lead = &leads[v < count ? v : 4];
        while (own_lead->count > 0 && own_lead->atoms[own_lead->count - 1].axis >= rank - 2) own_lead->count--;
        views[v < count ? v : 4] = own_lead;
    }
    if (count == 3) views[3] = views[4];
    struct view *all[5] = {views[0], views[1], views[2], count > 3 ? views[3] : views[4], views[4]};
    TRY(split_both(e, all, count + 1));
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
    if (key_heads != heads) TRY(say(e, &made, "key_heads", (double)key_heads));
    if (s->alpha != 0) TRY(say(e, &made, "scale", (double)s->alpha));
    if (s->beta != 0) TRY(say(e, &made, "cap", (double)s->beta));
    TRY(add_made(e, &made, "", nodes, count, &node));
    used += own_pieces(&s->output, rank - 2, pieces);
    for (int i = 0; i < lead_count; i++)
        pieces[used++] = (struct piece){views[4]->atoms[lead[i]].size, views[4]->atoms[lead[i]].stride};
    used += own_pieces(&s->output, rank - 1, pieces + used);
    return note(e, node, pieces, used);
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
    [STEP_SELECT] = emit_slice,
    [STEP_DROPOUT] = emit_dropout,
    [STEP_RECURRENT] = emit_recurrent,
    [STEP_ATTENTION] = emit_attention,
    [STEP_PAD] = emit_pad,
    [STEP_RESIZE] = emit_resize,
    [STEP_LOCAL_NORM] = emit_local_norm,
};

/* Steps stand in the file's order; those that a fusion has added stand behind, and come before the first that reads them. */
static enum ps_status emit_step(struct emitting *e, struct step *step) {
    if (e->layouts[step->output.step] != NULL) return PS_OK;
    for (int i = 0; i < step->input_count; i++) TRY(emit_step(e, e->l->steps[step->inputs[i]->step]));
    e->step = step;
    enum ps_status status = emitters[step->kind](e);
    if (status == PS_BAD_INPUT || status == PS_USAGE)
        error_prefix(e->l->error, "%s: node '%.100s' (%.40s)", e->l->path, step->node != NULL ? step->node->name : "",
                     step->node != NULL ? step->node->op : "constant");
    return status == PS_USAGE ? PS_BAD_INPUT : status;
}

/* The classes innermost: of a picture of classes its dimension 1, else the last. */
static enum ps_status emit_output(struct emitting *e, int *node) {
    const struct view *out = e->l->output_view;
    struct wanted w;
    if (out->rank < 2) return refuse(e, "the output has no classes");
    if (out->rank == 4) {
        TRY(want_image(e, out, &w));
    } else
        TRY(want_features(e, out, out->rank - 1, &w));
    return arrange(e, &w, node);
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
