/*
 * A stage: the kernels of layers first..last on one device at one micro-batch size, and where each value lies in the blocks
 * that the stage works on. All blocks come from outside, aligned to 64 bytes:
 *
 *   weights              a copy of every trained parameter of the stage, in kernel layout;
 *                        those in f32, then those in bf16; each begins at a multiple of 16
 *                        elements, as in the blocks of f32                                 stage_copy_bytes
 *   gradients            theirs in f32, followed by those of further uses of parameters
 *                        that several of its nodes share                                   stage_gradient_bytes
 *   statistics           running statistics, then fixed parameters in kernel layout        stage_unchanged_bytes
 *   input, output        the values that cross the stage's two cuts, each value aligned    sizes.input_bytes, output_bytes
 *   input_gradient, output_gradient   their gradients, laid out in the same way
 *   stash                what the backward needs besides the input block, per micro-batch  sizes.stash_bytes
 *   delta                from the backward of the input to that of the weights, where the
 *                        backward is split: gradients of the outputs of nodes with weights sizes.delta_bytes
 *   workspace            scratch while a call runs; gradients of inner cuts                sizes.workspace_bytes
 *   state                where sequences come in pieces: the state between one forward and
 *                        the next; zeros before the first                                  stage_state_bytes
 *
 * Gradients of a value that several nodes read are added from the last reader to the first, across cuts as within a stage, so
 * a cut changes no bit.
 */
#ifndef PENSTOCK_COMPUTE_STAGE_H
#define PENSTOCK_COMPUTE_STAGE_H

#include "base/arena.h"
#include "compute/device.h"
#include "compute/sizes.h"

struct stage;

struct stage_blocks {
    const void *weights;
    float *gradients, *statistics;
    /* These hold values, of any type. */
    void *input, *output; /* output NULL at the network's end */
    void *stash;
    void *delta;           /* NULL where the backward is not split */
    void *output_gradient; /* NULL at the network's end; a backward may overwrite it */
    void *input_gradient;  /* NULL at the network's start */
    void *workspace;
    float *state; /* NULL: each forward has whole sequences */
};

struct stage_step {
    uint64_t seed;
    uint64_t step;        /* mini-batch number since the start of training: dropout's key */
    int micro_batch;      /* within the mini-batch */
    const void *target;   /* last stage only, the host's: graph_target for each sample; a label of -1 is not counted */
    float gradient_scale; /* 1 / the weight of what counts in the mini-batch */
    bool training;
    bool update_statistics;
    bool accumulate; /* backward_weight adds to the gradients instead of writing them */
    int samples;     /* that count in loss and hits (the last evaluation batch may be short); 0: all */
    /* Called with its context after each operator of a layer (of the network), for work that must not wait until the stage is
     * done. May be NULL. */
    void (*between)(void *context, int layer);
    void *between_context;
};

/* Sums over some samples; a mean loss is loss / weight. */
struct stage_result {
    double loss;      /* over what counts, times its weights */
    double weight;    /* of what counts: the classes' weights of labels; numbers weigh 1 each */
    int64_t correct;  /* top-1 hits */
    int64_t correct5; /* top-5 hits */
    int64_t counted;  /* labels or numbers */
};

static inline void stage_result_add(struct stage_result *sum, const struct stage_result *more) {
    sum->loss += more->loss;
    sum->weight += more->weight;
    sum->correct += more->correct;
    sum->correct5 += more->correct5;
    sum->counted += more->counted;
}

/* `graph` is borrowed until stage_destroy. PS_USAGE where the device declines an operator. */
enum ps_status stage_create(struct device *device, const struct graph *graph, int first, int last, int samples,
                            struct stage **stage, struct ps_error *error);
void stage_destroy(struct stage *stage);
struct stage_sizes stage_sizes(const struct stage *stage);
/* The values in its input block (and its gradient), or its output block, in order; borrowed. */
const struct wire_run *stage_runs(const struct stage *stage, bool output, int *count);
/* Of a clock device; 0 otherwise. */
struct stage_times {
    struct layer_times time;
    double sum_s;
};
struct stage_times stage_times(const struct stage *stage);

/* Of the bytes that cross the cut after `layer`, those that a stage that ends there copies into its output block; the others
 * are computed there. */
int64_t stage_copied_bytes(const struct graph *graph, int samples, int layer);

/* Fills an input block, in the host's memory, of a stage that begins with the first layer: from a micro-batch of samples whose
 * inputs stand one after the other, without gaps. */
void stage_pack_inputs(const struct stage *stage, const void *samples, void *block);

/* Sizes of every layer of the graph on a device: what a profile records. `sizes` has graph->layer_count elements. */
enum ps_status stage_layer_sizes(struct device *device, const struct graph *graph, int samples, struct layer_sizes *sizes,
                                 int64_t *input_bytes, struct ps_error *error);

