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
    const int32_t *labels;  /* loss only: one a sample, or one a position of a sequence; -1: not counted (no loss, no hit,
                               gradient 0) */
    int counted;            /* loss only: the first `counted` of the N samples count; the labels of the others are not read */
    float gradient_scale;   /* loss only: 1 / (counted labels of the whole mini-batch) */
    bool training;          /* dropout and batch statistics on */
    bool update_statistics; /* false in a recomputation and in evaluation */
    struct random_key key;  /* of this node, step and micro-batch; dropout keeps element i (in memory order) where
                               random_uniform(key, i) >= rate, and multiplies it by 1 / (1 - rate) */
    /* For the clock device. adds (backward_weight): the caller adds the result to earlier gradients; split (both halves): the
     * halves run at different times. */
    bool adds, split;
    double *loss;      /* loss only: sum over counted labels is added here */
    int64_t *correct;  /* loss only: hits of the top guess are added here */
    int64_t *correct5; /* loss only: labels with fewer than five classes of higher probability */
};

struct kernel {
    const struct kernel_class *type;
    int samples;                                   /* N */
    int64_t parameter_bytes[GRAPH_PARAMETERS_MAX]; /* in the kernel's layout, padding included; 4 x elements for statistics */
    int64_t inner_bytes;
    int64_t workspace_bytes; /* largest of forward, backward_input and backward_weight */
    int64_t state_floats;    /* of a sample, carried from position to position; 0: none */
    bool fuses_relu;         /* forward applies the ReLU that follows in place; its own forward is then skipped */
};

struct kernel_class {
    /* `relu_follows`: the next node is a ReLU in place over this one; the kernel may set fuses_relu. */
    enum ps_status (*create)(struct device *device, const struct graph *graph, const struct node *node, int samples,
                             bool relu_follows, struct kernel **kernel, struct ps_error *error);
    void (*destroy)(struct kernel *kernel);
    enum ps_status (*forward)(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error);
    /* NULL: the operator has no such part. */
    enum ps_status (*backward_input)(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error);
    enum ps_status (*backward_weight)(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error);
    /* What both halves of the backward need, computed once: runs before them, also where only one of them follows, and leaves
     * its results in the workspace for both. NULL: nothing is shared. */
    enum ps_status (*backward_shared)(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error);
    /* Between canonical (PyTorch) order and the kernel's layout, both in the host's memory; padding becomes zeros. NULL: they
     * are the same. */
    enum ps_status (*from_canonical)(struct kernel *kernel, int parameter, const float *canonical, float *own,
                                     struct ps_error *error);
    enum ps_status (*to_canonical)(struct kernel *kernel, int parameter, const float *own, float *canonical,
                                   struct ps_error *error);
};

#endif
