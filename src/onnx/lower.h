/*
 * From an ONNX graph to Penstock's.
 *
 * Nodes are walked once, in the file's order. What depends on constants alone is computed (fold.h). The others become steps: a
 * step is one computation, its output a tensor. Steps are then simplified and fused (fuse.c), those that nobody needs are
 * dropped, and the rest becomes nodes of a graph (emit.c). Two ideas keep the steps few.
 *
 * A value is a view of a step's output. It lists, in the order of the value's dimensions, the atoms that these consist of; an
 * atom is a size and a stride, in elements of the step's output laid out row-major. Reshape, Transpose, Squeeze, Unsqueeze and
 * Expand only write another view (a stride of 0 repeats): they compute nothing and have no node. A dimension has one atom, or
 * several where a reshape has joined dimensions, or none where it is 1.
 *
 * Exports bake the example's batch into every shape, and each value keeps the samples apart along some dimension. One atom of a
 * value that depends on the inputs is therefore the batch. It has no stride, is never split or joined with another, and is
 * left out of what is emitted: samples are outermost in memory wherever the batch stands, so moving it costs nothing.
 *
 *     nn.Transformer, rows (T outside, N inside): (N,T,D) -> Transpose (T,N,D) -> Reshape (T*N, D): atoms T | batch | D;
 *         Gemm by a parameter sees rows T | batch and columns D. Reshape (T, N*heads, d): atoms T | batch heads | d.
 *     BERT: (N,T,D) -> Reshape (N,T,heads,d) -> Transpose (N,heads,T,d): atoms batch | heads | T | d with strides d, D, 1;
 *         the product of queries and keys wants T and d innermost: one permute, unless attention is fused, which wants heads
 *         and d innermost: none.
 *     Swin: (N,H,W,C) -> (N, H/7, 7, W/7, 7, C) -> (N*windows, 49, C): atoms batch H/7 W/7 | 7 7 | C; linear layers work on
 *         the last dimension and leave the order of the others as it is.
 *     ConvNeXt: (N,C,H,W) lies in memory as H, W, C. Transpose to (N,H,W,C) is a view in whose order the layer norm finds it.
 *
 * When a step is emitted, its inputs are arranged as the operator wants them in memory: as they are, by a `view` that names the
 * sides differently, or else by a `permute`. Its output notes the order of its own atoms.
 */
#ifndef PENSTOCK_ONNX_LOWER_H
#define PENSTOCK_ONNX_LOWER_H

#include "graph/network.h"
#include "onnx/fold.h"
#include "onnx/names.h"

enum { ATOMS_MAX = 20, STEP_PARAMETERS_MAX = 4 };

struct atom {
    int64_t size, stride;
    int axis;
    bool batch;
};

struct view {
    int step; /* whose output it shows */
    int rank, count;
    int64_t dims[ONNX_RANK_MAX]; /* as ONNX has them */
    struct atom atoms[ATOMS_MAX];
};

enum step_kind {
    STEP_INPUT,     /* number: of the input */
    STEP_PARAMETER, /* number: the initializer */
    STEP_CONSTANT,  /* tensor */
    STEP_COPY,      /* the input with its elements in row-major order */
    STEP_LINEAR,    /* input; parameters: weight as a view (K, M), bias */
    STEP_CONVOLUTION,
    STEP_DECONVOLUTION,
    STEP_POOL,       /* function: the operator */
    STEP_BATCH_NORM, /* parameters: weight and bias, or NULL, mean and variance */
    STEP_LAYER_NORM, /* number: how many of the last axes; parameters: weight, bias, or NULL */
    STEP_RMS_NORM,
    STEP_GROUP_NORM,
    STEP_EMBEDDING, /* tokens; parameters: the table */
    STEP_UNARY,     /* function */
    STEP_BINARY,    /* function; inputs aligned with the output */
    STEP_CHOICE,    /* `where`: aligned */
    STEP_COMPARE,
    STEP_LOGICAL,
    STEP_CAST,
    STEP_SOFTMAX,
    STEP_REDUCE, /* function; marks */
    STEP_PRODUCT,
    STEP_CONCAT, /* axis */
    STEP_SLICE,  /* axis, first, count, stride */
    STEP_DROPOUT,
    STEP_RECURRENT, /* function: lstm or gru; (T, N, D) to (T, 1, N, H) */
    STEP_ATTENTION, /* queries, keys, values (.., heads, T, d), a mask of the scores' dimensions; alpha: scale, beta: cap;
                        number 1: the three are one input (3, .., heads, T, d) */
    STEP_ROTARY,    /* (.., heads, T, d), cosines and sines of the same dimensions, repeated over the heads */
    STEP_PAD,       /* function: the mode; before, after; alpha: the value */
    STEP_RESIZE,    /* function: the mode; words: coordinates, rounding; scale; alpha: cubic */
    STEP_LOCAL_NORM,
};

/* Of a convolution or pooling, along one side; `more` elements behind the output of a deconvolution. */
struct window {
    int64_t kernel, stride, dilation, before, after, more;
};

