/*
 * What of a graph depends on constants alone, computed when it is imported: shapes, masks, positions, tables of angles. A small
 * evaluator of the operators that exporters write for such things, with NumPy's broadcasting, on tensors of whole numbers
 * (booleans are 0 and 1) and reals (rounded to their type after each operator).
 */
#ifndef PENSTOCK_ONNX_FOLD_H
#define PENSTOCK_ONNX_FOLD_H

#include "onnx/model.h"

/* A constant: row-major, 8 bytes an element whatever its type is. */
struct tensor {
    int type, rank;
    int64_t dims[ONNX_RANK_MAX], elements;
    double *reals;  /* of a type of floats; */
    int64_t *whole; /* else these: the same memory */
    bool unsaid;    /* made of an initializer that is not marked, where others are: it may be of parameters */
};

struct fold {
    struct arena *arena;
    int64_t budget; /* elements that all constants together may still have */
    struct ps_error *error;
};

enum { FOLD_OUTPUTS_MAX = 64 };

/* Whether constants can go through the operator. */
bool fold_knows(const char *op);
/* Computes the outputs of a node, all of whose inputs are constants (NULL: left out). PS_BAD_INPUT says what does not fit,
 * without the node's name. */
enum ps_status fold_node(struct fold *fold, const struct onnx_node *node, const struct tensor *const *inputs,
                         struct tensor **outputs);

/* A tensor with room for its elements, zeroed. */
enum ps_status fold_take(struct fold *fold, int type, int rank, const int64_t *dims, struct tensor **tensor);
enum ps_status fold_read(struct fold *fold, const struct onnx_tensor *from, struct tensor **tensor);
/* The elements at offset + the sum of index * stride. */
enum ps_status fold_strided(struct fold *fold, const struct tensor *from, int rank, const int64_t *dims, const int64_t *strides,
                            int64_t offset, struct tensor **tensor);

/* Row-major strides. */
void fold_strides(int rank, const int64_t *dims, int64_t *strides);
/* What both broadcast to; false where they do not fit. */
bool fold_broadcast(int rank_a, const int64_t *a, int rank_b, const int64_t *b, int *rank, int64_t *dims);

/* What several operators' attributes or inputs say, for constants and for values alike. `error` says what does not fit. */
struct fold_slice {
    int64_t first[ONNX_RANK_MAX], step[ONNX_RANK_MAX], count[ONNX_RANK_MAX];
};
enum ps_status fold_slice_of(const struct tensor *const *inputs, int input_count, int rank, const int64_t *dims,
                             struct fold_slice *slice, struct ps_error *error);
/* Reshape's, Flatten's, Squeeze's and Unsqueeze's new dimensions. */
enum ps_status fold_reshape_of(const struct onnx_node *node, const struct tensor *const *inputs, int64_t opset, int rank,
                               const int64_t *dims, int *new_rank, int64_t *new_dims, struct ps_error *error);
/* The axes of a reduction or of Squeeze, as marks; none said: all. */
enum ps_status fold_axes_of(const struct onnx_node *node, const struct tensor *axes, int rank, bool marks[ONNX_RANK_MAX],
                            struct ps_error *error);
/* An axis from -rank to rank - 1, as one from 0. */
enum ps_status fold_axis(int64_t said, int rank, int *axis, struct ps_error *error);

#endif
