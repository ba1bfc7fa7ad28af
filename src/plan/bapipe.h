/*
 * BaPipe's closed formulas for its four pipelines within a mini-batch (Zhao et al., 2020, Tables I and II), for balanced
 * stages: N stages, M micro-batches, F and B the times of a stage for one micro-batch, SR the time to send (or to receive) what
 * crosses a cut, a the bytes of a stage's features, w those of its weights.
 *
 *   1F1B-AS   asynchronous: a transfer starts with the first part of a result and hides behind the computation
 *   FBP-AS    asynchronous, and a device runs a forward and a backward at the same time
 *   1F1B-SNO  synchronous: a transfer starts when its result is complete, and is waited for
 *   1F1B-SO   synchronous, with twice the micro-batches while the pipeline fills, so that transfers overlap with computation
 *
 * Plans are judged by the simulator. These are the published figures, for comparison with it, and cheap estimates.
 */
#ifndef PENSTOCK_PLAN_BAPIPE_H
#define PENSTOCK_PLAN_BAPIPE_H

#include <stdint.h>

#include "base/text.h"
#include "plan/partitioner.h"

enum bapipe_pipeline { BAPIPE_1F1B_AS, BAPIPE_FBP_AS, BAPIPE_1F1B_SNO, BAPIPE_1F1B_SO };

struct bapipe_stages {
    int count, micro_batches;                 /* N, M: at least 1 */
    double forward_s, backward_s, transfer_s; /* F, B, SR */
    int64_t feature_bytes, weight_bytes;      /* a, w */
};

/* Seconds per mini-batch, fill and drain included. */
double bapipe_batch_s(enum bapipe_pipeline pipeline, const struct bapipe_stages *stages);
/* The share of that time in which a device does not compute. */
double bapipe_bubble(enum bapipe_pipeline pipeline, const struct bapipe_stages *stages);
/* Features that the stage (counted from 0) keeps; its weights with their gradients. */
int64_t bapipe_feature_bytes(enum bapipe_pipeline pipeline, const struct bapipe_stages *stages, int stage);
int64_t bapipe_weight_bytes(enum bapipe_pipeline pipeline, const struct bapipe_stages *stages);
/* The bandwidth of a link, in bytes per second, at which transfers hide behind computation. */
double bapipe_bandwidth(enum bapipe_pipeline pipeline, const struct bapipe_stages *stages);

/*
 * Which layers to split inside (BaPipe's intra-layer partition): with the ideal time T = 1 / sum(1 / T_n) every boundary
 * between two workers is at a point inside some layer. If that is a convolution or linear layer, it is split there, at a number
 * of its output channels; an attention at a number of its heads. The rewritten network (graph/split.h) is then profiled and
 * planned like any other.
 */

/* Appends the value of a model's option `split`, as in "conv2:8+fc1:60"; nothing if no split helps. A boundary within 1/16 of a
 * layer's end is not split, nor one at which the transfer would take longer than T. `graph` is the network of the costs.
 * PS_USAGE if it has other layers. */
enum ps_status bapipe_splits(const struct partition_problem *problem, const struct graph *graph, struct text *splits,
                             struct ps_error *error);

#endif
