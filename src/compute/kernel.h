/*
 * Kernels: how a device computes an operator. A kernel is created once for a node and a micro-batch size and run many times.
 *
 * Contract of every slot: calls come from one thread at a time per kernel; no allocation while running; pointers are aligned to
 * 64 bytes and do not overlap, except that an in-place node gets output == input[0] and input_gradient[0] == output_gradient.
 * Backward kernels always write (never add); the caller adds where a value has several gradients.
 */
#ifndef PENSTOCK_COMPUTE_KERNEL_H
#define PENSTOCK_COMPUTE_KERNEL_H

#include "base/random.h"
#include "graph/graph.h"

struct device;

/* All that one execution reads and writes; borrowed. Activations are N, H, W, C (vectors N, D). A value's memory and its
 * gradient's hold elements of the value's type, whatever the pointer says: those of i32 are read through token_numbers
 * (compute/token.h), those of bf16 as uint16_t. */
struct kernel_call {
    const float *input[GRAPH_INPUTS_MAX];
    float *output;
    float *inner; /* inner_bytes, written by the forward, read by the backward (pooling indices, batch statistics) */
    const float *weights[GRAPH_PARAMETERS_MAX]; /* by parameter, in the kernel's layout; not the statistics */
    float *gradients[GRAPH_PARAMETERS_MAX];     /* by parameter: backward_weight writes them */
    float *statistics[GRAPH_PARAMETERS_MAX];    /* by parameter: running statistics */
    float *input_gradient[GRAPH_INPUTS_MAX];    /* NULL where it is not needed, as for tokens */
    const float *output_gradient;               /* NULL for a loss */
    void *workspace;
    float *state; /* forward only, samples x state_floats: the state at the start of a sequence, overwritten by the state at its
                     end, from which the next call continues; NULL: starts with zeros */
    const void *target;     /* loss only: graph_target for each sample. Labels (int32_t): -1 is not counted (no loss, no hit,
                               gradient 0). Numbers (float): where an activation has them */
    int counted;            /* loss only: the first `counted` of the N samples count; the targets of the others are not read */
    float gradient_scale;   /* loss only: 1 / what counts in the whole mini-batch: the weights of its labels, or its numbers */
    bool training;          /* dropout and batch statistics on */
    bool update_statistics; /* false in a recomputation and in evaluation */
    struct random_key key;  /* of this node, step and micro-batch; dropout keeps element i (in memory order) where
                               random_uniform(key, i) >= rate, and multiplies it by 1 / (1 - rate) */
    /* For the clock device. adds (backward_weight): the caller adds the result to earlier gradients; split (both halves): the
     * halves run at different times. */
    bool adds, split;
    size_t first_row, end_row; /* of loops OVER_SUMS: the rows that the body adds */
    double *loss;              /* loss only: sum over what counts, times its weights, is added here */
    int64_t *correct;          /* of labels only: hits of the top guess are added here */
    int64_t *correct5;         /* of labels only: those with fewer than five classes of higher probability */
    struct ps_error *error;    /* of a part that fails */
};

struct kernel {
    const struct kernel_class *type;
    struct device *device;
    const struct graph *graph;
    const struct node *node;
    struct adapter *adapter;                       /* NULL: it computes on the types of its graph's values and parameters */
    struct images *images;                         /* NULL: its node is of a single image, as those of most operators are */
    int samples;                                   /* N; of several images of a sample (OPERATOR_IMAGES) images are samples */
    bool relu_follows;                             /* the next node is a ReLU in place over this one */
    bool fuses_relu;                               /* then: forward applies it, and its own forward is skipped */
    int64_t parameter_bytes[GRAPH_PARAMETERS_MAX]; /* in the kernel's layout as f32, padding included, whatever the type of
                                                      the copy that it reads; 4 x elements for statistics */
    int64_t inner_bytes;
    int64_t workspace_bytes; /* largest of forward, backward_input and backward_weight */
    int64_t state_floats;    /* of a sample, carried from position to position; 0: none */
    /* Of piecewise kernels on values in bf16: where their buffers are in the workspace, and how many floats each one holds.
     * set_sizes may set the latter, to more than it is by default. */
    int64_t piece_offset, piece_floats;
};

