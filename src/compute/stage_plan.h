/*
 * Inside of a stage (stage*.c only): its nodes with the places of all their arguments, and the two lists of actions that
 * forward and backward run. All is decided when the stage is created; running it only adds offsets to base addresses.
 */
#ifndef PENSTOCK_COMPUTE_STAGE_PLAN_H
#define PENSTOCK_COMPUTE_STAGE_PLAN_H

#include "compute/stage.h"

/* The blocks of struct stage_blocks. */
enum buffer_block {
    BUFFER_NONE,
    BUFFER_INPUT,
    BUFFER_OUTPUT,
    BUFFER_STASH,
    BUFFER_DELTA,
    BUFFER_WORKSPACE,
    BUFFER_WEIGHTS,
    BUFFER_GRADIENTS,
    BUFFER_STATISTICS,
    BUFFER_INPUT_GRADIENT,
    BUFFER_OUTPUT_GRADIENT,
    BUFFER_STATE,
    BUFFER_COUNT,
    BUFFER_REPEATED /* while parameters are laid out: of the gradients that follow those of all parameters */
};

struct buffer {
    enum buffer_block block;
    int64_t offset; /* bytes */
};

struct stage_node {
    const struct node *node;
    struct kernel *kernel; /* NULL: a view */
    bool fused;            /* the forward is done by the kernel of the node before */
    struct buffer input[GRAPH_INPUTS_MAX], output, inner;
    /* weights: trained ones where they lie in a block of f32 (stage_copy_offset) */
    struct buffer weights[GRAPH_PARAMETERS_MAX], gradients[GRAPH_PARAMETERS_MAX], statistics[GRAPH_PARAMETERS_MAX];
    struct buffer added_gradients[GRAPH_PARAMETERS_MAX]; /* where they are computed before they are added to others */
    struct buffer input_gradient[GRAPH_INPUTS_MAX], output_gradient;
    struct buffer state; /* BUFFER_NONE: its kernel has none */
    struct buffer delta; /* where output_gradient is kept for the weights; BUFFER_NONE: nowhere */
};

struct stage_run; /* one call of forward or backward: stage_run.c */
struct action;
typedef enum ps_status action_function(const struct stage_run *run, const struct action *action);

/* One step of a plan: a kernel of `node`, or elements of a type to copy, to add or to clear. */
struct action {
    action_function *run;
    enum stage_half half; /* to which part of the backward it belongs: runs where it shares a bit with the requested half */
    int layer;            /* of the network */
    struct stage_node *node;
    struct buffer from, to; /* of backward kernels: `from` is the output gradient */
    int64_t count;
    enum number_type type;
};

action_function action_forward, action_backward_shared, action_backward_input, action_backward_weight, action_copy, action_add,
    action_zero;

struct action_list {
    struct action *actions;
    int count;
    size_t capacity;
};

struct stage {
    struct device *device;
    const struct graph *graph;
    int first, last, samples;
    struct stage_node *nodes; /* of all its layers, in order */
    int node_first, node_count;
    struct stage_sizes sizes;
    int64_t repeated_narrow_bytes; /* of sizes.repeated_gradient_bytes, what belongs to parameters whose copies are bf16 */
    int64_t state_bytes;
    int64_t gradient_block_bytes; /* of one block of gradients of inner cuts; they lie at the start of the workspace */
    int gradient_blocks;          /* the kernels' own workspace comes after them */
    /* For a network's last stage on a device with memory of its own: the targets that its work reads, and its result. */
    struct memory_block own_memory;
    void *target;
    struct stage_result *result;
    struct action_list forward, backward;
    struct wire_run *runs; /* the values of the input block, then those of the output block */
    int input_runs, output_runs;
};

/* Aligned bytes of a value for all samples, and of all values that cross a cut. */
int64_t stage_value_bytes(const struct graph *graph, int samples, int root);
int64_t stage_cut_bytes(const struct graph *graph, int samples, int cut);
/* Whether the value (a root) crosses the cut. */
bool stage_crosses(const struct graph *graph, int cut, int root);
/* Whether codecs leave a value that crosses the cut as it is: tokens, and what has no gradient because of how the network is
 * made, not of what is frozen. */
bool stage_sends_exactly(const struct graph *graph, int cut, int root);
/* Where values lie in a block laid out like a cut. They are asked for in ascending order, so that a pass over all of them takes
 * a time that grows with their number: thousands may cross. */
struct stage_cut {
    const struct graph *graph;
    int samples, cut;
    int at; /* the value last asked for */
    int64_t offset;
};
struct stage_cut stage_cut(const struct graph *graph, int samples, int cut);
int64_t stage_cut_offset(struct stage_cut *cut, int root);

static inline int64_t stage_kernel_workspace(const struct stage *stage) {
    return stage->gradient_blocks * stage->gradient_block_bytes;
}
/* Aligned bytes of the gradients of parameters that nodes outside of the stage use, too, for each use in it
 * (stage_parameters.c).
 */
int64_t stage_outside_bytes(const struct stage *stage);
/* The next `bytes` of a block, aligned. */
struct buffer buffer_carve(enum buffer_block block, int64_t *used, int64_t bytes);

/* Decides where everything lies except the gradients of values (stage_memory.c). `values`, by root, is where values lie in the
 * forward; `scratch`, by layer from `first`, where the kernels' workspace ends. */
void stage_allocate(struct stage *stage, struct buffer *values, int64_t *scratch);
/* Writes the actions and decides where gradients of values lie (stage_plan.c). */
enum ps_status stage_plan(struct stage *stage, const struct buffer *values, const int64_t *scratch, struct ps_error *error);

#endif
