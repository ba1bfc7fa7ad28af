/*
 * Which layers to split inside (BaPipe's intra-layer partition): with the ideal time T = 1 / sum(1 / T_n) every boundary
 * between two workers lies at a place within some layer. Where that is a convolution or linear layer, it is split at so many
 * of its output channels; the rewritten network (graph/split.h) is then profiled and planned like any other.
 */
#ifndef PENSTOCK_PLAN_BAPIPE_SPLITS_H
#define PENSTOCK_PLAN_BAPIPE_SPLITS_H

#include "base/text.h"
#include "plan/partitioner.h"

/* Appends the value of a model's option `split`, as in "conv2:8+fc1:60"; nothing where no split helps: a boundary within 1/16
 * of a layer's end stays there, and none is set where what crosses it would take longer than T. `graph` is the network of the
 * costs. PS_USAGE where it has other layers. */
enum ps_status bapipe_splits(const struct partition_problem *problem, const struct graph *graph, struct text *splits,
                             struct ps_error *error);

#endif
