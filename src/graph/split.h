/*
 * Splitting a layer inside (BaPipe's intra-layer partition, Zhao et al., 2020) as a rewrite of the graph: a convolution or
 * linear layer becomes two layers that each make a part of the output channels, an attention two with a part of the heads, and
 * a third layer joins them:
 *
 *     x -> conv1 -> norm1 -> relu1 -> drop1 -> ...
 *
 *     x -> conv1[0:32]  -> norm1[0:32]  -> relu1[0:32]  \
 *     x -> conv1[32:96] -> norm1[32:96] -> relu1[32:96] -> conv1[0:96] (concat) -> drop1 -> ...
 *
 * ReLU and batch normalisation work on each channel by itself and go with the parts. What follows stays whole behind the join:
 * dropout because its random numbers belong to places in the whole value. A cut between the parts carries x and the first
 * part; nothing else needs to know. The parts of an attention read the whole of its inputs and know their place among the
 * heads, for dropout and masks.
 *
 * The split network computes what the whole one does, up to the order of sums in the gradient of x. The parameters of a part
 * are rows of the whole layer's: `conv1[32:96].weight` holds rows 32 to 95 of `conv1.weight` (parameter.slice). They have the
 * whole one's initial values there; in files they stand under their own names, and since rows lie one after the other in
 * canonical order, a whole parameter is its slices put end to end by their `first`.
 */
#ifndef PENSTOCK_GRAPH_SPLIT_H
#define PENSTOCK_GRAPH_SPLIT_H

#include "graph/graph.h"

/* A finished graph like `graph` in which the layer's first part makes the output channels (features, heads) 0..channels-1 and
 * the second the others. A part may be split again. PS_USAGE: a layer of another kind, with groups, or with no so many
 * channels. */
enum ps_status graph_split(const struct graph *graph, int layer, int channels, struct graph **split, struct ps_error *error);

/* A part's channels are a multiple of this, of graph_split_size in all; 0, with the reason in `error`: it cannot be split. */
int graph_split_unit(const struct graph *graph, int layer, struct ps_error *error);
int graph_split_size(const struct graph *graph, int layer);

/* The same as "LAYER:CHANNELS" says, several of them joined by '+'. */
enum ps_status graph_split_all(const struct graph *graph, const char *splits, struct graph **split, struct ps_error *error);

/* Of the parameter that a slice belongs to: its name and shape, and at which element of it the slice begins. A parameter that
 * is no slice is itself the whole, from 0. */
const char *split_whole_name(const struct parameter *parameter);
struct shape split_whole_shape(const struct parameter *parameter);
int64_t split_offset(const struct parameter *parameter);

#endif
