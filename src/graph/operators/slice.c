/*
 * Some positions along an axis: reads axis, first, count and step. Usually those of a sequence: T x D to count x D. A network
 * that reads two sequences may get them behind each other in one sample, and takes each with a slice.
 */
#include "graph/operators.h"

static enum ps_status infer(struct attributes *attributes, const struct shape *inputs, int input_count, struct shape *output,
                            struct ps_error *error) {
    TRY(require_axis(inputs, attributes->axis, error));
    TRY(require_plain(inputs, input_count, error));
    if (attributes->step == 0) attributes->step = 1;
    int64_t first = attributes->first, count = attributes->count, all = inputs->dim[attributes->axis];
    int64_t last = first + (count - 1) * attributes->step;
    if (first < 0 || count < 1 || first >= all || last < 0 || last >= all)
        return error_set(error, PS_USAGE, "%lld positions from position %lld on in steps of %d: its input has %lld",
                         (long long)count, (long long)first, attributes->step, (long long)all);
    *output = inputs[0];
    output->dim[attributes->axis] = count;
    memset(output->image, 0, sizeof output->image);
    return PS_OK;
}

const struct operator_type operator_slice = {
    .name = "slice",
    .attributes = {INTEGER(first, 0, FEATURES_MAX, 0), INTEGER(count, 1, FEATURES_MAX, REQUIRED),
                   INTEGER(axis, 0, SHAPE_RANK_MAX - 1, 1), INTEGER(step, -FEATURES_MAX, FEATURES_MAX, 1)},
    .flags = OPERATOR_MOVES,
    .inputs_min = 1,
    .inputs_max = 1,
    .types = any_type,
    .infer = infer,
    .flops = no_flops,
};
