/* The rule that gives a stage's sizes from those of its layers. */
#include "compute/sizes.h"

#include <assert.h>

#include "base/number.h"

void stage_sizes_tie(const struct layer_sizes *begin, const struct layer_sizes *end, int layer_count, const struct ties *ties,
                     int first, int last, struct stage_sizes *sizes) {
    const bool starts = first == 0, ends = last > 0 && last == layer_count - 1;
    if (ties) {
        sizes->repeated_gradient_bytes = ties_repeated_bytes(ties, first, last, false);
        sizes->narrow_bytes -= ties_repeated_bytes(ties, first, last, true);
        sizes->tied_bytes = ties_outside_bytes(ties, first, last);
    } else {
        sizes->repeated_gradient_bytes = starts && ends ? end->tied_bytes : 0;
        sizes->narrow_bytes -= number_smaller(sizes->repeated_gradient_bytes, end->narrow_bytes);
        sizes->tied_bytes = starts == ends ? 0 : starts ? begin->tied_bytes : end->tied_bytes;
    }
    sizes->parameter_bytes -= sizes->repeated_gradient_bytes;
}

struct stage_sizes stage_sizes_compose(const struct layer_sizes *layers, int layer_count, const struct ties *ties,
                                       int64_t input_bytes, int first, int last) {
    assert(0 <= first && first <= last && last < layer_count);
    struct stage_sizes stage = {
        .input_bytes = first > 0 ? layers[first - 1].output_bytes : input_bytes,
        .output_bytes = last < layer_count - 1 ? layers[last].output_bytes : 0,
    };
    if (first > 0) stage.input = layer_output_numbers(&layers[first - 1]);
    if (last < layer_count - 1) stage.output = layer_output_numbers(&layers[last]);
    int64_t value_before = first > 0 ? layers[first - 1].value_bytes : input_bytes;
    int64_t stash = layers[last].tail_bytes - value_before; /* which the input block holds */
    int64_t workspace = 0, inner_cut = 0;
    for (int l = first; l <= last; l++) {
        stage.parameter_bytes += layers[l].parameter_bytes;
        stage.narrow_bytes += layers[l].narrow_bytes;
        stage.statistics_bytes += layers[l].statistics_bytes;
        stage.fixed_bytes += layers[l].fixed_bytes;
        stage.delta_bytes += layers[l].delta_bytes;
        stash += layers[l].stash_bytes;
        workspace = number_larger(workspace, layers[l].workspace_bytes);
        if (l < last) inner_cut = number_larger(inner_cut, layers[l].output_bytes);
    }
    stage_sizes_tie(&layers[first], &layers[last], layer_count, ties, first, last, &stage);
    int gradient_blocks = last - first < 2 ? last - first : 2;
    stage.stash_bytes = number_larger(stash, 0);
    stage.workspace_bytes = workspace + gradient_blocks * inner_cut;
    return stage;
}

struct wire_numbers layer_output_numbers(const struct layer_sizes *layer) {
    struct wire_numbers numbers = layer->output;
    int64_t known = 0;
    for (int type = 0; type < TYPE_COUNT; type++) known += numbers.of[type];
    if (known == 0) numbers.of[TYPE_F32] = layer->output_bytes / (int64_t)number_types[TYPE_F32].bytes;
    return numbers;
}

void stage_sizes_encode(struct stage_sizes *sizes, const struct stage_wire *wire) {
    const struct wire_numbers gradients = stage_gradient_numbers(sizes);
    const struct {
        const struct wire *wire;
        const struct wire_numbers *numbers;
    } coded[WIRE_CODED] = {[WIRE_ACTIVATION_SENT] = {&wire->after.activation, &sizes->output},
                           [WIRE_ACTIVATION_RECEIVED] = {&wire->before.activation, &sizes->input},
                           [WIRE_GRADIENT_SENT] = {&wire->before.gradient, &sizes->input},
                           [WIRE_GRADIENT_RECEIVED] = {&wire->after.gradient, &sizes->output},
                           [WIRE_SUM] = {&wire->sum.share, &gradients}};
    for (int c = 0; c < WIRE_CODED; c++) {
        const bool received = c == WIRE_ACTIVATION_RECEIVED || c == WIRE_GRADIENT_RECEIVED;
        if (c < WIRE_BLOCKS) sizes->wire_bytes[c] = wire_bytes(coded[c].wire, coded[c].numbers);
        sizes->feedback_bytes[c] = received ? 0 : wire_feedback_bytes(coded[c].wire, coded[c].numbers);
    }
    sizes->sum_wire = wire->sum;
}

int64_t stage_sum_bytes(const struct stage_sizes *sizes) {
    const struct wire_numbers gradients = stage_gradient_numbers(sizes);
    int64_t bytes = stage_gradient_bytes(sizes);
    if (sizes->sum_wire.share.codec != WIRE_NONE)
        bytes = (wire_bytes(&sizes->sum_wire.share, &gradients) + wire_bytes(&sizes->sum_wire.sum, &gradients)) / 2;
    return bytes + sizes->statistics_bytes;
}
