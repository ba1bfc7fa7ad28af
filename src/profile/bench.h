/*
 * A network run for its times: as a pipeline of one-layer stages in one thread, with real weights and activations, so that each
 * layer finds its input, its weights and the caches as in training.
 */
#ifndef PENSTOCK_PROFILE_BENCH_H
#define PENSTOCK_PROFILE_BENCH_H

#include "base/memory.h"
#include "compute/stage.h"

enum timing {
    TIME_FORWARD,
    TIME_BACKWARD,   /* both halves together */
    TIME_INPUT_HALF, /* the halves apart */
    TIME_WEIGHTS_HALF,
    TIME_ADDING_HALF, /* that of the weights, added to the gradients of earlier micro-batches */
    TIME_UPDATE,
    TIME_UPDATE_PREDICT, /* with the prediction in the same pass */
    TIME_PREDICT,
    TIMINGS
};

struct layer_bench {
    struct stage *stage;
    struct stage_sizes sizes;
    struct memory_block memory; /* of what follows */
    float *weights, *gradients, *moment, *predicted, *statistics, *input, *stash, *delta;
    double *times[TIMINGS]; /* [repeats] */
};

struct bench {
    /* Set by the caller; borrowed. */
    const struct graph *graph;
    struct device *device;
    const struct optimizer *rule;
    int samples, classes, repeats; /* repeats: rounds whose times are kept */
    int64_t memory_bytes;          /* limit; 0: none */
    const float *input;            /* of the first layer, where that is not the network's */
    int first;                     /* layer of the network */

    int layer_count; /* from there on, as many as fit; one at least */
    struct layer_bench *layers;
    struct memory_block shared; /* labels, workspace, output, two gradients of the largest cut */
    int32_t *labels;
    void *workspace;
    float *output; /* of the last layer, unless it is the network's */
    float *gradient[2];
    double *times;
};

/* Makes stages and takes their memory; on failure too the caller closes it. */
enum ps_status bench_open(struct bench *bench, struct ps_error *error);
void bench_close(struct bench *bench);
/* Every timing of every layer once; into place `slot` of the times, or nowhere where it is negative. */
enum ps_status bench_round(struct bench *bench, int round, int slot, struct ps_error *error);
/* Forwards of the first `layers` layers, not timed. */
enum ps_status bench_forward(struct bench *bench, int layers, struct ps_error *error);

#endif
