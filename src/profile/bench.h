/*
 * Layers run for their times, as one stage with real weights and activations: each layer finds its input, its weights and the
 * caches as in training. Two micro-batches take turns, as a stage of a pipeline keeps the values of several: a forward writes
 * where the one before the last did, which is further down in the caches. What a layer takes is read off between the operators.
 */
#ifndef PENSTOCK_PROFILE_BENCH_H
#define PENSTOCK_PROFILE_BENCH_H

#include "base/memory.h"
#include "compute/stage.h"
#include "profile/profile.h"

enum timing {
    TIME_FORWARD,
    TIME_BACKWARD,   /* both halves together */
    TIME_ADDING,     /* the same, added to the gradients of earlier micro-batches */
    TIME_INPUT_HALF, /* the halves apart */
    TIME_WEIGHTS_HALF,
    TIME_UPDATE,
    TIME_UPDATE_PREDICT, /* with the prediction in the same pass */
    TIME_PREDICT,
    TIME_UPDATE_ASIDE, /* the new weights in another block */
    TIME_SUM,          /* the gradients and a replica's added up, in both blocks */
    TIMINGS
};

struct bench {
    /* Set by the caller; borrowed. */
    const struct graph *graph;
    struct device *device;
    const struct optimizer *rule;
    const struct cost_table *table; /* the sizes of all layers */
    int samples, classes, repeats;  /* repeats: rounds whose times are kept, */
    int least_repeats;              /* or down to so many, where they take long; 0: no fewer */
    int64_t memory_bytes;           /* limit; 0: none */
    const void *input;              /* of the first layer, where that is not the network's */
    int first;                      /* layer of the network */

    int layer_count; /* from there on, as many as fit; one at least */
    struct stage *stage;
    struct memory_block memory; /* of the blocks */
    struct stage_blocks blocks;
    struct bench_values {
        void *input, *output, *stash;
    } other; /* the same blocks of the micro-batch whose turn is next */
    float *moment, *predicted;
    int32_t *labels;
    double *times;  /* of the layers: see bench_times */
    double *pass;   /* of the pass that runs, by layer */
    double since;   /* when the last operator ended */
    bool *left_out; /* by layer of the network, of a stretch */
};

/* Makes the stage and takes its memory; on failure too the caller closes it. */
enum ps_status bench_open(struct bench *bench, struct ps_error *error);
void bench_close(struct bench *bench);
/* Every timing of every layer once; into place `slot` of the times, or nowhere where it is negative. */
enum ps_status bench_round(struct bench *bench, int round, int slot, struct ps_error *error);
/* Forwards of the first `layers` layers, not timed. */
enum ps_status bench_forward(struct bench *bench, int layers, struct ps_error *error);
/* The `repeats` times of a layer, counted from `first`. */
double *bench_times(const struct bench *bench, int layer, enum timing timing);

#endif
