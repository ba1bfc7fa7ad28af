/*
 * FPGA boards after FPDeep (Geng et al., FCCM 2018), as BaPipe's simulator uses them (section 4.3, Table V).
 *
 * FPDeep implements all layers of a stage on one board at the same time. Each has a share of the multipliers in proportion to
 * its arithmetic, and all process one stream of images. A micro-batch then takes as long as if the layers ran one after another
 * with all multipliers; so times of layers are summed here, too.
 *
 *   arithmetic   a DSP slice makes one half-precision multiply-add a cycle (assumed, as FPDeep designs its units); all are busy
 *   DDR memory   what the backward needs of the features is written in the forward and read in the backward
 *   weights      weights and their gradients stay on chip where those of all its stages fit there. Where they do not, the
 *                forward and the input gradient read the weights, the weight gradient is read and written, and an update reads
 *                both and writes the weights
 *
 *   fill         a layer can begin when the previous one has made the rows that its window needs. So before all layers of a
 *                stage are busy some samples have to pass, and the same when they drain. Where a board alternates between
 *                forwards and backwards (1F1B-AS) it drains each time; where each direction has its own stream (FBP-AS) it
 *                does not. This is why FBP-AS uses all slices with smaller micro-batches (BaPipe, section 3.2.1)
 *
 * The time of a part of a layer is the longer of arithmetic and memory traffic, which overlap. The clock rate is assumed: the
 * paper does not state it, and it cancels in every comparison that memory does not enter. Transceivers (32.75 Gbit/s GTY, 58
 * Gbit/s GTM lanes) are a property of links and belong in cluster files.
 */
#include <math.h>

#include "base/number.h"
#include "profile/modelled.h"

#define CLOCK_HZ 200e6

struct board {
    double dsp_slices, ddr_bytes_per_s;
};

static double longer(double arithmetic_s, double bytes, const struct board *board) {
    return fmax(arithmetic_s, bytes / board->ddr_bytes_per_s);
}

/* One direction: its time with weights on chip, and the additional time if `weight_bytes` are transferred, too. */
static void set(double arithmetic_s, double feature_bytes, double weight_bytes, const struct board *board, double *time_s,
                double *spill_s) {
    *time_s = longer(arithmetic_s, feature_bytes, board);
    *spill_s = longer(arithmetic_s, feature_bytes + weight_bytes, board) - *time_s;
}

/* The share of a sample that a node must have read before it makes its first row: of a convolution's or a pool's window the
 * rows that are not padding. A layer without rows of its own reads all of an image. */
static double fill_of(const struct graph *graph, const struct node *node) {
    if (node->input_count == 0) return 0;
    struct shape input = graph->nodes[node->inputs[0]].shape;
    const double images = (double)number_larger(shape_take_image(&input), 1);
    double rows = node->attributes.kernel_h - 1 - node->attributes.pad_h;
    switch (node->id) {
    case OPERATOR_CONVOLUTION:
    case OPERATOR_MAX_POOL:
    case OPERATOR_AVERAGE_POOL:
        return input.dim[1] > 0 ? fmin(1, fmax(0, rows) / (double)input.dim[1]) / images : 0;
    case OPERATOR_LINEAR:
        return input.image[1] > 1 ? 1 : 0;
    default:
        return 0;
    }
}

static void cost(const struct modelled_device *device, const struct layer_work *work, struct layer_cost *cost) {
    const struct board *board = device->data;
    double rate = board->dsp_slices * CLOCK_HZ, pass_s = work->multiply_adds / rate;
    for (int n = work->layer->node_first; n < work->layer->node_first + work->layer->node_count; n++)
        cost->fill += fill_of(work->graph, &work->graph->nodes[n]) / work->samples;
    double weights = (double)cost->size.parameter_bytes, kept = (double)cost->size.stash_bytes;
    set(pass_s, kept, weights, board, &cost->time.forward_s, &cost->spill.forward_s);
    set(work->first ? 0 : pass_s, work->parameters ? 0 : kept, work->first ? 0 : weights, board, &cost->time.backward_input_s,
        &cost->spill.backward_input_s);
    if (!work->parameters) return;
    set(pass_s, kept, 2 * weights, board, &cost->time.backward_weight_s, &cost->spill.backward_weight_s);
    set(weights / device->element_bytes / rate, 0, 3 * weights, board, &cost->time.update_s, &cost->spill.update_s);
}

#define MEGABITS(count) ((int64_t)((count)*1e6 / 8))
#define BOARD(variable, board_name, slices, on_chip_megabits, about)                                                           \
    const struct modelled_device variable = {                                                                                  \
        .name = board_name,                                                                                                    \
        .summary = about,                                                                                                      \
        .element_bytes = 2,                                                                                                    \
        .fast_memory_bytes = MEGABITS(on_chip_megabits),                                                                       \
        .cost = cost,                                                                                                          \
        .data = &(const struct board){.dsp_slices = slices, .ddr_bytes_per_s = 40e9},                                          \
    }

BOARD(fpga_vcu118, "fpga:vcu118", 6840, 345.9, "Xilinx VCU118 by FPDeep's design: costs from a model, not measured");
BOARD(fpga_vcu129, "fpga:vcu129", 12288, 454.9, "Xilinx VCU129, likewise");
