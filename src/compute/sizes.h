/*
 * How much memory layers and stages take. A stage's sizes follow from its layers' by the one rule below; the planner, the
 * simulator and the runtime all use it, so what is planned is what is taken.
 */
#ifndef PENSTOCK_COMPUTE_SIZES_H
#define PENSTOCK_COMPUTE_SIZES_H

#include <stdint.h>

#include "base/memory.h"
#include "base/wire.h"
#include "graph/ties.h"

/* One layer at one micro-batch size, in bytes; every piece aligned (base/memory.h). */
struct layer_sizes {
    int64_t parameter_bytes;    /* in the device's layout as f32, padding included; a shared one counts for each use */
    int64_t narrow_bytes;       /* the part of it whose copies are bf16, and take half */
    int64_t tied_bytes;         /* the part of it that other layers use, too (graph/ties.h), for each use */
    int64_t statistics_bytes;   /* running statistics */
    int64_t fixed_bytes;        /* fixed parameters, in the device's layout */
    int64_t output_bytes;       /* all values that cross the cut after the layer */
    int64_t value_bytes;        /* the part of output_bytes that this layer computes */
    int64_t stash_bytes;        /* kept for the backward: the value computed by the layer before, and its own inner values */
    int64_t tail_bytes;         /* its own output where its own backward reads it: kept even when it ends a stage */
    int64_t delta_bytes;        /* gradients of the outputs of its nodes with weights: kept where the backward is split */
    int64_t workspace_bytes;    /* needed only while it runs */
    struct wire_numbers output; /* the numbers in output_bytes; all 0: not known (layer_output_numbers) */
};

/* The blocks that are encoded for the wire, at a stage's two cuts. */
enum wire_block {
    WIRE_ACTIVATION_SENT, /* of the output block */
    WIRE_ACTIVATION_RECEIVED,
    WIRE_GRADIENT_SENT, /* of the input-gradient block */
    WIRE_GRADIENT_RECEIVED,
    WIRE_BLOCKS,
    WIRE_SUM = WIRE_BLOCKS, /* no block of its own: the gradients that replicas sum, which are rounded in place */
    WIRE_CODED
};

/* A stage of layers first..last. */
struct stage_sizes {
    int64_t parameter_bytes, narrow_bytes, statistics_bytes, fixed_bytes;
    int64_t repeated_gradient_bytes;    /* a parameter that several layers share is stored once, but each use has a gradient */
    int64_t tied_bytes;                 /* gradients of uses of parameters that layers outside of the stage use, too */
    int64_t input_bytes;                /* input block: data or the values that cross the cut; kept until the backward */
    int64_t output_bytes;               /* output block; 0 at the network's end */
    int64_t stash_bytes;                /* kept per micro-batch besides the input block */
    int64_t delta_bytes;                /* kept per micro-batch between the two halves of a backward that is split */
    int64_t workspace_bytes;            /* one per worker, whichever stage runs */
    struct wire_numbers input, output;  /* in the input and the output block */
    int64_t wire_bytes[WIRE_BLOCKS];    /* encoded blocks; 0: not encoded */
    int64_t feedback_bytes[WIRE_CODED]; /* error feedback of those that are sent; 0: none */
    struct sum_wire sum_wire;           /* of the sum of gradients over replicas */
};

/* `layers` are the whole chain's, `input_bytes` the data of one micro-batch. `ties`: NULL: the first and the last layer share
 * their tied_bytes.
 *   parameters = sum of parameter_bytes - repeated gradients, those of each further use of a shared parameter; narrow_bytes
 *   likewise
 *   input  = output_bytes of the layer before `first`, or the data
 *   stash  = sum of stash_bytes + (input - value_bytes of the layer before) + tail_bytes of `last` - input, at least 0
 *   delta  = sum of delta_bytes
 *   workspace = largest workspace_bytes + two gradient blocks (one for two layers) of the largest inner cut */
struct stage_sizes stage_sizes_compose(const struct layer_sizes *layers, int layer_count, const struct ties *ties,
                                       int64_t input_bytes, int first, int last);
/* Sets what a stage of layers first..last has of shared parameters; `begin` and `end` are its first and last layer, and
 * parameter_bytes counts each use so far. */
void stage_sizes_tie(const struct layer_sizes *begin, const struct layer_sizes *end, int layer_count, const struct ties *ties,
                     int first, int last, struct stage_sizes *sizes);

/* The numbers that cross the cut after a layer; f32 where the source of the sizes does not know. */
struct wire_numbers layer_output_numbers(const struct layer_sizes *layer);
/* The codecs of a stage, at its two cuts and of the sum over its replicas. */
struct stage_wire {
    struct cut_wire before, after;
    struct sum_wire sum;
};
/* Sets the sizes of encoded blocks. */
void stage_sizes_encode(struct stage_sizes *sizes, const struct stage_wire *wire);

/* The size of the block of what a stage has once, whatever its versions: running statistics, then fixed parameters. */
static inline int64_t stage_unchanged_bytes(const struct stage_sizes *sizes) {
    return sizes->statistics_bytes + sizes->fixed_bytes;
}

/* In a copy of a stage's weights the parameters that are f32 come first, then those that are bf16; in the blocks of f32 beside
 * it (gradients, moments, master) the same elements in the same order. Where in a copy is what lies at `offset` in those, both
 * in bytes? */
static inline int64_t stage_copy_offset(const struct stage_sizes *sizes, int64_t offset) {
    const int64_t wide = sizes->parameter_bytes - sizes->narrow_bytes;
    return offset <= wide ? offset : wide + (offset - wide) / 2;
}
/* The size of a copy of the weights: what a weight slot holds. */
static inline int64_t stage_copy_bytes(const struct stage_sizes *sizes) {
    if (sizes->narrow_bytes == 0) return sizes->parameter_bytes;
    return (int64_t)memory_align((size_t)stage_copy_offset(sizes, sizes->parameter_bytes));
}
/* The size of the master: the weights in f32, which updates read and write, where copies hold some of them as bf16; else 0. */
static inline int64_t stage_master_bytes(const struct stage_sizes *sizes) {
    return sizes->narrow_bytes > 0 ? sizes->parameter_bytes : 0;
}

/* The size of the block of a stage's gradients. */
static inline int64_t stage_gradient_bytes(const struct stage_sizes *sizes) {
    return sizes->parameter_bytes + sizes->repeated_gradient_bytes;
}
static inline struct wire_numbers stage_gradient_numbers(const struct stage_sizes *sizes) {
    return (struct wire_numbers){{[TYPE_F32] = stage_gradient_bytes(sizes) / (int64_t)sizeof(float)}};
}
/* What a replica's gradients and statistics take on the wire, the mean of those that it sends and of their sum that it gets. */
int64_t stage_sum_bytes(const struct stage_sizes *sizes);

#endif