typedef enum ps_status kernel_function(struct kernel *kernel, const struct kernel_call *call);

/* A part of a kernel that is one loop over things which do not depend on each other, on a device that works in the host's
 * memory. The device's threads share it: each calls `body` for its range [first, end). It cannot fail. */
typedef void kernel_body(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end);
enum loop_over {
    OVER_ELEMENTS, /* of the output, all samples together */
    OVER_ROWS,     /* of the output as a matrix of kernel_rows x kernel_features */
    OVER_FEATURES, /* its columns */
    OVER_SUMS,     /* its columns, too, for sums over rows: the body adds the rows from call->first_row to call->end_row to the
                      gradients of the parameters, which are 0 before */
    OVER_SAMPLES,
};
struct kernel_loop {
    enum loop_over over;
    kernel_body *body; /* NULL: there is none */
    size_t grain;      /* a thread's range is a multiple of it, but for the last; 0: 1 */
    bool typed;        /* of a piecewise kernel: this body reads and writes values of their own types */
};

/* A kernel's functions; or, where they are NULL, its loops. Without either the operator has no such part. */
struct kernel_class {
    size_t size; /* of a struct that begins with struct kernel; 0: it is struct kernel alone */
    /* Can it compute on the node's own types, bf16 among them? NULL: it cannot. Then it gets the network in f32 (graph.wide),
     * and what it reads and writes is converted before and after, in its workspace (adapter.c). */
    bool (*native)(const struct kernel *kernel);
    /* Do its loops, given to kernel_parallel or kernel_pieces, touch of each value only the share of their index, where all
     * indices have equal shares? Then they compute in f32 also where values are bf16: a body is called for pieces of its range,
     * and the shares of a piece are widened before and rounded after it in a buffer that stays in the cache (pieces.c). */
    bool piecewise;
    /* Completes a kernel whose members up to relu_follows are set, and parameter_bytes to those of the canonical layout; the
     * rest of `size` is zero. After an error `release` follows. NULL: it is complete. */
    enum ps_status (*prepare)(struct kernel *kernel, struct ps_error *error);
    void (*release)(struct kernel *kernel); /* frees what `prepare` took, but not the kernel itself; NULL: nothing */
    /* Sets inner_bytes, workspace_bytes, state_floats and fuses_relu where that cannot fail. NULL: they stay as they are. */
    void (*set_sizes)(struct kernel *kernel);
    kernel_function *forward, *backward_input, *backward_weight;
    struct kernel_loop forward_loop, backward_input_loop, backward_weight_loop;
    /* What both halves of the backward need, computed once: runs before them, also where only one of them follows, and leaves
     * its results in the workspace for both. NULL: nothing is shared. */
    kernel_function *backward_shared;
    /* Between canonical (PyTorch) order and the kernel's layout, both in the host's memory; padding becomes zeros. NULL: they
     * are the same. */
    enum ps_status (*from_canonical)(struct kernel *kernel, int parameter, const float *canonical, float *own,
                                     struct ps_error *error);
    enum ps_status (*to_canonical)(struct kernel *kernel, int parameter, const float *own, float *canonical,
                                   struct ps_error *error);
};

/* Do all values of the node have one type, and are its parameters f32? `native` of kernels that move elements. */
bool kernel_one_type(const struct kernel *kernel);
/* Does a value or a parameter of the node have another type than in the network in f32? */
bool kernel_is_narrow(const struct kernel *kernel);
/* Lets a kernel that is made, all but its class's `prepare`, compute in f32; the sizes that the adapter adds to its workspace,
 * after that; running it. adapter.c */
enum ps_status adapter_begin(struct kernel *kernel, struct ps_error *error);
void adapter_end(struct kernel *kernel);