/* Writes the stash and the output block, also in a recomputation (which only does not change the statistics). `result` (may be
 * NULL) is 0 but for the network's last stage. It lies in the host's memory; a device with a queue writes it at the end of the
 * forward, and until then it must stay valid. Labels outside of the classes, but for -1, are PS_BAD_INPUT. */
enum ps_status stage_forward(struct stage *stage, const struct stage_blocks *blocks, const struct stage_step *step,
                             struct stage_result *result, struct ps_error *error);
/* Another forward on the same blocks after only a part of the input has changed: skips the layers that `kept` marks (by number
 * in the network), whose values are still there from the forward before. */
enum ps_status stage_forward_again(struct stage *stage, const struct stage_blocks *blocks, const struct stage_step *step,
                                   const bool *kept, struct stage_result *result, struct ps_error *error);
/* After a forward of the network's last stage, in the device's memory: the probabilities of the classes that its loss computed
 * (samples, positions, classes); they lie in `blocks`. */
const float *stage_probabilities(const struct stage *stage, const struct stage_blocks *blocks);
/* Likewise: what the loss was computed of, for all samples, copied to the host's memory as f32; and its numbers for a sample.
 */
void stage_take_output(const struct stage *stage, const struct stage_blocks *blocks, float *output);
int64_t stage_output_elements(const struct stage *stage);
/* The size of the block `state`; and its reordering: sample n of `to` becomes sample rows[n] of `from`. */
int64_t stage_state_bytes(const struct stage *stage);
void stage_state_take(const struct stage *stage, const float *from, const int *rows, float *to);
/* What of the backward runs, as bits of an action. */
enum stage_half {
    STAGE_INPUT = 1,
    STAGE_WEIGHTS = 2,
    STAGE_BOTH = STAGE_INPUT | STAGE_WEIGHTS,
    STAGE_KEEP = 4,
    STAGE_INPUT_SPLIT = STAGE_INPUT | STAGE_KEEP, /* gradients of the input; stores the deltas */
    STAGE_WEIGHTS_SPLIT = 8, /* then, from the deltas, those of the weights: together the bits of STAGE_BOTH */
};

/* The backward. Within a layer the gradients of the weights are computed right after those of its input (in place: right
 * before). STAGE_INPUT and STAGE_WEIGHTS alone are for measuring each half: the first skips the weight kernels, the second (for
 * one-layer stages) every backward_input that no weight gradient needs. */
enum ps_status stage_backward(struct stage *stage, const struct stage_blocks *blocks, const struct stage_step *step,
                              enum stage_half half, struct ps_error *error);

/* Fills a copy of the weights and `statistics` with the values that the graph was given, or else with initial values keyed by
 * (seed, parameter name, element); and the master, where it is not NULL. */
enum ps_status stage_initialize(struct stage *stage, uint64_t seed, float *master, void *weights, float *statistics,
                                struct ps_error *error);

/* Parameters and statistics by name, for files: `canonical` holds them in canonical order, in the host's memory. `parameter`
 * counts from 0 over both. */
int stage_parameter_count(const struct stage *stage);
const struct parameter *stage_parameter(const struct stage *stage, int parameter);
/* The operator of its node, and where it begins in the weights (in elements; a statistic: -1). */
const struct operator_type *stage_parameter_operator(const struct stage *stage, int parameter);
int64_t stage_parameter_offset(const struct stage *stage, int parameter);
/* A parameter of the stage that several nodes of the network use (graph/ties.h). It lies in the weights once, in canonical
 * order; each use in the stage has a gradient. */
struct stage_tie {
    const struct parameter *parameter;
    int64_t count;      /* elements */
    int64_t *gradients; /* where that of each use begins, in elements; the first begins where the weights begin, too */
    int uses;           /* in the stage */
    bool outside;       /* nodes outside of the stage use it, too */
};
/* In the order in which they lie in the weights; the arrays belong to the arena. */
enum ps_status stage_ties(const struct stage *stage, struct arena *arena, struct stage_tie **ties, int *count,
                          struct ps_error *error);
/* `weights`: a copy of them; or, in the second form of each, a block of f32: the master, gradients, a moment. The two are the
 * same where no copy is bf16. */
enum ps_status stage_export(struct stage *stage, int parameter, const void *weights, const float *statistics, float *canonical,
                            struct ps_error *error);
enum ps_status stage_export_f32(struct stage *stage, int parameter, const float *block, const float *statistics,
                                float *canonical, struct ps_error *error);
enum ps_status stage_import(struct stage *stage, int parameter, const float *canonical, void *weights, float *statistics,
                            struct ps_error *error);
enum ps_status stage_import_f32(struct stage *stage, int parameter, const float *canonical, float *block, float *statistics,
                                struct ps_error *error);

#endif
