/*
 * Layers run as one stage with real weights and activations to measure their times: each layer finds its input, its weights and
 * the caches as in training. Two micro-batches alternate, as a stage of a pipeline keeps the values of several: a forward
 * writes to the blocks of the forward before the last, which are in lower cache levels. The time of a layer is taken between
 * the operators.
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
    TIME_INPUT_HALF, /* the halves separately */
    TIME_WEIGHTS_HALF,
    TIME_UPDATE,
    TIME_UPDATE_PREDICT, /* with the prediction in the same pass */
    TIME_PREDICT,
    TIME_UPDATE_OUT_OF_PLACE, /* writes the new weights to another block */
    TIME_SUM,                 /* sums the gradients and a replica's, in both blocks */
    TIMINGS
};

/* The end of an operator in the device's queue. */
enum { BENCH_LAPS = 256 }; /* fewer than the moments that devices tell apart */
struct bench_lap {
    int layer;
    struct moment end;
};

struct bench {
    /* Set by the caller; borrowed. */
    const struct graph *graph;
    struct device *device;
    const struct optimizer *rule;
    const struct cost_table *table; /* the sizes of all layers */
    int samples, repeats;           /* repeats: rounds whose times are kept, */
    int least_repeats;              /* or down to this number, if they take long; 0: no fewer */
    int64_t memory_bytes;           /* limit; 0: none */
    const void *input;              /* of the first layer, if it is not the network's input */
    int first;                      /* layer of the network */
    bool quick;                     /* rounds without a pass of their own for gradients that are added to others */
    int measured, to_measure;       /* layers of all sizes: before this one, and in all */

    int layer_count; /* from there on, as many as fit; at least one */
    struct stage *stage;
    struct memory_block memory; /* of the blocks */
    struct stage_blocks blocks;
    struct bench_values {
        void *input, *output, *stash;
    } other;                            /* the same blocks of the micro-batch that is next */
    float *moment, *predicted, *master; /* master: NULL where copies of the weights are f32 */
    void *target;
    double *times;       /* of the layers: see bench_times */
    double *pass;        /* of the current pass, by layer */
    struct moment start; /* of a device that keeps times: where the first of its laps begins */
    struct bench_lap laps[BENCH_LAPS];
    int lap_count;
    double since;               /* when the last operator ended */
    bool *left_out;             /* by layer of the network: not part of the stretch */
    struct stage_result result; /* of the last stage's forwards: a device with a queue may write it after they returned */
};

/* Creates the stage and allocates its memory. The caller calls bench_close, on failure too. */
enum ps_status bench_open(struct bench *bench, struct ps_error *error);
void bench_close(struct bench *bench);
/* A forward and a backward, untimed: the first ones fault memory in and make kernels. */
enum ps_status bench_warm(struct bench *bench, struct ps_error *error);
/* Measures every timing of every layer once, and stores it in position `slot` of the times; a negative `slot`: nowhere. */
enum ps_status bench_round(struct bench *bench, int round, int slot, struct ps_error *error);
/* Runs forwards of the first `layers` layers without timing. */
enum ps_status bench_forward(struct bench *bench, int layers, struct ps_error *error);
/* The `repeats` times of a layer, which counts from `first`. */
double *bench_times(const struct bench *bench, int layer, enum timing timing);

#endif