/* PS_USAGE where the device cannot compute the operator. The kernel borrows device, graph and node. */
enum ps_status kernel_create(struct device *device, const struct graph *graph, const struct node *node, int samples,
                             bool relu_follows, struct kernel **kernel, struct ps_error *error);
void kernel_destroy(struct kernel *kernel); /* NULL is fine */

enum kernel_part { KERNEL_FORWARD, KERNEL_BACKWARD_SHARED, KERNEL_BACKWARD_INPUT, KERNEL_BACKWARD_WEIGHT };
bool kernel_has(const struct kernel *kernel, enum kernel_part part);
enum ps_status adapter_run(struct kernel *kernel, enum kernel_part part, const struct kernel_call *call);
/* The kernel's own part, in the types that it computes in. */
enum ps_status kernel_run_own(struct kernel *kernel, enum kernel_part part, const struct kernel_call *call);
enum ps_status kernel_run(struct kernel *kernel, enum kernel_part part, const struct kernel_call *call);

/* Calls `body` for pieces of [first, end), in order, all but the last multiples of `step`, of a loop over `count` indices. The
 * call that it gets has f32 where `call` has bf16: what a forward reads and writes, or a backward, which is a call with a
 * gradient of a value. Without bf16 there is one piece. One thread's part; pieces.c, as the functions below. */
typedef void piece_body(const void *context, const struct kernel_call *call, size_t first, size_t end);
void kernel_pieces(const struct kernel *kernel, const struct kernel_call *call, size_t count, size_t first, size_t end,
                   size_t step, piece_body *body, const void *context);
/* The same for columns [first, end) of the rows; `body` finds the rows of a piece in its call. */
void kernel_column_pieces(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end,
                          piece_body *body, const void *context);
/* Can and must a kernel be computed in pieces? Adds their buffers to its workspace. */
bool pieces_serve(const struct kernel *kernel);
void pieces_end(struct kernel *kernel);

/* The shape of an input (of one sample), and of the output as a matrix: rows, of all samples, of so many features (channels).
 */
static inline const struct shape *kernel_input(const struct kernel *kernel, int input) {
    return &kernel->graph->nodes[kernel->node->inputs[input]].shape;
}
/* Is a parameter of its node shared with other nodes? Then the kernel keeps it in canonical order. */
static inline bool kernel_shares(const struct kernel *kernel, int parameter) {
    return kernel->graph->parameters[kernel->node->parameter_first + parameter].shared;
}
/* Bytes of the copy of a parameter that the kernel reads. */
static inline int64_t kernel_weight_bytes(const struct kernel *kernel, int parameter) {
    const enum number_type type = kernel->graph->parameters[kernel->node->parameter_first + parameter].copy;
    return kernel->parameter_bytes[parameter] / (int64_t)sizeof(float) * (int64_t)number_types[type].bytes;
}
static inline size_t shape_channels(const struct shape *shape) { return (size_t)shape->dim[0]; }
static inline size_t shape_rows(const struct shape *shape, int samples) {
    return (size_t)samples * (size_t)(shape_elements(shape) / shape->dim[0]);
}
static inline size_t kernel_features(const struct kernel *kernel) { return shape_channels(&kernel->node->shape); }
static inline size_t kernel_rows(const struct kernel *kernel) { return shape_rows(&kernel->node->shape, kernel->samples); }
/* Elements of the output, all samples together. */
static inline size_t kernel_elements(const struct kernel *kernel) {
    return (size_t)kernel->samples * (size_t)shape_elements(&kernel->node->shape);
}

/* Calls `body` for equal parts of [0, count), one per thread of the device, each but the last a multiple of `grain`; a single
 * direct call where there is one thread or little work. */
typedef void parallel_body(const void *context, size_t first, size_t end);
void device_parallel(const struct device *device, size_t count, size_t grain, parallel_body *body, const void *context);

/* The same for a loop of a kernel that is not a whole part of it. */
void kernel_parallel(const struct kernel *kernel, const struct kernel_call *call, size_t count, size_t grain,
                     kernel_body *body);

#endif
