/*
 * What the emitters of steps (emit_*.c) have in common: names and attributes of the nodes to come, how an input has to lie in
 * memory, and how an output lies.
 */
#ifndef PENSTOCK_ONNX_EMIT_H
#define PENSTOCK_ONNX_EMIT_H

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

/* A node to come: its operator by name, and attributes by theirs. */
struct making {
    const struct operator_type *op;
    enum operator_id id;
    struct attributes attributes;
};

/* ------------------------------------------------------------------- nodes */

/* PS_BAD_INPUT; file, node and operator are put before it. */
enum ps_status emit_refuse(const struct emitting *e, const char *what);
/* A node of the named operator with its usual attributes, which the others then say. PS_BAD_INPUT: there is no such one. */
enum ps_status emit_make(struct emitting *e, const char *name, struct making *making);
const struct attribute *making_attribute(const struct making *making, const char *name);
enum ps_status emit_say(struct emitting *e, struct making *making, const char *name, double value);
enum ps_status emit_say_word(struct emitting *e, struct making *making, const char *name, const char *word);
enum ps_status emit_say_list(struct emitting *e, struct making *making, const char *name, const struct list *list);
/* Adds it, named as the step at work, with `what` behind the name if that is not empty. */
enum ps_status emit_add(struct emitting *e, const struct making *making, const char *what, const int *inputs, int count,
                        int *node);
enum ps_status emit_node(struct emitting *e, enum operator_id id, const char *what, const struct attributes *attributes,
                         const int *inputs, int count, int *node);
/* The node's parameter is the initializer: it gets the name, shape and value. An initializer that another node has is shared.
 */
enum ps_status emit_own(struct emitting *e, int node, int parameter, const struct view *v);

/* ------------------------------------------------------------------- inputs */

/* The view with its atoms split where pieces of its step's layout end, and nothing in its order yet. */
enum ps_status wanted_open(struct emitting *e, const struct view *v, struct wanted *w);
/* The same of the last two axes of `v`, behind the atoms of `lead`: from `*first` on. */
enum ps_status wanted_open_behind(struct emitting *e, const struct view *lead, const struct view *v, struct wanted *w,
                                  int *first);
/* Puts the atoms of the axis behind those that are there. */
void wanted_put_axis(struct wanted *w, int axis);
/* The atoms, in the order in which they lie, of axes that `marks` does not name, without the repeated ones: these are repeated
 * in the output as well. */
void wanted_put_others(struct emitting *e, struct wanted *w, const bool *marks);
/* The repeated atoms of axes that `marks` names. */
void wanted_put_repeated(struct wanted *w, const bool *marks);
/* Ends the group that is being filled. */
void wanted_end_group(struct wanted *w);
/* The axes from `first` on innermost, in their order; the others as they lie, or a vector where there are none. */
enum ps_status wanted_features(struct emitting *e, const struct view *x, int first, struct wanted *w);
/* An image: rows, columns, channels; of a sequence one column. */
enum ps_status wanted_image(struct emitting *e, const struct view *x, struct wanted *w);
/* The groups' sizes, the outermost first; their number. */
int wanted_sides(const struct wanted *w, int64_t sides[SHAPE_RANK_MAX]);
/* The node whose output lies as wanted. */
enum ps_status emit_arrange(struct emitting *e, struct wanted *w, int *node);

/* Splits the view's atoms where pieces of its step's layout end; where that cannot be, the step's output is put in row-major
 * order before. */
enum ps_status emit_split(struct emitting *e, struct view *v);
/* The same for one layout, where it can be. */
bool layout_splits(const struct layout *layout, struct view *v);
/* Splits the atoms of aligned views alike; the step at work may be among their steps, and has no layout yet. */
enum ps_status emit_split_alike(struct emitting *e, struct view *const *views, int count);
/* The atoms as they lie in the layout, outermost first, without the batch and repeated ones. */
int layout_order(const struct view *v, const struct layout *layout, int order[ATOMS_MAX]);
/* The atoms of aligned views in one order: as they lie in the value that has the most of them; others after their neighbours.
 */
int emit_joint_order(struct emitting *e, struct view *const *views, int count, const struct view *output, int *order);
/* Which of the views have the atom, as bits. */
unsigned views_presence(struct view *const *views, int count, int atom);
/* The axis of the view has atoms beside the batch and repeated ones. */
bool view_has_atoms(const struct view *v, int axis);
/* Elements of the axis without the batch. */
int64_t view_side(const struct view *v, int axis);
/* Sides outermost first to Penstock's order, the innermost first. */
struct list list_of_sides(const int64_t *memory, int count);
/* The same memory with these sides. */
enum ps_status emit_view(struct emitting *e, int from, const struct list *sides, int *node);

/* ------------------------------------------------------------------ outputs */

/* The node is the step's, and its output lies so. */
enum ps_status emit_note(struct emitting *e, int node, const struct piece *pieces, int count);
/* The output has the input's dimensions and lies as the input's order says. */
enum ps_status emit_note_same(struct emitting *e, int node, const struct wanted *w);
/* It lies as an image. */
enum ps_status emit_note_image(struct emitting *e, int node);
/*
 * The output's piece for an atom of an input: dimension `axis` of the output has the same atoms as the input's dimension, but
 * that the input's may have been split further. Counts elements from the right within the dimension.
 */
struct piece view_piece(const struct view *out, int axis, const struct view *in, int atom);
/* Pieces of the axis of the output as they stand; their number. */
int view_pieces(const struct view *out, int axis, struct piece *pieces);

/* The emitters. */
typedef enum ps_status emit_handler(struct emitting *e);
emit_handler emit_unary, emit_dropout, emit_cast, emit_aligned, emit_window, emit_pad, emit_resize, emit_batch_norm,
    emit_layer_norm, emit_group_norm, emit_local_norm, emit_softmax, emit_reduce, emit_copy, emit_embedding, emit_slice,
    emit_concat, emit_linear, emit_product, emit_recurrent, emit_rotary, emit_attention;

#endif
