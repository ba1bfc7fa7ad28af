/*
 * A model of GPUs that are not present. A layer's time is the longer of its arithmetic and its memory traffic, at the device's
 * peak rates, and the launches of its kernels. No kernel reaches the peaks, but the share is similar for the layers of one
 * network at a large batch, and cancels in comparisons of methods. At a small batch it is not similar, so it is modelled:
 *
 *   arithmetic   A kernel works on tiles of TILE x TILE results, one to a multiprocessor, and may divide a sum of more than
 *                SUM products among several. With fewer of these pieces than there are multiprocessors the others are idle
 *                (NVIDIA, "Matrix multiplication background user's guide", on tile and wave quantization: 64 x 64 is the
 *                smallest tile that it names; SUM is assumed). So a kernel's rate grows with batch and shape up to the peak.
 *   launches     Each kernel takes LAUNCH_S before it begins (5 us: about what launches of empty kernels take on these
 *                devices, as CUDA's profilers show them). A recurrent layer has a kernel for each position, and reads its
 *                recurrent weights again for each; attention has three; operations that move nothing have none.
 *   memory       forward          reads the weights, writes what is kept for the backward
 *                input gradient   reads the weights and what was kept
 *                weight gradient  reads what was kept, adds to the gradients
 *                update           reads weights, gradients and one moment, writes weights and moment (sgdm)
 *                prediction       reads weights and moment and writes the predicted weights (with an update: writes them)
 *                stashing         an update that leaves the old weights as they are first copies them, as PipeDream's does
 *
 * The bytes of memory that a layer needs are counted and not modelled.
 */
#include <math.h>

#include "profile/modelled.h"

#define LAUNCH_S 5e-6
enum { TILE = 64, SUM = 512 };

struct gpu {
    double multiply_adds_per_s, bytes_per_s;
    int multiprocessors;
};

/* Kernels that run one after the other for a node, and how many times each of them reads the weights again. */
struct launches {
    int kernels;
    double rereads;
};

static struct launches launches_of(const struct graph *graph, int number) {
    const struct node *node = &graph->nodes[number];
    struct shape shape = node->shape;
    shape_take_image(&shape);
    const int positions = (int)shape.dim[1];
    switch (node->id) {
    case OPERATOR_LSTM:
    case OPERATOR_GRU:
        return (struct launches){positions + 1, 0.5 * (positions - 1)}; /* about half of the weights are recurrent */
    case OPERATOR_ATTENTION:
    case OPERATOR_ADDITIVE_ATTENTION:
        return (struct launches){.kernels = 3};
    case OPERATOR_INPUT:
    case OPERATOR_FLATTEN:
    case OPERATOR_VIEW:
        return (struct launches){0};
    default:
        return (struct launches){.kernels = 1};
    }
}

/* The time of a pass over a layer, without launches. */
static double arithmetic_s(const struct gpu *gpu, const struct layer_work *work) {
    double sum_s = 0, whole = (double)gpu->multiprocessors * TILE * TILE;
    for (int n = work->layer->node_first; n < work->layer->node_first + work->layer->node_count; n++) {
        int kernels = launches_of(work->graph, n).kernels;
        double multiply_adds = work->samples * node_multiply_adds(work->graph, n);
        if (kernels == 0 || multiply_adds == 0) continue;
        double results = work->samples * (double)shape_elements(&work->graph->nodes[n].shape);
        double pieces = fmax(results, multiply_adds / SUM) / kernels;
        sum_s += multiply_adds / (gpu->multiply_adds_per_s * fmin(1, pieces / whole));
    }
    return sum_s;
}

static void cost(const struct modelled_device *device, const struct layer_work *work, struct layer_cost *cost) {
    const struct gpu *gpu = device->data;
    double pass_s = arithmetic_s(gpu, work), launch_s = 0, reads = 1;
    for (int n = work->layer->node_first; n < work->layer->node_first + work->layer->node_count; n++) {
        launch_s += LAUNCH_S * launches_of(work->graph, n).kernels;
        reads += launches_of(work->graph, n).rereads;
    }
    double weights_s = (double)cost->size.parameter_bytes / gpu->bytes_per_s;
    double kept_s = (double)cost->size.stash_bytes / gpu->bytes_per_s;
    cost->time.forward_s = fmax(pass_s, reads * weights_s + kept_s) + launch_s;
    cost->time.backward_input_s = work->first ? 0 : fmax(pass_s, reads * weights_s + kept_s) + launch_s;
    if (!work->parameters) return;
    cost->time.backward_weight_s = fmax(pass_s, kept_s + 2 * weights_s) + LAUNCH_S;
    cost->time.update_s = 5 * weights_s + LAUNCH_S;
    cost->time.update_predict_s = 6 * weights_s + LAUNCH_S;
    cost->time.predict_s = 3 * weights_s + LAUNCH_S;
    cost->time.update_out_of_place_s = 7 * weights_s + 2 * LAUNCH_S;
}

const struct modelled_device gpu_p100 = {
    .name = "gpu:p100",
    .summary = "NVIDIA P100 by its peak rates in single precision: costs from a model, not measured",
    .element_bytes = 4,
    .cost = cost,
    .data = &(const struct gpu){.multiply_adds_per_s = 4.65e12, .bytes_per_s = 732e9, .multiprocessors = 56},
};

const struct modelled_device gpu_v100 = {
    .name = "gpu:v100",
    .summary = "NVIDIA V100 by its peak rates in single precision: costs from a model, not measured",
    .element_bytes = 4,
    .cost = cost,
    .data = &(const struct gpu){.multiply_adds_per_s = 7.85e12, .bytes_per_s = 900e9, .multiprocessors = 80},
};
