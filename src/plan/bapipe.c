/* BaPipe's Tables I and II, as printed. */
#include "plan/bapipe.h"

#include <math.h>
#include <string.h>

#include "graph/split.h"

/* How many times in a mini-batch a pair of transfers, there and back, is waited for. */
static int exposed_transfers(enum bapipe_pipeline pipeline, const struct bapipe_stages *stages) {
    int n = stages->count, m = stages->micro_batches;
    switch (pipeline) {
    case BAPIPE_1F1B_AS:
    case BAPIPE_FBP_AS:
        return 0;
    case BAPIPE_1F1B_SNO:
        return n + m - 2 - (m - 1 + n - 1) / n; /* less ceil((M-1)/N) */
    case BAPIPE_1F1B_SO:
        return n - 1;
    }
    return 0;
}

double bapipe_batch_s(enum bapipe_pipeline pipeline, const struct bapipe_stages *stages) {
    return (stages->micro_batches + stages->count - 1) * (stages->forward_s + stages->backward_s) +
           exposed_transfers(pipeline, stages) * 2 * stages->transfer_s;
}

double bapipe_bubble(enum bapipe_pipeline pipeline, const struct bapipe_stages *stages) {
    return 1 - stages->micro_batches * (stages->forward_s + stages->backward_s) / bapipe_batch_s(pipeline, stages);
}

int64_t bapipe_feature_bytes(enum bapipe_pipeline pipeline, const struct bapipe_stages *stages, int stage) {
    int64_t alive = stages->count - stage;
    return (pipeline == BAPIPE_FBP_AS || pipeline == BAPIPE_1F1B_SO ? 2 : 1) * alive * stages->feature_bytes;
}

int64_t bapipe_weight_bytes(enum bapipe_pipeline pipeline, const struct bapipe_stages *stages) {
    (void)pipeline; /* the same for all four pipelines */
    return 2 * stages->weight_bytes;
}

double bapipe_bandwidth(enum bapipe_pipeline pipeline, const struct bapipe_stages *stages) {
    double features = (double)stages->feature_bytes;
    if (pipeline == BAPIPE_FBP_AS) return 2 * features / (stages->forward_s + stages->backward_s);
    return features / stages->forward_s;
}

/* Boundaries at the ideal time, and the layers that they split. */

/* A boundary nearer than this share of a layer to the layer's end is put between layers. */
#define LEAST_SHARE (1.0 / 16)
/* Layers with many channels are split at multiples of the vector length, which compute a little faster (about 1% on VGG-16). */
enum { VECTOR = 16, MANY = 128 };

struct boundary {
    int layer;
    double share; /* of the layer, computed before the boundary */
};

/* T_n, as the sum of the layers: weights of a stage may stay on chip where those of the whole network do not. */
static double network_s(const struct partition_problem *problem, int stage) {
    double sum_s = 0;
    for (int l = 0; l < problem->costs->layer_count; l++) sum_s += partition_load_s(problem, stage, l, l);
    return sum_s;
}

/* The boundary before which this much of the network's work is done. */
static struct boundary find_boundary(const struct partition_problem *problem, double work) {
    int layers = problem->costs->layer_count, l = 0;
    double left_s = work * network_s(problem, 0);
    for (; l < layers - 1 && left_s >= partition_load_s(problem, 0, l, l); l++) left_s -= partition_load_s(problem, 0, l, l);
    double layer_s = partition_load_s(problem, 0, l, l);
    return (struct boundary){l, layer_s > 0 ? fmin(left_s / layer_s, 1) : 0};
}

/* A cut inside a layer carries everything that crosses before it, for the second part, and the first part's output. */
static bool transfer_hides(const struct partition_problem *problem, int stage, const struct boundary *boundary,
                           double ideal_s) {
    const struct layer_cost *layers = problem->costs->layers;
    int64_t bytes = (int64_t)(boundary->share * (double)layers[boundary->layer].size.value_bytes);
    if (boundary->layer > 0) bytes += layers[boundary->layer - 1].size.output_bytes;
    return cluster_transfer_s(problem->cluster, stage, stage + 1, bytes) +
               cluster_transfer_s(problem->cluster, stage + 1, stage, bytes) <=
           ideal_s;
}

/* Channels of the layer before the boundary; 0 if it is not to be split there. */
static int channels_before(const struct graph *graph, const struct boundary *boundary) {
    int unit = graph_split_unit(graph, boundary->layer, NULL), size = graph_split_size(graph, boundary->layer);
    if (unit == 0 || boundary->share < LEAST_SHARE || boundary->share > 1 - LEAST_SHARE) return 0;
    if (unit == 1 && size >= MANY) unit = VECTOR;
    int channels = unit * (int)lround(boundary->share * size / unit);
    return channels < size ? channels : 0;
}

enum ps_status bapipe_splits(const struct partition_problem *problem, const struct graph *graph, struct text *splits,
                             struct ps_error *error) {
    int layers = problem->costs->layer_count, split_layer = -1, split_at = 0;
    if (graph->layer_count != layers)
        return error_set(error, PS_USAGE, "the network has %d layers, its costs have %d", graph->layer_count, layers);
    double rates = 0, work = 0;
    for (int s = 0; s < problem->stages; s++) rates += 1 / network_s(problem, s);
    for (int s = 0; s < problem->stages - 1; s++) {
        work += 1 / rates / network_s(problem, s);
        struct boundary boundary = find_boundary(problem, work);
        int channels = channels_before(graph, &boundary);
        if (channels == 0 || !transfer_hides(problem, s, &boundary, 1 / rates)) continue;
        const struct layer *layer = &graph->layers[boundary.layer];
        const char *joint = splits->length > 0 ? "+" : "";
        if (boundary.layer != split_layer) {
            text_add(splits, "%s%s:%d", joint, layer->name, channels);
        } else if (channels > split_at) {
            /* The rest of the layer, by the name that the previous split gave it. */
            text_add(splits, "%s%s[%d:%d]:%d", joint, layer->name, split_at, graph_split_size(graph, boundary.layer),
                     channels - split_at);
        }
        split_layer = boundary.layer;
        split_at = channels;
    }
    return text_status(splits, "a list of splits", error);
}
