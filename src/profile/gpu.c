/*
 * A roofline model of GPUs that are not present: the time of a layer is the longer of its arithmetic at the device's peak rate
 * and its memory traffic at the memory's peak rate. No kernel reaches both, but the share of the peak is similar for the layers
 * of one network, and cancels in comparisons of methods. The bytes of memory that a layer needs are counted and not modelled.
 *
 *   forward          reads the weights, writes what is kept for the backward
 *   input gradient   reads the weights and what was kept
 *   weight gradient  reads what was kept, adds to the gradients
 *   update           reads weights, gradients and one moment, writes weights and moment (sgdm)
 */
#include <math.h>

#include "profile/modelled.h"

struct gpu {
    double multiply_adds_per_s, bytes_per_s;
};

static void cost(const struct modelled_device *device, const struct layer_work *work, struct layer_cost *cost) {
    const struct gpu *gpu = device->data;
    double pass_s = work->multiply_adds / gpu->multiply_adds_per_s;
    double weights_s = (double)cost->size.parameter_bytes / gpu->bytes_per_s;
    double kept_s = (double)cost->size.stash_bytes / gpu->bytes_per_s;
    cost->time.forward_s = fmax(pass_s, weights_s + kept_s);
    cost->time.backward_input_s = work->first ? 0 : fmax(pass_s, weights_s + kept_s);
    if (!work->parameters) return;
    cost->time.backward_weight_s = fmax(pass_s, kept_s + 2 * weights_s);
    cost->time.update_s = 5 * weights_s;
}

const struct modelled_device gpu_p100 = {
    .name = "gpu:p100",
    .summary = "NVIDIA P100 by its peak rates in single precision: costs from a model, not measured",
    .element_bytes = 4,
    .cost = cost,
    .data = &(const struct gpu){.multiply_adds_per_s = 4.65e12, .bytes_per_s = 732e9},
};

const struct modelled_device gpu_v100 = {
    .name = "gpu:v100",
    .summary = "NVIDIA V100 by its peak rates in single precision: costs from a model, not measured",
    .element_bytes = 4,
    .cost = cost,
    .data = &(const struct gpu){.multiply_adds_per_s = 7.85e12, .bytes_per_s = 900e9},
};
