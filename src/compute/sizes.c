/* The rule that gives a stage's sizes from those of its layers. */
#include "compute/sizes.h"

#include <assert.h>

#include "base/number.h"

struct stage_sizes stage_sizes_compose(const struct layer_sizes *layers, int layer_count, int64_t input_bytes, int first,
                                       int last) {
    assert(0 <= first && first <= last && last < layer_count);
    struct stage_sizes stage = {
        .input_bytes = first > 0 ? layers[first - 1].output_bytes : input_bytes,
        .output_bytes = last < layer_count - 1 ? layers[last].output_bytes : 0,
    };
    const int64_t twice = stage_sizes_twice(&layers[last], layer_count, first, last);
    int64_t value_before = first > 0 ? layers[first - 1].value_bytes : input_bytes;
    int64_t stash = layers[last].tail_bytes - value_before; /* which the input block holds */
    int64_t workspace = 0, inner_cut = 0;
    for (int l = first; l <= last; l++) {
        stage.parameter_bytes += layers[l].parameter_bytes;
        stage.tied_bytes += layers[l].tied_bytes;
        stage.statistics_bytes += layers[l].statistics_bytes;
        stage.fixed_bytes += layers[l].fixed_bytes;
        stage.delta_bytes += layers[l].delta_bytes;
        stash += layers[l].stash_bytes;
        workspace = number_larger(workspace, layers[l].workspace_bytes);
        if (l < last) inner_cut = number_larger(inner_cut, layers[l].output_bytes);
    }
    stage.parameter_bytes -= twice;
    stage.tied_bytes -= twice;
    stage.second_gradient_bytes = twice;
    int gradient_blocks = last - first < 2 ? last - first : 2;
    stage.stash_bytes = number_larger(stash, 0);
    stage.workspace_bytes = workspace + gradient_blocks * inner_cut;
    return stage;
}
