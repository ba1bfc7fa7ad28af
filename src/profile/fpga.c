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
 * The time of a part of a layer is the longer of arithmetic and memory traffic, which overlap. The clock rate is assumed: the
 * paper does not state it, and it cancels in every comparison that memory does not enter. Transceivers (32.75 Gbit/s GTY, 58
 * Gbit/s GTM lanes) are a property of links and belong in cluster files.
 */
#include <math.h>

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

static void cost(const struct modelled_device *device, const struct layer_work *work, struct layer_cost *cost) {
    const struct board *board = device->data;
    double rate = board->dsp_slices * CLOCK_HZ, pass_s = work->multiply_adds / rate;
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