struct step {
    enum step_kind kind;
    const struct onnx_node *node;
    struct view output;
    int onnx_type;
    struct view **inputs;
    int input_count;
    struct view *parameters[STEP_PARAMETERS_MAX]; /* views of STEP_PARAMETER or STEP_CONSTANT; NULL: none */
    const struct tensor *tensor;
    struct attributes attributes; /* of the node to come, as far as they are known */
    const char *function;         /* kind of unary, binary, ... */
    float alpha, beta;
    int number, axis;
    int64_t first, length, stride;
    struct window window[2];
    int64_t before[ONNX_RANK_MAX], after[ONNX_RANK_MAX];
    const char *words[2];
    double scale[2];
    bool marks[ONNX_RANK_MAX];
    int uses;  /* by steps that are needed; -1: not needed */
    int alias; /* another step has taken its place: its number + 1 */
    int made;  /* the last node that it was emitted as; 0: none */
};

/* What a name stands for. VALUE_EMPTY: a piece of `view` that is 0 long along `axis`, as exporters write for nothing.
 * VALUE_PLACES: `view` and something made of the sample's number, which nothing but gathering knows what to do with: `each`
 * times that is added, or it is the first column, which is left out of the view (each 0); or something else (-1). */
enum value_kind { VALUE_ABSENT, VALUE_CONSTANT, VALUE_VIEW, VALUE_SEQUENCE, VALUE_EMPTY, VALUE_PLACES };
struct value {
    enum value_kind kind;
    struct tensor *tensor;
    struct view *view;
    int axis;
    int64_t each;
    struct value *items; /* of a sequence */
    int item_count;
};

struct lowering {
    const struct onnx_model *model;
    const char *path;
    bool shares; /* some parameter is used by several nodes on purpose */
    struct arena arena;
    struct fold fold;
    struct ps_error *error;
    struct value *values;   /* by number of the model's value */
    int *initializer_steps; /* of parameters, by initializer: the step + 1 */
    struct step **steps;
    int step_count, step_capacity;
    int64_t batch; /* of the export */
    int output;    /* the step of the network's output and its view */
    struct view *output_view;
    struct names unsure, numbers; /* may be parameters or buffers, as far as the file says: trained ones, and numbers that are
                                     not trained */
};

/* ------------------------------------------------------------------- views */

void view_natural(struct view *view);
/* PS_BAD_INPUT where it has more elements than can be counted on; before its strides are. */
enum ps_status view_fits(struct lowering *l, const struct view *view);
/* The value in other dimensions; may add a step that copies. */
enum ps_status view_reshape(struct lowering *l, const struct view *from, int rank, const int64_t *dims, struct view *to);
enum ps_status view_transpose(const struct view *from, const int *order, struct view *to);
enum ps_status view_expand(struct lowering *l, const struct view *from, int rank, const int64_t *dims, struct view *to);
/* A step that puts the elements in the order of the value's dimensions, repeated ones as often as they are. NULL: no memory. */
struct view *view_copy(struct lowering *l, const struct view *from);
/* Joins neighbouring atoms of one axis that lie behind each other. */
void view_join(struct view *view, bool across_axes);
/* Splits atom i so that its inner part has `inner` elements. */
bool view_split(struct view *view, int i, int64_t inner);
bool view_has_batch(const struct view *view, int axis);
int64_t view_elements(const struct view *view);

/* What of it is a value that stands for an attention: keys and values may be repeated along leading dimensions, which heads
 * share. PS_BAD_INPUT where they do not fit. `mask` may be NULL. */
enum ps_status attention_step(struct lowering *l, const struct onnx_node *node, const struct view *q, const struct view *k,
                              const struct view *v, const struct view *mask, struct step **made);

/* Of a constant mask. Nothing is masked: all is true, or 0 is added. Causal: keys up to the query's position are seen, those
 * behind are not (1 and 0, or 0 and a number far below 0), the same for all samples and heads. */
bool mask_is_nothing(const struct tensor *mask);
bool mask_is_causal(const struct tensor *mask);

/* Makes the views of one rank and gives them the same atoms, where a value is repeated with stride 0: `output` gets them with
 * strides of its own. `skip`: an axis that is left out of it (-1: none). PS_BAD_INPUT where they do not fit. */
enum ps_status views_align(struct lowering *l, struct view **views, int count, int skip, struct view *output);

/* ------------------------------------------------------------------- steps */

/* NULL where memory ran out. */
struct step *step_add(struct lowering *l, enum step_kind kind, const struct onnx_node *node, int inputs);
struct view *view_new(struct lowering *l, const struct view *from); /* NULL of NULL, too */
/* A constant as a step. */
struct view *constant_view(struct lowering *l, const struct tensor *tensor);

/* ------------------------------------------------------------------ phases */

/* Walks the model's nodes. */
enum ps_status lower_nodes(struct lowering *l);
enum ps_status lower_fuse(struct lowering *l);
/* Marks and counts what the output needs. */
enum ps_status lower_count_uses(struct lowering *l);
/* Adds the nodes, without a loss; `output` is the node of the network's output, classes or features as its first side. */
enum ps_status lower_emit(struct lowering *l, struct graph *graph, int *output);
/* Keeps the model without the values of the network's parameters beside them (write.c). */
enum ps_status onnx_keep_origin(struct lowering *l, struct graph *graph);

#endif
