/*
 * What the handlers of operators (lower_*.c) have in common: each reads the inputs of one node as constants or views, adds
 * steps and gives the node's outputs. A refusal says what does not fit; the walk puts file, node and operator before it.
 */
#ifndef PENSTOCK_ONNX_LOWER_CALLS_H
#define PENSTOCK_ONNX_LOWER_CALLS_H

#include "onnx/lower.h"

struct row;

/* One node at work. */
struct call {
    struct lowering *l;
    const struct onnx_node *node;
    const struct row *row;
    struct ps_error *error;
};

struct row {
    const char *op;
    enum ps_status (*lower)(const struct call *call); /* NULL: of constants alone */
    const char *function, *attributes;                /* attributes: their names */
    bool whole; /* whole numbers are computed as f32 is, exact up to 2^24, and cast back */
};

/* PS_BAD_INPUT. */
enum ps_status call_refuse(const struct call *call, const char *what);
/* What stops a call where memory ran out. */
enum ps_status call_memory(const struct call *call);

/* Input i; of the kind VALUE_ABSENT where it is left out. */
struct value *call_input(const struct call *call, int i);
bool call_given(const struct call *call, int i);
/* A constant input, or NULL. */
const struct tensor *call_constant(const struct call *call, int i);
/* The input as a view that the handler may change; a constant becomes a step. */
enum ps_status call_view(const struct call *call, int i, struct view **out);
/* The input's dimensions, whether it is constant or not. */
const int64_t *call_dims(const struct call *call, int i, int *rank);
/* Casts whole numbers where the operator computes with them as f32; *v may be NULL. */
enum ps_status call_as_floats(const struct call *call, struct view **v);
/* ONNX's type of the input's elements. */
int call_type(const struct call *call, int i);
/* Refuses what would mix samples: an axis that has the batch in it. */
enum ps_status call_needs_apart(const struct call *call, const struct view *v, int axis);

void call_give(const struct call *call, int output, struct view *result);
/* Of `result` nothing is left along the axis. */
void call_give_empty(const struct call *call, int output, struct view *result, int axis);
/* VALUE_PLACES. */
void call_give_places(const struct call *call, int output, struct view *result, int64_t each);
enum ps_status call_give_constant(const struct call *call, int output, struct tensor *tensor);

/* A step of one input whose output has the input's dimensions. */
struct step *call_same(const struct call *call, enum step_kind kind, struct view *x);
/* The step's output gets the dimensions; those that `from` says keep the atoms of x's dimension of that number (-1: one new
 * atom). */
enum ps_status call_output(const struct call *call, struct step *step, const struct view *x, int rank, const int64_t *dims,
                           const int *from);

/* Of a tensor that is one number wherever one looks. */
bool tensor_uniform(const struct tensor *tensor, double *number);
/* The number that stands for it among attributes, of which an infinite one is no number: the largest or least one then. */
double call_finite(double number);
/* The whole initializer as it lies in the file: its view, or NULL. */
const struct view *view_is_parameter(const struct lowering *l, const struct view *v);
/* A constant as a view. One that is made for all samples of the export's batch and the same for all has one of them. */
enum ps_status lower_constant(const struct call *call, const struct tensor *tensor, struct view **out);
/* A constant beside values: what it is for each sample is taken once, if it is the same for all. */
enum ps_status lower_constant_beside(const struct call *call, const struct tensor *tensor, struct view *const *others,
                                     int count, struct view **out);

/* Is constant input i `each` times the number of the sample, beside the value of another input? */
bool lower_counts_samples(const struct call *call, int i, int other, int64_t *each);

/* Steps that several handlers add. */
enum ps_status lower_slice_axis(const struct call *call, struct view **x, int axis, int64_t first, int64_t count,
                                int64_t stride);
enum ps_status lower_concat_views(const struct call *call, struct view **parts, int count, int axis, struct view **out);
/* Any number of parts, 64 at a time; overwrites the list. */
enum ps_status lower_concat_many(const struct call *call, struct view **parts, int64_t count, int axis, struct view **out);
enum ps_status lower_unary_step(const struct call *call, struct view *x, const char *function, double alpha, double beta,
                                struct view **out);
/* (.., M, K) by (.., K, N). */
enum ps_status lower_product_step(const struct call *call, struct view *a, struct view *b, struct view **out);
enum ps_status lower_reduce_step(const struct call *call, struct view *x, const bool *marks, const char *function, bool keep,
                                 struct view **out);
/* A step whose inputs are repeated to one shape; type: ONNX's, of its output (0: as it is where nothing is said). */
enum ps_status lower_aligned_step(const struct call *call, enum step_kind kind, const char *function, int type, int count,
                                  const struct view *const *views, struct view **out);
enum ps_status lower_binary_step(const struct call *call, const char *function, const struct view *a, const struct view *b,
                                 struct view **out);

/* The axis becomes `count` places, each the sum of the old ones times what the matrix has of them. */
typedef double lower_matrix(const void *context, int64_t from, int64_t to);
enum ps_status lower_product_with(const struct call *call, struct view **x, int axis, int64_t count, lower_matrix *matrix,
                                  const void *context);

/* What of x stands in the places along the axis, which depend on the data; places may be 1 long along the others. */
enum ps_status lower_pick(const struct call *call, struct view *x, struct view *places, int axis, struct view **picked);

/* The handlers. */
typedef enum ps_status lower_handler(const struct call *call);
lower_handler lower_identity, lower_reshape, lower_transpose, lower_expand, lower_shape, lower_slice, lower_split,
    lower_sequence_at, lower_concat, lower_gather, lower_gather_elements, lower_gather_nd, lower_scatter_elements,
    lower_scatter_nd, lower_arg, lower_one_hot, lower_unary, lower_gelu, lower_selu, lower_swish, lower_cumulate, lower_tile,
    lower_clip, lower_binary, lower_is_nan, lower_prelu, lower_compare, lower_logical, lower_where, lower_cast, lower_dropout,
    lower_matmul, lower_gemm, lower_convolution, lower_pool, lower_pad, lower_resize, lower_einsum, lower_blocks, lower_reduce,
    lower_global_pool, lower_softmax, lower_lrn, lower_batch_norm, lower_layer_norm, lower_group_norm, lower_attention,
    lower_recurrent;

#endif
